"""What the package prints: foreign texts command no terminal. Covers `console`."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from rich.table import Table
from rich.text import Text

import structgen as sg
from structgen.console import SafeConsole, printable_lines
from structgen.errors import excerpt, printable
from tests.support.tables import cases
from tests.support.terminals import run_on_terminal

COMMANDS = "\x1b[2J\x1b]0;title\x07\x9b31m\r\x08\x7f\u202eabc\u061c\u2028\ud800"


def test_control_characters_are_shown_as_escapes_and_no_others():
    assert printable(COMMANDS) == r"\x1b[2J\x1b]0;title\x07\x9b31m\r\x08\x7f\u202eabc\u061c\u2028\ud800"
    for text in ("a\tb", "né\u00a0日本🙂👩‍👧", "", "x" * 500):
        assert printable(text) == text
    assert printable_lines("a\n\x1bb\n") == "a\n\\x1bb\n"
    assert len(excerpt("\x1b" * 10_000)) <= 200
    assert "\x1b" not in excerpt(COMMANDS * 50)


def test_a_console_keeps_its_own_colours_and_escapes_those_of_texts():
    file = io.StringIO()
    console = SafeConsole(file=file, force_terminal=True, color_system="standard", width=200)
    table = Table("a")
    table.add_row(Text(f"cell {COMMANDS}"))
    console.print(Text(f"red {COMMANDS}\nnext", "red"), table, f"plain {COMMANDS}", highlight=False)
    printed = file.getvalue()
    assert "\x1b[31mred " in printed
    assert printed.count(r"\x1b[2J") == 3
    for code in ("\x1b[2J", "\x1b]", "\x9b", "\r", "\x08", "\x7f", "\u202e", "\u061c", "\u2028", "\ud800"):
        assert code not in printed


class Commanding(BaseHTTPRequestHandler):
    """An endpoint whose errors command the terminal."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({"error": {"message": f"no {COMMANDS[:-1]}"}}).encode()
        self.send_response(500)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


def test_the_message_of_an_endpoint_commands_no_terminal():
    with HTTPServer(("127.0.0.1", 0), Commanding) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(sg.RunError) as failure:
            sg.generate(sg.Remote(f"http://127.0.0.1:{server.server_port}", "m"), "?")
        server.shutdown()
    assert r"\x1b[2J" in str(failure.value)
    assert printable(str(failure.value)) == str(failure.value)


PRINTS = cases("console", "PRINTS", globals())


def test_the_command_line_escapes_for_a_terminal_and_not_for_a_pipe():
    shown = run_on_terminal([sys.executable, "-c", PRINTS]).text
    assert shown.count(r"\x1b[2J") == 2
    assert "\x1b[2J" not in shown
    assert "\x9b" not in shown
    piped = subprocess.run([sys.executable, "-c", PRINTS], capture_output=True, text=True, check=False)
    assert "\x9b31m\nsecond\n" in piped.stdout
    assert r"\x1b[2J" in piped.stderr
