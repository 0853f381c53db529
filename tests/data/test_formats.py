"""Readers of the official formats, on small files made here."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import tarfile

import numpy as np
import pytest
from PIL import Image

from basegraph.data.catalog import load
from basegraph.data.dataset import DataError
from basegraph.data.formats import (
    parse_cifar_binary,
    parse_cifar_python,
    read_idx,
    read_image_tree,
)
from support.datasets import idx

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("zipped", [True, False])
def test_idx(tmp_path, zipped):
    images = RANDOM.integers(0, 256, (5, 4, 3), dtype=np.uint8)
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
    pixels = RANDOM.integers(0, 256, (3, 3072), dtype=np.uint8)
    batch = {b"data": pixels, b"labels": [1, 0, 9], b"batch_label": b"x"}
    split = parse_cifar_python(pickle.dumps(batch, protocol=protocol), "x", b"labels")
    assert np.array_equal(split.inputs.reshape(3, -1), pixels)
    assert split.targets.tolist() == [1, 0, 9]


def test_cifar_python_as_python_2_has_written_it():
    pixels = RANDOM.integers(0, 256, (2, 3072), dtype=np.uint8)
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


def test_cifar_binary():
    rows = RANDOM.integers(0, 256, (4, 3074), dtype=np.uint8)
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
