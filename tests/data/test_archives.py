"""Files that unpack to far more than they hold are refused in one line, in little memory."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import tracemalloc
import zlib

import numpy as np
import pytest
from PIL import Image

from basegraph.data import archives
from basegraph.data import formats as files
from basegraph.data.archives import members, read_bytes
from basegraph.data.catalog import load
from basegraph.data.dataset import DataError
from basegraph.data.formats import read_image_tree
from support.cli import run_here

ZEROS = 2**26


def png(width=4, height=4, chunks=()):
    """A black PNG that declares this size, with more chunks behind its header."""

    def chunk(kind, content):
        checksum = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + checksum

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(bytes(4 * 5)))
    extra = b"".join(chunk(*more) for more in chunks)
    return b"\x89PNG\r\n\x1a\n" + header + extra + pixels + chunk(b"IEND", b"")


TEXT_BOMB = png(chunks=[(b"zTXt", b"comment\0\0" + zlib.compress(bytes(ZEROS)))])


def tree(folder, **images):
    for name in ("train/cat", "train/dog", "test/cat", "test/dog"):
        (folder / name).mkdir(parents=True)
        (folder / name / "0.png").write_bytes(png())
    for name, content in images.items():
        (folder / "train" / "cat" / f"{name}.png").write_bytes(content)
    return folder


def archive(path, **extra):
    """A tar.gz of images, and one more member."""
    with tarfile.open(path, "w:gz") as tar:
        for name in ("train/cat", "train/dog", "test/cat", "test/dog"):
            info = tarfile.TarInfo(f"{name}/0.png")
            info.size = len(png())
            tar.addfile(info, io.BytesIO(png()))
        for name, content in extra.items():
            info = tarfile.TarInfo(f"train/cat/{name.replace('_', '.')}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def peak(work):
    """The most memory that Python's allocators held meanwhile, in bytes."""
    tracemalloc.start()
    try:
        work()
    finally:
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return most


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (png(60_000, 60_000), "exceeds limit"),
        (png(10_000, 10_000), "exceeds limit"),
        (png(5_000, 5_000), "5000 by 5000 pixels, the limit is 16777216 in all"),
        (TEXT_BOMB, "too large"),
        (png()[:-30], "is not a whole image"),
    ],
    ids=["beyond Pillow's error", "beyond Pillow's warning", "large", "text bomb", "cut short"],
)
def test_images_that_unpack_to_too_much(tmp_path, content, complaint, recwarn):
    folder = tree(tmp_path / "set", bomb=content)
    with pytest.raises(DataError, match=complaint) as refused:
        read_image_tree(folder)
    assert "bomb.png is not a whole image" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not recwarn.list


def test_the_command_line_says_it_in_one_line(tmp_path):
    tree(tmp_path / "set", bomb=png(60_000, 60_000))
    done = run_here(
        "train", "--dataset", "images:set", "--data-dir", tmp_path, "--out", tmp_path / "o"
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "train/cat/bomb.png is not a whole image" in done.stderr


@pytest.mark.parametrize("suffix", ["eps", "tga"])
def test_only_the_formats_that_are_promised_are_decoded(tmp_path, suffix):
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4)).save(buffer, suffix)
    folder = tree(tmp_path / "set", other=buffer.getvalue())
    with pytest.raises(DataError, match=r"other\.png is not a whole image"):
        read_image_tree(folder)


def test_what_is_no_image_is_not_unpacked_into_memory(tmp_path):
    path = archive(tmp_path / "set.tar.gz", zeros_bin=bytes(ZEROS))
    assert path.stat().st_size < ZEROS / 500
    assert peak(lambda: load("images:set.tar.gz", tmp_path)) < ZEROS / 4


def test_a_member_above_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MAX_FILE_BYTES", 2**20)
    path = archive(tmp_path / "set.tar.gz", zeros_png=bytes(ZEROS))

    def refused():
        with pytest.raises(DataError, match=r"zeros\.png has 67108864 bytes, the limit is 1048576"):
            read_image_tree(path)

    assert peak(refused) < ZEROS / 4


def test_a_file_of_a_folder_above_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MAX_FILE_BYTES", 1000)
    folder = tree(tmp_path / "set", big=bytes(1001))
    with pytest.raises(DataError, match=r"big\.png has 1001 bytes, the limit is 1000"):
        read_image_tree(folder)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_above_the_limit(tmp_path, monkeypatch, kind):
    """Extended headers say how long they are, and tarfile reads them whole."""
    monkeypatch.setattr(archives, "MAX_FILE_BYTES", 2**20)
    path = tmp_path / "set.tar.gz"
    info = tarfile.TarInfo("header")
    info.type, info.size = kind, ZEROS
    with gzip.open(path, "wb") as file:
        file.write(info.tobuf() + bytes(ZEROS))

    def refused():
        with pytest.raises(DataError, match="a header is larger than 1048576 bytes"):
            read_image_tree(path)

    assert peak(refused) < ZEROS / 4


def test_an_archive_above_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MAX_ARCHIVE_BYTES", 2**20)
    path = archive(tmp_path / "set.tar.gz", zeros_bin=bytes(ZEROS))
    with pytest.raises(DataError, match="unpacks to more than 1048576 bytes"):
        read_image_tree(path)


def test_images_that_together_take_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_IMAGES_BYTES", 3 * 4 * 4 * 3)
    with pytest.raises(DataError, match="its images take more than 144 bytes in memory"):
        read_image_tree(tree(tmp_path / "set"))


def test_a_zipped_file_above_the_limit(tmp_path, monkeypatch):
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(bytes(1000)))
    monkeypatch.setattr(archives, "MAX_FILE_BYTES", 1000)
    assert read_bytes(path) == bytes(1000)
    monkeypatch.setattr(archives, "MAX_FILE_BYTES", 999)
    with pytest.raises(DataError, match=r"x\.gz: is larger than 999 bytes unpacked"):
        read_bytes(path)


@pytest.mark.parametrize("form", ["", "gz", "bz2", "xz"])
def test_every_compression_and_only_wanted_members(tmp_path, form):
    path = tmp_path / "set.any"
    contents = {f"{i}.png": np.full(i, i, np.uint8).tobytes() for i in range(1, 6)}
    with tarfile.open(path, f"w:{form}") as tar:
        for name, content in contents.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    unpacked = {str(name): content for name, content in members(path, lambda p: p.name != "3.png")}
    assert unpacked == {name: content for name, content in contents.items() if name != "3.png"}


def test_no_archive_at_all(tmp_path):
    (tmp_path / "x.tar.gz").write_bytes(b"not an archive")
    with pytest.raises(DataError, match=r"x\.tar\.gz: cannot be read"):
        list(members(tmp_path / "x.tar.gz", lambda name: True))
