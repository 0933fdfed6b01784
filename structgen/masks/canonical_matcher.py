"""`CanonicalMatcher`: a matcher that allows only the tokens that the tokenizer itself makes of the text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from structgen.arguments import is_whole
from structgen.errors import DeadEnd, TokenRejected, quoted
from structgen.masks.continuations import Continuations
from structgen.masks.grammar import Grammar, Matcher
from structgen.masks.string_slices import Uint32
from structgen.masks.words import written
from structgen.vocabulary import Vocabulary
from structgen.vocabulary.canonical.asked import AFRESH, CanonicalState

NOTHING_LEFT = "no allowed token is canonical: the constraint allows no text here in the tokenizer's own tokens"


def canonical_start(vocabulary: Vocabulary, prompt: Sequence[int], *, joined: bool = False) -> CanonicalState:
    """The state after a prompt.

    The tokens must be canonical across the seam if the prompt ends with a special token or a line, or if they are
    `joined` to it. Otherwise the first token is free: the tokenizer might have ended the prompt with another token, had
    it known the text. The space that SentencePiece puts before each text is not required: few constraints allow it.
    """
    canonical = vocabulary.canonical
    last = vocabulary.token(prompt[-1]) if prompt else b""
    held = joined or not last or last.endswith(b"\n")
    return (canonical.behind(prompt) if held else AFRESH)._replace(spaced=False)


class CanonicalMatcher(Matcher):
    """A `Matcher` whose masks have only canonical tokens, behind which the text can go on in canonical tokens.

    It gives loops of your own the guarantee of `structgen.generate(canonical=...)`. It can be forked and rolled back as
    a `Matcher` can. Where more than 64 tokens are allowed, those that lead nowhere are not looked for: after one of
    these nothing canonical is left.

    Args:
        grammar: a compiled constraint. Its vocabulary must come from a byte-level byte-pair encoding of Hugging Face's
            `tokenizers`, such as those of GPT-2, Llama 3 and Qwen.
        prompt_ids: the prompt's tokens; None if they are not known. Then the first token is free.
        strict: raise `DeadEnd` where nothing canonical is left. Otherwise the constraint's own mask holds there.

    Attributes:
        relaxed: the indexes of the tokens that were accepted where nothing canonical was left.

    Raises:
        OptionError: the vocabulary comes from another tokenizer.
    """

    __slots__ = ("_canonical", "_continuations", "_masks", "_states", "_strict", "relaxed")

    def __init__(self, grammar: Grammar, prompt_ids: Sequence[int] | None = None, *, strict: bool = False) -> None:
        super().__init__(grammar)
        vocabulary = grammar.vocabulary
        self._canonical, self._masks, self._strict = vocabulary.canonical, vocabulary.canonical_masks, strict
        self._continuations = Continuations.of(grammar, self._canonical)
        first = AFRESH if prompt_ids is None else canonical_start(vocabulary, prompt_ids)
        self._states = [first]  # one more than tokens; as with positions, only the first of them count
        self.relaxed: set[int] = set()

    def mask(self, out: Uint32 | None = None) -> Uint32:
        """The tokens allowed next, as `Matcher.mask`. Without `out` the result may be a view of a cache.

        Raises:
            DeadEnd: as `Matcher.mask`; with `strict` also if nothing canonical is left.
        """
        words, _ = self._left()
        return words if out is None else written(words, out)

    def _left(self) -> tuple[Uint32, bool]:
        """The mask, and whether it is relaxed."""
        words, state = super().mask(), self._states[self._count]
        live = self._continuations.live(self.position, state)
        left = words & (self._masks.mask(state) if live is None else live)
        if left.any():
            return left, False
        if self._strict:
            raise DeadEnd(f"at byte {len(self.text)}, after {quoted(self.text[-20:])}: {NOTHING_LEFT}")
        return words, True

    @property
    def can_finish(self) -> bool:
        """May the text end here?"""
        if self.finished or not super().can_finish:
            return self.finished
        if self._canonical.is_whole(self._states[self._count]):
            return True
        return not self._strict and self._left()[1]

    def advance(self, token_id: int) -> None:
        """Accepts a token; raises as `Matcher.advance` does, also if the token is not canonical."""
        count, relaxed = self._count, False
        if not self.finished and is_whole(token_id, 0, self.grammar.vocabulary.width - 1):
            words, relaxed = self._left()
            if not words[int(token_id) // 32] >> np.uint32(int(token_id) % 32) & 1:
                super().advance(token_id)  # raises, if the constraint refuses it, too
                super().rollback(1)
                token = self.grammar.vocabulary.token(int(token_id))
                raise TokenRejected(f"token {int(token_id)} {quoted(token)} at byte {len(self.text)}: not canonical")
        super().advance(token_id)
        if not self.finished:
            after = self._canonical.advance(self._states[count], int(token_id))
            self._states[count + 1 :] = (after or self._canonical.behind([int(token_id)]),)
        if relaxed:
            self.relaxed.add(count)

    def take(self, tokens: Sequence[int]) -> int:
        """Accepts tokens up to the first one that is not allowed or not canonical. Returns how many."""
        for count, token in enumerate(tokens):
            try:
                self.advance(token)
            except TokenRejected:
                return count
        return len(tokens)

    def fork(self) -> CanonicalMatcher:
        """Returns a second, independent matcher at this position."""
        twin = CanonicalMatcher(self.grammar, strict=self._strict)
        self._copy_to(twin)
        twin._states, twin.relaxed = self._states[:], set(self.relaxed)
        return twin

    def rollback(self, count: int) -> None:
        """Takes back the last `count` tokens, as `Matcher.rollback`."""
        super().rollback(count)
        del self._states[self._count + 1 :]
        self.relaxed = {index for index in self.relaxed if index < self._count}
