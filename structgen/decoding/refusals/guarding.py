"""Guards in the decode loop: the texts that one row's guards refuse, and their masks.

The policy. A veto refuses the tokens up to the one that completed the offence. The row goes back to a place where the
model would rather have said something else (`retry_tree`), first after the token that holds the offence's first byte,
and chooses again, from the same logits if it can. After `Limits(rollbacks=...)` rollbacks the guards' masks come before
every choice: they forbid the tokens that would complete an offence.

The row never contains an offence: each guard reads each token before the row goes on, and is asked whether the text may
end before the row is done. And the row ends: it goes back at most `rollbacks + 1` times; between two rollbacks each
choice adds one of at most `max_new_tokens` tokens; and with the masks nothing can be vetoed but text that the
constraint forces, which is a `DeadEnd`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.arguments import is_listed, require, require_unicode
from structgen.chat.row_turn import TurnReading
from structgen.constraints.basic import JsonSchema
from structgen.decoding.ahead.forced import ForcedText
from structgen.decoding.choosing.masking import count
from structgen.decoding.prompts.prompt import Prompt
from structgen.decoding.prompts.targets import Target
from structgen.decoding.refusals.retry_tree import Refusal, exhausted
from structgen.decoding.refusals.rule import GuardCheck
from structgen.decoding.refusals.transcript import Transcript
from structgen.errors import DeadEnd, ValidationFailed, excerpt, quoted
from structgen.guards import BannedWords, Guard, Veto
from structgen.guards.banned import LONGEST_BEGUN, Banned
from structgen.guards.lookahead import MAX_ASKED, GuardSet, States
from structgen.guards.validators import ArgumentVeto
from structgen.json_text.pointers import pointer_at
from structgen.masks import Matcher
from structgen.masks.words import Words, bits_of, ids_of
from structgen.schema.scan import texts_in
from structgen.values.json_automaton import JsonAutomaton
from structgen.vocabulary import Vocabulary
from structgen.vocabulary.packed import packed

FEW = 4
"""The most alternatives of the constraint that a message names."""


def guards_of(given: Sequence[Guard[Any]], banned: Sequence[str], target: Target) -> list[Guard[Any]]:
    """The guards of a row. In JSON, words are banned in string values, and in names that the schema does not have."""
    require(is_listed(given, Guard), "guards", given, "a list of guards")
    listed = is_listed(banned, str) and all(banned)
    require(listed, "banned", banned, "a list of texts, none of them empty")
    require_unicode("banned", *banned)
    if not banned:
        return list(given)
    words, constraint = BannedWords(banned, scope="strings" if target.is_json else "text"), target.constraint
    if isinstance(constraint, JsonSchema) and constraint.registry is None:  # all names are in the schema itself
        words = words.with_names(texts_in(constraint.document()))
    return [*given, words]


def guards_behind(vocabulary: Vocabulary, guards: list[Guard[Any]], prompt: Prompt) -> list[Guard[Any]]:
    """The guards of a row, where banned texts may begin in its prompt; the same list if none may."""
    if not any(isinstance(each, Banned) and each.across_prompt for each in guards):
        return guards
    begun = vocabulary.decode(prompt.read[-LONGEST_BEGUN:])
    return [each.after(begun) if isinstance(each, Banned) and each.across_prompt else each for each in guards]


class Guarding(GuardCheck):
    """The guards of one row, and the judge of its calls.

    Args:
        validations: the most values in calls that may be refused; None for any number.
        turn: reads the calls that are judged; None if none are.

    Attributes:
        looks_ahead: the guards' masks come before every choice.
        plain: the mask of every token that exists.
    """

    option = "banned= or guards="

    def __init__(
        self,
        guards: Sequence[Guard[Any]],
        vocabulary: Vocabulary,
        validations: int | None = None,
        turn: TurnReading | None = None,
    ) -> None:
        super().__init__(guards)
        self._vocabulary, self._turn = vocabulary, turn
        self._validations, self._refused = validations, 0  # values in calls that validators refused
        self.looks_ahead = False
        self.plain = vocabulary.existing

    def refusal(self, veto: Veto, text: Transcript, cut: str) -> Refusal:
        """See `RowCheck`. If the rollbacks are spent, the guards look ahead from now on.

        Raises:
            DeadEnd: they did already, or there is no token to roll back.
            ValidationFailed: `Limits(validations=...)` values in calls were refused before.
        """
        if isinstance(veto, ArgumentVeto):
            self._refused += 1
            if self._validations is not None and self._refused > self._validations:
                told = f"{veto.reason}; {self._validations} other values were refused before"
                advice = f"Limits(validations=...) allows more tries than {self._validations}"
                raise ValidationFailed(f"{told}: {advice}", "", text.text(), veto.reason)
        tokens, retries = text.tokens, text.retries
        first = min(self.token_at(text, veto.offset), len(tokens) - 1)
        why = partial(conflict, veto, quoted(text.text()), text.matcher, tokens[:first])
        if self.looks_ahead or not tokens:
            raise DeadEnd(f"{why()}; no other text is allowed there")
        self.looks_ahead = retries.rollbacks_are_spent
        if not self.looks_ahead:
            retries.spend_rollback(DeadEnd(veto.reason))
        return Refusal(self.vetoed(text), retries.depths(first), veto.reason, lambda: exhausted(DeadEnd(why())))

    def _fed(self, text: Transcript, number: int, states: States, piece: bytes) -> States | Veto:
        after = super()._fed(text, number, states, piece)
        veto = None if self._turn is None else text.state(self._turn, number + 1).judged.veto
        return after if veto is None or (isinstance(after, Veto) and after.offset <= veto.offset) else veto

    def at_risk(self, text: Transcript) -> int:
        count, heard = self.heard(text)
        begun = self.guards.begun(heard.states)
        if self._turn is not None:
            begun = min(begun, text.state(self._turn, count).judged.begun)
        sure: int = text.states[self][self.token_at(text, begun)].length
        return max(0, len(text.said) - sure)

    def vetoes(self, words: Words | None, text: Transcript) -> list[Veto]:
        """The guards' vetoes against the end and some tokens of a mask."""
        words = self.plain if words is None else words
        own = self.guards.vetoes(self.heard(text)[1].states, words, self._vocabulary)
        return [*own, *(veto for _, veto in self._refused_calls(text, ids_of(words)[:MAX_ASKED]))]

    def _refused_calls(self, text: Transcript, tokens: NDArray[np.int64]) -> Iterator[tuple[int, Veto]]:
        """Those of some tokens that complete a value in a call that is refused, each with the veto."""
        if self._turn is not None:
            state = text.state(self._turn)
            for token in tokens.tolist():
                veto = self._turn.feed(state, token, self._vocabulary.token(token)).judged.veto
                if veto is not None:
                    yield token, veto

    def listener(self, text: Transcript, said: bytes | bytearray) -> GuardListener:
        """Tells what the guards would say of more text after these bytes, which the text begins with."""
        _, (states, length) = self.heard(text)
        return GuardListener(self.guards, states, bytes(said[length:]))

    def allowed(self, words: Words | None, text: Transcript) -> Words | None:
        """See `RowRule`. Takes out tokens only once the guards look ahead."""
        if not self.looks_ahead:
            return words
        words, states = self.plain if words is None else words, self.heard(text)[1].states
        left = self.guards.without_refused(states, words, self._vocabulary, last=not text.has_room)
        if self._turn is None or self._turn.judge is None:
            return left
        allowed = bits_of(left, self._vocabulary.width).copy()
        suspects = self._turn.judge.suspects(text.state(self._turn).judged, self._vocabulary)
        suspects = np.flatnonzero(allowed) if suspects is None else suspects[allowed[suspects]]
        allowed[[token for token, _ in self._refused_calls(text, suspects)]] = False
        return packed(allowed)


class GuardListener:
    """The guards after a text, whose last bytes they may not have read yet; a `Listener`.

    Attributes:
        state: None if they refuse these bytes.
    """

    def __init__(self, guards: GuardSet, state: States, unread: bytes) -> None:
        self._guards = guards
        self.state = self.after(state, unread) if unread else state

    def after(self, state: States | None, text: bytes) -> States | None:
        after = None if state is None else self._guards.feed(state, text)
        return None if isinstance(after, Veto) else after

    def refusal(self, text: bytes) -> Veto | None:
        """The veto against more bytes or an end after them."""
        after = None if self.state is None else self._guards.feed(self.state, text)
        return after if after is None or isinstance(after, Veto) else self._guards.finish(after)

    def may_end(self, state: States) -> bool:
        return self._guards.finish(state) is None

    def wanted(self, state: States) -> bytes:
        """Nothing: guards require no text."""
        return b""


def conflict(veto: Veto, said: str, matcher: Matcher | None, tokens: Sequence[int], reason: str = "") -> str:
    """The message of a guard's refusal, with the texts that the constraint wants at that place.

    Args:
        matcher: of the constraint, at any position.
        tokens: of the text, before the offence.
        reason: in place of the veto's.
    """
    wanted = ""
    if matcher is not None:
        walk = matcher.grammar.matcher()
        for token in tokens:
            walk.advance(token)
        texts = _alternatives(walk)
        if isinstance(walk.grammar.automaton, JsonAutomaton):
            wanted = f" at {excerpt(pointer_at(walk.text)) or 'the root'}"
        wanted += f", which requires {' or '.join(map(quoted, texts))}" if texts else ""
    return f"{reason or veto.reason} conflicts with the constraint{wanted}, from byte {veto.offset} on, in {said}"


def _alternatives(walk: Matcher) -> list[str]:
    """The texts that may follow, each as far as it is forced; none if they are many."""
    forced = ForcedText(walk.grammar.vocabulary)
    text, _ = forced.text(walk.grammar, walk.position)
    if text:
        return [text.decode("utf-8", errors="replace")]
    try:
        words = walk.mask()
    except DeadEnd:
        return []
    if count(words) > FEW:
        return []
    texts = []
    for token in ids_of(words).tolist():
        step = walk.fork()
        step.advance(token)
        more = b"" if step.finished else forced.text(step.grammar, step.position)[0]
        texts.append((walk.grammar.vocabulary.token(token) + more).decode("utf-8", errors="replace"))
    return [text for text in texts if text]
