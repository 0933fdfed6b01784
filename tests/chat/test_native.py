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
from structgen.chat.call_format import WrittenCall
from structgen.chat.calls_constraint import TurnRules, turn
from structgen.chat.formats import NATIVE, native_of
from structgen.chat.keyed.value_plans import python_escaped
from structgen.chat.parser import CallEnded, TextPiece, ThoughtPiece, TurnParser
from structgen.chat.pieces import Blank, Slot
from structgen.chat.spellings import canonical, loosened, maybe, pattern, spelled
from structgen.errors import CallSyntaxError, TokenRejected, UnsupportedSchema
from structgen.regular.chardfa import from_pattern
from structgen.tools import Tool
from tests.support.chat_templates import byte_vocabulary, control_tokens, format_of, refused_at, templates, token_ids

FAST = ("Qwen-Qwen3-0.6B", "Qwen3-Coder", "openai-gpt-oss-120b", "Kimi-K3", "google-gemma-4-31B-it", "GLM-4.6",
        "meetkai-functionary-medium-v3.2", "meta-llama-Llama-3.1-8B-Instruct")  # fmt: skip
PARAMETERS: dict[str, Any] = {
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "note": {"type": ["string", "null"]},
        "on": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "who": {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}},
    },
    "required": ["city"],
}
TOOLS = tuple(Tool.of({"name": name, "parameters": PARAMETERS}) for name in ("look", "look_up"))
ROME: dict[str, Any] = {"city": "Rome"}
TEXTS: list[tuple[str, str, list[Any]]] = [
    ("harmony", ' to=functions.look<|channel|>commentary json<|message|>{"city": "Rome"}', [["look", ROME]]),
    ("harmony", '<|channel|>commentary to=functions.look <|constrain|>json<|message|>{"city":"Rome"}',
     [["look", ROME]]),
    ("harmony", '<|channel|>commentary to=functions.look<|message|>{"city":"Rome"}<|call|>', [["look", ROME]]),
    (
        "harmony",
        '<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.look '
        '<|constrain|>json<|message|>{"city": "Rome"}',
        ["I look.", ["look", ROME]],
    ),
    ("harmony", "<|channel|>final<|message|>It is sunny.", ["It is sunny."]),
    (
        "kimi-k2",
        '<|tool_call_begin|>functions.look:0<|tool_call_argument_begin|>{"city": "Rome"}<|tool_call_end|>'
        '<|tool_call_begin|>look_up:1<|tool_call_argument_begin|>{"city":"Rome"}',
        [["look", ROME], ["look_up", ROME]],
    ),
    (
        "kimi-k3",
        'I look.<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool="look" index="1"<|sep|>{}'
        "<|close|>call<|sep|><|close|>tools<|sep|>".replace(
            "{}", '<|open|>argument key="city" type="string"<|sep|>Rome<|close|>argument<|sep|>'
        ),
        ["I look.", ["look", ROME]],
    ),
    ("hermes", '<tool_call>{"name":"look","arguments":{"city":"Rome"}}</tool_call>', [["look", ROME]]),
    (
        "hermes",
        'So.\n<tool_call>\n{\n  "name": "look",\n  "parameters": {"days": 2, "city": "Rome"},\n  "id": "call_1"\n}\n'
        '</tool_call>\n\n<tool_call> {"type": "function", "name": "look_up", "arguments": '
        '{"city": "Rome"}} </tool_call>',
        ["So.", ["look", {"days": 2, "city": "Rome"}], ["look_up", ROME]],
    ),
    ("llama3-json", '<|python_tag|>{"name": "look", "parameters": {"city": "Rome"}}', [["look", ROME]]),
    ("llama3-json", '{"type": "function", "name": "look", "arguments": {"city": "Rome"}}', [["look", ROME]]),
    (
        "llama3-json",
        '{"name": "look", "parameters": {"city": "Rome"}}; {"name": "look_up", "parameters": {"city": "Rome"}}',
        [["look", ROME], ["look_up", ROME]],
    ),
    (
        "pythonic",
        "[look(city='Martha\\'s \"Vineyard\"', days=2, note=None, on=True), look_up(on=false, city=\"a)], \\n\\\\\")]",
        [
            ["look", {"city": "Martha's \"Vineyard\"", "days": 2, "note": None, "on": True}],
            ["look_up", {"on": False, "city": "a)], \n\\"}],
        ],
    ),
    (
        "pythonic",
        "<|python_start|>[look( city = 'Rome', tags=['a', \"b\"], who={'age': 3, \"name\": 'x'})]<|python_end|>",
        [["look", {"city": "Rome", "tags": ["a", "b"], "who": {"age": 3, "name": "x"}}]],
    ),
    (
        "lfm2", 'Sure.<|tool_call_start|>[look(tags=[], city="Rome", who={})]<|tool_call_end|>',
        ["Sure.", ["look", {"tags": [], "city": "Rome", "who": {}}]],
    ),
    ("olmo-3", '<function_calls>look(city="Rome")\nlook_up(city="Rome")</function_calls>',
     [["look", ROME], ["look_up", ROME]]),
    (
        "qwen3-coder",
        "<function=look>\n<parameter=days>\n2\n</parameter>\n<parameter=city>Rome</parameter>\n</function>",
        [["look", {"days": 2, "city": "Rome"}]],
    ),
    (
        "qwen3-coder",
        "<tool_call><function=look><parameter=note>\nnull\n</parameter><parameter=on>\nTrue\n</parameter>"
        "<parameter=city>\n\nRome\n\n</parameter></function></tool_call>",
        [["look", {"note": None, "on": True, "city": "\nRome\n"}]],
    ),
    (
        "qwen3-coder",
        '<tool_call>\n<function=look>\n<parameter=who>\n{ "age":3 }\n</parameter>\n'
        '<parameter=city>\n<b>\n</parameter>\n'
        "<parameter=tags>\n[\n]\n</parameter>\n</function>\n</tool_call>",
        [["look", {"who": {"age": 3}, "city": "<b>", "tags": []}]],
    ),
    ("seed-oss", "<seed:tool_call>\n<function=look>\n<parameter=city>Rome</parameter>\n</function>\n</seed:tool_call>",
     [["look", ROME]]),
    (
        "glm-4.5", "<tool_call>look<arg_key>on</arg_key><arg_value>false</arg_value><arg_key>city</arg_key>\n"
        "<arg_value>Rome</arg_value></tool_call>",
        [["look", {"on": False, "city": "Rome"}]],
    ),
    (
        "minimax-m3",
        "]<]minimax[>[<tool_call>]<]minimax[>[<invoke name=\"look\">]<]minimax[>[<who>]<]minimax[>[<name>7]<]minimax[>["
        "</name>]<]minimax[>[</who>]<]minimax[>[<tags>]<]minimax[>[<item>1]<]minimax[>[</item>]<]minimax[>[</tags>"
        "]<]minimax[>[<city>Rome]<]minimax[>[</city>]<]minimax[>[</invoke>]<]minimax[>[</tool_call>",
        [["look", {"who": {"name": "7"}, "tags": ["1"], "city": "Rome"}]],
    ),
    (
        "deepseek-v3",
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>look\n```json\n{"city": "Rome"}```'
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        [["look", ROME]],
    ),
    ("deepseek-v3.1", '<｜tool▁call▁begin｜>look<｜tool▁sep｜>{"city":"Rome"}<｜tool▁call▁end｜>', [["look", ROME]]),
    ("mistral", '[TOOL_CALLS][{"name":"look","arguments":{"city":"Rome"}}]', [["look", ROME]]),
    ("mistral", '[TOOL_CALLS] [{"name": "look", "arguments": {"city": "Rome"}, "id": "abcdefgh1"}]', [["look", ROME]]),
    ("mistral-v11", 'So.[TOOL_CALLS]look[ARGS]{"city":"Rome"}[TOOL_CALLS]look_up[ARGS]{"city": "Rome"}',
     ["So.", ["look", ROME], ["look_up", ROME]]),
    ("mistral-v11-id", '[TOOL_CALLS]look[CALL_ID]abcdefgh1[ARGS]{"city":"Rome"}', [["look", ROME]]),
    (
        "command-r7b",
        '<|START_RESPONSE|>So.<|END_RESPONSE|><|START_ACTION|>[{"tool_call_id": "0", "tool_name": "look", '
        '"parameters": {"city":"Rome"}}]<|END_ACTION|>',
        ["So.", ["look", ROME]],
    ),
    ("functionary-3.1", '<function=look>{"city":"Rome"}</function>', [["look", ROME]]),
    ("functionary-3.2", 'all\nSo.>>>look_up\n{"city": "Rome"}', ["So.", ["look_up", ROME]]),
    ("functools", 'functools[{"name":"look","arguments":{"city":"Rome"}}]', [["look", ROME]]),
    ("nemotron-nano-2", '<TOOLCALL>[{"name": "look", "arguments": {"city": "Rome"}}]</TOOLCALL>', [["look", ROME]]),
    ("tool-calls", '<tool_calls>\n[\n{"name": "look", "arguments": {"city": "Rome"}}\n]\n</tool_calls>',
     [["look", ROME]]),
    ("granite-3", '<|tool_call|>[{"name": "look", "arguments": {"city": "Rome"}}]', [["look", ROME]]),
    ("granite-20b", '<function_call>{"name": "look", "arguments": {"city": "Rome"}}', [["look", ROME]]),
    ("internlm2", '<|action_start|><|plugin|>{"name":"look","parameters":{"city":"Rome"}}<|action_end|>',
     [["look", ROME]]),
    ("xlam", '[{"name": "look", "arguments": {"city": "Rome"}}, {"name": "look_up", "arguments": {"city": "Rome"}}]',
     [["look", ROME], ["look_up", ROME]]),
    ("hermes", 'Hm.\n<tool_call>{"arguments":{"city": "Rome"}, "name": "look"}</tool_call>', ["Hm.", ["look", ROME]]),
    (
        "longcat", '<longcat_tool_call>{"name": "look", "arguments": {"city": "Rome"}}</longcat_tool_call>',
        [["look", ROME]],
    ),
    (
        "longcat-xml",
        "<longcat_tool_call>\nlook\n<longcat_arg_key>city</longcat_arg_key>\n<longcat_arg_value>Rome</longcat_arg_value>"
        "\n</longcat_tool_call>",
        [["look", ROME]],
    ),
    (
        "step-3",
        'Hm.<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="look">'
        '<steptml:parameter name="city">Rome</steptml:parameter></steptml:invoke><｜tool_call_end｜>'
        "<｜tool_calls_end｜>",
        ["Hm.", ["look", ROME]],
    ),
    (
        "ernie-4.5",
        '<response>\n1 < 2\n</response>\n<tool_call>\n{"name": "look", "arguments": {"city": "Rome"}}\n</tool_call>',
        ["1 < 2", ["look", ROME]],
    ),
    (
        "gigachat-3",
        'Hm.<|message_sep|>\n\nfunction call<|role_sep|>\n{"name": "look", "arguments": {"city": "Rome"}}',
        ["Hm.", ["look", ROME]],
    ),
    ("pangu", '[unused11][{"name": "look", "arguments": {"city": "Rome"}}][unused12]', [["look", ROME]]),
    ("hunyuan-a13b", "助手：Sunny.", ["Sunny."]),
    ("xlam", '```json\n[{"name": "look", "arguments": {"city": "Rome"}}]\n```', [["look", ROME]]),
    (
        "command-r7b",
        '<|START_RESPONSE|>1 < 2<|END_RESPONSE|><|START_ACTION|>[{"tool_call_id": "0", "tool_name": "look", '
        '"parameters": {"city": "Rome"}}]<|END_ACTION|>',
        ["1 < 2", ["look", ROME]],
    ),
    (
        "functiongemma",
        "<start_function_call>call:look{city:<escape>Rome<escape>,days:2,on:true,tags:[<escape>a,b<escape>]}"
        "<end_function_call><start_function_call>call:look_up{city:<escape>Rome<escape>}<end_function_call>",
        [["look", {**ROME, "days": 2, "on": True, "tags": ["a,b"]}], ["look_up", ROME]],
    ),
    (
        "step-3",
        '<｜tool_calls_begin｜><｜tool_call_begin｜><steptml:invoke name="look">\n<steptml:parameter name="city">Rome'
        '</steptml:parameter>\n</steptml:invoke><｜tool_call_end｜>\n<｜tool_calls_end｜>',
        [["look", ROME]],
    ),
    (
        "cohere-cofl",
        '<|START_TEXT|>So.<|END_TEXT|><cofl:tool_calls>\n<cofl:tool_call id="0" name="look">\n<cofl:tool_param '
        'name="city" string="true">Rome</cofl:tool_param>\n<cofl:tool_param name="days" string="false">'
        '3</cofl:tool_param>\n</cofl:tool_call>\n<cofl:tool_call id="1" name="look_up">'
        '<cofl:tool_param name="city" string="true">Rome'
        "</cofl:tool_param></cofl:tool_call></cofl:tool_calls>",
        ["So.", ["look", {**ROME, "days": 3}], ["look_up", ROME]],
    ),
    (
        "minicpm-5",
        '<function name="look"><param name="city"><![CDATA[a</param>\n<b>&]]></param><param name="tags">["x", \'y\']'
        '</param></function>\n<function name="look_up"><param name="city">Rome</param></function>',
        [["look", {"city": "a</param>\n<b>&", "tags": ["x", "y"]}], ["look_up", ROME]],
    ),
    # The block of calls ends, and another one begins.
    *(
        (name, f"{begin}look{middle}{end}\n{begin}look_up{middle}{end}", [["look", ROME], ["look_up", ROME]])
        for name, begin, middle, end in (
            ("lfm2", "<|tool_call_start|>[", '(city="Rome")', "]<|tool_call_end|>"),
            ("pythonic", "[", '(city="Rome")', "]"),
            ("olmo-3", "<function_calls>", '(city="Rome")', "</function_calls>"),
            ("nemotron-nano-2", '<TOOLCALL>[{"name": "', '", "arguments": {"city": "Rome"}}', "]</TOOLCALL>"),
            (
                "deepseek-v3.1", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>", '<｜tool▁sep｜>{"city": "Rome"}',
                "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            ),
        )
    ),
]  # fmt: skip


def read(format_: CallFormat, text: str, cuts: list[int] = [], **options: Any) -> list[Any]:  # noqa: B006
    """What the parser reads: texts, and calls as lists; thoughts in tuples."""
    parser = TurnParser(format_, {tool.name: tool.arguments_schema for tool in TOOLS}, **options)
    events: list[Any] = []
    for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        events += parser.feed(text[begin:end])
    found: list[Any] = []
    kinds: dict[type, type] = {TextPiece: str, ThoughtPiece: tuple}
    for event in events + parser.finish():
        if isinstance(event, CallEnded):
            found.append([event.name, json.loads(event.arguments)])
        elif isinstance(event, (TextPiece, ThoughtPiece)):
            begun = found.pop() if found and isinstance(found[-1], kinds[type(event)]) else ""
            text_ = "".join(begun) + event.text
            found.append((text_,) if isinstance(event, ThoughtPiece) else text_)
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
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (OBJECT, [["look", ROME]]),
        (f"```json\n{OBJECT}\n```", [["look", ROME]]),
        (f"I look.\n```json\n{OBJECT}\n```", ["I look.\n", ["look", ROME]]),
        (f"<tools>\n{OBJECT}\n</tools>", [["look", ROME]]),
        (f"{OBJECT}\n{OBJECT.replace('look', 'look_up')}", [["look", ROME], ["look_up", ROME]]),
        ('{\n  "name": "look",\n  "parameters": {\n    "city": "Rome"\n  }\n}\n', [["look", ROME]]),
        ('{"name": "another", "arguments": {}}', ['{"name": "another", "arguments": {}}']),
        ('```json\n{"name": "look"}\n```', ['```json\n{"name": "look"}\n```']),
    ],
)
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
    spelling = spelled("<a>", maybe("x", written=False), Slot.NAME)
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
            parser = TurnParser(format_, {"look": schema}, thought="closed")
            (ended,) = (each for each in parser.feed(text) + parser.finish() if isinstance(each, CallEnded))
            assert json.loads(ended.arguments) == arguments


@pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "array", "items": {"type": "object"}}])
def test_members_with_any_name_are_refused_by_name_where_members_are_elements(schema):
    """A closing tag repeats the name: no mask can tell that it is the same."""
    tool = Tool.of({"type": "function", "function": {"name": "f", "parameters": {"properties": {"b": schema}}}})
    format_ = call_format("minimax-m3")
    with pytest.raises(UnsupportedSchema, match=f"has no spelling for {schema['type']}: argument 'b' of f"):
        turn(format_, TurnRules((tool,), text=False), byte_vocabulary(control_tokens(format_)))
