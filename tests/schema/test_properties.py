"""Random schemas of all keywords: compiled, they take what `jsonschema` accepts, and walks end in what it accepts."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.errors import FlakyStrategyDefinition
from hypothesis.internal.conjecture.utils import many
from hypothesis_jsonschema import from_schema
from jsonschema import Draft7Validator, Draft202012Validator

from structgen.constraints.basic import JsonSchema
from structgen.errors import DeadEnd, LimitExceeded, UnsatisfiableSchema
from structgen.masks.grammar import Grammar, Matcher
from tests.schema.test_algebra import KEYS, SCALARS, SHARED, SUBSCHEMAS, VALUES
from tests.support.matching import END, byte_vocabulary, plain_verdict
from tests.support.walking import tokens_of

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
Schema = dict[str, Any]


def compiled(schema: Any, order: str) -> Grammar | None:
    """None where no document satisfies the schema."""
    try:
        return JsonSchema(schema, order=order, format="annotate").compile(byte_vocabulary())
    except UnsatisfiableSchema:
        return None


def takes(grammar: Grammar | None, value: Any) -> bool:
    """Is the value a text of the grammar?"""
    return grammar is not None and plain_verdict(grammar, spelled(value))


def spelled(value: Any) -> bytes:
    """The value as JSON; numbers without exponents, which those that `not` restricts do not have."""
    if isinstance(value, float):
        return format(Decimal(repr(value)), "f").encode()
    if isinstance(value, list):
        return b"[" + b", ".join(map(spelled, value)) + b"]"
    if isinstance(value, dict):
        members = (spelled(name) + b": " + spelled(item) for name, item in value.items())
        return b"{" + b", ".join(members) + b"}"
    return json.dumps(value, ensure_ascii=False).encode()


def draft_2020(schema: Any) -> Any:
    """With the definition that its references mean."""
    return {**schema, "$defs": SHARED} if isinstance(schema, dict) else schema


def check_values(schema: Any, values: list[Any]) -> None:
    """In any order, exactly the valid ones; in the schema's order, none that is not valid."""
    schema, validator = draft_2020(schema), Draft202012Validator(draft_2020(schema))
    try:
        anyhow, ordered = compiled(schema, "any"), compiled(schema, "schema")
        for value in values:
            valid = validator.is_valid(value)
            assert takes(anyhow, value) == valid, (schema, value)
            assert not takes(ordered, value) or valid, (schema, value)
    except LimitExceeded:  # combinations under an unevaluated keyword
        assume(False)


def walk(matcher: Matcher, draw: random.Random, *, longest: int = 40, most: int = 600) -> bytes | None:
    """A text of random allowed bytes that hurries to its end after `longest`; None when it does not get there."""
    for step in range(most):
        choices = tokens_of(matcher.mask())
        hurried = step > longest or draw.random() < 0.3
        if END in choices and (hurried or len(choices) == 1):
            return matcher.text
        choices = [token for token in choices if token != END]
        closing = [token for token in choices if chr(token) in '"}]'] if hurried else []
        plain = [token for token in choices if chr(token) in "abcxtfn0123456789"] if draw.random() < 0.8 else []
        matcher.advance(draw.choice(closing or plain or choices))
    return None


def parsed(text: bytes) -> Any:
    """The value of a text; None where a double does not hold a number of it exactly, so that no verdict means much."""

    def exact(number: str) -> float:
        value = float(number)
        try:
            same = Decimal(number) == Decimal(repr(value))
        except InvalidOperation:  # an exponent beyond all bounds
            same = False
        if not same:
            raise _Inexact
        return value

    try:
        return json.loads(text, parse_float=exact)
    except _Inexact:
        return None


class _Inexact(Exception):
    """A number that a double does not hold."""


def check_walks(schema: Any, order: str, draw: random.Random, ends: Counter[str]) -> None:
    """Two walks; each ends in a document that `jsonschema` accepts, or in a dead end, which is counted."""
    schema = draft_2020(schema)
    try:
        grammar = compiled(schema, order)
        for _ in range(2 if grammar else 0):
            assert grammar is not None
            text = walk(grammar.matcher(), draw)
            ends["given up" if text is None else "ended"] += 1
            value = None if text is None else parsed(text)
            if value is not None:
                assert Draft202012Validator(schema).is_valid(value), (schema, text)
    except LimitExceeded:
        ends["limit"] += 1
    except DeadEnd as error:
        ends["dead end"] += 1
        print(f"{schema}: {error}")


def values_are_judged(examples: int) -> None:
    """Random values under random schemas."""

    @settings(max_examples=examples)
    @given(SUBSCHEMAS, st.lists(VALUES, min_size=1, max_size=8))
    def run(schema: Any, values: list[Any]) -> None:
        check_values(schema, values)

    run()


def walks_end_validly(examples: int, order: str) -> None:
    """Random walks under random schemas; one in a hundred may meet a dead end or not get to its end."""
    ends: Counter[str] = Counter()

    @settings(max_examples=examples)
    @given(SUBSCHEMAS, st.integers(0, 10**9))
    def run(schema: Any, seed: int) -> None:
        check_walks(schema, order, random.Random(seed), ends)

    run()
    print(dict(ends))
    assert ends["ended"] > examples
    assert ends["dead end"] + ends["given up"] <= ends["ended"] / 50


@pytest.fixture
def _objects_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """hypothesis-jsonschema 0.23.1 draws objects by a method that later releases of hypothesis have no more."""

    def more(self: Any) -> bool:
        if self._depth is None:
            self.__enter__()
            self.steps = iter(self)
        return next(self.steps, self) is None

    if not hasattr(many, "more"):
        monkeypatch.setattr(many, "more", more, raising=False)


def instances_are_taken(examples: int) -> None:
    """What `from_schema` makes of random schemas of draft 7."""

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(SATISFIABLE, st.data())
    def run(schema: Schema, data: st.DataObject) -> None:
        schema = {"$schema": DRAFT_7, **schema}
        grammar, validator = compiled(schema, "any"), Draft7Validator(schema)
        for _ in range(3):
            value = data.draw(from_schema(schema))
            if validator.is_valid(value) and not otherwise_here(value, exact=not EXACT.isdisjoint(keywords_in(schema))):
                assert takes(grammar, value), (schema, value)

    for _ in range(3):  # hypothesis-jsonschema 0.23.1 does not always draw the same from the same choices
        with suppress(FlakyStrategyDefinition):
            return run()
    pytest.fail("three runs in turn drew something else from the same choices")


EXACT = {"not", "multipleOf", "exclusiveMinimum", "exclusiveMaximum", "oneOf", "if"}
"""The keywords for which numbers are written as doubles hold them: with at most 15 digits."""


def keywords_in(schema: Any) -> Iterator[str]:
    """The keys of all objects in a schema."""
    if isinstance(schema, dict):
        yield from schema
    for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from keywords_in(inner)


def otherwise_here(value: Any, *, exact: bool) -> bool:
    """Is there a string that ends with a line feed, or a number of more than 308 digits, or 15 where they are `exact`?

    Before a line feed at the end, `$` matches in Python, and nowhere in ECMA-262. A number in plain notation has up to
    308 digits before the point.
    """
    if isinstance(value, (dict, list)):
        inner = (*value, *value.values()) if isinstance(value, dict) else value
        return any(otherwise_here(each, exact=exact) for each in inner)
    if isinstance(value, float):
        return abs(value) >= 1e308 or (exact and len(Decimal(repr(value)).normalize().as_tuple().digits) > 15)
    return str(value).endswith("\n")


COUNTS = st.integers(0, 3)
PATTERNS = st.sampled_from(["^[a-c]+$", "x", "^.{2,4}$", "[0-9]{2}", "^(ab|c)*$"])


def _objects_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    properties = st.dictionaries(KEYS, inner, max_size=3)
    optional = {
        "required": st.lists(KEYS, max_size=2, unique=True),
        "additionalProperties": inner,
        "patternProperties": st.dictionaries(st.sampled_from(["a", "^b", "[bc]"]), inner, max_size=2),
        "propertyNames": st.fixed_dictionaries({"maxLength": st.integers(1, 5)}),
        "minProperties": COUNTS,
        "dependencies": st.dictionaries(KEYS, st.lists(KEYS, max_size=2, unique=True), max_size=2),
    }
    return st.fixed_dictionaries({"type": st.just("object"), "properties": properties}, optional=optional)


def _arrays_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    optional = {
        "items": inner | st.lists(inner, min_size=1, max_size=3),
        "additionalItems": inner,
        "contains": inner,
        "uniqueItems": st.booleans(),
        "minItems": COUNTS,
        "maxItems": st.integers(3, 6),
    }
    return st.fixed_dictionaries({"type": st.just("array")}, optional=optional)


def _combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=3)
    alone = [st.fixed_dictionaries({name: several}) for name in ("anyOf", "oneOf", "allOf")]
    conditions = st.fixed_dictionaries({"if": inner, "then": inner, "else": inner})
    return st.one_of(*alone, st.fixed_dictionaries({"not": inner}), conditions)


LEAVES = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"enum": st.lists(VALUES, min_size=1, max_size=3)}),
    st.fixed_dictionaries({"const": SCALARS}),
    st.fixed_dictionaries({"type": st.sampled_from(["null", "boolean", "integer", "number", "string"])}),
    st.fixed_dictionaries({"type": st.just("string"), "pattern": PATTERNS}, optional={"maxLength": st.integers(4, 8)}),
    st.fixed_dictionaries({"type": st.just("string")}, optional={"minLength": COUNTS, "maxLength": st.integers(3, 9)}),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number"])},
        optional={
            "minimum": st.integers(-9, 9),
            "exclusiveMaximum": st.integers(10, 99),
            "multipleOf": COUNTS.map(lambda n: n + 1),
        },
    ),
)
SATISFIABLE = st.recursive(
    LEAVES, lambda inner: _objects_of(inner) | _arrays_of(inner) | _combined(inner), max_leaves=6
)
"""Draft 7; most of them have instances."""


def test_random_values_are_judged_as_jsonschema_judges_them() -> None:
    """Every keyword, over bytes: exactly the valid ones in any order, and no other in the schema's."""
    values_are_judged(300)


@pytest.mark.parametrize("order", ["schema", "any"])
def test_walks_under_the_masks_end_in_valid_documents(order: str) -> None:
    """Dead ends are rare."""
    walks_end_validly(150, order)


@pytest.mark.usefixtures("_objects_drawn")
def test_instances_are_taken_in_any_order() -> None:
    """Whatever hypothesis-jsonschema draws."""
    instances_are_taken(30)


@pytest.mark.slow
def test_many_random_values_are_judged_as_jsonschema_judges_them() -> None:
    """The same, ten times."""
    values_are_judged(3000)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["schema", "any"])
def test_many_walks_under_the_masks_end_in_valid_documents(order: str) -> None:
    """The same, ten times."""
    walks_end_validly(1500, order)


@pytest.mark.parametrize("keyword", ["unevaluatedProperties", "unevaluatedItems"])
@pytest.mark.parametrize("argument", [False, {"type": "string"}, {"properties": {"a": {"$ref": "#"}}}])
def test_a_keyword_of_later_drafts_has_no_effect_in_draft_7(keyword: str, argument: Any) -> None:
    """It is not scanned there, so it must not be read either."""
    schema = {"$schema": DRAFT_7, "properties": {"a": {keyword: argument}}}
    grammar = compiled(schema, "schema")
    for value in ({"b": 1}, [1], {"a": {"b": 1}}, {"a": [1, {}]}):
        assert Draft7Validator(schema).is_valid(value)
        assert takes(grammar, value)
