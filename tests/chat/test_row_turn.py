"""Stop strings in the free text of a turn with calls: found wherever tokens are cut, never within a call."""

from __future__ import annotations

from functools import reduce

import pytest

import structgen as sg
from structgen.chat import call_format
from structgen.chat.call_format import WrittenCall
from structgen.chat.formats import NATIVE
from structgen.chat.parser import TextPiece, ThoughtPiece, TurnReader
from structgen.chat.row_turn import TurnReading
from structgen.testing import scripted_chat
from tests.support.tables import cases

CALL = '<tool_call>\n{"name": "look", "arguments": {"place": "a STOP b"}}\n</tool_call>'


@sg.tool
def look(place: str) -> str:
    """Looks at a place."""
    return place


@pytest.mark.parametrize(("said", "stop", "text", "stopped"), cases("chat/row_turn", "the_turn_ends_before", globals()))
def test_the_turn_ends_before_a_stop_string_of_its_text(said, stop, text, stopped):
    model = scripted_chat(said)
    options = {"parallel": True, "details": True, "limits": sg.Limits(200, stop=stop)}
    reply = sg.call(model, "Go.", [look], **options)
    assert reply.text == text
    assert (reply.generation.finish == "stop", reply.generation.stop) == (stopped is not None, stopped)
    called = CALL in said and stopped is None
    assert [call.arguments for call in reply.calls] == [{"place": "a STOP b"}] * called
    if stopped is not None:
        assert reply.generation.text == text
    del options["details"]
    events = list(sg.stream_call(model, "Go.", [look], **options))
    assert "".join(event.text for event in events) == text
    assert sum(event.call is not None for event in events) == called


def test_the_place_is_the_same_wherever_tokens_are_cut():
    model = scripted_chat("x")
    format_ = call_format(model.tokenizer, model.vocabulary)
    options = {"thought": "closed", "stop": ("STOP", "halt")}
    schemas = {"look": look.arguments_schema}
    text = "Wait: <tool halt" + CALL
    tokens = model.tokenizer.encode(text)
    assert len(tokens) == len(text)
    reading = TurnReading(TurnReader(format_, schemas, **options), model.vocabulary, has_text=True, has_value=False)
    state = reading.start(())
    for end in range(len(tokens) + 1):
        for each in (state, reading.read(reading.start(()), tokens[:end])):
            assert each.stop(text[:end].encode()) == ((12, "halt") if end >= 16 else None)
        state = reading.feed(state, tokens[end], model.vocabulary.token(tokens[end])) if end < len(tokens) else state
    reader = TurnReader(format_, schemas, **options)
    for pieces in (text, [text]):
        whole = reader.finish(reduce(reader.feed, pieces, reader.start))
        assert whole.events() == [TextPiece("Wait: <tool ")]
        assert whole.stopped == "halt"


@pytest.mark.parametrize("name", [native.name for native in NATIVE])
def test_what_begins_a_tag_at_the_end_of_a_cut_turn_is_no_text(name):
    """Of a turn that is cut anywhere, the text is a beginning of the answer, and the thought one of the thought."""
    format_, call = call_format(name), WrittenCall("look", {"place": "Rome"}, "abcdefghi")
    said = "" if format_.gap is None else "Hello there"
    text = format_.render([call], said)
    turns = [("closed", text)]
    if format_.thinking is not None:
        after = "Hmm" + format_.thinking.closing + text
        turns += [("open", after), (None, format_.thinking.opening + after)]
    for thought, whole in turns:
        reader = TurnReader(format_, {"look": look.arguments_schema}, thought=thought)
        state = reader.start
        for end, char in enumerate(whole, 1):
            state = reader.feed(state, char)
            cut = reader.finish(state, cut=True)
            shown = cut.said(TextPiece).strip()
            assert "Hmm".startswith(cut.said(ThoughtPiece).strip())
            if not said.startswith(shown):  # three characters that begin no tag are too few to tell a call
                assert not shown.removeprefix(said).strip().startswith(("<", "["))
                assert len(shown.removeprefix(said).strip()) < 4, whole[:end]
