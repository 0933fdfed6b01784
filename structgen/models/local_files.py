"""Where a model comes from: a folder, the files that were downloaded before, or the hub. Told before anything waits.

transformers takes any name that is no folder for an id on the hub, and asks the hub for it again and again where that
cannot be reached: half a minute for a mistyped path. A name that can be no id is refused here at once, and where the
hub does not answer once, nothing but what was downloaded is looked for.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from huggingface_hub import constants, try_to_load_from_cache
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import http_backoff, validate_repo_id  # type: ignore[attr-defined] # it has no __all__

from structgen.arguments import nearest
from structgen.errors import OptionError, excerpt, quoted

PATIENCE = 5.0
"""Seconds in which the hub has to answer."""


def require_there(name: str, given: str | PathLike[str], shared: Mapping[str, Any]) -> None:
    """Refuses what `from_pretrained` would only fail to find.

    Args:
        given: a folder, or an id on the hub.
        shared: what `from_pretrained` takes besides.

    Raises:
        OptionError: it is a path that leads nowhere, or an id that was not downloaded while the hub cannot be reached.
    """
    path = Path(given)
    where = f"{name}={quoted(os.fspath(given))}: cannot load a model that generates from there"
    try:
        if path.exists():
            return
    except (OSError, ValueError) as error:  # a name that is too long, or no text that a name can be
        raise OptionError(f"{where}: {getattr(error, 'strerror', None) or excerpt(error)}") from error
    if isinstance(given, PathLike):
        raise OptionError(f"{where}: there is no such folder{_beside(path)}")
    if not _may_be_id(given):
        told = "and an id on the Hugging Face hub is name or owner/name"
        raise OptionError(f"{where}: there is no such folder{_beside(path)}, {told}")
    offline = constants.HF_HUB_OFFLINE or bool(shared.get("local_files_only"))
    if offline or _downloaded(given, shared) or _hub_answers():
        return
    reached = f"and {constants.ENDPOINT} cannot be reached"
    raise OptionError(
        f"{where}: there is no such folder, no such model was downloaded before, {reached}{_beside(path)}; "
        "give the path of a folder, or connect"
    )


def _may_be_id(given: str) -> bool:
    """Could a name be an id on the hub?"""
    try:
        validate_repo_id(given)
    except HFValidationError:
        return False
    return True


def _beside(path: Path) -> str:
    """What stands where the path leaves what exists."""
    if str(path).startswith("~"):
        return f" ('~' is no folder here; expanded it is {quoted(str(path.expanduser()))})"
    wanted, parent = path, path.parent
    while not parent.is_dir() and parent != parent.parent:
        wanted, parent = parent, parent.parent
    near = nearest(wanted.name, sorted(os.listdir(parent)), 0.6) if os.access(parent, os.R_OK) else ""
    return f"; in {quoted(str(parent))} there is {near}" if near else ""


def _downloaded(given: str, shared: Mapping[str, Any]) -> bool:
    """Is its configuration among the downloaded files? What is there is loaded without waiting."""
    folder = shared.get("subfolder") or ""
    file = f"{folder}/config.json" if folder else "config.json"
    cached = try_to_load_from_cache(given, file, cache_dir=shared.get("cache_dir"), revision=shared.get("revision"))
    return isinstance(cached, str)


def _hub_answers() -> bool:
    """Does the hub answer at all, by the client, the proxies and the address that downloads would use?"""
    client_errors = inspect.signature(http_backoff).parameters["retry_on_exceptions"].default  # requests' or httpx's
    failures = client_errors if isinstance(client_errors, tuple) else (client_errors,)
    try:
        http_backoff("HEAD", constants.ENDPOINT, max_retries=0, retry_on_status_codes=(), timeout=PATIENCE)
    except (*failures, OSError):
        return False
    return True
