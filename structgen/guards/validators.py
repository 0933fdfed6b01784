"""A type's own validators as a guard: for loops that are not ours, and beside any other constraint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structgen.arguments import require
from structgen.automaton.pointers import PointerReader, Span
from structgen.errors import OptionError, excerpt, quoted
from structgen.guards import Guard, Veto
from structgen.guards.suspects import holding
from structgen.memo import cached_up_to
from structgen.schema.python.validators import Validators, validators_of
from structgen.vocabulary import Vocabulary

NUMBERS = b"+-.0123456789Ee"
OTHERS = bytes(set(range(256)) - set(NUMBERS))
REMEMBERED = 1024
"""Verdicts that are kept."""


@dataclass(frozen=True, slots=True)
class ValueVeto(Veto):
    """What a type's validators have against a value."""

    pointer: str  # JSON pointer of the value
    end: int  # the byte behind it
    message: str  # what the validators say


class Accepted(NamedTuple):
    """A whole text that its type takes."""

    text: bytes  # the bytes
    value: Any  # what the validators made of them


class ValueGuard(Guard[PointerReader]):
    """Vetoes the values that validators refuse, when they are complete. It asks once for each behind the same text.

    Its state is a reader, which it never changes: it feeds forks.

    Args:
        validators: of a type; the text must be JSON of it.

    Attributes:
        accepted: the whole text that was accepted last; None before there is one.
    """

    def __init__(self, validators: Validators) -> None:
        self.accepted: Accepted | None = None
        self._validators = validators

    def start(self) -> PointerReader:
        """Nothing has been read."""
        return PointerReader()

    def feed(self, state: PointerReader, text: bytes) -> PointerReader | Veto:
        """The state after more bytes, or where a value begins that they complete and its validators refuse.

        Raises:
            ValidatorError: a validator raised what is no validation error.
        """
        reader = state.fork()
        return self._veto(reader.feed(text), reader) or reader

    def finish(self, state: PointerReader) -> Veto | None:
        """The veto against a number that the end of the text completes."""
        reader = state.fork()
        return self._veto(reader.finish(), reader)

    def suspects(self, state: PointerReader, vocabulary: Vocabulary) -> NDArray[np.int64] | None:
        """In a string the tokens that may end it, in a number within a container the tokens that do."""
        begun = state.begun.lstrip(b" \n\t\r:,")
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
                return ValueVeto(span.start, reason, span.pointer, span.end, message)
        return None

    @cached_up_to(REMEMBERED)
    def _asked(self, span: Span, begun: bytes) -> str | None:
        """What the type has against the value at the end of a text; None where nothing, or that is not known yet."""
        text = begun[span.start :]
        if span.path:
            around, before = begun[span.around :] + b"}", begun[: span.start]
            return self._validators.refusal(span.path, text, around, span.pointer, before)
        value, message = self._validators.whole(text)
        if message is None:
            self.accepted = Accepted(begun, value)
        return message


class ValidatorGuard(ValueGuard):
    """Vetoes values that a type's own validators refuse, from their first byte on, when they are complete.

        watch = GuardMask([ValidatorGuard(Meeting)], vocabulary, JsonSchema(Meeting).compile(vocabulary).matcher())

    As a mask it refuses the tokens with which a refused value would be complete: another byte of it may come instead. A
    value that has no others, an enum's, is a `DeadEnd` there, and the loop must go back itself. Within `generate` the
    validators of a type are run without it.

    Args:
        tp: any type that Pydantic takes. The text must be JSON of it.

    Raises:
        OptionError: its JSON Schema says all that it demands.
    """

    def __init__(self, tp: Any) -> None:
        require(not isinstance(tp, (dict, bool)), "tp", tp, "a type: a JSON Schema has no validators")
        validators = validators_of(tp)
        if validators is None:
            raise OptionError(f"{quoted(tp)} has no validators beyond its JSON Schema: there is nothing to guard")
        super().__init__(validators)
