"""`call` for async code: the event loop continues while the model runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from structgen.arguments import flag_of
from structgen.calling.reply import Reply
from structgen.calling.turns import any_request, replies, values
from structgen.chat.history import Messages
from structgen.decoding.threads import in_thread
from structgen.tools import ToolCall
from structgen.waiting import waiting

if TYPE_CHECKING:
    from typing_extensions import TypeForm, TypeVar, Unpack

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
    """`call` for async code: it runs in a thread, and the event loop continues meanwhile.

        for each in await acall(model, "The weather in Paris?", [get_weather], choice="required"):
            print(await each.ainvoke())

    A cancelled call ends after the model's present step, and concurrent calls share forward passes, as for `agenerate`.
    Arguments, results and errors are those of `call`.
    """
    details = flag_of("details", details)

    def called() -> Any:
        asked = any_request(model, messages, tools, choice=choice, schema=schema, options=options)
        return asked, replies(asked, record=details)

    with waiting("generating"):
        asked, turns = await in_thread(called)
    return values(asked, turns, details=details)
