"""Conversations with known names and values. A chat template renders them to show where it writes each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from structgen.chat.templates import CannotRender, ChatTemplate

USER = "QuserQ"
NAMES = ("qalpha", "qbeta", "qgamma")
KEYS = ("kone", "ktwo", "kaa")
IDS = ("qid1xyzab", "qid2xyzab", "qid3xyzab")
NAMING_IDS = "functions.{name}:{index}"
"""How Kimi's models write the id of a call. Some of their templates write only the id, not the name."""

_PARAMETERS = {
    "type": "object",
    "properties": {key: {"type": "string", "description": "A text."} for key in KEYS},
    "required": [],
}
DECLARED = [
    {"type": "function", "function": {"name": name, "description": "A tool.", "parameters": _PARAMETERS}}
    for name in NAMES
]


class Underivable(Exception):
    """No call format can be derived from a template's rendering; the message says why."""


@dataclass(frozen=True)
class Probes:
    """Renders a turn of the assistant after a turn of the user.

    Attributes:
        as_text: are arguments given as JSON text instead of a mapping?
        no_content: the content of a message with calls only: an empty text or None.
        single: is only one call in a turn tried?
        naming_ids: do the ids of calls contain the names, as in `NAMING_IDS`?

    Raises:
        CannotRender: the template refuses a conversation (all methods).
    """

    template: ChatTemplate
    as_text: bool = False
    no_content: str | None = ""
    single: bool = False
    naming_ids: bool = False

    def variants(self) -> Iterator[Probes]:
        """Yields probes that give calls in different forms. The forms that most templates take come first."""
        flags, texts = (False, True), ("", None)
        for single, naming_ids, no_content, as_text in product(flags, flags, texts, flags):
            yield replace(self, as_text=as_text, no_content=no_content, single=single, naming_ids=naming_ids)

    def prompt(self) -> str:
        """Returns the text between the user's words and the model's turn."""
        return self._after_user([], prompt=True)

    def answer(self, content: str, **fields: Any) -> str:
        """Returns the text after the user's words for an answer in text.

        Args:
            fields: further fields of the message, such as `reasoning_content`.
        """
        return self._after_user([{"role": "assistant", "content": content, **fields}], prompt=False)

    def calls(self, *arguments: Mapping[str, Any], content: str = "") -> str:
        """Returns the text after the user's words for one call per mapping of arguments.

        The calls have the names `NAMES` and the ids `ids`, in this order.
        """
        given = [json.dumps(each, ensure_ascii=False) if self.as_text else dict(each) for each in arguments]
        listed = [
            {"id": id_, "type": "function", "function": {"name": name, "arguments": each}}
            for name, id_, each in zip(NAMES, self.ids, given, strict=False)
        ]
        message = {"role": "assistant", "content": content or self.no_content, "tool_calls": listed}
        return self._after_user([message], prompt=False)

    @property
    def ids(self) -> Sequence[str]:
        if not self.naming_ids:
            return IDS
        return [NAMING_IDS.format(name=name, index=index) for index, name in enumerate(NAMES)]

    def _after_user(self, turns: Sequence[Mapping[str, Any]], *, prompt: bool) -> str:
        messages = [{"role": "user", "content": USER}, *turns]
        text = self.template.render(messages, DECLARED, prompt=prompt)
        _, has_user, after = text.rpartition(USER)
        if not has_user:
            raise CannotRender("the chat template leaves the user's words out")
        return after
