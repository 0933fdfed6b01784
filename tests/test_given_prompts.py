"""What comes in is asked once what it is; what can be added to each kind."""

from __future__ import annotations

import pytest

from structgen.errors import OptionError
from structgen.given_prompts import ChatPrompt, GivenPrompts, IdsPrompt, ProcessorPrompt, TextPrompt
from tests.support.tables import cases

CHAT = [{"role": "user", "content": "x"}]


@pytest.mark.parametrize(("prompt", "kinds"), cases("given_prompts", "one_prompt_and_a", globals()), ids=str)
def test_one_prompt_and_a_list_of_prompts_are_told_apart(prompt, kinds):
    prompts = GivenPrompts.of(prompt)
    many = isinstance(kinds, list)
    assert prompts.many is many
    assert [type(each) for each in prompts.each] == (kinds if many else [kinds])


@pytest.mark.parametrize(
    ("prompt", "message"),
    cases("given_prompts", "what_is_no_prompt", globals()),
)
def test_what_is_no_prompt_is_refused_by_its_place(prompt, message):
    with pytest.raises(OptionError, match=message):
        GivenPrompts.of(prompt)


def test_a_prompt_that_is_given_twice_stays_one_object():
    text = "".join(["a", "b"])
    prompts = GivenPrompts.of([text, "c", text])
    assert prompts.each[0] is prompts.each[2] is not prompts.each[1]
    shown = prompts.mapped(lambda prompt: prompt.with_schema("So:"))
    assert shown.each[0] is shown.each[2]
    assert [each.given for each in shown.each] == ["ab\n\nSo:\n", "c\n\nSo:\n", "ab\n\nSo:\n"]


def test_the_schema_stands_behind_what_the_user_said_last():
    messages = [*CHAT, {"role": "assistant", "content": "You."}]
    assert ChatPrompt(messages).with_schema("So:").given == [{"role": "user", "content": "x\n\nSo:"}, messages[1]]
    assert messages[0]["content"] == "x"
    parts = [{"role": "user", "content": [{"type": "image"}]}]
    content = [{"type": "image"}, {"type": "text", "text": "\n\nSo:"}]
    assert ChatPrompt(parts).with_schema("So:").given == [{"role": "user", "content": content}]


def test_turns_of_examples_and_of_a_retry():
    system, turns = {"role": "system", "content": "Be brief."}, ({"role": "user", "content": "y"},)
    assert ChatPrompt((system, *CHAT)).with_examples(turns).given == [system, *turns, *CHAT]
    answer, refusal = {"role": "assistant", "content": "{"}, {"role": "user", "content": "No."}
    assert ChatPrompt(tuple(CHAT)).with_retry("{", "No.").given == [*CHAT, answer, refusal]
    assert TextPrompt("x: ").with_retry("{", "No.").given == "x: {\n\nNo.\n"


def test_what_a_kind_does_not_allow_is_refused():
    ids, silent = IdsPrompt([1, 2]), ChatPrompt([{"role": "system", "content": "x"}])
    for add, message in (
        (lambda: ids.with_schema("x"), "prompt_schema=True with prompt=.1, 2.: expected a string, or messages"),
        (lambda: silent.with_schema("x"), "messages with a user's text"),
        (lambda: ids.with_examples(CHAT), "examples are turns of a chat"),
        (lambda: TextPrompt("x").with_examples(CHAT), "expected chat messages as prompt, not 'x'"),
        (lambda: ids.with_retry("", ""), "the prompt is token ids, and turns can only be added to text"),
        (lambda: ProcessorPrompt({}).with_retry("", ""), "the prompt is what a processor returned"),
        (ids.messages, r"prompt=\[1, 2\]: expected a text or chat messages: the model is remote"),
    ):
        with pytest.raises(OptionError, match=message):
            add()
