"""From the news of a run to the bodies and chunks of OpenAI's interface."""

from __future__ import annotations

import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any, NamedTuple

from structgen.calling.request import TurnRequest
from structgen.calling.watching import Thought
from structgen.chat.parser import ArgumentsPiece, CallBegun, CallEnded, TextPiece, TurnEvent
from structgen.decoding.choosing.measure import ChosenToken
from structgen.decoding.generation import Generation
from structgen.server.asking import Asked
from structgen.server.engine import News
from structgen.server.problems import Problem
from structgen.server.wire import Common
from structgen.tools.tool import new_id

Body = dict[str, Any]
Event = dict[str, str]
"""Of a stream of server-sent events: its `data`, and its name, `event`, where it has one."""

DONE = "[DONE]"


@dataclass
class ChoiceText:
    """What is known of one text of the answer.

    Attributes:
        calls: with id, name and arguments.
        choices: then, what was measured of each token.
    """

    content: str = ""
    reasoning: str = ""
    calls: list[Body] = field(default_factory=list)
    generation: Generation[str] | None = None
    choices: Sequence[ChosenToken | None] = ()

    def add(self, event: TurnEvent | Thought) -> Body | None:
        """Takes an event; the delta that tells it, None for nothing."""
        if isinstance(event, Thought):
            self.reasoning += event.text
            return {"reasoning_content": event.text}
        if isinstance(event, TextPiece):
            self.content += event.text
            return {"content": event.text}
        if isinstance(event, CallBegun):
            call: Body = {"id": new_id(), "type": "function", "function": {"name": event.name, "arguments": ""}}
            self.calls.append(call)
            return {"tool_calls": [{"index": event.index, **call, "function": {**call["function"]}}]}
        if isinstance(event, ArgumentsPiece):
            self.calls[event.index]["function"]["arguments"] += event.text
            return {"tool_calls": [{"index": event.index, "function": {"arguments": event.text}}]}
        assert isinstance(event, CallEnded)
        return None

    @property
    def finish_reason(self) -> str:
        """`length` where a limit cut the text short; a value that was closed in time is whole, and `about` tells it."""
        assert self.generation is not None
        if self.generation.finish == "length":
            return "length"
        return "tool_calls" if self.calls else "stop"


class Tokens(NamedTuple):
    """How many tokens were read and generated; those of thoughts are among the generated ones."""

    prompt: int
    completion: int
    thought: int


class Answer(ABC):
    """The answer to a request, as it comes."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._texts = [ChoiceText() for _ in asked.turns]

    @property
    def is_over(self) -> bool:
        """Are all texts complete?"""
        return all(text.generation is not None for text in self._texts)

    @abstractmethod
    def add(self, news: News) -> list[Body]:
        """Takes news without an error: what a stream tells of them, for `events`."""

    @abstractmethod
    def opening(self) -> Iterator[Event]:
        """The events before anything is known."""

    @abstractmethod
    def events(self, told: Iterable[Body]) -> Iterator[Event]:
        """The events that tell what `add` gave."""

    @abstractmethod
    def closing(self) -> Iterator[Event]:
        """The events when all is told."""

    @abstractmethod
    def failure(self, problem: Problem) -> Iterator[Event]:
        """The events that tell that the run failed."""

    @property
    @abstractmethod
    def body(self) -> Body:
        """The whole answer."""

    @property
    def tokens(self) -> Tokens:
        """What all texts took; a prompt with several texts counts once."""
        each = len(self._texts) // self._asked.prompts
        ends = [text.generation for text in self._texts if text.generation is not None]
        thought = sum(len(end.thinking_ids) for end in ends)
        completion = thought + sum(len(end.token_ids) for end in ends)
        return Tokens(sum(end.prompt_tokens for end in ends[::each]), completion, thought)

    def _tokens(self, index: int, text: ChoiceText) -> list[TokenLogprobs]:
        assert text.generation is not None
        tokens = zip(text.generation.token_ids, text.choices, strict=True)
        return token_logprobs(self._asked.turns[index], tokens, self._asked.top_logprobs or 0)


class Completion(Answer):
    """An answer of texts side by side, each a choice."""

    object: str
    chunk_object: str
    prefix: str

    def __init__(self, asked: Asked, request: Common) -> None:
        super().__init__(asked)
        self._usage = request.stream_options is not None and request.stream_options.include_usage
        self._head = {"id": f"{self.prefix}-{token_hex(12)}", "created": int(time.time()), "model": request.model}

    def add(self, news: News) -> list[Body]:
        """See `Answer`: the choices of chunks."""
        text = self._texts[news.index]
        told = [self._chunk_choice(news.index, delta) for event in news.events if (delta := text.add(event))]
        if news.generation is not None:
            text.generation, text.choices = news.generation, news.choices
            told += self._last_choices(news.index, text)
        return told

    def opening(self) -> Iterator[Event]:
        return self.events(self._first_choices())

    def events(self, told: Iterable[Body]) -> Iterator[Event]:
        """See `Answer`: a chunk for each choice."""
        for choice in told:
            yield {"data": json.dumps({**self._chunk_head(), "choices": [choice]}, ensure_ascii=False)}

    def closing(self) -> Iterator[Event]:
        if self._usage:
            yield {"data": json.dumps({**self._chunk_head(), "choices": [], "usage": self.usage})}
        yield {"data": DONE}

    def failure(self, problem: Problem) -> Iterator[Event]:
        yield {"data": json.dumps(problem.body, ensure_ascii=False)}

    @property
    def body(self) -> Body:
        choices = [self._choice(index, text) for index, text in enumerate(self._texts)]
        return {**self._head, "object": self.object, "choices": choices, "usage": self.usage}

    @property
    def usage(self) -> Body:
        """The tokens, as OpenAI's interface tells them."""
        tokens = self.tokens
        return {
            "prompt_tokens": tokens.prompt,
            "completion_tokens": tokens.completion,
            "total_tokens": tokens.prompt + tokens.completion,
            "completion_tokens_details": {"reasoning_tokens": tokens.thought},
        }

    def _chunk_head(self) -> Body:
        """`usage` is null in every chunk but the last, where the last has one."""
        head = {**self._head, "object": self.chunk_object}
        return {**head, "usage": None} if self._usage else head

    def _first_choices(self) -> Iterator[Body]:
        return iter(())

    @abstractmethod
    def _chunk_choice(self, index: int, delta: Body) -> Body: ...
    @abstractmethod
    def _last_choices(self, index: int, text: ChoiceText) -> list[Body]: ...
    @abstractmethod
    def _choice(self, index: int, text: ChoiceText) -> Body: ...


class ChatAnswer(Completion):
    """The answer of `/v1/chat/completions`."""

    object = "chat.completion"
    chunk_object = "chat.completion.chunk"
    prefix = "chatcmpl"

    def _first_choices(self) -> Iterator[Body]:
        for index in range(len(self._texts)):
            yield self._chunk_choice(index, {"role": "assistant", "content": ""})

    def _chunk_choice(self, index: int, delta: Body) -> Body:
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}

    def _last_choices(self, index: int, text: ChoiceText) -> list[Body]:
        last = {**self._chunk_choice(index, {}), "finish_reason": text.finish_reason, "structgen": about(text)}
        told = self._logprobs(index, text)
        return [last] if told is None else [{**self._chunk_choice(index, {}), "logprobs": told}, last]

    def _choice(self, index: int, text: ChoiceText) -> Body:
        message: Body = {"role": "assistant", "content": text.content or (None if text.calls else ""), "refusal": None}
        if text.reasoning:
            message["reasoning_content"] = text.reasoning
        if text.calls:
            message["tool_calls"] = text.calls
        return {
            "index": index,
            "message": message,
            "logprobs": self._logprobs(index, text),
            "finish_reason": text.finish_reason,
            "structgen": about(text),
        }

    def _logprobs(self, index: int, text: ChoiceText) -> Body | None:
        if self._asked.top_logprobs is None:
            return None
        return {"content": [token.chat for token in self._tokens(index, text)], "refusal": None}


class TextAnswer(Completion):
    """The answer of `/v1/completions`."""

    object = chunk_object = "text_completion"
    prefix = "cmpl"

    def _chunk_choice(self, index: int, delta: Body) -> Body:
        return {"index": index, "text": delta.get("content", ""), "logprobs": None, "finish_reason": None}

    def _last_choices(self, index: int, text: ChoiceText) -> list[Body]:
        logprobs = self._logprobs(index, text)
        last = {"logprobs": logprobs, "finish_reason": text.finish_reason, "structgen": about(text)}
        return [{**self._chunk_choice(index, {}), **last}]

    def _choice(self, index: int, text: ChoiceText) -> Body:
        return {**self._last_choices(index, text)[0], "text": text.content}

    def _logprobs(self, index: int, text: ChoiceText) -> Body | None:
        if self._asked.top_logprobs is None:
            return None
        tokens = self._tokens(index, text)
        offsets = [0]
        for token in tokens:
            offsets.append(offsets[-1] + len(token.text))
        return {
            "tokens": [token.text for token in tokens],
            "token_logprobs": [token.logprob for token in tokens],
            "top_logprobs": [{other.text: other.logprob for other in token.top} for token in tokens],
            "text_offset": offsets[:-1],
        }


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """What is told of one token.

    Attributes:
        logprob: its log-probability before the mask; 0 where the model was not asked, since nothing else could come.
        top: the likeliest tokens that the mask allowed there.
    """

    data: bytes
    logprob: float
    top: tuple[TokenLogprobs, ...] = ()

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", errors="replace")

    @property
    def chat(self) -> Body:
        """An entry of `logprobs.content`."""
        told: Body = {"token": self.text, "bytes": list(self.data), "logprob": self.logprob}
        return {**told, "top_logprobs": [{**other.chat} for other in self.top]}


def token_logprobs(
    turn: TurnRequest, tokens: Iterable[tuple[int, ChosenToken | None]], top: int
) -> list[TokenLogprobs]:
    """What is told of each token but those that end the text.

    Args:
        tokens: the ids, each with what was measured of its choice.
    """
    told = []
    for token, choice in tokens:
        if token in turn.request.model.vocabulary.end_ids:
            continue
        data = turn.written([token])
        if choice is None:
            told.append(TokenLogprobs(data, 0.0))
            continue
        other = [
            TokenLogprobs(turn.written([i]), choice.logprob + math.log(chance / choice.chance))
            for i, chance in choice.alternatives[:top]
            if chance > 0 < choice.chance
        ]
        told.append(TokenLogprobs(data, choice.logprob, tuple(other)))
    return told


def about(text: ChoiceText) -> Body:
    """What OpenAI's interface has no field for: how the text ended, which limits cut values, what it cost."""
    end = text.generation
    assert end is not None
    return {
        "finish": end.finish,
        "caps": [{"name": cap.name, "pointer": cap.pointer, "limit": cap.limit} for cap in end.caps],
        "seed": end.seed,
        "forced_tokens": end.stats.fast_forwarded,
        "rollbacks": end.stats.rollbacks,
    }
