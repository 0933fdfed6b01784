"""Conversations with known names and values. A chat template renders them to show where it writes each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from structgen.chat.templates import CannotRender, ChatTemplate

USER = "QuserQ"
NAMES = ("qalpha", "qbeta", "qgamma")
KEYS = ("kone", "ktwo", "kaa")
IDS = ("qid1xyzab", "qid2xyzab", "qid3xyzab")

DECLARED = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "A tool.",
            "parameters": {
                "type": "object",
                "properties": {key: {"type": "string", "description": "A text."} for key in KEYS},
                "required": [],
            },
        },
    }
    for name in NAMES
]


class Underivable(Exception):
    """No call format can be derived from a template's rendering; the message says why."""


@dataclass(frozen=True)
class Probes:
    """Renders a turn of the assistant behind a turn of the user.

    Attributes:
        template: the chat template.
        as_text: are arguments given as JSON text instead of a mapping?
        options: options for the template.
    """

    template: ChatTemplate
    as_text: bool = False
    options: Mapping[str, Any] | None = None

    def with_text(self) -> Probes:
        """Returns the same probes with arguments as JSON text."""
        return replace(self, as_text=True)

    def prompt(self) -> str:
        """Returns the text between the user's words and the model's turn.

        Raises:
            CannotRender: the template refuses.
        """
        return self._after_user([], prompt=True)

    def answer(self, content: str, **fields: Any) -> str:
        """Returns the text behind the user's words for an answer in text.

        Args:
            content: the text of the answer.
            fields: further fields of the message, such as `reasoning_content`.

        Raises:
            CannotRender: the template refuses.
        """
        return self._after_user([{"role": "assistant", "content": content, **fields}], prompt=False)

    def calls(self, *arguments: Mapping[str, Any], content: str = "", names: Sequence[str] = NAMES) -> str:
        """Returns the text behind the user's words for calls with these arguments, with `names` and `IDS` in order.

        Raises:
            CannotRender: the template refuses.
        """
        listed = [
            {
                "id": id_,
                "type": "function",
                "function": {"name": name, "arguments": self._given(each)},
            }
            for name, id_, each in zip(names, IDS, arguments, strict=False)
        ]
        return self._after_user([{"role": "assistant", "content": content, "tool_calls": listed}], prompt=False)

    def _given(self, arguments: Mapping[str, Any]) -> Any:
        return json.dumps(arguments, ensure_ascii=False) if self.as_text else dict(arguments)

    def _after_user(self, turns: Sequence[Mapping[str, Any]], *, prompt: bool) -> str:
        messages = [{"role": "user", "content": USER}, *turns]
        text = self.template.render(messages, DECLARED, prompt=prompt, **(self.options or {}))
        _, has_user, after = text.rpartition(USER)
        if not has_user:
            raise CannotRender("the chat template leaves the user's words out")
        return after
