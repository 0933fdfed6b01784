"""The HTTP client that all requests with keys are made with."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

from structgen.http_client import httpx


class Elsewhere(BaseHTTPRequestHandler):
    """Leads each request to another path, and notes it."""

    came: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.came.append(self.path)
        self.send_response(307)
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Quiet."""


def test_a_redirect_is_not_followed():
    with HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        answer = httpx.get(f"http://127.0.0.1:{server.server_port}/", headers={"Authorization": "Bearer key"})
    assert answer.has_redirect_location
    assert Elsewhere.came == ["/"]
