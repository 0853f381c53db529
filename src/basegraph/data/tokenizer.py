"""Text as tokens: its bytes, or what a tokenizer file of the `tokenizers` package makes of it."""

from __future__ import annotations

import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from basegraph.data.archives import MAX_FILE_BYTES
from basegraph.data.dataset import Array, DataError, Labels
from basegraph.extras import optional_imports

BYTES = 256
"""The vocabulary of bytes."""
PIECE = 2**18
"""Characters that a tokenizer takes at a time; pieces end at line ends where there are any."""


class Tokens(NamedTuple):
    """A text as tokens."""

    tokens: Array
    """(L,) integers of the smallest type that holds the vocabulary."""
    ends: Labels | None
    """(L,) the byte of the text at which each token ends; None: every byte is a token."""


class Tokenizer(Protocol):
    """Turns text into tokens and back."""

    @property
    def vocabulary(self) -> int:
        """All tokens are below this number."""

    def encode(self, content: Array, name: str) -> Tokens:
        """The tokens of a text, given as its bytes; `name` is the text's in errors."""

    def decode(self, tokens: list[int]) -> str:
        """The text of some tokens."""


class ByteTokenizer:
    """Every byte is a token, whatever it stands for.

    Example:
        >>> ByteTokenizer().decode([104, 105])
        'hi'

    """

    vocabulary = BYTES

    def encode(self, content: Array, name: str) -> Tokens:
        """The bytes themselves, not copied."""
        return Tokens(content, None)

    def decode(self, tokens: list[int]) -> str:
        """The text of these bytes; what is not UTF-8 is replaced by �."""
        return bytes(tokens).decode("utf-8", errors="replace")


class FileTokenizer:
    """A tokenizer of the `tokenizers` package, from its file.

    Args:
        path: A tokenizer.json, as `Tokenizer.save` writes it.

    Raises:
        DataError: There is no such file, or it is not a tokenizer.
        MissingExtra: The `tokenizers` package is not installed.

    """

    def __init__(self, path: Path) -> None:
        with optional_imports():
            import tokenizers

        if not path.is_file():
            raise DataError(f"{path}: there is no such tokenizer file")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise DataError(f"{path}: is larger than {MAX_FILE_BYTES} bytes")
        try:
            self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # of the package's own kind, whatever is wrong with the file
            raise DataError(f"{path}: is not a tokenizer: {error}") from None
        self._tokenizer.no_truncation()  # a file may ask for what suits single sentences
        self._tokenizer.no_padding()
        self.checksum = f"{zlib.crc32(path.read_bytes()):08x}"
        known = self._tokenizer.get_vocab(with_added_tokens=True)
        if not known:
            raise DataError(f"{path}: has an empty vocabulary")
        self.vocabulary = max(known.values()) + 1

    def encode(self, content: Array, name: str) -> Tokens:
        """The tokens of a text in UTF-8, without those that mark its beginning and end."""
        try:
            text = bytes(content).decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}: byte {error.start} is not UTF-8, which a tokenizer needs; without one, "
                "bytes are tokens"
            ) from None
        dtype = smallest_type(self.vocabulary)
        tokens, ends, before = [np.empty(0, dtype)], [np.empty(0, np.int64)], 0
        for piece in _pieces(text):
            try:
                encoded = self._tokenizer.encode(piece, add_special_tokens=False)
            except Exception as error:  # of the package's own kind: no unknown token, say
                raise DataError(f"{name}: the tokenizer refuses it: {error}") from None
            tokens.append(np.array(encoded.ids, dtype=dtype))
            sizes = np.frombuffer(piece.encode("utf-32-le"), dtype="<u4")
            byte_ends = np.concatenate([[0], np.cumsum(_utf8_lengths(sizes))])
            last = np.array([end for _, end in encoded.offsets], dtype=np.int64)
            ends.append(before + byte_ends[last])
            before += int(byte_ends[-1])
        return Tokens(np.concatenate(tokens), np.concatenate(ends))

    def decode(self, tokens: list[int]) -> str:
        """The text of these tokens."""
        text: str = self._tokenizer.decode(tokens, skip_special_tokens=False)
        return text


def decoded_after(tokenizer: Tokenizer, given: list[int], written: list[int]) -> str:
    """The text of tokens that follow others.

    By themselves they may lose a space: decoders strip what a text begins with.

    Args:
        tokenizer: What decodes.
        given: The tokens before.
        written: The tokens that follow.

    """
    before, whole = tokenizer.decode(given), tokenizer.decode([*given, *written])
    # Otherwise a character has begun in one part and ends in the other.
    return whole[len(before) :] if whole.startswith(before) else tokenizer.decode(written)


def smallest_type(vocabulary: int) -> np.dtype[Any]:
    """The smallest type of integers for so many tokens that tensors can be indexed in.

    >>> [str(smallest_type(size)) for size in (256, 32000, 50257)]
    ['uint8', 'int16', 'int32']
    """
    kinds = (np.uint8, np.int16, np.int32)
    return np.dtype(next(kind for kind in kinds if vocabulary <= np.iinfo(kind).max + 1))


def _pieces(text: str) -> list[str]:
    """The text in pieces, each of which ends after a line where it has one."""
    cuts = [0]
    while cuts[-1] < len(text):
        end = cuts[-1] + PIECE
        line = text.rfind("\n", cuts[-1], end) + 1
        cuts.append(len(text) if end >= len(text) else line or end)
    return [text[begin:end] for begin, end in pairwise(cuts)]


def _utf8_lengths(characters: NDArray[np.uint32]) -> Labels:
    """Bytes of every character in UTF-8."""
    limits = np.array([0x80, 0x800, 0x10000], dtype=np.uint32)
    return np.searchsorted(limits, characters, side="right").astype(np.int64) + 1
