"""What a provider's schema does not say as the given one does."""

from __future__ import annotations

from typing import Literal, NamedTuple

from structgen.json_text.pointers import escaped

Effect = Literal["wider", "narrower", "encoded", "limit"]


class PortingLoss(NamedTuple):
    """What a provider's schema does not say as the given one does.

    Attributes:
        pointer: JSON pointer in the given schema: to the keyword, or to the schema that lacks it.
        keyword: its name; the name of a limit where that is exceeded.
        effect: "wider": the provider may write values that the schema refuses. "narrower": it cannot write some that
            the schema takes. "encoded": `Portable.restore` puts it right. "limit": it may refuse the schema.
        why: in words.
    """

    pointer: str
    keyword: str
    effect: Effect
    why: str

    def __str__(self) -> str:
        return f"{self.pointer or '/'}  {self.effect}: {self.why}"


class Losses:
    """Gathers losses, each once.

    Attributes:
        found: what was lost, in order.
    """

    def __init__(self) -> None:
        self.found: dict[PortingLoss, None] = {}

    def note(self, at: str, keyword: str, effect: Effect, why: str) -> None:
        """Notes a loss of the schema at a pointer."""
        self.found[PortingLoss(f"{at}/{escaped(keyword)}", keyword, effect, why)] = None
