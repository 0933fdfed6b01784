"""One line on a terminal says what takes long, nothing where nobody looks, and nothing is left of it."""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from torch import nn

import structgen as sg
from structgen import waiting
from structgen.batch_jobs import extract_many
from structgen.demo import load_demo
from structgen.testing import byte_vocabulary, scripted
from structgen.waiting import each_waited, muted
from tests.support.tables import cases
from tests.support.terminals import Seen, run_on_terminal, standard_error_on_terminal

CITY = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
SAID = '{"name": "Paris"}'
EXACT = sg.Sampling(1.0, exact=True, seed=0)
CLEAR = "\r\x1b[K"
COMMAND = [sys.executable, "-c", "from structgen.cli import app; app()"]


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work is told from its beginning, and often."""
    monkeypatch.setattr(waiting, "DELAY", 0.0)
    monkeypatch.setattr(waiting, "INTERVAL", 0.002)


def seen(patch: pytest.MonkeyPatch, work: Callable[[], object]) -> Seen:
    """What a terminal was shown while some work was done."""
    with standard_error_on_terminal(patch) as written:
        work()
    return Seen(written[0], 0.0)


@pytest.fixture(autouse=True)
def no_kept_vocabulary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Vocabularies are read anew."""
    monkeypatch.setenv("STRUCTGEN_CACHE_DIR", str(tmp_path / "kept"))


def slow_model(seconds: float = 0.01) -> sg.Model:
    """A model each of whose forward passes takes a while."""
    model = scripted(SAID)
    module: nn.Module = model.module
    module.register_forward_pre_hook(lambda *_: time.sleep(seconds))
    return model


def slow_ids(seconds: float = 0.2) -> Iterator[int]:
    """An id that takes a while to come: the demo's vocabulary itself is read in some milliseconds."""
    time.sleep(seconds)
    yield 0


def test_what_takes_longer_than_the_delay_is_told_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "INTERVAL", 0.01)
    monkeypatch.setattr(waiting, "DELAY", 0.2)

    def work() -> None:
        with waiting.waiting("thinking hard"):
            time.sleep(0.5)

    shown = seen(monkeypatch, work)
    assert shown.works == ["thinking hard"]
    assert shown.text.startswith(CLEAR)
    assert shown.text.endswith(CLEAR)


def test_what_is_quick_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> None:
        with waiting.waiting("a moment"):
            time.sleep(0.05)

    assert seen(monkeypatch, work).text == ""


@pytest.mark.usefixtures("at_once")
def test_the_innermost_work_is_told_and_then_the_outer_one_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> None:
        with waiting.waiting("outer"):
            with waiting.waiting("inner"):
                time.sleep(0.2)
            with muted():
                time.sleep(0.2)
            time.sleep(0.2)

    shown = seen(monkeypatch, work)
    assert shown.works == ["inner", "outer"] or shown.works == ["outer", "inner"]
    assert shown.text.rindex("outer") > shown.text.rindex("inner")


@pytest.mark.usefixtures("at_once")
def test_nobody_is_told_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    before = threading.active_count()
    with waiting.waiting("unseen"):
        assert threading.active_count() == before
        time.sleep(0.05)
    assert pipe.getvalue() == ""


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(("name", "value"), [("STRUCTGEN_QUIET", "1"), ("TERM", "dumb")])
def test_a_terminal_can_be_left_alone(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    def work() -> None:
        monkeypatch.setenv(name, value)
        with waiting.waiting("unwanted"):
            time.sleep(0.05)

    assert seen(monkeypatch, work).text == ""


@pytest.mark.usefixtures("at_once")
def test_work_of_other_threads_is_told_only_where_it_asks_for_that(monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> None:
        for at_once in (False, True):
            thread = threading.Thread(target=block, args=(at_once,))
            thread.start()
            thread.join()

    def block(at_once: bool) -> None:
        with waiting.waiting(f"at once: {at_once}", at_once=at_once):
            time.sleep(0.2)

    assert seen(monkeypatch, work).works == ["at once: True"]


@pytest.mark.usefixtures("at_once")
def test_an_error_ends_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> None:
        with pytest.raises(KeyError):
            fails()

    @waiting.waiting("failing")
    def fails() -> None:
        time.sleep(0.2)
        raise KeyError

    shown = seen(monkeypatch, work)
    assert shown.works == ["failing"]
    assert shown.text.endswith(CLEAR)


@pytest.mark.usefixtures("at_once")
def test_a_bar_of_transformers_keeps_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    tqdm = pytest.importorskip("tqdm")

    def work() -> None:
        bar = tqdm.tqdm(total=2, file=io.StringIO())
        with waiting.waiting("loading"):
            time.sleep(0.2)
        bar.close()

    assert seen(monkeypatch, work).text == ""


@pytest.mark.usefixtures("at_once")
def test_each_item_is_waited_for_and_none_while_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow() -> Any:
        for number in range(2):
            time.sleep(0.2)
            yield number

    def work() -> None:
        for number in each_waited(slow(), "fetching"):
            sys.stderr.write(f"<{number}")
            sys.stderr.flush()
            time.sleep(0.2)
            sys.stderr.write(">")

    shown = seen(monkeypatch, work)
    assert "fetching" in shown.text
    assert "<0>" in shown.text
    assert "<1>" in shown.text


class SlowSchema(dict[str, Any]):
    """A schema that takes a while to tell its keywords."""

    def items(self) -> Any:
        time.sleep(0.2)
        return super().items()


class SlowMachine:
    """The text "a", by a machine that takes a while to answer."""

    start = 0

    def step(self, state: int, byte: int) -> int | None:
        return 1 if state == 0 and byte == ord("a") else None

    def accepts(self, state: int) -> bool:
        time.sleep(0.2)
        return state == 1


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda model: sg.generate(model, "x", CITY), "generating, N tokens"),
        (lambda model: sg.generate(model, ["x", "y"], CITY), "generating, N tokens, N of N done"),
        (lambda model: sg.generate(model, "x", CITY, beams=2), "generating, N tokens"),
        (lambda model: sg.generate(model, "x", CITY, sampling=EXACT), "generating, N tokens"),
        (lambda model: next(sg.stream(model, "x")), "reading the prompt"),
        (lambda model: extract_many(model, ["x", "y"], CITY, batch_size=1), "N done, N failed"),
        (lambda model: sg.Vocabulary.from_tokenizer(load_demo()[1], end_ids=slow_ids()), "reading the vocabulary"),
        (lambda model: sg.JsonSchema(SlowSchema(type="null")).compile(byte_vocabulary()), "compiling the constraint"),
        (lambda model: sg.Machine(SlowMachine()).compile(byte_vocabulary()), "compiling the constraint"),
    ],
)  # fmt: skip
def test_every_call_that_may_take_long_says_what_it_does(
    monkeypatch: pytest.MonkeyPatch, call: Callable[[sg.Model], object], told: str
) -> None:
    model = slow_model(0.03)
    shown = seen(monkeypatch, lambda: call(model))
    assert told in shown.works
    assert shown.text.endswith(CLEAR)


@pytest.mark.usefixtures("at_once")
def test_a_stream_says_nothing_between_its_events(monkeypatch: pytest.MonkeyPatch) -> None:
    model = slow_model()

    def work() -> None:
        events = iter(sg.stream(model, "x", CITY))
        next(events)
        sys.stderr.write("EVENTS")
        for _ in events:
            time.sleep(0.01)

    assert seen(monkeypatch, work).text.endswith("EVENTS")


@pytest.mark.usefixtures("at_once")
def test_a_bar_mutes_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    model = slow_model()
    shown = seen(monkeypatch, lambda: extract_many(model, ["x", "y"], CITY, progress=True))
    assert "2 done, 0 failed" in shown.text
    assert not {"N done, N failed", "no input done yet"} & {*shown.works}


@pytest.mark.usefixtures("at_once")
def test_a_model_that_is_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module, tokenizer = load_demo()
    module.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert any("loading" in work for work in seen(monkeypatch, lambda: sg.load(tmp_path)).works)


@pytest.mark.slow
@pytest.mark.parametrize(("line", "told"), cases("waiting", "the_import_of_torch_is_told"))
def test_the_import_of_torch_is_told(line: str, told: str) -> None:
    """It takes seconds, and comes where a name is first used that needs it."""
    code = f"import sys, structgen; from structgen import waiting; waiting.DELAY = waiting.INTERVAL = 0.01; {line}"
    assert run_on_terminal([sys.executable, "-c", code]).works == [told]


@pytest.mark.usefixtures("at_once")
def test_a_gguf_file_that_is_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp", reason="needs llama-cpp-python")
    pytest.importorskip("gguf", reason="needs the package gguf, to write a file")
    from tests.support.gguf_files import write_gguf

    file = write_gguf(tmp_path / "demo.gguf", *load_demo(), "{{ messages[0]['content'] }}")
    assert any("demo.gguf" in work for work in seen(monkeypatch, lambda: sg.load(file, n_threads=1)).works)


@pytest.mark.usefixtures("at_once")
def test_the_line_costs_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = []
    seen(monkeypatch, lambda: answers.append(sg.generate(slow_model(), "x", CITY)))
    assert answers == [{"name": "Paris"}]


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "last"), cases("waiting", "no_command_is_silent_for_long"))
def test_no_command_is_silent_for_long(arguments: list[str], last: str, tmp_path: Path) -> None:
    """Two seconds on an idle machine. Tests share theirs, and Python's own start is silent: so the bound is wider."""
    (tmp_path / "inputs.jsonl").write_text('{"text": "Paris"}\n{"text": "Rome"}\n')
    (tmp_path / "schema.json").write_text('{"type": "object", "properties": {"name": {"type": "string"}}}')
    files = {"INPUTS": str(tmp_path / "inputs.jsonl"), "SCHEMA": str(tmp_path / "schema.json")}
    shown = run_on_terminal([*COMMAND, *(files.get(each, each) for each in arguments)], until=last)
    assert shown.silence < 8
    assert shown.works
