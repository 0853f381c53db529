"""Published datasets: downloaded, checked, loaded; small files stand for them."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from basegraph.data.catalog import download, load
from basegraph.data.dataset import DataError
from basegraph.data.formats import md5
from basegraph.data.published import DATASETS, IDX, PublishedDataset, PublishedFile
from support.datasets import idx


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A dataset of two small idx pairs under the name mnist, with its checksums."""
    random = np.random.default_rng(0)
    arrays = [
        random.integers(0, 256, (20, 6, 6), dtype=np.uint8),
        np.arange(20, dtype=np.uint8) % 10,
        random.integers(0, 256, (10, 6, 6), dtype=np.uint8),
        np.arange(10, dtype=np.uint8),
    ]
    source = tmp_path / "published"
    source.mkdir()
    files = []
    for name, array in zip(IDX, arrays, strict=True):
        content = gzip.compress(idx(array), mtime=0)
        (source / f"{name}.gz").write_bytes(content)
        files.append(PublishedFile(f"{name}.gz", (md5(content), md5(idx(array)))))
    real = DATASETS["mnist"]
    entry = PublishedDataset(
        real.name, real.what, real.site, source.as_uri() + "/", (tuple(files),), real.read, 10
    )
    monkeypatch.setitem(DATASETS, "mnist", entry)
    return source, tmp_path / "data"


def test_download_check_and_load(tiny):
    _, folder = tiny
    with pytest.raises(DataError, match=r"mnist: put train-images.* into .*mnist \(published at"):
        load("mnist", folder)
    assert len(download("mnist", folder)) == 4
    assert download("mnist", folder) == []
    dataset = load("mnist", folder)
    assert dataset.shape == (1, 6, 6)
    assert (len(dataset.train), len(dataset.test)) == (20, 10)


def test_a_file_cut_short_is_refused(tiny):
    _, folder = tiny
    download("mnist", folder)
    path = folder / "mnist" / f"{IDX[0]}.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="train-images"):
        load("mnist", folder)


def test_a_changed_file_is_refused_and_zipping_again_is_not(tiny):
    _, folder = tiny
    download("mnist", folder)
    path = folder / "mnist" / f"{IDX[1]}.gz"
    content = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(content, compresslevel=1, mtime=7))
    load("mnist", folder)
    path.write_bytes(gzip.compress(content[:-1] + b"\x07"))
    with pytest.raises(DataError, match=r"MD5 \w+ is not the published"):
        load("mnist", folder)


def test_a_download_that_is_not_what_it_should_be_is_not_kept(tiny):
    source, folder = tiny
    (source / f"{IDX[2]}.gz").write_bytes(b"<html>moved</html>")
    with pytest.raises(DataError, match="as fetched"):
        download("mnist", folder)
    assert not (folder / "mnist" / f"{IDX[2]}.gz").exists()
    (source / f"{IDX[2]}.gz").unlink()
    with pytest.raises(DataError, match="cannot be fetched"):
        download("mnist", folder)


def test_digits_need_no_file():
    digits = load("digits")
    assert (len(digits.train), len(digits.test), digits.classes) == (1438, 359, 10)
    mean, std = digits.statistics()
    pixels = digits.train.inputs / 255
    assert mean[0] == pytest.approx(pixels.mean(), rel=1e-5)
    assert std[0] == pytest.approx(pixels.std(), rel=1e-5)


def test_unknown_names():
    with pytest.raises(ValueError, match="dataset='minst': did you mean 'mnist'"):
        load("minst")


def test_real_mnist(shared_data):
    dataset = load("mnist", shared_data)
    assert (len(dataset.train), len(dataset.test)) == (60_000, 10_000)
    assert dataset.train.targets[:5].tolist() == [5, 0, 4, 1, 9]
