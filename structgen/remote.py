"""A model at an OpenAI-compatible endpoint: the server constrains, the value is validated here."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import ValidationError

from structgen.arguments import (
    is_number,
    named_options,
    options_with,
    require,
    require_flag,
    require_headers,
    require_one_of,
)
from structgen.automaton.expected import refused_token
from structgen.chat.history import as_json_message, as_messages, require_role
from structgen.constraints.basic import Choice, JsonSchema, Regex
from structgen.constraints.languages import EBNF, GBNF, Lark
from structgen.decoding.call_options import DEFAULTS, CallOptions
from structgen.decoding.generation import Generation, Stats
from structgen.decoding.prompts.per_row import each_of, lists
from structgen.decoding.prompts.targets import Target, targets_of
from structgen.errors import BudgetExhausted, OptionError, RunError, StructgenError, ValidationFailed, excerpt, quoted
from structgen.given_prompts import GivenPrompts
from structgen.http_client import Reply, fetch, httpx
from structgen.options import Limits, Sampling, Whitespace
from structgen.porting import PROVIDERS, Portable, portable
from structgen.remote_replies import ReplyChoice, ReplyUsage, ToldOptions, completion, error_message
from structgen.tools.invoking import in_background
from structgen.trace.records import Cap, Finish
from structgen.vocabulary.vocabulary import single_bytes
from structgen.waiting import waiting

AT_ONCE = 16
"""Requests of one call that are sent at once, unless `batch_size=` is smaller."""


_KEY = re.compile("[!-~]+( +[!-~]+)*")


def _is_address(url: Any) -> bool:
    """Can requests be sent there, to the path that it says?"""
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and parts.port != 0
            and not re.search(r"[\s#]", url)
        )
    except (TypeError, ValueError, AttributeError):
        return False


@named_options
@dataclass(frozen=True, slots=True)
class Remote:
    """A model at an endpoint with OpenAI's API: structgen's own server, vLLM's, OpenAI's.

        city = sg.generate(sg.Remote("http://127.0.0.1:8000/v1", "demo"), "Where is the Louvre?", schema=City)

    The request carries the JSON Schema, and the server may or may not keep it. The answer is validated here: it gives a
    value of its type or an error (`Generation.guarantee` is "validated"; where the model runs here it is "masked"). An
    option that such an endpoint cannot honour is an `OptionError`.

    Attributes:
        url: of the interface, with its `/v1`.
        model: the model's name there.
        api_key: sent as `Authorization: Bearer ...`; None sends none.
        structgen: the endpoint is structgen's own server, which has further fields for our options.
        timeout: seconds until a whole answer has come, however it comes. It may have `MAX_REPLY` bytes, 16 MB.
        headers: further headers.
        response_format: how the schema is sent: "json_schema" as in OpenAI's interface, or "json_object" with a
            `schema` next to it, as llama.cpp's servers take it.
        provider: whose structured output it is, "openai", "anthropic", "gemini" or "mistral": the schema is sent as
            `portable` makes it, and the answer is restored. None sends it as it is.
    """

    url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    structgen: bool = False
    timeout: float = 600.0
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    response_format: Literal["json_schema", "json_object"] = "json_schema"
    provider: Literal["openai", "anthropic", "gemini", "mistral"] | None = None

    def __post_init__(self) -> None:
        shown = "..." if "@" in str(self.url) else self.url  # not a password
        require(_is_address(self.url), "url", shown, "an address that begins with http:// or https://, without a #")
        no_user = "no user and password in it: they go into api_key= or headers="
        require("@" not in urlsplit(self.url).netloc, "url", shown, no_user)
        require(isinstance(self.model, str) and bool(self.model), "model", self.model, "a model's name")
        require_flag("structgen", self.structgen)
        require_one_of("response_format", self.response_format, "json_schema", "json_object")
        if self.provider is not None:
            require_one_of("provider", self.provider, *PROVIDERS)
        keyed = self.api_key is None or (isinstance(self.api_key, str) and _KEY.fullmatch(self.api_key) is not None)
        require(keyed, "api_key", "...", "a key of visible ASCII characters, without a line break, or None")
        require_headers(self.headers)
        require(is_number(self.timeout, 0) and self.timeout > 0, "timeout", self.timeout, "a number of seconds")

    def _client(self) -> httpx.AsyncClient:
        """Returns a client with the key and the headers, which keeps connections open."""
        headers = {} if self.api_key is None else {"Authorization": f"Bearer {self.api_key}"}
        limits = httpx.Limits(max_connections=AT_ONCE, max_keepalive_connections=AT_ONCE)
        return httpx.AsyncClient(headers={**self.headers, **headers}, limits=limits)

    async def _post(self, body: dict[str, Any], client: httpx.AsyncClient) -> Reply:
        """Returns the endpoint's reply to a chat request, which may be any bytes.

        Raises:
            OptionError: the endpoint refuses the request, or JSON cannot write it. RunError: it cannot be reached,
                redirects, fails, or its reply is too long or takes too long.
        """
        parts = urlsplit(self.url)
        address = parts._replace(path=parts.path.rstrip("/") + "/chat/completions").geturl()
        try:
            content = json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise OptionError(f"JSON cannot write the request: {excerpt(error)}") from error
        kind = {"Content-Type": "application/json"}
        reply = await fetch(client, "POST", address, self.timeout, content=content, headers=kind)
        if reply.redirect is not None:
            told = "no key goes there; pass the address it leads to"
            raise RunError(f"{address} redirects to {excerpt(reply.redirect)}: {told}")
        if not reply.is_success:
            message = f"{address} answers {reply.status}: {error_message(reply)}"
            raise OptionError(message) if reply.status in (400, 404, 413, 422) else RunError(message)
        return reply


@dataclass(frozen=True, slots=True)
class RemoteRequest:
    """A checked call, ready to be sent.

    Attributes:
        rows: for each prompt a body, and what makes a value of the endpoint's choice, or raises an error.
    """

    remote: Remote
    rows: list[tuple[dict[str, Any], Callable[[ReplyChoice], Any]]]
    limits: Sequence[Limits]
    at_once: int

    def results(self) -> list[Generation[Any]]:
        """The outcome of each row; a row's failure stays in the row."""
        if not self.rows:
            return []
        with waiting(f"waiting for {self.remote.model}"):
            return in_background(self._all())

    async def _all(self) -> list[Generation[Any]]:
        """Returns the outcomes; each reply is read and validated in a thread."""
        free = asyncio.Semaphore(self.at_once)
        async with self.remote._client() as client:
            return await asyncio.gather(*(self._outcome(client, row, free) for row in range(len(self.rows))))

    async def _outcome(self, client: httpx.AsyncClient, row: int, free: asyncio.Semaphore) -> Generation[Any]:
        async with free:
            began = time.perf_counter()
            try:
                reply = await self.remote._post(self.rows[row][0], client)
                return await asyncio.to_thread(self._read, row, reply, began)
            except StructgenError as error:
                return _generation(ReplyChoice(), ReplyUsage(), None, error, time.perf_counter() - began)

    def _read(self, row: int, reply: Reply, began: float) -> Generation[Any]:
        """Reads and validates the reply of a row."""
        seconds, (choice, usage) = time.perf_counter() - began, completion(reply)
        text, value, failure = choice.text, None, None
        try:
            choice.require_own_end()
            value = self.rows[row][1](choice)
            if self.limits[row].strict and choice.finish_reason == "length":
                raise BudgetExhausted(f"the endpoint cut the value short; text: {quoted(text)}", text)
        except (StructgenError, ValidationError, ValueError, RecursionError) as refusal:
            value, failure = None, _refused(choice, text, refusal)
        return replace(
            _generation(choice, usage, value, failure, seconds), _is_json="response_format" in self.rows[row][0]
        )


def _answer(read: Callable[[str], Any], portable_: Portable | None, choice: ReplyChoice) -> Any:
    """The value of an answer. `portable_`: the schema that a provider was sent instead."""
    text, calls = choice.text, choice.message and choice.message.tool_calls
    if calls and not text:
        raise RunError(f"the endpoint called {quoted(calls[0].function.name)}, and was offered no tools")
    return read(text if portable_ is None else json.dumps(portable_.restore(json.loads(text))))


def _reader(target: Target) -> Callable[[str], Any]:
    """What makes a value of an answer's text, or raises a ValueError that says why it is refused."""
    constraint = target.constraint
    if isinstance(constraint, JsonSchema):
        return constraint.judge().value if isinstance(constraint.schema, (dict, bool)) else target.parse
    if constraint is None:
        return target.parse
    automaton = constraint.compile(single_bytes()).automaton

    def read(text: str) -> Any:
        refused = refused_token(automaton, b"", text.encode(), ends=True)
        if refused is not None:
            raise ValueError(str(refused))
        return target.parse(text)

    return read


def _refused(choice: ReplyChoice, text: str, refusal: Exception) -> StructgenError:
    if isinstance(refusal, StructgenError):
        return refusal
    if choice.finish_reason == "length":
        error: StructgenError = BudgetExhausted(f"the endpoint stopped within the value; text: {quoted(text)}", text)
    else:
        why = excerpt(refusal)
        error = ValidationFailed(f"the endpoint did not keep the schema: {why}; text: {quoted(text)}", "", text, why)
    error.__cause__ = refusal
    return error


def _generation(
    choice: ReplyChoice, usage: ReplyUsage, value: Any, error: StructgenError | None, seconds: float
) -> Generation[Any]:
    own = choice.structgen or ToldOptions()
    ends: dict[str | None, Finish] = {"length": "length", "stop": "end"}
    tokens, cached = usage.completion_tokens or 0, usage.prompt_tokens_details
    return Generation(
        value=value,
        text=choice.text,
        token_ids=(),
        prompt_tokens=usage.prompt_tokens or 0,
        finish="error" if error is not None else own.finish or ends.get(choice.finish_reason, "end"),
        logprobs=(),
        removed=(),
        stats=Stats(
            forwards=0,
            tokens=tokens,
            fast_forwarded=own.forced_tokens or 0,
            rollbacks=own.rollbacks or 0,
            prefill_seconds=0.0,
            decode_seconds=seconds,
            completion_tokens=tokens,
            cached=(cached and cached.cached_tokens) or 0,
        ),
        seed=own.seed,
        caps=tuple(
            Cap(cap.name, cap.pointer, cap.limit, len(choice.text.encode()) if cap.offset is None else cap.offset)
            for cap in own.caps or ()
        ),
        thinking=choice.message.reasoning_content if choice.message else None,
        error=error,
        guarantee="validated",
    )


class Offer(NamedTuple):
    """What a call of tools adds to a prompt: fields of the request, and what reads the choice with its calls.

    Attributes:
        read: of what reads an answer, and of a choice, makes the value.
    """

    fields: dict[str, Any]
    read: Callable[[Callable[[ReplyChoice], Any], ReplyChoice], Any]


def prepare_remote(
    remote: Remote, prompts: GivenPrompts, schema: Any, options: CallOptions, offers: Sequence[Offer] = ()
) -> RemoteRequest:
    """The requests that a call sends.

    Args:
        offers: for each prompt the tools that the model may call; none for a call of `generate`.

    Raises:
        RequestError: the schema, an option or a prompt cannot work with an endpoint.
    """
    _require_remote(options, DEFAULTS, "remote")
    count = len(prompts.each)
    schemas = schema if isinstance(schema, list) and prompts.many else [schema] * count
    require(len(schemas) == count, "schema", schemas, f"one for each of {count} prompts")
    targets = targets_of(schemas, options.whitespace, options.order)
    sampling = each_of("sampling", options.sampling, Sampling, count)
    limits = each_of("limits", options.limits, Limits, count)
    banned = lists("banned", options.banned, count)
    readers = {id(target): _reader(target) for target in {id(each): each for each in targets}.values()}
    rows = list[tuple[dict[str, Any], Callable[[ReplyChoice], Any]]]()
    for prompt, target, drawn, bounds, words in zip(prompts.each, targets, sampling, limits, banned, strict=True):
        extras = _extras(target, drawn, bounds, words, options, own=remote.structgen)
        if extras and not remote.structgen:
            unknown = f"{', '.join(extras)}: OpenAI's interface has no field for that"
            raise OptionError(f"{unknown}; Remote(structgen=True) sends it to a server of structgen's own")
        portable_ = portable(_json_schema(target), remote.provider) if remote.provider and target.is_json else None
        messages = as_messages(prompt.messages(), prompt.name)
        for number, message in enumerate(messages):
            require_role(message["role"], f"{prompt.name}: message {number}")
        body = {"model": remote.model, "messages": [*map(as_json_message, messages)]}
        body |= _fields(remote, target, portable_, drawn, bounds)
        read: Callable[[ReplyChoice], Any] = partial(_answer, readers[id(target)], portable_)
        if offers:
            offer = offers[len(rows)]
            body, read = body | offer.fields, partial(offer.read, read)
        rows.append(({**body, "structgen": extras} if extras else body, read))
    return RemoteRequest(remote, rows, limits, min(AT_ONCE, options.batch_size))


def _fields(
    remote: Remote, target: Target, portable_: Portable | None, sampling: Sampling, limits: Limits
) -> dict[str, Any]:
    """The fields of OpenAI's interface."""
    body: dict[str, Any] = {"temperature": sampling.temperature}
    if limits.max_new_tokens is not None or not target.is_json:  # else what is left of the context
        body["max_tokens"] = limits.budget()
    body |= _changed(sampling, Sampling(), options_with(Sampling, "openai"))
    _require_remote(sampling, Sampling(), "openai", "extra")
    if limits.stop:
        require(target.constraint is None, "stop", limits.stop, "none: a constraint itself defines where its text ends")
        body["stop"] = list(limits.stop)
    schema = portable_.schema if portable_ else _json_schema(target) if target.is_json else None
    if target.is_json and remote.response_format == "json_object":
        body["response_format"] = {"type": "json_object", "schema": schema}
    elif target.is_json:
        described = {"name": "answer", "schema": schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": described}
    return body


def _changed(given: Any, default: Any, names: Iterable[str]) -> dict[str, Any]:
    """The attributes that differ from the default's, by name."""
    return {name: getattr(given, name) for name in names if getattr(given, name) != getattr(default, name)}


def _require_remote(given: Any, default: Any, *takers: str) -> None:
    """Refuses options that none of these takers has; False is as good as None."""
    local = [each.name for each in fields(given) if each.name not in options_with(type(given), *takers)]
    for name, value in _changed(given, default, local).items():
        require(getattr(default, name) is None and value is False, name, value, "nothing: the model is remote")


def _json_schema(target: Target) -> Any:
    constraint = target.constraint
    assert isinstance(constraint, JsonSchema)
    own = constraint.registry is None and constraint.format == "enforce" and constraint.finite
    require(own and constraint.closed is None, "schema", constraint, "no registry=, format=, finite= or closed=")
    return constraint.document()


def _extras(
    target: Target, sampling: Sampling, limits: Limits, banned: Sequence[str], options: CallOptions, *, own: bool
) -> dict[str, Any]:
    """The fields that only structgen's own server has; for another endpoint, without those that it can do without."""
    constraint, extras = target.constraint, dict[str, Any]()
    if isinstance(constraint, Regex):
        extras["regex"] = constraint.pattern
    elif isinstance(constraint, Choice):
        extras["choice"] = list(constraint.options)
    elif isinstance(constraint, (EBNF, GBNF, Lark)) and constraint == type(constraint)(constraint.grammar):
        extras["grammar"] = constraint.grammar
    elif constraint is not None and not isinstance(constraint, JsonSchema):
        raise OptionError(f"schema={quoted(constraint)} cannot be sent to an endpoint")
    if isinstance(constraint, JsonSchema):
        if constraint.order != "schema":
            extras["order"] = constraint.order
        if constraint.whitespace != Whitespace.SPACED:
            extras["whitespace"] = constraint.whitespace.indent or constraint.whitespace.kind
    sent = [
        _changed(given, default, (name for name in options_with(type(given), "extra")
                                  if own or name not in options_with(type(given), "spare")))
        for given, default in ((sampling, Sampling()), (limits, Limits()))
    ]  # fmt: skip
    extras, budget = extras | sent[0], sent[1]
    if constraint is None:
        budget.pop("strict", None)
    canonical = "" if options.canonical == "off" else options.canonical
    further = {"budget": budget, "banned": list(banned), "canonical": canonical}
    return extras | {name: value for name, value in further.items() if value}
