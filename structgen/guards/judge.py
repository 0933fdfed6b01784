"""What a type's own validators say of the values of a text, as they are complete."""

from __future__ import annotations

from typing import Any, NamedTuple

from structgen.guards.pointers import Span
from structgen.schema.python.validators import Validators

REMEMBERED = 1024
"""Verdicts that are kept."""


class Accepted(NamedTuple):
    """A whole text that its type takes.

    Attributes:
        text: of it.
        value: what its validators made of it.
    """

    text: bytes
    value: Any


class Judge:
    """Asks a type's validators about values, once for each behind the same text.

    Args:
        validators: of the type.

    Attributes:
        accepted: the whole text that was accepted last.
    """

    def __init__(self, validators: Validators) -> None:
        self.accepted: Accepted | None = None
        self._validators = validators
        self._verdicts: dict[bytes, str | None] = {}

    def refusal(self, span: Span, said: bytes) -> str | None:
        """What the type has against a value; None where nothing, or where that cannot be told yet.

        Raises:
            ValidatorError: a validator raised what is no validation error.
        """
        begun = said[: span.end]
        if begun not in self._verdicts:
            if len(self._verdicts) >= REMEMBERED:
                self._verdicts.clear()
            self._verdicts[begun] = self._asked(span, begun)
        return self._verdicts[begun]

    def _asked(self, span: Span, begun: bytes) -> str | None:
        text = begun[span.start :]
        if span.path:
            around, before = begun[span.around :] + b"}", begun[: span.start]
            return self._validators.refusal(span.path, text, around, span.pointer, before)
        value, reason = self._validators.whole(text)
        if reason is None:
            self.accepted = Accepted(begun, value)
        return reason
