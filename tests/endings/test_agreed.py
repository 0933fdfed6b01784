"""Where bytes lead is what a matcher says that takes them, whatever the tests are answered."""

from __future__ import annotations

import random
from typing import Any

from structgen.constraints.basic import JsonSchema
from structgen.endings.agreed import ByteLeads
from structgen.errors import TokenRejected
from tests.support.matching import END, byte_vocabulary, rich_vocabulary
from tests.support.tables import cases
from tests.support.thinning import times
from tests.support.walking import random_schema, tokens_of

TRIED = bytes(range(32, 127))
UNIQUE = {"type": "array", "uniqueItems": True}
CHECKED: list[Any] = cases("endings/agreed", "CHECKED", globals())


def check_leads(schema: Any, draw: random.Random, steps: int) -> int:
    """Along a random walk, every byte: how many positions there were."""
    try:
        grammar = JsonSchema(schema).compile(draw.choice([byte_vocabulary(), rich_vocabulary()]))
    except ValueError:
        return 0
    matcher = grammar.matcher()
    leads = ByteLeads(grammar, {byte: byte for byte in range(256)})
    for step in range(steps):
        found = {byte: position for position, bytes_ in leads.after(matcher.position, TRIED, matcher.reading)
                 for byte in bytes_}  # fmt: skip
        for byte in TRIED:
            try:
                matcher.advance(byte)
            except TokenRejected:
                assert byte not in found, (schema, matcher.text, byte)
            else:
                assert found[byte] == matcher.position, (schema, matcher.text, byte)
                matcher.rollback(1)
        choices = [token for token in tokens_of(matcher.mask()) if token != END]
        if not choices:
            return step + 1
        matcher.advance(draw.choice(choices))
    return steps


def test_bytes_lead_where_a_matcher_goes() -> None:
    """Schemas with tests, and random ones; along random walks."""
    checked = sum(check_leads(schema, random.Random(seed), 40) for schema in CHECKED for seed in range(3))
    for seed in range(times(40)):
        draw = random.Random(seed)
        checked += check_leads(random_schema(draw), draw, 15)
    assert checked > times(600)


def test_what_was_found_is_kept_for_other_texts_and_forgotten_in_time() -> None:
    grammar = JsonSchema(CHECKED[0]).compile(byte_vocabulary())
    leads = ByteLeads(grammar, {byte: byte for byte in b"0,]"})
    walks = [grammar.matcher() for _ in range(2)]
    for walk, text in zip(walks, (b"[1, 2", b"[2, 2"), strict=True):
        for byte in text:
            walk.advance(byte)
    assert walks[0].position == walks[1].position
    led = [b"".join(tried for _, tried in leads.after(each.position, b"0,]", each.reading)) for each in walks]
    assert led == [b"0,]", b"0"]
