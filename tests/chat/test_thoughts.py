"""The life of a thought: a prompt that opens one, the template's switch, the history that shows it."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

import structgen as sg
from structgen.chat import Tags, call_format
from structgen.chat.call_format import WrittenCall
from structgen.chat.messages import prompt_ids, turn_message
from structgen.chat.pieces import TAG
from structgen.chat.templates import TokenizerTemplate
from structgen.chat.thoughts import state_of, thought_options
from structgen.errors import OptionError
from structgen.models.model import Model
from structgen.testing import ScriptedModel, scripted_chat
from structgen.vocabulary import Vocabulary
from tests.support.calling_models import chat_tokenizer, real_tokenizer
from tests.support.chat_templates import templates
from tests.support.tables import cases
from tests.support.thinning import thinned

HISTORY = cases("chat/thoughts", "HISTORY", globals())
OPENS = HISTORY + "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
SWITCHED = HISTORY + (
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n"
    "{% if not (SWITCH is defined and SWITCH) %}\n</think>\n\n{% endif %}{% endif %}"
)
CLOSES = HISTORY + "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n\n</think>\n\n{% endif %}"
PLAIN = HISTORY + "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>'


@sg.tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"{city}: sunny"


def chat(source: str, *said: str, tags: bool = False) -> Model:
    """A model that wants to say these texts. `tags`: are the tags of thoughts tokens of their own?"""
    tokenizer = chat_tokenizer("hermes")
    tokenizer.chat_template = source.replace("FIELD", "reasoning_content").replace("SWITCH", "enable_thinking")
    if tags:
        tokenizer.add_tokens(["<think>", "</think>"])
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    tokens = [vocabulary.token(i) or None for i in range(vocabulary.width)]
    for name in ("<think>", "</think>") if tags else ():
        tokens[vocabulary.special_names[name]] = name.encode()
    return Model(ScriptedModel(list(said), Vocabulary.from_tokens(tokens, vocabulary.end_ids)), tokenizer, vocabulary)


@pytest.mark.parametrize("tags", thinned([False, True], 2))
def test_a_thought_that_the_template_opens_is_told_apart_without_being_asked(tags):
    """By `generate`, `stream`, `call` and `stream_call`; also where no thought is wanted, and none can be kept off."""
    said = "Where is it?\n</think>\n\n"
    question = [{"role": "user", "content": "Rome?"}]
    for thinking in (None, False, True):
        run = sg.generate(chat(OPENS, said + "Sunny.", tags=tags), question, thinking=thinking, details=True)
        assert (run.thinking.strip(), run.text) == ("Where is it?", "Sunny.")
    events = list(sg.stream(chat(OPENS, said + "[4]", tags=tags), question, list[int]))
    assert "".join(event.text for event in events if event.thinking).strip() == "Where is it?"
    assert events[-1].result.value == [4]
    text = sg.call(chat(OPENS, said + "Sunny.", tags=tags), "Rome?", [weather], details=True)
    assert (text.answer, text.generation.thinking.strip()) == ("Sunny.", "Where is it?")
    thought_of_a_call = CALL + "?\n</think>\n\n" + CALL
    for choice in ("auto", "required", weather):
        reply = sg.call(chat(OPENS, thought_of_a_call, tags=tags), "Rome?", [weather], choice=choice, details=True)
        assert [call.arguments for call in reply.calls] == [{"city": "Rome"}]
        assert reply.generation.thinking.strip() == CALL + "?"
        told = list(sg.stream_call(chat(OPENS, thought_of_a_call, tags=tags), "Rome?", [weather], choice=choice))
        assert "".join(event.thinking for event in told).strip() == CALL + "?"
        assert [event.call.name for event in told if event.call] == ["weather"]
    none = sg.call(chat(OPENS, said + "Sunny.", tags=tags), "Rome?", [weather], choice="none", details=True)
    assert (none.answer, none.calls) == ("Sunny.", [])


@pytest.mark.parametrize("tags", thinned([True, False], 2))
def test_a_thought_that_the_model_opens_by_itself_is_told_apart(tags):
    """Where the prompt neither opens nor closes one; with tools, a schema, both, and neither. Nothing is read twice."""
    question, thought = [{"role": "user", "content": "Rome?"}], f"Hm. {CALL}?\n"
    said = f"<think>\n{thought}</think>\n\n"

    def asked(text: str, **options: Any) -> tuple[Any, ...]:
        reply = sg.call(chat(PLAIN, text, tags=tags), "Rome?", [weather], details=True, **options)
        return reply.generation.thinking, [call.arguments for call in reply.calls], reply.answer

    city = [{"city": "Rome"}]
    for choice in ("auto", "required", weather):
        assert asked(said + CALL, choice=choice) == (thought, city, None)
        assert asked(CALL, choice=choice) == (None, city, None)
    for options in ({}, {"choice": "none"}):
        assert asked(said + "Sunny.", **options) == (thought, [], "Sunny.")
        assert asked("Sunny.", **options) == (None, [], "Sunny.")
    assert asked(said + "[4]", schema=list[int]) == (thought, [], [4])
    assert asked(said + "Sunny.", thinking=False)[0] is None
    for text, schema in (("Sunny.", None), ("[4]", list[int]), ("a", sg.Choice(["a"]))):
        plain = sg.generate(chat(PLAIN, text, tags=tags), question, schema, details=True)
        assert (plain.thinking, plain.text) == (None, text)
        assert plain.stats.forwards <= max(len(plain.token_ids), 1)
        run = sg.generate(chat(PLAIN, said + text, tags=tags), question, schema, details=True)
        assert (run.thinking, run.text) == (thought, text)
        events = list(sg.stream(chat(PLAIN, said + text, tags=tags), question, schema))
        assert "".join(event.text for event in events if event.thinking) == thought
        assert events[-1].result.text == text
    own = sg.Sequence("<think>", sg.Text(until="</think>"))
    assert sg.generate(chat(PLAIN, "<think>a</think>"), question, own) == "<think>a</think>"
    assert sg.generate(chat(PLAIN, "<think>a</think>"), "Rome?", sg.Choice(["b"]), details=True).thinking is None


def test_thinking_switches_the_template():
    model = chat(SWITCHED, "So.\n</think>\n\nSunny.", "Sunny.")
    question = [{"role": "user", "content": "Rome?"}]
    on = sg.generate(model, question, thinking=True, details=True)
    assert (on.thinking.strip(), on.text, "</think>" in on.prompt) == ("So.", "Sunny.", False)
    off = sg.generate(chat(SWITCHED, "Sunny."), question, details=True)
    assert (off.thinking, off.text) == (None, "Sunny.")
    reply = sg.call(chat(SWITCHED, "So.\n</think>\n\n" + CALL), "Rome?", [weather], choice="required", thinking=True,
                    details=True)  # fmt: skip
    assert reply.calls
    assert "</think>" not in reply.prompt
    rows = sg.call(chat(SWITCHED, "So.\n</think>\n\nYes.", "No."), ["a", "b"], [weather], thinking=[True, False],
                   details=True)  # fmt: skip
    assert [row.answer for row in rows] == ["Yes.", "No."]
    with pytest.raises(OptionError, match=r"thinking=True: .* template_options=\{'enable_thinking': False\}"):
        sg.call(model, "Rome?", [weather], thinking=True, template_options={"enable_thinking": False})
    with pytest.raises(
        OptionError, match=r"thinking=True: the chat template closes .*'</think>'.* none of its options"
    ):
        sg.generate(chat(CLOSES, "x"), question, thinking=True)
    for options in ({"beams": 2}, {"sampling": sg.Sampling(exact=True, temperature=1.0)}):
        with pytest.raises(OptionError, match=r"thinking|thoughts"):
            sg.generate(chat(OPENS, "x"), question, list[int], **options)


ON = cases("chat/thoughts", "ON", globals())
"""Real templates: how their prompts leave a thought, and the options that switch it on and off."""


@pytest.mark.skipif(not templates(), reason="no chat templates")
def test_the_switches_of_real_templates():
    for name, (_, on, off) in ON.items():
        tokenizer = chat_tokenizer("hermes")
        tokenizer.chat_template = templates()[name]
        vocabulary = Vocabulary.from_tokenizer(tokenizer)
        assert thought_options(tokenizer, vocabulary, True) == on, name
        assert thought_options(tokenizer, vocabulary, False) == off, name
        assert thought_options(tokenizer, vocabulary, None, {"a": 1}) == {"a": 1}


def test_the_state_of_a_prompt():
    think, harmony = Tags("<think>\n", "\n</think>\n\n"), Tags("<|channel|>a<|message|>", "<|end|><|start|>assistant")
    assert state_of("<bot>\n<think>\n", think) == "open"
    assert state_of("<bot></think>", think) == state_of("<bot><think>\n\n</think>\n\n", think) == "closed"
    assert state_of("<bot>", think) is None
    assert state_of("<|end|><|start|>assistant", harmony) is None
    assert state_of("<|channel|>a<|message|>hm<|end|><|start|>assistant", harmony) == "closed"


def test_a_run_shows_the_thought_of_a_turn_to_the_next():
    model = scripted_chat(f"I must look.\n</think>\n\n{CALL}", "I know.\n</think>\n\nSunny.")
    model.tokenizer.chat_template = OPENS.replace("FIELD", "reasoning_content")
    done = sg.run(model, "Rome?", [weather], details=True)
    assert done.answer == "Sunny."
    assert "<think>\nI must look.\n</think>\n\n<tool_call>" in done.replies[1].prompt
    assert [message.get("reasoning_content") for message in done.messages] == [
        None,
        "I must look.",
        None,
        "I know.",
    ]


@pytest.mark.parametrize("field", ["reasoning", "thinking", "content"])
def test_a_thought_in_a_history_is_written_where_the_template_reads_it(field):
    """Whatever form it is given in: a field by any of its names, or a part of the content."""
    source = PLAIN.replace("FIELD", field)
    if field == "content":
        block = "{% if b.type == 'thinking' %}[THINK]{{ b.thinking }}[/THINK]{% else %}{{ b.text }}{% endif %}"
        source = PLAIN.replace("FIELD", "no").replace(
            "{{ m.content }}", "{% if m.content is string %}{{ m.content }}{% else %}{% for b in m.content %}"
            + block + "{% endfor %}{% endif %}",
        )  # fmt: skip
    tokenizer = chat_tokenizer("hermes")
    tokenizer.chat_template = source
    wanted = "[THINK]Hm.[/THINK]Sunny." if field == "content" else "<think>\nHm.\n</think>\n\nSunny."
    for message in (
        turn_message((), "Sunny.", "Hm."),
        {"role": "assistant", "content": "Sunny.", "reasoning": "Hm."},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Sunny."}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
                                          {"type": "text", "text": "Sunny."}]},
    ):  # fmt: skip
        text = tokenizer.decode(prompt_ids(tokenizer, [{"role": "user", "content": "?"}, message]))
        assert wanted in text


MODES: dict[str, dict[str, Any]] = cases("chat/thoughts", "MODES")
PAIRS = [
    ("Qwen3.5-4B", "required"), ("deepseek-ai-DeepSeek-V3.1", "required thinking"), ("Qwen-Qwen3-0.6B", "none"),
    ("GLM-4.7-Flash", "default"), ("openai-gpt-oss-120b", "thinking"), ("Kimi-K2-Thinking", "off"),
]  # fmt: skip
UNFIT = ("Kimi-K3", "CohereForAI-c4ai-command-r7b-12-2024-tool_use", "llama-cpp-deepseek-r1", "Devstral", "MiniMax-M2")
"""Templates that this model cannot play: prompts beyond its context, end tokens of another form, and Kimi K3's, whose
tag behind a thought begins like others."""


def thinkers() -> list[Any]:
    """Each template with tags of thinking in each mode; a few of them for every change."""
    names = [name for name, source in templates().items() if "think" in source and not any(n in name for n in UNFIT)]
    slow = [pytest.param(*pair, marks=pytest.mark.slow) for pair in product(names, MODES) if pair not in PAIRS]
    return [*(PAIRS if templates() else ()), *slow]


@pytest.mark.parametrize(("name", "mode"), thinkers())
def test_no_thought_is_in_an_answer_and_no_call_in_a_thought(name, mode):
    """A model that writes a call and its template's tags within its thought."""
    try:
        tokenizer = real_tokenizer(name)
    except OptionError:
        pytest.skip("no call format")
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    format_ = call_format(tokenizer, vocabulary)
    if format_.thinking is None:
        pytest.skip("no tags of thinking")
    template, options = TokenizerTemplate(tokenizer), MODES[mode]
    switched = thought_options(tokenizer, vocabulary, options.get("thinking"))
    end = template.render([{"role": "user", "content": "Rome?"}], [weather.declaration], prompt=True, **switched)
    state = state_of(end.rpartition("Rome?")[2], format_.thinking)
    thinks = state == "open" or (options.get("thinking") is True and state is None)
    call = format_.render([WrittenCall("weather", {"city": "Rome"}, format_.id_of("weather", 0) or "abcdefgh1")])
    answer = format_.content.opening + "Sunny." + format_.content.closing
    said = {"none": f"{call.strip()} {answer}"}.get(mode, call if "required" in mode else answer)
    said = (f"Hm. {call.strip()}?" + format_.thinking.closing if thinks else "") + said
    tokens = [vocabulary.token(i) or None for i in range(vocabulary.width)]
    for special, token in vocabulary.special_names.items():
        tokens[token] = None if token in vocabulary.end_ids else special.encode()
    model = Model(ScriptedModel(said, Vocabulary.from_tokens(tokens, vocabulary.end_ids)), tokenizer, vocabulary)
    reply = sg.call(model, "Rome?", [weather], details=True, limits=sg.Limits(300), **options)
    assert ("Hm." in (reply.generation.thinking or "")) == thinks
    assert "Hm." not in reply.text
    assert [each.arguments for each in reply.calls] == ([{"city": "Rome"}] if "required" in mode else [])
    if mode != "none" and not reply.calls:
        assert TAG.sub("", reply.answer).strip() == "Sunny."  # an end token that this tokenizer lacks is text
