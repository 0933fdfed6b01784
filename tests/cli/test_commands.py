"""`check`, `doctor MODEL SCHEMA`, `bench` and `generate --json`.

Covers `checking` and `doctor`.
"""

from __future__ import annotations

import gzip
import json
import time

import pytest
from typer.testing import CliRunner

from structgen.cli import app

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 2}, "mail": {"type": "string", "format": "email"}},
    "required": ["name"],
}


def run(*arguments, **options):
    return CliRunner().invoke(app, list(map(str, arguments)), **options)


@pytest.fixture
def schema(tmp_path):
    path = tmp_path / "person.json"
    path.write_text(json.dumps(PERSON))
    return path


def test_check_says_of_each_document_whether_it_is_valid(schema, tmp_path):
    whole, lines = tmp_path / "a.json", tmp_path / "b.jsonl"
    whole.write_text('{"name": "Ada"}')
    lines.write_text('{"name": "Ada"}\n\n{"name": "A"}\n{"name"\n{"name": "Ada", "mail": "x"}\n')
    assert (run("check", schema, whole).exit_code, run("check", schema).stdout) == (0, f"{schema}: a schema\n")
    result = run("check", schema, whole, lines, "--json")
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 2
    assert [(each["line"], bool(each["error"]), each["pointer"]) for each in found] == [
        (0, False, ""), (1, False, ""), (3, True, "/name"), (4, True, ""), (5, True, "/mail"),
    ]  # fmt: skip
    shown = run("check", schema, lines).stdout.splitlines()
    assert shown[0] == f"{lines}:1: valid"
    assert '/name: found "A"; minLength is 2' in shown[1]


def test_check_reads_types_and_the_standard_input():
    result = run(
        "check", "structgen.demo.tasks:Person", "-", input='{"name": "A", "age": 1, "city": "B"}\n{"age": "x"}\n'
    )
    assert (result.exit_code, [line.split(": ")[1] for line in result.stdout.splitlines()]) == (2, ["valid", "/name"])


def test_check_judges_what_extract_writes_in_any_encoding(schema, tmp_path):
    """Of a line of results its value; a broken file is one document that is wrong."""
    entries = [{"id": "1", "value": {"name": name}, "finish": "complete"} for name in ("Ada", "A")]
    text = "".join(json.dumps({**entry, "input": {"name": 1}}) + "\n" for entry in entries)
    files = {
        "a.jsonl": text.encode("utf-8-sig"), "b.jsonl": text.encode("utf-16"),
        "c.jsonl.gz": gzip.compress(text.encode()), "d.json": b'\xef\xbb\xbf{"name": "Ada"}', "e.json": b"",
        "f.jsonl": b"\n \n", "g.jsonl": b'"caf\xe9"\n', "h.json": b"\xe9",
    }  # fmt: skip
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    result = run("check", schema, *(tmp_path / name for name in files), "--json")
    found = [json.loads(line) for line in result.stdout.splitlines()]
    names = [each["file"].rpartition("/")[2][:1] for each in found]
    assert (result.exit_code, "".join(names)) == (2, "aabbccdefgh")
    assert [each["pointer"] for each in found[:6]] == ["", "/value/name"] * 3
    assert [bool(each["error"]) for each in found] == [False, True] * 3 + [False, True, True, True, True]
    assert {each["encoding"] for each in found} == {"utf-8", "utf-16"}
    shown = run("check", schema, tmp_path / "b.jsonl").stdout
    assert f"{tmp_path / 'b.jsonl'}:1 (utf-16): valid" in shown
    assert run("check", schema, "-", input=b"").exit_code == 2


def test_check_refuses_what_is_no_schema(tmp_path):
    for text, told in (
        ('{"type": "nope"}', "SchemaError"),
        ('{"minLength": 3, "maxLength": 2, "type": "string"}', "Unsat"),
    ):
        path = tmp_path / "s.json"
        path.write_text(text)
        result = run("check", path)
        assert (result.exit_code, told in result.stderr) == (1, True)
    assert run("check", tmp_path / "s.json", tmp_path / "none.json").exit_code == 1


def test_doctor_examines_a_model_with_a_schema(schema, tmp_path):
    began = time.perf_counter()
    result = run("doctor", "demo", schema, "--json")
    assert time.perf_counter() - began < 30  # ten seconds on an idle machine
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 0
    told = {each["part"]: (each["state"], each["told"]) for each in found[::-1]}
    assert list(dict.fromkeys(each["part"] for each in found)) == [
        "tokenizer", "end tokens", "chat template", "tool format", "cache", "schema", "speed", "a value",
    ]  # fmt: skip
    assert told["cache"] == ("fine", "slots")
    assert told["tool format"][0] == "fine"
    assert "masked" in told["schema"][1]
    assert told["a value"][0] == "fine"
    odd = tmp_path / "odd.json"
    odd.write_text(json.dumps({"type": "string", "format": "colour"}))
    assert "note   schema: /format" in run("doctor", "demo", odd).stdout
    odd.write_text(json.dumps({"type": "string", "minLength": 2, "maxLength": 1}))
    bad = run("doctor", "demo", odd)
    assert (bad.exit_code, "fault  " in bad.stdout) == (1, True)
    assert run("doctor", "--json").exit_code == 2


def test_bench_prints_a_line():
    result = run(
        "bench", "demo", "structgen.demo.tasks:Person", "--count", 4, "--batch-size", 2, "--max-new-tokens", 60
    )
    found = json.loads(result.stdout)
    assert (found["values"], found["failed"]) == (4, 0)
    assert found["tokens_per_second"] > 0 < found["values_per_second"]


def test_generate_prints_all_that_is_known_as_a_line():
    prompt = "Extract the person: name, age, city.\nText: Ada Moreau, 36, lives in Lyon.\nJSON: "
    command = ["generate", "demo", prompt, "--schema", "structgen.demo.tasks:Person"]
    assert json.loads(run(*command).stdout) == {"name": "Ada Moreau", "age": 36, "city": "Lyon"}
    as_line = run(*command, "--json", "--max-new-tokens", 17)
    found = json.loads(as_line.stdout)
    assert (found["finish"], found["value"]["city"], found["caps"][0]["pointer"]) == ("closed_by_budget", "L", "/city")
    assert found["tokens"] > 5 < found["prompt_tokens"]
    cut = run(*command, "--max-new-tokens", 17)
    assert "cut short: /city by max_new_tokens=17" in cut.stderr
    assert cut.exit_code == as_line.exit_code == 3
    assert run("generate", "demo", prompt, "--max-new-tokens", 3).exit_code == 0  # the end of free text
