"""Literal text of a format as parts of a composition. The name of a special token becomes this token."""

from __future__ import annotations

from collections.abc import Collection

from structgen.chat.pieces import Blank, Maybe, OneOf, Slot, Spelling, one_of
from structgen.chat.spellings import ALLOWED_BLANKS, canonical
from structgen.memo import cached_method
from structgen.parts.parts import Either, Loop, Plan, RegularPart, Series
from structgen.parts.special import Fixed, Special
from structgen.regular.chardfa import from_pattern
from structgen.vocabulary.vocabulary import special_text


class Literals:
    """Makes parts of literal text.

    Args:
        tokens: the names of the vocabulary's special tokens, without those that end a text; None if the vocabulary is
            not known yet.
        exact: is a spelling only the one text that the format itself writes?
        blanks: the pattern of the white space in one place.
    """

    def __init__(self, tokens: Collection[str] | None, *, exact: bool = False, blanks: str = ALLOWED_BLANKS) -> None:
        self._tokens, self._named, self.exact = one_of(tokens or ()), tokens is None, exact
        self._blanks = blanks

    @cached_method
    def plan(self, text: str) -> Plan:
        """Returns a text as one plan. The same text gives the same plan, so that its states are made once."""
        pieces = [self._piece(piece) for piece in self.split(text)]
        return pieces[0] if len(pieces) == 1 else Series(tuple(pieces))

    @cached_method
    def _piece(self, text: str) -> Plan:
        return Special(text, special_text(text)) if self.is_token(text) else Fixed(text, self._named)

    @cached_method
    def spelling(self, spelling: Spelling) -> Plan:
        """Returns the texts of a spelling without slots as one plan."""
        plans = [self._spelled(piece) for piece in (canonical(spelling) if self.exact else spelling)]
        return plans[0] if len(plans) == 1 else Series(tuple(plans))

    def _spelled(self, piece: str | Slot | Blank | Maybe | OneOf) -> Plan:
        if isinstance(piece, Blank):
            return self.blank()
        if isinstance(piece, Maybe):
            return optional(self.spelling(piece.pieces))
        if isinstance(piece, OneOf):
            return Either(tuple(map(self.spelling, piece.options)))
        assert isinstance(piece, str)
        return self.plan(piece)

    @cached_method
    def blank(self, text: str = "") -> Plan:
        """Any white space, of a bounded length; `text` if spellings are exact."""
        if self.exact:
            return self.plan(text) if text else Series(())
        return RegularPart(from_pattern(self._blanks, anchored=True), blank=True)

    def is_token(self, text: str) -> bool:
        """Is a text the name of a special token?"""
        return self._tokens.fullmatch(text) is not None

    def split(self, text: str) -> list[str]:
        """Returns the pieces of a text: each is plain text, or the name of a special token."""
        return [piece for piece in self._tokens.split(text) if piece]


def optional(plan: Plan) -> Plan:
    """Returns a plan that may be left out."""
    return Loop(plan, 0, 1)
