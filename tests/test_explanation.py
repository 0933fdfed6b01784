"""`explain` tells the truth: what it calls masked is in the masks, and nothing is left out.

Covers `constraints.grammars.ambiguity`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from jsonschema_specifications import REGISTRY
from referencing import Registry
from referencing.jsonschema import DRAFT202012
from typer.testing import CliRunner

import structgen as sg
from structgen.cli.app import app
from structgen.explanation import METADATA
from structgen.schema.keywords.table import KEYWORDS, STRUCTURE
from tests.support.matching import verdicts
from tests.support.tables import cases

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "keywords.md"
DRAFTS = {4: "4", 6: "6", 7: "7", 2019: "2019-09", 2020: "2020-12"}


def keyword_page() -> str:
    """The table of all keywords in Markdown: the documentation's page of keyword support."""
    lines = ["| keyword | drafts | how | |", "| --- | --- | --- | --- |"]
    for row in KEYWORDS:
        if row.how != STRUCTURE and row.name not in METADATA:
            drafts = "all" if (row.since, row.until) == (4, 2020) else f"{DRAFTS[row.since]} to {DRAFTS[row.until]}"
            lines.append(f"| `{row.name}` | {drafts} | {row.how} | {row.note} |")
    return "\n".join(lines) + "\n"


def _how(schema: Any, pointer: str, **options: Any) -> tuple[str, str]:
    (rule,) = [rule for rule in sg.explain(schema, **options).rules if rule.pointer == pointer]
    return rule.how, rule.why


def test_patterns_that_are_tried_by_backtracking_name_their_limit() -> None:
    assert "1,000,000 steps" in _how({"pattern": r"^(a+)b\1$"}, "/pattern")[1]
    assert "steps" not in _how({"pattern": "^(.*a.{17}x|[0-9]{2})$"}, "/pattern")[1]


@pytest.mark.parametrize(
    ("schema", "pointer", "how"), cases("explanation", "every_keyword_has_its_rule", globals()), ids=str
)
def test_every_keyword_has_its_rule(schema: dict[str, Any], pointer: str, how: str) -> None:
    """Masked, checked, or not enforced with a reason."""
    found, why = _how(schema, pointer)
    assert found == how
    assert bool(why) == (how != "masked")


@pytest.mark.parametrize("pattern", [r"\Aa\Z", "(?i)ab", "(?P<n>a)", "a*+b"])
def test_what_other_dialects_write_is_told(pattern: str) -> None:
    """In a schema, in names and in `Regex`: ECMA-262 does not define it."""
    for schema, pointer in (
        ({"pattern": pattern}, "/pattern"),
        ({"patternProperties": {pattern: {}}}, "/patternProperties"),
        (sg.Regex(pattern), "/"),
    ):
        assert "not ECMA-262" in _how(schema, pointer)[1]


@pytest.mark.parametrize("pattern", ["a{,3}", "[[:alpha:]]", r"\a", r"[\e]"])
def test_what_dialects_read_differently_is_refused(pattern: str) -> None:
    """Some take it for plain characters: there is no one meaning to hold."""
    for schema in ({"pattern": pattern}, {"patternProperties": {pattern: {}}}):
        with pytest.raises(sg.UnsupportedSchema, match="which dialects read differently"):
            sg.explain(schema)
    for use in (sg.explain, sg.Regex.language):
        with pytest.raises(sg.OptionError, match="which dialects read differently"):
            use(sg.Regex(pattern))


def test_a_format_can_be_turned_off() -> None:
    """And `explain` says so."""
    assert _how({"format": "date"}, "/format", format="annotate")[0] == "not enforced"


def test_what_stands_beside_a_reference_has_no_effect_up_to_draft_7() -> None:
    """The old drafts ignore it, and that is not kept secret."""
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/a", "minimum": 3}
    schema["definitions"] = {"a": {"type": "integer"}}
    assert _how(schema, "/minimum") == ("not enforced", "next to $ref it has no effect in draft 7")
    assert _how(schema, "/definitions/a/type")[0] == "masked"


def test_cliffs_are_named() -> None:
    """A schema nobody can meet, and alternatives side by side."""
    many = {"anyOf": [{"required": [f"k{i}"]} for i in range(30)]}
    cliffs = {cliff.pointer: cliff.what for cliff in sg.explain({"properties": {"a": many, "b": {"not": {}}}}).cliffs}
    assert "30 alternatives" in cliffs["/properties/a"]
    assert "no value" in cliffs["/properties/b"]


def test_a_python_type_is_explained_too() -> None:
    """By the schema that it stands for."""
    explanation = sg.explain(dict[str, list[int]])
    assert explanation.exact
    assert explanation.rules
    assert str(explanation)


def test_the_command_prints_text_and_data(tmp_path: Path) -> None:
    """`structgen explain schema.json`, with --json for data."""
    path = tmp_path / "schema.json"
    path.write_text(json.dumps({"type": "array", "uniqueItems": True}))
    text = CliRunner().invoke(app, ["explain", str(path)])
    assert text.exit_code == 0
    assert text.stdout.startswith("/uniqueItems  checked: ")
    assert text.stdout.endswith("1 more is masked: type\n")
    every = CliRunner().invoke(app, ["explain", str(path), "--all"]).stdout
    assert [line.split()[:2] for line in every.splitlines()] == [["/type", "masked"], ["/uniqueItems", "checked:"]]
    data = json.loads(CliRunner().invoke(app, ["explain", str(path), "--json"]).stdout)
    assert [rule["keyword"] for rule in data["rules"]] == ["type", "uniqueItems"]
    path.write_text(json.dumps({"type": "arr"}))
    assert CliRunner().invoke(app, ["explain", str(path)]).exit_code == 1


def test_the_page_of_keywords_is_generated_from_the_table() -> None:
    """Write it anew with `UPDATE_OUTPUTS=1`."""
    start = "<!-- generated from structgen/schema/keywords/table.py -->\n"
    page = PAGE.read_text()
    wanted = page[: page.index(start)] + start + keyword_page()
    if os.environ.get("UPDATE_OUTPUTS"):
        PAGE.write_text(wanted)
    assert PAGE.read_text() == wanted


def test_the_parts_of_a_composition_are_explained_with_their_numbers() -> None:
    unique = {"type": "array", "uniqueItems": True}
    told = sg.explain(sg.Sequence("a", sg.Text(), sg.Union(unique, sg.Regex("b"))))
    assert [(rule.pointer, rule.keyword, rule.how) for rule in told.rules] == [
        ("/", "Sequence", "masked"), ("/0", "text", "masked"), ("/1", "Text", "masked"), ("/2", "Union", "masked"),
        ("/2/0/type", "type", "masked"), ("/2/0/uniqueItems", "uniqueItems", "checked"), ("/2/1", "Regex", "masked"),
    ]  # fmt: skip
    assert [cliff.pointer for cliff in told.cliffs] == ["/1"]
    assert sg.explain(sg.JsonSchema(unique)) == sg.explain(unique)
    assert [rule.keyword for rule in sg.explain(sg.Lark('start: "a"')).rules] == ["Lark"]


@pytest.mark.parametrize(
    ("annotation", "found"),
    cases("explanation", "a_malformed_annotation", globals()),
    ids=str,
)  # fmt: skip
def test_a_malformed_annotation_is_told_and_refuses_nothing(annotation: dict[str, Any], found: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer", **annotation}}, "required": ["a"]}
    (rule,) = [rule for rule in sg.explain(schema).rules if rule.how == "not enforced"]
    assert rule.pointer == f"/properties/a/{next(iter(annotation))}"
    assert rule.why.startswith("a malformed annotation: ")
    assert rule.why.endswith(found)
    assert verdicts(sg.JsonSchema(schema), ['{"a": 1}', '{"a": "x"}']) == [True, False]
    assert "a" in sg.render(schema)


@pytest.mark.parametrize("draft", ["draft/2019-09", "draft/2020-12"])
def test_meta_schemas_whose_parts_refer_to_each_other_are_explained(draft: str) -> None:
    """Their parts are documents of the registry with relative references, some of them dynamic."""
    name = f"https://json-schema.org/{draft}/schema"
    for schema in ({"$ref": name}, REGISTRY.contents(name)):
        explained = sg.explain(schema)
        assert any(rule.pointer.startswith("meta/validation#/properties/") for rule in explained.rules)
        assert not any("no value" in cliff.what for cliff in explained.cliffs)


def test_documents_of_a_registry_that_refer_to_each_other_by_relative_references_are_explained() -> None:
    members = {"b": {"$ref": "b.json#/$defs/q"}, "n": {"$dynamicRef": "#n"}}
    parts = {
        "http://x/a.json": {"$dynamicAnchor": "n", "properties": members},
        "http://x/b.json": {"$defs": {"q": {"items": {"$ref": "sub/c.json"}}}},
        "http://x/sub/c.json": {"properties": {"d": {"$ref": "../b.json#/$defs/q"}, "e": {"type": "string"}}},
    }
    documents = [(uri, DRAFT202012.create_resource(contents)) for uri, contents in parts.items()]
    registry = Registry().with_resources(documents)
    explained = sg.explain({"$ref": "http://x/a.json"}, registry=registry)
    assert {rule.keyword for rule in explained.rules} == {"$ref", "properties", "$dynamicRef", "items", "type"}
    texts = ['{"b": [{"d": [{"e": "x"}]}]}', '{"b": [{"d": [{"e": 1}]}]}', '{"n": {"b": [{"e": 1}]}}']
    assert verdicts(sg.JsonSchema({"$ref": "http://x/a.json"}, registry=registry), texts) == [True, False, False]
