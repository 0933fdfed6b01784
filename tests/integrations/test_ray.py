"""Jobs on Ray's actors, where Ray is installed: `pip install "structgen-llm[ray]"`, then this file with `-m slow`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from datetime import date

import filelock
import pytest

import structgen as sg
from structgen.batch_jobs import InputRow
from structgen.batch_jobs.job_options import JobOptions
from structgen.demo import load_demo
from structgen.demo.tasks import Person
from structgen.errors import OptionError
from structgen.integrations.ray import Extractor, _outcomes, extract_on_ray
from tests.support.tables import cases

PROMPT = "Extract the person: name, age, city.\nText: {text}\nJSON: "
TEXTS = [f"Ada Moreau, {20 + number % 70}, lives in Lyon." for number in range(200)]


def demo():
    """Loaded by each actor."""
    return sg.Model.of(*load_demo())


def entries(path):
    return {entry["id"]: entry for entry in map(json.loads, path.read_text().splitlines())}


def test_an_actor_makes_an_entry_of_each_row():
    rows = [json.dumps({"id": "a", "text": TEXTS[0]}), json.dumps({"id": "b"})]
    made = Extractor(demo, Person, {"prompt": PROMPT, "columns": ["seed"]})({"row": rows})
    first, second = map(json.loads, made["entry"])
    costs, nothing = map(json.loads, made["costs"])
    assert (first.keys(), first["value"]["age"]) == ({"id", "value", "finish", "seed"}, 20)
    assert (second["id"], second["error"]["type"]) == ("b", "OptionError")
    assert (costs[0] > 5, costs[1] > 0, nothing) == (True, True, [0, 0])


def test_what_no_actor_can_be_sent_is_a_failed_row():
    row = InputRow("a", given=[{"role": "user", "content": object()}])
    (outcome,) = _outcomes(None, {}, 1, JobOptions(), iter([(0, row)]), ahead=False)
    assert "chat messages of JSON" in outcome.entry["error"]["message"]


def test_without_ray_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    monkeypatch.setitem(__import__("sys").modules, "ray.data", None)
    with pytest.raises(OptionError, match=r"structgen-llm\[ray\]"):
        extract_on_ray(demo, TEXTS, Person, out=tmp_path / "o.jsonl")


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray", reason="needs Ray: pip install 'structgen-llm[ray]'")
    ray.init(num_cpus=4, include_dashboard=False, runtime_env={"env_vars": {"OMP_NUM_THREADS": "1"}})
    yield ray
    ray.shutdown()


@pytest.mark.slow
def test_200_documents_on_two_actors_are_those_of_one_process(ray, tmp_path):
    began = time.perf_counter()
    alone = sg.extract_many(demo(), TEXTS, Person, prompt=PROMPT, out=tmp_path / "alone.jsonl")
    one = time.perf_counter() - began
    out = tmp_path / "ray.jsonl"
    inputs = [*TEXTS, {"id": "bad"}]
    both = extract_on_ray(demo, inputs[:150], Person, prompt=PROMPT, out=out, rows_per_call=16)
    assert (both.done, both.failed) == (150, 0)
    rest = extract_on_ray(demo, inputs, Person, prompt=PROMPT, out=out, rows_per_call=16, resume=True)
    assert (rest.done, rest.failed, rest.skipped) == (50, 1, 150)
    assert entries(out) == entries(tmp_path / "alone.jsonl")
    assert entries(tmp_path / "ray.jsonl.errors.jsonl")["bad"]["error"]["type"] == "OptionError"
    assert alone.done == 200
    whole = extract_on_ray(demo, TEXTS, Person, prompt=PROMPT, out=tmp_path / "w.jsonl", rows_per_call=16)
    print(f"one process {one:.1f} s, of which the job {alone.seconds:.1f} s; two actors {whole.seconds:.1f} s "
          f"on {os.cpu_count()} cores")  # fmt: skip


@pytest.mark.slow
def test_lines_are_those_of_a_local_job_whatever_the_inputs(ray, tmp_path):
    """Several values with seeds, carried columns, ids and dates that are no texts, prompts of messages, broken rows."""
    file = tmp_path / "in.jsonl"
    file.write_text('{"id": 1, "text": "Tom Berg, 51, Rome"}\n{"id": \n"Eve, 28"\n', encoding="utf-8")
    rows = [
        {"id": 7, "text": TEXTS[0], "day": date(2026, 1, 2), "n": None},
        {"text": TEXTS[1], "id": ""},
        {"id": "x"},
        {"id": 7, "text": "again"},
        {"id": "y", "text": ""},
        5,
        TEXTS[3],
    ]
    sampling = sg.Sampling(temperature=1.0, seed=3)
    many = {"sampling": sampling, "several": 2, "keep": ["day", "n"], "columns": ["seed", "truncated"]}
    messages = [[{"role": "user", "content": TEXTS[0]}], [1, 2, 3]]
    cases = [
        (rows, {"prompt": "{id} {text}: ", **many}),
        (rows, {"prompt": lambda row: f"{row['text']} {row.get('day')}", "keep": True}),
        (messages, {}),
        (file, {"chat": True, "prompt_schema": True, "keep": True}),
    ]
    for number, (inputs, options) in enumerate(cases):
        local, out = tmp_path / f"local{number}.jsonl", tmp_path / f"ray{number}.jsonl"
        one = sg.extract_many(demo(), inputs, Person, out=local, **options)
        other = extract_on_ray(demo, inputs, Person, out=out, actors=1, **options)
        assert (other.done, other.cut, other.failed, other.tokens) == (one.done, one.cut, one.failed, one.tokens)
        assert entries(out) == entries(local)
        assert [*map(list, entries(out).values())][:1] == [*map(list, entries(local).values())][:1]
        errors = [path.with_name(f"{path.name}.errors.jsonl") for path in (out, local)]
        assert errors[0].exists() == errors[1].exists() == (inputs is not messages)
        assert inputs is messages or entries(errors[0]) == entries(errors[1])


CODE = cases("integrations/ray", "CODE", globals())


@pytest.mark.slow
def test_a_driver_that_is_killed_or_has_no_disk_or_is_not_alone_loses_nothing(ray, tmp_path):
    out, environment = tmp_path / "o.jsonl", {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", CODE, str(out)]
    for wanted in (500, 6000):
        with subprocess.Popen(command, env=environment) as process:
            until = time.monotonic() + 240
            while process.poll() is None and not (out.exists() and out.stat().st_size > wanted):
                assert time.monotonic() < until
                time.sleep(0.01)
            other = filelock.FileLock(tmp_path / "o.jsonl.job" / "lock", timeout=0)
            with pytest.raises(filelock.Timeout):
                other.acquire()
            process.kill()
    rows = [{"id": f"r{i}", "text": f"Ada Moreau, {20 + i % 70}, lives in Lyon." if i % 50 else ""} for i in range(300)]
    job = {"prompt": PROMPT, "out": out, "resume": True, "rows_per_call": 8, "actors": 1}
    with other.acquire(), pytest.raises(OptionError, match="another process is writing it"):
        extract_on_ray(demo, rows, Person, **job)
    resource = pytest.importorskip("resource", reason="no limits of files on this system")
    before, size = resource.getrlimit(resource.RLIMIT_FSIZE), out.stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 2000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            extract_on_ray(demo, rows, Person, **job)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    stop = threading.Event()
    with pytest.raises(sg.Stopped, match="cancel was set"):
        extract_on_ray(demo, rows, Person, **job, cancel=stop, on_entry=lambda _: stop.set())
    with pytest.raises(sg.Stopped, match="more than max_failures=3 inputs"):
        extract_on_ray(demo, rows, Person, **job, max_failures=3)
    skipped = len(out.read_text().splitlines())
    rest = extract_on_ray(demo, rows, Person, **job)
    assert (rest.skipped, rest.done, rest.failed) == (skipped, 294 - skipped, 6)
    lines = out.read_text().splitlines()
    assert (len(lines), entries(out).keys()) == (294, {row["id"] for row in rows if row["text"]})
    assert all(entry["value"]["age"] == 20 + int(id_[1:]) % 70 for id_, entry in entries(out).items())
    failed = entries(tmp_path / "o.jsonl.errors.jsonl")
    assert {id_: entry["input"] for id_, entry in failed.items()} == {row["id"]: row for row in rows if not row["text"]}
