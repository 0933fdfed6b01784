"""The cache on disk for what is read from tokenizers: plain arrays, written whole or not at all."""

from __future__ import annotations

import logging
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.cache_folder import cache_directory

MAX_FILES = 32
"""Files kept; those written longest ago are deleted first. A vocabulary takes 5 to 15 MB."""

_log = logging.getLogger(__name__)


def load(key: str) -> dict[str, NDArray[Any]] | None:
    """The arrays stored under a key; None without a file, or with a damaged one (arrays have a CRC)."""
    try:
        path = _path(key)
        stored = np.load(path, allow_pickle=False)
        if not isinstance(stored, np.lib.npyio.NpzFile):
            raise ValueError("not an archive of arrays")
        with stored:
            return {name: stored[name] for name in stored.files}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        _log.warning("the cached vocabulary %s is unreadable and will be made again: %s", path, error)
        return None


def store(key: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Store the arrays under a key. Where the folder cannot be written, that is logged, not raised."""
    try:
        path = _path(key)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write_whole(path, arrays)
        _forget_old(path.parent)
    except OSError as error:
        _log.warning("the vocabulary could not be cached: %s", error)


def _write_whole(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write next to the file and rename, so that a reader never sees half of it."""
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as part:
        name = Path(part.name)
        try:
            np.savez(part, **arrays)  # type: ignore[arg-type]
            part.close()  # Windows renames no open file
            name.replace(path)
        finally:
            name.unlink(missing_ok=True)


def _path(key: str) -> Path:
    return cache_directory() / "vocabularies" / f"{key}.npz"


def _forget_old(folder: Path) -> None:
    files = sorted(folder.glob("*.npz"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files[MAX_FILES:]:
        file.unlink(missing_ok=True)
