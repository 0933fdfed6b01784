"""What of a request is read otherwise than it says."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields

LONGEST = 1000
"""The characters of a header at most."""


@dataclass
class Notes:
    """What of a request is read otherwise than it says. The answer has it in its headers and its field `structgen`, and
    so has the log.

    Attributes:
        ignored: fields without an effect.
        left_out: tools that a provider's servers would run: the model is not offered them.
        clamped: bounds above the server's own, as `max_tokens=32000: 4096`.
        repaired: messages that were broken, and how they are read.
        unmasked: places of tools' schemas that no mask holds; nothing else checks them.
    """

    ignored: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    clamped: list[str] = field(default_factory=list)
    repaired: list[str] = field(default_factory=list)
    unmasked: list[str] = field(default_factory=list)

    def told(self) -> dict[str, list[str]]:
        """Returns what there is to tell, by its kind."""
        return {each.name: [*dict.fromkeys(found)] for each in fields(self) if (found := getattr(self, each.name))}

    def headers(self) -> dict[str, str]:
        """Returns the headers `X-Structgen-Ignored`, `X-Structgen-Left-Out`, ..."""
        return {
            f"X-Structgen-{name.replace('_', '-').title()}": _header("; " if name == "repaired" else ", ", told)
            for name, told in self.told().items()
        }


def _header(joint: str, told: list[str]) -> str:
    """Returns texts as the value of a header. Names of a client may have any characters."""
    escaped = re.sub(r"[^ -~]", lambda found: found[0].encode("unicode_escape").decode(), joint.join(told))
    return escaped[:LONGEST].strip()
