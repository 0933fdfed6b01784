"""The trace of a run: the texts that were rolled back, and what is known of each token that stayed."""

from __future__ import annotations

import codecs
import math
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from itertools import zip_longest
from typing import Any, NamedTuple

from structgen.automaton.expected import refused_token
from structgen.automaton.machine import Automaton
from structgen.decoding.choosing.measure import ChosenToken, Entry, Ledger
from structgen.errors import Reason, quoted
from structgen.json_text.pointers import PointerReader, Span
from structgen.trace.records import Alternative, TracedToken, Undone
from structgen.vocabulary import Vocabulary

LEAST_LOST = 0.05
"""The least probability of a refused token that is explained, and counts as a loss."""
MOST_EXPLAINED = 300
"""The most refused tokens of a text that are explained. Each takes about a millisecond."""


class Trace(tuple[Undone, ...]):
    """The texts that were generated and rolled back, in order; `tokens` has the tokens that stayed.

    Traces are equal if the same texts were rolled back.

    Args:
        tokens: computes `tokens`.
    """

    _compute: Callable[[], tuple[TracedToken, ...]]

    def __new__(cls, undone: Iterable[Undone] = (), tokens: Callable[[], tuple[TracedToken, ...]] = tuple) -> Trace:
        trace = super().__new__(cls, undone)
        trace._compute = tokens
        return trace

    @cached_property
    def tokens(self) -> tuple[TracedToken, ...]:
        """Each token of the text, with the end token if the model chose one; empty without `details=True`.

        Computed on first use.
        """
        tokens, self._compute = self._compute(), tuple
        return tokens

    def __repr__(self) -> str:
        return f"Trace({list(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:  # the run's measures do not go to another process
        return Trace, (tuple(self), partial(tuple, self.tokens))


class _Measured(NamedTuple):
    """What the run has measured of one token."""

    token: int
    forced: bool
    choice: ChosenToken | None
    seconds: float | None
    drafted: bool


def trace_of(
    undone: Sequence[Undone],
    vocabulary: Vocabulary,
    ledger: Ledger | None,
    tokens: Sequence[int],
    entries: Sequence[Entry | None],
    choices: Sequence[ChosenToken | None],
    *,
    is_json: bool,
    prompt_end: bytes = b"",
    automaton: Automaton | None = None,
    rules: str = "",
) -> Trace:
    """The trace of one text. It keeps nothing of the run alive but the measures of the text's tokens.

    Args:
        ledger: that was traced while the row was decoded; without one, nothing is known of the tokens.
        tokens: ids, with or without an end token.
        entries: where each token is measured; None if the model was not asked.
        choices: the measures; a row that has failed may have fewer.
        prompt_end: the bytes of the first token that belong to the prompt, see `healing`.
        automaton: of the constraint, for the reasons why tokens were refused; None if there was no constraint.
        rules: the options next to it that refuse tokens, in words.
    """
    if ledger is None:
        return Trace(undone)
    measured = [
        _Measured(token, entry is None, choice, entry and ledger.seconds(entry[0]), entry in ledger.drafted)
        for token, entry, choice in zip_longest(tokens, entries, choices)
    ]
    reasons = None if automaton is None else _Reasons(automaton, vocabulary, rules, undone)
    return Trace(undone, partial(_traced_tokens, vocabulary, measured, len(prompt_end), reasons, is_json=is_json))


class _Reasons:
    """Why tokens were refused, for some of them."""

    def __init__(self, automaton: Automaton, vocabulary: Vocabulary, rules: str, undone: Sequence[Undone]) -> None:
        self._automaton, self._vocabulary, self._rules, self._left = automaton, vocabulary, rules, MOST_EXPLAINED
        self._undone = undone

    def of(self, number: int, said: bytes, pointer: str, token: int) -> Reason | None:
        """Why a token was refused as the one of this number, after a text, where the value at a pointer is written."""
        self._left -= 1
        ends = token in self._vocabulary.end_ids
        if self._left < 0 or not (ends or self._vocabulary.token(token)):
            return None
        spelled = b"" if ends else self._vocabulary.token(token)
        why = refused_token(self._automaton, said, spelled, ends=ends)
        if why is None:  # the constraint would have taken it
            return Reason(pointer, expected=self._expected(number, _spelled(self._vocabulary, token)))
        return why.reason

    def _expected(self, number: int, token: str) -> str:
        """What could have come in place of a token that only the options refuse: no text that was rolled back there."""
        for each in self._undone:
            if each.tokens == number and each.text.startswith(token):
                return f"another text than {quoted(each.text)}: {each.reason}"
        return f"what {self._rules} allows" if self._rules else "another token"


def _traced_tokens(
    vocabulary: Vocabulary, measured: Sequence[_Measured], skipped: int, reasons: _Reasons | None, *, is_json: bool
) -> tuple[TracedToken, ...]:
    """The tokens of a text, whose first `skipped` bytes belong to the prompt."""
    reader, characters = PointerReader(), codecs.getincrementaldecoder("utf-8")(errors="replace")
    traced, said = [], b""
    for number, each in enumerate(measured):
        token = vocabulary.token(each.token)
        text, skipped = token[skipped:], max(0, skipped - len(token))
        pointer = _pointer(reader, reader.feed(text)) if is_json else ""
        why = None if reasons is None or text != token else partial(reasons.of, number, said, pointer)
        traced.append(_traced(vocabulary, each, characters.decode(text), pointer, why))
        said += text
    return tuple(traced)


def _traced(
    vocabulary: Vocabulary, measured: _Measured, text: str, pointer: str, why: Callable[[int], Reason | None] | None
) -> TracedToken:
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
        alternatives=_alternatives(vocabulary, choice, why),
        seconds=measured.seconds,
    )


def _alternatives(
    vocabulary: Vocabulary, choice: ChosenToken, why: Callable[[int], Reason | None] | None
) -> tuple[Alternative, ...]:
    allowed = 1 - choice.removed
    known = [(token, chance * allowed, True) for token, chance in choice.alternatives]
    known += [(token, chance, False) for token, chance in choice.refused]
    known.sort(key=lambda each: -each[1])
    return tuple(
        Alternative(
            token, _spelled(vocabulary, token), chance, ok,
            None if ok or why is None or chance < LEAST_LOST else why(token),
        )
        for token, chance, ok in known
    )  # fmt: skip


def _spelled(vocabulary: Vocabulary, token: int) -> str:
    if token in vocabulary.end_ids:
        return "<end>"
    return vocabulary.token(token).decode("utf-8", errors="backslashreplace")


def _pointer(reader: PointerReader, completed: Sequence[Span]) -> str:
    """The pointer of the value in which a text stops; between two values, of the innermost one just completed."""
    within = reader.pending is not None and reader.unfinished.strip(b" \n\t\r:,")
    if not completed or within:
        return reader.pointer
    return max(completed, key=lambda span: (len(span.path), span.end)).pointer
