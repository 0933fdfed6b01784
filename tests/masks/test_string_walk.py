"""Masks inside free strings, and along literals that lie over them (`string_walk`): equal to the plain twin's.

The states are asked for their mode, so that each row is known to reach the kernel that it is for.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from structgen.automaton.table_format import FREE, KIND, OVERLAY, TARGET
from structgen.constraints.basic import JsonSchema
from tests.support.matching import END, Checked, rich_vocabulary, vocabulary_of
from tests.support.tables import cases
from tests.support.walking import tokens_of

LITERALS = ["name", "na", "naé", "true", "aaaaaaaa", "", "a\nb", "é", 'a"b']
VOCABULARY = vocabulary_of(
    [b'na"', b"nam", b'e"', b'"}', b'aaaaaaaaa"', b'x"', b"a\\n", b'\xc3\xa9"', b'\xa9"', b'b"}']
)
FREE_STRINGS: list[dict[str, Any]] = cases("masks/string_walk", "FREE_STRINGS")
NAMES = {"name": {"type": "null"}, "na": {"type": "null"}, "é": {"type": "null"}}
OVERLAID: list[dict[str, Any]] = cases("masks/string_walk", "OVERLAID", globals())


def modes_on_the_way(schema: Any, vocabulary: Any, texts: list[str]) -> set[int]:
    """The modes of the states along some texts; every mask there, and behind random tokens, is compared."""
    modes: set[int] = set()
    grammar, known = JsonSchema(schema).compile(vocabulary), {}
    for text in texts:
        walk = Checked(grammar, known)
        for n, byte in enumerate(text.encode()):
            state = walk.matcher.position & TARGET
            modes.add(int(grammar.automaton.tables.states[state, KIND]) >> 4 & 15)
            branch, draw = Checked(grammar, known), random.Random(n)
            assert all(branch.take(each) for each in text.encode()[:n])
            for _ in range(3):
                token = draw.choice(tokens_of(branch.mask()))
                if token == END:
                    break
                assert branch.take(token)
            if not walk.take(byte):
                break
    return modes


@pytest.mark.parametrize("schema", FREE_STRINGS, ids=str)
@pytest.mark.parametrize("vocabulary", [VOCABULARY, rich_vocabulary()], ids=["quotes", "rich"])
def test_masks_in_a_free_string_are_the_plain_twins(schema: dict[str, Any], vocabulary: Any) -> None:
    inside = ['"aé😀x\\n"', '"ab"', '"aaaaaaaaa"', '"\\u00e9\\ud83d\\ude00"']
    texts = inside if schema["type"] == "string" else [f'{{{name}: "x"}}' for name in inside[:3]]
    assert FREE in modes_on_the_way(schema, vocabulary, texts)


@pytest.mark.parametrize("schema", OVERLAID, ids=str)
@pytest.mark.parametrize("vocabulary", [VOCABULARY, rich_vocabulary()], ids=["quotes", "rich"])
def test_masks_along_literals_over_a_free_string_are_the_plain_twins(schema: dict[str, Any], vocabulary: Any) -> None:
    words = ['"name"', '"nax"', '"naé"', '"aaaaaaaaa"', '"true"', '"é"', '"a\\nb"', '"n\\u003c"']
    texts = [f"{{{word}: 1}}" if "properties" in schema else f'[{word}, "name", "x"]' for word in words]
    assert OVERLAY in modes_on_the_way(schema, vocabulary, texts)
