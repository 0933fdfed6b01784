"""What is refused before a request is read: pages of other sites, bodies that are not JSON, lengths that contradict."""

from __future__ import annotations

import ipaddress
import re

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from structgen.errors import quoted
from structgen.server.observing import LONGEST, Exchange
from structgen.server.problems import Problem
from structgen.server.settings import Settings

_HOST = re.compile(r"(\[[\da-f]*:[\da-f:.]*\]|[\w.-]+)(:\d{0,5})?", re.IGNORECASE)
_ADDRESS = re.compile(r"https?://([^/]*)(/.*)?", re.IGNORECASE | re.DOTALL)
_JSON = re.compile(r"application/([\w.-]+\+)?json", re.IGNORECASE)
MESSAGES = "/v1/messages"
"""The route of Anthropic's interface. Its errors have another form, and its clients read the id from `request-id`."""


def is_local(host: str) -> bool:
    """Is a server at this address reached by this machine alone?"""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host in ("localhost", "") or host.endswith(".localhost")
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def answer_with(problem: Problem, path: str, **headers: str) -> Response:
    """Returns the answer that tells a client of this route a problem."""
    body = problem.message_body if path.startswith(MESSAGES) else problem.body
    return JSONResponse(body, problem.status, headers={**(problem.headers or {}), **headers})


def with_origin_form(scope: Scope) -> Scope:
    """A request with its target as a path, also if a client sent a whole address (RFC 9112, section 3.2.2).

    The host of the address takes the place of the header's.
    """
    address = _ADDRESS.fullmatch(scope["path"]) if scope["type"] == "http" else None
    if address is None:
        return scope
    headers = [(name, value) for name, value in scope["headers"] if name != b"host"]
    path = address[2] or "/"
    own = {"path": path, "raw_path": path.encode(), "headers": [*headers, (b"host", address[1].encode("latin-1"))]}
    return {**scope, **own}


class Gate:
    """Lets requests through that may be read.

    A page of any site can send a browser's request to a server on the browser's machine. It cannot send JSON without
    asking first, which `Settings.cors_origins` answers. It can lead a name of its own to this machine and so be of the
    same origin; therefore a server without a key is called by names of this machine, or those in `Settings.hosts`.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app, self._settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        problem = self._problem(scope) if scope["type"] == "http" else None
        if problem is None:
            await self._app(scope, receive, send)
        else:
            exchange = Exchange(scope["state"]["id"], scope["path"][:LONGEST])
            exchange.failed(problem)
            exchange.log()
            await answer_with(problem, scope["path"], Connection="close")(scope, receive, send)

    def _problem(self, scope: Scope) -> Problem | None:
        headers = Headers(scope=scope)
        if "transfer-encoding" in headers and "content-length" in headers:
            return Problem(400, "Content-Length beside Transfer-Encoding: send one of them", "invalid_request")
        if not self._may_be_called(str((scope.get("server") or ("",))[0]), headers.get("host")):
            told = f"{quoted(headers['host'])} is no name of this machine"
            remedy = "start the server with --allow-host (Settings.hosts) to be called so, or with a key"
            return Problem(403, f"{told}: {remedy}", "host_not_allowed")
        kinds = [kind.partition(";")[0].strip() for kind in headers.getlist("content-type")]
        if scope["method"] == "POST" and not (kinds and all(map(_JSON.fullmatch, kinds))):
            kind = quoted(", ".join(kinds)) if any(kinds) else "of no type"
            told = f"the body is {kind}: send it with Content-Type: application/json"
            return Problem(415, told, "unsupported_media_type")
        packed = [each for each in headers.getlist("content-encoding") if each.strip().lower() not in ("", "identity")]
        if packed:
            told = f"the body is packed ({quoted(', '.join(packed))}): send it without Content-Encoding"
            return Problem(415, told, "unsupported_media_type")
        return None

    def _may_be_called(self, address: str, host: str | None) -> bool:
        """May a client that reached the server at this address call it by this name?"""
        hosts = self._settings.hosts
        if self._settings.api_key is not None or host is None or "*" in hosts or not address or not is_local(address):
            return True
        named = _HOST.fullmatch(host)
        name = named[1].strip("[]").rstrip(".").lower() if named is not None else ""
        return name != "" and (is_local(name) or name in map(str.lower, hosts))
