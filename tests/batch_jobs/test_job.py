"""Jobs: inputs of every kind, results on disk, failures set aside, jobs that go on.

Covers `columns`, `job_options`, `progress` and `running`.
"""

from __future__ import annotations

import gzip
import json
import sys
import threading
import time
from types import SimpleNamespace

import pytest

import structgen as sg
from structgen.demo import load_demo
from structgen.demo.tasks import Person
from structgen.errors import OptionError, UnsatisfiableSchema
from structgen.testing import scripted
from tests.support.speed import at_usual_speed

PROMPT = "Extract the person: name, age, city.\nText: {text}\nJSON: "
PEOPLE = {"Ada Moreau": 36, "Tom Berg": 51, "Nadia Petrova": 28, "Marta Kowalczyk": 44, "Ravi Menon": 63}
TEXTS = [f"{name}, {age}, lives in Lyon." for name, age in PEOPLE.items()]


@pytest.fixture(scope="module")
def model():
    return sg.Model.of(*load_demo())


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_value_may_fill_the_context_but_plain_text_may_not():
    numbers, model = {"type": "array", "items": {"type": "integer"}}, scripted(json.dumps([*range(300)]))
    (whole,) = sg.extract_many(model, ["x"], numbers).results
    assert (len(whole["value"]), whole["finish"]) == (300, "complete")
    assert len(sg.generate(model, "x", numbers, limits=sg.Limits(max_items=400))) == 300
    (cut,) = sg.extract_many(model, ["x"], numbers, limits=sg.Limits(max_new_tokens=512)).results
    assert (len(cut["value"]) < 200, cut["finish"]) == (True, "closed_by_budget")
    (text,) = sg.extract_many(model, ["x"]).results
    assert (len(text["value"]), text["finish"]) == (512, "length")


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
    failed = {entry["id"]: entry["error"] for entry in lines(tmp_path / "deep" / "people.jsonl.errors.jsonl")}
    assert failed.keys() == {"b", "c", "5"}
    given = {entry["id"]: entry["input"] for entry in lines(tmp_path / "deep" / "people.jsonl.errors.jsonl")}
    assert given == {"b": {"id": "b"}, "c": rows[2], "5": "5"}
    assert [failed[id_]["type"] for id_ in ("b", "c", "5")] == ["OptionError", "PromptTooLong", "OptionError"]
    assert "'text'" in failed["b"]["message"]


def test_a_line_of_many_megabytes_costs_its_bytes(model, tmp_path):
    path = tmp_path / "rows.jsonl.gz"
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write(json.dumps({"id": "bomb", "text": "long text " * 2_000_000}) + "\n")
        file.write(json.dumps({"id": "fine", "text": TEXTS[0]}) + "\n")
    began = time.process_time()
    job = sg.extract_many(model, path, Person, prompt=PROMPT, out=tmp_path / "out.jsonl")
    assert (job.done, job.failed) == (1, 1)
    assert lines(tmp_path / "out.jsonl.errors.jsonl")[0]["error"]["type"] == "PromptTooLong"
    assert at_usual_speed(time.process_time() - began) < 8  # to encode it took 11 s and 700 MB


def test_a_job_goes_on_where_it_was_ended(model, tmp_path):
    out, errors = tmp_path / "people.jsonl", tmp_path / "people.jsonl.errors.jsonl"
    sg.extract_many(model, [*TEXTS[:2], ""], Person, prompt=PROMPT, out=out)
    assert [entry["id"] for entry in lines(errors)] == ["3"]
    with pytest.raises(OptionError, match="resume=True"):
        sg.extract_many(model, TEXTS, Person, prompt=PROMPT, out=out)
    whole = out.read_bytes()
    out.write_bytes(whole[:-9])  # as a process leaves it that was killed while it wrote
    job = sg.extract_many(model, TEXTS, Person, prompt=PROMPT, out=out, resume=True)
    assert (job.done, job.failed, job.skipped) == (4, 0, 1)
    assert {entry["id"]: entry["value"]["age"] for entry in lines(out)} == dict(
        zip("12345", PEOPLE.values(), strict=True)
    )
    assert not errors.exists()
    assert sg.extract_many(model, TEXTS, Person, prompt=PROMPT, out=out, resume=True).skipped == 5
    out.write_text("{}\n")
    with pytest.raises(OptionError, match="not a result"):
        sg.extract_many(model, TEXTS, Person, prompt=PROMPT, out=out, resume=True)


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
    for ending in (".txt", ".md", ".html", ".json", ".xlsx", ".jsonl.gz", ".PDF"):
        with pytest.raises(OptionError, match=r"[.]jsonl, [.]csv, [.]tsv or [.]parquet"):
            sg.extract_many(model, TEXTS, Person, out=tmp_path / f"o{ending}")
    assert list(tmp_path.iterdir()) == []


def test_a_prompt_without_a_field_is_refused():
    """It would be the same for every input."""
    for prompt in ("Who?", "{}", "{0} {text}", "{"):
        with pytest.raises(OptionError, match="prompt="):
            sg.extract_many(scripted('"yes"'), ["a"], {"type": "string"}, prompt=prompt)


def test_fields_that_no_input_has_are_refused_before_anything_runs(tmp_path):
    """With the nearest name among them; a field that some inputs have fails only those that lack it."""
    model, rows = scripted('{"n": 1}'), [{"txt": "a", "city": "b"}, {"txt": "c"}]
    table = tmp_path / "rows.csv"
    table.write_text("id,txt,city\n1,a,b\n", encoding="utf-8")
    listed = tmp_path / "rows.jsonl"
    listed.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for inputs in (rows, table, str(listed), tuple(rows)):
        with pytest.raises(OptionError, match="prompt: no input has a field 'text', did you mean 'txt'"):
            sg.extract_many(model, inputs, {}, prompt="{text}")
        with pytest.raises(OptionError, match="no input has a field 'text'"):
            sg.extract_many(model, inputs, {})
        with pytest.raises(OptionError, match="keep: no input has a field 'ctiy', did you mean 'city'"):
            sg.extract_many(model, inputs, {}, prompt="{txt}", keep=["ctiy"])
    for texts in (["a", "b"], (text for text in "ab")):
        with pytest.raises(OptionError, match="no input has a field 'txt', did you mean 'text'"):
            sg.extract_many(model, texts, {}, prompt="{txt}")
    with pytest.raises(OptionError, match="no input has a field 'txxt', did you mean 'txt'"):
        sg.extract_many(model, (row for row in rows), {}, prompt="{txxt}")
    for template in ("{txt!z}", "{txt:zz}", "{txt.a}", "{txt[a]}"):
        with pytest.raises(OptionError, match="the prompt cannot be filled in"):
            sg.extract_many(model, rows, {}, prompt=template)
    with pytest.raises(OptionError, match=r"prompt=.*without fields"):
        sg.extract_many(model, [[1, 2], [3]], {}, prompt="{text}")
    job = sg.extract_many(model, rows, {}, prompt="{city}")
    assert (job.done, job.failed) == (1, 1)


def test_inputs_that_are_looked_at_first_are_all_read_in_their_order():
    """Also where their source breaks: what came before is finished."""

    class Broken(list):
        def __iter__(self):
            yield from ("a", "b")
            raise RuntimeError("gone")

    model = scripted("1")
    assert [entry["id"] for entry in sg.extract_many(model, ["a"] * 130, int)] == [str(n) for n in range(1, 131)]
    with pytest.raises(sg.Stopped, match=r"gone.*after input 2") as stopped:
        sg.extract_many(model, Broken(["a", "b"]), int)
    assert stopped.value.report.done == 2


def test_a_job_in_memory_has_values_of_the_type(model):
    job = sg.extract_many(model, [*TEXTS[:2], ""], Person, prompt=PROMPT)
    assert [type(value) for value in job.values] == [Person, Person, type(None)]
    assert [value.model_dump() for value in job.values[:2]] == [entry["value"] for entry in job.results[:2]]


def test_a_file_of_lines_that_is_one_input_is_told(tmp_path, caplog):
    path = tmp_path / "in.txt"
    path.write_text("one\ntwo\nthree\n", encoding="utf-8")
    assert sg.extract_many(scripted("1"), path, int).done == 1
    assert "in.txt is one input of 3 lines" in caplog.text
    caplog.clear()
    path.write_text("one line\n", encoding="utf-8")
    assert sg.extract_many(scripted("1"), path, int).done == 1
    with path.open() as lines_of_file:
        assert sg.extract_many(scripted("1"), lines_of_file, int).done == 1
    assert caplog.text == ""


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


def test_a_notebook_gets_the_bar_below_its_cell_without_widgets(model, monkeypatch, capsys):
    """What a kernel's `display` is given, and what its handle is updated with."""
    drawn = []
    handle = SimpleNamespace(update=lambda data, raw: drawn.append(data))
    shown = SimpleNamespace(display=lambda data, raw, display_id: drawn.append(data) or handle)
    monkeypatch.setattr("structgen.batch_jobs.progress.SafeConsole", lambda stderr: SimpleNamespace(is_jupyter=True))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(display=shown))
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    sg.extract_many(model, TEXTS[:1], Person, prompt=PROMPT, progress=True)
    assert drawn[0]["text/plain"] == "0 of 1: no input done yet"
    assert drawn[-1]["text/html"] == '<progress value="1" max="1"></progress> 1 of 1: 1 done, 0 failed'
    assert capsys.readouterr().err == ""


def test_rows_that_draw_have_a_seed_each(model):
    """Equal prompts give other values, the same ones in any batch and in any order."""
    options = {"prompt": PROMPT, "sampling": sg.Sampling(temperature=1.5, seed=3)}
    rows = [{"id": str(number), "text": TEXTS[0]} for number in range(8)]
    first = sg.extract_many(model, rows, Person, **options).results
    again = sg.extract_many(model, rows[::-1], Person, **options, batch_size=2).results
    assert len({str(entry["value"]) for entry in first}) > 2
    assert first == again[::-1]


def test_an_input_may_have_several_values(model, tmp_path):
    """Each with a seed of its own, in any batch; a job goes on with more of them."""
    options = {"prompt": PROMPT, "sampling": sg.Sampling(temperature=1.5, seed=3), "columns": ["seed", "tokens"]}
    rows, out = [{"id": "a", "text": TEXTS[0]}, {"id": "b", "text": TEXTS[1]}, 5], tmp_path / "o.jsonl"
    job = sg.extract_many(model, rows, Person, **options, several=3)
    named = [(entry["id"], entry.get("input_id"), entry.get("sample")) for entry in job.results]
    assert named == [*((f"{i}#{n}", i, n) for i in "ab" for n in (1, 2, 3)), ("3", None, None)]
    assert len({entry["seed"] for entry in job.results[:-1]}) == 6
    for several, skipped in ((2, 0), (3, 4)):
        report = sg.extract_many(model, rows, Person, **options, several=several, out=out, batch_size=2, resume=True)
        assert (report.skipped, report.failed) == (skipped, 1)
    assert sorted(lines(out), key=lambda entry: entry["id"]) == job.results[:-1]
    for wrong in ({"several": 0}, {"several": 2, "sampling": sg.Sampling()}, {"columns": ["quotes"]}):
        with pytest.raises(OptionError, match=r"several=|columns="):
            sg.extract_many(model, rows, Person, **{**options, **wrong})
    with pytest.raises(OptionError, match="another several"):
        sg.extract_many(model, rows, Person, **options, out=out, resume=True)


def test_columns_say_how_sure_the_model_was_and_what_was_cut(model):
    columns = ["confidence", "truncated", "seed", "tokens", "seconds"]
    options = {"prompt": PROMPT, "columns": columns}
    entry = sg.extract_many(model, TEXTS[:1], Person, **options).results[0]
    assert list(entry) == ["id", "value", "finish", *columns]
    assert list(entry["confidence"]) == ["name", "age", "city"]
    fields = sg.generate(model, PROMPT.format(text=TEXTS[0]), Person, details=True).fields
    assert entry["confidence"] == {name: round(fields[f"/{name}"].probability, 4) for name in entry["confidence"]}
    assert (entry["truncated"], entry["seed"], entry["tokens"] > 9, entry["seconds"] > 0) == ([], None, True, True)
    cut = sg.extract_many(model, TEXTS[:1], Person, limits=sg.Limits(max_new_tokens=17), **options).results[0]
    assert cut["truncated"] == ["/city"]
    tags = sg.extract_many(scripted('["a", "b"]'), ["x"], {"type": "array"}, columns=["confidence"]).results[0]
    assert list(tags["confidence"]) == ["value"]


def test_results_have_fields_and_counts_of_what_was_cut(model):
    rows = [{"text": TEXTS[0], "a": 1, "b": None}]
    job = sg.extract_many(model, rows, Person, prompt=PROMPT, keep=["a", "c"], limits=sg.Limits(max_new_tokens=17))
    assert (job.done, job.cut, job.results[0]["input"]) == (0, 1, {"a": 1, "c": None})
    assert str(job) == "0 done, 1 cut short, 0 failed"
    kept = sg.extract_many(scripted('"yes"'), rows, {"type": "string"}, keep=True).results
    assert kept == [{"id": "1", "input": {"a": 1, "b": None}, "value": "yes", "finish": "complete"}]


def test_a_job_ends_early_and_keeps_what_it_has(tmp_path):
    """By failures, by an event, by inputs that raise, and by an interrupt: rows that have begun end first or count
    for nothing."""

    def raising():
        yield "a"
        yield "b"
        raise OSError("gone")

    model, stop = scripted('"yes"'), threading.Event()
    with pytest.raises(sg.Stopped, match=r"raised OSError: gone, after input 2; 2 done, 0 failed") as caught:
        sg.extract_many(model, raising(), {"type": "string"})
    assert [entry["value"] for entry in caught.value.report.results] == ["yes", "yes"]
    with pytest.raises(sg.Stopped, match="more than max_failures=1"):
        sg.extract_many(model, ["", "", "", "a"], {"type": "string"}, max_failures=1)
    options = {"batch_size": 1, "on_entry": lambda entry: stop.set(), "cancel": stop}
    with pytest.raises(sg.Stopped, match=r"cancel was set; 1 done, 0 failed; resume=True continues it"):
        sg.extract_many(model, iter("abc"), {"type": "string"}, out=tmp_path / "o.jsonl", **options)

    def interrupt(entry):
        raise KeyboardInterrupt

    options = {"on_entry": interrupt, "resume": True, "batch_size": 1}
    with pytest.raises(KeyboardInterrupt):
        sg.extract_many(model, iter("abc"), {"type": "string"}, out=tmp_path / "o.jsonl", **options)
    rest = sg.extract_many(model, iter("abc"), {"type": "string"}, out=tmp_path / "o.jsonl", resume=True)
    assert (rest.done, rest.skipped) == (1, 2)


def test_quotes_of_the_fields_of_a_prompt_have_their_places(model, tmp_path):
    """Pieces of the template are no quotes; a table has a column for each pointer."""
    name = {"type": "string", "x-quote": {"whole": "words"}}
    schema = {"type": "object", "properties": {"name": name}, "required": ["name"], "additionalProperties": False}
    texts = TEXTS[:3]
    job = sg.extract_many(model, texts, schema, prompt=PROMPT)
    for text, entry in zip(texts, job.results, strict=True):
        (place, *_) = entry["places"]["/name"]
        assert text[place["start"] : place["end"]] == entry["value"]["name"]
    sg.extract_many(model, texts, schema, prompt=PROMPT, out=tmp_path / "o.csv")
    assert (tmp_path / "o.csv").read_text().splitlines()[0] == "id,name,finish,places./name"
    rows = [{"text": "Ada", "more": "Bob"}]
    (entry,) = sg.extract_many(model, rows, schema, prompt="{text} {more}: ").results
    assert {each["document"] for each in entry["places"]["/name"]} <= {"text", "more"}
    with pytest.raises(OptionError, match="a job quotes the fields"):
        sg.extract_many(model, texts, schema, source="x")
