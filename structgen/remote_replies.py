"""Replies of endpoints of OpenAI's interface, which may be anything: what is read of them, or why it cannot be."""

from __future__ import annotations

from codecs import BOM_UTF8
from typing import Annotated, Any, TypeVar

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    Field,
    NonNegativeInt,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import from_json, to_json

from structgen.errors import RunError, excerpt, quoted
from structgen.http_client import Reply
from structgen.trace.records import Finish


def error_message(reply: Reply) -> str:
    """Returns what an endpoint's error says."""
    try:
        return excerpt(_said(from_json(reply.content)) or reply.text)
    except ValueError:
        return excerpt(reply.text)


def _said(error: Any) -> str:
    """The sentences of an error. Each vendor wraps them in its own way; a gateway quotes those of its provider."""
    if isinstance(error, str):
        try:
            return (error[:1] in "{[" and _said(from_json(error))) or error
        except ValueError:
            return error
    if isinstance(error, list):
        return "; ".join(filter(None, map(_said, error)))
    if not isinstance(error, dict):
        return ""
    if isinstance(error.get("loc"), list):  # FastAPI's
        return f"{'.'.join(map(str, error['loc']))}: {_said(error.get('msg'))}"
    names = ("error", "errors", "message", "detail", "metadata", "raw")
    return "; ".join(filter(None, (_said(error.get(name)) for name in names)))


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
    offset: NonNegativeInt | None = None


class ToldOptions(BaseModel):
    """The field `structgen` of a choice."""

    finish: Loose[Finish] = None
    forced_tokens: Loose[NonNegativeInt] = None
    rollbacks: Loose[NonNegativeInt] = None
    seed: Loose[int] = None
    caps: Loose[list[ToldCap]] = None


def _as_json(arguments: Any) -> Any:
    """Some servers send the arguments of a call as an object."""
    if isinstance(arguments, dict):
        return to_json(arguments, inf_nan_mode="constants").decode()
    return "{}" if arguments is None else arguments


def _joined(content: Any) -> Any:
    """Some servers send the text in parts, next to parts of thoughts."""
    if isinstance(content, list) and all(isinstance(part, dict) for part in content):
        texts = [part.get("text") for part in content if part.get("type") == "text"]
        return "".join(texts) if all(isinstance(text, str) for text in texts) else content
    return content


class CalledFunction(BaseModel):
    """The function of a call, with its arguments as JSON text."""

    name: str
    arguments: Annotated[str, BeforeValidator(_as_json)] = "{}"


class CalledTool(BaseModel):
    """A call of a tool."""

    function: CalledFunction
    id: Loose[str] = None


def _with_calls(message: Any) -> Any:
    """Some servers send one call in the field `function_call`, as OpenAI's interface had it before `tool_calls`."""
    if isinstance(message, dict) and not message.get("tool_calls") and message.get("function_call") is not None:
        return {**message, "tool_calls": [{"function": message["function_call"]}]}
    return message


class Message(BaseModel):
    """The message of a choice."""

    content: Annotated[str | None, BeforeValidator(_joined)] = None
    refusal: Loose[str] = None
    tool_calls: list[CalledTool] | None = None
    reasoning_content: Loose[str] = Field(None, validation_alias=AliasChoices("reasoning_content", "reasoning"))


class ReplyChoice(BaseModel):
    """A choice of a chat completion."""

    message: Annotated[Message | None, BeforeValidator(_with_calls)] = None
    finish_reason: Loose[str] = None
    structgen: Loose[ToldOptions] = None
    error: Any = None

    @property
    def text(self) -> str:
        """The answer; empty without one."""
        return (self.message and self.message.content) or ""

    def require_own_end(self) -> None:
        """Refuses what the endpoint broke off, which is no answer of the model however much of it came.

        Raises:
            RunError: a filter or an error broke it off, or the model says that it refuses.
        """
        if self.error is not None or self.finish_reason in ("content_filter", "error"):
            told = f": {excerpt(_said(self.error) or self.error)}" if self.error is not None else ""
            raise RunError(f"the endpoint broke the answer off ({excerpt(self.finish_reason)}){told}")
        if self.message and self.message.refusal and not self.text:
            raise RunError(f"the model refuses: {excerpt(self.message.refusal)}")


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
        told = f"{place}: {first['msg']}; it says {quoted(error_message(reply))}"
        raise RunError(f"the endpoint did not answer with a chat completion: {told}") from refusal
