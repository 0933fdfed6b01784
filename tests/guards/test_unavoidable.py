"""What a constraint forces although a guard forbids it is found in time, or not at all.

Covers `protocol`.
"""

from __future__ import annotations

from structgen.constraints.basic import JsonSchema, Regex
from structgen.guards import BannedWords
from structgen.guards.protocol import Guard, Veto
from structgen.guards.unavoidable import MAX_STEPS, in_every_text
from tests.support.matching import byte_vocabulary


class Counting(Guard[int]):
    """Refuses every quote, and counts how often it is asked."""

    asked = 0

    def start(self) -> int:
        return 0

    def feed(self, state: int, text: bytes) -> int | Veto:
        self.asked += 1
        at = text.find(b'"')
        return state + len(text) if at < 0 else Veto(state + at, "a quote")


def test_the_search_ends_when_more_is_waiting_than_may_be_followed() -> None:
    """Free text in a small vocabulary, where no mask is too wide: each byte multiplies what is waiting."""
    guard = Counting()
    grammar = Regex('[a-z ]*"').compile(byte_vocabulary())
    assert in_every_text(grammar, [guard]) is None
    assert guard.asked <= MAX_STEPS + 256


def test_few_texts_are_read_to_their_end() -> None:
    words = [f"bad {number}" for number in range(200)]
    grammar = JsonSchema({"enum": words}).compile(byte_vocabulary())
    assert in_every_text(grammar, [BannedWords(["good"])]) is None
    assert in_every_text(grammar, [BannedWords(["bad 199"])]) is None
    found = in_every_text(grammar, [BannedWords(["bad"])])
    assert found is not None
    assert found.forced == '"bad'
