"""Known formats: what a model writes otherwise than its template is taken by the mask and read by the parser.

Covers `spellings`.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from structgen.chat import CallFormat, call_format
from structgen.chat.call_format import Tags, WrittenCall
from structgen.chat.calls_constraint import TurnRules, turn
from structgen.chat.formats import NATIVE, native_of
from structgen.chat.keyed.strings import python_escaped
from structgen.chat.parser import CallEnded, TextPiece, ThoughtPiece, TurnReader
from structgen.chat.pieces import Blank, Maybe, Slot
from structgen.chat.spellings import canonical, loosened, pattern, spelled
from structgen.errors import CallSyntaxError, TokenRejected
from structgen.regular.chardfa import from_pattern
from structgen.testing import mask_refuses_at, read_turn
from structgen.tools import Tool
from tests.support.chat_templates import byte_vocabulary, control_tokens, format_of, refused_at, templates, token_ids
from tests.support.tables import cases

FAST = ("Qwen-Qwen3-0.6B", "Qwen3-Coder", "openai-gpt-oss-120b", "Kimi-K3", "google-gemma-4-31B-it", "GLM-4.6",
        "meetkai-functionary-medium-v3.2", "meta-llama-Llama-3.1-8B-Instruct")  # fmt: skip
PARAMETERS: dict[str, Any] = cases("chat/native", "PARAMETERS")
TOOLS = tuple(Tool.of({"name": name, "parameters": PARAMETERS}) for name in ("look", "look_up"))
ROME: dict[str, Any] = {"city": "Rome"}
TEXTS: list[tuple[str, str, list[Any]]] = cases("chat/native", "TEXTS", globals())


def read(format_: CallFormat, text: str, cuts: list[int] = [], **options: Any) -> list[Any]:  # noqa: B006
    """What the parser reads: texts, and calls as lists; thoughts in tuples."""
    reader = TurnReader(format_, {tool.name: tool.arguments_schema for tool in TOOLS}, **options)
    turn_ = reader.start
    for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        turn_ = reader.feed(turn_, text[begin:end])
    found: list[Any] = []
    for event in reader.finish(turn_).events():
        if isinstance(event, CallEnded):
            found.append([event.name, json.loads(event.arguments)])
        elif isinstance(event, (TextPiece, ThoughtPiece)):
            found.append((event.text,) if isinstance(event, ThoughtPiece) else event.text)
    return found


def allowed(format_: CallFormat, said: str, names: list[str], **rules: Any) -> bool:
    vocabulary = byte_vocabulary(names)
    return (
        refused_at(turn(format_, TurnRules(TOOLS, **rules), vocabulary).compile(vocabulary), said, vocabulary) is None
    )


CALL = '<tool_call>\n{"name": "look", "arguments": {"city": "Rome"}}\n</tool_call>'


def test_calls_after_calls_and_text_are_read_though_no_mask_allows_them():
    format_ = call_format("hermes")
    assert read(format_, f"{CALL} and {CALL} So.") == [["look", ROME], "and", ["look", ROME], "So."]
    assert read(format_, f"{CALL} So <tool_call> is a tag.") == [["look", ROME], "So <tool_call> is a tag."]
    assert not allowed(format_, CALL + " So.", [])


OBJECT = '{"name": "look", "arguments": {"city": "Rome"}}'


@pytest.mark.parametrize("name", ["hermes", "nemotron-nano-2", "mistral", "deepseek-v3.1"])
@pytest.mark.parametrize(("text", "wanted"), cases("chat/native", "an_object_with_the", globals()))
def test_an_object_with_the_name_of_a_tool_is_a_call_where_the_tags_are_missing(name, text, wanted):
    format_ = call_format(name)
    for cuts in ([], list(range(1, len(text)))):
        found = read(format_, text, cuts, thought="closed")
        assert [each.rstrip() if isinstance(each, str) else each for each in found] == [
            each.rstrip() if isinstance(each, str) else each for each in wanted
        ]
    assert allowed(format_, text, [])
    if wanted == [["look", ROME]]:
        plain = replace(format_, bare=False)
        assert read(plain, text, thought="closed") == [text]
        assert allowed(plain, text, [])
        assert not allowed(format_, text.replace('"Rome"', "3"), [])  # its arguments are masked


@pytest.mark.parametrize("name", ["hermes", "qwen3-coder", "glm-4.5", "mistral", "lfm2", "kimi-k2", "llama3-json"])
def test_a_turn_that_must_call_is_spelled_as_the_format_writes_it(name):
    """Blanks that a mask allows lead a model that would rather not call from one to the next."""
    format_ = call_format(name)
    text = format_.render([WrittenCall("look", ROME, format_.id_of("look", 0) or "abcdefgh1")])
    assert allowed(format_, text, [], min_calls=1, text=False)
    for blank in (" ", "\n", "\t"):
        for place in [n for n in range(len(text)) if not text[n - 1 : n + 1].isalnum()]:
            if place < len(text) - len("Rome") and text[place : place + 4] not in ("Rome", "look"):
                spoiled = text[:place] + blank + text[place:]
                taken = allowed(format_, spoiled, [], min_calls=1, text=False)
                assert not taken or read(format_, spoiled) != [["look", ROME]], spoiled


def test_a_control_token_that_begins_calls_ends_a_thought():
    format_ = format_of("deepseek-ai-DeepSeek-V4")
    text = format_.render([WrittenCall("look", ROME)]).lstrip()
    assert read(format_, "<think>Hm." + text, thought=None) == [("Hm.",), ["look", ROME]]
    assert allowed(format_, "<think>Hm." + text, [])


def test_the_templates_of_xlam_are_not_taken_for_those_of_llama():
    template = '<|start_header_id|> ipython "parameters": [{"name": "tool_call_name", "arguments": {"arg1": "value1"}}]'
    assert native_of(template).name == "xlam"


@pytest.mark.parametrize(("name", "text", "wanted"), TEXTS, ids=[f"{name}-{n}" for n, (name, _, _) in enumerate(TEXTS)])
def test_what_models_write_is_taken_and_read(name, text, wanted):
    format_ = call_format(name)
    if name == "kimi-k3":
        format_ = format_of("Kimi-K3")
    for cuts in ([], list(range(1, len(text))), [len(text) // 3, len(text) // 2]):
        assert read(format_, text, cuts) == wanted
    control = sorted(
        set(re.findall(r"<\|[a-zA-Z_]+\|>|<｜[^<>]+｜>|</?tool_calls?>|\[[A-Z_]+\]|\]<\]minimax\[>\[", text))
    )
    for names in ([], control):
        assert allowed(format_, text, names)
    assert not allowed(format_, text.replace("look", "lock"), [], min_calls=1, text=False)


def test_every_known_format_is_in_the_rows():
    assert {name for name, _, _ in TEXTS} == {each.name for each in NATIVE}


@pytest.mark.parametrize(("name", "tags", "text", "wanted"), cases("chat/native", "THOUGHTS", globals()))
def test_thoughts_follow_each_other_and_are_opened_by_a_tag_without_its_word(name, tags, text, wanted):
    format_ = replace(call_format(name), thinking=Tags(*tags))
    for cuts in ([], list(range(1, len(text)))):
        assert read(format_, text, cuts, thought="closed") == wanted
    assert mask_refuses_at(format_, TOOLS, text, [tag.strip() for tag in tags if tag.strip().endswith(">")]) is None


def test_what_begins_the_closing_tag_of_a_thought_is_no_thought_at_the_end_of_a_text():
    format_ = replace(call_format("hermes"), thinking=Tags("<think>", "</think>"))
    assert read(format_, "A thought</th", thought="open") == [("A thought",)]
    assert read(format_, "A text</th", thought="closed") == ["A text</th"]


@pytest.mark.parametrize("name", [each.name for each in NATIVE])
def test_a_known_format_reads_what_it_writes(name):
    format_ = call_format(name)
    call = WrittenCall("look", {"city": 'a "b"', "days": 3, "tags": ["x"]} if name != "kimi-k3" else {}, "abcdefgh1")
    if name == "kimi-k3":
        return
    assert read(format_, format_.render([call])) == [["look", dict(call.arguments)]]
    assert allowed(format_, format_.render([call]), [])


def test_white_space_in_a_row_is_read_in_few_ways():
    """A vocabulary has tokens of 64 blanks, and each mask tries them."""
    blanks = 20 * " " + 3 * "\n" + 20 * " "
    for format_ in (call_format(each.name) for each in NATIVE if each.name != "kimi-k3"):
        text = format_.render(
            [WrittenCall(name, ROME, "abcdefgh1") for name in ("look", "look_up")[: 1 + bool(format_.between)]]
        )
        control = sorted(set(re.findall(r"<\|[a-zA-Z_]+\|>|<｜[^<>]+｜>|</?tool_calls?>|\[[A-Z_]+\]", text)))
        vocabulary = byte_vocabulary(control)
        grammar = turn(format_, TurnRules(TOOLS, min_calls=1, text=False), vocabulary).compile(vocabulary)
        ids = token_ids(text, vocabulary)
        for place in (n for n in range(len(ids)) if n == 0 or ids[n - 1] > 255 or chr(ids[n - 1]) in ">]}:,\n"):
            matcher = grammar.matcher()
            for token in ids[:place]:
                matcher.advance(token)
            with suppress(TokenRejected):  # what white space there may be
                for byte in blanks.encode():
                    matcher.advance(byte)


def test_templates_are_known_by_their_marks():
    found = {name: native_of(source) for name, source in templates().items()}
    names = {name: None if native is None else native.name for name, native in found.items()}
    if not names:
        pytest.skip("no chat templates")
    assert names["openai-gpt-oss-120b"] == "harmony"
    assert names["Qwen3-Coder"] == names["StepFun3.5-Flash"] == "qwen3-coder"
    assert names["meta-llama-Llama-3.1-8B-Instruct"] == "llama3-json"
    assert names["tool_chat_template_llama4_pythonic"] == "pythonic"
    assert names["Qwen-Qwen3-0.6B"] == "hermes"
    assert names["microsoft-Phi-3.5-mini-instruct"] is None


def test_a_thought_is_no_text():
    format_ = format_of("Qwen-Qwen3-0.6B")
    call = '<tool_call>\n{"name": "look", "arguments": {"city": "Rome"}}\n</tool_call>'
    for text in (f"<think>\nWhy <tool_call>?\n</think>\n\n{call}", f"Why?\n</think>\n\n{call}"):
        (thought,), *rest = read(format_, text, list(range(1, len(text))))
        assert thought.startswith("Why")
        assert rest == [["look", ROME]]
        assert allowed(format_, text, [])
    assert read(format_, "Why?", thought="open") == [("Why?",)]
    assert read(format_, "Why?</think>", thought="closed") == ["Why?</think>"]
    assert read(format_, "Why?") == ["Why?"]


def test_required_arguments_come_once_each_in_any_order():
    format_ = call_format("qwen3-coder")
    part = "<parameter={}>\n{}\n</parameter>\n"
    city, days = part.format("city", "Rome"), part.format("days", "2")
    for inner, right in ((city + days, True), (days + city, True), (city, True), (days, False), (city + city, False)):
        assert allowed(format_, f"<function=look>\n{inner}</function>", []) == right
        assert not allowed(format_, f"<function=look>\n{days}{city}</function>", [], order="schema")


@pytest.mark.parametrize("name", [name for name in FAST if name in templates()])
def test_a_turn_without_calls_has_nothing_that_begins_one(name):
    format_ = format_of(name)
    text = format_.render([WrittenCall("look", ROME, "abcdefgh1")])
    for names in ([], control_tokens(format_)):
        assert allowed(format_, text, names)
        assert not allowed(format_, text, names, max_calls=0)


def test_a_line_break_beside_a_string_may_be_left_out():
    format_ = call_format("qwen3-coder")
    tool = Tool.of({"name": "look", "parameters": {"properties": {"city": {"enum": ["Rome", "a\n"]}}}})
    vocabulary = byte_vocabulary([])
    grammar = turn(format_, TurnRules((tool,)), vocabulary).compile(vocabulary)
    for value, city in (("\nRome\n", "Rome"), ("Rome", "Rome"), ("\nRome", "Rome"), ("a\n\n", "a\n"), ("a\n", "a")):
        text = f"<function=look><parameter=city>{value}</parameter></function>"
        assert read(format_, text) == [["look", {"city": city}]]
        assert (refused_at(grammar, text, vocabulary) is None) == (city != "a")


def test_text_that_only_looks_like_a_call_is_text():
    assert read(call_format("pythonic"), "[1] is a list, look(it) up") == ["[1] is a list, look(it) up"]
    assert allowed(call_format("pythonic"), "[1] is a list, look(it) up", [])
    assert read(call_format("llama3-json"), '{"a": 1}') == ['{"a": 1}']
    with pytest.raises(CallSyntaxError):
        read(call_format("hermes"), "<tool_call>\nlook</tool_call>")


def test_white_space_is_loosened_around_tags_and_punctuation_only():
    assert loosened("}\n</a>") == (Blank(), "}", Blank("\n"), "</a>", Blank())
    assert loosened(" to=functions.") == (Blank(" "), "to=functions.") or loosened(" to=f.")[0] == Blank(" ")
    assert loosened('<invoke name="') == (Blank(), '<invoke name="')
    spelling = spelled("<a>", Maybe(("x",), written=False), Slot.NAME)
    assert canonical(spelling) == ("<a>", Slot.NAME)
    assert from_pattern(pattern(loosened("{ }")), anchored=True).matches("\n{\n}  ")


def test_literals_of_python_are_escaped():
    language = python_escaped(from_pattern("^a'b\\n\\\\?$"), "'")
    assert language.matches("a\\'b\\n\\\\")
    assert not language.matches("a'b\\n")
    assert not language.matches("a\\'b\n")


def test_an_object_without_members_is_read_where_members_are_elements():
    format_ = call_format("minimax-m3")
    inner = {"type": "object", "properties": {"a": {"type": "string"}}}
    schema = {"type": "object", "properties": {"one": inner, "two": inner}}
    for arguments in ({"one": {}}, {"one": {"a": ""}, "two": {}}):
        for blank in ("", " \n"):
            text = format_.render([WrittenCall("look", arguments)]).replace(
                "]<]minimax[>[</one>", f"{blank}]<]minimax[>[</one>"
            )
            reader = TurnReader(format_, {"look": schema}, thought="closed")
            turn_ = reader.finish(reader.feed(reader.start, text))
            assert json.loads(turn_.arguments) == arguments


BLOCKS_WITHOUT_CALLS: dict[str, str] = cases("chat/native", "BLOCKS_WITHOUT_CALLS")


@pytest.mark.parametrize("name", BLOCKS_WITHOUT_CALLS)
def test_a_block_without_a_call_is_read_and_no_call_that_is_required(name):
    tools, text = [Tool.of({"name": "look", "parameters": {}})], BLOCKS_WITHOUT_CALLS[name]
    for cuts in ((), range(1, len(text))):
        assert read_turn(name, tools, text, cuts, thought="closed") == ([], "", "")
    assert mask_refuses_at(name, tools, text, required=True, thought=False) is not None
