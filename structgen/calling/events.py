"""What happens in a run, as typed records: `stream_run` yields them, and `run` returns the last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal

from structgen.calling.conversation import Conversation
from structgen.tools import ToolCall

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunText:
    """The model writes: text before calls, or its answer.

    Attributes:
        text: the new piece.
    """

    text: str
    kind: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class RunThought:
    """The model thinks.

    Attributes:
        text: the new piece.
    """

    text: str
    kind: Literal["thought"] = "thought"


@dataclass(frozen=True, slots=True)
class RunRestart:
    """The decoder went back: the texts of this turn of the model come again, from its beginning."""

    kind: Literal["restart"] = "restart"


@dataclass(frozen=True, slots=True)
class RunCall:
    """The model has called a tool; nobody has been asked for consent yet.

    Attributes:
        call: the call. All calls of a turn come before the first result.
    """

    call: ToolCall[Any]
    kind: Literal["call"] = "call"


@dataclass(frozen=True, slots=True)
class RunResult:
    """A call has a result.

    Attributes:
        call: the call as it was made; None for an answer that was refused by its type.
        value: what the tool returned; None if it failed, or was not made.
        content: what the model reads: a text, or parts with images.
        error: what the tool raised; None if it has returned, or was not made.
        made: was the call made? A person may not have allowed it.
    """

    call: ToolCall[Any] | None
    value: Any
    content: str | list[dict[str, Any]]
    error: Exception | None = None
    made: bool = True
    kind: Literal["result"] = "result"


@dataclass(frozen=True, slots=True)
class RunAnswer(Generic[T]):
    """The run is over. It is the last event.

    Attributes:
        answer: the answer of the model, or the result of the tool that ended the run.
        conversation: all messages and turns.
    """

    answer: T
    conversation: Conversation[T]
    kind: Literal["answer"] = "answer"


RunEvent = RunText | RunThought | RunRestart | RunCall | RunResult | RunAnswer[T]
