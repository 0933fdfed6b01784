"""Rows of another library's loop: their constraints follow the ids that the loop has chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np

from structgen.arguments import require
from structgen.decoding.grammars import grammar_for
from structgen.decoding.prompts.targets import targets_of
from structgen.errors import DeadEnd, OptionError, StructgenError, TokenRejected
from structgen.masks import CanonicalMatcher, Grammar, Matcher, find_masks
from structgen.masks.words import Words
from structgen.models.prefixes import common
from structgen.options import Whitespace
from structgen.vocabulary import Vocabulary

Canonical = Literal["off", "prefer", "strict"]
"""See `structgen.generate`."""


def grammars_of(
    schema: Any, vocabulary: Vocabulary, whitespace: Whitespace, order: str | Sequence[str]
) -> list[Grammar | None]:
    """Returns the grammar of a schema, or of each schema of a list; None for plain text."""
    targets = targets_of(schema if isinstance(schema, list) else [schema], whitespace, order)
    constraints = [target.constraint for target in targets]
    return [None if given is None else grammar_for(given, vocabulary) for given in constraints]


def matcher_of(grammar: Grammar, canonical: Canonical, prompt: Sequence[int] | None = None) -> Matcher:
    """Returns a matcher at the start of a text, which allows only canonical tokens if asked to.

    Raises:
        OptionError: `canonical` is none of its values, or it is not known how the tokenizer encodes; or a part has a
            temperature, and it is the other loop that draws.
    """
    if grammar.budgets is not None and grammar.budgets.temperatures:
        raise OptionError("temperature= of a part: only structgen's own loop can draw with it; leave it out here")
    require(canonical in get_args(Canonical), "canonical", canonical, '"off", "prefer" or "strict"')
    if canonical == "off":
        return grammar.matcher()
    return CanonicalMatcher(grammar, prompt, strict=canonical == "strict")


class FollowedRow:
    """The state of one row's constraint.

    Args:
        canonical: "off", "prefer" or "strict".
        prompt: the row's prompt, if it is known.

    Attributes:
        matcher: None for plain text.
        error: why no token may follow; None if one may.
    """

    def __init__(
        self, grammar: Grammar | None, canonical: Canonical = "off", prompt: Sequence[int] | None = None
    ) -> None:
        self.matcher = None if grammar is None else matcher_of(grammar, canonical, prompt)
        self.error: StructgenError | None = None
        self._taken: list[int] = []

    def go_to(self, ids: list[int]) -> None:
        """Moves the matcher after these ids. First it goes back to where they differ from the ids before."""
        matcher, taken = self.matcher, self._taken
        if matcher is None:
            return
        same = len(taken) if ids[: len(taken)] == taken else common(taken, ids)
        matcher.rollback(len(taken) - same)
        del taken[same:]
        self.error = None
        for token in ids[same:]:
            if matcher.finished:
                break
            try:
                matcher.advance(token)
            except TokenRejected as error:
                self.error = error
                break
            taken.append(token)


def masks_of(rows: Sequence[FollowedRow], words: int) -> Words:
    """Returns the masks of the rows: uint32[rows, words].

    All tokens are allowed in plain text, and after an end token, where a loop pads. No token is allowed in a row with
    an error, such as a dead end.
    """
    masks = np.full((len(rows), words), 0xFFFFFFFF, np.uint32)
    find_masks(row.matcher for row in rows if row.matcher is not None and row.error is None)
    for row, mask in zip(rows, masks, strict=True):
        if row.matcher is not None and row.error is None and not row.matcher.finished:
            try:
                row.matcher.mask(mask)
            except DeadEnd as error:
                row.error = error
        if row.error is not None:
            mask[:] = 0
    return masks
