"""What a client's session has asked for, turn by turn, for the people who run it."""

from __future__ import annotations

import html
import json
from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Any

from structgen.server.observing import Exchange, request_id
from structgen.server.wire import AnyRequest

HEADERS = ("x-structgen-session", "session-id", "x-session-id", "x-claude-code-session-id")
"""Headers in which clients name their session."""
SESSIONS, TURNS = 64, 500
"""How many sessions are remembered, and how many turns of each."""
COLUMNS = (
    "request", "status", "prompt_tokens", "cached_tokens", "tokens", "forced_tokens", "rolled_back_tokens",
    "refused_tokens", "finish", "tools", "calls", "ignored", "left_out", "clamped", "unmasked", "code", "all_ms",
)  # fmt: skip
"""What the page shows of a turn."""


def session_of(request: AnyRequest, headers: Mapping[str, str]) -> str | None:
    """Returns the name of a request's session: of a header, or `prompt_cache_key`; None if it names none."""
    named = [headers[each] for each in HEADERS if each in headers]
    named += [request.prompt_cache_key] if isinstance(request.prompt_cache_key, str) else []
    return next((each for each in named if request_id(each) == each), None)


class Sessions:
    """The last turns of the last sessions, in memory."""

    def __init__(self) -> None:
        self._turns: OrderedDict[str, deque[dict[str, Any]]] = OrderedDict()

    def note(self, exchange: Exchange, record: Mapping[str, object]) -> None:
        """Adds the turn that a line of the log is about."""
        if exchange.session is None:
            return
        turns = self._turns.setdefault(exchange.session, deque(maxlen=TURNS))
        self._turns.move_to_end(exchange.session)
        turns.append({name: record[name] for name in COLUMNS if name in record})
        while len(self._turns) > SESSIONS:
            self._turns.popitem(last=False)

    def turns(self, session: str) -> list[dict[str, Any]] | None:
        """Returns the turns of a session; None if it is not known."""
        return [*self._turns[session]] if session in self._turns else None


def page(session: str, turns: list[dict[str, Any]]) -> str:
    """Returns the page of a session: a table with a row for each turn."""
    names = [name for name in COLUMNS if any(name in turn for turn in turns)]
    rows = [[_cell(turn.get(name)) for name in names] for turn in turns]
    head = "".join(f"<th>{name.replace('_', ' ')}</th>" for name in names)
    body = "\n".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    title = f"Session {html.escape(session)}"
    style = "body{font:14px sans-serif}td,th{padding:2px 8px;text-align:left;border-bottom:1px solid #ddd}"
    top = f'<!doctype html><meta charset="utf-8"><title>{title}</title><style>{style}</style><h1>{title}</h1>'
    return f"{top}<p>{len(turns)} turns</p><table><tr>{head}</tr>\n{body}</table>"


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
    return html.escape(text)
