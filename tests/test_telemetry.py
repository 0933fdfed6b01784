"""Logs and spans: what began and ended, with counts, and no text but at DEBUG.

Covers `decoding.ticket`.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from pydantic import AfterValidator, BaseModel

import structgen as sg
from structgen import telemetry
from structgen.decoding.request import prepare
from structgen.demo import load_demo
from structgen.given_prompts import GivenPrompts
from structgen.testing import scripted
from tests.support.tables import cases

SECRET = "Rumpelstiltskin"
SCHEMA = cases("telemetry", "SCHEMA")
SAYS = f'{{"name": "{SECRET}", "n": 1}}'
PROMPT = """Extract the book: title, year.
Text: The Silent Harbour by Elena Novak was published in 1987.
JSON: """
BOOK = cases("telemetry", "BOOK")


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    """The spans that the real SDK has received."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry.instrument(provider)
    yield exporter
    telemetry.uninstrument()
    provider.shutdown()


def rolled_back(schema: Any = BOOK) -> sg.Generation[Any]:
    """A run of the bundled model that a banned word sends back once."""
    model, tokenizer = load_demo()
    run: sg.Generation[Any] = sg.generate(
        model, PROMPT, schema, tokenizer=tokenizer, details=True, banned=["Silent"], limits=sg.Limits(40)
    )
    return run


def named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.name == f"structgen.{name}"]


def unseen(**properties: Any) -> dict[str, Any]:
    """A schema that no test has compiled before."""
    return {**SCHEMA, "title": f"{id(properties)}", "properties": {**SCHEMA["properties"], **properties}}  # type: ignore[dict-item]


def test_a_run_is_a_span_with_the_tokens_that_it_used(spans: InMemorySpanExporter) -> None:
    run = rolled_back()
    (span,) = named(spans, "generate")
    known = dict(span.attributes or {})
    assert known["gen_ai.usage.input_tokens"] == run.prompt_tokens > 0
    assert known["gen_ai.usage.output_tokens"] == len(run.token_ids)
    assert known["gen_ai.response.finish_reasons"] == (run.finish,)
    assert known["structgen.forced_tokens"] == run.stats.fast_forwarded > 0
    assert known["structgen.rollbacks"] == run.stats.rollbacks == 1
    assert known["structgen.rolled_back_tokens"] == run.stats.rolled_back
    assert known["structgen.forwards"] == run.stats.forwards
    assert (known["structgen.rows"], known["structgen.failed"]) == (1, 0)
    assert span.end_time is not None
    assert span.start_time is not None
    assert span.end_time > span.start_time
    assert span.status.status_code == StatusCode.UNSET


def test_a_schema_is_compiled_once_and_that_is_a_span(spans: InMemorySpanExporter) -> None:
    schema = unseen(extra={"type": "boolean"})
    model = scripted(SAYS)
    for _ in range(2):
        sg.generate(model, "p", schema)
    (span,) = named(spans, "compile")
    known = dict(span.attributes or {})
    assert known["structgen.constraint"] == "JsonSchema"
    assert int(known["structgen.grammar_bytes"]) > 0  # type: ignore[arg-type]
    with pytest.raises(sg.UnsatisfiableSchema):
        sg.generate(model, "p", {"type": "integer", "minimum": 3, "maximum": 2})
    assert named(spans, "compile")[-1].status.status_code == StatusCode.ERROR
    assert dict(named(spans, "compile")[-1].attributes or {})["error.type"] == "UnsatisfiableSchema"


def test_a_span_lies_within_the_one_of_the_caller(spans: InMemorySpanExporter) -> None:
    provider = TracerProvider()
    with provider.get_tracer("app").start_as_current_span("request") as outer:
        sg.generate(scripted(SAYS), "p", SCHEMA)
    (span,) = named(spans, "generate")
    assert span.parent is not None
    assert span.parent.span_id == outer.get_span_context().span_id


def test_streams_beams_batches_and_open_batches_are_spans_too(spans: InMemorySpanExporter) -> None:
    model = scripted(SAYS)
    for _ in sg.stream(model, "p", SCHEMA):
        pass
    abandoned = sg.stream(model, "p", SCHEMA)
    next(abandoned)
    abandoned.close()  # type: ignore[attr-defined]
    sg.generate(model, "p", SCHEMA, beams=2)
    sg.generate(model, ["p", "q"], SCHEMA)
    told = [dict(span.attributes or {}) for span in named(spans, "generate")]
    assert [each["structgen.rows"] for each in told] == [1, 1, 1, 2]
    assert told[1]["gen_ai.response.finish_reasons"] == ("left",)
    spans.clear()
    request = prepare(model, GivenPrompts.of("p"), SCHEMA)
    with request.submit(record=False) as ticket:
        ticket.wait()
    (span,) = named(spans, "generate")
    assert dict(span.attributes or {})["gen_ai.usage.output_tokens"] == request.sessions[0].token_count


def test_nothing_in_a_span_or_a_record_at_info_quotes_a_text(
    spans: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    class Person(BaseModel):
        name: Annotated[str, AfterValidator(lambda name: _refuse(name))]
        n: int

    with caplog.at_level(logging.INFO, "structgen"):
        with pytest.raises(sg.RunError):
            sg.generate(scripted(SAYS), SECRET, Person, limits=sg.Limits(validations=1))
        sg.generate(scripted(SAYS), SECRET, SCHEMA, limits=sg.Limits(30), details=True)
        with pytest.raises(sg.RunError):
            sg.generate(scripted(SAYS), SECRET, SCHEMA, limits=sg.Limits(25, strict=True))
    told = [span.to_json() for span in spans.get_finished_spans()]
    told += [f"{record.getMessage()} {record.__dict__}" for record in caplog.records]
    assert len(told) > 6
    assert not [each for each in told if SECRET[:8] in each]
    failed = named(spans, "generate")[0]
    assert failed.status.status_code == StatusCode.ERROR
    assert dict(failed.attributes or {})["error.type"] == "ValidationFailed"


def _refuse(name: str) -> str:
    raise ValueError(f"{name} is secret")


def test_the_log_tells_what_began_and_ended_and_at_debug_what_was_taken_back(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "structgen"):
        rolled_back({**BOOK, "title": "never compiled before"})
    told = [(record.name, record.levelname, record.getMessage().split(":")[0]) for record in caplog.records]
    assert [(name, message.split(" after")[0]) for name, _, message in told] == [
        ("structgen.compile", "compile begins"),
        ("structgen.compile", "compile ends"),
        ("structgen.generate", "generate begins"),
        ("structgen.generate", "generate ends"),
    ]
    assert {level for _, level, _ in told} == {"INFO"}
    assert caplog.records[-1].structgen["structgen.rollbacks"] == 1  # type: ignore[attr-defined]
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "structgen"):
        rolled_back()
        sg.generate(scripted(SAYS), "p", SCHEMA, limits=sg.Limits(max_characters=3), details=True)
    told_back = [record.getMessage() for record in caplog.records if record.name == "structgen.rollback"]
    assert any("banned word 'Silent'" in message for message in told_back)
    assert any("max_characters refuses token" in message for message in told_back)


def test_what_a_beam_does_not_take_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "structgen"):
        sg.generate(scripted('"ab"'), "p", {"type": "string", "maxLength": 4}, beams=2, banned=["ab"], details=True)
    told = [record.getMessage() for record in caplog.records if record.name == "structgen.rollback"]
    assert any(message.startswith("not taken as token") and "banned word 'ab'" in message for message in told)


@pytest.mark.slow
def test_nobody_who_does_not_ask_is_told_anything() -> None:
    """Nor is OpenTelemetry imported."""
    code = f"""
import sys, structgen as sg
from structgen.testing import scripted
sg.generate(scripted({SAYS!r}), "p", {SCHEMA!r}, guards=[], limits=sg.Limits(60))
print([name for name in sys.modules if name.startswith("opentelemetry.sdk")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_spans_without_the_package_are_refused_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(sg.OptionError, match=r"structgen-llm\[otel\]"):
        telemetry.instrument()


def test_an_operation_ends_once(spans: InMemorySpanExporter) -> None:
    operation = telemetry.Operation("thing", {"a": 1})
    operation.end({"b": ["x"]})
    operation.end({"b": ["y"]}, ValueError("no"))
    (span,) = named(spans, "thing")
    assert json.loads(span.to_json())["attributes"] == {"a": 1, "b": ["x"]}
