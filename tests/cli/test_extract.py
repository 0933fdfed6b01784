"""`structgen extract`: lines and tables, from files and from the standard input.

Covers `extracting`, `interrupts` and `parameters`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from typer.testing import CliRunner

import structgen as sg
from structgen.cli import app
from structgen.cli.interrupts import stopped_by_signals
from structgen.demo.tasks import Person

PEOPLE = ["Ada Moreau, 36, lives in Lyon.", "Tom Berg, 51, lives in Oslo."]
ASK = "Extract the person: name, age, city.\nText: {text}\nJSON: "
PERSON = ["--schema", "structgen.demo.tasks:Person"]


def run(*arguments, **options):
    return CliRunner().invoke(app, list(map(str, arguments)), **options)


def test_extract_writes_a_line_for_each_input(tmp_path):
    (tmp_path / "in").mkdir()
    for number, text in enumerate(PEOPLE):
        (tmp_path / "in" / f"{number}.txt").write_text(text)
    (tmp_path / "prompt.txt").write_text(ASK)
    out, inputs, ask = tmp_path / "out.jsonl", str(tmp_path / "in"), f"@{tmp_path / 'prompt.txt'}"
    command = ["extract", "demo", inputs, *PERSON, "--prompt", ask, "--out", str(out)]
    result = run(*command)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "2 done, 0 failed" in result.stderr
    found = {entry["id"]: entry["value"]["city"] for entry in map(json.loads, out.read_text().splitlines())}
    assert found == {"0.txt": "Lyon", "1.txt": "Oslo"}
    assert run(*command).exit_code == 1
    (tmp_path / "in" / "z.bin").write_bytes(b"\xff")
    again = run(*command, "--resume")
    assert (again.exit_code, "0 done, 1 failed, 2 from before" in again.stderr) == (2, True)
    assert "with another banned" in run(*command, "--resume", "--banned", "Lyon").stderr
    stopped = run(*command, "--resume", "--max-failures", 0)
    assert (stopped.exit_code, "--resume" in stopped.stderr) == (1, True)


def test_a_dry_run_shows_prompts_and_loads_nothing(tmp_path):
    (tmp_path / "in.jsonl").write_text('{"id": "a", "text": "one", "n": 1}\n{"text": null}\nno\n{"text": "four"}\n')
    result = run("extract", "no/such-model", tmp_path / "in.jsonl", *PERSON, "--prompt", "Of {text}:", "--dry-run")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[:4] == ["inputs: 4", "--- a: id (str), text (str), n (int)", "Of one:",
                                              "--- row 2: text (NoneType)"]  # fmt: skip
    assert "is null in this row" in result.stdout
    assert "four" not in result.stdout


def test_extract_reads_documents_in_windows(tmp_path):
    """The exit code says that a line was lost, also where an earlier run has lost it."""
    (tmp_path / "in.txt").write_text(f"{PEOPLE[0]}\nNobody of 3.\n")
    (tmp_path / "list.json").write_text(json.dumps({"type": "array", "items": Person.model_json_schema()}))
    schema = ["--schema", tmp_path / "list.json", "--prompt", ASK]
    result = run("extract", "demo", tmp_path / "in.txt", *schema, "--windows", 40, "--max-new-tokens", 60)
    assert result.exit_code == 3
    assert "Nobody of 3." in [each["text"] for each in json.loads(result.stdout)["unused"]]
    command = ["extract", "demo", tmp_path / "in.txt", *schema, "--windows", 40, "--max-new-tokens", 60]
    for further in ((), ("--resume",)):
        result = run(*command, "--out", tmp_path / "o.jsonl", *further)
        assert result.exit_code == 3
    assert "1 from before (1 cut short or not complete)" in result.stderr


def test_extract_makes_a_table(tmp_path):
    (tmp_path / "in.csv").write_text(
        "id,text,team\n" + "".join(f'{n},"{text}",{n % 2}\n' for n, text in enumerate(PEOPLE))
    )
    out = tmp_path / "out.csv"
    result = run("extract", "demo", tmp_path / "in.csv", *PERSON, "--prompt", ASK, "--out", out, "--keep", "team")
    assert (result.exit_code, out.read_text().splitlines()) == (0, [
        "id,team,name,age,city,finish", "0,0,Ada Moreau,36,Lyon,complete", "1,1,Tom Berg,51,Oslo,complete",
    ])  # fmt: skip


NO_LYON = sg.BannedWords(["Lyon"], scope="strings")


def test_extract_takes_guards_samples_and_columns(tmp_path):
    """And `check` judges what it has written."""
    (tmp_path / "in.txt").write_text(PEOPLE[0])
    out, name = tmp_path / "out.jsonl", "tests.cli.test_extract:NO_LYON"
    command = ["extract", "demo", tmp_path / "in.txt", *PERSON, "--prompt", ASK, "--out", out, "--guard", name]
    more = ["--several", 2, "--temperature", 1, "--seed", 0, "--column", "confidence", "--column", "truncated"]
    result = run(*command, *more, "--banned-pattern", "^Ada", "--seconds", 60)
    assert (result.exit_code, "report.html" in result.stderr) == (0, True)
    entries = [json.loads(line) for line in out.read_text().splitlines()]
    assert sorted(entry["sample"] for entry in entries) == [1, 2]
    for entry in entries:
        assert "Lyon" not in entry["value"].values()
        assert not entry["value"]["name"].startswith("Ada")
        assert list(entry["confidence"]) == ["name", "age", "city"]
    assert run("check", PERSON[1], out).exit_code == 0
    refused = run(*command[:-4], "--html")
    assert (refused.exit_code, "--html writes a page" in refused.output) == (1, True)
    assert run(*command, "--several", 2, "--resume").exit_code == 1
    assert run(*command[:-1], "no.such:guard", "--resume").exit_code == 2


def test_extract_reads_lines_and_prints_them(tmp_path):
    schema = tmp_path / "person.json"
    schema.write_text(json.dumps({"enum": ["Lyon", "Oslo"]}))
    result = run("extract", "demo", "-", "--schema", str(schema), input="\n".join(PEOPLE))
    assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == ["1", "2"]
    for wrong in ("structgen.demo.tasks:Nobody", "no.such.module:Person", "nothing.json"):
        assert run("extract", "demo", "-", "--schema", wrong, input="x").exit_code == 2


@pytest.mark.slow
def test_rows_come_as_they_are_done_and_an_interrupt_tells_how_to_go_on():
    """In a process of its own, whose standard input stays open."""
    command = [
        sys.executable,
        "-c",
        "from structgen.cli import app; app()",
        "extract",
        "demo",
        "-",
        *PERSON,
        "--batch-size",
        "1",
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, text=True, **pipes) as process:
        process.stdin.write("\n".join(PEOPLE) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == "1"
        assert json.loads(process.stdout.readline())["id"] == "2"
        process.send_signal(signal.SIGINT)
        process.stdin.write("more\n")
        process.stdin.close()
        assert process.wait(60) == 130
        assert "cancel was set; 2 done" in process.stderr.read()


def test_the_second_signal_ends_at_once():
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a worker that runs tests may ignore it
    with stopped_by_signals() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    signal.signal(signal.SIGINT, handler)
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def elsewhere():
        with stopped_by_signals() as event:
            seen.append((event.is_set(), signal.getsignal(signal.SIGTERM) is before))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [(False, True)]
