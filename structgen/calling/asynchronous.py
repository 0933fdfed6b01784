"""Calls and conversations for async code: the event loop goes on while the model and the tools run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from structgen.arguments import flag_of
from structgen.calling.conversation import (
    Conversation,
    Given,
    ToolLoop,
    deadline_of,
    limits_of,
    reads_images,
    run_options,
)
from structgen.calling.request import prepared
from structgen.calling.results import Confirm, aresults
from structgen.calling.turns import Reply, replies, values
from structgen.chat.history import Messages
from structgen.decoding.threads import in_thread
from structgen.tools import ToolCall
from structgen.tools.invoking import require_asyncio
from structgen.waiting import waiting

if TYPE_CHECKING:
    from typing_extensions import TypeForm, TypeVar, Unpack

    from structgen.calling.conversation import RunOptions
    from structgen.calling.request import TurnOptions
    from structgen.calling.turns import Conversations
    from structgen.streams import AnyModel, Text

    NO = Literal[False] | None
    YES = Literal[True]
    T = TypeVar("T", default=Any)
    R = TypeVar("R")


@overload
async def acall(
    model: AnyModel, messages: Messages, tools: Sequence[Any], *, choice: Callable[..., R],
    schema: object = None, details: NO = False, **options: Unpack[TurnOptions],
) -> list[ToolCall[R]]: ...  # fmt: skip
@overload
async def acall(
    model: AnyModel, messages: Messages, tools: Sequence[Any], *, choice: Literal["required"],
    schema: object = None, details: NO = False, **options: Unpack[TurnOptions],
) -> list[ToolCall[Any]]: ...  # fmt: skip
@overload
async def acall(
    model: AnyModel, messages: Messages, tools: Sequence[Any] = (), *, schema: Text | None = None,
    choice: Any = "auto", details: NO = False, **options: Unpack[TurnOptions],
) -> list[ToolCall[Any]] | str: ...  # fmt: skip
@overload
async def acall(
    model: AnyModel, messages: Messages, tools: Sequence[Any] = (), *, schema: Text | None = None,
    choice: Any = "auto", details: YES, **options: Unpack[TurnOptions],
) -> Reply[str]: ...  # fmt: skip
@overload
async def acall(
    model: AnyModel, messages: Messages, tools: Sequence[Any] = (), *, schema: TypeForm[T],
    choice: Any = "auto", details: NO = False, **options: Unpack[TurnOptions],
) -> list[ToolCall[Any]] | T: ...  # fmt: skip
@overload
async def acall(
    model: AnyModel, messages: Messages, tools: Sequence[Any] = (), *, schema: TypeForm[T],
    choice: Any = "auto", details: YES, **options: Unpack[TurnOptions],
) -> Reply[T]: ...  # fmt: skip
@overload
async def acall(
    model: AnyModel, messages: Conversations, tools: Sequence[Any] = (), *, schema: Text | None = None,
    choice: Any = "auto", details: NO = False, **options: Unpack[TurnOptions],
) -> list[list[ToolCall[Any]] | str]: ...  # fmt: skip
@overload
async def acall(
    model: AnyModel, messages: Conversations, tools: Sequence[Any] = (), *, schema: TypeForm[T],
    choice: Any = "auto", details: NO = False, **options: Unpack[TurnOptions],
) -> list[list[ToolCall[Any]] | T]: ...  # fmt: skip
@overload
async def acall(
    model: AnyModel, messages: Conversations, tools: Sequence[Any] = (), *, schema: object = None,
    choice: Any = "auto", details: YES, **options: Unpack[TurnOptions],
) -> list[Reply[Any]]: ...  # fmt: skip
@overload
async def acall(
    model: AnyModel, messages: Messages | Conversations, tools: Sequence[Any] = (), *, schema: object,
    choice: Any = "auto", details: bool = False, **options: Unpack[TurnOptions],
) -> Any: ...  # fmt: skip
async def acall(
    model: Any,
    messages: Any,
    tools: Sequence[Any] = (),
    *,
    choice: Any = "auto",
    schema: Any = None,
    details: bool | None = False,
    **options: Any,
) -> Any:
    """`call` for async code: it runs in a thread, and the event loop goes on meanwhile.

        for each in await acall(model, "The weather in Paris?", [get_weather], choice="required"):
            print(await each.ainvoke())

    A cancelled call ends after the model's present step, and concurrent calls share forward passes, as for `agenerate`.
    Arguments, results and errors are those of `call`.
    """
    details = flag_of("details", details)

    def called() -> Any:
        asked = prepared(model, messages, tools, choice=choice, schema=schema, options=options)
        return asked, replies(asked, record=details)

    with waiting("generating"):
        asked, turns = await in_thread(called)
    return values(asked, turns, details=details)


@overload
async def arun(
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: Text | None = None,
    details: Literal[False] | None = False, **options: Unpack[RunOptions],
) -> str: ...  # fmt: skip
@overload
async def arun(
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: Text | None = None,
    details: Literal[True], **options: Unpack[RunOptions],
) -> Conversation[str]: ...  # fmt: skip
@overload
async def arun(  # type: ignore[overload-overlap]
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: TypeForm[T],
    details: Literal[False] | None = False, **options: Unpack[RunOptions],
) -> T: ...  # fmt: skip
@overload
async def arun(  # type: ignore[overload-overlap]
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: TypeForm[T],
    details: Literal[True], **options: Unpack[RunOptions],
) -> Conversation[T]: ...  # fmt: skip
@overload
async def arun(
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: Callable[..., object],
    details: Literal[False] | None = False, **options: Unpack[RunOptions],
) -> dict[str, Any]: ...  # fmt: skip
@overload
async def arun(
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: Callable[..., object],
    details: Literal[True], **options: Unpack[RunOptions],
) -> Conversation[dict[str, Any]]: ...  # fmt: skip
@overload
async def arun(
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: object,
    details: Literal[False] | None = False, **options: Unpack[RunOptions],
) -> Any: ...  # fmt: skip
@overload
async def arun(
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: object,
    details: Literal[True], **options: Unpack[RunOptions],
) -> Conversation[Any]: ...  # fmt: skip
async def arun(
    model: Any,
    messages: Given,
    tools: Sequence[Any],
    *,
    schema: Any = None,
    max_turns: int | None = 8,
    max_errors: int | None = 3,
    confirm: Confirm | None = None,
    text_before_calls: bool | None = False,
    choice: Any = "auto",
    details: bool | None = False,
    **options: Any,
) -> Any:
    """`run` for async code: async tools run in this event loop, others in threads, and nothing blocks it.

        plan = await arun(model, "A weekend in Rome?", [get_weather, book], schema=Plan)

    Arguments, results and errors are those of `run`. If it is cancelled, the `CancelledError` has the `conversation`.
    """
    details = flag_of("details", details)
    require_asyncio("arun")
    loop = ToolLoop(messages, tools, schema, max_turns, max_errors, confirm, text_before_calls, choice)
    options = run_options(options)
    images, deadline = reads_images(model, options.get("tokenizer")), deadline_of(options)
    with loop.resumable():
        for turn in loop.turns():
            with loop.refusals():
                turn |= {**options, **limits_of(options, deadline)}
                loop.take(await acall(model, loop.messages, loop.tools, **turn))
            for result in await aresults([*loop.open], confirm, images=images, deadline=deadline):
                loop.take_result(result)
    return loop.outcome if details else loop.outcome.answer
