"""Phrases in the decode loop: a row ends only after it has said them, and takes no token that makes one impossible."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.arguments import is_listed, require
from structgen.automaton.table_format import FRAME_MASK, FRAME_SHIFT
from structgen.decoding.refusals.rule import RowRule
from structgen.decoding.refusals.transcript import Transcript
from structgen.endings.agreed import Listener
from structgen.endings.closing import Closing
from structgen.errors import DeadEnd, OptionError, UnsatisfiableSchema, quoted
from structgen.guards import BannedWords, Guard
from structgen.guards.words import Hit
from structgen.masks import Grammar, Matcher
from structgen.masks.words import Words, pack
from structgen.phrases.kinds import Phrase, Wanted
from structgen.phrases.progress import Owed, PhraseSet, Progress, may_have_strings
from structgen.values.json_automaton import JsonAutomaton
from structgen.vocabulary import Vocabulary


class _StopStrings(BannedWords):
    """The stop strings of a plain text, as what no phrase may have: they would end the text there."""

    def _reason(self, hit: Hit) -> str:
        return f"the stop string {quoted(self._texts[hit.word])}"


def phrases_of(
    given: Sequence[str | Wanted],
    guards: Sequence[Guard[Any]],
    is_json: bool,
    stop: Sequence[str],
    finds: bool,
) -> PhraseSet | None:
    """The phrases of a row; None if there are none.

    Args:
        stop: the stop strings that hold wherever phrases are looked for.
        finds: does the row look for texts with phrases: by beams, or by exact draws?
    """
    require(is_listed(given, (str, Wanted)), "phrases", given, "a list of texts and phrases")
    wanted = [Phrase(each) if isinstance(each, str) else each for each in given]
    if wanted and not finds:
        raise OptionError(
            "phrases= are searched for with beams: pass beams=8, or another count above 1; to draw texts that have "
            "them, Sampling(temperature=1.0, exact=True)"
        )
    bound = next((each for each in wanted if each.at is not None), None)
    allowed = "no at=: only JSON has strings to which it can be bound"
    require(bound is None or is_json, "phrases", bound, allowed)
    stops = [_StopStrings(stop)] if stop else []
    return PhraseSet(wanted, [*guards, *stops], is_json=is_json) if wanted else None


def require_strings(grammar: Grammar | None, phrases: PhraseSet | None) -> None:
    """Refuses a schema without strings at a place that phrases are bound to."""
    if grammar is None or phrases is None or not isinstance(grammar.automaton, JsonAutomaton):
        return
    for pointer in (each for each in phrases.pointers if not may_have_strings(grammar.automaton.root, each)):
        raise UnsatisfiableSchema(f"phrases=: the schema has no strings at {pointer or 'the root'}")


class PhraseRow(RowRule):
    """The phrases of one row.

    Attributes:
        value_refusals: how many tokens were refused that would begin or end a value, and lose a phrase by it.
    """

    option = "phrases="

    def __init__(self, phrases: PhraseSet, vocabulary: Vocabulary) -> None:
        self.phrases = phrases
        self._vocabulary = vocabulary
        self._states = [phrases.start]
        self._refused: dict[int, list[int]] = {}
        self.value_refusals = 0

    def fork(self) -> PhraseRow:
        twin = copy(self)
        twin._states = self._states[:]
        twin._refused = {length: tokens[:] for length, tokens in self._refused.items()}
        return twin

    def truncate(self, length: int, said: bytes | bytearray) -> None:
        del self._states[length + 1 :]
        self._refused = {place: tokens for place, tokens in self._refused.items() if place <= length}

    def state(self, tokens: Sequence[int]) -> Progress:
        """The progress behind the row's tokens, none of which makes a phrase impossible."""
        for token in tokens[len(self._states) - 1 :]:
            after = self.phrases.feed(self._states[-1], self._vocabulary.token(token))
            assert after is not None, "`keeps` refuses the token"
            self._states.append(after)
        return self._states[len(tokens)]

    def owed(self, tokens: Sequence[int]) -> int:
        """The number of bytes that the phrases still need."""
        return self.phrases.owed(self.state(tokens))

    def unmet(self, tokens: Sequence[int]) -> str:
        return self.phrases.unmet(self.state(tokens))

    def owed_with(self, tokens: Sequence[int], following: Sequence[int]) -> list[Owed]:
        """What the phrases still need behind each of some next tokens."""
        return self.phrases.owed_with(self.state(tokens), following, self._vocabulary)

    def proposals(self, words: Words, tokens: Sequence[int]) -> NDArray[np.int64]:
        """The tokens of a mask that begin or continue a phrase that is not said yet."""
        ids = self.phrases.proposals(self.state(tokens), self._vocabulary)
        allowed: NDArray[np.int64] = ids[(words[ids >> 5] >> (ids & 31).astype(np.uint32) & 1) == 1]
        return allowed

    def allowed(self, words: Words | None, text: Transcript) -> Words:
        """A mask without the tokens refused here. See `RowRule`."""
        assert words is not None, "phrases stand in texts of a grammar"
        refused = self._refused.get(len(text.tokens))
        return words & ~pack(np.array(refused), self._vocabulary.width) if refused else words

    def keeps(self, text: Transcript) -> bool:
        """Can all phrases still be said behind the last token? See `RowRule`."""
        matcher, tokens = text.matcher, text.tokens
        before = self.state(tokens[:-1])
        after = self.phrases.feed(before, self._vocabulary.token(tokens[-1]))
        if after is not None and matcher is not None and not matcher.finished:
            after = None if self.phrases.lost(after, matcher.grammar, matcher.position) else after
        if after is None:
            self.refuse(tokens)
            stays = matcher is None or (matcher.position ^ matcher.earlier(1)) >> FRAME_SHIFT & FRAME_MASK == 0
            self.value_refusals += not stays
        return after is not None

    def refuse(self, tokens: Sequence[int]) -> None:
        """Forbids the last token in its place."""
        self._refused.setdefault(len(tokens) - 1, []).append(tokens[-1])

    def owed_at_end(self, tokens: Sequence[int], said: bytes | bytearray) -> bool:
        """Is a phrase missing from the text, whose end a stop string may have cut off?"""
        state: Progress | None = self.state(tokens)
        if len(said) < len(self._vocabulary.decode(tokens)):
            state = self.phrases.feed(self.phrases.start, bytes(said))
        return state is None or self.phrases.owed(state) > 0

    def require(self, matcher: Matcher) -> None:
        """Refuses phrases that no text has.

        Args:
            matcher: at the start of the text.

        Raises:
            DeadEnd: none of the grammar is known to have all phrases.
        """
        automaton = matcher.grammar.automaton
        lost = self.phrases.lost_in(automaton.root) if isinstance(automaton, JsonAutomaton) else ""
        lost = lost or self.phrases.lost(self.phrases.start, matcher.grammar, matcher.position)
        if lost:
            shortest = Closing.of(matcher.grammar).ending(matcher.position)
            if shortest is not None and self.phrases.exceeded(shortest):
                hint = '; with at="/**" only its strings count' if isinstance(automaton, JsonAutomaton) else ""
                lost += f": even the shortest, {quoted(shortest.decode(errors='replace'))}, has it more often{hint}"
            raise DeadEnd(f"no text of the constraint has {lost}")

    def listener(self, tokens: Sequence[int], others: Listener | None) -> PhraseListener:
        """A listener that wants the phrases, and agrees only to what other listeners agree to."""
        return PhraseListener(self.phrases, self.state(tokens), others)


class PhraseListener:
    """The phrases behind a text, together with other listeners; a `Listener`.

    Attributes:
        state: None if the others refuse the text.
    """

    def __init__(self, phrases: PhraseSet, state: Progress, others: Listener | None) -> None:
        self._phrases, self._others = phrases, others
        refused = others is not None and others.state is None
        self.state = None if refused else (state, None if others is None else others.state)

    def after(self, state: Any, text: bytes) -> Any | None:
        progress = self._phrases.feed(state[0], text)
        others = None if self._others is None else self._others.after(state[1], text)
        return None if progress is None or (self._others is not None and others is None) else (progress, others)

    def may_end(self, state: Any) -> bool:
        return not self._phrases.owed(state[0]) and (self._others is None or self._others.may_end(state[1]))

    def wanted(self, state: Any) -> bytes:
        return self._phrases.wanted(state[0])
