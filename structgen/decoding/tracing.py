"""The trace of a run: what was taken back, and what is known of each token that stayed."""

from __future__ import annotations

import codecs
import math
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple, overload

from structgen.automaton.pointers import PointerReader, Span
from structgen.decoding.choosing.measure import ChosenToken, Entry, Ledger
from structgen.trace.records import Alternative, TracedToken, Undone
from structgen.vocabulary import Vocabulary


class Trace(Sequence[Undone]):
    """What was said and taken back, in the order in which it was; `tokens` tells of what stayed.

    Two traces are equal where the same was taken back.

    Args:
        tokens: works out what is known of each token.
    """

    def __init__(self, undone: Sequence[Undone] = (), tokens: Callable[[], tuple[TracedToken, ...]] = tuple) -> None:
        self._undone, self._work_out = tuple(undone), tokens
        self._tokens: tuple[TracedToken, ...] | None = None

    @property
    def tokens(self) -> tuple[TracedToken, ...]:
        """Each token of the text, with the end token where the model chose one; empty without `details=True`.

        It is worked out when it is first asked for.
        """
        if self._tokens is None:
            self._tokens, self._work_out = self._work_out(), tuple
        return self._tokens

    @overload
    def __getitem__(self, index: int) -> Undone: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Undone, ...]: ...
    def __getitem__(self, index: int | slice) -> Undone | tuple[Undone, ...]:
        return self._undone[index]

    def __len__(self) -> int:
        return len(self._undone)

    def __eq__(self, other: object) -> bool:
        return self._undone == (other._undone if isinstance(other, Trace) else other)

    def __hash__(self) -> int:
        return hash(self._undone)

    def __repr__(self) -> str:
        return f"Trace({list(self._undone)!r})"

    def __getstate__(self) -> dict[str, Any]:
        tokens = self.tokens  # without the run's measures, which do not go to another process
        return {"_undone": self._undone, "_tokens": tokens, "_work_out": tuple}


class _Measured(NamedTuple):
    """What the run has measured of one token."""

    token: int
    forced: bool
    choice: ChosenToken | None
    seconds: float | None
    drafted: bool


class TokenReader:
    """Reads the tokens of one text with what was measured of them. It keeps nothing of the run alive but that.

    Args:
        tokens: ids, with an end token or without.
        entries: where each is measured; None where the model was not asked.
        choices: what was measured; a row that has failed may have fewer.
        prompt_end: the bytes of the first token that stand for the prompt's end, see `healing`.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        ledger: Ledger,
        tokens: Sequence[int],
        entries: Sequence[Entry | None],
        choices: Sequence[ChosenToken | None],
        *,
        is_json: bool,
        prompt_end: bytes = b"",
    ) -> None:
        self._vocabulary, self._is_json, self._prompt_end = vocabulary, is_json, prompt_end
        self._measured = [
            _Measured(token, entry is None, choice, entry and ledger.seconds(entry[0]), entry in ledger.drafted)
            for token, entry, choice in zip_longest(tokens, entries, choices)
        ]

    def tokens(self) -> tuple[TracedToken, ...]:
        reader, characters = PointerReader(), codecs.getincrementaldecoder("utf-8")(errors="replace")
        traced, end = [], len(self._prompt_end)
        for measured in self._measured:
            text = self._vocabulary.token(measured.token)
            said, end = text[end:], max(0, end - len(text))
            spans = reader.feed(said) if self._is_json else []
            pointer = _pointer(reader, spans) if self._is_json else ""
            traced.append(self._traced(measured, characters.decode(said), pointer))
        return tuple(traced)

    def _traced(self, measured: _Measured, text: str, pointer: str) -> TracedToken:
        choice = measured.choice
        if choice is None:
            return TracedToken(measured.token, text, pointer, forced=measured.forced)
        return TracedToken(
            measured.token,
            text,
            pointer,
            drafted=measured.drafted,
            allowed=choice.allowed,
            removed=choice.removed,
            probability=math.exp(choice.logprob),
            chance=choice.chance,
            alternatives=self._alternatives(choice),
            seconds=measured.seconds,
        )

    def _alternatives(self, choice: ChosenToken) -> tuple[Alternative, ...]:
        left = 1 - choice.removed
        known = [(token, chance * left, True) for token, chance in choice.alternatives]
        known += [(token, chance, False) for token, chance in choice.refused]
        known.sort(key=lambda each: -each[1])
        return tuple(Alternative(token, self._spelled(token), chance, allowed) for token, chance, allowed in known)

    def _spelled(self, token: int) -> str:
        if token in self._vocabulary.end_ids:
            return "<end>"
        return self._vocabulary.token(token).decode("utf-8", errors="backslashreplace")


def _pointer(reader: PointerReader, completed: Sequence[Span]) -> str:
    """Of the value in which a text stops; where it stops between two values, of the innermost that was completed."""
    within = reader.pending is not None and reader.begun.strip(b" \n\t\r:,")
    if not completed or within:
        return reader.pointer
    return max(completed, key=lambda span: (len(span.path), span.end)).pointer
