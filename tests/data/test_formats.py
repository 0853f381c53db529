"""Readers of the official formats, on small files made here."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import struct
import tarfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from basegraph.data import catalog
from basegraph.data.catalog import DATASETS, Published, PublishedDataset, download, load
from basegraph.data.dataset import DataError
from basegraph.data.formats import (
    md5,
    parse_cifar_binary,
    parse_cifar_python,
    read_idx,
    read_image_tree,
)

DRAWS = np.random.default_rng(0)


def idx(array):
    return (
        bytes([0, 0, 8, array.ndim])
        + struct.pack(f">{array.ndim}I", *array.shape)
        + array.tobytes()
    )


@pytest.mark.parametrize("zipped", [True, False])
def test_idx(tmp_path, zipped):
    images = DRAWS.integers(0, 256, (5, 4, 3), dtype=np.uint8)
    path = tmp_path / ("x.gz" if zipped else "x")
    path.write_bytes(gzip.compress(idx(images)) if zipped else idx(images))
    assert np.array_equal(read_idx(path), images)
    assert read_idx(path).flags.writeable


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "not an idx file"),
        (b"\x00\x00\x0d\x01aaaa", "not an idx file"),
        (b"\x00\x00\x08\x03\x00", "cut short in its header"),
        (b"\x00\x00\x08\xff" + bytes(4 * 255), "has 255 axes"),
        (b"\x00\x00\x08\x00a", "has 0 axes"),
        (idx(np.zeros((2, 3), np.uint8))[:-1], "has 5 bytes of data instead of 6"),
    ],
)
def test_broken_idx(tmp_path, content, complaint):
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(DataError, match=complaint):
        read_idx(path)


def test_broken_gzip(tmp_path):
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(idx(np.zeros((2, 3), np.uint8)))[:-6])
    with pytest.raises(DataError, match="cannot be read"):
        read_idx(path)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_cifar_python(protocol):
    pixels = DRAWS.integers(0, 256, (3, 3072), dtype=np.uint8)
    batch = {b"data": pixels, b"labels": [1, 0, 9], b"batch_label": b"x"}
    split = parse_cifar_python(pickle.dumps(batch, protocol=protocol), "x", b"labels")
    assert np.array_equal(split.inputs.reshape(3, -1), pixels)
    assert split.targets.tolist() == [1, 0, 9]


def test_cifar_python_as_python_2_has_written_it():
    pixels = DRAWS.integers(0, 256, (2, 3072), dtype=np.uint8)
    content = pickle.dumps({b"data": pixels, b"labels": [1, 0]}, protocol=3)
    for modern, old in (
        (b"B" + struct.pack("<I", pixels.size), b"T" + struct.pack("<i", pixels.size)),
        (b"X\x02\x00\x00\x00u1", b"U\x02u1"),
        (b"X\x01\x00\x00\x00|", b"U\x01|"),
        (b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n"),
        (b"C\x04data", b"U\x04data"),
        (b"C\x06labels", b"U\x06labels"),
    ):
        assert content.count(modern) == 1, modern
        content = content.replace(modern, old)
    split = parse_cifar_python(content, "x", b"labels")
    assert np.array_equal(split.inputs.reshape(2, -1), pixels)


class Evil:
    def __reduce__(self):
        return os.system, ("touch /tmp/should-not-exist",)


def test_a_pickle_with_code_in_it_is_refused():
    with pytest.raises(DataError, match=r"refuses (posix|nt)\.system"):
        parse_cifar_python(pickle.dumps({b"data": Evil()}), "x", b"labels")
    assert not Path("/tmp/should-not-exist").exists()


def restored(dtype, content, shape=(1, 3072), state=(3, "|", None, None, None, -1, -1, 0)):
    """A pickle of an array as numpy's own pickles describe it, with anything for its content."""

    class Kind:
        def __reduce__(self):
            return np.dtype, (dtype, False, True), state

    class Array:
        def __reduce__(self):
            reconstruct = np.array(0).__reduce__()[0]
            return reconstruct, (np.ndarray, (0,), b"b"), (1, shape, Kind(), False, content)

    return pickle.dumps({b"data": Array(), b"labels": [0]}, protocol=2)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (restored("O8", [0] * 3072), "refuses arrays of type 'O8'"),
        (restored("O", b"A" * 8 * 3072), "refuses arrays of type 'O'"),
        (restored("V8", bytes(8 * 3072)), "refuses arrays of type 'V8'"),
        (restored("u1", [0] * 3072), "refuses an array that is not of numbers"),
        (restored("u1", bytes(10)), "an array of .* has 10 bytes"),
        (restored("u1", bytes(3072), (-1, -3072)), "refuses an array of shape"),
        (
            restored("i8", bytes(8 * 3072), state=(3, "|", None, ("a",), {"a": 1}, 8, 8, 0)),
            "refuses arrays of a type with parts",
        ),
        (restored("f8", bytes(8 * 3072)), "data must be an array of bytes"),
        (pickle.dumps({b"data": [0] * 3072, b"labels": [0]}), "data must be an array of bytes"),
        (b"\x80\x02Nr\xff\xff\xff\x7f.", "is not a CIFAR batch"),
    ],
)
def test_hostile_arrays_are_refused(content, complaint):
    with pytest.raises(DataError, match=complaint):
        parse_cifar_python(content, "x", b"labels")


@pytest.mark.parametrize("labels", [[0.5], [[0]], (0,), ["0"], [2**70]])
def test_labels_that_are_no_list_of_integers_are_refused(labels):
    batch = {b"data": np.zeros((1, 3072), np.uint8), b"labels": labels}
    with pytest.raises(DataError, match="is not a CIFAR batch"):
        parse_cifar_python(pickle.dumps(batch, protocol=2), "x", b"labels")


def test_a_pickle_that_asks_for_memory_does_not_get_it():
    batch = {b"data": np.zeros((1, 3072), np.uint8), b"labels": [0]}
    content = pickle.dumps(batch, protocol=2)
    place = b"r" + (2**24).to_bytes(4, "little")  # "remember the dictionary under this number"
    tracemalloc.start()
    split = parse_cifar_python(content[:-1] + place + b".", "x", b"labels")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert split.targets.tolist() == [0]
    assert peak < 10**7


def test_cifar_binary():
    rows = DRAWS.integers(0, 256, (4, 3074), dtype=np.uint8)
    split = parse_cifar_binary(rows.tobytes(), "x", 2)
    assert split.targets.tolist() == rows[:, 1].tolist()
    assert np.array_equal(split.inputs.reshape(4, -1), rows[:, 2:])
    with pytest.raises(DataError, match="not whole records of 3073"):
        parse_cifar_binary(rows.tobytes(), "x", 1)


def image_bytes(color, size=(4, 4), kind="PNG"):
    buffer = io.BytesIO()
    Image.new("RGB", size, color).save(buffer, kind)
    return buffer.getvalue()


def image_files():
    return {
        f"{part}/{kind}/{i}.png": image_bytes((10 * c, i, 0))
        for part, count in (("train", 3), ("test", 2))
        for c, kind in enumerate(("cat", "dog"))
        for i in range(count)
    }


@pytest.mark.parametrize("form", ["folder", "tar.xz", "tar.gz", "tar"])
def test_images_by_class(tmp_path, form):
    path = tmp_path / "set" if form == "folder" else tmp_path / f"set.{form}"
    if form == "folder":
        for name, content in image_files().items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)
    else:
        with tarfile.open(path, f"w:{form[4:]}" if form != "tar" else "w") as archive:
            for name, content in image_files().items():
                info = tarfile.TarInfo(f"top/{name}")
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    train, test, names = read_image_tree(path)
    assert names == ["cat", "dog"]
    assert train.targets.tolist() == [0, 0, 0, 1, 1, 1]
    assert test.inputs.shape == (4, 3, 4, 4)
    assert train.inputs[4, :, 0, 0].tolist() == [10, 1, 0]
    dataset = load(f"images:{path.name}", tmp_path)
    assert dataset.shape == (3, 4, 4)
    if form != "folder":
        path.write_bytes(path.read_bytes()[: len(path.read_bytes()) // 2])
        with pytest.raises(DataError, match="set"):
            read_image_tree(path)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("train/cat/9.png", b"no image", "train/cat/9.png is not a whole image"),
        ("train/cat/9.png", image_bytes("red", (5, 4)), "images differ in size"),
        ("test/cow/9.png", image_bytes("red"), "class cow is in test but not in train"),
    ],
)
def test_broken_image_trees(tmp_path, name, content, complaint):
    for path, data in {**image_files(), name: content}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    with pytest.raises(DataError, match=complaint):
        read_image_tree(tmp_path)


def test_empty_tree(tmp_path):
    with pytest.raises(DataError, match="has no images train/CLASS"):
        read_image_tree(tmp_path)


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A dataset of two small idx pairs under the name mnist, with its checksums."""
    arrays = [
        DRAWS.integers(0, 256, (20, 6, 6), dtype=np.uint8),
        np.arange(20, dtype=np.uint8) % 10,
        DRAWS.integers(0, 256, (10, 6, 6), dtype=np.uint8),
        np.arange(10, dtype=np.uint8),
    ]
    source = tmp_path / "published"
    source.mkdir()
    files = []
    for name, array in zip(catalog.IDX, arrays, strict=True):
        content = gzip.compress(idx(array), mtime=0)
        (source / f"{name}.gz").write_bytes(content)
        files.append(Published(f"{name}.gz", (md5(content), md5(idx(array)))))
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
    path = folder / "mnist" / f"{catalog.IDX[0]}.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="train-images"):
        load("mnist", folder)


def test_a_changed_file_is_refused_and_zipping_again_is_not(tiny):
    _, folder = tiny
    download("mnist", folder)
    path = folder / "mnist" / f"{catalog.IDX[1]}.gz"
    content = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(content, compresslevel=1, mtime=7))
    load("mnist", folder)
    path.write_bytes(gzip.compress(content[:-1] + b"\x07"))
    with pytest.raises(DataError, match=r"MD5 \w+ is not the published"):
        load("mnist", folder)


def test_a_download_that_is_not_what_it_should_be_is_not_kept(tiny):
    source, folder = tiny
    (source / f"{catalog.IDX[2]}.gz").write_bytes(b"<html>moved</html>")
    with pytest.raises(DataError, match="as fetched"):
        download("mnist", folder)
    assert not (folder / "mnist" / f"{catalog.IDX[2]}.gz").exists()
    (source / f"{catalog.IDX[2]}.gz").unlink()
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
