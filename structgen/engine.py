"""The layer for loops of your own: vocabularies, compiled grammars, matchers and masks. It needs no torch."""

from structgen.endings.closing import closing_tokens
from structgen.errors import RefusedToken
from structgen.guards.lookahead import GuardMask
from structgen.guards.validators import ValidatorGuard
from structgen.masks import CanonicalMatcher, Grammar, Matcher, fill_masks, why_refused
from structgen.vocabulary import Vocabulary

__all__ = [
    "CanonicalMatcher",
    "Grammar",
    "GuardMask",
    "Matcher",
    "RefusedToken",
    "ValidatorGuard",
    "Vocabulary",
    "closing_tokens",
    "fill_masks",
    "why_refused",
]
