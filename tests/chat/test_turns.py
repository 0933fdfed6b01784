"""One format, three uses: the mask accepts what the template renders, the parser gives it back, however it is cut.

Covers `arguments`, `call_format`, `calls_constraint`, `chat.deriving.arguments`, `chat.deriving.thinking`,
`json_values`, `chat.keyed.nested`, `chat.keyed.plans`, `chat.keyed.nested_plans`, `chat.keyed.strings`, `literals`,
`parser`, `chat.deriving.probes`, `read_plans`, `reading`, `templates` and `turn_plans`.
"""

from __future__ import annotations

import json
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from structgen.chat import CallFormat
from structgen.chat.arguments import KeyedArguments, Raw
from structgen.chat.call_format import WrittenCall
from structgen.chat.calls_constraint import TurnRules, turn
from structgen.chat.keyed.nested import Nested
from structgen.chat.literals import Fixed
from structgen.chat.parser import ArgumentsPiece, CallBegun, CallEnded, TextPiece, TurnEvent, TurnReader
from structgen.chat.templates import CannotRender, JinjaTemplate
from structgen.errors import CallSyntaxError, OptionError, UnsupportedSchema
from structgen.parts.parts import parts_of
from structgen.tools import Tool
from tests.support.chat_templates import byte_vocabulary, control_tokens, derivable, format_of, refused_at, templates
from tests.support.tables import cases

pytestmark = pytest.mark.skipif(not templates(), reason="no chat templates")

WORDS = st.text("abcXYZ0189 éß€_-", min_size=1, max_size=12).map(str.strip).filter(bool)
LETTERS = st.text("abcdefgh_", min_size=1, max_size=6).filter(lambda name: name.strip("_"))
ANY_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)

SCALARS: dict[str, tuple[dict[str, Any], st.SearchStrategy[Any]]] = {
    "text": ({"type": "string"}, WORDS.map(lambda word: "w" + word)),
    "whole": ({"type": "integer"}, st.integers(-(10**6), 10**6)),
    "ratio": ({"type": "number"}, st.integers(-999, 999).map(lambda n: n / 8)),
    "flag": ({"type": "boolean"}, st.booleans()),
    "choice": ({"enum": ["red", "dark blue"]}, st.sampled_from(["red", "dark blue"])),
    "maybe": ({"type": ["string", "null"]}, st.none() | WORDS.map(lambda word: "w" + word)),
}
CONTAINERS: dict[str, tuple[dict[str, Any], st.SearchStrategy[Any]]] = {
    "list": ({"type": "array", "items": {"type": "integer"}}, st.lists(st.integers(0, 99), max_size=3)),
    "nest": (
        {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"a": {"type": "boolean"}, "b": {"type": "string"}},
                "required": ["b"],
            },
        },
        st.lists(st.builds(lambda a, b: {"b": b} if a is None else {"a": a, "b": b}, st.none() | st.booleans(), WORDS)),
    ),
    "map": (
        {"type": "object", "additionalProperties": {"type": "string"}},
        st.dictionaries(LETTERS, ANY_TEXT, max_size=2),
    ),
}


def kinds_of(format_: CallFormat) -> dict[str, tuple[dict[str, Any], st.SearchStrategy[Any]]]:
    """The kinds of members that a format can write."""
    if not isinstance(format_.arguments, KeyedArguments):
        quoted = {"quoted": ({"type": "string"}, ANY_TEXT)}
        return SCALARS | CONTAINERS | quoted
    containers = CONTAINERS if _writes_containers(format_) else {}
    object_format = dict(format_.arguments.formats).get("object")
    if object_format is not None and isinstance(object_format.writer, Nested):  # what it cannot write is another test's
        containers = {**CONTAINERS, "map": (CONTAINERS["map"][0], st.dictionaries(LETTERS, WORDS, max_size=2))}
    without = {"maybe"} if dict(format_.arguments.formats).get("null") is None else set()
    return {name: kind for name, kind in (SCALARS | containers).items() if name not in without}


def _writes_containers(format_: CallFormat) -> bool:
    tool = Tool.of({"name": "t", "parameters": {"properties": {"a": CONTAINERS["list"][0]}}})
    try:
        turn(format_, TurnRules((tool,)), byte_vocabulary([]))
    except UnsupportedSchema:
        return False
    return True


@st.composite
def tools_and_calls(draw: st.DrawFn, name: str) -> tuple[list[Tool[..., Any]], list[WrittenCall]]:
    kinds = kinds_of(format_of(name))
    tools, calls = [], []
    for tool_name in draw(st.lists(LETTERS, min_size=1, max_size=4, unique=True)):
        keys = draw(st.lists(LETTERS, max_size=4, unique=True))
        members = {key: kinds[draw(st.sampled_from(sorted(kinds)))] for key in keys}
        required = [key for key in keys if draw(st.booleans())]
        schema = {
            "type": "object", "properties": {key: kind[0] for key, kind in members.items()}, "required": required,
        }  # fmt: skip
        tools.append(Tool.of({"name": tool_name, "parameters": schema}))
        present = [key for key in keys if key in required or draw(st.booleans())]
        calls.append(WrittenCall(tool_name, {key: draw(members[key][1]) for key in present}, "abcdefgh1"))
    most = 1 if format_of(name).between is None else 3
    return tools, draw(st.lists(st.sampled_from(calls), min_size=1, max_size=most))


def read(format_: CallFormat, tools: list[Tool[..., Any]], text: str, cuts: list[int]) -> list[TurnEvent]:
    """The events of a text in these pieces, neighbouring ones joined: those of the turn, and its changes together."""
    reader = TurnReader(format_, {tool.name: tool.arguments_schema for tool in tools})
    turns = [reader.start]
    for start, end in pairwise([0, *sorted(cuts), len(text)]):
        turns.append(reader.feed(turns[-1], text[start:end]))
    turns.append(reader.finish(turns[-1]))
    changes = [after.changes(before) for before, after in pairwise(turns)]
    pieces = "".join(each.text for events in changes for each in events or () if isinstance(each, ArgumentsPiece))
    found = turns[-1].events()
    assert pieces == "".join(each.text for each in found if isinstance(each, ArgumentsPiece))
    return found


def check_round_trip(name: str, tools: list[Tool[..., Any]], calls: list[WrittenCall], cuts: list[int]) -> None:
    format_ = format_of(name)
    content = "Let me see." if format_.gap is not None and len(cuts) % 2 else ""
    text = format_.render(calls, content)
    for names in ([], control_tokens(format_)):
        vocabulary = byte_vocabulary(names)
        grammar = turn(format_, TurnRules(tuple(tools)), vocabulary).compile(vocabulary)
        assert refused_at(grammar, text, vocabulary) is None, text
        required = turn(format_, TurnRules(tuple(tools), min_calls=len(calls), text=False), vocabulary).compile(
            vocabulary
        )
        assert (refused_at(required, text, vocabulary) is None) == (content == "")
    events = read(format_, tools, text, [])
    given_back = [(event.name, json.loads(event.arguments)) for event in events if isinstance(event, CallEnded)]
    assert given_back == [(call.name, _as_written(format_, call.arguments)) for call in calls]
    assert "".join(event.text for event in events if isinstance(event, TextPiece)) == content
    assert read(format_, tools, text, [cut % (len(text) + 1) for cut in cuts]) == events
    assert read(format_, tools, text, list(range(len(text)))) == events


def _as_written(format_: CallFormat, arguments: Any) -> Any:
    if isinstance(format_.arguments, KeyedArguments) and format_.arguments.sorted:
        return dict(sorted(arguments.items(), key=lambda item: item[0].lower()))
    return dict(arguments)


CUTS = st.lists(st.integers(0, 10**6), max_size=5)
FAST = (
    "Qwen-Qwen3-0.6B", "Qwen3-Coder", "openai-gpt-oss-120b", "google-gemma-4-31B-it", "GLM-4.6", "GLM-4.7-Flash",
    "openbmb-MiniCPM5-1B",
)  # fmt: skip


def _in_schema_order(tools: list[Tool[..., Any]], calls: list[WrittenCall]) -> list[WrittenCall]:
    order = {tool.name: list(tool.parameters["properties"]) for tool in tools}
    return [
        call._replace(arguments={key: call.arguments[key] for key in order[call.name] if key in call.arguments})
        for call in calls
    ]


@pytest.mark.parametrize("name", [name for name in FAST if name in templates()])
@settings(max_examples=6)
@given(st.data())
def test_what_is_written_is_allowed_and_read_back(name, data):
    tools, calls = data.draw(tools_and_calls(name))
    check_round_trip(name, tools, _in_schema_order(tools, calls), data.draw(CUTS))


LOSSY = ("tool_chat_template_llama4_pythonic",)
"""Templates that write numbers as texts and leave quotes as they are: their models write literals of Python."""


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in derivable() if name not in LOSSY])
@settings(max_examples=60)
@given(st.data())
def test_what_is_written_is_allowed_and_read_back_in_every_template(name, data):
    tools, calls = data.draw(tools_and_calls(name))
    try:
        check_round_trip(name, tools, _in_schema_order(tools, calls), data.draw(CUTS))
    except UnsupportedSchema:
        assert name == "MiniMax-M3"  # its elements are named by the schema: an object with any names has no spelling


AS_MODEL = ("tool_chat_template_llama4_pythonic", "MiniMax-M3")
"""Templates that write less than their models, so that `render` writes as the model."""


@pytest.mark.parametrize("name", [name for name in derivable() if name not in (*FAST, *AS_MODEL)][::4])
@settings(max_examples=4)
@given(st.data())
def test_the_renderer_writes_what_the_template_writes(name, data):
    tools, calls = data.draw(tools_and_calls(name))
    format_, template = format_of(name), JinjaTemplate(templates()[name])
    listed = [
        {"id": call.id, "type": "function", "function": {
            "name": call.name,
            "arguments": json.dumps(call.arguments, ensure_ascii=False) if format_.as_text else dict(call.arguments),
        }}
        for call in calls
    ]  # fmt: skip
    messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "", "tool_calls": listed}]
    try:
        text = template.render(messages, [tool.declaration for tool in tools], prompt=False)
    except CannotRender:  # a template that has no words for a tool's schema
        reject()
    assert format_.render(calls)[len(format_.lead) :] in text


def simple(*names: str) -> tuple[Tool[..., Any], ...]:
    return tuple(Tool.of({"name": name, "parameters": {"properties": {"n": {"type": "integer"}}}}) for name in names)


def accepted(format_: CallFormat, rules: TurnRules, text: str) -> bool:
    vocabulary = byte_vocabulary(control_tokens(format_))
    return refused_at(turn(format_, rules, vocabulary).compile(vocabulary), text, vocabulary) is None


def test_names_and_arguments_of_no_tool_are_refused():
    format_, rules = format_of("Qwen-Qwen3-0.6B"), TurnRules(simple("get", "get_all"), text=False)
    for name in ("get", "get_all"):
        assert accepted(format_, rules, format_.render([WrittenCall(name, {"n": 1})]))
    for call in (
        WrittenCall("got", {}),
        WrittenCall("get_", {}),
        WrittenCall("get", {"m": 1}),
        WrittenCall("get", {"n": "1"}),
    ):
        assert not accepted(format_, rules, format_.render([call]))
    assert not accepted(format_, rules, "no call")


def test_a_text_that_ends_as_calls_begin_is_text_until_the_tag_of_calls_is_whole():
    format_ = format_of("Qwen-Qwen3-0.6B")
    written = format_.render([WrittenCall("get", {"n": 1})])
    begun = len("<tool_call>")
    for end in range(1, len(written)):
        reader = TurnReader(format_, {"get": {"properties": {"n": {"type": "integer"}}}})
        read_ = reader.feed(reader.start, written[:end])
        if end < begun:
            assert reader.finish(read_).events() == [TextPiece(written[:end])]
        else:
            with pytest.raises(CallSyntaxError):
                reader.finish(read_)


@pytest.mark.parametrize("name", ["Qwen-Qwen3-0.6B", "Qwen3-Coder", "moonshotai-Kimi-K2", "unsloth-Apriel-1.5"])
def test_counts_of_calls_are_exact(name):
    format_ = format_of(name)
    texts = [format_.render([WrittenCall("get", {"n": place}) for place in range(count)]) for count in range(1, 5)]
    for min_calls, max_calls in ((2, 3), (1, 1), (3, None)):
        rules = TurnRules(simple("get"), min_calls=min_calls, max_calls=max_calls, text=False)
        wanted = [min_calls <= count <= (max_calls or 99) for count in range(1, 5)]
        assert [accepted(format_, rules, text) for text in texts] == wanted


def test_more_calls_than_the_format_has_are_refused_by_name():
    with pytest.raises(OptionError, match="allows only one"):
        turn(format_of("openai-gpt-oss-120b"), TurnRules(simple("get"), min_calls=2), byte_vocabulary([]))
    with pytest.raises(OptionError, match="two of them have the name"):
        turn(format_of("openai-gpt-oss-120b"), TurnRules(simple("get", "get")), byte_vocabulary([]))


def test_text_has_nothing_that_begins_a_call():
    format_, rules = format_of("Qwen-Qwen3-0.6B"), TurnRules(simple("get"))
    assert accepted(format_, rules, "I <think> so. {}")
    vocabulary = byte_vocabulary([])
    grammar = turn(format_, rules, vocabulary).compile(vocabulary)
    assert refused_at(grammar, "I say <tool_call> so.", vocabulary) is not None
    assert not accepted(format_, TurnRules(simple("get"), max_calls=0), format_.render([WrittenCall("get", {})]))


def test_strings_that_could_not_be_read_back_are_refused():
    coder = format_of("Qwen3-Coder")
    text = Tool.of({"name": "say", "parameters": {"properties": {"s": {"type": ["string", "integer", "boolean"]}}}})
    assert isinstance(coder.arguments, KeyedArguments)
    assert "string" in dict(coder.arguments.formats)
    begun, ended = coder.render([WrittenCall("say", {"s": "@"})]).split("@")
    for value, allowed in (("hello", True), ("12", True), ("True", True), ("1 2", True), ("\n</parameter>\n", False)):
        assert accepted(coder, TurnRules((text,)), begun + value + ended) == allowed
        if allowed:
            done = read(coder, [text], begun + value + ended, [])[-1]
            wanted = {"12": 12, "True": True}.get(value, value)
            assert isinstance(done, CallEnded)
            assert json.loads(done.arguments) == {"s": wanted}
    arguments = format_of("openbmb-MiniCPM5-1B").arguments
    assert isinstance(arguments, KeyedArguments)
    writer = dict(arguments.formats)["string"].writer
    assert isinstance(writer, Raw)
    assert {"<", "&"} <= writer.without


@pytest.mark.parametrize(("rules", "wrong", "right"), cases("chat/turns", "objects_that_are_not"))
def test_objects_that_are_not_written_as_json_keep_all_rules_of_their_schema(rules, wrong, right):
    format_ = format_of("LFM2-8B-A1B")
    tools = (Tool.of({"name": "f", "parameters": {"properties": {"o": {"type": "object", **rules}}}}),)
    assert accepted(format_, TurnRules(tools), format_.render([WrittenCall("f", {"o": right})]))
    assert not accepted(format_, TurnRules(tools), format_.render([WrittenCall("f", {"o": wrong})]))


def test_a_name_is_told_before_the_arguments():
    format_ = format_of("Qwen3-Coder")
    tools = [Tool.of({"name": "say", "parameters": {"properties": {"s": {"type": "string"}}}})]
    reader = TurnReader(format_, {tool.name: tool.parameters for tool in tools})
    text = format_.render([WrittenCall("say", {"s": "hello\nthere"})])
    turns = list(accumulate(text, reader.feed, initial=reader.start))
    told = [event for before, after in pairwise(turns) for event in after.changes(before) or ()]
    assert told[0] == CallBegun(0, "say")
    fragments = [event.text for event in told if isinstance(event, ArgumentsPiece)]
    assert len(fragments) > 8
    assert json.loads("".join(fragments)) == {"s": "hello\nthere"}


@pytest.mark.parametrize(
    "text", ['<tool_call>\n{"name": "got"', '<tool_call>\n{"name": "get", "arguments": {"n": 1}', "<tool_call>\n["]
)
def test_what_is_no_call_is_a_syntax_error(text):
    reader = TurnReader(format_of("Qwen-Qwen3-0.6B"), {"get": {"type": "object"}})
    with pytest.raises(CallSyntaxError):
        reader.finish(reader.feed(reader.start, text))


def test_arguments_with_the_same_schema_share_their_states():
    """Of a hundred tools that take texts and whole numbers, the automaton has the texts and numbers once."""
    format_ = format_of("Qwen3-Coder")
    vocabulary = byte_vocabulary(control_tokens(format_))

    def tools(count: int) -> tuple[Tool[..., Any], ...]:
        members = {"text": {"type": "string", "description": "x"}, "n": {"type": "integer", "minimum": 0}}
        return tuple(
            Tool.of({"name": f"tool_{number}", "parameters": {"properties": members}}) for number in range(count)
        )

    def parts(count: int) -> list[Any]:
        rules = TurnRules(tools(count), min_calls=1, text=False)
        return list(parts_of(turn(format_, rules, vocabulary).plan()))

    few, many = parts(2), parts(100)
    values = [sum(not isinstance(part, Fixed) for part in each) for each in (few, many)]
    assert values[0] == values[1]
    grammar = turn(format_, TurnRules(tools(100), min_calls=1, text=False), vocabulary).compile(vocabulary)
    text = format_.render([WrittenCall("tool_57", {"text": "a b", "n": 3})])
    assert refused_at(grammar, text, vocabulary) is None
    assert refused_at(grammar, text.replace(">\n3\n<", ">\n3.5\n<"), vocabulary) is not None
