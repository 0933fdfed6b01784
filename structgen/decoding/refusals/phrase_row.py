"""Phrases in the decode loop: a row ends only after it has said them, and takes no token that makes one impossible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.arguments import is_listed, require
from structgen.automaton.table_format import FRAME_MASK, FRAME_SHIFT
from structgen.decoding.prompts.targets import Target
from structgen.decoding.refusals.rule import RowRule
from structgen.decoding.refusals.transcript import Transcript
from structgen.endings.agreed import Listener
from structgen.endings.closing import Closing
from structgen.errors import DeadEnd, OptionError, UnsatisfiableSchema, quoted
from structgen.guards import BannedWords, Guard
from structgen.guards.words import Hit
from structgen.masks import Grammar, Matcher
from structgen.masks.words import Words, pack
from structgen.options import Limits
from structgen.phrases.kinds import Phrase, Wanted
from structgen.phrases.progress import Owed, PhraseSet, Progress, may_have_strings
from structgen.phrases.room import PhraseRoom
from structgen.values.json_automaton import JsonAutomaton
from structgen.vocabulary import Vocabulary

_NONE = np.zeros(0, np.int64)


def _leaves(before: int, after: int) -> bool:
    """Does a token begin or end a value, given the positions before and after it?"""
    return (before ^ after) >> FRAME_SHIFT & FRAME_MASK != 0


class _StopStrings(BannedWords):
    """The stop strings of a plain text, as what no phrase may have: they would end the text there."""

    def _reason(self, hit: Hit) -> str:
        return f"the stop string {quoted(self._texts[hit.word])}"


def phrases_of(
    given: Sequence[str | Wanted], guards: Sequence[Guard[Any]], target: Target, limits: Limits, finds: bool
) -> PhraseSet | None:
    """The phrases of a row; None if there are none.

    Args:
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
    require(bound is None or target.is_json, "phrases", bound, allowed)
    stops = [_StopStrings(limits.stop)] if limits.stop and target.constraint is None else []
    return PhraseSet(wanted, [*guards, *stops], is_json=target.is_json) if wanted else None


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
        self.value_refusals = 0
        self._rooms: dict[Grammar, PhraseRoom] = {}  # one

    def start(self, prompt: Sequence[int]) -> Progress:
        return self.phrases.start

    def feed(self, state: Progress, token: int, piece: bytes) -> Progress:
        after = self.phrases.feed(state, piece)
        assert after is not None, "`keeps` refuses the token"
        return after

    def owed(self, text: Transcript) -> int:
        """The number of bytes that the phrases still need."""
        return self.phrases.owed(text.state(self))

    def unmet(self, text: Transcript) -> str:
        return self.phrases.unmet(text.state(self))

    def owed_with(self, text: Transcript, following: Sequence[int]) -> list[Owed]:
        """What the phrases still need after each of some next tokens."""
        return self.phrases.owed_with(text.state(self), following, self._vocabulary)

    def proposals(self, words: Words, text: Transcript) -> NDArray[np.int64]:
        """The tokens of a mask that begin or continue a phrase that is not said yet."""
        ids = self.phrases.proposals(text.state(self), self._vocabulary)
        allowed: NDArray[np.int64] = ids[(words[ids >> 5] >> (ids & 31).astype(np.uint32) & 1) == 1]
        return allowed

    def allowed(self, words: Words | None, text: Transcript) -> Words:
        """A mask without the tokens refused here. See `RowRule`."""
        assert words is not None, "phrases stand in texts of a grammar"
        refused: Words | None = text.retries.refused(text.tokens, self.option)
        return words if refused is None else words & ~refused

    def keeps(self, text: Transcript) -> bool:
        """Can all phrases still be said after the last token? See `RowRule`."""
        matcher, before = text.matcher, text.state(self, len(text.tokens) - 1)
        piece = self._vocabulary.token(text.tokens[-1])
        is_lost, leaves = self.phrases.feed(before, piece) is None, False
        if matcher is not None and not matcher.finished:
            is_lost = self._loses(before, piece, matcher.grammar, matcher.position)
            leaves = _leaves(matcher.earlier(1), matcher.position)
        if is_lost:
            self.refuse(text, text.tokens[:-1], text.tokens[-1:])
            self.value_refusals += leaves
        return not is_lost

    def refuses(self, text: Transcript, token: int) -> bool:
        """Is a text token refused after the text? If so, it is forbidden there, without being taken.

        False where only taking it tells.
        """
        matcher, piece = text.matcher, self._vocabulary.token(token)
        if matcher is None or matcher.grammar.budgets is not None or not piece:
            return False
        after = matcher.grammar.advance(matcher.position, token)
        if after < 0 or not self._loses(text.state(self), piece, matcher.grammar, after):
            return False
        self.refuse(text, text.tokens, [token])
        self.value_refusals += _leaves(matcher.position, after)
        return True

    def refuse_all(self, text: Transcript, words: Words) -> NDArray[np.int64]:
        """Forbids all tokens of a mask after which not all phrases can be said.

        Returns:
            Those of them that begin or end a value. None are forbidden where only single tokens are judged.
        """
        matcher = text.matcher
        if matcher is None or matcher.grammar.budgets is not None:
            return _NONE
        room = self._rooms.setdefault(matcher.grammar, PhraseRoom(matcher.grammar, self.phrases))
        lost, leaving = room.lost(matcher.position, text.state(self), words)
        self.refuse(text, text.tokens, lost)
        return leaving

    def _loses(self, before: Progress, piece: bytes, grammar: Grammar, position: int) -> bool:
        """Are the phrases impossible after one more token, which leads to a position?"""
        after = self.phrases.feed(before, piece)
        return after is None or not self.phrases.has_room(after, grammar, position)

    def refuse(self, text: Transcript, before: Sequence[int], tokens: Sequence[int] | NDArray[np.int64]) -> None:
        """Forbids tokens next to others of the text."""
        refused: Words | None = text.retries.refused(before, self.option)
        words = pack(np.array(tokens, np.int64), self._vocabulary.width)
        text.retries.refuse(before, self.option, words if refused is None else refused | words)

    def owed_at_end(self, text: Transcript) -> bool:
        """Is a phrase missing from the text, whose end a stop string may have cut off?"""
        state: Progress | None = text.state(self)
        if len(text.said) < len(self._vocabulary.decode(text.tokens)):
            state = self.phrases.feed(self.phrases.start, bytes(text.said))
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

    def listener(self, text: Transcript, others: Listener | None) -> PhraseListener:
        """A listener that wants the phrases, and agrees only to what other listeners agree to."""
        return PhraseListener(self.phrases, text.state(self), others)


class PhraseListener:
    """The phrases after a text, together with other listeners; a `Listener`.

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
