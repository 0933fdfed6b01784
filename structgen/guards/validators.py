"""A type's own validators as a guard. It serves loops other than `generate`, and works next to any other constraint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structgen.arguments import require
from structgen.errors import OptionError, excerpt, quoted
from structgen.guards import Guard, Veto
from structgen.guards.lookahead import holding
from structgen.json_text.pointers import PointerReader, Span
from structgen.memo import cached_up_to
from structgen.schema.python.validators import Validators, validators_of
from structgen.vocabulary import Vocabulary

NUMBERS = b"+-.0123456789Ee"
OTHERS = bytes(set(range(256)) - set(NUMBERS))
REMEMBERED = 1024
"""The number of verdicts that are remembered."""


@dataclass(frozen=True, slots=True)
class ValueVeto(Veto):
    """The veto of a type's validators against a value."""

    pointer: str  # JSON pointer of the value
    end: int  # the offset of the byte after it
    message: str  # the validators' message
    is_alone: bool = False  # nothing next to the value decides


@dataclass(frozen=True, slots=True)
class ArgumentVeto(Veto):
    """The veto of a tool's validators against a value in a call."""


class Accepted(NamedTuple):
    """A whole text that its type accepts."""

    text: bytes
    value: Any  # the validators' result


class ValueGuard(Guard[PointerReader]):
    """Vetoes values that validators refuse, as soon as the values are complete. Verdicts are remembered.

    The state is a reader. It is never changed: `feed` reads with a fork of it.

    Args:
        validators: the validators of a type. The text must be a JSON value of this type.

    Attributes:
        accepted: the last whole text that was accepted; None before that.
    """

    def __init__(self, validators: Validators) -> None:
        self.accepted: Accepted | None = None
        self._validators = validators

    def start(self) -> PointerReader:
        return PointerReader()

    def feed(self, state: PointerReader, text: bytes) -> PointerReader | Veto:
        """The state after further bytes, or a veto against a value that they complete.

        Raises:
            ValidatorError: a validator raised an error other than a validation error.
        """
        reader = state.fork()
        return self._veto(reader.feed(text), reader) or reader

    def finish(self, state: PointerReader) -> Veto | None:
        """The veto against a number that the end of the text completes."""
        reader = state.fork()
        return self._veto(reader.finish(), reader)

    def suspects(self, state: PointerReader, vocabulary: Vocabulary) -> NDArray[np.int64] | None:
        """In a string, the tokens that may end it; in a number within a container, the tokens that end it."""
        begun = state.unfinished.lstrip(b" \n\t\r:,")
        if begun.startswith(b'"'):
            return holding(vocabulary, b'"')
        if begun and begun[0] in NUMBERS and state.is_inside:
            return holding(vocabulary, OTHERS)
        return None

    def _veto(self, spans: Sequence[Span], reader: PointerReader) -> ValueVeto | None:
        for span in spans:
            begun = reader.text[: span.end]
            message = self._asked(span, begun)
            if message is not None:
                reason = (
                    f"{excerpt(span.pointer) or 'the whole value'} is refused by its validators ({excerpt(message)})"
                )
                is_alone = self._validators.judges_alone(span.path, begun[: span.start])
                return ValueVeto(span.start, reason, span.pointer, span.end, message, is_alone)
        return None

    @cached_up_to(REMEMBERED)
    def _asked(self, span: Span, begun: bytes) -> str | None:
        """The type's message against the value at the end of a text; None if the type accepts it or cannot tell yet."""
        text = begun[span.start :]
        if span.path:
            around, before = begun[span.around :] + b"}", begun[: span.start]
            return self._validators.refusal(span.path, text, around, span.pointer, before)
        value, message = self._validators.whole(text)
        if message is None:
            self.accepted = Accepted(begun, value)
        return message


class ValidatorGuard(ValueGuard):
    """Vetoes a value that a type's own validators refuse, once the value is complete, from its first byte on.

        watch = GuardMask([ValidatorGuard(Meeting)], vocabulary, JsonSchema(Meeting).compile(vocabulary).matcher())

    The masks of this `watch` exclude the tokens that would complete a refused value, so the value may continue in
    another way. If it cannot, as in an enum, the mask raises `DeadEnd`, and the loop must go back itself. `generate`
    runs the validators of a type without this guard.

    Args:
        tp: any type that Pydantic takes. The text must be a JSON value of this type.

    Raises:
        OptionError: the type has no validators beyond its JSON Schema.
    """

    def __init__(self, tp: Any) -> None:
        require(not isinstance(tp, (dict, bool)), "tp", tp, "a type: a JSON Schema has no validators")
        validators = validators_of(tp)
        if validators is None:
            raise OptionError(f"{quoted(tp)} has no validators beyond its JSON Schema: there is nothing to guard")
        super().__init__(validators)
