"""What a user asks for: mistakes are named before anything runs, and small requests stay small."""

from __future__ import annotations

import copy
import itertools
import pickle
import random
import re
from time import thread_time
from typing import Any, Literal

import pytest
from pydantic import BaseModel

import structgen as sg
from structgen.constraints.basic import Choice, Constraint, JsonSchema, Regex
from structgen.endings.closing import Closing
from structgen.errors import (
    LimitExceeded,
    OptionError,
    RequestError,
    SchemaError,
    TokenRejected,
    UnsatisfiableSchema,
    UnsupportedSchema,
)
from structgen.options import DEFAULT_DEPTH
from structgen.testing import scripted
from tests.support.matching import accepts, byte_vocabulary, plain_verdict, rich_vocabulary, takes_exactly
from tests.support.speed import at_usual_speed
from tests.support.tables import cases
from tests.support.walking import tokens_of


@pytest.mark.parametrize("schema", [{}, {"type": "number"}, {"type": "number", "minimum": 0}, float, list[float]])
def test_numbers_are_finite_unless_lifted(schema: Any) -> None:
    """What Python would read as infinity is masked, wherever a number stands; `finite=False` takes it."""
    listed = schema == list[float]
    for text in ("1e999", "1E+309", "9" * 309, "9" * 400 + ".5"):
        text = f"[{text}]" if listed else text
        assert walk(compiled(schema, finite=False).matcher(), text).can_finish
        with pytest.raises(TokenRejected):
            walk(compiled(schema).matcher(), text)


def test_lifted_numbers_are_read_as_infinity() -> None:
    """`finite=False` gives what the reader makes of the text, through the whole loop."""
    for schema in ({"type": "number"}, float, {"type": "array", "items": {}, "uniqueItems": True}):
        text = "[1e999, 2]" if isinstance(schema, dict) and "items" in schema else "1e999"
        found = sg.generate(scripted(text), "x", JsonSchema(schema, finite=False))
        assert found in (float("inf"), [float("inf"), 2])
        assert sg.generate(scripted(text), "x", JsonSchema(schema)) != found
    assert "finite numbers" in str(sg.explain({"type": ["number", "null"]}))
    assert "finite" not in str(sg.explain(JsonSchema({"type": "number"}, finite=False)))


def walk(matcher: Any, text: str) -> Any:
    """The matcher behind a text."""
    for byte in text.encode():
        matcher.advance(byte)
    return matcher


def compiled(schema: Any, **options: Any) -> Any:
    """The grammar over bytes."""
    return JsonSchema(schema, **options).compile(byte_vocabulary())


@pytest.mark.parametrize(("schema", "pointer"), cases("constraints/basic", "a_malformed_schema_is"))
def test_a_malformed_schema_is_refused_where_it_is_wrong(schema: Any, pointer: str) -> None:
    """A `SchemaError` with the pointer, and not the one that says it is only unsupported."""
    with pytest.raises(SchemaError) as caught:
        compiled(schema)
    assert not isinstance(caught.value, (UnsupportedSchema, UnsatisfiableSchema))
    assert pointer in caught.value.pointer
    assert pointer in str(caught.value)


@pytest.mark.parametrize("value", [None, 3, "no such type", '{"type": "object"}', ["type"], 2.5])
def test_what_is_no_schema_and_no_type_is_refused(value: Any) -> None:
    """Anything but a dict, a bool or a type that Pydantic takes."""
    if value is None:  # `None` is a type to Pydantic: null
        assert accepts(JsonSchema(None), "null")
        return
    with pytest.raises(RequestError):
        compiled(value)


@pytest.mark.parametrize(("schema", "valid", "invalid"), cases("constraints/basic", "keywords_beyond_the_spine_hold"))
def test_keywords_beyond_the_spine_hold(schema: Any, valid: str, invalid: str) -> None:
    """Complements, dependencies, checks at run time; a name never comes twice."""
    assert accepts(JsonSchema(schema), valid)
    assert not accepts(JsonSchema(schema), invalid)


@pytest.mark.parametrize("schema", cases("constraints/basic", "a_schema_that_nothing", globals()))  # fmt: skip
def test_a_schema_that_nothing_satisfies_is_refused_before_anything_runs(schema: Any) -> None:
    """`UnsatisfiableSchema` at compile time, never a dead end at run time."""
    with pytest.raises(UnsatisfiableSchema):
        compiled(schema)


def test_an_unsatisfiable_part_is_left_out_where_it_may_be() -> None:
    """An optional member, an item or an alternative without values is no dead end: it is never entered."""
    schema = {
        "type": "object",
        "properties": {"a": False, "b": {"type": "array", "items": False}, "c": {"anyOf": [False, {"const": "x"}]}},
        "required": ["b", "c"],
        "additionalProperties": {"type": "string", "minLength": 2, "maxLength": 1},
    }
    walk = compiled(schema).matcher()
    assert bytes(walk.forced_tokens()[:-1]) == b'{"b": [], "c": "x"}'


@pytest.mark.parametrize("pattern", ["(", "[b-a]", "a{2,1}", "(?=a)b", "(.*)\\1", "\\p{Nope}", "a**", "[^\\s\\S]"])
def test_a_pattern_that_cannot_be_compiled_is_refused(pattern: str) -> None:
    """Malformed, undecidable or empty: each is an error of the request, with the pattern in the message."""
    with pytest.raises(RequestError, match="pattern"):
        Regex(pattern).compile(byte_vocabulary())


@pytest.mark.parametrize("options", [[], "abc", [""], ["a", ""], ["a", 1], [None]])
def test_choices_must_be_texts(options: Any) -> None:
    """At least one, none empty; a bare string is surely a mistake."""
    with pytest.raises(OptionError, match="options"):
        Choice(options)


@pytest.mark.parametrize("order", ["alphabetical", "", 3])
def test_an_unknown_order_is_refused(order: Any) -> None:
    """Only the two words and lists of names."""
    with pytest.raises(RequestError):
        compiled({"type": "object", "properties": {"a": {}}}, order=order)


def test_all_three_are_constraints() -> None:
    """They compile to grammars and are frozen."""
    for constraint in (JsonSchema({}), Regex("a"), Choice(["a"])):
        assert isinstance(constraint, Constraint)
        with pytest.raises(AttributeError):
            constraint.anything = 1  # type: ignore[union-attr]
    assert Choice(["a", "b"]) == Choice(("a", "b"))


@pytest.mark.parametrize(
    ("constraint", "good", "bad"), cases("constraints/basic", "plain_texts_are_taken_as_they_are", globals())
)
def test_plain_texts_are_taken_as_they_are(constraint: Any, good: list[str], bad: list[str]) -> None:
    """No quotes, no escapes: the whole text must match."""
    takes_exactly(constraint, good, bad)


def test_any_texts_are_taken_and_no_others() -> None:
    """Of few letters, so that texts share their beginnings, and are beginnings of others."""
    every = ["".join(letters) for size in range(1, 5) for letters in itertools.product("aé", repeat=size)]
    for seed in range(60):
        chosen = random.Random(seed).sample(every, 1 + seed % 12)
        takes_exactly(Choice(chosen), chosen, [text for text in every if text not in chosen])
        grammar = Choice(chosen).compile(byte_vocabulary())
        assert Closing.of(grammar).cost(grammar.start) == min(len(text.encode()) for text in chosen)
        pair = [first + second for first in chosen for second in chosen]
        others = [text for text in every if text not in pair]
        takes_exactly(sg.Sequence(Choice(chosen), Choice(chosen)), pair, others)


def test_a_hundred_thousand_texts_take_little_memory() -> None:
    """Word lists and catalogues: their automaton, written whole, took more than 10 s of CPU or 130 MB."""
    texts = [f"{i * 7919 % 100_000:06d}-{i:014d}" for i in range(100_000)]
    began, grammar = thread_time(), Choice(texts).compile(byte_vocabulary())
    for text in texts[::5_000]:
        assert walk(grammar.matcher(), text).can_finish
        with pytest.raises(TokenRejected):
            walk(grammar.matcher(), text + "0")
    assert Closing.of(grammar).cost(grammar.start) == 21
    assert grammar.automaton.memory.held < 16 << 20
    assert at_usual_speed(thread_time() - began) < 2


class Pet(BaseModel):
    """A type with a default, a literal and a nested list."""

    name: str
    kind: Literal["cat", "dog"]
    toys: list[str] = []


def test_closed_is_not_for_dicts() -> None:
    """A dict schema says itself what it takes: `closed` beside it is refused, not dropped."""
    with pytest.raises(OptionError, match="additionalProperties"):
        JsonSchema({"type": "object"}, closed=True).automaton()


def test_python_types_are_closed_unless_asked() -> None:
    """A model takes no undeclared members; `closed=False` lets them in."""
    good = '{"name": "Tom", "kind": "cat", "toys": ["ball"]}'
    extra = '{"name": "Tom", "kind": "cat", "toys": [], "age": 3}'
    assert accepts(JsonSchema(Pet), good)
    assert not accepts(JsonSchema(Pet), extra)
    assert not accepts(JsonSchema(Pet), '{"name": "Tom", "kind": "cow", "toys": []}')
    assert accepts(JsonSchema(Pet, closed=False), extra)
    assert accepts(JsonSchema(list[int]), "[1, 2]")
    assert not accepts(JsonSchema(list[int]), '["1"]')


TYPICAL = cases("constraints/basic", "TYPICAL")
TEXT = (
    b'{"name": "Ada L\xc3\xb6wen", "email": "ada@example.org", "zip": "12345", "age": 36, "tags": ["a", "c"], '
    b'"address": {"street": "Main", "no": 3}, "extra": [1, {"x": null}], "more": "yes"}'
)


def test_a_typical_grammar_takes_at_most_2_mb() -> None:
    """Its tables, after a document has been walked with all its masks, without the cached masks."""
    walk = compiled(TYPICAL).matcher()
    for byte in TEXT:
        walk.mask()
        walk.advance(byte)
    assert walk.can_finish
    assert 0 < walk.grammar.nbytes <= 2_000_000, walk.grammar.nbytes


@pytest.mark.parametrize(
    "extra",
    [{}, {"pattern": "^[a-z é]*$"}, {"pattern": "^x"}, {"minLength": 2}],
    ids=["free", "class", "prefix", "min"],
)
def test_a_long_bound_costs_no_more_states_than_a_short_one(extra: dict[str, Any]) -> None:
    """`maxLength: 2000` and `maxLength: 50`, in states made and in bytes held, after the same text."""

    def cost(longest: int) -> tuple[int, int]:
        walk = compiled({"type": "string", "maxLength": longest, **extra}).matcher()
        for byte in b'"' + b"x" * 40 + b'"':
            walk.mask()
            walk.advance(byte)
        return walk.grammar.automaton.tables.n_states, walk.grammar.nbytes

    short, long = cost(50), cost(2000)
    assert long[0] <= short[0]
    assert long[1] <= short[1]


def test_item_bounds_cost_what_is_met() -> None:
    """`maxItems: 100000` makes states for the items that came, no more."""
    walk = compiled({"type": "array", "items": {"type": "integer"}, "maxItems": 100_000}).matcher()
    tables = walk.grammar.automaton.tables
    before = tables.n_states
    for byte in b"[1, 2, 3":
        walk.mask()
        walk.advance(byte)
    assert tables.n_states - before < 50


def test_a_schema_is_compiled_lazily() -> None:
    """A thousand members that no text visits cost next to nothing beyond their names."""
    one = {"type": "object", "properties": {"x": {"type": "string", "pattern": "^[a-z]{1,20}$"}}}
    schema = {"type": "object", "properties": {f"member {i}": one for i in range(1000)}}
    walk = compiled(schema).matcher()
    for byte in b'{"member 7':
        walk.mask()
        walk.advance(byte)
    assert walk.grammar.automaton.tables.n_states < 20_000


@pytest.mark.parametrize(
    ("pattern", "offset"), [("(?x) a b", 0), (r"ab\h", 2), (r"a\Qa\E", 1), (r"(a*)b\1", 5), ("a(b", 1)]
)
def test_an_error_names_the_pattern_and_the_offset_of_the_user(pattern: str, offset: int) -> None:
    with pytest.raises(OptionError, match=f"^{re.escape(f'pattern {pattern!r}, offset {offset}: ')}"):
        Regex(pattern).language()


def test_hostile_patterns_are_bounded() -> None:
    """Millions of states are not made: a schema's pattern is told at the end of its text, a constraint is refused."""
    assert plain_verdict(compiled({"type": "string", "pattern": "(a|b)*a(a|b){40}$"}), b'"' + 41 * b"a" + b'"')
    with pytest.raises(LimitExceeded, match="states"):
        Regex("(a|b)*a(a|b){40}").language()


def test_a_deep_document_is_walked() -> None:
    """A text may be as deep as the readers of JSON read it."""
    grammar, deepest = compiled({}), DEFAULT_DEPTH
    assert plain_verdict(grammar, b"[" * deepest + b"]" * deepest)
    assert not plain_verdict(grammar, b"[" * deepest + b"]" * (deepest - 1))
    assert not plain_verdict(grammar, b"[" * (deepest + 1) + b"]" * (deepest + 1))


def test_one_constraint_compiles_for_any_vocabulary() -> None:
    """The same request over two vocabularies: the tokens that are in both are allowed alike."""
    constraint = JsonSchema(TYPICAL)
    small, large = constraint.compile(byte_vocabulary()).matcher(), constraint.compile(rich_vocabulary()).matcher()
    for byte in TEXT:
        assert tokens_of(small.mask()) == [token for token in tokens_of(large.mask()) if token <= 256]
        small.advance(byte)
        large.advance(byte)


def test_a_regex_may_look_around() -> None:
    """What an automaton holds is held; what none can is refused."""
    words = Regex(r"(?!the)[a-z]{3}(?<!x)")
    assert accepts(words, "cat")
    assert not accepts(words, "the")
    assert not accepts(words, "fox")
    with pytest.raises(RequestError):
        Regex(r"(a|b)-\1").compile(byte_vocabulary())


CONSTRAINTS = [
    JsonSchema({}), Regex("a"), Choice(["a"]), sg.Quote("a"), sg.Text(until="x"), sg.Lark('start: "a"'),
    sg.Union(["a"], {"type": "null"}),
]  # fmt: skip


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=lambda each: type(each).__name__)
def test_what_a_constraint_lacks_until_it_is_compiled_is_told(constraint):
    for name in ("matcher", "mask", "allowed_tokens"):
        with pytest.raises(AttributeError, match=rf"has no {name}: compile it first, constraint\.compile\("):
            getattr(constraint, name)
        assert not hasattr(constraint, name)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        constraint.nothing  # noqa: B018
    assert copy.deepcopy(constraint) == pickle.loads(pickle.dumps(constraint)) == constraint
    assert constraint.compile(byte_vocabulary()).matcher().allowed_tokens()
