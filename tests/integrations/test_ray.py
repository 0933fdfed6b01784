"""Jobs on Ray's actors, where Ray is installed: `pip install "structgen[ray]"`, then this file with `-m slow`."""

from __future__ import annotations

import json
import os
import time

import pytest

import structgen as sg
from structgen.demo import load_demo
from structgen.demo.tasks import Person
from structgen.errors import OptionError
from structgen.integrations.ray import Extractor, extract_on_ray

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


def test_without_ray_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    monkeypatch.setitem(__import__("sys").modules, "ray.data", None)
    with pytest.raises(OptionError, match=r"structgen\[ray\]"):
        extract_on_ray(demo, TEXTS, Person, out=tmp_path / "o.jsonl")


@pytest.mark.slow
def test_200_documents_on_two_actors_are_those_of_one_process(tmp_path):
    ray = pytest.importorskip("ray", reason="needs Ray: pip install 'structgen[ray]'")
    ray.init(num_cpus=4, include_dashboard=False, runtime_env={"env_vars": {"OMP_NUM_THREADS": "1"}})
    try:
        began = time.perf_counter()
        alone = sg.extract_many(demo(), TEXTS, Person, prompt=PROMPT, out=tmp_path / "alone.jsonl")
        one = time.perf_counter() - began
        out = tmp_path / "ray.jsonl"
        inputs = [*TEXTS, {"id": "bad"}]
        both = extract_on_ray(demo, inputs[:150], Person, prompt=PROMPT, out=out, rows_per_call=16)
        assert (both.done, both.failed) == (150, 0)
        rest = extract_on_ray(demo, inputs, Person, prompt=PROMPT, out=out, rows_per_call=16, resume=True)
        assert (rest.done, rest.failed, rest.skipped) == (50, 1, 150)
        assert {i: e["value"] for i, e in entries(out).items()} == {
            i: e["value"] for i, e in entries(tmp_path / "alone.jsonl").items()
        }
        assert entries(tmp_path / "ray.jsonl.errors.jsonl")["bad"]["error"]["type"] == "OptionError"
        assert alone.done == 200
        whole = extract_on_ray(demo, TEXTS, Person, prompt=PROMPT, out=tmp_path / "w.jsonl", rows_per_call=16)
        print(f"one process {one:.1f} s, of which the job {alone.seconds:.1f} s; two actors {whole.seconds:.1f} s "
              f"on {os.cpu_count()} cores")  # fmt: skip
    finally:
        ray.shutdown()
