"""Python types: what the masks allow the validator accepts, and values at the borders are allowed.

Covers `bounded_text`, `network_text`, `object_fields`, `pydantic_schema` and `python_patterns`.
"""

from __future__ import annotations

import json
import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, validators
from jsonschema import ValidationError as Invalid
from pydantic import EmailStr, NameEmail, TypeAdapter, ValidationError

from structgen.constraints.basic import JsonSchema
from structgen.errors import DeadEnd, TokenRejected, UnsupportedSchema
from structgen.schema.python.types import from_type
from tests.support.matching import END, byte_vocabulary, rich_vocabulary
from tests.support.python_object_values import CONTAINERS, MODELS
from tests.support.python_values import SCALARS, STRINGS, Row
from tests.support.thinning import times
from tests.support.walking import SearchLimit, random_walk, tokens_of

ROWS: list[Row] = [*SCALARS, *STRINGS, *CONTAINERS, *MODELS]
IDS = [row[0] for row in ROWS]

BEYOND_JSONSCHEMA = {"strict int", "strict model", "Decimal, step"}
"""What `jsonschema` reads otherwise: `1.0` is an integer to it; multiples in floating point."""


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Any:
    if isinstance(instance, str) and not regex.search(pattern, instance):
        yield Invalid(f"no match for {pattern}")


Oracle = validators.extend(Draft202012Validator, {"pattern": _pattern})


def takes(tp: Any, text: str, **options: Any) -> bool:
    """Whether the masks let `text` through, byte by byte, to an end."""
    matcher = JsonSchema(tp, **options).compile(rich_vocabulary()).matcher()
    try:
        for byte in text.encode():
            matcher.advance(byte)
    except TokenRejected:
        return False
    return matcher.can_finish


def validates(tp: Any, text: str) -> bool:
    """Whether the type's own validator takes `text`."""
    try:
        from_type(tp)[1].validate_json(text)
    except (ValidationError, ZeroDivisionError):  # the second: "1/0" for a Fraction, before Pydantic 2.14
        return False
    return True


@pytest.mark.parametrize(("name", "tp", "right", "wrong"), ROWS, ids=IDS)
def test_masks_and_validator_agree_at_the_borders(name: str, tp: Any, right: list[str], wrong: list[str]) -> None:
    """The rows tell the truth about the validator, and the masks follow them."""
    for text in right:
        assert validates(tp, text), text
        assert takes(tp, text), text
    for text in wrong:
        assert not validates(tp, text), text
        assert not takes(tp, text), text


@pytest.mark.parametrize(("name", "tp", "right", "wrong"), ROWS, ids=IDS)
def test_the_schema_says_it_in_the_standards_own_words(name: str, tp: Any, right: list[str], wrong: list[str]) -> None:
    """Another implementation of the standard, given the same schema, comes to the same verdicts."""
    if name in BEYOND_JSONSCHEMA:
        pytest.skip("jsonschema reads this otherwise")
    oracle = Oracle(from_type(tp)[0])
    for text in right:
        assert oracle.is_valid(json.loads(text)), text
    for text in wrong:
        assert not oracle.is_valid(json.loads(text)), text


EMAILS = ["a@b.co", "ada.lovelace+x@example.com", "o'brien@a-b.ie", "x" * 64 + "@a.de"]
NO_EMAILS = ["a@b", "a..b@c.de", "a@b.test", "a@localhost", "a@-b.co", "a@b.c1", "", "a b@c.de", "x" * 65 + "@a.de"]


def test_e_mail_addresses() -> None:
    """What the masks allow, `email-validator` takes; without that package the type is refused by name."""
    try:
        import email_validator  # noqa: F401
    except ImportError:
        with pytest.raises(UnsupportedSchema, match="email-validator"):
            from_type(EmailStr)
        return
    for text in EMAILS:
        assert validates(EmailStr, json.dumps(text)), text
        assert takes(EmailStr, json.dumps(text)), text
    for text in NO_EMAILS:
        assert not takes(EmailStr, json.dumps(text)), text
    for seed in range(30):
        walk_validates(EmailStr, seed)
        walk_validates(NameEmail, seed)


def walk_validates(tp: Any, seed: int) -> None:
    """A random walk under the masks ends in a text that the validator takes.

    Where a key or an item was repeated and nothing else can follow, the walk has no end: a decoder goes back there.
    """
    try:
        text = random_walk(JsonSchema(tp).compile(rich_vocabulary()), seed)
    except (SearchLimit, DeadEnd):
        return
    assert validates(tp, text.decode()), text


@pytest.mark.parametrize(("name", "tp", "right", "wrong"), ROWS, ids=IDS)
def test_random_walks_validate(name: str, tp: Any, right: list[str], wrong: list[str]) -> None:
    """A few walks for every type."""
    for seed in range(3):
        walk_validates(tp, seed)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "tp", "right", "wrong"), ROWS, ids=IDS)
def test_many_random_walks_validate(name: str, tp: Any, right: list[str], wrong: list[str]) -> None:
    """Many walks for every type."""
    for seed in range(100, 180):
        walk_validates(tp, seed)


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("tp", [Decimal, Fraction])
def test_a_number_is_the_decimal_that_its_text_spells(tp: Any, count: int) -> None:
    """Pydantic makes a float of it first, so a mask lets no digits through that a float loses."""
    grammar, read = JsonSchema(tp).compile(byte_vocabulary()), TypeAdapter(tp).validate_json
    draw = random.Random(count)
    for _ in range(count):
        matcher = grammar.matcher()
        while bytes_ := [byte for byte in tokens_of(matcher.mask()) if byte not in (END, ord('"'))]:
            matcher.advance(draw.choice(bytes_))
            if matcher.can_finish and draw.random() < 0.06:
                break
        assert matcher.can_finish
        assert read(matcher.text) == tp(matcher.text.decode())


@settings(max_examples=times(25), deadline=None)
@given(st.integers(0, 10**6), st.integers(0, len(ROWS) - 1))
def test_walks_of_other_seeds_validate(seed: int, row: int) -> None:
    """Seeds that nobody chose."""
    walk_validates(ROWS[row][1], seed)
