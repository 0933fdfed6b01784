"""A type's own validators as a guard: for loops that are not ours, and beside any other constraint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.arguments import require
from structgen.errors import OptionError, excerpt, quoted
from structgen.guards import Guard, Veto
from structgen.guards.judge import Judge
from structgen.guards.pointers import PointerReader, Span
from structgen.guards.suspects import holding
from structgen.schema.python.validators import validators_of
from structgen.vocabulary import Vocabulary

NUMBERS = b"+-.0123456789Ee"
OTHERS = bytes(set(range(256)) - set(NUMBERS))


@dataclass(frozen=True, slots=True)
class Read:
    """A text of JSON as far as it goes.

    Attributes:
        text: of it.
        reader: has read it, and is not changed any more.
    """

    text: bytes
    reader: PointerReader = field(compare=False, repr=False)


class ValidatorGuard(Guard[Read]):
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
        self._judge = Judge(validators)

    def start(self) -> Read:
        """Nothing has been read."""
        return Read(b"", PointerReader())

    def feed(self, state: Read, text: bytes) -> Read | Veto:
        """The state after more bytes, or where a value begins that they complete and its validators refuse.

        Raises:
            ValidatorError: a validator raised what is no validation error.
        """
        reader = state.reader.fork()
        return self._veto(reader.feed(text), reader.text) or Read(reader.text, reader)

    def finish(self, state: Read) -> Veto | None:
        """The veto against a number that the end of the text completes."""
        reader = state.reader.fork()
        return self._veto(reader.finish(), reader.text)

    def suspects(self, state: Read, vocabulary: Vocabulary) -> NDArray[np.int64] | None:
        """Of a string the tokens that may end it, of a number within something else those that do."""
        reader = state.reader
        begun = reader.text[reader.read :].lstrip(b" \n\t\r:,")
        if begun.startswith(b'"'):
            return holding(vocabulary, b'"')
        if begun and begun[0] in NUMBERS and reader.is_inside:
            return holding(vocabulary, OTHERS)
        return None

    def _veto(self, spans: Sequence[Span], said: bytes) -> Veto | None:
        for span in spans:
            reason = self._judge.refusal(span, said)
            if reason is not None:
                place = excerpt(span.pointer) or "the whole value"
                return Veto(span.start, f"{place} is refused by its validators ({excerpt(reason)})")
        return None
