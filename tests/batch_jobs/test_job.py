"""Jobs: inputs of every kind, results on disk, failures set aside, jobs that go on.

Covers `inputs`.
"""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time

import pyarrow
import pytest
from pyarrow import parquet

import structgen as sg
from structgen.batch_jobs import read_inputs
from structgen.demo import load_demo
from structgen.demo.tasks import Person
from structgen.errors import OptionError, UnsatisfiableSchema
from structgen.testing import scripted

PROMPT = "Extract the person: name, age, city.\nText: {text}\nJSON: "
PEOPLE = {"Ada Moreau": 36, "Tom Berg": 51, "Nadia Petrova": 28, "Marta Kowalczyk": 44, "Ravi Menon": 63}
TEXTS = [f"{name}, {age}, lives in Lyon." for name, age in PEOPLE.items()]


@pytest.fixture(scope="module")
def model():
    return sg.Model.of(*load_demo())


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_many_texts_give_what_generate_gives_in_their_order(model):
    job = sg.extract_many(model, TEXTS, Person, prompt=PROMPT, batch_size=2)
    expected = sg.generate(model, [PROMPT.format(text=text) for text in TEXTS], Person)
    assert [entry["id"] for entry in job.results] == ["1", "2", "3", "4", "5"]
    assert [Person(**entry["value"]) for entry in job.results] == expected
    assert {entry["finish"] for entry in job.results} == {"complete"}
    assert (job.done, job.failed, job.skipped) == (5, 0, 0)
    assert job.tokens > 50 < 1e6 * job.seconds


def test_inputs_that_fail_are_set_aside(model, tmp_path):
    rows = [
        {"id": "a", "text": TEXTS[0]},
        {"id": "b"},
        {"id": "c", "text": "x" * 9000},
        {"id": "d", "text": TEXTS[1]},
        5,
    ]
    out = tmp_path / "deep" / "people.jsonl"
    job = sg.extract_many(model, rows, Person, prompt=PROMPT, out=out)
    assert (job.done, job.failed, job.results) == (2, 3, [])
    assert sorted(entry["id"] for entry in lines(out)) == ["a", "d"]
    failed = {entry["id"]: entry["error"] for entry in lines(tmp_path / "deep" / "people.errors.jsonl")}
    assert failed.keys() == {"b", "c", "5"}
    assert {error["type"] for error in failed.values()} == {"OptionError"}
    assert "'text'" in failed["b"]["message"]


def test_a_job_goes_on_where_it_was_ended(model, tmp_path):
    out = tmp_path / "people.jsonl"
    sg.extract_many(model, TEXTS[:2], Person, prompt=PROMPT, out=out)
    with pytest.raises(OptionError, match="resume=True"):
        sg.extract_many(model, TEXTS, Person, prompt=PROMPT, out=out)
    whole = out.read_bytes()
    out.write_bytes(whole[:-9])  # as a process leaves it that was killed while it wrote
    out.with_suffix(".errors.jsonl").write_text('{"id": "1", "error": {}}\n')
    job = sg.extract_many(model, TEXTS, Person, prompt=PROMPT, out=out, resume=True)
    assert (job.done, job.failed, job.skipped) == (4, 0, 1)
    assert {entry["id"]: entry["value"]["age"] for entry in lines(out)} == dict(
        zip("12345", PEOPLE.values(), strict=True)
    )
    assert not out.with_suffix(".errors.jsonl").exists()
    assert sg.extract_many(model, TEXTS, Person, prompt=PROMPT, out=out, resume=True).skipped == 5
    out.write_text("{}\n")
    with pytest.raises(OptionError, match="no result"):
        sg.extract_many(model, TEXTS, Person, prompt=PROMPT, out=out, resume=True)


def test_every_kind_of_input(tmp_path):
    folder = tmp_path / "letters"
    (folder / "old").mkdir(parents=True)
    (folder / "b.txt").write_text("two")
    (folder / "old" / "a.txt").write_text("one")
    (folder / ".hidden").write_text("no")
    (folder / "c.bin").write_bytes(b"\xff\xfe\xff")
    found = list(read_inputs(folder))
    assert [(row.id, row.fields.get("text")) for row in found] == [
        ("b.txt", "two"),
        ("c.bin", None),
        ("old/a.txt", "one"),
    ]
    assert "UnicodeDecodeError" in found[1].error
    rows = [{"id": "x", "text": "one", "n": 1}, {"id": "y", "text": "two", "n": 2}]
    with (tmp_path / "r.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["id", "text", "n"])
        writer.writeheader()
        writer.writerows(rows)
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "r.parquet")
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, rows)) + '\n\n{"id": \n"three"\n')
    (tmp_path / "r.tsv").write_text("text\tn\none\t1\n")
    for name in ("r.csv", "r.parquet", "r.jsonl"):
        first, second, *others = read_inputs(tmp_path / name)
        assert (first.id, second.id) == ("x", "y")
        assert first.prompt("{text}/{n}") == "one/1"
        if name == "r.jsonl":
            assert [(row.id, row.fields.get("text"), row.error[:18]) for row in others] == [
                ("4", None, "line 4 is not JSON"),
                ("5", "three", ""),
            ]
        else:
            assert others == []
    assert [row.fields for row in read_inputs(str(tmp_path / "r.tsv"))] == [{"text": "one", "n": "1"}]
    assert [row.fields["text"] for row in read_inputs(folder / "b.txt")] == ["two"]
    messages = [{"role": "user", "content": "x"}]
    given = list(read_inputs(iter(["a", messages, [1, 2]])))
    assert [row.prompt(None) for row in given] == ["a", messages, [1, 2]]
    for wrong in (tmp_path / "no", 5, {"a": 1}):
        with pytest.raises(OptionError, match="inputs"):
            list(read_inputs(wrong))
    with pytest.raises(OptionError, match="two have the id"):
        list(read_inputs([{"id": "1"}, {"id": 1}]))


def test_what_can_work_for_no_input_is_raised(model, tmp_path):
    for options, error in (
        ({"schema": {"type": "string", "minLength": 3, "maxLength": 2}}, UnsatisfiableSchema),
        ({"temperature": 1}, OptionError),
        ({"beams": 2}, OptionError),
        ({"prompt": 5}, OptionError),
        ({"progress": "yes"}, OptionError),
    ):
        with pytest.raises(error):
            sg.extract_many(model, TEXTS, out=tmp_path / "o.jsonl", **options)
    assert list(tmp_path.iterdir()) == []


def test_a_prompt_without_a_field_and_a_table_for_lines_of_json_are_refused(tmp_path):
    """The first would be the same for every input. A file of lines is no table, whatever its name says."""
    with pytest.raises(OptionError, match="expected a text with names of fields in braces"):
        sg.extract_many(scripted('"yes"'), ["a"], {"type": "string"}, prompt="Who?")
    with pytest.raises(OptionError, match=r"people.csv': expected a name that ends in .jsonl"):
        sg.extract_many(scripted('"yes"'), ["a"], {"type": "string"}, out=tmp_path / "people.csv")


def test_prompts_are_made_by_functions_templates_and_chat():
    model = scripted('"yes"')
    job = sg.extract_many(model, [{"a": 1}, {"a": 0}], {"type": "string"}, prompt=lambda row: f"{1 // row['a']}")
    assert [entry.get("value") for entry in job.results] == ["yes", None]
    assert job.results[1]["error"]["type"] == "CallbackError"
    for options in (
        {"chat": True},
        {"prompt_schema": True},
        {"chat": True, "prompt_schema": True},
        {"thinking": False},
    ):
        assert sg.extract_many(model, ["a"], {"type": "string"}, **options).done == 1


def test_a_bar_is_shown_on_the_standard_error(model, capsys):
    sg.extract_many(model, TEXTS[:1], Person, prompt=PROMPT, progress=True)
    out, err = capsys.readouterr()
    assert (out, "1 done, 0 failed" in err) == ("", True)


CODE = """
import sys, structgen as sg
from structgen.demo import load_demo
from structgen.demo.tasks import Person
texts = [f"Ada Moreau, {20 + i % 70}, lives in Lyon." for i in range(300)]
prompt = "Extract the person: name, age, city.\\nText: {text}\\nJSON: "
model, options = sg.Model.of(*load_demo()), {"out": sys.argv[1], "resume": True, "batch_size": 8}
print(sg.extract_many(model, texts, Person, prompt=prompt, **options))
"""


@pytest.mark.slow
def test_a_job_that_is_killed_again_and_again_loses_nothing_and_does_nothing_twice(tmp_path):
    out, command = tmp_path / "o.jsonl", [sys.executable, "-c", CODE]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    sizes = []
    for _ in range(3):
        with subprocess.Popen([*command, str(out)], env=environment, stdout=subprocess.PIPE) as process:
            until, before = time.monotonic() + 60, out.stat().st_size if out.exists() else 0
            while process.poll() is None and not (out.exists() and out.stat().st_size > before + 2000):
                assert time.monotonic() < until
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
        sizes.append(out.stat().st_size)
    assert sizes == sorted(sizes)
    last = subprocess.run([*command, str(out)], env=environment, capture_output=True, text=True, check=True)
    assert "skipped=0" not in last.stdout
    assert sorted(int(entry["id"]) for entry in lines(out)) == list(range(1, 301))
