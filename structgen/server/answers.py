"""From the news of a run to the bodies and chunks of OpenAI's interface."""

from __future__ import annotations

import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate
from secrets import token_hex
from typing import Any

from pydantic_core import from_json

from structgen.calling.request import TurnRequest
from structgen.chat.parser import ArgumentsPiece, CallBegun, CallEnded, TextPiece, ThoughtPiece, TurnEvent
from structgen.decoding.choosing.measure import ChosenToken
from structgen.decoding.generation import Generation
from structgen.regular.quotes import Place
from structgen.server.asking import Asked
from structgen.server.engine import News
from structgen.server.notes import Notes
from structgen.server.offered_tools import OfferedTool
from structgen.server.problems import Problem
from structgen.server.wire import Common
from structgen.tools.parameters import INPUT
from structgen.tools.tool import new_id
from structgen.trace.records import CUT

Body = dict[str, Any]
Event = dict[str, str]
"""A server-sent event: its `data`, and its name `event` if it has one."""

DONE = "[DONE]"


@dataclass
class ChoiceText:
    """One text of the answer, as far as it is known.

    Attributes:
        calls: with id, name and arguments.
        generation: None until the text is complete.
        tokens, choices: the tokens so far, and the measurements of their choices.
        losses: does the answer tell them?
        notes: see `Asked.notes`.
        quotes: where each is, by JSON pointer; those of calls after the number of the call, as `/0/name`.
    """

    content: str = ""
    reasoning: str = ""
    calls: list[Body] = field(default_factory=list)
    generation: Generation[str] | None = None
    tokens: list[int] = field(default_factory=list)
    choices: list[ChosenToken | None] = field(default_factory=list)
    losses: bool = False
    notes: Notes = field(default_factory=Notes)
    quotes: dict[str, tuple[Place, ...]] = field(default_factory=dict)

    def add(self, event: TurnEvent, tool: OfferedTool | None) -> Body:
        """Takes an event. Returns the delta that a stream sends of it; an empty one means none.

        Args:
            tool: the one that is called.
        """
        kind, key = ("custom", INPUT) if tool is not None and tool.custom else ("function", "arguments")
        if isinstance(event, ThoughtPiece):
            self.reasoning += event.text
            return {"reasoning_content": event.text}
        if isinstance(event, TextPiece):
            self.content += event.text
            return {"content": event.text}
        if isinstance(event, CallBegun):
            call: Body = {"id": new_id(), "type": kind, kind: {"name": event.name, key: ""}}
            self.calls.append(call)
            return {"tool_calls": [{"index": event.index, **call, kind: {**call[kind]}}]}
        if isinstance(event, ArgumentsPiece):
            self.calls[event.index][kind][key] += event.text
            return {"tool_calls": [{"index": event.index, kind: {key: event.text}}]}
        assert isinstance(event, CallEnded)
        return {}

    @property
    def finish_reason(self) -> str:
        """`length` if a limit cut the text, a value or a call, though a value is closed and valid; see `about`."""
        assert self.generation is not None
        if self.generation.finish in CUT:
            return "length"
        return "tool_calls" if self.calls else "stop"

    @property
    def about(self) -> Body:
        """The field `structgen` of a complete text: how it ended, which limits cut values, what it cost."""
        assert self.generation is not None
        caps, stats, quotes = self.generation.caps, self.generation.stats, self.quotes or self.generation.quotes
        return {
            "finish": self.generation.finish,
            "caps": [
                {"name": cap.name, "pointer": cap.pointer, "limit": cap.limit, "offset": cap.offset} for cap in caps
            ],
            **({"after_cuts": list(after)} if (after := self.generation.after_cuts) else {}),
            "seed": self.generation.seed,
            "forced_tokens": stats.fast_forwarded,
            "rollbacks": stats.rollbacks,
            **self.notes.told(),
            **({"losses": list(map(asdict, self.generation.losses))} if self.losses else {}),
            **({"quotes": {each: list(map(asdict, places)) for each, places in quotes.items()}} if quotes else {}),
        }


@dataclass
class _Called:
    """The call that a text is writing.

    Attributes:
        tool: the one that is called.
        written: the JSON of its arguments so far; of a custom tool only.
        text: the text of `INPUT` in it.
    """

    tool: OfferedTool | None = None
    written: str = ""
    text: str = ""


class Answer(ABC):
    """The answer to a request, as it comes.

    Attributes:
        called: the names of the tools that were called so far.
    """

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self.called: list[str] = []
        self._texts = [ChoiceText(losses=asked.losses, notes=asked.notes) for _ in asked.turns]
        self._called: list[_Called] = [_Called() for _ in asked.turns]

    @property
    def is_over(self) -> bool:
        """Are all texts complete?"""
        return all(text.generation is not None for text in self._texts)

    def add(self, news: News) -> list[Body]:
        """Takes news without an error. Returns the pieces that a stream sends of them, for `events`."""
        text = self._texts[news.index]
        start = len(text.tokens)
        text.tokens += news.tokens
        text.choices += news.choices
        seen = (each for event in news.events for each in self._seen(news.index, event))
        pieces = [
            piece for each in seen for piece in self._pieces(news.index, each)
        ]  # while its tool is the one called
        turn = self._asked.turns[news.index]
        for event in news.events:
            if isinstance(event, CallEnded):
                text.quotes |= {f"/{event.index}{pointer}": places for pointer, places in turn.quotes(event).items()}
        entries = self._logprobs(news.index, start)
        if entries:
            pieces = self._measured(news.index, pieces, entries)
        if news.generation is not None:
            text.generation = news.generation
            text.quotes |= {} if text.calls else turn.quotes(text.content)
            pieces += self._last_pieces(news.index)
        return pieces

    def _seen(self, index: int, event: TurnEvent) -> Iterator[TurnEvent]:
        """Yields an event as the client sees it: of a custom tool's arguments the text of `INPUT`, without JSON."""
        called = self._called[index]
        if isinstance(event, CallBegun):
            self.called.append(event.name)
            called.tool, called.written, called.text = self._asked.tools.get(event.name), "", ""
            yield replace(event, name=event.name if called.tool is None else called.tool.name)
        elif called.tool is not None and called.tool.custom and isinstance(event, (ArgumentsPiece, CallEnded)):
            whole = isinstance(event, CallEnded)
            called.written = event.arguments if isinstance(event, CallEnded) else called.written + event.text
            text = from_json(called.written, allow_partial=False if whole else "trailing-strings").get(INPUT, "")
            if text != called.text:
                yield ArgumentsPiece(event.index, text[len(called.text) :])
                called.text = text
            if isinstance(event, CallEnded):
                yield replace(event, arguments=text)
        else:
            yield event

    def _measured(self, index: int, pieces: list[Body], entries: list[Body]) -> list[Body]:
        """Returns the pieces with the log-probabilities of their tokens; by default without."""
        return pieces

    @abstractmethod
    def _pieces(self, index: int, event: TurnEvent) -> Iterable[Body]:
        """Takes an event of the text with this index. Returns the pieces that tell it."""

    @abstractmethod
    def _last_pieces(self, index: int) -> Iterable[Body]:
        """Returns the pieces that tell the end of a text."""

    def opening(self) -> Iterator[Event]:
        """Yields the events before anything is known; by default none."""
        return iter(())

    @abstractmethod
    def events(self, pieces: Iterable[Body]) -> Iterator[Event]:
        """Yields the events of pieces."""

    @abstractmethod
    def closing(self) -> Iterator[Event]:
        """Yields the events after the last piece."""

    @abstractmethod
    def failure(self, problem: Problem) -> Iterator[Event]:
        """Yields the events of a run that failed."""

    @property
    @abstractmethod
    def body(self) -> Body:
        """The whole answer."""

    @property
    def _ends(self) -> list[Generation[Any]]:
        return [text.generation for text in self._texts if text.generation is not None]

    @property
    def cached(self) -> int:
        """The tokens of all prompts that the model did not have to read."""
        return sum(end.stats.cached for end in self._ends[:: len(self._texts) // self._asked.prompts])

    @property
    def tokens(self) -> tuple[int, int, int]:
        """The tokens of all prompts, all generated tokens, and those of thinking among the generated ones."""
        each = len(self._texts) // self._asked.prompts  # a prompt with several texts counts once
        ends = self._ends
        thought = sum(len(end.thinking_ids) for end in ends)
        generated = thought + sum(len(end.token_ids) for end in ends)
        return sum(end.prompt_tokens for end in ends[::each]), generated, thought

    def _logprobs(self, index: int, start: int = 0) -> list[Body] | None:
        """Returns the entries of `logprobs.content` for the tokens of a text, without end tokens; None if nobody asked.

        Args:
            start: the number of the first token.
        """
        text, turn, top = self._texts[index], self._asked.turns[index], self._asked.top_logprobs
        if top is None:
            return None
        tokens = zip(text.tokens[start:], text.choices[start:], strict=True)
        end_ids = turn.request.model.vocabulary.end_ids
        return [_token_entry(turn, token, choice, top) for token, choice in tokens if token not in end_ids]


def _token_entry(turn: TurnRequest, token: int, choice: ChosenToken | None, top: int) -> Body:
    """Returns an entry of `logprobs.content`, with at most `top` of the most likely tokens that the mask allowed.

    Log-probabilities are those before the mask. They are 0 for a forced token: the model was not asked.
    """

    def entry(token: int, logprob: float) -> Body:
        data = turn.written([token])
        return {"token": data.decode("utf-8", errors="replace"), "bytes": list(data), "logprob": logprob}

    if choice is None:
        return {**entry(token, 0.0), "top_logprobs": []}
    others = [
        (other, choice.logprob + math.log(chance / choice.chance))
        for other, chance in choice.alternatives[:top]
        if chance > 0 < choice.chance
    ]
    return {**entry(token, choice.logprob), "top_logprobs": [entry(*other) for other in others]}


class Completion(Answer):
    """An answer of texts side by side, each a choice. Its pieces are choices of chunks."""

    object: str
    chunk_object: str
    prefix: str

    def __init__(self, asked: Asked, request: Common) -> None:
        super().__init__(asked)
        self._usage = request.stream_options is not None and request.stream_options.include_usage
        self._head = {"id": f"{self.prefix}-{token_hex(12)}", "created": int(time.time()), "model": request.model}

    def _pieces(self, index: int, event: TurnEvent) -> Iterable[Body]:
        delta = self._texts[index].add(event, self._called[index].tool)
        return [self._chunk_choice(index, delta)] if delta else []

    def _measured(self, index: int, pieces: list[Body], entries: list[Body]) -> list[Body]:
        *others, last = pieces or [self._chunk_choice(index, {})]
        return [*others, {**last, "logprobs": self._table(index, entries)}]

    @abstractmethod
    def _table(self, index: int, entries: list[Body]) -> Body:
        """Returns log-probabilities in the form of the choice's field `logprobs`."""

    def events(self, pieces: Iterable[Body]) -> Iterator[Event]:
        """Yields a chunk for each choice."""
        return (_event({**self._chunk_head(), "choices": [choice]}) for choice in pieces)

    def closing(self) -> Iterator[Event]:
        if self._usage:
            yield _event({**self._chunk_head(), "choices": [], "usage": self.usage})
        yield {"data": DONE}

    def failure(self, problem: Problem) -> Iterator[Event]:
        yield _event(problem.body)

    @property
    def body(self) -> Body:
        choices = [self._choice(index) for index in range(len(self._texts))]
        return {**self._head, "object": self.object, "choices": choices, "usage": self.usage}

    @property
    def usage(self) -> Body:
        """The counts of tokens in OpenAI's form."""
        prompt, generated, thought = self.tokens
        return {
            "prompt_tokens": prompt,
            "completion_tokens": generated,
            "total_tokens": prompt + generated,
            "prompt_tokens_details": {"cached_tokens": self.cached},
            "completion_tokens_details": {"reasoning_tokens": thought},
        }

    def _chunk_head(self) -> Body:
        """Returns the fields of a chunk beside its choices. If the last chunk has a usage, it is null in the others."""
        head = {**self._head, "object": self.chunk_object}
        return {**head, "usage": None} if self._usage else head

    @abstractmethod
    def _chunk_choice(self, index: int, delta: Body) -> Body: ...
    @abstractmethod
    def _choice(self, index: int) -> Body: ...


def _event(data: Body) -> Event:
    return {"data": json.dumps(data, ensure_ascii=False)}


class ChatAnswer(Completion):
    """The answer of `/v1/chat/completions`."""

    object = "chat.completion"
    chunk_object = "chat.completion.chunk"
    prefix = "chatcmpl"

    def opening(self) -> Iterator[Event]:
        first = {"role": "assistant", "content": ""}
        return self.events(self._chunk_choice(index, first) for index in range(len(self._texts)))

    def _chunk_choice(self, index: int, delta: Body) -> Body:
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}

    def _last_pieces(self, index: int) -> Iterable[Body]:
        text, empty = self._texts[index], self._chunk_choice(index, {})
        return [{**empty, "finish_reason": text.finish_reason, "structgen": text.about}]

    def _choice(self, index: int) -> Body:
        text, entries = self._texts[index], self._logprobs(index)
        message: Body = {"role": "assistant", "content": text.content or (None if text.calls else ""), "refusal": None}
        if text.reasoning:
            message["reasoning_content"] = text.reasoning
        if text.calls:
            message["tool_calls"] = text.calls
        return {
            "index": index,
            "message": message,
            "logprobs": None if entries is None else self._table(index, entries),
            "finish_reason": text.finish_reason,
            "structgen": text.about,
        }

    def _table(self, index: int, entries: list[Body]) -> Body:
        return {"content": entries, "refusal": None}


class TextAnswer(Completion):
    """The answer of `/v1/completions`."""

    object = chunk_object = "text_completion"
    prefix = "cmpl"

    def __init__(self, asked: Asked, request: Common) -> None:
        super().__init__(asked, request)
        self._offsets = [0 for _ in asked.turns]

    def _chunk_choice(self, index: int, delta: Body) -> Body:
        return {"index": index, "text": delta.get("content", ""), "logprobs": None, "finish_reason": None}

    def _last_pieces(self, index: int) -> Iterable[Body]:
        text = self._texts[index]
        return [
            {**self._chunk_choice(index, {}), "finish_reason": text.finish_reason, "structgen": text.about},
        ]

    def _choice(self, index: int) -> Body:
        text, entries = self._texts[index], self._logprobs(index)
        self._offsets[index] = 0
        last = {"finish_reason": text.finish_reason, "structgen": text.about}
        logprobs = None if entries is None else self._table(index, entries)
        return {"index": index, "text": text.content, "logprobs": logprobs, **last}

    def _table(self, index: int, entries: list[Body]) -> Body:
        """Returns a column for each attribute of a token."""
        tokens, tops = [entry["token"] for entry in entries], [entry["top_logprobs"] for entry in entries]
        offsets = [*accumulate(map(len, tokens), initial=self._offsets[index])]
        self._offsets[index] = offsets[-1]
        return {
            "tokens": tokens,
            "token_logprobs": [entry["logprob"] for entry in entries],
            "top_logprobs": [{other["token"]: other["logprob"] for other in top} for top in tops],
            "text_offset": offsets[:-1],
        }
