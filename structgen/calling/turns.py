"""One turn of a model that may call tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, overload

from pydantic import ValidationError

from structgen.arguments import flag_of
from structgen.calling.remote_turns import RemoteTurns, prepared_remote
from structgen.calling.reply import Reply
from structgen.calling.request import CallRequest, TurnRequest, prepared
from structgen.chat.history import Messages
from structgen.chat.parser import TextPiece, ThoughtPiece
from structgen.chat.spellings import begun_length
from structgen.chat.templates import Message
from structgen.decoding.cuts import Cuts
from structgen.decoding.generation import Generation
from structgen.decoding.prompts.targets import Target
from structgen.decoding.request import raise_first_error
from structgen.decoding.threads import awaited
from structgen.errors import BudgetExhausted, Stopped, StructgenError, ValidationFailed, excerpt, quoted
from structgen.regular.quotes import Place
from structgen.remote import Remote
from structgen.tools import ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import TypeForm, TypeVar, Unpack

    from structgen.calling.request import TurnOptions
    from structgen.streams import AnyModel, Text

    Conversations = list[str] | Sequence[Sequence[Message]]
    NO = Literal[False] | None
    YES = Literal[True]
    T = TypeVar("T", default=Any)
    R = TypeVar("R")


@overload
def call(
    model: AnyModel, messages: Messages, tools: Sequence[Any], *, choice: Callable[..., R],
    schema: object = None, details: NO = False, **options: Unpack[TurnOptions],
) -> list[ToolCall[R]]: ...  # fmt: skip
@overload
def call(
    model: AnyModel, messages: Messages, tools: Sequence[Any], *, choice: Literal["required"],
    schema: object = None, details: NO = False, **options: Unpack[TurnOptions],
) -> list[ToolCall[Any]]: ...  # fmt: skip
@overload
def call(
    model: AnyModel, messages: Messages, tools: Sequence[Any] = (), *, schema: Text | None = None,
    choice: Any = "auto", details: NO = False, **options: Unpack[TurnOptions],
) -> list[ToolCall[Any]] | str: ...  # fmt: skip
@overload
def call(
    model: AnyModel, messages: Messages, tools: Sequence[Any] = (), *, schema: Text | None = None,
    choice: Any = "auto", details: YES, **options: Unpack[TurnOptions],
) -> Reply[str]: ...  # fmt: skip
@overload
def call(  # type: ignore[overload-overlap]
    model: AnyModel, messages: Messages, tools: Sequence[Any] = (), *, schema: TypeForm[T],
    choice: Any = "auto", details: NO = False, **options: Unpack[TurnOptions],
) -> list[ToolCall[Any]] | T: ...  # fmt: skip
@overload
def call(  # type: ignore[overload-overlap]
    model: AnyModel, messages: Messages, tools: Sequence[Any] = (), *, schema: TypeForm[T],
    choice: Any = "auto", details: YES, **options: Unpack[TurnOptions],
) -> Reply[T]: ...  # fmt: skip
@overload
def call(
    model: AnyModel, messages: Messages, tools: Sequence[Any] = (), *, schema: Callable[..., object],
    choice: Any = "auto", details: NO = False, **options: Unpack[TurnOptions],
) -> list[ToolCall[Any]] | dict[str, Any]: ...  # fmt: skip
@overload
def call(
    model: AnyModel, messages: Messages, tools: Sequence[Any] = (), *, schema: Callable[..., object],
    choice: Any = "auto", details: YES, **options: Unpack[TurnOptions],
) -> Reply[dict[str, Any]]: ...  # fmt: skip
@overload
def call(
    model: AnyModel, messages: Messages, tools: Sequence[Any] = (), *, schema: object,
    choice: Any = "auto", details: NO = False, **options: Unpack[TurnOptions],
) -> list[ToolCall[Any]] | Any: ...  # fmt: skip
@overload
def call(
    model: AnyModel, messages: Messages, tools: Sequence[Any] = (), *, schema: object,
    choice: Any = "auto", details: YES, **options: Unpack[TurnOptions],
) -> Reply[Any]: ...  # fmt: skip
@overload
def call(
    model: AnyModel, messages: Conversations, tools: Sequence[Any], *, choice: Callable[..., R],
    schema: object = None, details: NO = False, **options: Unpack[TurnOptions],
) -> list[list[ToolCall[R]]]: ...  # fmt: skip
@overload
def call(
    model: AnyModel, messages: Conversations, tools: Sequence[Any], *, choice: Literal["required"],
    schema: object = None, details: NO = False, **options: Unpack[TurnOptions],
) -> list[list[ToolCall[Any]]]: ...  # fmt: skip
@overload
def call(
    model: AnyModel, messages: Conversations, tools: Sequence[Any] = (), *, schema: Text | None = None,
    choice: Any = "auto", details: NO = False, **options: Unpack[TurnOptions],
) -> list[list[ToolCall[Any]] | str]: ...  # fmt: skip
@overload
def call(
    model: AnyModel, messages: Conversations, tools: Sequence[Any] = (), *, schema: Text | None = None,
    choice: Any = "auto", details: YES, **options: Unpack[TurnOptions],
) -> list[Reply[str]]: ...  # fmt: skip
@overload
def call(
    model: AnyModel, messages: Conversations, tools: Sequence[Any] = (), *, schema: TypeForm[T],
    choice: Any = "auto", details: NO = False, **options: Unpack[TurnOptions],
) -> list[list[ToolCall[Any]] | T]: ...  # fmt: skip
@overload
def call(
    model: AnyModel, messages: Conversations, tools: Sequence[Any] = (), *, schema: TypeForm[T],
    choice: Any = "auto", details: YES, **options: Unpack[TurnOptions],
) -> list[Reply[T]]: ...  # fmt: skip
@overload
def call(
    model: AnyModel, messages: Conversations, tools: Sequence[Any] = (), *, schema: object,
    choice: Any = "auto", details: NO = False, **options: Unpack[TurnOptions],
) -> list[list[ToolCall[Any]] | Any]: ...  # fmt: skip
@overload
def call(
    model: AnyModel, messages: Conversations, tools: Sequence[Any] = (), *, schema: object,
    choice: Any = "auto", details: YES, **options: Unpack[TurnOptions],
) -> list[Reply[Any]]: ...  # fmt: skip
def call(
    model: Any,
    messages: Any,
    tools: Sequence[Any] = (),
    *,
    choice: Any = "auto",
    schema: Any = None,
    details: bool | None = False,
    **options: Any,
) -> Any:
    """Lets a model call tools, or answer: one turn, in the format that it was trained on.

        for each in call(model, "The weather in Paris and Rome?", [get_weather], choice="required", parallel=True):
            print(each.name, each.arguments, each.invoke())

    Args:
        model: what `load` gave, or a transformers model with `tokenizer=`, whose chat template must render calls; or a
            `Remote`, which is sent the tools in OpenAI's form, and whose calls are validated here.
        messages: a string, or chat messages; the assistant's `tool_calls` may be `ToolCall`s. A list of such
            conversations runs as one batch; an empty list gives an empty list.
        tools: functions, methods, classes, `Tool`s, or entries of OpenAI's, MCP's or Anthropic's lists. A list of lists
            gives each conversation its own.
        choice: "auto": the model calls or answers; "required": it calls; "none": it answers, though it reads of the
            tools; a tool, or its name: it calls that one. A list gives each conversation its own.
        parallel: False: one call at most; True: any number; (2, 3): two or three. A list gives each conversation its
            own.
        schema: the type of an answer, as for `generate`: the model calls, or answers in it. None for text. A list gives
            each conversation its own.
        details: return a `Reply`, with the text before calls, the prompt and the run next to the calls.
        options: `template_options` for the chat template, as `{"enable_thinking": False}`; `call_format`, the name of a
            format such as "hermes", or a `CallFormat`, for models whose template tells none; and those of `generate`:
            `tokenizer`, `sampling`, `limits`, `whitespace`, `order`, `fast_forward`, `batch_size`, `guards`, `banned`,
            `thinking`, `beams`, `canonical`, `source`, `prompt_schema`. With `thinking=True` the marks are those of the
            chat template. `prompt_schema` is True here: the answer's schema is written after what the user said last.
            `examples` are pairs of a user's text and the `ToolCall`, the list of them, or the answer that it should
            give.

    Returns:
        A list of `ToolCall`s; or the answer: text, or a value of `schema`. A list of them for a list of conversations.

    Raises:
        RequestError: a tool, the schema, an option, the chat template or a conversation cannot work; nothing has run.
        ValidationFailed: a tool's own validators refuse arguments of its schema.
        RunError: the run failed in another way. A failed conversation of a list does not stop the others: the first
            failure is raised when all are done; with `details=True` each is its `Reply`'s `error` instead.
    """
    details = flag_of("details", details)
    asked = any_request(model, messages, tools, choice=choice, schema=schema, options=options)
    return values(asked, replies(asked, record=details), details=details)


acall = awaited(call)
"""`call` for async code: it runs in a thread, and the event loop continues meanwhile.

    for each in await acall(model, "The weather in Paris?", [get_weather], choice="required"):
        print(await each.ainvoke())

A cancelled call ends after the model's present step, and concurrent calls share forward passes, as for `agenerate`.
Arguments, results and errors are those of `call`.
"""


def any_request(model: Any, messages: Any, tools: Any, **given: Any) -> CallRequest | RemoteTurns:
    """Returns the request of the turns of a model of this process, or of a remote one."""
    kind = prepared_remote if isinstance(model, Remote) else prepared
    return kind(model, messages, tools, **given)


def replies(asked: CallRequest | RemoteTurns, *, record: bool) -> list[Reply[Any]]:
    """Runs the turns, and reads each one's text; a failure is in its reply."""
    if isinstance(asked, RemoteTurns):
        return asked.replies()
    results = asked.request.results(record=record)
    return [reply(turn, results[turn.row]) for turn in asked.turns]


def values(asked: CallRequest | RemoteTurns, turns: list[Reply[Any]], *, details: bool) -> Any:
    """Returns each turn's value or, with details, its whole reply; a list for a list of conversations.

    Raises:
        StructgenError: a turn failed; but for a list with details, whose replies have their errors.
    """
    if not (details and asked.many):
        raise_first_error([each.error for each in turns])
    if details:
        return turns if asked.many else turns[0]
    cuts = Cuts(len(turns), many=asked.many)
    for row, each in enumerate(turns):
        cuts.note(row, each.generation)
    return [each.value for each in turns] if asked.many else turns[0].value


def reply(asked: TurnRequest, generation: Generation[Any], known: Sequence[ToolCall[Any]] = ()) -> Reply[Any]:
    """Reads the generated text as calls or an answer.

    Args:
        known: calls of this turn that a stream has given; they keep their ids.
    """
    text, calls, answer, quotes = generation.text, list[ToolCall[Any]](), None, dict[str, tuple[Place, ...]]()
    error = generation.error
    if error is None:
        try:
            text, calls, thought = _read(asked, generation, known)
            if generation.thinking is None and thought:
                generation = replace(generation, thinking=thought)
            if not calls and (generation.finish == "cut" or _ends_in_trigger(asked, generation)):
                limit = generation.caps[-1].option if generation.caps else asked.session.limit
                kind = Stopped if limit.startswith("seconds") else BudgetExhausted
                raise kind(f"{limit}: the model began a call, and came to no name; raise the limit", text)
            answer = None if calls else text if asked.answer is None else _answer(asked.answer, text)
            quotes = {} if calls else asked.quotes(text)
        except StructgenError as refusal:
            error, calls = refusal, []
    return Reply(calls, answer, text, generation.prompt, generation, error, quotes)


def _ends_in_trigger(asked: TurnRequest, generation: Generation[Any]) -> bool:
    """Has a limit ended free text within what begins a call?"""
    if asked.format is None or not asked.tools or asked.answer is not None or generation.finish != "length":
        return False
    text = asked.written(generation.token_ids).decode("utf-8", errors="replace")
    ways = asked.format.ways(list(asked.tools))
    triggers = [each for way, begun in ways if not way.named for each in begun]  # others need the name of a tool
    begun = max(map(begun_length, triggers, [text] * len(triggers)), default=0)
    return begun > 0 and (begun >= _CLEARLY or not text[: len(text) - begun].strip())


_CLEARLY = 4
"""The number of characters of what begins a call from which on the end of a text is no text any more."""


def _answer(target: Target, text: str) -> Any:
    """Returns the value of an answer's text."""
    try:
        return target.parse(text)
    except (ValidationError, ValueError) as refusal:
        why = f"the answer is refused by its type: {excerpt(refusal)}; text: {quoted(text)}"
        raise ValidationFailed(why, "", text, excerpt(refusal)) from refusal


def _read(
    asked: TurnRequest, generation: Generation[Any], known: Sequence[ToolCall[Any]]
) -> tuple[str, list[ToolCall[Any]], str]:
    """Returns the text and the calls of a turn, and a thought that the model has started by itself.

    Raises:
        ValidationFailed: a tool's validators refuse a call.
    """
    if asked.format is None:
        return generation.text, [], ""
    turn = asked.session.whole_turn(generation.token_ids, cut=generation.finish == "cut")
    calls = [*known] if len(turn.calls) == len(known) else [*map(asked.called, turn.calls)]
    calls += [asked.cut(turn, generation)] if turn.is_open else []
    return turn.said(TextPiece), calls, turn.said(ThoughtPiece)
