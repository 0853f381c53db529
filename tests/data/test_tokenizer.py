"""Tokenizer files of the `tokenizers` package; they come with the extra `text`."""

from __future__ import annotations

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from basegraph.data import DataError, text, tokenizer

WORDS = "the cat sat on the mat\nthe naïve café — 猫 sat\n"
CONTEXT = 4


def save_tokenizer(path, vocabulary=300):
    """A byte-level BPE trained on a few words."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator([WORDS], trainer)
    made.save(str(path))
    return path


@pytest.fixture
def file(tmp_path):
    return save_tokenizer(tmp_path / "tokenizer.json")


@pytest.mark.parametrize("piece", [7, 2**18])
def test_tokens_and_the_bytes_they_stand_for(file, monkeypatch, piece):
    monkeypatch.setattr(tokenizer, "PIECE", piece)
    made = tokenizer.FileTokenizer(file)
    content = np.frombuffer(WORDS.encode(), np.uint8)
    tokens, ends = made.encode(content, "words")
    assert tokens.dtype == np.int16
    assert len(tokens) < len(content)
    assert made.decode(tokens.tolist()) == WORDS
    assert ends[-1] == len(content)
    assert (np.diff(ends) >= 0).all()
    for token in (1, 3, 5):  # before the first character of several bytes, exactly
        assert made.decode(tokens[:token].tolist()) == bytes(content[: ends[token - 1]]).decode()


@pytest.mark.parametrize("kind", ["metaspace", "wordpiece", "wordlevel"])
def test_the_space_between_two_parts_of_a_text_is_kept(tmp_path, kind):
    """Decoders strip the space that a text begins with: the second part alone would lose its."""
    words = {word: i for i, word in enumerate(["<unk>", "the", "cat", "▁the", "▁cat", "▁"])}
    if kind == "metaspace":
        made = Tokenizer(models.BPE(words, [], unk_token="<unk>"))
        made.decoder = decoders.Metaspace()
        given, written = [words["▁the"]], [words["▁cat"]]
    else:
        if kind == "wordpiece":
            made = Tokenizer(models.WordPiece(words, unk_token="<unk>"))
            made.decoder = decoders.WordPiece()
        else:
            made = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
        given, written = [words["the"]], [words["cat"]]
    made.save(str(tmp_path / "made.json"))
    file = tokenizer.FileTokenizer(tmp_path / "made.json")
    assert file.decode(written) == "cat"
    assert tokenizer.decoded_after(file, given, written) == " cat"


def test_a_character_of_two_parts_does_not_eat_what_follows():
    """Its first byte is shown as � with the first part; the rest keeps all that it has."""
    given, written = list("naï".encode())[:-1], [*list("ï".encode())[1:], 118, 101]
    made = tokenizer.ByteTokenizer()
    assert made.decode(given) == "na�"
    assert tokenizer.decoded_after(made, given, written) == "�ve"


def test_a_text_that_the_tokenizer_does_not_know_is_refused(tmp_path):
    path = tmp_path / "words.json"
    Tokenizer(models.WordLevel({"known": 0})).save(str(path))
    content = np.frombuffer(b"unknown", np.uint8)
    with pytest.raises(DataError, match=r"^words: the tokenizer refuses it: .*UNK"):
        tokenizer.FileTokenizer(path).encode(content, "words")


def test_windows_know_their_bytes(file, tmp_path):
    (tmp_path / "words.txt").write_text(WORDS * 20, encoding="utf-8")
    dataset = text(tmp_path / "words.txt", context=CONTEXT, tokenizer=file)
    made = tokenizer.FileTokenizer(file)
    assert dataset.vocabulary == made.vocabulary > 256
    whole = dataset.text.train_bytes.sum() + dataset.text.test_bytes.sum()
    total = len((WORDS * 20).encode())
    assert total * 0.9 < whole <= total  # all but the ends that fill no window
    for row, size in list(zip(dataset.train.targets, dataset.text.train_bytes, strict=True))[:4]:
        decoded = made.decode(row.tolist())
        if "�" not in decoded and decoded.isascii():
            assert len(decoded) == size
    assert dataset.text.tokenizer == str(file)


@pytest.mark.parametrize("asks", ["truncation", "padding", "both"])
def test_files_that_cut_and_pad_sentences_read_whole_texts(file, tmp_path, asks):
    """As those of sentence encoders do: cut texts would be lost, padding would be trained on."""
    (tmp_path / "words.txt").write_text(WORDS * 20, encoding="utf-8")
    other = Tokenizer.from_file(str(file))
    if asks != "padding":
        other.enable_truncation(16)
    if asks != "truncation":
        other.enable_padding(pad_to_multiple_of=512)
    other.save(str(tmp_path / "other.json"))
    plain, same = (
        text(tmp_path / "words.txt", context=CONTEXT, tokenizer=tokenizer)
        for tokenizer in (file, tmp_path / "other.json")
    )
    assert np.array_equal(plain.train.inputs, same.train.inputs)
    assert np.array_equal(plain.text.train_bytes, same.text.train_bytes)


def test_what_is_not_utf8_needs_bytes(file, tmp_path):
    (tmp_path / "latin.txt").write_bytes("café ".encode("latin-1") * 40)
    with pytest.raises(DataError, match=r"latin\.txt: byte 3 is not UTF-8"):
        text(tmp_path / "latin.txt", context=CONTEXT, tokenizer=file)
    assert text(tmp_path / "latin.txt", context=CONTEXT).vocabulary == 256


def test_what_is_no_tokenizer_is_refused(tmp_path):
    (tmp_path / "words.txt").write_text(WORDS * 20, encoding="utf-8")
    (tmp_path / "broken.json").write_text("{}")
    for name, complaint in (
        ("none.json", "there is no such tokenizer"),
        ("broken.json", "is not a tok"),
    ):
        with pytest.raises(DataError, match=complaint):
            text(tmp_path / "words.txt", tokenizer=tmp_path / name)
