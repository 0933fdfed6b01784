"""The benchmarks measure what they say: causes, dead workers, ratios over the right sets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import guards, masks, worker
from benchmarks import masks_report as report
from benchmarks.engines import Refused
from benchmarks.pool import Worker
from benchmarks.report import RESULTS, ROOT, inserted
from structgen.vocabulary import Vocabulary
from tests.support.tables import cases


class FakeEngine:
    """Accepts exactly one text of tokens, then end token 9. The clock below charges each call a price."""

    settings = version = "fake"
    lazy = False
    order: str | None = "schema"
    whitespace: str | None = "spaced"

    def __init__(self, text: list[int]) -> None:
        self.text = text
        self.calls: list[str] = []

    def prepare(self, schema: Any) -> Any:
        self.calls.append("prepare")
        return schema

    def compile(self, prepared: Any) -> None:
        self.calls.append("compile")
        if prepared is False:
            raise Refused("no document at all")

    def start(self) -> None:
        self.calls.append("start")
        self.position = 0

    def mask(self) -> None:
        self.calls.append("mask")

    def allows(self, token: int) -> bool:
        return token == [*self.text, 9][self.position]

    def advance(self, token: int) -> None:
        self.calls.append("advance")
        if token == 7:
            raise RuntimeError("seven")
        self.position += 1


PRICES = {"prepare": 10**9, "compile": 1000, "start": 100, "mask": 10, "advance": 1}


def measured(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, documents: list[list[int]], schema: Any = True
) -> dict[str, Any]:
    monkeypatch.setattr(worker, "clock", lambda: sum(PRICES[call] for call in engine.calls))
    return worker.measure(engine, {"schema": schema, "documents": documents, "end": [9]})


def test_times_are_of_compile_and_first_mask_then_of_each_position(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first mask carries compile and start; a later position its advance and mask; preparing is free."""
    found = measured(FakeEngine([1, 2]), monkeypatch, [[1, 2], [1, 2]])
    assert found == {"first": 1110, "steps": [11, 11, 110, 11, 11], "ends": [2, 5], "accepted": [True, True]}


@pytest.mark.parametrize(
    ("document", "accepted"),
    [([1, 2], True), ([1], False), ([1, 2, 2], False), ([2], False), ([1, 3], False)],
    ids=["the text", "ends early", "goes on", "wrong at once", "wrong later"],
)
def test_a_document_is_accepted_when_every_token_is_and_the_text_may_end(
    document: list[int], accepted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a prefix nor a longer text counts as accepted."""
    assert measured(FakeEngine([1, 2]), monkeypatch, [document])["accepted"] == [accepted]


def test_a_row_without_documents_still_has_a_first_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some rows of the data have a schema only."""
    assert measured(FakeEngine([1]), monkeypatch, []) == {"first": 1110, "steps": [], "ends": [0], "accepted": []}


def test_refusals_and_errors_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an engine declines at compile time is no crash, and a crash is no refusal."""
    assert measured(FakeEngine([1]), monkeypatch, [[1]], schema=False) == {"refused": "no document at all"}
    assert measured(FakeEngine([7]), monkeypatch, [[7]]) == {"error": "RuntimeError: seven"}


@pytest.mark.parametrize(("result", "valid", "causes"), cases("benchmarks/benchmarks", "outcome_names_every_cause"))
def test_outcome_names_every_cause(result: dict[str, Any], valid: list[bool], causes: list[str]) -> None:
    """A schema is right when all of its documents are."""
    assert masks.outcome(result, valid) == causes


def test_an_engine_is_asked_for_the_order_that_the_job_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each job anew; an engine without the choice is left alone."""
    engine = FakeEngine([1])
    for job, wanted in (({"order": "any"}, "any"), ({}, "schema")):
        worker.measure(engine, {"schema": True, "documents": [[1]], "end": [9]} | job)
        assert engine.order == wanted
    worker.measure(engine, {"schema": True, "documents": [[1]], "end": [9], "whitespace": "flexible"})
    assert engine.whitespace == "flexible"
    engine.order = engine.whitespace = None
    worker.measure(engine, {"schema": True, "documents": [[1]], "end": [9], "order": "any", "whitespace": "flexible"})
    assert engine.order is engine.whitespace is None


class OrderWorker:
    """Accepts in any order the documents that begin with a 1."""

    def __init__(self, *, orders: bool = True, dies: bool = False) -> None:
        self.ready = {"orders": orders}
        self.dies = dies
        self.jobs: list[dict[str, Any]] = []

    def run(self, job: dict[str, Any]) -> dict[str, Any]:
        self.jobs.append(job)
        return {"crash": -9} if self.dies else {"accepted": [document[0] == 1 for document in job["documents"]]}


JOB = {"schema": True, "documents": [[1], [2], [1, 2], [1, 3], [4]], "end": [9]}
RESULT = {"accepted": [True, False, False, False, False]}
VALID = [True, True, True, False, False]


def test_only_valid_documents_that_were_refused_are_tried_in_any_order() -> None:
    """The second of them is refused in any order too."""
    fake: Any = OrderWorker()
    found = masks.in_any_order(fake, JOB, RESULT, VALID)
    assert fake.jobs == [JOB | {"order": "any", "documents": [[2], [1, 2]]}]
    assert found == {"in_any_order": [True, False, True, False, False]}
    assert masks.outcome(RESULT | found, VALID) == ["key order", "valid refused"]


def test_engines_without_orders_and_results_without_refusals_are_not_asked_again() -> None:
    """Nor is a schema that was refused whole; and a death on the second way excuses nothing."""
    fake: Any = OrderWorker()
    assert masks.in_any_order(fake, JOB, {"accepted": VALID}, VALID) == {}
    assert masks.in_any_order(fake, JOB, {"refused": "not"}, VALID) == {}
    assert fake.jobs == []
    other: Any = OrderWorker(orders=False)
    assert masks.in_any_order(other, JOB, RESULT, VALID) == {}
    dead: Any = OrderWorker(dies=True)
    assert masks.in_any_order(dead, JOB, RESULT, VALID) == {"in_any_order": RESULT["accepted"]}


WORKER_SCRIPT = cases("benchmarks/benchmarks", "WORKER_SCRIPT", globals())


@pytest.fixture
def echo(tmp_path: Path) -> Iterator[Worker]:
    script = tmp_path / "echo.py"
    script.write_text(WORKER_SCRIPT)
    found = Worker("echo", str(tmp_path), 10.0, program=[str(script)])
    yield found
    found.stop()


def test_a_worker_outlives_crashes_and_hangs(echo: Worker) -> None:
    """After a death by crash or time limit the next job is answered by a new process."""
    assert echo.run("one")["echo"] == "one"  # type: ignore[arg-type]
    assert echo.run("crash") == {"crash": 3}  # type: ignore[arg-type]
    assert echo.run("two")["echo"] == "two"  # type: ignore[arg-type]
    echo._time_limit = 0.2
    assert echo.run("hang") == {"timeout": 0.2}  # type: ignore[arg-type]
    echo._time_limit = 10.0
    assert echo.run("three")["echo"] == "three"  # type: ignore[arg-type]
    assert echo.restarts == 2
    assert all((size or 0) > 1 for size in echo.memory_mb().values())


def test_a_worker_that_never_starts_says_why(tmp_path: Path) -> None:
    """The end of its standard error is in the message."""
    script = tmp_path / "broken.py"
    script.write_text("raise SystemExit('no such engine here')")
    with pytest.raises(RuntimeError, match="no such engine here"):
        Worker("broken", str(tmp_path), 1.0, program=[str(script)]).start()


def row(name: str, **results: dict[str, Any]) -> dict[str, Any]:
    return {"id": name, "results": {engine: {"causes": []} | result for engine, result in results.items()}}


def ran(first: int, *steps: int) -> dict[str, Any]:
    return {"first": first, "steps": list(steps), "ends": [len(steps)], "accepted": []}


def test_the_comparison_is_over_what_both_compile_and_ratios_are_ours_to_theirs() -> None:
    """A schema that one engine refuses moves neither figure."""
    rows = [
        row("a", structgen=ran(1000, 1000, 3000), llguidance=ran(10_000, 8000, 8000)),
        row("b", structgen=ran(3000, 2000), llguidance=ran(10_000, 8000)),
        row("c", structgen=ran(10**9, 10**9), llguidance={"refused": "no", "causes": ["refused"]}),
        row("d", structgen={"timeout": 1.0, "causes": ["timeout"]}, llguidance=ran(10**9, 10**9)),
        row("e", structgen=ran(10**9)),
    ]
    compared = report.comparison(rows)
    assert compared is not None
    assert compared["schemas"] == 2
    judged = {line["what"]: (line["ratio"], line["met"]) for line in compared["judged"]}
    assert judged["mask + advance, p50"] == (0.25, True)
    assert judged["mask + advance, mean"] == (0.25, True)
    assert judged["first mask, mean"] == (0.2, True)


class BlankBefore:
    """A tokenizer of one token for each character that puts a blank before every text, as SentencePiece does."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        return [0x2581, *map(ord, text)]

    def convert_ids_to_tokens(self, tokens: list[int]) -> list[str]:
        return [chr(token) for token in tokens]


def test_documents_have_no_blank_that_the_tokenizer_put_there() -> None:
    """A text that begins with a blank would be refused by every engine."""
    assert worker.encoded(BlankBefore(), "{}") == [ord("{"), ord("}")]


def test_a_missed_target_is_called_missed() -> None:
    """Slower than the bound is `no` in the table."""
    compared = report.comparison([row("a", structgen=ran(5000, 5000), llguidance=ran(9000, 9000))])
    assert compared is not None
    met = {line["what"]: line["met"] for line in compared["judged"]}
    assert met == {
        "mask + advance, p50": False,
        "mask + advance, mean": False,
        "mask + advance, p99": True,
        "mask + advance, p99.9": True,
        "first mask, mean": False,
    }


def test_bounds_over_all_schemas_are_judged() -> None:
    """One of four refused, one too slow; a wrong key order is held against nobody."""
    rows = [
        row("a", structgen=ran(10**9, 10**9)),
        row("b", structgen={"refused": "no", "causes": ["refused"]}),
        row("c", structgen=ran(3 * 10**9, 3 * 10**9)),
        row("d", structgen=ran(1) | {"causes": ["key order"]}),
        row("e", llguidance=ran(1) | {"causes": ["invalid accepted"]}),
    ]
    judged = [(line["figure"], line["met"]) for line in report.bounded(rows)]
    assert judged == [(25.0, False), (0.0, True), (0.0, True), (0.0, True), (6.0, False)]
    assert report.bounded(rows[4:]) == []


def test_statistics_are_in_microseconds() -> None:
    """A thousand values of 1 to 1,000 us."""
    found = report.distribution(np.arange(1, 1001) * 1000, report.STEP_COLUMNS)
    assert found["count"] == 1000
    assert found["mean"] == 500.5
    assert found["worst"] == 1000
    assert found["p50"] == pytest.approx(500, abs=1)
    assert found["p99.9"] == pytest.approx(999, abs=1)


def test_the_report_has_every_engine_every_cause_and_the_setting() -> None:
    """What people read names counts by cause, the machine and the bounds."""
    rows = [
        row("a", structgen=ran(1000, 1000), llguidance=ran(9000, 9000)),
        row("b", structgen={"refused": "uniqueItems", "causes": ["refused"]}, llguidance=ran(1, 1)),
    ]
    about = {"version": "1", "settings": "none", "start_up_s": 1.0, "start_up_rss_mb": 5.0, "end_rss_mb": 9.0}
    engines = [about | {"engine": name} for name in ("structgen", "llguidance")]
    setting = {"data": "x", "schemas": 2, "documents": 0, "vocabulary": 10, "time_limit_s": 1.0, "order": "schema"}
    setting |= {"whitespace": "spaced", "tokenizer": "t", "seed": 7}
    result = json.loads(json.dumps(report.summary(rows, engines, setting)))
    assert result["engines"][0]["counts"]["refused"] == 1
    assert result["engines"][0]["failures"]["refused"] == ["b: uniqueItems"]
    assert result["engines"][1]["slowest"]["first mask"] == {"a": 9.0, "b": 0.0}
    text = report.markdown(result)
    for wanted in (
        "structgen 1",
        "llguidance 1",
        "over the 1 schemas that both compile",
        "| refused, % of schemas | 50 | 0.5 | no |",
        "The slowest schemas of structgen 1",
        "| refused |",
    ):
        assert wanted in text


@pytest.mark.parametrize("name", ["benchmarks.md", "paper.md"])
def test_the_pages_show_the_recorded_results(name: str) -> None:
    """The table in the documentation is the one of `benchmarks/results/maskbench.json`."""
    page = (ROOT / "docs" / "project" / name).read_text(encoding="utf-8")
    recorded = RESULTS / "maskbench.json"
    assert recorded.exists(), "no recorded results: make bench"
    assert inserted(page, report.digest(json.loads(recorded.read_text())), "maskbench") == page


def test_a_page_without_marks_is_refused() -> None:
    """Nothing is written to a page that has no place for it."""
    with pytest.raises(ValueError, match="<!-- maskbench -->"):
        inserted("# A page\n", "text", "maskbench")


def test_engines_that_would_take_hours_are_sampled_unless_told_otherwise() -> None:
    """`--every` changes one engine and leaves the others."""
    options = masks.arguments(["--every", "lmfe=7", "--engine", "lmfe", "--engine", "lmfe"])
    assert options.every == masks.SLOW_ENGINES | {"lmfe": 7}
    assert options.engine == ["lmfe"]
    with pytest.raises(SystemExit):
        masks.arguments(["--every", "lmfe"])


@pytest.mark.slow
def test_llguidance_and_structgen_run_side_by_side_on_real_data(data_folder: Path, tmp_path: Path) -> None:
    """The command measures both, writes both files, and neither engine accepts an invalid document."""
    arguments = ["--stride", "190", "--engine", "structgen", "--engine", "llguidance", "--out", str(tmp_path)]
    data = [
        "--data",
        str(data_folder / "maskbench-dev.jsonl.xz"),
        "--tokenizer",
        str(data_folder / "llama3-tokenizer"),
    ]
    masks.main([*arguments, *data])
    result = json.loads((tmp_path / "maskbench.json").read_text())
    assert result["comparison"]["schemas"] >= 8
    for engine in result["engines"]:
        assert engine["counts"]["invalid accepted"] == engine["counts"]["error"] == engine["counts"]["crash"] == 0
        assert engine["times"]["mask + advance"]["count"] > 100
    assert "structgen" in (tmp_path / "maskbench.md").read_text()


def test_a_tokenisation_of_the_word_at_the_end_is_found_whichever_it_is():
    """As a list of all of them would find it; how many that are is counted."""
    texts = [b"a", b"b", b"ab", b"bab", b"x"]
    vocabulary = Vocabulary.from_tokens([*texts, None], end_ids=[5])
    known = {text: token for token, text in enumerate(texts)}
    assert guards.number_of_routes(known, b"abab") == 5
    for tokens, count in [([4, 2, 2], 2), ([0, 3], 2), ([0, 1, 0, 1], 4), ([2, 0], 0), ([1, 3, 1], 0), ([2, 2, 4], 0)]:
        assert guards.route(vocabulary, tokens, b"abab") == count
