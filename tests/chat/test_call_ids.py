"""Ids of calls from elsewhere: nine letters and digits where a template takes nothing else."""

from __future__ import annotations

import pytest

from structgen.chat.call_ids import short_id, with_short_ids
from structgen.chat.messages import prompt_ids
from tests.support.calling_models import chat_tokenizer
from tests.support.tables import cases

FOREIGN = "call_2kfoE1abcDEF9ghi"


def history(*ids: str | None) -> list[dict]:
    calls = [
        {"type": "function", "function": {"name": "add", "arguments": {"n": number}}} | ({"id": id_} if id_ else {})
        for number, id_ in enumerate(ids)
    ]
    results = [
        {"role": "tool", "name": "add", "content": f"r{number}"} | ({"tool_call_id": id_} if id_ else {})
        for number, id_ in enumerate(ids)
    ]
    return [{"role": "user", "content": "q"}, {"role": "assistant", "content": "", "tool_calls": calls}, *results]


def ids_of(messages: list[dict]) -> tuple[list[str], list[str]]:
    return [call["id"] for call in messages[1]["tool_calls"]], [each["tool_call_id"] for each in messages[2:]]


def test_an_id_is_short_and_always_the_same():
    assert short_id("abcDEF123") == "abcDEF123"
    assert short_id(FOREIGN) == short_id(FOREIGN) != short_id(FOREIGN + "x")
    for name in ("", "ü\ud800", "a" * 10_000):
        assert len(short_id(name)) == 9
        assert short_id(name).isalnum()


@pytest.mark.parametrize("ids", [(FOREIGN, "other"), (None, None), (FOREIGN, None), (None, FOREIGN)])
def test_calls_and_their_results_have_the_same_ids(ids):
    made, answered = ids_of(with_short_ids(history(*ids)))
    assert len({*made}) == 2
    assert made == answered


DEMANDS = cases("chat/call_ids", "DEMANDS")
"""As Mistral's: calls have ids of nine characters."""


def test_a_history_from_another_server_is_read():
    tokenizer = chat_tokenizer("mistral")
    tokenizer.chat_template = DEMANDS
    text = tokenizer.decode(prompt_ids(tokenizer, history(FOREIGN, None)))
    first = short_id(FOREIGN)
    assert text.count(first) == 2
    assert f"[TOOL_RESULTS]{first} r0" in text
    own = tokenizer.decode(prompt_ids(tokenizer, history("abcDEF123")))
    assert own.count("abcDEF123") == 2
