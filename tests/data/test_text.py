"""Text files as windows of tokens."""

from __future__ import annotations

import numpy as np
import pytest

import basegraph as bg
from basegraph.data import DataError, load, text
from basegraph.data._text import EMBEDDED
from basegraph.engines.device import DeviceData, on_device, pick_device

CONTEXT = 8


@pytest.fixture
def folder(tmp_path):
    """Three files of different lengths, one below a folder."""
    random = np.random.default_rng(0)
    (tmp_path / "deep").mkdir()
    for name, size in (("a", 400), ("b", 1000), ("deep/c", 18)):
        (tmp_path / f"{name}.txt").write_bytes(random.integers(0, 256, size, np.uint8).tobytes())
    (tmp_path / "notes.md").write_text("not a text")
    (tmp_path / ".hidden.txt").write_text("not to be read")
    return tmp_path


def contents(folder, name):
    return np.frombuffer((folder / f"{name}.txt").read_bytes(), np.uint8)


def test_windows_are_the_files_in_order(folder):
    dataset = text(folder, context=CONTEXT)
    assert dataset.text.domains == ("a", "b", "deep/c")
    assert dataset.vocabulary == 256
    for place, name in enumerate(dataset.text.domains):
        own = dataset.groups == place
        written = contents(folder, name)
        inputs, targets = dataset.train.inputs[own], dataset.train.targets[own]
        count = inputs.size
        assert np.array_equal(inputs.ravel(), written[:count])
        assert np.array_equal(targets.ravel(), written[1 : count + 1])


def test_the_end_of_every_file_is_held_out(folder):
    dataset = text(folder, context=CONTEXT)
    for place, name in enumerate(dataset.text.domains):
        written = contents(folder, name)
        cut = len(written) - max(CONTEXT + 1, -(-len(written) // 20))
        held_out = dataset.test.inputs[dataset.text.test_domains == place]
        assert len(held_out) == (len(written) - cut - 1) // CONTEXT
        assert np.array_equal(held_out.ravel(), written[cut : cut + held_out.size])
        trained = dataset.train.inputs[dataset.groups == place].size
        assert cut - CONTEXT <= trained + 1 <= cut, name


def test_all_windows_are_views_of_one_array_of_bytes(folder):
    split = text(folder, context=CONTEXT).train
    rows = split.windows()
    assert rows.dtype == np.uint8
    assert np.shares_memory(split.inputs, rows)
    assert np.shares_memory(split.targets, rows)
    inputs, targets = on_device(split, pick_device("cpu"))
    assert inputs.untyped_storage().data_ptr() == targets.untyped_storage().data_ptr()
    assert inputs.untyped_storage().data_ptr() == rows.__array_interface__["data"][0]


def test_what_models_get_are_int64(folder):
    dataset = text(folder, context=CONTEXT)
    data = DeviceData(dataset, pick_device("cpu"))
    import torch

    places = torch.tensor([[0, 5], [7, 1]])
    samples, targets = data.batch({"sample": places})
    assert samples.dtype == targets.dtype == torch.int64
    assert np.array_equal(samples.numpy(), dataset.train.inputs[places.numpy()])
    assert np.array_equal(targets.numpy(), dataset.train.targets[places.numpy()])


def test_which_tokens_are_windows_of_one_array():
    rows = np.arange(40).reshape(4, 10)
    for part in (rows, rows[:, :-3], rows[::2, 2:]):
        windows = bg.Split(part[:, :-1], part[:, 1:]).windows()
        assert np.array_equal(windows, part)
        assert np.shares_memory(windows, rows)
    assert bg.Split(rows[:, :-1].copy(), rows[:, 1:]).windows() is None
    assert bg.Split(rows[:, :-2], rows[:, 2:]).windows() is None
    assert bg.Split(rows[:, :-2:2], rows[:, 1:-1:2]).windows() is None
    assert bg.Split(rows[:, 1:], rows[:, :-1]).windows() is None  # backwards
    assert bg.Split(rows[:, :-1].astype(float), rows[:, 1:]).windows() is None


def test_a_file_is_one_domain(folder):
    dataset = text(folder / "a.txt", context=CONTEXT)
    assert dataset.text.domains == ("a",)
    assert dataset.name == f"text:{folder / 'a.txt'}"
    assert dataset.text.train_bytes.sum() == dataset.train.targets.size


def test_names_are_looked_up_in_the_data_folder_first(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert load("text:a.txt", context=CONTEXT).text.domains == ("a",)  # as it is written
    (folder / "data").mkdir()
    (folder / "data" / "a.txt").write_text("something else " * 20)
    assert bytes(load("text:a.txt", context=9).train.inputs[0]) == b"something"
    with pytest.raises(DataError, match=r"text:none: there is no file or folder data/none, nor"):
        load("text:none")


def test_the_embedded_text_needs_no_file():
    dataset = load("text", context=128)
    assert dataset.name == "text"
    assert len(dataset.text.domains) >= 4
    assert all(path.read_bytes().isascii() for path in EMBEDDED.glob("*.txt"))
    assert (EMBEDDED / "ORIGIN.md").is_file()


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda f: f / "none", "there is no such file or folder"),
        (lambda f: f / "empty", r"has no \.txt files"),
        (lambda f: f / "other", r"has no \.txt files"),
        (lambda f: f / "nothing", r"nothing\.txt: has 0 tokens"),
        (lambda f: f / "short", "has 17 tokens; a training and a test window of context 8 take 18"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path, make, complaint):
    for name in ("empty", "other", "nothing", "short"):
        (tmp_path / name).mkdir()
    (tmp_path / "other" / "image.png").write_bytes(b"png")
    (tmp_path / "nothing" / "nothing.txt").touch()
    (tmp_path / "short" / "short.txt").write_text("x" * 17)
    with pytest.raises(DataError, match=complaint):
        text(make(tmp_path), context=CONTEXT)


def test_bad_arguments_are_refused(folder):
    with pytest.raises(bg.InvalidArgument, match="context=0: must be an integer ≥ 1"):
        text(folder, context=0)
    with pytest.raises(bg.InvalidArgument, match=r"held_out=1.0: must be a number in \[0, 1\)"):
        text(folder, held_out=1.0)
    with pytest.raises(bg.InvalidArgument, match="tokenizer='t': is for text, not for"):
        load("digits", tokenizer="t")


@pytest.mark.parametrize(
    ("inputs", "targets", "complaint"),
    [
        (np.full((3, 4), 9), np.zeros((3, 4), int), r"token 9 is not in the vocabulary 0\.\.8"),
        (np.zeros((3, 4), int), np.full((3, 4), -1), "token -1 is not in the vocabulary"),
        (np.zeros((3, 4), int), np.zeros(3, int), "inputs and targets must be tokens"),
    ],
)
def test_tokens_are_of_the_vocabulary(inputs, targets, complaint):
    split = bg.Split(inputs, targets)
    with pytest.raises(DataError, match=complaint):
        bg.Dataset("tokens", split, split, vocabulary=9)


def test_links_are_followed_and_capitals_read(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "far.TXT").write_bytes(bytes(100))
    (folder / "link").symlink_to(elsewhere)
    (folder / "link2").symlink_to(elsewhere)
    (folder / "deep" / "loop").symlink_to(folder)
    (folder / "other.txt").symlink_to(folder / "a.txt")
    dataset = text(folder, context=CONTEXT)
    assert dataset.text.domains == ("a", "b", "deep/c", "link/far", "other")
    (folder / "gone.txt").symlink_to(folder / "nothing")
    with pytest.raises(DataError, match=r"gone\.txt: is a broken symbolic link"):
        text(folder, context=CONTEXT)


@pytest.mark.parametrize(
    "wrong",
    [{"path": ""}, {"path": None}, {"tokenizer": 5}, {"tokenizer": ""}, {"held_out": "a"}],
)
def test_wrong_arguments_are_named(folder, wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(bg.InvalidArgument, match=f"{name}={value!r}: must be"):
        text(**{"path": folder, **wrong})


def test_the_home_folder(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    assert load("text:~/deep", context=CONTEXT).text.domains == ("c",)


def test_two_files_of_one_name_are_refused(folder):
    (folder / "a.TXT").write_bytes(bytes(100))
    with pytest.raises(DataError, match=r"differ only in the case of \.txt"):
        text(folder, context=CONTEXT)


def test_a_text_larger_than_memory_is_refused_unread(folder, monkeypatch):
    monkeypatch.setattr("basegraph.data._text.available_memory", lambda: 2000)
    with pytest.raises(
        DataError, match="has 1418 bytes of text; the memory available here is 1000"
    ):
        text(folder, context=CONTEXT)


@pytest.mark.parametrize("name", ["", 5])
def test_a_name_that_is_none_is_refused(name, tmp_path):
    (tmp_path / "a.txt").write_text("some text " * 90)
    with pytest.raises(bg.InvalidArgument, match=f"^name={name!r}: must be a name"):
        bg.text(tmp_path, name=name)
