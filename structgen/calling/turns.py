"""One turn of a model that may call tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, overload

from structgen.arguments import require_flag
from structgen.calling.messages import Message
from structgen.calling.request import Parallel, TurnRequest, prepared
from structgen.chat.parser import CallEnded, TextPiece
from structgen.decoding.cuts import Cuts
from structgen.decoding.generation import Generation
from structgen.decoding.request import raise_first_error
from structgen.tools import ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import TypeForm, TypeVar

    from structgen.api import AnyModel, Text

    T = TypeVar("T", default=Any)
    R = TypeVar("R")
else:
    from typing import TypeVar

    T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """The turn of a model, from `call(..., details=True)`.

    Attributes:
        calls: the calls that the model made; empty if it answered.
        answer: a value of the type of `schema=`, or text; None if the model called.
        text: the text before the calls, or the text of the answer.
        prompt: the text that the model read, with its control tokens.
        generation: the run's tokens, confidence, thinking and costs.
    """

    calls: list[ToolCall[Any]]
    answer: T | None
    text: str
    prompt: str
    generation: Generation[str]

    @property
    def value(self) -> list[ToolCall[Any]] | T | None:
        """The result of `call` without details: the calls, or else the answer."""
        return self.calls or self.answer


@overload
def call(
    model: AnyModel, messages: str | Sequence[Message], tools: Sequence[Any], *,
    choice: Callable[..., R], parallel: Parallel = False, details: Literal[False] = False, **options: Any,
) -> list[ToolCall[R]]: ...  # fmt: skip
@overload
def call(
    model: AnyModel, messages: str | Sequence[Message], tools: Sequence[Any], *,
    choice: Literal["required"], parallel: Parallel = False, details: Literal[False] = False, **options: Any,
) -> list[ToolCall[Any]]: ...  # fmt: skip
@overload
def call(
    model: AnyModel, messages: str | Sequence[Message], tools: Sequence[Any] = (), *, schema: Text | None = None,
    choice: Any = "auto", parallel: Parallel = False, details: Literal[False] = False, **options: Any,
) -> list[ToolCall[Any]] | str: ...  # fmt: skip
@overload
def call(
    model: AnyModel, messages: str | Sequence[Message], tools: Sequence[Any] = (), *, schema: Text | None = None,
    choice: Any = "auto", parallel: Parallel = False, details: Literal[True], **options: Any,
) -> Reply[str]: ...  # fmt: skip
@overload
def call(
    model: AnyModel, messages: str | Sequence[Message], tools: Sequence[Any] = (), *, schema: TypeForm[T],
    choice: Any = "auto", parallel: Parallel = False, details: Literal[False] = False, **options: Any,
) -> list[ToolCall[Any]] | T: ...  # fmt: skip
@overload
def call(
    model: AnyModel, messages: str | Sequence[Message], tools: Sequence[Any] = (), *, schema: TypeForm[T],
    choice: Any = "auto", parallel: Parallel = False, details: Literal[True], **options: Any,
) -> Reply[T]: ...  # fmt: skip
@overload
def call(
    model: AnyModel, messages: str | Sequence[Message], tools: Sequence[Any] = (), *, schema: Callable[..., object],
    choice: Any = "auto", parallel: Parallel = False, details: Literal[False] = False, **options: Any,
) -> list[ToolCall[Any]] | dict[str, Any]: ...  # fmt: skip
@overload
def call(
    model: AnyModel, messages: str | Sequence[Message], tools: Sequence[Any] = (), *, schema: Callable[..., object],
    choice: Any = "auto", parallel: Parallel = False, details: Literal[True], **options: Any,
) -> Reply[dict[str, Any]]: ...  # fmt: skip
@overload
def call(
    model: AnyModel, messages: str | Sequence[Message], tools: Sequence[Any] = (), *, schema: object,
    choice: Any = "auto", parallel: Parallel = False, details: Literal[False] = False, **options: Any,
) -> list[ToolCall[Any]] | Any: ...  # fmt: skip
@overload
def call(
    model: AnyModel, messages: str | Sequence[Message], tools: Sequence[Any] = (), *, schema: object,
    choice: Any = "auto", parallel: Parallel = False, details: Literal[True], **options: Any,
) -> Reply[Any]: ...  # fmt: skip
def call(
    model: Any,
    messages: str | Sequence[Message],
    tools: Sequence[Any] = (),
    *,
    choice: Any = "auto",
    parallel: Parallel = False,
    schema: Any = None,
    details: bool = False,
    template_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Lets a model call tools, or answer: one turn, in the format that it was trained on.

        for each in call(model, "The weather in Paris and Rome?", [get_weather], choice="required", parallel=True):
            print(each.name, each.arguments, each.invoke())

    Args:
        model: what `load` gave, or a transformers model with `tokenizer=`. Its chat template must render calls.
        messages: a string, or chat messages. `tool_calls` of the assistant may be `ToolCall`s.
        tools: functions, methods, classes, `Tool`s, or entries of OpenAI's, MCP's or Anthropic's lists.
        choice: "auto": the model calls or answers; "required": it calls; "none": it answers, though it reads of the
            tools; a tool, or its name: it calls that one.
        parallel: False: one call at most; True: any number; (2, 3): two or three.
        schema: the type of an answer, as for `generate`: the model calls, or answers in it. None for text.
        details: return a `Reply`, with the text before calls, the prompt and the run beside the calls.
        template_options: for the chat template, as `{"enable_thinking": False}`.
        options: those of `generate`: `tokenizer`, `sampling`, `limits`, `whitespace`, `order`, `fast_forward`,
            `guards`, `banned`, `thinking`. With `thinking=True` the marks are those of the chat template.

    Returns:
        A list of `ToolCall`s; or the answer: text, or a value of `schema`.

    Raises:
        RequestError: a tool, the schema, an option, the chat template or the conversation cannot work; nothing has
            run.
        ValidationFailed: a tool's own validators refuse arguments of its schema.
        RunError: the run failed in another way.
    """
    require_flag("details", details)
    asked = prepared(
        model, messages, tools, choice=choice, parallel=parallel, schema=schema, template_options=template_options,
        options=options,
    )  # fmt: skip
    batch = asked.request.run(record=details)
    generation = asked.request.result(0, batch)
    raise_first_error([generation])
    if not details:
        Cuts(1, many=False).note(0, generation, stacklevel=2)
    turn = reply(asked, generation)
    return turn if details else turn.value


def reply(asked: TurnRequest, generation: Generation[Any]) -> Reply[Any]:
    """Reads the generated text as calls or an answer.

    Raises:
        ValidationFailed: a tool's validators, or the answer's, refuse it. CallSyntaxError: the text is cut off within
            a call.
    """
    text, calls = _read(asked, generation)
    answer: Any = None
    if not calls:
        answer = text if asked.answer is None else asked.answer.parse(text)
    return Reply(calls, answer, text, asked.prompt, generation)


def _read(asked: TurnRequest, generation: Generation[Any]) -> tuple[str, list[ToolCall[Any]]]:
    """Returns the text and the calls of a turn."""
    parser = asked.parser()
    if parser is None:
        return generation.text, []
    written = asked.written(generation.token_ids).decode("utf-8", errors="replace")
    events = parser.feed(written) + parser.finish()
    text = "".join(event.text for event in events if isinstance(event, TextPiece))
    calls = [
        asked.tools[event.name].called(event.arguments, event.id or None)
        for event in events
        if isinstance(event, CallEnded)
    ]
    return text, calls
