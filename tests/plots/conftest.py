from __future__ import annotations

import pytest

from support.browser import CHROMIUM, FLAGS, new_tab, open_page


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=0)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def tab(browser):
    """Where a test opens its pages."""
    return new_tab(browser)


@pytest.fixture
def page(tab, tmp_path):
    """A page of this test alone, to be clicked on."""
    with open_page(tab, tmp_path / "page.html") as opened:
        yield opened


@pytest.fixture(scope="session")
def functions(browser, tmp_path_factory):
    """The page whose functions are called, and which is never changed."""
    with open_page(new_tab(browser), tmp_path_factory.mktemp("explorer") / "page.html") as opened:
        yield opened
