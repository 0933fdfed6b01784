"""From the news of a run to the body and the events of `/v1/responses`."""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from secrets import token_hex
from typing import Any, NamedTuple

from structgen.chat.parser import ArgumentsPiece, CallBegun, CallEnded, TextPiece, ThoughtPiece, TurnEvent
from structgen.server.answers import Answer, Body, Event
from structgen.server.asking import Asked
from structgen.server.offered_tools import OfferedTool
from structgen.server.problems import Problem
from structgen.server.responses_wire import SEALED, THOUGHT, InputItem, ResponsesRequest
from structgen.tools.parameters import INPUT
from structgen.tools.tool import new_id

_PREFIXES = {"reasoning": "rs", "message": "msg", "function_call": "fc", "custom_tool_call": "ctc"}
_CALLS = {
    "function_call": ("function_call_arguments", "arguments"),
    "custom_tool_call": ("custom_tool_call_input", INPUT),
}
"""The type of a call -> the name of its events, and the field that has its arguments."""


class _Part(NamedTuple):
    """Where the text of an item is, and the names of the events that tell it.

    Attributes:
        type: of the part that has the text.
        field: of the item, the list that has the part.
        text, part: the beginning of the names of the events of the text and of the part.
        number: the field of an event that has the number of the part.
    """

    type: str
    field: str = "content"
    text: str = "output_text"
    part: str = "content_part"
    number: str = "content_index"


_TEXT, _THOUGHT = _Part("output_text"), _Part("reasoning_text", text="reasoning_text")
_SUMMARY = _Part("summary_text", "summary", "reasoning_summary_text", "reasoning_summary_part", "summary_index")


class ResponseAnswer(Answer):
    """The answer of `/v1/responses`: items, and events that tell them."""

    def __init__(self, asked: Asked, request: ResponsesRequest) -> None:
        super().__init__(asked)
        self._request, self.id, self._began = request, f"resp_{token_hex(12)}", int(time.time())
        sealed, told = SEALED in (request.include or ()), request.reasoning is not None and request.reasoning.summary
        self._output = _Output(_SUMMARY if told else _THOUGHT, sealed=sealed)
        self._text, self._number = self._texts[0], 0
        self._waiting: list[Body] = []

    def _pieces(self, index: int, event: TurnEvent) -> Iterable[Body]:
        return self._output.add(event, self._called[index].tool)

    def _last_pieces(self, index: int) -> Iterable[Body]:
        return self._output.end(self._status, self._logprobs(0) or [])

    def _measured(self, index: int, pieces: list[Body], entries: list[Body]) -> list[Body]:
        """Returns the pieces with the log-probabilities in the last one of the message's text."""
        places = [place for place, piece in enumerate(pieces) if piece["type"] == "response.output_text.delta"]
        self._waiting += entries
        if places:
            pieces[places[-1]] = {**pieces[places[-1]], "logprobs": self._waiting}
            self._waiting = []
        return pieces

    def opening(self) -> Iterator[Event]:
        return self.events({"type": f"response.{name}", "response": self.body} for name in ("created", "in_progress"))

    def events(self, pieces: Iterable[Body]) -> Iterator[Event]:
        """Yields an event for each piece, with its name and its number in the stream."""
        for piece in pieces:
            data = {"type": piece["type"], "sequence_number": self._number, **piece}
            self._number += 1
            yield {"event": piece["type"], "data": json.dumps(data, ensure_ascii=False)}

    def closing(self) -> Iterator[Event]:
        return self.events([{"type": f"response.{self._status}", "response": self.body}])

    def failure(self, problem: Problem) -> Iterator[Event]:
        code = "server_error" if problem.status >= 500 else "invalid_prompt"
        failed = {**self.body, "status": "failed", "error": {"code": code, "message": str(problem)}}
        return self.events([{"type": "response.failed", "response": failed}])

    @property
    def items(self) -> list[InputItem]:
        """The items of the answer, as a later request has them in its input."""
        return [InputItem.model_validate(item) for item in self._output.items]

    @property
    def _status(self) -> str:
        if self._text.generation is None:
            return "in_progress"
        return "incomplete" if self._text.finish_reason == "length" else "completed"

    @property
    def body(self) -> Body:
        request, status, over = self._request, self._status, self._text.generation is not None
        reason = {"reason": "max_output_tokens"} if status == "incomplete" else None
        given = request.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {
            "id": self.id,
            "object": "response",
            "created_at": self._began,
            "completed_at": int(time.time()) if status == "completed" else None,
            "status": status,
            "error": None,
            "incomplete_details": reason,
            "instructions": request.instructions,
            "max_output_tokens": request.max_output_tokens,
            "metadata": request.metadata or {},
            "model": request.model,
            "output": self._output.items,
            "parallel_tool_calls": request.parallel_tool_calls is not False,
            "previous_response_id": request.previous_response_id,
            "reasoning": {"effort": None, "summary": None, **given.get("reasoning", {})},
            "background": False,
            "store": request.store is True,
            "temperature": request.temperature,
            "text": given.get("text", {"format": {"type": "text"}}),
            "tool_choice": given.get("tool_choice", "auto"),
            "tools": [_told(tool) for tool in given.get("tools", ())],
            "top_logprobs": request.top_logprobs or 0,
            "top_p": request.top_p,
            "truncation": "disabled",
            "usage": self._usage if over else None,
            **({} if request.user is None else {"user": request.user}),
            **({"structgen": self._text.about} if over else {}),
        }

    @property
    def _usage(self) -> Body:
        prompt, generated, thought = self.tokens
        return {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": self.cached, "cache_write_tokens": 0},
            "output_tokens": generated,
            "output_tokens_details": {"reasoning_tokens": thought},
            "total_tokens": prompt + generated,
        }


def _told(tool: Any) -> Any:
    """Returns a tool as an answer tells it: a function with all fields that clients require. Ours are always strict."""
    is_function = isinstance(tool, dict) and tool.get("type") == "function"
    return {"parameters": None, "strict": True, **tool} if is_function else tool


class _Output:
    """The items of an answer in their order; the last one may still grow. Its methods yield the events of a stream.

    Args:
        thought: how the model's thoughts are told.
        sealed: does the client ask for `reasoning.encrypted_content`, to send the model's thoughts back?
    """

    def __init__(self, thought: _Part, *, sealed: bool) -> None:
        self.items: list[Body] = []
        self._texts, self._sealed = {"reasoning": thought, "message": _TEXT}, sealed
        self._open: Body | None = None

    def add(self, event: TurnEvent, tool: OfferedTool | None) -> Iterator[Body]:
        """Takes an event of the run.

        Args:
            tool: the one that is called.
        """
        if isinstance(event, (ThoughtPiece, TextPiece)):
            kind = "reasoning" if isinstance(event, ThoughtPiece) else "message"
            if self._open is None or self._open["type"] != kind:
                yield from self._begin_text(kind)
            self._part["text"] += event.text
            yield self._of_text("delta", {"delta": event.text})
        elif isinstance(event, CallBegun):
            yield from self._close("completed")
            kind = "custom_tool_call" if tool is not None and tool.custom else "function_call"
            fields: Body = {"call_id": f"call_{new_id()}", "name": event.name, _CALLS[kind][1]: ""}
            if tool is not None and tool.namespace is not None:
                fields["namespace"] = tool.namespace
            yield self._begin(kind, fields)
        elif isinstance(event, ArgumentsPiece):
            assert self._open is not None
            name, key = _CALLS[self._open["type"]]
            self._open[key] += event.text
            yield self._of(f"{name}.delta", {"delta": event.text})
        elif isinstance(event, CallEnded):
            yield from self._close("completed")

    def end(self, status: str, logprobs: Sequence[Body]) -> Iterator[Body]:
        """Ends the last item; an answer has at least one message."""
        if all(item["type"] == "reasoning" for item in self.items):
            yield from self._begin_text("message")
        yield from self._close(status, logprobs)

    def _begin_text(self, kind: str) -> Iterator[Body]:
        yield from self._close("completed")
        own: Body = {"role": "assistant"} if kind == "message" else {"summary": []}
        yield self._begin(kind, {**own, "content": []})
        assert self._open is not None
        where = self._texts[kind]
        part: Body = {"type": where.type, "text": ""}
        if kind == "message":
            part |= {"annotations": [], "logprobs": []}
        yield self._of(f"{where.part}.added", {where.number: 0, "part": dict(part)})
        self._open[where.field] = [part]

    def _begin(self, kind: str, fields: Body) -> Body:
        self._open = {"id": f"{_PREFIXES[kind]}_{token_hex(12)}", "type": kind, "status": "in_progress", **fields}
        self.items.append(self._open)
        return {"type": "response.output_item.added", "output_index": len(self.items) - 1, "item": dict(self._open)}

    def _close(self, status: str, logprobs: Sequence[Body] = ()) -> Iterator[Body]:
        item = self._open
        if item is None:
            return
        if item["type"] in _CALLS:
            name, key = _CALLS[item["type"]]
            if status == "completed":
                own = {"name": item["name"]} if item["type"] == "function_call" else {}
                yield self._of(f"{name}.done", {key: item[key], **own})
        else:
            where, part = self._texts[item["type"]], self._part
            if item["type"] == "message":
                part["logprobs"] = list(logprobs)
            elif self._sealed:
                item["encrypted_content"] = THOUGHT + b64encode(part["text"].encode()).decode()
            yield self._of_text("done", {"text": part["text"]})
            yield self._of(f"{where.part}.done", {where.number: 0, "part": part})
        item["status"] = status
        yield {"type": "response.output_item.done", "output_index": len(self.items) - 1, "item": item}
        self._open = None

    @property
    def _part(self) -> Body:
        """The part that has the text of the open item."""
        assert self._open is not None
        part: Body = self._open[self._texts[self._open["type"]].field][0]
        return part

    def _of_text(self, name: str, fields: Body) -> Body:
        """An event about the text of the open item."""
        assert self._open is not None
        where, part = self._texts[self._open["type"]], self._part
        also = {"logprobs": part["logprobs"]} if "logprobs" in part else {}
        return self._of(f"{where.text}.{name}", {where.number: 0, **fields, **also})

    def _of(self, name: str, fields: Body) -> Body:
        """An event about the open item."""
        assert self._open is not None
        about = {"item_id": self._open["id"], "output_index": len(self.items) - 1}
        return {"type": f"response.{name}", **about, **fields}
