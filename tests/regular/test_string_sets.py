"""Sets of strings in the tables: what their automata hold exactly needs no check."""

from __future__ import annotations

from structgen.constraints.basic import JsonSchema
from tests.support.matching import allowed, byte_vocabulary


def test_a_length_that_is_counted_needs_no_check_however_great_it_is() -> None:
    """No mask of a pattern with a great `maxLength` asks about the text, and the last character is the last."""
    most = 50_000
    schema = {"type": "string", "pattern": "^[ab]*c?$", "maxLength": most}
    matcher = JsonSchema(schema).compile(byte_vocabulary()).matcher()
    for byte in b'"' + b"ab" * (most // 2 - 1):
        matcher.advance(byte)
    for text, following in ((b"", b'abc"'), (b"b", b'abc"'), (b"a", b'"')):
        for byte in text:
            matcher.advance(byte)
        mask, _, late = matcher.grammar.mask(matcher.position)
        assert late is None
        assert bytes(byte for byte in range(0x20, 0x5C) if allowed(mask, byte)) + bytes(
            byte for byte in range(0x5D, 256) if allowed(mask, byte)
        ) == bytes(sorted(following))
