"""The folder in which things are kept from one process to the next."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_directory() -> Path:
    """The user's folder for whatever is cached: `$STRUCTGEN_CACHE_DIR`, or `structgen` in the platform's cache folder.

    Raises:
        FileNotFoundError: the user has no home.
    """
    chosen = os.environ.get("STRUCTGEN_CACHE_DIR")
    if chosen:
        return Path(chosen)
    try:
        if sys.platform == "win32":
            return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "structgen" / "Cache"
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches" / "structgen"
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "structgen"
    except RuntimeError as error:
        raise FileNotFoundError("this user has no home folder: STRUCTGEN_CACHE_DIR may name a folder") from error
