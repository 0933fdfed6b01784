"""What a job leaves on the disk, whatever happens to it: no row lost, doubled or mixed, nothing of the user's touched.

Covers `settings`.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import Annotated

import pytest
from pyarrow import parquet
from pydantic import AfterValidator

import structgen as sg
from structgen.errors import OptionError
from structgen.testing import scripted
from tests.support.tables import cases

WORD = {"type": "string"}
ROWS = [{"id": f"r{number}", "text": f"text {number}"} for number in range(6)] + [{"id": "bad", "text": ""}]


@pytest.fixture(scope="module")
def model():
    return scripted('"yes"')


@pytest.fixture
def out(tmp_path):
    return tmp_path / "o.jsonl"


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def ids(path):
    return sorted(entry["id"] for entry in lines(path))


def errors_of(out):
    return out.with_name(f"{out.name}.errors.jsonl")


def job_of(out):
    return out.with_name(f"{out.name}.job")


def require_whole(out, rows=ROWS):
    """Each input has one line: of results, or of failures."""
    failures = lines(errors_of(out)) if errors_of(out).exists() else []
    assert sorted([*ids(out), *(entry["id"] for entry in failures)]) == sorted(row["id"] for row in rows)
    assert [entry["input"] for entry in failures] == [row for row in rows if not row["text"]]


def test_a_job_never_touches_what_is_not_its_own(model, tmp_path, out):
    """Not even where names are alike, or the inputs lie where its files would."""
    own = errors_of(out)
    own.write_text('"a"\n')
    for options in ({}, {"resume": True}):
        with pytest.raises(OptionError, match=r"errors.jsonl' already exists|another file than those of the job"):
            sg.extract_many(model, own, WORD, out=out, **options)
    assert own.read_text() == '"a"\n'
    assert list(tmp_path.iterdir()) == [own]
    own.unlink()
    for name in ("run.v1", "run.v2"):
        sg.extract_many(model, ROWS, WORD, out=tmp_path / name)
    for name in ("run.v1", "run.v2"):
        require_whole(tmp_path / name)
    out.write_text('{"id": "a"}\n')
    for options in ({}, {"resume": True}):
        with pytest.raises(OptionError, match=r"already exists|so no job can continue there"):
            sg.extract_many(model, ROWS, WORD, out=out, **options)
    assert out.read_text() == '{"id": "a"}\n'
    with pytest.raises(OptionError, match="cannot be written"):
        sg.extract_many(model, ROWS, WORD, out=out / "below.jsonl")
    for name in ("", f"{tmp_path}/new/", tmp_path, "o.jsonl.gz", "o.xlsx"):
        with pytest.raises(OptionError, match="expected the name of a file"):
            sg.extract_many(model, ROWS, WORD, out=name, resume=True)
    for name in ("x" * 300, "x" * 250):
        with pytest.raises(OptionError, match="cannot be written"):
            sg.extract_many(model, ROWS, WORD, out=tmp_path / name)
    with pytest.raises(OptionError, match="resume=True: expected out="):
        sg.extract_many(model, ROWS, WORD, resume=True)
    with pytest.raises(OptionError, match="folder or file that is there"):
        sg.extract_many(model, tmp_path / "mistyped", WORD, out=tmp_path / "run.v1", resume=True)
    require_whole(tmp_path / "run.v1")


def test_lines_are_json_that_every_program_reads(model, out):
    """A number that is not finite is null; a prompt function cannot change the rows."""
    rows = [{"id": "a", "text": "x", "n": float("nan"), "m": [float("inf")], "day": date(2026, 1, 2)}]
    sg.extract_many(model, rows, WORD, out=out, prompt=lambda row: row.pop("text"), keep=True)
    assert json.loads(out.read_text(), parse_constant=pytest.fail)["input"] == {
        "id": "a", "n": None, "m": [None], "day": "2026-01-02",
    }  # fmt: skip
    assert rows[0]["text"] == "x"


def test_other_inputs_leave_the_failures_of_before(model, out):
    sg.extract_many(model, ROWS, WORD, out=out)
    sg.extract_many(model, [{"id": "z", "text": "z"}], WORD, out=out, resume=True)
    require_whole(out, [*ROWS, {"id": "z", "text": "z"}])
    sg.extract_many(model, [*ROWS[:-1], {"id": "bad", "text": "good"}], WORD, out=out, resume=True)
    assert (ids(out)[0], errors_of(out).exists()) == ("bad", False)


def test_a_folder_may_hold_the_output(model, tmp_path):
    (tmp_path / "a.txt").write_text("a")
    out = tmp_path / "o.jsonl"
    for resume in (False, True):
        report = sg.extract_many(model, tmp_path, WORD, out=out, resume=resume)
        assert (report.done + report.skipped, report.failed, ids(out)) == (1, 0, ["a.txt"])


@pytest.mark.parametrize(("changes", "name"), cases("batch_jobs/job_files", "another_job_does_not_go_on", globals()))
def test_another_job_does_not_go_on(model, out, changes, name):
    """Its results would be mixed with those of the first."""
    sg.extract_many(model, ROWS, WORD, out=out)
    before = out.read_bytes()
    with pytest.raises(OptionError, match=f"with another {name}, and"):
        sg.extract_many(model, ROWS, **{"schema": WORD, **changes}, out=out, resume=True)
    assert out.read_bytes() == before
    same = {"batch_size": 2, "limits": sg.Limits(), "banned": (), "prompt": None}
    assert sg.extract_many(model, ROWS, WORD, out=out, resume=True, **same).skipped == 6


def test_code_is_part_of_a_job(model, out):
    """Another lambda under the same name, and another validator of a type, do not go on."""

    def word(bound):
        def short(value: str) -> str:
            if len(value) > bound:
                raise ValueError("too long")
            return value

        return Annotated[str, AfterValidator(short)]

    jobs = {"prompt": (lambda row: row["text"], lambda row: row["text"] + "!"), "validators": (word(99), word(98))}
    for name, (first, other) in jobs.items():
        path = out.with_name(f"{name}.jsonl")
        schemas, prompts = ([first, other], [None] * 2) if name == "validators" else ([WORD] * 2, [first, other])
        sg.extract_many(model, ROWS, schemas[0], prompt=prompts[0], out=path)
        assert sg.extract_many(model, ROWS, schemas[0], prompt=prompts[0], out=path, resume=True).skipped == 6
        with pytest.raises(OptionError, match=f"with another {name}, and"):
            sg.extract_many(model, ROWS, schemas[1], prompt=prompts[1], out=path, resume=True)


def test_what_limits_cut_is_done_again_with_other_limits(out):
    """By a budget and by a cap; also after a job with the new limits that was killed before it came to them."""
    model, rows = scripted(json.dumps([*range(30)])), ["a", "b", "c"]
    numbers = {"type": "array", "items": {"type": "integer"}}
    few, more = sg.Limits(max_items=5), sg.Limits(max_items=100, max_new_tokens=300)

    def lengths():
        return [len(entry["value"]) for entry in lines(out)]

    first = sg.extract_many(model, rows, numbers, out=out, limits=few)
    assert (first.done, first.cut, lengths()) == (0, 3, [5, 5, 5])
    assert json.loads((job_of(out) / "report.json").read_bytes())["cut"] == 3
    same = sg.extract_many(model, rows, numbers, out=out, limits=few, resume=True)
    assert (same.cut, same.skipped, same.skipped_cut) == (0, 3, 3)
    assert str(same) == "0 done, 0 failed, 3 from before (3 cut short or not complete)"
    part = sg.extract_many(model, rows[:1], numbers, out=out, limits=more, resume=True)
    assert (part.done, sorted(lengths())) == (1, [5, 5, 30])
    rest = sg.extract_many(model, rows, numbers, out=out, limits=more, resume=True)
    assert (rest.done, rest.cut, rest.skipped, lengths()) == (2, 0, 1, [30, 30, 30])
    assert rest.skipped_cut == 0
    assert sg.extract_many(model, rows, numbers, out=out, limits=few, resume=True).skipped == 3


def test_what_comes_after_a_cut_is_marked_in_every_line(tmp_path):
    """A job that asks for no columns says which members not to believe, in JSON lines and in a table."""
    schema = {"properties": {"rows": {"type": "array"}, "count": {"type": "integer"}}, "required": ["rows", "count"]}
    schema |= {"type": "object", "additionalProperties": False}
    model = scripted('{"rows": [1, 2, 3, 4, 5, 6], "count": 6}')
    for name in ("o.jsonl", "o.csv"):
        job = sg.extract_many(model, ["a"], schema, out=tmp_path / name, limits=sg.Limits(max_items=2))
        assert job.cut == 1
    assert lines(tmp_path / "o.jsonl")[0]["after_cut"] == ["/count"]
    assert (tmp_path / "o.csv").read_text().splitlines()[1].endswith(',capped,"[""/count""]"')


def test_inputs_that_have_changed_under_their_ids_are_done_again(model, out):
    sg.extract_many(model, ROWS, WORD, out=out)
    changed = [{**ROWS[0], "text": "new"}, *ROWS[1:]]
    report = sg.extract_many(model, changed, WORD, out=out, resume=True)
    assert (report.done, report.skipped, report.failed) == (1, 5, 1)
    require_whole(out)
    report = sg.extract_many(model, ["x", *(row["text"] for row in ROWS)], WORD, out=out, resume=True)
    assert (report.done, report.failed) == (7, 1)


def test_two_processes_do_not_write_one_file(model, out):
    sg.extract_many(model, ROWS, WORD, out=out)
    code = "import sys, filelock; lock = filelock.FileLock(sys.argv[1]); lock.acquire(); print(1); sys.stdin.read()"
    command = [sys.executable, "-uc", code, str(job_of(out) / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        other.stdout.readline()
        with pytest.raises(OptionError, match="another process is writing it"):
            sg.extract_many(model, ROWS, WORD, out=out, resume=True)
        other.kill()
    assert sg.extract_many(model, ROWS, WORD, out=out, resume=True).skipped == 6


@pytest.mark.parametrize("name", ["o.jsonl", "o.csv"])
def test_a_job_goes_on_from_whatever_a_kill_leaves(model, tmp_path, name):
    """The files at any moment are some lines of each, in the order of their writing, the last one maybe in part."""
    whole, out = tmp_path / "whole" / name, tmp_path / "cut" / name
    sg.extract_many(model, ROWS, WORD, out=whole, batch_size=2)
    results = whole if name.endswith(".jsonl") else job_of(whole) / "results.jsonl"
    chance = random.Random(0)
    for _ in range(12):
        shutil.rmtree(out.parent, ignore_errors=True)
        shutil.copytree(whole.parent, out.parent)
        count, more = chance.randrange(7), chance.random()
        digests = (job_of(whole) / "inputs.jsonl").read_bytes().splitlines(keepends=True)
        values = results.read_bytes().splitlines(keepends=True)
        begun, place = digests[: count + 1], out.parent / results.relative_to(whole.parent)
        if more < 0.5 and len(begun) > count:  # killed within the digest
            begun[-1] = begun[-1][: chance.randrange(len(begun[-1]))]
            values = values[:count]
        else:
            values = values[: count + 1]
            values[count:] = [line[: chance.randrange(len(line))] for line in values[count:]]
        (job_of(out) / "inputs.jsonl").write_bytes(b"".join(begun))
        place.write_bytes(b"".join(values))
        if chance.random() < 0.5:
            errors_of(out).unlink()
        report = sg.extract_many(model, ROWS, WORD, out=out, resume=True)
        assert report.done + report.skipped == 6
        if name.endswith(".jsonl"):
            require_whole(out)
        else:
            assert out.read_text().splitlines() == ["id,value,finish", *(f"r{n},yes,complete" for n in range(6))]


def test_a_table_is_whole_and_in_the_order_of_the_inputs(model, tmp_path):
    out = tmp_path / "o.parquet"
    with pytest.raises(sg.Stopped):
        sg.extract_many(model, ROWS[::-1], WORD, out=out, batch_size=1, max_failures=0)
    assert parquet.read_table(out).num_rows == 0
    sg.extract_many(model, ROWS, WORD, out=out, resume=True)
    assert parquet.read_table(out).column("id").to_pylist() == [row["id"] for row in ROWS[:-1]]
    before = out.read_bytes()
    with pytest.raises(OptionError, match="it already exists"):
        sg.extract_many(model, ROWS, WORD, out=out)
    assert out.read_bytes() == before


def test_a_full_disk_leaves_whole_lines(model, out):
    """Here no file may have more than 1,500 bytes."""
    resource = pytest.importorskip("resource", reason="no limits of files on this system")
    rows = [{**row, "id": row["id"] + 300 * "x"} for row in ROWS]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1500, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            sg.extract_many(model, rows, WORD, out=out, batch_size=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    written = len(lines(out))
    assert 0 < written < 6
    report = sg.extract_many(model, rows, WORD, out=out, resume=True)
    assert report.skipped == written
    require_whole(out, rows)


CODE = cases("batch_jobs/job_files", "CODE", globals())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "number"), [("o.jsonl", signal.SIGKILL), ("o.parquet", signal.SIGINT)])
def test_a_job_that_is_killed_again_and_again_loses_nothing_and_does_nothing_twice(tmp_path, name, number):
    out, command = tmp_path / name, [sys.executable, "-c", CODE]
    results = out if name == "o.jsonl" else job_of(out) / "results.jsonl"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    chance, sizes = random.Random(1), []
    for _ in range(2):
        with subprocess.Popen([*command, str(out)], env=environment, stdout=subprocess.PIPE) as process:
            until, before = time.monotonic() + 60, results.stat().st_size if results.exists() else 0
            wanted = before + chance.randrange(500, 4000)
            while process.poll() is None and not (results.exists() and results.stat().st_size > wanted):
                assert time.monotonic() < until
                time.sleep(0.003)
            process.send_signal(number)
        sizes.append(results.stat().st_size)
    assert sizes == sorted(sizes)
    last = subprocess.run([*command, str(out)], env=environment, capture_output=True, text=True, check=True)
    assert "from before" in last.stdout
    done = ids(out) if name == "o.jsonl" else sorted(parquet.read_table(out).column("id").to_pylist())
    assert done == sorted(f"r{i}" for i in range(300) if i % 50)
    assert ids(errors_of(out)) == sorted(f"r{i}" for i in range(0, 300, 50))
    assert Path(results).read_bytes().endswith(b"\n")
