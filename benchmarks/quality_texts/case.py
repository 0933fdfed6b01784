"""One text with its question and its right answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """One text.

    Attributes:
        name: what it is called in the results; it does not change when other texts are added.
        prompt: the user's message, the same for each way.
        schema: the JSON Schema of the answer.
        gold: the right answer. In a call, each argument has the list of its right values.
        tools: for calls, the functions as an endpoint takes them.
    """

    task: str
    name: str
    prompt: str
    schema: dict[str, Any]
    gold: Any
    tools: tuple[dict[str, Any], ...] = ()
