"""The requests of the page about curl, sent to a server as the page has them."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path

import structgen as sg
from structgen.server import Settings
from tests.support.serving import served

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "curl.md"
REQUEST = re.compile(r"curl http://127.0.0.1:8000(\S+) .*?-d '(.*?)'\n```", re.DOTALL)


def test_the_requests_of_the_page_are_answered_as_it_says() -> None:
    """An object, a text of a pattern, and a call."""
    answers = []
    with served(sg.load("demo"), Settings(name="demo")) as server:
        for path, body in REQUEST.findall(PAGE.read_text("utf-8")):
            asked = urllib.request.Request(server.url + path, body.encode(), {"Content-Type": "application/json"})
            with urllib.request.urlopen(asked) as answer:
                answers.append(json.load(answer)["choices"][0])
    person, number, call = answers
    assert f"\n{person['message']['content']}\n" in PAGE.read_text("utf-8")
    assert re.fullmatch("[0-9]{3}", number["text"])
    (written,) = call["message"]["tool_calls"]
    assert json.loads(written["function"]["arguments"]) == {"city": "Oslo"}
