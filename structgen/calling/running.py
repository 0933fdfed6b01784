"""Agents: `stream_run` and `astream_run` yield what happens in a run; `run` and `arun` return how it ends.

The loop of all four is `ToolLoop.events`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal, overload

from structgen.arguments import flag_of
from structgen.calling.conversation import Conversation, Given
from structgen.calling.events import RunAnswer, RunEvent
from structgen.calling.loop import RunOptions, ToolLoop
from structgen.calling.results import Async, Sync, driven
from structgen.tools.invoking import require_asyncio

if TYPE_CHECKING:
    from typing_extensions import TypeForm, TypeVar, Unpack

    from structgen.streams import AnyModel, Text

    NO = Literal[False] | None
    YES = Literal[True]
    T = TypeVar("T", default=Any)


@overload
def run(
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: Text | None = None, details: NO = False,
    **options: Unpack[RunOptions],
) -> str: ...  # fmt: skip
@overload
def run(
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: Text | None = None, details: YES,
    **options: Unpack[RunOptions],
) -> Conversation[str]: ...  # fmt: skip
@overload
def run(  # type: ignore[overload-overlap]
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: TypeForm[T], details: NO = False,
    **options: Unpack[RunOptions],
) -> T: ...  # fmt: skip
@overload
def run(
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: TypeForm[T], details: YES,
    **options: Unpack[RunOptions],
) -> Conversation[T]: ...  # fmt: skip
@overload
def run(
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: Callable[..., object], details: NO = False,
    **options: Unpack[RunOptions],
) -> dict[str, Any]: ...  # fmt: skip
@overload
def run(
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: object, details: bool | None = False,
    **options: Unpack[RunOptions],
) -> Any: ...  # fmt: skip
def run(
    model: Any,
    messages: Given,
    tools: Sequence[Any],
    *,
    schema: Any = None,
    details: bool | None = False,
    **options: Any,
) -> Any:
    """Lets a model call tools until it answers: call, execute, feed the result back, again.

        plan = run(model, "A weekend in Rome?", [get_weather, book], schema=Plan)

    What a tool raises, and arguments that its validators refuse, go back to the model as text. The calls of one turn
    run side by side (see `Tool`); their results are in the order of the calls.

    Args:
        model, tools, parallel, options: as for `call`, of one conversation. `Limits(seconds=...)` and `cancel` end the
            whole run, tools included: it is `Stopped`, and a tool that has started is not waited for.
        messages: a string or chat messages, as for `call`; or a `Conversation`, which goes on. Its calls that were not
            made come first.
        schema: the type of the answer; None for text.
        details: return a `Conversation`, with all messages and turns next to the answer.
        max_turns: the number of turns of the model at most, 8 by default. In the last one no call is made: with
            `schema=` the model cannot call, and answers; without, a call there is a `RunError`. A tool that `ends` the
            run may be called there, too.
        max_errors: how many failures of tools the run may have, 3 by default; the next one is raised. A call that a
            limit has cut off is one: it is not made, and the model is told so.
        confirm: a function, sync or async, that is asked about each call of a turn before any of them is made. If it
            returns False, or a text that says why not, the call is not made and the model reads this instead of a
            result. A dict has the arguments with which the call is made instead. If it raises, the run ends, and the
            calls are open: the `conversation` of the error can continue once they are decided.
        text_before_calls: with `schema=` the model calls, or answers in the schema, and writes no other text. True lets
            it write text before its calls, and answer in text; then another turn asks for this answer in the schema.
        choice: as for `call`, of the first turn: "required" or a tool makes the model call before it answers. The
            later turns are "auto".
        deps: what tools with a `Ctx` have as its `deps`.
        before_call: `before_call(ctx)` runs before each call, in its thread.
        after_call: `after_call(ctx, result)` runs after each call, with what the tool returned, or the exception that
            it raised. What it returns is the result instead, unless it is None.
        compact: `compact(messages)` returns the messages with which the conversation continues. It is asked before each
            turn of the model.

    Returns:
        The answer: text, a value of `schema`, or what the tool returned that ended the run.

    Raises:
        RequestError: something cannot work; or a tool has no function.
        RunError: tools failed more than `max_errors` times: what the last one raised is the `__cause__`; or the model
            called in its last turn; or the run itself failed. Functions of the user may raise anything.

    Whatever ends a run that has started, even `KeyboardInterrupt`, has the `Conversation` up to there as its
    `conversation`. A call that was interrupted has a result that says so.
    """
    details, loop = flag_of("details", details), ToolLoop(model, messages, tools, schema, options, Sync())
    for each in loop.tools:
        each.invoking.require_other_home()
    for last in _sync(loop.events(pieces=False)):
        end = last
    assert isinstance(end, RunAnswer)
    return end.conversation if details else end.answer


@overload
def stream_run(
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: Text | None = None,
    **options: Unpack[RunOptions],
) -> Iterator[RunEvent[str]]: ...  # fmt: skip
@overload
def stream_run(
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: TypeForm[T], **options: Unpack[RunOptions]
) -> Iterator[RunEvent[T]]: ...
@overload
def stream_run(
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: object, **options: Unpack[RunOptions]
) -> Iterator[RunEvent[Any]]: ...
def stream_run(
    model: Any, messages: Given, tools: Sequence[Any], *, schema: Any = None, **options: Any
) -> Iterator[RunEvent[Any]]:
    """`run` as it happens: text, thoughts, calls, their results, and last the answer.

        for event in stream_run(model, "A weekend in Rome?", [get_weather]):
            if event.kind == "text":
                print(event.text, end="")
            elif event.kind == "result":
                print(event.call.name, event.content)
            elif event.kind == "answer":
                print(event.answer)

    Args:
        model, messages, tools, schema, options: as for `run`.

    Returns:
        An iterator of `RunEvent`s: `RunText`, `RunThought`, `RunRestart`, `RunCall`, `RunResult`, `RunAnswer`. What a
        `Remote` or a search of beams writes comes whole.

    Raises:
        RequestError: at once, as for `run`; other errors by the iterator.
    """
    loop = ToolLoop(model, messages, tools, schema, options, Sync())
    for each in loop.tools:
        each.invoking.require_other_home()
    return _sync(loop.events(pieces=True))


def _sync(events: AsyncGenerator[RunEvent[Any]]) -> Generator[RunEvent[Any]]:
    try:
        while True:
            try:
                event = driven(anext(events))
            except StopAsyncIteration:
                return
            yield event
    finally:
        driven(events.aclose())


@overload
async def arun(
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: Text | None = None, details: NO = False,
    **options: Unpack[RunOptions],
) -> str: ...  # fmt: skip
@overload
async def arun(
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: Text | None = None, details: YES,
    **options: Unpack[RunOptions],
) -> Conversation[str]: ...  # fmt: skip
@overload
async def arun(
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: TypeForm[T], details: NO = False,
    **options: Unpack[RunOptions],
) -> T: ...  # fmt: skip
@overload
async def arun(
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: TypeForm[T], details: YES,
    **options: Unpack[RunOptions],
) -> Conversation[T]: ...  # fmt: skip
@overload
async def arun(
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: object, details: bool | None = False,
    **options: Unpack[RunOptions],
) -> Any: ...  # fmt: skip
async def arun(
    model: Any, messages: Given, tools: Sequence[Any], *, schema: Any = None, details: bool | None = False,
    **options: Any,
) -> Any:  # fmt: skip
    """`run` for async code: async tools run in this event loop, others in threads, and nothing blocks it.

        plan = await arun(model, "A weekend in Rome?", [get_weather, book], schema=Plan)

    Arguments, results and errors are those of `run`. If it is cancelled, the `CancelledError` has the `conversation`.
    """
    require_asyncio("arun")
    details, loop = flag_of("details", details), ToolLoop(model, messages, tools, schema, options, Async())
    async with aclosing(loop.events(pieces=False)) as events:
        async for last in events:
            end = last
    assert isinstance(end, RunAnswer)
    return end.conversation if details else end.answer


def astream_run(
    model: AnyModel,
    messages: Given,
    tools: Sequence[Any],
    *,
    schema: Any = None,
    **options: Unpack[RunOptions],
) -> AsyncIterator[RunEvent[Any]]:
    """`stream_run` for `async for`: async tools run in this event loop, and nothing blocks it.

    Arguments, events and errors are those of `stream_run`.
    """
    return ToolLoop(model, messages, tools, schema, options, Async()).events(pieces=True)
