"""What `generate`, `stream` and `astream` take beside the model, the prompt and the schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from structgen.arguments import is_whole, require, require_flag
from structgen.decoding.loop import ROWS
from structgen.decoding.unknown_options import unknown_options
from structgen.guards import Guard
from structgen.options import Beams, Limits, Sampling, Thinking, Whitespace
from structgen.schema.reader import require_order

GREEDY = Sampling()
LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class CallOptions:
    """What `generate` and `stream` take beside the model, the prompt and the schema; `generate` says what each is.

    Raises:
        OptionError: one of them is none of what it may be.
    """

    tokenizer: Any = None
    sampling: Sampling | Sequence[Sampling] = GREEDY
    limits: Limits | Sequence[Limits] = LIMITS
    whitespace: Whitespace = Whitespace.SPACED
    order: str | Sequence[str] = "schema"
    fast_forward: bool = True
    batch_size: int = ROWS
    guards: Sequence[Guard[Any]] | Sequence[Sequence[Guard[Any]]] = ()
    banned: Sequence[str] | Sequence[Sequence[str]] = ()
    thinking: bool | Thinking | Sequence[bool | Thinking] = False
    beams: int | Beams = 1

    def __post_init__(self) -> None:
        if not isinstance(self.beams, Beams):
            require(is_whole(self.beams, 1), "beams", self.beams, "a count of at least 1, or Beams(...)")
            object.__setattr__(self, "beams", Beams(self.beams))
        require(is_whole(self.batch_size, 1), "batch_size", self.batch_size, "a count of at least 1")
        require_flag("fast_forward", self.fast_forward)
        require(isinstance(self.whitespace, Whitespace), "whitespace", self.whitespace, "Whitespace(...)")
        require_order(self.order)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> CallOptions:
        """Those of a call, by name.

        Raises:
            OptionError: one of them is unknown.
        """
        known = [field.name for field in fields(cls)]
        unknown = {name: value for name, value in given.items() if name not in known}
        if unknown:
            raise unknown_options(unknown, known)
        return cls(**given)


DEFAULTS = CallOptions()
