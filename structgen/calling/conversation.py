"""A conversation with tools: the model calls them, reads their results, and answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, overload

from pydantic_core import PydanticSerializationError, to_jsonable_python

from structgen.arguments import require, require_count, require_flag
from structgen.calling.request import Parallel
from structgen.calling.turns import Reply, call
from structgen.chat.messages import as_messages, turn_message
from structgen.chat.templates import Message
from structgen.errors import RunError, ValidationFailed, excerpt
from structgen.tools import Tool, ToolCall

if TYPE_CHECKING:
    from typing_extensions import TypeForm, TypeVar, Unpack

    from structgen.api import AnyModel, Text
    from structgen.calling.request import TurnOptions

    T = TypeVar("T", default=Any)

    class RunOptions(TurnOptions, total=False):
        """The keyword arguments that every form of `run` takes."""

        max_turns: int
        max_errors: int
        parallel: Parallel
        confirm: Confirm | None
else:
    from typing import TypeVar

    T = TypeVar("T")

Confirm = Callable[[ToolCall[Any]], "bool | str"]
"""Decides whether a call is made: True; False; or a text that tells the model why it is not."""


@dataclass(frozen=True, slots=True)
class Conversation(Generic[T]):
    """The result of `run(..., details=True)`.

    Attributes:
        answer: a value of the type of `schema=`, or text.
        messages: all messages with the answer, as chat templates take them; `tool_calls` are `ToolCall`s.
        replies: the model's turns, in their order.
    """

    answer: T
    messages: list[dict[str, Any]]
    replies: list[Reply[Any]]


@overload
def run(
    model: AnyModel, messages: str | Sequence[Message], tools: Sequence[Any], *, schema: Text | None = None,
    details: Literal[False] = False, **options: Unpack[RunOptions],
) -> str: ...  # fmt: skip
@overload
def run(
    model: AnyModel, messages: str | Sequence[Message], tools: Sequence[Any], *, schema: Text | None = None,
    details: Literal[True], **options: Unpack[RunOptions],
) -> Conversation[str]: ...  # fmt: skip
@overload
def run(  # type: ignore[overload-overlap]
    model: AnyModel, messages: str | Sequence[Message], tools: Sequence[Any], *, schema: TypeForm[T],
    details: Literal[False] = False, **options: Unpack[RunOptions],
) -> T: ...  # fmt: skip
@overload
def run(  # type: ignore[overload-overlap]
    model: AnyModel, messages: str | Sequence[Message], tools: Sequence[Any], *, schema: TypeForm[T],
    details: Literal[True], **options: Unpack[RunOptions],
) -> Conversation[T]: ...  # fmt: skip
@overload
def run(
    model: AnyModel, messages: str | Sequence[Message], tools: Sequence[Any], *, schema: Callable[..., object],
    details: Literal[False] = False, **options: Unpack[RunOptions],
) -> dict[str, Any]: ...  # fmt: skip
@overload
def run(
    model: AnyModel, messages: str | Sequence[Message], tools: Sequence[Any], *, schema: Callable[..., object],
    details: Literal[True], **options: Unpack[RunOptions],
) -> Conversation[dict[str, Any]]: ...  # fmt: skip
@overload
def run(
    model: AnyModel, messages: str | Sequence[Message], tools: Sequence[Any], *, schema: object,
    details: Literal[False] = False, **options: Unpack[RunOptions],
) -> Any: ...  # fmt: skip
@overload
def run(
    model: AnyModel, messages: str | Sequence[Message], tools: Sequence[Any], *, schema: object,
    details: Literal[True], **options: Unpack[RunOptions],
) -> Conversation[Any]: ...  # fmt: skip
def run(
    model: Any,
    messages: str | Sequence[Message],
    tools: Sequence[Any],
    *,
    schema: Any = None,
    max_turns: int = 8,
    max_errors: int = 3,
    parallel: Parallel = True,
    confirm: Confirm | None = None,
    details: bool = False,
    **options: Any,
) -> Any:
    """Lets a model call tools until it answers: call, execute, feed the result back, again.

        plan = run(model, "A weekend in Rome?", [get_weather, book], schema=Plan)

    What a tool raises, and arguments that its validators refuse, go back to the model as text.

    Args:
        model, messages, tools, parallel, options: as for `call`, of one conversation.
        schema: the type of the answer; None for text.
        max_turns: the number of turns of the model at most. In the last one it cannot call: it answers.
        max_errors: how many failures of tools the whole conversation may have; the next one is raised.
        confirm: a function that is asked before each call is made. If it returns False, or a text that says why not,
            the call is not made and the model reads this instead of a result.
        details: return a `Conversation`, with all messages and turns beside the answer.

    Returns:
        The answer: text, or a value of `schema`.

    Raises:
        RequestError: something cannot work; or a tool has no function.
        RunError: tools failed more than `max_errors` times: what the last one raised is the `__cause__`; or the run
            itself failed.
    """
    require_flag("details", details)
    require_count("max_turns", max_turns, 1)
    require_count("max_errors", max_errors, 0)
    require(confirm is None or callable(confirm), "confirm", confirm, "a function of a ToolCall, or None")
    declared = _tools_that_run(tools)
    history, replies, failures = as_messages(messages), list[Reply[Any]](), 0

    def told(error: Exception) -> str:
        """Counts a failure of a tool, and returns the text that tells the model of it."""
        nonlocal failures
        failures += 1
        if failures > max_errors:
            raise RunError(f"a tool failed once more than max_errors allows: {excerpt(error)}") from error
        return f"Error: {type(error).__name__}: {excerpt(error)}"

    for left in range(max_turns - 1, -1, -1):
        try:
            reply: Reply[Any] = call(
                model, history, declared, choice="auto" if left else "none", parallel=parallel, schema=schema,
                details=True, **options,
            )  # fmt: skip
        except ValidationFailed as refusal:
            if not left:
                raise
            history.append({"role": "user", "content": told(refusal)})
            continue
        replies.append(reply)
        if not reply.calls:
            history.append(turn_message((), reply.text, reply.generation.thinking))
            return Conversation(reply.answer, history, replies) if details else reply.answer
        history.append(turn_message(reply.calls, reply.text, reply.generation.thinking))
        for each in reply.calls:
            result = _result(each, confirm, told)
            history.append({"role": "tool", "tool_call_id": each.id, "name": each.name, "content": result})
    raise AssertionError("the last turn has no calls")


def _tools_that_run(given: Sequence[Any]) -> list[Tool[..., Any]]:
    """Returns the tools, each of which has a function."""
    require(isinstance(given, (list, tuple)), "tools", given, "a list of tools")
    tools: list[Tool[..., Any]] = [Tool.of(each) for each in given]
    for tool in tools:
        require(tool.function is not None, "tools", tool.name, "tools with a function: Tool.of(entry, function)")
    return tools


def _result(each: ToolCall[Any], confirm: Confirm | None, told: Callable[[Exception], str]) -> str:
    """Makes a call, if it is confirmed, and returns its result as text for the model.

    A text stays as it is; other values become JSON, or else what `str` makes of them.
    """
    allowed = True if confirm is None else confirm(each)
    if allowed is not True:
        return allowed if isinstance(allowed, str) else "Error: the user does not allow this call."
    try:
        result = each.invoke()
    except Exception as error:  # noqa: BLE001 - whatever a tool raises is its answer
        return told(error)
    if isinstance(result, str):
        return result
    try:
        return json.dumps(to_jsonable_python(result), ensure_ascii=False)
    except (PydanticSerializationError, ValueError):
        return str(result)
