"""The constraint for loops over onnxruntime-genai's generator, against our own loop on the same weights.

Covers `followed_rows`, with the tests of the transformers integration.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import structgen as sg
from structgen.demo import load_demo
from structgen.demo.tasks import Person
from structgen.integrations.onnxruntime_genai import GeneratorConstraint
from tests.support.onnx_folders import write_onnx_folder

og = pytest.importorskip("onnxruntime_genai", reason="needs the extra onnxruntime-genai")
pytest.importorskip("onnx_ir", reason="needs the packages of its model builder")
pytestmark = pytest.mark.slow

PROMPT = "Extract the person: name, age, city.\nText: {}\nJSON: "


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return write_onnx_folder(tmp_path_factory.mktemp("onnx"), *load_demo())


@pytest.fixture(scope="module")
def model(folder):
    return og.Model(str(folder))


@pytest.fixture(scope="module")
def tokenizer():
    return load_demo()[1]


def generator_of(model, prompts: list[list[int]], **options):
    params = og.GeneratorParams(model)
    params.set_search_options(batch_size=len(prompts), max_length=160, **options)
    generator = og.Generator(model, params)
    longest = max(map(len, prompts))
    generator.append_tokens(np.array([[1] * (longest - len(ids)) + ids for ids in prompts], np.int32))
    return generator, longest


def texts_of(generator, start: int, rows: int, tokenizer) -> list[str]:
    return [tokenizer.decode(generator.get_sequence(row)[start:], skip_special_tokens=True) for row in range(rows)]


def test_a_loop_with_the_constraint_says_what_ours_says(folder, model, tokenizer):
    ids = tokenizer.encode(PROMPT.format("Ada Moreau, 36, lives in Lyon."))
    generator, start = generator_of(model, [ids])
    constraint = GeneratorConstraint(Person, folder)
    while not generator.is_done():
        constraint.apply(generator)
        generator.generate_next_token()
    run = sg.generate(load_demo()[0], ids, Person, tokenizer=tokenizer, fast_forward=False, details=True)
    assert texts_of(generator, start, 1, tokenizer) == [run.text]
    assert run.value == Person(name="Ada Moreau", age=36, city="Lyon")


@pytest.mark.parametrize(
    "options", [{}, {"do_sample": True, "temperature": 1.5, "top_k": 0}], ids=["greedy", "sampled"]
)
def test_rows_of_a_batch_have_schemas_of_their_own_and_end_by_themselves(folder, model, tokenizer, options):
    texts = "Ada Moreau, 36, lives in Lyon.", "Tom Berg is 51 years old, and he lives in Oslo."
    generator, start = generator_of(model, [tokenizer.encode(PROMPT.format(text)) for text in texts], **options)
    choice = sg.Choice(["yes", "no"])
    constraint = GeneratorConstraint([Person, choice], folder)
    while not generator.is_done():
        constraint.apply(generator)
        generator.generate_next_token()
    first, second = texts_of(generator, start, 2, tokenizer)
    Person.model_validate_json(first)
    assert second in ("yes", "no")


def test_a_row_that_was_rewound_is_followed(folder, model, tokenizer):
    generator, start = generator_of(model, [tokenizer.encode("a word: ")])
    letters = sg.Regex("[a-d]{12}")
    constraint = GeneratorConstraint(letters, folder)

    def to_the_end() -> list[int]:
        while not generator.is_done():
            constraint.apply(generator)
            generator.generate_next_token()
        return generator.get_sequence(0)[start:].tolist()

    first, second = to_the_end()[:2]
    matcher = letters.compile(sg.Vocabulary.from_tokenizer(tokenizer, width=2048)).matcher()
    matcher.advance(first)
    other = next(token for token in matcher.allowed_tokens() if token != second)
    generator.rewind_to(start + 1)
    generator.append_tokens(np.array([other], np.int32))
    assert to_the_end()[:2] == [first, other]
    assert re.fullmatch("[a-d]{12}", texts_of(generator, start, 1, tokenizer)[0])


def test_beams_are_refused_and_so_is_another_number_of_schemas(folder, model, tokenizer):
    generator, _ = generator_of(model, [tokenizer.encode("a")], num_beams=3)
    with pytest.raises(
        sg.OptionError, match="1 schemas for 3 rows of the generator: expected one for each row, and no"
    ):
        GeneratorConstraint(Person, folder).apply(generator)
