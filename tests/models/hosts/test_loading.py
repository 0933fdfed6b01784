"""Models that other engines run, by every way to a model: the command line, the server, jobs over many inputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import structgen as sg
from structgen.cli import app
from structgen.demo import load_demo
from structgen.demo.tasks import Person
from structgen.server import Settings
from tests.support.serving import served

pytestmark = pytest.mark.slow

PROMPT = "Extract the person: name, age, city.\nText: Ada Moreau, 36, lives in Lyon.\nJSON: "
ADA = Person(name="Ada Moreau", age=36, city="Lyon")
SCHEMA = "structgen.demo.tasks:Person"


@pytest.fixture(scope="module", params=["gguf", "onnx"])
def path(request, tmp_path_factory) -> Path:
    """The demo model, with its chat template."""
    folder, (model, tokenizer) = tmp_path_factory.mktemp(request.param), load_demo()
    if request.param == "onnx":
        pytest.importorskip("onnxruntime_genai", reason="needs the extra onnxruntime-genai")
        pytest.importorskip("onnx_ir", reason="needs the packages of its model builder")
        from tests.support.onnx_folders import write_onnx_folder

        return write_onnx_folder(folder, model, tokenizer)
    pytest.importorskip("llama_cpp", reason="needs the extra llama-cpp")
    pytest.importorskip("gguf", reason="needs the package gguf, to write a file")
    from tests.support.gguf_files import write_gguf

    return write_gguf(folder / "demo.gguf", model, tokenizer, tokenizer.chat_template)


def as_wanted(path: Path, value: Person) -> bool:
    """Is it what the model says? llama.cpp does not know the demo's rules for splitting words, so that it reads others.

    The value is valid in any case.
    """
    return value == ADA or path.suffix == ".gguf"


def run(*arguments) -> list[str]:
    """The lines that a command prints."""
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def test_commands(path, tmp_path):
    (line,) = run("generate", path, PROMPT, "--schema", SCHEMA)
    assert as_wanted(path, Person.model_validate_json(line))
    found = {each["part"]: each for each in map(json.loads, run("doctor", path, SCHEMA, "--json"))}
    assert found["a value"]["state"] == "fine"
    assert found["cache"]["told"] == "a context of 512 tokens"
    (line,) = run("bench", path, SCHEMA, "--count", 2, "--max-new-tokens", 60)
    assert json.loads(line)["failed"] == 0
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a.txt").write_text(
        "Extract the person: name, age, city.\nText: Tom Berg, 51, Oslo.\nJSON: "
    )
    out = tmp_path / "out.jsonl"
    run("extract", path, tmp_path / "letters", "--schema", SCHEMA, "--out", out)
    (line,) = out.read_text().splitlines()
    Person.model_validate(json.loads(line)["value"])


def test_the_call_format_of_a_file_is_told(path):
    result = CliRunner().invoke(app, ["doctor", str(path)])
    assert result.exit_code == 0, result.output
    assert '[{"tool": "{name}", "arguments": {arguments}}]' in result.stdout


def test_the_server(path):
    messages = [{"role": "user", "content": PROMPT}]
    with served(sg.load(path), Settings(name="m", rows=4)) as server:
        options = {"model": "m", "messages": messages, "temperature": 0}
        parsed = server.client.chat.completions.parse(response_format=Person, **options)
        assert as_wanted(path, parsed.choices[0].message.parsed)
        several = server.client.chat.completions.create(
            n=6, seed=1, logprobs=True, top_logprobs=2, max_tokens=12, **{**options, "temperature": 4.0}
        )
        assert len({choice.message.content for choice in several.choices}) > 1
        assert all(choice.logprobs.content for choice in several.choices)
        with server.client.responses.stream(model="m", input=PROMPT, text_format=Person, temperature=0) as stream:
            assert as_wanted(path, stream.get_final_response().output_parsed)
        server.await_idle()
        assert len(server.engine.model.module.free) == server.engine.model.module.places
