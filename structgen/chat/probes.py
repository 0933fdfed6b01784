"""Conversations with known names and values, rendered by a chat template to see where they come out."""

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
    """No call format can be read off a template's rendering; the text says why."""


@dataclass(frozen=True)
class Probes:
    """Renders a turn of the assistant behind one of a user.

    Attributes:
        template: that renders.
        as_text: are arguments given as JSON text instead of a mapping?
        options: for the template.
    """

    template: ChatTemplate
    as_text: bool = False
    options: Mapping[str, Any] | None = None

    def with_text(self) -> Probes:
        """The same, with arguments as JSON text."""
        return replace(self, as_text=True)

    def prompt(self) -> str:
        """What a template writes behind the user's words before the model's turn.

        Raises:
            CannotRender: the template refuses.
        """
        return self._after_user([], prompt=True)

    def answer(self, content: str, **fields: Any) -> str:
        """What it writes there for an answer of text.

        Args:
            content: of the answer.
            fields: further ones of the message, as `reasoning_content`.

        Raises:
            CannotRender: the template refuses.
        """
        return self._after_user([{"role": "assistant", "content": content, **fields}], prompt=False)

    def calls(self, *arguments: Mapping[str, Any], content: str = "", names: Sequence[str] = NAMES) -> str:
        """What it writes there for calls with these arguments, of `names` and `IDS` in their order.

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
