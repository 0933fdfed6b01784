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
