"""The tasks of the demo model, and the corpus that it learned them from."""

from __future__ import annotations

import json
import random

import pytest

from structgen.demo.tasks import TASKS
from training.corpus import MAKERS, dumps, extraction_example, record_example, tool_example
from training.handwritten import SENTENCES
from training.words import Words, held_out


def test_a_prompt_names_the_task_and_its_fields_and_ends_where_the_json_starts() -> None:
    """The prompt is the plain text a user would write."""
    prompt = TASKS["person"].prompt("Ada Lovelace, 36, lives in London.")
    assert prompt == "Extract the person: name, age, city.\nText: Ada Lovelace, 36, lives in London.\nJSON: "


@pytest.mark.parametrize("task", MAKERS)
def test_every_answer_of_the_corpus_is_a_value_of_its_model(task: str) -> None:
    """What the model is taught is valid, ordered as its fields, asked with `Task.prompt`'s words."""
    words = Words(random.Random(3))
    opening = TASKS[task].prompt("").split("\n")[0]
    for _ in range(100):
        example = extraction_example(words, task, full=True)
        value = TASKS[task].model.model_validate_json(example.answer, strict=True)
        assert dumps(value.model_dump()) == example.answer
        assert example.prompt.startswith(opening)


def test_every_tool_call_of_the_corpus_is_a_value_of_its_model() -> None:
    """The same for the union of tools, which has no fields of its own."""
    words, tools = Words(random.Random(4)), set()
    for _ in range(200):
        example = tool_example(words, full=True)
        value = TASKS["tool"].model.model_validate_json(example.answer, strict=True)
        assert dumps(value.model_dump()) == example.answer
        tools.add(json.loads(example.answer)["tool"])
    assert tools == set(TASKS["tool"].fields)


@pytest.mark.parametrize("heldout", [False, True])
def test_a_world_draws_only_its_own_values(heldout: bool) -> None:
    """No held-out name, city or date can occur in a training text, and the other way round."""
    words = Words(random.Random(5), heldout=heldout)
    drawn = [make() for make in (words.first, words.last, words.city, words.date, words.book) for _ in range(50)]
    assert {held_out(value) for value in drawn} == {heldout}


def test_a_seed_fixes_the_corpus() -> None:
    """Two runs with one seed see the same examples; another seed gives others."""
    first, again, other = ([record_example(Words(random.Random(seed))).prompt for _ in range(3)] for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize(("task", "text", "value"), SENTENCES)
def test_the_handwritten_answers_are_values_of_their_models(task: str, text: str, value: dict[str, object]) -> None:
    """The evaluation's gold values are valid themselves."""
    assert TASKS[task].model.model_validate(value, strict=True).model_dump() == value
