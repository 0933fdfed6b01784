"""Structural tags: texts with tags in them, as servers' clients ask for them."""

from __future__ import annotations

import pytest

from structgen.constraints.structural import StructuralTag
from structgen.errors import OptionError
from tests.support.matching import byte_vocabulary, takes_exactly

ADD = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
JSON = {"type": "json_schema", "json_schema": ADD}
TAG = {"begin": "<f=add>", "content": JSON, "end": "</f>"}
TEXT = {"type": "any_text"}
TRIGGERED = {"type": "triggered_tags", "triggers": ["<f="], "tags": [TAG, {**TAG, "begin": "<f=b>", "content": TEXT}]}
XML = {
    "type": "qwen_xml_parameter",
    "json_schema": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "unit": {"enum": ["m", "km"]}},
        "required": ["name"],
    },
}


def const(text):
    return {"type": "const_string", "value": text}


CASES = [
    (
        {"type": "structural_tag", "format": TRIGGERED},
        ["", "hi", '<f=add>{"a": 1}</f>', 'so <f=add>{ "a":1}</f> and <f=b>x<y</f>!'],
        ["<f=", "<f=c>", '<f=add>{"b": 1}</f>', "<f=b>x"],
    ),
    ({**TRIGGERED, "at_least_one": True}, ['<f=add>{"a": 1}</f>', "<f=b></f> so"], ["", 'x<f=add>{"a": 1}</f>']),
    ({**TRIGGERED, "stop_after_first": True}, ["x", "x<f=b>y</f>"], ["x<f=b>y</f>z"]),
    (
        {
            "type": "structural_tag",
            "structures": [{"begin": "<f=add>", "schema": ADD, "end": "</f>"}],
            "triggers": ["<f="],
        },
        ['a<f=add>{"a":2}</f>b'],
        ["<f=add>{}</f>"],
    ),
    (
        {"type": "tag", **TAG, "content": TEXT, "end": ["E", "X"]},
        ["<f=add>abE", "<f=add>X"],
        ["<f=add>aEE", "<f=add>a"],
    ),
    (
        {"type": "tags_with_separator", "tags": [TAG], "separator": ", ", "at_least_one": True},
        ['<f=add>{"a": 1}</f>', '<f=add>{"a": 1}</f>, <f=add>{"a": 2}</f>'],
        ["", '<f=add>{"a": 1}</f>, '],
    ),
    (
        {
            "type": "sequence",
            "elements": [
                const("a"),
                {"type": "optional", "content": const("b")},
                {"type": "plus", "content": const("c")},
                {"type": "star", "content": const("d")},
                {"type": "repeat", "min": 1, "max": 2, "content": const("e")},
            ],
        },
        ["ace", "abccddee"],
        ["abe", "aceee"],
    ),
    (
        {
            "type": "or",
            "elements": [
                {"type": "regex", "pattern": "[0-9]+"},
                {"type": "grammar", "grammar": 'root ::= "(" root ")" | "x"'},
            ],
        },
        ["12", "((x))"],
        ["", "(x"],
    ),
    ({"type": "any_text", "excludes": ["no"], "max_chars": 3}, ["", "nao"], ["no", "abcd"]),
    (
        {"type": "dispatch", "rules": [["<a>", const("1")], ["<b>", const("2")]], "loop": False},
        ["x", "x<a>1", "<b>2"],
        ["<a>2", "<a>1x"],
    ),
    (
        XML,
        [
            "<parameter=name>Bo</parameter>",
            "<parameter=name></parameter>\n<parameter=age>3</parameter>",
            "<parameter=name>x</parameter><parameter=unit>km</parameter>",
        ],
        ["", "<parameter=age>3</parameter>", "<parameter=name>x</parameter><parameter=unit>mm</parameter>"],
    ),
]


STYLES = {
    "qwen_xml": "<parameter=name>Bo</parameter>\n<parameter=age>3</parameter>",
    "minimax_xml": '<parameter name="name">Bo</parameter>\n<parameter name="age">3</parameter>',
    "glm_xml": "<arg_key>name</arg_key>\n<arg_value>Bo</arg_value>\n<arg_key>age</arg_key><arg_value>3</arg_value>",
    "deepseek_xml": '<｜DSML｜parameter name="name" string="true">Bo</｜DSML｜parameter>\n'
    '<｜DSML｜parameter name="age" string="false">3</｜DSML｜parameter>',
    "deepseek_v4_1_xml": '<｜DSML｜ parameter name="name" string="true">Bo</｜DSML｜ parameter>\n'
    '<｜DSML｜ parameter name="age" string="false">3</｜DSML｜ parameter>',
}


@pytest.mark.parametrize(("style", "text"), STYLES.items())
def test_the_styles_of_arguments(style, text):
    """xgrammar's own grammars take and refuse the same texts."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}
    value = {"type": "json_schema", "style": style, "json_schema": {**schema, "required": ["name", "age"]}}
    bad = [text.replace("3", "x"), text.replace("name", "nome"), text[:-1], text.replace("Bo", "", 1).lower() + "<"]
    takes_exactly(StructuralTag(value), [text], bad)
    xgrammar = pytest.importorskip("xgrammar", reason="needs xgrammar")
    accepts = pytest.importorskip("xgrammar.testing")._is_grammar_accept_string
    theirs = xgrammar.Grammar.from_structural_tag({"type": "structural_tag", "format": value})
    assert [accepts(theirs, each) for each in [text, *bad]] == [True] + [False] * len(bad)


@pytest.mark.parametrize(("value", "good", "bad"), CASES, ids=lambda case: str(case)[:40])
def test_the_kinds_of_format(value, good, bad):
    takes_exactly(StructuralTag(value), good, bad)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"type": "structural_tag"}, "neither a format nor structures"),
        ({"type": "wrong"}, "format: the type 'wrong' is no kind of format; known are any_text"),
        ({"type": "any_tokens"}, "the type 'any_tokens' is not supported"),
        (
            {"type": "sequence", "elements": [const("a"), {"type": "or"}]},
            r"format.elements\[1\].elements: expected a list",
        ),
        ({"type": "const_string", "value": 3}, "format.value: expected a text, found 3"),
        ({**TRIGGERED, "triggers": ["<g="]}, r"format.tags\[0\].begin: expected a text that begins with a trigger"),
        (
            {**JSON, "style": "gemma"},
            "format.style: expected 'json' or one of qwen_xml, minimax_xml, glm_xml",
        ),
        ({"type": "token", "token": "<think>"}, "SpecialToken"),
        ({"type": "repeat", "min": 2, "max": 1, "content": TEXT}, "format.max: expected whole numbers"),
    ],
    ids=str,
)
def test_what_is_refused_says_where(value, message):
    with pytest.raises(OptionError, match=message):
        StructuralTag(value).compile(byte_vocabulary())


def test_what_is_no_object_is_refused():
    with pytest.raises(OptionError, match="expected an object"):
        StructuralTag("x")
