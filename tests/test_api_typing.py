"""What a type checker knows of `generate`, asked of mypy itself."""

from __future__ import annotations

import pytest

HEAD = """
from collections.abc import AsyncIterator, Mapping
from pydantic import BaseModel
from typing import Any
from typing_extensions import assert_type
import structgen as sg

class City(BaseModel):
    name: str

model: sg.Model = sg.load("x")
chat = [{"role": "user", "content": "x"}]
"""

CLAIMS = [
    ('sg.generate(model, "p", schema=City)', "City"),
    ('sg.generate(model, ["p", "q"], schema=City)', "list[City]"),
    ('sg.generate(model, "p", schema=City, details=True)', "sg.Generation[City]"),
    ('sg.generate(model, ["p"], schema=City, details=True)', "list[sg.Generation[City]]"),
    ('sg.generate(model, "p", City, details=True).value.name', "str"),
    ("sg.generate(model, [1, 2], schema=City)", "City"),
    ("sg.generate(model, [[1], [2]], schema=City)", "list[City]"),
    ("sg.generate(model, chat, schema=City)", "City"),
    ("sg.generate(model, [chat, chat], schema=City)", "list[City]"),
    ('sg.generate(model, "p")', "str"),
    ('sg.generate(model, ["p"])', "list[str]"),
    ('sg.generate(model, "p", schema=sg.Choice(["a"]))', "str"),
    ('sg.generate(model, ["p"], schema=sg.Regex("a"), details=True)', "list[sg.Generation[str]]"),
    ('sg.generate(model, "p", schema=list[int])', "list[int]"),
    ('sg.generate(model, "p", schema=sg.Sequence(sg.Text(until="x"), City, ["a", "b"]))', "str"),
    ('sg.generate(model, ["p"], schema=sg.Union(City, sg.Lark("start: A")), details=True)', "list[sg.Generation[str]]"),
    ('sg.generate(model, "p", schema=sg.Repeat({"type": "null"}, 1, 3, separator=";"))', "str"),
    ('sg.generate(model, "p", City, thinking=True)', "City"),
    ('sg.generate(model, "p", City, thinking=sg.Thinking(max_tokens=9), details=True).thinking', "str | None"),
    ('next(sg.stream(model, "p", City, thinking=True)).thinking', "bool"),
    ('sg.generate(model, "p", schema={"type": "object"})', "Any"),
    ('sg.generate(model, "p", schema=sg.JsonSchema(City))', "Any"),
    ('sg.generate(model, "p", City, sampling=sg.Sampling(top_k=3), limits=sg.Limits(9))', "City"),
    ('sg.generate(model, ["p"], City, limits=[sg.Limits(9)], batch_size=4, fast_forward=False)', "list[City]"),
    ('next(sg.stream(model, "p", City)).partial', "City | None"),
    ('next(sg.stream(model, "p")).result', "sg.Generation[str] | None"),
    ('sg.astream(model, ["p"], City)', "AsyncIterator[sg.Event[City]]"),
    ('sg.generate(model, "p", City, details=True).fields["/name"].values', "Mapping[str, float]"),
]
MISTAKES = [
    'sg.generate(model, "p", schema=City, samplin=3)',
    "sg.generate(model, 5, schema=City)",
    "sg.nothing",
    "sg.Sequence(5)",
    "sg.Machine('no machine')",
]


@pytest.mark.slow
def test_the_static_type_of_every_form_of_generate(tmp_path):
    """Each claim is one `assert_type`; mypy --strict finds nothing but the mistakes at the end."""
    mypy = pytest.importorskip("mypy.api", reason="mypy is absent")
    lines = [f"assert_type({expression}, {kind})" for expression, kind in CLAIMS]
    file = tmp_path / "claims.py"
    file.write_text("\n".join([HEAD, *lines, *MISTAKES]) + "\n")
    first_mistake = file.read_text().count("\n") - len(MISTAKES) + 1
    report, trouble, _ = mypy.run(["--strict", "--no-error-summary", "--no-pretty", str(file)])
    assert trouble == ""
    wrong = {int(line.split(":")[1]) for line in report.splitlines() if "claims.py" in line and ": error:" in line}
    assert wrong == set(range(first_mistake, first_mistake + len(MISTAKES))), report
