"""A conversation with tools, which can be written, and continue in another process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from pydantic_core import to_jsonable_python

from structgen.arguments import require
from structgen.calling.reply import Reply
from structgen.chat.history import as_json_message, as_messages, of_json_message
from structgen.chat.templates import Message
from structgen.errors import excerpt

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Conversation(Generic[T]):
    """The result of `run(..., details=True)`, and the `conversation` of an error that ended a run.

        try:
            answer = run(model, "A weekend in Rome?", tools)
        except RunError as error:
            answer = run(model, error.conversation, tools)  # continues where it stopped

    It can be pickled, or written as JSON, and continue in another process.

    Attributes:
        answer: a value of the type of `schema=`, or text, or the result of the tool that ended the run; None if an
            error ended it.
        messages: all messages with the answer, as chat templates take them; `tool_calls` are `ToolCall`s.
        replies: the model's turns, in their order.
    """

    answer: T
    messages: list[dict[str, Any]]
    replies: list[Reply[Any]]

    def to_json(self) -> str:
        """Returns the messages, in OpenAI's form, and the answer as JSON; the `replies` are left out."""
        told = {
            "messages": [*map(as_json_message, self.messages)],
            "answer": to_jsonable_python(self.answer, fallback=str),
        }
        return json.dumps(told, ensure_ascii=False)

    @staticmethod
    def from_json(text: str | bytes) -> Conversation[Any]:
        """Returns the conversation that `to_json` has written. Its answer and the arguments of its calls are JSON's.

        Raises:
            OptionError: the text is no such conversation.
        """
        try:
            given = json.loads(text)
            messages = [*map(of_json_message, given["messages"])]
            return Conversation(given["answer"], as_messages(messages) if messages else [], [])
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            require(False, "text", text, f"what `to_json` has written ({excerpt(error)})")
            raise


Given = str | Sequence[Message] | Conversation[Any]
"""What a run begins with."""
