"""The bundled model: what ships, how it loads, what it can do."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from rich.console import Console

import structgen
from structgen.demo import load_demo
from structgen.demo.show import complaint_about, first_value, show, write_freely
from structgen.demo.tasks import TASKS, Person
from structgen.models.known import PACKAGED, Packaged
from tests.support.tables import cases

FOLDER = Path(structgen.__file__).parent / "demo" / "model"
MAX_BYTES = 8_000_000


@pytest.fixture(scope="module")
def demo() -> tuple[Any, Any]:
    """The bundled model and its tokenizer."""
    return load_demo()


def test_the_files_are_those_of_a_plain_checkpoint_and_small() -> None:
    """Everything `from_pretrained` needs is in the package, in at most 8 MB."""
    names = {path.name for path in FOLDER.iterdir()}
    wanted = {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert wanted <= names
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= MAX_BYTES


def test_a_word_has_the_same_tokens_wherever_it_stands(demo: tuple[Any, Any]) -> None:
    """What lets a tiny model copy: a value is cut alike in the text and in the answer."""
    _, tokenizer = demo
    word = tokenizer.encode("Kowalczyk", add_special_tokens=False)
    for text in ('"Kowalczyk"', "by Kowalczyk, 34", "(Kowalczyk)"):
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert any(ids[at : at + len(word)] == word for at in range(len(ids)))


def test_a_prompt_starts_with_the_beginning_token(demo: tuple[Any, Any]) -> None:
    """The tokenizer adds it, as it was in training; chat messages give the same prompt."""
    _, tokenizer = demo
    prompt = TASKS["person"].prompt("Ada, 36, lives in Rome.")
    ids = tokenizer(prompt)["input_ids"]
    assert ids[0] == tokenizer.bos_token_id
    messages = [{"role": "user", "content": prompt.removesuffix("\nJSON: ")}]
    assert tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False) == ids


def test_it_extracts_a_typed_object(demo: tuple[Any, Any]) -> None:
    """The main job on the bundled model, with a name that no word list of the corpus has."""
    model, tokenizer = demo
    prompt = TASKS["person"].prompt("Marta Kessler, 36, lives in London.")
    person = structgen.generate(model, prompt, Person, tokenizer=tokenizer)
    assert (type(person), person.age, person.city) == (Person, 36, "London")


def test_it_writes_json_by_itself(demo: tuple[Any, Any]) -> None:
    """Unconstrained, an easy sentence gives an object and the end token."""
    model, tokenizer = demo
    prompt = TASKS["review"].prompt("5 stars for the leather battery. It is wonderful. Worth buying.")
    assert write_freely(model, tokenizer, prompt).startswith('{"product": "')


class Pair(BaseModel):
    """A model for the verdicts below."""

    a: int
    b: str


@pytest.mark.parametrize(("text", "complaint"), cases("demo/model", "the_verdict_on_a"))
def test_the_verdict_on_a_text_says_what_is_wrong(text: str, complaint: str) -> None:
    """Malformed and mistyped texts are told apart, and a good one has no complaint."""
    found = complaint_about(text, Pair)
    assert found.startswith(complaint)
    assert bool(found) == bool(complaint)


def test_the_first_value_in_a_text_is_read_leniently() -> None:
    """As a caller would: behind other text, numbers as text; and it is said why there is none."""
    assert first_value('Sure! {x}\n```json\n{"a": "1", "b": "x"}``` {"a": 2}', Pair) == (Pair(a=1, b="x"), "")
    assert first_value('{"c": {"a": 1}}', Pair) == (None, "not a Pair: a: Field required")
    assert first_value('{"a": 1, "b": ', Pair) == (None, "no JSON object that ends")


@pytest.mark.slow
def test_the_demo_prints_every_sentence_with_both_readings(monkeypatch) -> None:
    """The body of `structgen demo` ends with all constrained values valid."""
    monkeypatch.setattr("structgen.demo.show.REAL", "missing")
    monkeypatch.setitem(PACKAGED, "missing", Packaged("no_such_package", "", ""))
    output = io.StringIO()
    show(Console(file=output, width=160))
    text = output.getvalue()
    assert "Person(" in text
    assert "constrained: 10 of 10 valid" in text
