"""Masks keep values within a depth: the short way of a token, too."""

from __future__ import annotations

import pytest

from structgen.constraints.basic import JsonSchema
from structgen.endings.nesting import nested
from structgen.errors import TokenRejected
from tests.support.matching import byte_vocabulary


@pytest.mark.parametrize("most", [2, 40])
def test_a_token_that_leads_too_deep_is_refused_whether_or_not_a_mask_was_asked_for(most: int) -> None:
    matcher = nested(JsonSchema({"type": "array"}).compile(byte_vocabulary()), most).matcher()
    for _ in range(most):
        matcher.advance(ord("["))
    with pytest.raises(TokenRejected):
        matcher.advance(ord("["))
    matcher.advance(ord("]"))


def test_what_a_schema_requires_may_be_deeper_than_the_bound() -> None:
    """There each value may still be written, token by token, but nothing that goes deeper than it must."""
    inner = {"type": "object", "properties": {"b": {"type": ["integer", "array"]}}, "required": ["b"]}
    schema = {"type": "object", "properties": {"a": inner}, "required": ["a"], "additionalProperties": False}
    matcher = nested(JsonSchema(schema).compile(byte_vocabulary()), 1).matcher()
    for byte in b'{"a": {"b": 1':
        matcher.advance(byte)
    shorter = matcher.fork()
    for byte in b"23}}":
        matcher.advance(byte)
    assert matcher.can_finish
    shorter.rollback(1)
    with pytest.raises(TokenRejected):
        shorter.advance(ord("["))
