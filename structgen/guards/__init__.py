"""Guards read the text as it comes, and may veto it from an earlier byte on.

`protocol` is the interface. `banned` forbids words and patterns, `validators` values that a type's validators refuse.
`lookahead` joins several guards, and makes masks for loops that cannot go back. The decode loop itself is in
`decoding`.
"""

from structgen.guards.banned import BannedPattern, BannedWords
from structgen.guards.lookahead import GuardMask
from structgen.guards.protocol import Guard, Veto

__all__ = ["BannedPattern", "BannedWords", "Guard", "GuardMask", "Veto"]
