"""The web page of `examples/web`: a real server, and the events that a browser would get."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

uvicorn = pytest.importorskip("uvicorn")
pytest.importorskip("sse_starlette")

APP = Path(__file__).resolve().parent.parent / "examples" / "web" / "app.py"
TEXT = "Tom Berg ordered 3 lamps and 2 chairs by express."
ORDER = {
    "customer": "Tom Berg",
    "items": [{"product": "lamp", "quantity": 3}, {"product": "chair", "quantity": 2}],
    "express": True,
}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of the example's server."""
    server = uvicorn.Server(uvicorn.Config(run_path(str(APP))["app"], port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


def events(url: str) -> list[tuple[str, str]]:
    """Name and data of each event, until the server ends the answer."""
    with urlopen(url, timeout=60) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        blocks = answer.read().decode().replace("\r\n", "\n").strip().split("\n\n")
    pairs = [dict(line.split(": ", 1) for line in block.splitlines() if line[0] != ":") for block in blocks]
    return [(pair["event"], pair["data"]) for pair in pairs if pair]


def test_events_come_only_when_the_object_has_changed_and_end_with_the_whole(address: str) -> None:
    """Each partial object differs from the one before; the last one is the order."""
    told = events(f"{address}/orders?{urlencode({'text': TEXT})}")
    partials = [data for name, data in told[:-1] if name == "partial"]
    assert len(partials) == len(told) - 1 >= 5
    assert all(partials[i] != partials[i + 1] for i in range(len(partials) - 1))
    assert told[-1][0] == "done"
    assert json.loads(told[-1][1]) == json.loads(partials[-1]) == ORDER


def test_what_cannot_be_read_is_an_event_that_says_why(address: str) -> None:
    """A text beyond the model's context is refused before anything runs."""
    ((name, data),) = events(f"{address}/orders?{urlencode({'text': 'x' * 5000})}")
    assert name == "failed"
    assert "tokens" in data


def test_the_page_listens_to_these_events(address: str) -> None:
    """The page is served, and has a listener for each name of an event."""
    with urlopen(address) as answer:
        page = answer.read().decode()
    assert all(f'addEventListener("{name}"' in page for name in ("partial", "done", "failed"))
