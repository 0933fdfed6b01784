"""Structural tags: texts with tags in them, as servers' clients ask for them.

Covers `chat.keyed.plans`.
"""

from __future__ import annotations

import pytest

from structgen.chat.structural import StructuralTag
from structgen.errors import OptionError
from structgen.vocabulary import Vocabulary
from tests.support.matching import byte_vocabulary, takes_exactly
from tests.support.tables import cases

ADD = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
JSON = {"type": "json_schema", "json_schema": ADD}
TAG = {"begin": "<f=add>", "content": JSON, "end": "</f>"}
TEXT = {"type": "any_text"}
TRIGGERED = {"type": "triggered_tags", "triggers": ["<f="], "tags": [TAG, {**TAG, "begin": "<f=b>", "content": TEXT}]}
XML = cases("chat/structural", "XML")


def const(text):
    return {"type": "const_string", "value": text}


CASES = cases("chat/structural", "CASES", globals())


STYLES = cases("chat/structural", "STYLES", globals())


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


VALUES = cases("chat/structural", "VALUES", globals())


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
    ("value", "message"), cases("chat/structural", "what_is_refused_says_where", globals()), ids=str
)
def test_what_is_refused_says_where(value, message):
    with pytest.raises(OptionError, match=message):
        StructuralTag(value).compile(byte_vocabulary())


def test_what_is_no_object_is_refused():
    with pytest.raises(OptionError, match="expected an object"):
        StructuralTag("x")
