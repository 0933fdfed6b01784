"""A vocabulary comes back from disk as it was made, and nothing on the disk can make it wrong."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models

from structgen.vocabulary import Vocabulary, disk


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STRUCTGEN_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "vocabularies"


def tokenizer(*words: str) -> Tokenizer:
    made = Tokenizer(models.BPE({word: i for i, word in enumerate(["</s>", "a", "Ġa", *words])}, []))
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["</s>"])
    return made


def read(*words: str, **options: Any) -> Vocabulary:
    return Vocabulary.from_tokenizer(tokenizer(*words), end_ids=[0], **options)


def test_second_reading_comes_from_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second time the tokenizer's tokens are not read again, and everything is the same."""
    made = read("b", width=50)
    monkeypatch.delattr("structgen.vocabulary.huggingface.spell")
    again = read("b", width=50)
    assert again.fingerprint == made.fingerprint
    assert (again.width, again.end_ids, again.special_ids) == (50, (0,), {0})
    assert again.special_names == made.special_names == {"</s>": 0}
    for name, array in made.trie.arrays().items():
        stored = again.trie.arrays()[name]
        assert stored.dtype == array.dtype
        assert np.array_equal(stored, array)
        assert not stored.flags.writeable
    assert not again.data.flags.writeable


def test_any_difference_is_another_entry(folder: Path) -> None:
    """Another token, order, decoder, special token, end id or width never meets the stored entry."""
    made = [read(), read("b"), read("b", "c"), read("c", "b"), read(width=9)]
    made.append(Vocabulary.from_tokenizer(tokenizer("b"), end_ids=[0, 1]))
    other = tokenizer("b")
    other.decoder = decoders.Metaspace()
    made.append(Vocabulary.from_tokenizer(other, end_ids=[0]))
    special = tokenizer("b")
    special.add_special_tokens(["b"])
    made.append(Vocabulary.from_tokenizer(special, end_ids=[0]))
    assert len({vocabulary.fingerprint for vocabulary in made}) == len(made)
    assert len(list(folder.iterdir())) == len(made)


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "pickle", "array"])
def test_a_damaged_file_is_made_again(damage: str, folder: Path) -> None:
    """Whatever happened to the file, the vocabulary is read anew, and the file is whole again."""
    made = read()
    (file,) = folder.iterdir()
    good = file.read_bytes()
    where = good.index(made.data.tobytes())
    flipped = good[:where] + bytes([good[where] ^ 1]) + good[where + 1 :]
    bad = {"empty": b"", "cut": good[: len(good) // 2], "flipped": flipped, "pickle": b"\x80\x04N."}
    if damage == "array":
        np.save(file.with_suffix(".npy"), np.zeros(3))
        os.replace(file.with_suffix(".npy"), file)
    else:
        file.write_bytes(bad[damage])
    again = read()
    assert again.fingerprint == made.fingerprint
    assert [again.token(i) for i in range(3)] == [b"", b"a", b" a"]
    assert file.read_bytes() == good


def test_a_folder_that_cannot_be_made_only_costs_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a place to write, the vocabulary is still made, and the log says why it is not kept."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STRUCTGEN_CACHE_DIR", str(tmp_path / "file"))
    assert read().token(1) == b"a"
    assert "could not be cached" in caplog.text


def test_no_half_written_file_is_left(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk leaves neither an entry nor a part of one."""

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    assert read().token(1) == b"a"
    assert list(folder.iterdir()) == []


def test_the_oldest_entries_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder never holds more than `MAX_FILES` vocabularies; the newest stay."""
    monkeypatch.setattr(disk, "MAX_FILES", 2)
    for age, word in enumerate("bcd"):
        before = set(folder.glob("*")) if folder.exists() else set()
        read(word)
        (new,) = set(folder.iterdir()) - before
        os.utime(new, (1000 + age, 1000 + age))
    assert len(list(folder.iterdir())) == 2
    assert new.exists()
