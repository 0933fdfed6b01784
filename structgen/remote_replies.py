"""Replies of endpoints of OpenAI's interface, which may be anything: what is read of them, or why it cannot be."""

from __future__ import annotations

from codecs import BOM_UTF8
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, NonNegativeInt, ValidationError, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import from_json

from structgen.errors import RunError, excerpt, quoted
from structgen.http_client import Reply
from structgen.trace.records import Finish


def error_message(body: bytes) -> str:
    """Returns what an endpoint's error says."""
    try:
        error = from_json(body)["error"]
        return excerpt(error["message"] if isinstance(error, dict) else error)
    except (ValueError, LookupError, TypeError):
        return excerpt(body.decode("utf-8", errors="replace"))


def _or_none(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    try:
        return read(value)
    except ValidationError:
        return None


T = TypeVar("T")
Loose = Annotated[T | None, WrapValidator(_or_none)]
"""What a value does not depend on: None where it has the wrong type."""


class ToldCap(BaseModel):
    """A limit that cut a value, as structgen's own server tells it."""

    name: str
    pointer: str
    limit: int | float


class ToldOptions(BaseModel):
    """The field `structgen` of a choice."""

    finish: Loose[Finish] = None
    forced_tokens: Loose[NonNegativeInt] = None
    rollbacks: Loose[NonNegativeInt] = None
    seed: Loose[int] = None
    caps: Loose[list[ToldCap]] = None


class CalledFunction(BaseModel):
    """The function of a call, with its arguments as JSON text."""

    name: str
    arguments: str = "{}"


class CalledTool(BaseModel):
    """A call of a tool."""

    function: CalledFunction
    id: Loose[str] = None


class Message(BaseModel):
    """The message of a choice."""

    content: str | None = None
    tool_calls: list[CalledTool] | None = None
    reasoning_content: Loose[str] = None


class ReplyChoice(BaseModel):
    """A choice of a chat completion."""

    message: Message | None = None
    finish_reason: Loose[str] = None
    structgen: Loose[ToldOptions] = None

    @property
    def text(self) -> str:
        """The answer; empty without one."""
        return (self.message and self.message.content) or ""


class Details(BaseModel):
    """Details of the tokens of a prompt."""

    cached_tokens: Loose[NonNegativeInt] = None


class ReplyUsage(BaseModel):
    """The tokens of a chat completion."""

    prompt_tokens: Loose[NonNegativeInt] = None
    completion_tokens: Loose[NonNegativeInt] = None
    prompt_tokens_details: Loose[Details] = None


class Completion(BaseModel):
    """What is read of a chat completion: the first choice, and the usage."""

    choices: Annotated[list[Any], Field(min_length=1)]
    usage: Loose[ReplyUsage] = None

    @property
    def choice(self) -> ReplyChoice:
        """The first choice.

        Raises:
            ValidationError: it is none.
        """
        return ReplyChoice.model_validate(self.choices[0])


def completion(reply: Reply) -> tuple[ReplyChoice, ReplyUsage]:
    """Reads a reply.

    Raises:
        RunError: it is no chat completion.
    """
    try:
        whole = Completion.model_validate_json(reply.content.removeprefix(BOM_UTF8))
        return whole.choice, whole.usage or ReplyUsage()
    except ValidationError as refusal:
        first = refusal.errors(include_url=False)[0]
        place = ".".join(str(each) for each in first["loc"]) or "the reply"
        told = f"{place}: {first['msg']}; it says {quoted(reply.text)}"
        raise RunError(f"the endpoint did not answer with a chat completion: {told}") from refusal
