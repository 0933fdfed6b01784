"""The requests of OpenAI's interface.

A field that is not listed here is ignored, and the answer says so; one that constrains the answer is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic_core import from_json

from structgen.errors import excerpt, quoted
from structgen.options import Limits, Sampling, Thinking
from structgen.server.fields import constrains, translated
from structgen.server.notes import Notes
from structgen.server.problems import Problem

Number = Annotated[float, Field(strict=True)]
Count = Annotated[StrictInt, Field(ge=1)]


_SCHEMA = 'response_format={"type": "json_schema", "json_schema": {"name": ..., "schema": ...}}'
_REFUSED = {
    "best_of": "n gives several texts, and structgen.beams searches for the likeliest one",
    "functions": "pass tools",
    "function_call": "pass tool_choice",
    "web_search_options": "the server searches nothing: pass a tool of your own",
    "image": "the server makes no images",
    "dimensions": "an embedding has as many as the model's states",
    "echo": "the answer has only new text: put your prompt before it",
    "suffix": "the text goes on behind the prompt only",
    "container": "the server runs no code: pass a tool of your own",
    "mcp_servers": "the server calls no tools itself: list those of the MCP server, and pass them as tools",
    "min_tokens": "a schema says how short a text may be",
    "stop_token_ids": "pass the texts of the tokens as stop",
    "ignore_eos": "a text ends where the model ends it: ask for a schema or a regex",
    "response_format.schema": f"pass {_SCHEMA}",
    "response_format.name": f"pass {_SCHEMA}",
    "response_format.strict": f"pass {_SCHEMA}",
}
"""Fields of other servers, and common mistakes -> what to use here."""


_LARGE = re.compile(rb"[0-9][eE][+]?[0-9]{3}")
"""A number that may be too large for a float."""


class Strict(BaseModel):
    """A part of a request; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())


def _made_of(record: type[Any]) -> Any:
    """The options of a record that a request may have, each with its type and default, as a part of a request."""
    hints, given = get_type_hints(record), dict[str, Any]()
    for each in (each for each in fields(record) if each.metadata.get("extra")):
        hint = hints[each.name]
        given[each.name] = hint if get_origin(hint) is Literal else Annotated[hint, Field(strict=True)], each.default
    return create_model(
        f"{record.__name__}Fields", __base__=Options, __doc__=f"Options of `{record.__name__}`.", **given
    )


class Options(Strict):
    """A part of a request in which null is not given, but where an option has a meaning for it."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        hints = {name: each.annotation for name, each in cls.model_fields.items()}
        return {
            name: value for name, value in given.items()
            if value is not None or name not in hints or type(None) in get_args(hints[name])
        }  # fmt: skip


if TYPE_CHECKING:
    SamplingFields = Options
    ThinkingField = Options
    Budget = Options
else:
    SamplingFields, ThinkingField, Budget = map(_made_of, (Sampling, Thinking, Limits))


class GapField(Strict):
    """The attributes of `Gap`: a count, or the smallest and the largest."""

    characters: StrictInt | tuple[StrictInt, StrictInt] | None = None
    words: StrictInt | tuple[StrictInt, StrictInt] | None = None


class PhraseField(Strict):
    """A phrase: one of `text`, `any_of`, `ordered` and `template`, in which null is a gap of any text.

    A string is short for `{"text": ...}`.
    """

    text: StrictStr | None = None
    any_of: list[StrictStr] | None = None
    ordered: list[StrictStr] | None = None
    template: list[StrictStr | GapField | None] | None = None
    ignore_case: StrictBool = False
    whole_word: StrictBool = False
    at: StrictStr | None = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, given: Any) -> Any:
        return {"text": given} if isinstance(given, str) else given


class Extras(SamplingFields):
    """The field `structgen`: what OpenAI's interface has no field for, the options of `Sampling` among it.

    Attributes:
        regex, choice, grammar: a constraint other than a JSON Schema; `grammar` is in Lark's, llama.cpp's or xgrammar's
            notation.
        beams: the beams of a search; None means 8 with phrases, and no search without.
        canonical: allow only tokens that the tokenizer itself would write.
        whitespace: the layout of JSON; a number is the blanks of an indent.
        budget: the limits of values, and whether cutting a value short is an error.
        thinking: let the model think before it answers, or not; None: as the chat template does.
        plan: "free": the model answers in its own words before it gives the value.
        source: what `x-quote` in a schema quotes; None: the user's last message.
        prompt_schema: write the schema after the prompt, too.
        losses: tell what the model wanted to write and could not.
    """

    regex: StrictStr | None = None
    choice: list[StrictStr] | None = None
    grammar: StrictStr | None = None
    banned: list[StrictStr] = Field(default=[])
    phrases: list[PhraseField] = Field(default=[])
    beams: Count | None = None
    canonical: StrictBool | Literal["off", "prefer", "strict"] = "off"
    order: StrictStr | list[StrictStr] = "schema"
    whitespace: Literal["spaced", "compact", "flexible"] | Annotated[StrictInt, Field(ge=0, le=100)] = "spaced"
    budget: Budget = Budget()
    thinking: StrictBool | ThinkingField | None = None
    plan: Literal["free"] | None = None
    source: StrictStr | list[StrictStr] | dict[str, StrictStr] | None = None
    template_options: dict[str, Any] = Field(default={})
    prompt_schema: StrictBool = False
    losses: StrictBool = False

    @property
    def beam_count(self) -> int:
        """The beams of each text's search; 1 without a search."""
        return self.beams or (8 if self.phrases else 1)


class NamedSchema(Strict):
    """A schema with its name. `strict` has no effect: a schema is always kept."""

    name: StrictStr
    schema_: dict[str, Any] | StrictBool = Field(alias="schema")
    description: StrictStr | None = None
    strict: StrictBool | None = None


class SchemaFormat(Strict):
    """The answer is JSON of a schema."""

    type: Literal["json_schema"]
    json_schema: NamedSchema


class TagFormat(BaseModel):
    """The answer is text with tags in it: see `chat.structural`, which checks the other fields."""

    model_config = ConfigDict(extra="allow")

    type: Literal["structural_tag"]


class PlainFormat(Strict):
    """The answer is a JSON object, or text."""

    type: Literal["json_object", "text"]


class StreamFields(Strict):
    """Options of a stream. `include_obfuscation` has no effect: nothing is obfuscated."""

    include_obfuscation: StrictBool | None = None


class ChatStreamFields(StreamFields):
    """Options of a stream of chunks."""

    include_usage: StrictBool = False


class Message(BaseModel):
    """A message of a conversation. A chat template may read further fields."""

    model_config = ConfigDict(extra="allow")
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: StrictStr | list[dict[str, Any]] | None = None
    tool_calls: list[dict[str, Any]] | None = None


class AnyRequest(Strict):
    """The fields that all kinds of requests have.

    `user`, `metadata`, `store`, `service_tier`, `safety_identifier`, `prompt_cache_key` and `prompt_cache_retention`
    have no effect. But `/v1/responses` keeps an answer with `store`, and all requests of one `prompt_cache_key` are a
    session.
    """

    _notes: Notes = PrivateAttr(default_factory=Notes)
    _thinking_tokens: int | None = PrivateAttr(default=None)
    model: StrictStr
    temperature: Number | None = None
    top_p: Number | None = None
    stream: StrictBool | None = None
    structgen: Extras | None = None
    user: Any = None
    metadata: Any = None
    store: Any = None
    service_tier: Any = None
    safety_identifier: Any = None
    prompt_cache_key: Any = None
    prompt_cache_retention: Any = None

    @property
    def extras(self) -> Extras:
        """The field `structgen`, or its defaults."""
        return self.structgen or Extras()


R = TypeVar("R", bound=AnyRequest)


class Common(AnyRequest):
    """The fields that both `/v1/completions` and `/v1/chat/completions` have."""

    response_format: Annotated[SchemaFormat | TagFormat | PlainFormat, Field(discriminator="type")] | None = None
    max_tokens: Count | None = None
    frequency_penalty: Number | None = None
    presence_penalty: Number | None = None
    seed: StrictInt | None = None
    n: Count | None = None
    logit_bias: dict[str, Annotated[Number, Field(ge=-100, le=100)]] | None = None
    stop: StrictStr | list[StrictStr] | None = None
    stream_options: ChatStreamFields | None = None


class ChatRequest(Common):
    """`/v1/chat/completions`."""

    _begun: str = PrivateAttr(default="")
    messages: Annotated[list[Message], Field(min_length=1)]
    tools: list[Any] | None = None
    tool_choice: Any = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    parallel_tool_calls: StrictBool | None = None
    logprobs: StrictBool | None = None
    top_logprobs: StrictInt | None = None
    max_completion_tokens: Count | None = None
    modalities: list[Literal["text"]] | None = None


class TextRequest(Common):
    """`/v1/completions`."""

    prompt: StrictStr | Annotated[list[StrictStr] | list[StrictInt] | list[list[StrictInt]], Field(min_length=1)]
    logprobs: StrictInt | None = None


def read_request(kind: type[R], body: bytes) -> R:
    """Reads a request.

    Raises:
        Problem: the text is no JSON, or a field is unknown or has a wrong value.
    """
    try:
        given = from_json(body, allow_inf_nan=False)
        if _LARGE.search(body):
            json.dumps(given, allow_nan=False)  # raises for a number that has become infinite
        value, ignored = translated(given)
    except ValueError as error:
        raise Problem(400, f"the body: Invalid JSON: {excerpt(error)}", "invalid_value", param="") from None
    while True:
        try:
            request = kind.model_validate(value)
        except ValidationError as refusal:
            ignored += _left_out(kind, value, refusal)
        else:
            request._notes.ignored = ignored
            return request


def _left_out(kind: type[BaseModel], value: Any, refusal: ValidationError) -> list[str]:
    """Leaves out unknown fields, if nothing else is wrong and they constrain nothing. Returns their places.

    Raises:
        Problem: a field has a wrong value, or an unknown one constrains the answer.
    """
    # A missing field is reported only if nothing else is wrong.
    errors = sorted(refusal.errors(include_url=False), key=lambda error: error["type"] == "missing")
    places = [[*_place(error["loc"], value)] for error in errors]
    for error, parts in zip(errors, places, strict=True):
        place = ".".join(parts)
        if error["type"] != "extra_forbidden":
            found = "" if error["type"] == "missing" else f", found {quoted(error['input'])}"
            why = re.sub(r" or instance of \w+", "", error["msg"])
            raise Problem(400, f"{excerpt(place) or 'the body'}: {why}{found}", "invalid_value", param=place)
        remedy = _instead(kind, place)
        if remedy or constrains(parts):
            remedy = remedy or "this server does not know it, and ignores no constraint"
            raise Problem(400, f"unknown field {quoted(place)}: {remedy}", "unknown_parameter", param=place)
    for *way, name in places:
        inside = value
        for part in way:
            inside = inside[int(part)] if isinstance(inside, list) else inside[part]
        inside.pop(name, None)
    return [".".join(part for part in parts if not part.isdigit())[:LONGEST] for parts in places]


LONGEST = 80
"""The characters of the place of an unknown field at most: its name is the client's."""


def _place(location: Sequence[str | int], value: Any) -> Iterator[str]:
    """Yields the parts of a place in a body, without the names of classes that Pydantic puts among them."""
    for number, part in enumerate(location):
        inside = isinstance(value, dict) and (part in value or number == len(location) - 1)
        if inside or (isinstance(value, list) and isinstance(part, int)):
            yield str(part)
            value = value.get(part) if isinstance(value, dict) else value[part] if int(part) < len(value) else None


def _instead(kind: type[BaseModel], place: str) -> str:
    """What to use instead of an unknown field; an empty text if nothing comes near."""
    if place in _REFUSED:
        return _REFUSED[place]
    if place in Extras.model_fields:
        return f'pass it inside the field structgen, as "structgen": {{"{place}": ...}}'
    group, dot, name = place.rpartition(".")
    names = Extras.model_fields if group == "structgen" else () if dot else kind.model_fields
    near = get_close_matches(name, names, 1)
    return f"the nearest is {group}{dot}{near[0]}" if near else ""
