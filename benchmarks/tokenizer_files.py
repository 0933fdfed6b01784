"""The folder of a tokenizer, its .xz files unpacked, and the tokens of a text."""

from __future__ import annotations

import lzma
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def unpacked(folder: Path) -> Iterator[Path]:
    """A copy of the folder for as long as it is needed."""
    with tempfile.TemporaryDirectory(prefix="tokenizer-") as name:
        target = Path(name)
        for file in folder.iterdir():
            if file.suffix == ".xz":
                with lzma.open(file) as packed, (target / file.stem).open("wb") as plain:
                    shutil.copyfileobj(packed, plain)
            elif file.is_file():
                shutil.copy(file, target)
        yield target


def encoded(tokenizer: Any, text: str) -> list[int]:
    """The tokens of a text, without the blank that a SentencePiece tokenizer puts before it."""
    tokens: list[int] = tokenizer.encode(text, add_special_tokens=False)
    if not tokenizer.convert_ids_to_tokens(tokens[:1])[0].startswith("\u2581"):
        return tokens
    before: list[int] = tokenizer.encode("\n", add_special_tokens=False)
    behind: list[int] = tokenizer.encode("\n" + text, add_special_tokens=False)
    assert behind[: len(before)] == before
    return behind[len(before) :]
