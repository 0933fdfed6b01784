"""JSON texts against schemas: each row is asked whole, byte by byte and at random token splits.

Covers `context` and `scalars`.
"""
# ruff: noqa: E501 - rows of a table

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from structgen.automaton.table_format import TARGET
from structgen.constraints.basic import JsonSchema
from structgen.masks.grammar import Grammar
from structgen.options import Whitespace
from structgen.schema.normal import ANY
from structgen.schema.reader import read
from structgen.values.json_automaton import JsonAutomaton
from tests.support.matching import accepts, byte_vocabulary, judged, plain_verdict, takes_exactly, verdicts
from tests.support.tables import cases
from tests.support.thinning import diagonal

OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}}, "required": ["a"]}
CLOSED = {**OBJECT, "additionalProperties": False}
STRING: dict[str, Any] = {"type": "string"}


def closed(**properties: Any) -> dict[str, Any]:
    """An object with exactly these members."""
    return {
        "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False,
    }  # fmt: skip


TREE = cases("values/json_automaton", "TREE")
LIST = {"$defs": {"list": {"anyOf": [{"type": "null"}, closed(h={"type": "integer"}, t={"$ref": "#/$defs/list"})]}},
        "$ref": "#/$defs/list"}  # fmt: skip
TAGGED = cases("values/json_automaton", "TAGGED", globals())
SAME_KEYS = {"anyOf": [closed(x={"type": "integer"}, y={"const": 1}), closed(x={"type": "string"}, y={"const": 2})]}
NESTED = {"anyOf": [closed(n={"anyOf": [{"const": 1}, closed(m={"const": "p"})]}, z={"const": 0}),
                    closed(n=closed(m={"enum": ["p", "q"]}), z={"const": 1})]}  # fmt: skip
ARRAYS = cases("values/json_automaton", "ARRAYS")

ROWS: dict[str, tuple[Any, list[Any], list[Any]]] = cases("values/json_automaton", "ROWS", globals())


@pytest.mark.parametrize("name", ROWS)
def test_a_value_is_taken_exactly_when_it_is_valid(name: str) -> None:
    """Every value is judged rightly in the default layout."""
    schema, good, bad = ROWS[name]
    assert judged(schema, [*good, *bad]) == [True] * len(good) + [False] * len(bad)


LAYOUTS = cases("values/json_automaton", "LAYOUTS", globals())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ROWS)
def test_each_layout_is_exactly_what_json_dumps_writes(name: str, layout: str) -> None:
    """In every layout good values are taken as `json.dumps` writes them there; flexible takes all of them."""
    schema, good, bad = ROWS[name]
    whitespace, arguments = LAYOUTS[layout]
    exact = JsonSchema(schema, whitespace=whitespace).compile(byte_vocabulary())
    flexible = JsonSchema(schema, whitespace=Whitespace.FLEXIBLE).compile(byte_vocabulary())
    for value in good:
        text = json.dumps(value, ensure_ascii=False, **arguments).encode()
        assert plain_verdict(exact, text), text
        assert plain_verdict(flexible, text), text
    for value in bad:
        text = json.dumps(value, ensure_ascii=False, **arguments).encode()
        assert not plain_verdict(exact, text), text
        assert not plain_verdict(flexible, text), text


@pytest.mark.parametrize(
    ("whitespace", "text", "verdict"), cases("values/json_automaton", "white_space_stands_only", globals())
)
def test_white_space_stands_only_where_the_layout_has_it(whitespace: Whitespace, text: str, verdict: bool) -> None:
    """Layouts differ in exactly the blanks they write."""
    assert accepts(JsonSchema({"type": ["object", "array"]}, whitespace=whitespace), text) == verdict


@pytest.mark.parametrize(("bound", "text"), diagonal([0, 1, 20], ["[]", "7", "-1.5e3", '"a"', "null", '{"a":[]}']))
@pytest.mark.parametrize("schema", [{}, {"type": ["array", "object", "string", "null", "number"]}], ids=str)
def test_flexible_takes_white_space_around_the_whole_value(schema: dict[str, Any], text: str, bound: int) -> None:
    """Up to `bound` blanks before it and behind it, as JSON has them; one more is refused."""
    constraint = JsonSchema(schema, whitespace=Whitespace("flexible", bound=bound))
    around = [(0, 0), (bound, 0), (0, bound), (bound, bound)]
    good = [" \t\r\n"[:before].ljust(before) + text + "\n \t\r"[:after].ljust(after) for before, after in around]
    wrong = [" " * (bound + 1) + text, text + "\n" * (bound + 1), " " * bound, "\x0c" + text, text + "\xa0"]
    takes_exactly(constraint, good, wrong)


def test_checks_read_the_value_within_the_white_space() -> None:
    """What is told when a value closes is told of the value alone."""
    for schema, good, bad in (
        ({"type": "array", "uniqueItems": True}, "[1, 2]", "[1, 1]"),
        ({"type": "string", "pattern": r"^(a+)b\1$"}, '"aba"', '"abaa"'),
        ({"type": "number", "multipleOf": 1000003}, "2000006", "2000007"),
    ):
        constraint = JsonSchema(schema, whitespace=Whitespace.FLEXIBLE)
        assert accepts(constraint, f"\n {good}\n ")
        assert not accepts(constraint, f"\n {bad}\n ")


@pytest.mark.parametrize("whitespace", [Whitespace.SPACED, Whitespace.COMPACT, Whitespace.INDENTED(1)])
def test_no_white_space_and_nothing_else_stands_around_the_value(whitespace: Whitespace) -> None:
    """The text is the value: no blank before or after it in any fixed layout."""
    constraint = JsonSchema({}, whitespace=whitespace)
    assert accepts(constraint, "[]")
    for text in (" []", "[] ", "\n[]", "[]\n", "[][]", "[],", "\ufeff[]", ""):
        assert not accepts(constraint, text), text


MALFORMED = cases("values/json_automaton", "MALFORMED")
WELL_FORMED = [
    '"\\u003C"', '"\\uD83D\\uDE00"', '"\\ud83d\\udE00x"', '"\\/"', '"/"', '"\\b\\f\\n\\r\\t\\"\\\\"', '"\x7f"', '"\u2028"',
    '-0', '0.0', '1e5', '1E+05', '-1.5e-10', '[[], {}]', '{"": ""}', '"\\u0000"', '"\\uffff"', '"\ue000\U0010ffff"',
]  # fmt: skip


@pytest.mark.parametrize("text", MALFORMED)
def test_what_is_not_json_is_refused(text: str) -> None:
    """Malformed JSON is no text of any schema, in the strictest and the loosest layout."""
    assert not accepts(JsonSchema({}), text)
    assert not accepts(JsonSchema({}, whitespace=Whitespace.FLEXIBLE), text)


@pytest.mark.parametrize("text", WELL_FORMED)
def test_json_is_accepted(text: str) -> None:
    """Every spelling of JSON inside values is free."""
    assert accepts(JsonSchema({}), text)
    assert accepts(JsonSchema({"type": "array", "items": {}}), f"[{text}]")


BAD_UTF8 = cases("values/json_automaton", "BAD_UTF8", globals())
SCHEMAS_OF_TEXT = cases("values/json_automaton", "SCHEMAS_OF_TEXT")


@pytest.mark.parametrize("schema", SCHEMAS_OF_TEXT)
def test_invalid_utf8_is_refused(schema: dict[str, Any]) -> None:
    """Overlong forms, surrogates, what is beyond U+10FFFF and torn characters are refused, in values and in names."""
    assert not any(verdicts(JsonSchema(schema), [b'"x' + data + b'"' for data in BAD_UTF8]))
    names = JsonSchema({"type": "object", "additionalProperties": schema})
    assert not any(verdicts(names, [b'{"' + data + b'": "x"}' for data in BAD_UTF8]))


@pytest.mark.parametrize("schema", SCHEMAS_OF_TEXT)
def test_first_and_last_characters_of_every_utf8_length_are_accepted(schema: dict[str, Any]) -> None:
    """The edges of what UTF-8 can spell are text."""
    edges = "\x20\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff"
    assert all(judged(schema, ["a" + character for character in edges]))


@pytest.mark.parametrize(
    ("text", "length"),
    [('"\\u00e9"', 1), ('"\\ud83d\\ude00"', 1), ('"\\n\\\\"', 2), ('"é😀"', 2), ('"\\u003eb\\"c"', 4)],
)
def test_lengths_are_counted_in_code_points_however_they_are_spelled(text: str, length: int) -> None:
    """An escape is one character, and so is a pair of surrogate escapes."""
    for extra in ({}, {"pattern": "^[^%]*$"}):
        exact = {"type": "string", "minLength": length, "maxLength": length, **extra}
        assert accepts(JsonSchema(exact), text)
        assert not accepts(JsonSchema({"type": "string", "maxLength": length - 1, **extra}), text)
        assert not accepts(JsonSchema({"type": "string", "minLength": length + 1, **extra}), text)


SPELLED = cases("values/json_automaton", "SPELLED", globals())


@pytest.mark.parametrize(
    "schema",
    cases("values/json_automaton", "names_have_the_one_spelling", globals()),
)  # fmt: skip
def test_names_have_the_one_spelling_of_json_dumps(schema: Any) -> None:
    """Declared or not, under whatever rule; and so have the texts of enum and const. String values have several."""
    objects = JsonSchema({"type": "object", **schema}).compile(byte_vocabulary())
    listed, strings = (
        JsonSchema(each).compile(byte_vocabulary()) for each in ({"enum": [*SPELLED]}, {"pattern": "^."})
    )
    for name, (one, other) in SPELLED.items():
        assert one == json.dumps(name, ensure_ascii=False)
        for grammar, before, behind in ((objects, "{", ": 1}"), (listed, "", "")):
            assert plainly_taken(grammar, before + one + behind)
            assert not plainly_taken(grammar, before + other + behind)
        assert plainly_taken(strings, one)
        assert plainly_taken(strings, other)


def plainly_taken(grammar: Any, text: str) -> bool:
    """Is a text allowed, byte by byte, and may it end there?"""
    matcher = grammar.matcher()
    for byte in text.encode():
        if not matcher.mask()[byte >> 5] >> (byte & 31) & 1:
            return False
        matcher.advance(byte)
    return bool(matcher.can_finish)


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("text", ['{"a": 1, "\\u0062": 3}', '{"\\u0061": "x"}', '{"a": 1, "\\u0061": "x"}'])
def test_a_declared_name_cannot_be_disguised_by_escapes(text: str, order: str) -> None:
    """A name has one spelling: a second one would go round the schema of the declared member."""
    assert not accepts(JsonSchema(OBJECT, order=order), text)


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"a": 1, "b": true, "a": 3}'])
@pytest.mark.parametrize("order", ["schema", "any"])
def test_a_declared_member_comes_once(text: str, order: str) -> None:
    """Declared names are not repeated, whatever the order."""
    assert not accepts(JsonSchema(OBJECT, order=order), text)


def test_members_come_in_the_order_that_was_asked_for() -> None:
    """`schema`: as declared; `any`: freely, undeclared ones in between; a list: those first."""
    schema = closed(a={"type": "integer"}, b={"type": "integer"}, c={"type": "integer"})
    forward, back = '{"a": 1, "b": 2, "c": 3}', '{"c": 1, "b": 2, "a": 3}'
    assert accepts(JsonSchema(schema), forward)
    assert not accepts(JsonSchema(schema), back)
    assert accepts(JsonSchema(schema, order="any"), forward)
    assert accepts(JsonSchema(schema, order="any"), back)
    assert not accepts(JsonSchema(schema, order="any"), '{"c": 1, "b": 2}')
    assert accepts(JsonSchema(schema, order=["c", "b"]), back)
    assert not accepts(JsonSchema(schema, order=["c"]), back)
    assert accepts(JsonSchema(schema, order=["c"]), '{"c": 1, "a": 2, "b": 3}')
    assert accepts(JsonSchema(OBJECT, order="any"), '{"x": 0, "b": true, "y": 0, "a": 1}')
    assert not accepts(JsonSchema(OBJECT, order="any"), '{"x": 0, "b": 1, "a": 1}')


def test_unions_of_objects_work_in_any_order() -> None:
    """The discriminator may come last; what came before it still decides."""
    any_order = JsonSchema(TAGGED, order="any")
    assert accepts(any_order, '{"lives": 9, "kind": "cat"}')
    assert accepts(any_order, '{"lives": "9", "kind": "car"}')
    assert not accepts(any_order, '{"lives": "9", "kind": "cat"}')
    assert not accepts(any_order, '{"name": "x", "kind": "cat"}')


@pytest.mark.parametrize("bound", [1000, 100_000, 1_000_000])
def test_long_bounds_are_counted_exactly(bound: int) -> None:
    """A text of the longest length is taken, one more character is not (up to what a counter holds)."""
    grammar = JsonSchema({"type": "string", "maxLength": bound}).compile(byte_vocabulary())
    most = min(bound, 2000)
    position = grammar.advance(grammar.start, 0x22)
    for _ in range(most):
        position = grammar.advance(position, 0x78)
    assert grammar.may_end(grammar.advance(position, 0x22))
    assert (grammar.advance(position, 0x78) >= 0) == (most < bound)


@pytest.mark.parametrize("order", ["schema", "any"])
def test_an_undeclared_name_comes_once(order: str) -> None:
    """No name is repeated, however it is spelled, so that members can be counted."""
    schema = {"type": "object", "properties": {"a": {}}, "minProperties": 2}
    assert accepts(JsonSchema(schema, order=order), '{"a": 1, "x": 2}')
    assert accepts(JsonSchema(schema, order=order), '{"x": 1, "y": 2, "z": 3}')
    assert accepts(JsonSchema({}, order=order), '{"x": {"x": 1}, "xx": {"x": 1}}')
    for text in ('{"x": 1, "x": 2}', '{"x": 1}', '{"x": 1, "y": 2, "x": 3}', '{"a": {}, "x": {"y": 1, "y": 1}}'):
        assert not accepts(JsonSchema(schema, order=order), text), text


@pytest.mark.parametrize("order", ["schema", "any"])
def test_undeclared_names_are_counted(order: str) -> None:
    """`minProperties` beyond the declared names is met by undeclared ones."""
    schema = {"type": "object", "minProperties": 3}
    assert accepts(JsonSchema(schema, order=order), '{"x": 1, "y": 2, "z": 3}')
    assert not accepts(JsonSchema(schema, order=order), '{"x": 1, "y": 2}')


def test_the_most_members_counts_undeclared_ones_too() -> None:
    """`maxProperties` with other names: every member counts."""
    schema = {"type": "object", "minProperties": 1, "maxProperties": 2}
    assert accepts(JsonSchema(schema), '{"x": 1, "y": 2}')
    assert not accepts(JsonSchema(schema), '{"x": 1, "y": 2, "z": 3}')
    assert not accepts(JsonSchema(schema), "{}")


def test_unions_of_patterns_too_large_to_combine_are_told_at_the_end() -> None:
    """Where the product of automata would have too many states, the closing quote asks; the answer is exact."""
    halves = [f"[ab]{{{n}}}$" for n in (9, 11, 13)]
    union = {"type": "string", "maxLength": 40, "anyOf": [{"pattern": f"a{half}"} for half in halves]}
    grammar = JsonSchema(union).compile(byte_vocabulary())
    validator = Draft202012Validator(union)
    draw = random.Random(7)
    verdicts = []
    for _ in range(60):
        text = "".join(draw.choice("ab") for _ in range(draw.randint(8, 30)))
        verdicts.append(validator.is_valid(text))
        assert plain_verdict(grammar, json.dumps(text).encode()) == verdicts[-1], text
    assert len(set(verdicts)) == 2


BOUNDED = cases("values/json_automaton", "BOUNDED", globals())


@pytest.mark.parametrize("name", BOUNDED)
def test_unions_of_strings_keep_the_bound_of_each(name: str) -> None:
    texts = ["", "a", "b", "c", "bb", "bcb", "b" * 5, "c" * 6, *(x * n for x in "bc" for n in (29, 30, 31))]
    one = {"type": "string", "anyOf": BOUNDED[name]}
    two = {"anyOf": [closed(k={**STRING, **each}, z={"const": z}) for z, each in enumerate(BOUNDED[name])]}
    values = [{"k": text, "z": z} for text in texts for z in (0, 1)]
    assert judged(one, texts) == [Draft202012Validator(one).is_valid(text) for text in texts]
    assert judged(two, values) == [Draft202012Validator(two).is_valid(value) for value in values]


def test_a_host_is_a_name_or_an_address_and_its_length_is_counted() -> None:
    schema = {**STRING, "anyOf": [{"format": "hostname"}, {"format": "ipv4"}, {"format": "ipv6"}]}
    longest = "a." * 126 + "a"
    told = judged(schema, ["a.b-c", "10.0.0.1", "::1", longest, longest + "b"])
    assert told == [True, True, True, True, False]
    states = JsonSchema(schema).automaton()
    states.expand(states.start)
    assert states.tables.n_states < 5_000  # counted: as an automaton, 253 characters would take 24,000


@pytest.mark.parametrize("whitespace", [Whitespace.SPACED, Whitespace.FLEXIBLE, Whitespace.INDENTED(2)], ids=str)
def test_a_prelude_changes_no_text(whitespace: Whitespace) -> None:
    """Bare types and any value are there when a schema is compiled: all that is asked of them is as if they were not."""
    vocabulary = byte_vocabulary()
    schema = {"properties": {name: {"type": name} for name in ("string", "integer", "number", "boolean", "null")}}
    for root in (read(schema), ANY):
        masks: list[list[bytes]] = []
        for prelude in (True, False):
            grammar = Grammar(JsonAutomaton(root, whitespace, prelude=prelude), vocabulary)
            masks.append([])
            for value in ({"string": "a\u00e9\n", "integer": -1, "number": 2.5e3}, {"null": None, "x": [1, {"x": {}}]}):
                matcher = grammar.matcher()
                for byte in json.dumps(value, indent=whitespace.indent or None).encode():
                    masks[-1].append(matcher.mask().tobytes())
                    matcher.advance(byte)
                masks[-1].append(matcher.mask().tobytes())
        assert masks[0] == masks[1]


def test_equal_values_of_one_schema_share_what_is_written() -> None:
    """A hundred members with the same schema cost little more than one."""
    sizes = []
    for count in (1, 100):
        value = {"type": "string", "pattern": "^[a-z]+-[0-9]{3}$"}
        automaton = JsonAutomaton(read(closed(**{f"n{i}": value for i in range(count)})))
        matcher = Grammar(automaton, byte_vocabulary()).matcher()
        for byte in json.dumps({f"n{i}": "a-123" for i in range(count)}).encode():
            matcher.mask()
            matcher.advance(byte)
        sizes.append(automaton.tables.n_edges)
    assert sizes[1] - sizes[0] < 100 * 12


@pytest.mark.parametrize("kind", ["null", "boolean", "integer", "number", "string"])
def test_equal_values_have_first_states_of_their_own_with_equal_edges(kind: str) -> None:
    """By its first state a value is told from others when it is explained."""
    members = {
        "a": {"type": kind, "title": "A"},
        "b": {"type": kind},
        "c": {"type": kind, "enum": [None, True, 1, "c"]},
    }
    automaton = JsonAutomaton(read({"type": "object", "properties": members, "required": ["a", "b", "c"]}))
    automaton.expand_on([automaton.start])
    states = {choice.nodes[0].pointer: state for state, choice in automaton._context.choices().items()}
    assert states["/properties/a"] != states["/properties/b"]
    assert (
        automaton.tables.edges_of(states["/properties/a"]) == automaton.tables.edges_of(states["/properties/b"]) != []
    )


def test_what_follows_a_text_is_written_ahead_and_the_text_is_not() -> None:
    members = {"a": {"type": "string", "pattern": "^(ab|cd){3,9}$"}, "b": {"type": "array", "items": {"const": "x"}}}
    automaton = JsonAutomaton(read(closed(**members)))
    automaton.expand_on([automaton.start])
    tables = automaton.tables
    states = {choice.nodes[0].pointer: state for state, choice in automaton._context.choices().items()}
    ((_, _, text),) = tables.edges_of(states["/properties/a"])
    assert tables.is_stub(text & TARGET)
    ((_, _, items),) = tables.edges_of(states["/properties/b"])
    assert not tables.is_stub(items & TARGET)
