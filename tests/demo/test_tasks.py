"""The tasks of the demo model, and the corpus that it learned them from."""

from __future__ import annotations

import json
import random
from typing import Literal

import pytest

import structgen as sg
from structgen.chat import call_format
from structgen.chat.call_format import WrittenCall
from structgen.demo import load_demo
from structgen.demo.tasks import TASKS
from training.calls import TOOLS, arguments_of, calls_example, schema_example, tools_prompt
from training.corpus import MAKERS, dumps, extraction_example, record_example, tool_example
from training.handwritten import SENTENCES
from training.words import WordSource, held_out


def test_a_prompt_names_the_task_and_its_fields_and_ends_where_the_json_starts() -> None:
    """The prompt is the plain text a user would write."""
    prompt = TASKS["person"].prompt("Ada Lovelace, 36, lives in London.")
    assert prompt == "Extract the person: name, age, city.\nText: Ada Lovelace, 36, lives in London.\nJSON: "


@pytest.mark.parametrize("task", MAKERS)
def test_every_answer_of_the_corpus_is_a_value_of_its_model(task: str) -> None:
    """What the model is taught is valid, ordered as its fields, asked with `Task.prompt`'s words."""
    words = WordSource(random.Random(3))
    opening = TASKS[task].prompt("").split("\n")[0]
    for _ in range(100):
        example = extraction_example(words, task, full=True)
        value = TASKS[task].model.model_validate_json(example.answer, strict=True)
        assert dumps(value.model_dump()) == example.answer
        assert example.prompt.startswith(opening)


def test_every_tool_call_of_the_corpus_is_a_value_of_its_model() -> None:
    """The same for the union of tools, which has no fields of its own."""
    words, tools = WordSource(random.Random(4)), set()
    for _ in range(200):
        example = tool_example(words, full=True)
        value = TASKS["tool"].model.model_validate_json(example.answer, strict=True)
        assert dumps(value.model_dump()) == example.answer
        tools.add(json.loads(example.answer)["tool"])
    assert tools == set(TASKS["tool"].fields)


@pytest.mark.parametrize("heldout", [False, True])
def test_a_world_draws_only_its_own_values(heldout: bool) -> None:
    """No held-out name, city or date can occur in a training text, and the other way round."""
    words = WordSource(random.Random(5), heldout=heldout)
    drawn = [make() for make in (words.first, words.last, words.city, words.date, words.book) for _ in range(50)]
    assert {held_out(value) for value in drawn} == {heldout}


def test_a_seed_fixes_the_corpus() -> None:
    """Two runs with one seed see the same examples; another seed gives others."""
    first, again, other = (
        [record_example(WordSource(random.Random(seed))).prompt for _ in range(3)] for seed in (1, 1, 2)
    )
    assert first == again != other


@pytest.mark.parametrize(("task", "text", "value"), SENTENCES)
def test_the_handwritten_answers_are_values_of_their_models(task: str, text: str, value: dict[str, object]) -> None:
    """The evaluation's gold values are valid themselves."""
    assert TASKS[task].model.model_validate(value, strict=True).model_dump() == value


def test_prompts_with_tools_are_those_of_the_chat_template() -> None:
    """What the second stage is taught is what the shipped template renders, and its calls are read back."""
    _, tokenizer = load_demo()
    declared = [
        {"type": "function", "function": {"name": name, "parameters": each.model_json_schema()}}
        for name, each in TOOLS.items()
    ]
    offered = {name: list(each.model_fields) for name, each in TOOLS.items()}
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi."}], tools=declared, add_generation_prompt=True, tokenize=False
    )
    assert prompt == tokenizer.bos_token + tools_prompt(offered, "Hi.")
    format_, words = call_format(tokenizer), WordSource(random.Random(5))
    for _ in range(50):
        calls = calls_example(words)
        if calls.task == "calls":
            written = [WrittenCall(*call) for call in arguments_of(calls.answer)]
            assert format_.render(written) == calls.answer
            assert calls.prompt.startswith("Call tools: ")


def test_a_prompt_that_shows_the_schema_is_that_of_prompt_schema() -> None:
    """As text and as chat, with the trained words and with the bare text."""
    words = WordSource(random.Random(6))
    prompts = [schema_example(words).prompt for _ in range(40)]
    assert all("\n\nAnswer with JSON of this form:\n{" in prompt for prompt in prompts)
    assert {prompt.endswith("\nJSON: ") for prompt in prompts} == {True, False}
    assert {prompt.startswith("Extract the") for prompt in prompts} == {True, False}


def test_the_demo_model_calls_two_tools_and_repeats_their_results() -> None:
    """The whole loop on the shipped weights: two calls in one turn, then an answer."""

    @sg.tool
    def get_weather(city: str, unit: Literal["celsius", "fahrenheit"]) -> str:
        """The weather in a city."""
        return f"{city}: sunny, 21"

    @sg.tool
    def set_alarm(time: str, label: str) -> str:
        """Sets an alarm."""
        return f"alarm at {time}"

    asked = "What is the weather in Oslo in celsius? Also: wake me at 07:30, label it water the plants."
    done = sg.run(sg.Model.of(*load_demo()), asked, [get_weather, set_alarm], details=True)
    results = [message["content"] for message in done.messages if message["role"] == "tool"]
    assert results == ["Oslo: sunny, 21", "alarm at 07:30"]
    assert "Oslo: sunny, 21" in done.answer
