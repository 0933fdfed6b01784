"""A refusal of a model that is nowhere: no folder, not downloaded before, no hub.

transformers takes any name that is no folder for an id on the hub, and retries the hub for half a minute even for a
mistyped path. Here a name that can be no id is refused at once, and so is one that was not downloaded before while the
hub does not answer.
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
from structgen.models.known import DEMO, PACKAGED

PATIENCE = 5.0
"""Seconds in which the hub must answer."""


def require_there(name: str, given: str | PathLike[str], shared: Mapping[str, Any]) -> None:
    """Refuses what `from_pretrained` would not find.

    Args:
        name: of the argument, for the message.
        given: a folder, or an id on the hub.
        shared: further arguments of `from_pretrained`.

    Raises:
        OptionError: a path that leads nowhere, or an id that was not downloaded while the hub cannot be reached.
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
    bare = given.removeprefix("./").rstrip("/").lower()
    known = "" if name != "id_or_path" or "/" in bare else nearest(bare, (DEMO, *PACKAGED), 0.7)
    if known and not _downloaded(given, shared):
        raise OptionError(f"{where}: there is no such folder; did you mean {known}? (on a hub: owner/name)")
    try:
        validate_repo_id(given)
    except HFValidationError as error:
        ids = "and an id on the Hugging Face hub is name or owner/name"
        raise OptionError(f"{where}: there is no such folder{_beside(path)}, {ids}") from error
    offline = constants.HF_HUB_OFFLINE or bool(shared.get("local_files_only"))
    if offline or _downloaded(given, shared) or _hub_answers():
        return
    reached = f"and {constants.ENDPOINT} cannot be reached"
    raise OptionError(
        f"{where}: there is no such folder, no such model was downloaded before, {reached}{_beside(path)}; "
        "give the path of a folder, or connect"
    )


def _beside(path: Path) -> str:
    """A hint for a path that does not exist: similar names in the folder where it goes wrong."""
    if str(path).startswith("~"):
        return f" ('~' is not a folder here; expanded it is {quoted(str(path.expanduser()))})"
    wanted, parent = path, path.parent
    while not parent.is_dir() and parent != parent.parent:
        wanted, parent = parent, parent.parent
    near = nearest(wanted.name, sorted(os.listdir(parent)), 0.6) if os.access(parent, os.R_OK) else ""
    return f"; in {quoted(str(parent))} there is {near}" if near else ""


def _downloaded(given: str, shared: Mapping[str, Any]) -> bool:
    """Is its configuration among the downloaded files, which are loaded without the hub?"""
    file = os.path.join(shared.get("subfolder") or "", "config.json")
    try:
        cached = try_to_load_from_cache(given, file, cache_dir=shared.get("cache_dir"), revision=shared.get("revision"))
    except HFValidationError:  # no id at all
        return False
    return isinstance(cached, str)


def _hub_answers() -> bool:
    """Does the hub answer, through the client, the proxies and the address of a download?"""
    client_errors = inspect.signature(http_backoff).parameters["retry_on_exceptions"].default  # requests' or httpx's
    failures = client_errors if isinstance(client_errors, tuple) else (client_errors,)
    try:
        http_backoff("HEAD", constants.ENDPOINT, max_retries=0, retry_on_status_codes=(), timeout=PATIENCE)
    except (*failures, OSError):
        return False
    return True
