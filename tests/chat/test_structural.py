"""Structural tags: texts with tags in them, as servers' clients ask for them.

Covers `chat.keyed.styles`.
"""

from __future__ import annotations

import pytest

from structgen.chat.structural import StructuralTag
from structgen.errors import OptionError
from structgen.vocabulary import Vocabulary
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


VALUES = [
    ({"anyOf": [{"const": "a"}, {"const": 3}, {"type": "null"}]}, ["a", "3", "null"], ["b", '"a"', "4"]),
    ({"type": ["string", "integer"]}, ["so it is", "12", " 12 "], []),
    ({"$ref": "#/$defs/Unit"}, ["m", "km"], ["mm"]),
    ({"enum": ['"\\', 1]}, ['"\\', "1"], ['"', "2"]),
    ({"type": "array", "items": {"type": "integer"}}, ["[1, 2]", " [ 1,2 ] "], ["1"]),
]


@pytest.mark.parametrize(("schema", "good", "bad"), VALUES, ids=str)
def test_a_value_between_tags_is_any_that_its_schema_allows(schema, good, bad):
    """Texts stand without quotes, as xgrammar's own tests of `enum`, `const` and `anyOf` in this style have them."""
    whole = {"type": "object", "$defs": {"Unit": {"enum": ["m", "km"]}}, "properties": {"v": schema}, "required": ["v"]}
    tag = StructuralTag({"type": "json_schema", "style": "qwen_xml", "json_schema": whole})
    takes_exactly(tag, *([f"<parameter=v>{text}</parameter>" for text in texts] for texts in (good, bad)))


def test_the_type_in_a_tag_is_that_of_the_value():
    """As xgrammar's tests of Kimi K3's and Cohere's styles have it."""
    schema = {"type": "object", "properties": {"v": {"type": ["string", "boolean"]}}, "required": ["v"]}
    for style, text in (
        ("kimi_k3_xml", '<|open|>argument key="v" type="{}"<|sep|>{}<|close|>argument<|sep|>'),
        ("cohere_xml", '<cofl:value name="v" type="{}">{}</cofl:value>'),
    ):
        words = ("string", "boolean") if style == "kimi_k3_xml" else ("raw", "json")
        good = [text.format(words[0], "so"), text.format(words[1], "true")]
        tag = StructuralTag({"type": "json_schema", "style": style, "json_schema": schema})
        takes_exactly(tag, good, [text.format(words[1], "so"), text.format("object", "{}")])


def test_arguments_in_any_order_of_any_name_and_without_some_texts():
    value = {"type": "json_schema", "style": "qwen_xml", "json_schema": XML["json_schema"], "any_order": True}
    text = "<parameter=unit>km</parameter><parameter=name>x</parameter>"
    takes_exactly(StructuralTag(value), [text], [text + text])
    value = {"type": "json_schema", "style": "qwen_xml", "json_schema": True, "excludes": ["no"]}
    good = ["", "<parameter=a>x</parameter>\n<parameter=b>[1]</parameter>"]
    takes_exactly(StructuralTag(value), good, ["<parameter=a>no</parameter>"])


def test_json_with_fewer_blanks():
    takes_exactly(StructuralTag({**JSON, "max_whitespace_cnt": 2}), ['{"a":  1}'], ['{"a":   1}'])
    takes_exactly(StructuralTag({**JSON, "max_whitespace_cnt": 0}), ['{"a":1}'], ['{"a": 1}'])


CHANNEL, SAID, CALL, END = 257, 258, 259, 260
HARMONY = Vocabulary.from_tokens(
    [*(bytes([byte]) for byte in range(256)), *[None] * 5], [256, CALL],
    names={"<|channel|>": CHANNEL, "<|message|>": SAID, "<|call|>": CALL, "<|end|>": END},
)  # fmt: skip
CALLED = {"begin": "<|channel|>to=f<|message|>", "content": JSON, "end": ["<|call|>", "<|end|>"]}


def follows(value, *said):
    """Takes a text of characters and special tokens; returns what may come next."""
    matcher = StructuralTag(value).compile(HARMONY).matcher()
    for part in said:
        for token in [part] if isinstance(part, int) else part.encode():
            assert token in matcher.allowed_tokens(), (bytes(matcher.text), token)
            matcher.advance(token)
    return set(matcher.allowed_tokens())


def test_special_tokens_in_a_fixed_text_are_these_tokens():
    """As the models write them that have such tokens; what ends the model's text need not be written."""
    value = {"type": "triggered_tags", "triggers": ["<|channel|>to="], "tags": [CALLED]}
    assert CHANNEL in follows(value, "so")
    assert follows(value, "so", CHANNEL) == {ord("t")}
    assert follows(value, CHANNEL, "to=f") == {SAID}
    assert {256, CALL, END} <= follows(value, CHANNEL, "to=f", SAID, '{"a": 1}')
    assert {256, CHANNEL, ord("x")} <= follows(value, CHANNEL, "to=f", SAID, '{"a": 1}', END)
    style = {"type": "json_schema", "style": "kimi_k3_xml", "json_schema": ADD}
    named = Vocabulary.from_tokens([bytes([i]) for i in range(256)] + [None] * 2, [256], names={"<|sep|>": 257})
    matcher = StructuralTag(style).compile(named).matcher()
    for byte in b'<|open|>argument key="a" type="number"':
        matcher.advance(byte)
    assert set(matcher.allowed_tokens()) == {257, *b" \t\n"}  # white space may stand between tags


def test_many_tools_are_one_switch():
    """All tags begin alike; as alternatives they would be more ways to read a text than are followed at once."""
    tags = [{"begin": f"<f={n}>", "content": JSON, "end": "</f>"} for n in range(150)]
    tags += [{"begin": "<|channel|>f", "content": const("a"), "end": "<|end|>"}, {**TAG, "content": const("b")}, TAG]
    value = {"type": "triggered_tags", "triggers": ["<f=", "<|channel|>"], "tags": tags}
    assert follows(value, "so <f=14") == {ord(">"), *b"0123456789"}
    assert {CHANNEL, ord("x")} <= follows(value, "so ", '<f=149>{"a": 1}</f>')
    assert follows(value, CHANNEL, "f", "a") == {END}
    assert follows(value, "<f=add>") >= set(b"b{")


def test_tokens_that_begin_a_format():
    value = {"type": "token_dispatch", "rules": [["<|channel|>", const("a")], [SAID, const("b")]]}
    assert follows({**value, "exclude_tokens": ["<|end|>"]}, "so", CHANNEL, "a", SAID, "b") >= {256, CHANNEL, ord("x")}
    assert follows({**value, "loop": False}, SAID, "b") == {256, CALL}
    assert follows({"type": "any_tokens", "max_tokens": 2}, "ab") == {256, CALL}
    with pytest.raises(OptionError, match="65 is not a special token"):
        follows({"type": "any_tokens", "exclude_tokens": [65]})
    tag = {"begin": {"type": "token", "token": SAID}, "content": const("a"), "end": ""}
    value = {"type": "token_triggered_tags", "trigger_tokens": ["<|channel|>"], "tags": [tag]}
    with pytest.raises(OptionError, match="expected one of the trigger_tokens"):
        follows(value)


@pytest.mark.parametrize(("value", "good", "bad"), CASES, ids=lambda case: str(case)[:40])
def test_the_kinds_of_format(value, good, bad):
    takes_exactly(StructuralTag(value), good, bad)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"type": "structural_tag"}, "neither a format nor structures"),
        ({"type": "wrong", "format": TEXT}, "type: expected 'structural_tag', found 'wrong'"),
        ({**TEXT, "max_words": 3}, "format.max_words: this is no field of 'any_text' that is supported, found 3"),
        ({"type": "wrong"}, "format: the type 'wrong' is no kind of format; known are any_text"),
        ({"type": "exclude_token"}, "the type 'exclude_token' is not supported"),
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
        ({**JSON, "style": "qwen_xml", "json_schema": {"type": "string"}}, "expected the JSON Schema of an object"),
        ({**JSON, "style": "cohere_xml", "max_whitespace_cnt": 2}, "the style cohere_xml has bounds of its own"),
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
