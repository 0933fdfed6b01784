"""Reading: order, references, recursion, unions, and what a hostile schema costs.

Covers `references`.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT4, DRAFT7, DRAFT202012

from structgen.errors import OptionError, SchemaError
from structgen.schema import references
from structgen.schema.keywords.dialects import DIALECTS, dialect_of
from structgen.schema.normal import ANY, NEVER, Node, Objects
from structgen.schema.places import patterns
from structgen.schema.reader import read
from structgen.schema.scan import SchemaScan
from tests.support.schema_oracle import accepts
from tests.support.speed import at_usual_speed
from tests.support.tables import cases

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def _objects(node: Node) -> Objects:
    objects = node.shapes[0].objects
    assert objects is not None
    return objects


def _names(node: Node) -> list[str]:
    return [member.name for member in _objects(node).properties]


def test_the_trivial_schemas_are_the_two_known_nodes() -> None:
    """`true` and `{}` are ANY, `false` is NEVER, and prose alone has ANY's shapes."""
    assert read(True) is ANY
    assert read({}) is ANY
    assert read(False) is NEVER
    assert read({"title": "all"}).shapes is ANY.shapes


def test_members_keep_the_order_of_the_document() -> None:
    """Declared ones first, in order of appearance; names that are only required come last."""
    schema = {
        "required": ["z", "b"],
        "allOf": [{"required": ["y"]}, {"properties": {"m": {}, "a": {}}}],
        "properties": {"b": {}, "a": {}},
        "anyOf": [{"properties": {"n": {}}}],
    }
    node = read({"type": "object", **schema})
    assert _names(node) == ["m", "a", "b", "n", "y", "z"]
    required = {member.name for member in _objects(node).properties if member.required}
    assert required == {"z", "b", "y"}


def test_a_list_of_names_comes_first() -> None:
    """`order=[...]` puts its names first, at every depth; the rest keep the schema's order."""
    schema = {
        "properties": {"a": {"properties": {"c": {}, "b": {}}}, "b": {}, "c": {}},
        "allOf": [{"properties": {"d": {}}}],
    }
    node = read(schema, order=["d", "b"])
    assert _names(node) == ["d", "b", "a", "c"]
    assert _names(_objects(node).properties[2].value) == ["b", "c"]


@pytest.mark.parametrize("order", ["random", ["a", "a"], [1]])
def test_an_impossible_order_is_an_option_error(order: Any) -> None:
    """The message names the argument."""
    with pytest.raises(OptionError, match="order="):
        read({}, order=order)


def test_a_required_name_without_declaration_takes_the_rest() -> None:
    """Its value is what additionalProperties says; where that is false, no object is left."""
    member = _objects(read({"required": ["a"], "additionalProperties": {"type": "null"}})).properties[0]
    assert (member.name, member.required, member.declared) == ("a", True, False)
    assert member.value.pointer == "/additionalProperties"
    assert read({"required": ["a"], "additionalProperties": False}).shapes[0].objects is None


@pytest.mark.parametrize("schema", cases("schema/reader", "plain_contradictions_have_no"), ids=str)
def test_plain_contradictions_have_no_shape_with_a_value(schema: dict[str, Any]) -> None:
    """Bounds that cross, an enum without a fitting value: seen without an automaton."""
    shapes = read(schema).shapes
    assert all(
        shape.numbers is shape.strings is shape.arrays is shape.objects is None and not shape.null for shape in shapes
    )


def test_numbers_mean_their_decimal_text() -> None:
    """A bound of 0.1 is one tenth, and 1, 1.0 and true are told apart as JSON does."""
    assert str(read({"minimum": 0.1}).shapes[0].numbers.minimum) == "1/10"  # type: ignore[union-attr]
    node = read({"enum": [1.0, True, "1"]})
    assert [accepts(node, value) for value in (1, 1.0, True, "1", 0, False)] == [True] * 4 + [False] * 2


def test_an_integer_of_draft_4_is_spelled_plainly() -> None:
    """There 1.0 is no integer; later it is."""
    assert not accepts(read({"$schema": DRAFT_4, "type": "integer"}), 1.0)
    assert accepts(read({"$schema": DRAFT_7, "type": "integer"}), 1.0)
    assert accepts(read({"$schema": DRAFT_4, "type": "integer", "enum": [1.0]}), 1)


def test_what_stands_beside_a_reference_counts_since_2019() -> None:
    """Up to draft 7 it has no effect, unsupported or not."""
    schema = {"$ref": "#/definitions/a", "maxLength": 1, "not": {}, "definitions": {"a": {"type": "string"}}}
    assert accepts(read({"$schema": DRAFT_7, **schema}), "long")
    del schema["not"]
    assert not accepts(read(schema), "long")


def test_a_reference_may_lead_anywhere_in_the_document() -> None:
    """Escapes, percent-encoding, array indices, and places where no schema is expected."""
    schema = {
        "x": {"a/b%c~": [{"type": "null"}]},
        "properties": {"a": {"$ref": "#/x/a~1b%25c~0/0"}, "b": {"$ref": "#"}},
    }
    node = read(schema)
    assert accepts(node, {"a": None, "b": {"b": {"a": None}}})
    assert not accepts(node, {"b": {"b": {"a": 1}}})
    assert _objects(node).properties[1].value.shapes is node.shapes


def test_a_place_that_only_a_reference_reaches_is_checked_too() -> None:
    """Its errors are found before anything runs, with its pointer."""
    with pytest.raises(SchemaError) as caught:
        read({"x": {"items": {"type": "none"}}, "$ref": "#/x"})
    assert caught.value.pointer == "/x/items/type"


@pytest.mark.parametrize("reference", ["#/nowhere", "#name", "other.json", "http://example.com/a", "#/a/0", "#/title"])
def test_a_reference_to_nowhere_is_a_schema_error(reference: str) -> None:
    """Nothing is fetched."""
    with pytest.raises(SchemaError):
        read({"title": "t", "items": {"$ref": reference}})


def test_names_and_base_uris_are_resolved() -> None:
    """`$anchor`, a nested `$id`, and draft 7's `#name`."""
    schema = cases("schema/reader", "names_and_base_uris")
    node = read(schema)
    assert accepts(node, {"a": None, "b": ["x"], "c": None})
    assert not accepts(node, {"a": 1})
    assert not accepts(node, {"b": [1]})
    old = {"$schema": DRAFT_7, "definitions": {"a": {"$id": "#a", "type": "null"}}, "items": {"$ref": "#a"}}
    assert not accepts(read(old), [1])


def test_other_documents_come_from_the_registry_with_their_own_draft() -> None:
    """A draft 7 document reached from a 2020-12 one is read as draft 7."""
    old = {"$schema": DRAFT_7, "items": [{"$ref": "#/definitions/a"}], "definitions": {"a": {"type": "null"}}}
    registry = Registry().with_resources(
        [
            ("http://example.com/old", DRAFT7.create_resource(old)),
            ("http://example.com/new", DRAFT202012.create_resource({"type": "null"})),
        ]
    )
    schema = {"properties": {"a": {"$ref": "http://example.com/old"}, "b": {"$ref": "http://example.com/new"}}}
    node = read(schema, registry=registry)
    assert accepts(node, {"a": [None, 1], "b": None})
    assert not accepts(node, {"a": [1]})
    with pytest.raises(SchemaError, match="leads nowhere"):
        read(schema)


@pytest.mark.parametrize(("reference", "told", "place"), cases("schema/reader", "boolean_schemas_in_a"))
def test_boolean_schemas_in_a_registry_of_draft_4_are_schema_errors(reference: str, told: str, place: str) -> None:
    """Draft 4 has none; the `referencing` library falls over them with errors of Python's."""
    old = {"$schema": "http://json-schema.org/draft-04/schema#", "definitions": {"a": True}}
    registry = Registry().with_resource("http://example.com/old", DRAFT4.create_resource(old))
    with pytest.raises(SchemaError, match=told) as found:
        read({"items": {"$ref": reference}}, registry=registry)
    assert found.value.pointer == place


CIRCLES = cases("schema/reader", "CIRCLES")


@pytest.mark.parametrize("schema", CIRCLES, ids=str)
def test_a_reference_that_leads_back_to_itself_is_a_schema_error(schema: dict[str, Any]) -> None:
    """It describes no value; it is found before anything runs, without recursion."""
    with pytest.raises(SchemaError, match="leads back to itself"):
        read(schema)


def test_recursion_through_a_value_is_a_cycle_of_nodes() -> None:
    """A tree is two nodes, not infinitely many."""
    node = read({"properties": {"next": {"$ref": "#"}}, "additionalProperties": False})
    following = _objects(node).properties[0].value
    assert _objects(following).properties[0].value is following


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "items", "properties", "oneOf"])
def test_deep_nesting_needs_no_recursion(keyword: str) -> None:
    """2,000 levels of one keyword, and a chain of 2,000 references."""
    schema: dict[str, Any] = {"type": "null"}
    for _ in range(2000):
        inner: Any = schema
        schema = {keyword: {"a": inner} if keyword == "properties" else inner if keyword == "items" else [inner]}
    assert read(schema).shapes
    chain: dict[str, Any] = {f"n{i}": {"$ref": f"#/$defs/n{i + 1}"} for i in range(2000)}
    assert accepts(read({"$defs": {**chain, "n2000": {"type": "null"}}, "$ref": "#/$defs/n0"}), None)


def test_every_pattern_can_be_seen_before_anything_runs() -> None:
    """Also in places that no document has visited, with their pointers."""
    schema = {"$defs": {"a": {"pattern": "^a"}}, "items": {"pattern": "b"}, "enum": [[{"pattern": "c"}]]}
    found = patterns(read(schema))
    places = {text: node.pointer + path for text, (node, path) in found.items()}
    assert places == {"^a": "/$defs/a/pattern", "b": "/items/pattern"}
    assert patterns(read(True)) == {}


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_exponentially_many_alternatives_take_seconds(keyword: str) -> None:
    """2^20 combinations are not multiplied out."""
    tags = [
        {
            keyword: [
                {"type": "object", "required": [f"k{i}"], "properties": {f"k{i}": {"const": text}}} for text in "ab"
            ]
        }
        for i in range(20)
    ]
    started = time.perf_counter()
    node = read({"allOf": tags})
    assert accepts(node, {f"k{i}": "ab"[i % 2] for i in range(20)})
    assert not accepts(node, {f"k{i}": "ab"[i % 2] for i in range(19)})
    assert time.perf_counter() - started < 10


def test_a_large_schema_costs_what_is_visited() -> None:
    """10,000 members with schemas of their own are scanned in well under a second, and not read."""
    schema = {"properties": {f"p{i}": {"type": "string", "enum": ["a", "b"]} for i in range(10_000)}}
    started = time.process_time()
    node = read(schema)
    assert len(_objects(node).properties) == 10_000
    assert at_usual_speed(time.process_time() - started) < 2
    assert "shapes" not in vars(_objects(node).properties[0].value)


def test_a_node_knows_where_it_stands() -> None:
    """Pointers are escaped, and those of a shared definition are the definition's."""
    schema = {
        "$defs": {"a": {"items": {"type": "null"}}},
        "properties": {"x/y": {"anyOf": [{}, {"type": "null"}]}, "z": {"$ref": "#/$defs/a"}},
    }
    members = _objects(read(schema)).properties
    assert members[0].value.pointer == "/properties/x~1y"
    items = members[1].value.shapes[0].arrays
    assert items is not None and items.rest is not None  # noqa: PT018
    assert items.rest.pointer == "/$defs/a/items"


DISJOINT: list[dict[str, Any]] = cases("schema/reader", "DISJOINT", globals())
OVERLAPPING: list[dict[str, Any]] = cases("schema/reader", "OVERLAPPING")


@pytest.mark.parametrize("schema", DISJOINT, ids=str)
def test_a_oneof_of_disjoint_branches_is_their_union(schema: dict[str, Any]) -> None:
    """It is read, and has values."""
    assert read(schema).shapes


@pytest.mark.parametrize("schema", OVERLAPPING, ids=str)
def test_a_oneof_whose_branches_may_overlap_is_exact(schema: dict[str, Any]) -> None:
    """A value of both branches is refused, one of a single branch is taken."""
    node, validator = read(schema), Draft202012Validator(schema)
    texts = ["", "a", "b", "ab"]
    values = [None, 1, 1.5, *texts, [], [None], ["a"], [None, "a"], {}, {"a": 1}, {"b": 1}, {"a": 1, "b": 1}]
    values += [{"kind": text} for text in texts]
    verdicts = [accepts(node, value) for value in values]
    assert verdicts == [validator.is_valid(value) for value in values]
    assert len(set(verdicts)) == 2


def test_a_oneof_without_types_keeps_branches_that_share_no_object() -> None:
    """They have all values of other types in common: none is left of these, and no object is looked at twice."""
    closed = {"required": ["kind"], "additionalProperties": False}
    tagged = [{"properties": {"kind": {"const": text}, f"{text}x": {"type": "null"}}, **closed} for text in "abc"]
    shapes = read({"oneOf": tagged}).shapes
    assert [shape.objects is not None and shape.objects.without for shape in shapes] == [()] * 3
    assert not any(shape.null or shape.true or shape.false or shape.numbers or shape.strings for shape in shapes)
    assert [shape.arrays for shape in shapes] == [None] * 3


def test_a_oneof_whose_proof_needs_itself_is_not_followed_forever() -> None:
    """A tag that is the schema itself."""
    branch = {"type": "object", "required": ["x"], "properties": {"x": {"$ref": "#"}}}
    other = {"type": "object", "required": ["x"], "properties": {"x": {"$ref": "#/$defs/b"}}}
    nested = {"b": {"oneOf": [{"$ref": "#"}, {"type": "null"}]}}
    node = read({"oneOf": [branch, other], "$defs": nested})
    assert accepts(node, {"x": None})
    assert not accepts(node, {"x": {"x": 1}})


def test_a_tagged_union_of_a_thousand_branches_is_read_in_seconds() -> None:
    """The tag is looked at once per branch, not once per pair."""
    branches = [{"type": "object", "required": ["tag"], "properties": {"tag": {"const": f"t{i}"}}} for i in range(1000)]
    started = time.perf_counter()
    assert len(read({"oneOf": branches}).shapes) == 1000
    assert time.perf_counter() - started < 5


def test_the_common_case_imports_no_schema_library() -> None:
    """jsonschema, referencing and pydantic cost tens of milliseconds; local schemas need none of them."""
    program = (
        "import sys; from structgen.schema.reader import read; from structgen.schema.python import types;"
        "read({'$defs': {'a': {'type': 'null'}}, '$ref': '#/$defs/a'}).shapes;"
        "print([name for name in ('jsonschema', 'referencing', 'pydantic', 'torch') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


LOCAL = cases("schema/reader", "LOCAL", globals())


@pytest.mark.parametrize("schema", LOCAL)
def test_what_is_followed_here_leads_where_the_library_leads(schema: dict[str, Any]) -> None:
    """The twin of the short way is `referencing`."""
    dialect = dialect_of(schema, DIALECTS[4])
    scans, short, long = [SchemaScan(schema), SchemaScan(schema)], dict[int, Any](), dict[int, Any]()
    for scan in scans:
        scan.walk(schema, "", dialect)
        assert not scan.identified
        assert not references._any_rebased(scan)
    references._follow_local(scans[0], dialect, short)
    references._follow_uris(scans[1], dialect, None, long)
    assert short
    assert {source: id(target) for source, (target, _) in short.items()} == {s: id(t) for s, (t, _) in long.items()}


@pytest.mark.parametrize("schema", cases("schema/reader", "what_takes_more_is"))
def test_what_takes_more_is_left_to_the_library(schema: dict[str, Any]) -> None:
    """A reference below a base URI of its own, a base URI or a name that two places have, both in one."""
    scan = SchemaScan(schema)
    scan.walk(schema, "", DIALECTS[4])
    assert scan.identified or references._any_rebased(scan)


def test_an_empty_dialect_is_the_default():
    """As for Ajv and jsonschema; draft 4 would read `exclusiveMinimum` as a flag."""
    assert dialect_of({"$schema": ""}) is dialect_of({}) is DIALECTS[2020]
