"""A model's turn, as a caller reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic

from structgen.decoding.generation import Generation
from structgen.errors import StructgenError
from structgen.regular.quotes import Place
from structgen.tools import ToolCall

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """The turn of a model, from `call(..., details=True)`.

    Attributes:
        calls: the calls that the model made; empty if it answered. If a limit has ended the turn within a call, it is
            the last one, and its `cut` names the limit.
        answer: a value of the type of `schema=`, or text; None if the model called.
        text: the text before the calls, or the text of the answer.
        prompt: the text that the model read, with its control tokens.
        generation: the run's tokens, confidence, thinking and costs.
        error: why this conversation of a list failed. A single conversation's failure is raised instead.
        quotes: where each quote of the answer is in its source, by JSON pointer; each call has its own `quotes`.
    """

    calls: list[ToolCall[Any]]
    answer: T | None
    text: str
    prompt: str
    generation: Generation[str]
    error: StructgenError | None = None
    quotes: Mapping[str, tuple[Place, ...]] = field(default_factory=dict)

    @property
    def value(self) -> list[ToolCall[Any]] | T | None:
        """The result of `call` without details: the calls, or else the answer; None if it failed."""
        return self.calls or self.answer
