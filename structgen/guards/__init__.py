"""Guards: they read the text as it comes, and may veto it from an earlier byte on."""

from structgen.guards.banned import BannedPattern, BannedWords
from structgen.guards.lookahead import GuardMask
from structgen.guards.protocol import Guard, Veto

__all__ = ["BannedPattern", "BannedWords", "Guard", "GuardMask", "Veto"]
