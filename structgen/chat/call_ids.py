"""Ids of calls, for templates that take only nine letters and digits, as Mistral's do.

A history that another server made has other ids, such as `call_2kfoE1...`, or none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

LENGTH = 9
_SHORT = re.compile(f"[A-Za-z0-9]{{{LENGTH}}}")


def short_id(name: str) -> str:
    """Returns an id of nine letters and digits, always the same one for the same name; a name that is one stays."""
    return name if _SHORT.fullmatch(name) else sha256(name.encode("utf-8", "replace")).hexdigest()[:LENGTH]


def with_short_ids(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns messages whose calls and results have ids of nine letters and digits.

    A call without an id has that of its place. A result without one is that of the first call which has none yet.
    """
    written, open_ids = list[dict[str, Any]](), list[str]()
    for message in messages:
        if message.get("tool_calls"):
            calls = [
                {**call, "id": short_id(str(call.get("id") or f"{len(written)}.{number}"))}
                for number, call in enumerate(message["tool_calls"])
            ]
            open_ids = [call["id"] for call in calls]
            message = {**message, "tool_calls": calls}
        elif message.get("role") == "tool":
            given = message.get("tool_call_id") or next(iter(open_ids), "")
            message = {**message, "tool_call_id": short_id(str(given))}
            open_ids = [each for each in open_ids if each != message["tool_call_id"]]
        written.append(message)
    return written
