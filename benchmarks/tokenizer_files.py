"""The folder of a tokenizer, its .xz files unpacked."""

from __future__ import annotations

import lzma
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
