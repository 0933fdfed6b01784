"""From the news of a run to the body and the events of `/v1/messages`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from secrets import token_hex
from typing import Any

from structgen.chat.parser import ArgumentsPiece, CallBegun, CallEnded, TextPiece, ThoughtPiece, TurnEvent
from structgen.server.answers import Answer, Body, Event
from structgen.server.asking import Asked
from structgen.server.messages_wire import MessagesRequest
from structgen.server.problems import Problem
from structgen.tools.tool import new_id

_DELTAS = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}
"""The type of a block -> the type of its pieces, and the field that has the text in both."""
SIGNATURE = "structgen"
"""Of each block of thinking: clients send it back, and nobody reads it."""


class MessageAnswer(Answer):
    """The answer of `/v1/messages`: blocks, and events that tell them."""

    def __init__(self, asked: Asked, request: MessagesRequest) -> None:
        super().__init__(asked)
        self._head = {"id": f"msg_{token_hex(12)}", "type": "message", "role": "assistant", "model": request.model}
        self._text, self._content, self._open = self._texts[0], list[Body](), False
        self._cut: Body | None = None  # the block of a call that a limit has cut off
        self._shows_thoughts = request.thinking is None or request.thinking.display != "omitted"

    def _pieces(self, index: int, event: TurnEvent) -> Iterator[Body]:
        if isinstance(event, (TextPiece, ThoughtPiece)):
            kind = "thinking" if isinstance(event, ThoughtPiece) else "text"
            delta, field = _DELTAS[kind]
            if not self._open or self._content[-1]["type"] != kind:
                own = {"signature": ""} if kind == "thinking" else {}
                yield from self._begin({"type": kind, field: "", **own})
            if kind == "text" or self._shows_thoughts:
                self._content[-1][field] += event.text
                yield self._delta({"type": delta, field: event.text})
        elif isinstance(event, CallBegun):
            self._text.add(event, None)
            yield from self._begin({"type": "tool_use", "id": f"toolu_{new_id()}", "name": event.name, "input": {}})
        elif isinstance(event, ArgumentsPiece):
            yield self._delta({"type": "input_json_delta", "partial_json": event.text})
        elif isinstance(event, CallEnded):
            self._content[-1]["input"] = json.loads(event.arguments, parse_float=_finite)
            yield from self._close()

    def _begin(self, block: Body) -> Iterator[Body]:
        yield from self._close()
        self._content.append(block)
        self._open = True
        yield {"type": "content_block_start", "index": len(self._content) - 1, "content_block": dict(block)}

    def _delta(self, delta: Body) -> Body:
        return {"type": "content_block_delta", "index": len(self._content) - 1, "delta": delta}

    def _close(self) -> Iterator[Body]:
        """Ends the block that is open."""
        if self._open:
            if self._content[-1]["type"] == "thinking":
                self._content[-1]["signature"] = SIGNATURE
                yield self._delta({"type": "signature_delta", "signature": SIGNATURE})
            yield {"type": "content_block_stop", "index": len(self._content) - 1}
        self._open = False

    def _last_pieces(self, index: int) -> Iterable[Body]:
        if self._open and self._content[-1]["type"] == "tool_use":  # its input is never whole
            self._cut = self._content[-1]  # the answer leaves it out, a stream has started it
        yield from self._close()
        end = {**self._end, "container": None}
        yield {"type": "message_delta", "delta": end, "usage": self._usage, "structgen": self._text.about}

    def opening(self) -> Iterator[Event]:
        read = len(self._asked.turns[0].session.prompt)
        usage = {**self._usage, "input_tokens": read, "service_tier": "standard"}
        begun: Body = {**self._head, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        return self.events([{"type": "message_start", "message": begun}])

    def events(self, pieces: Iterable[Body]) -> Iterator[Event]:
        """Yields an event for each piece, with its name."""
        return ({"event": piece["type"], "data": json.dumps(piece, ensure_ascii=False)} for piece in pieces)

    def closing(self) -> Iterator[Event]:
        return self.events([{"type": "message_stop"}])

    def failure(self, problem: Problem) -> Iterator[Event]:
        return self.events([problem.message_body])

    @property
    def body(self) -> Body:
        about = {"usage": {**self._usage, "service_tier": "standard"}, "structgen": self._text.about}
        content = [block for block in self._content if block is not self._cut]
        return {**self._head, "content": content, **self._end, "container": None, **about}

    @property
    def _end(self) -> Body:
        """Why the text ends."""
        text = self._text
        assert text.generation is not None
        reason = {"length": "max_tokens", "tool_calls": "tool_use", "stop": "end_turn"}[text.finish_reason]
        stop = text.generation.stop if reason == "end_turn" else None
        return {"stop_reason": "stop_sequence" if stop else reason, "stop_sequence": stop, "stop_details": None}

    @property
    def _usage(self) -> Body:
        prompt, generated, thought = self.tokens
        return {
            "input_tokens": prompt - self.cached,
            "output_tokens": generated,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": self.cached,
            "output_tokens_details": {"thinking_tokens": thought},
        }


def _finite(text: str) -> Any:
    """Returns a number of a call's arguments; JSON has no infinity for one that is too large."""
    value = float(text)
    return max(-sys.float_info.max, min(value, sys.float_info.max))
