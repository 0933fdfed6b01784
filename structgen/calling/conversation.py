"""A conversation with tools: the model calls them, reads their results, and answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Generic, Literal, overload

from structgen.arguments import flag_of, require, require_count, without_nones
from structgen.calling.request import TurnOptions
from structgen.calling.results import INTERRUPTED, Confirm, Result, cut, failure, results, unmade
from structgen.calling.turns import Reply, call
from structgen.chat.history import as_messages
from structgen.chat.messages import shows_images, turn_message
from structgen.chat.templates import Message
from structgen.decoding.call_options import require_known
from structgen.errors import PromptTooLong, RunError, ValidationFailed, excerpt, quoted
from structgen.models.model import as_model
from structgen.options import Limits
from structgen.patience import Deadline, stopped_by
from structgen.tools import Tool, ToolCall

if TYPE_CHECKING:
    from typing_extensions import TypeForm, TypeVar, Unpack

    from structgen.streams import AnyModel, Text

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")


class RunOptions(TurnOptions, total=False):
    """The options that every form of `run` takes; `run` explains them."""

    max_turns: int | None
    max_errors: int | None
    confirm: Confirm | None
    text_before_calls: bool | None
    choice: Any


@dataclass(frozen=True, slots=True)
class Conversation(Generic[T]):
    """The result of `run(..., details=True)`, and the `conversation` of an error that ended a run.

        try:
            answer = run(model, "A weekend in Rome?", tools)
        except RunError as error:
            answer = run(model, error.conversation, tools)  # goes on where it stopped

    Attributes:
        answer: a value of the type of `schema=`, or text; None if an error ended the run.
        messages: all messages with the answer, as chat templates take them; `tool_calls` are `ToolCall`s.
        replies: the model's turns, in their order.
    """

    answer: T
    messages: list[dict[str, Any]]
    replies: list[Reply[Any]]


ASK = "Now give this answer in the form that is wanted."
"""What the model is told when it has answered in text before an answer of the schema."""
SHORTEST_CUT = 100
"""The fewest characters to which a result is cut for the model's context."""

Given = str | Sequence[Message] | Conversation[Any]


@overload
def run(
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: Text | None = None,
    details: Literal[False] | None = False, **options: Unpack[RunOptions],
) -> str: ...  # fmt: skip
@overload
def run(
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: Text | None = None,
    details: Literal[True], **options: Unpack[RunOptions],
) -> Conversation[str]: ...  # fmt: skip
@overload
def run(  # type: ignore[overload-overlap]
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: TypeForm[T],
    details: Literal[False] | None = False, **options: Unpack[RunOptions],
) -> T: ...  # fmt: skip
@overload
def run(  # type: ignore[overload-overlap]
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: TypeForm[T],
    details: Literal[True], **options: Unpack[RunOptions],
) -> Conversation[T]: ...  # fmt: skip
@overload
def run(
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: Callable[..., object],
    details: Literal[False] | None = False, **options: Unpack[RunOptions],
) -> dict[str, Any]: ...  # fmt: skip
@overload
def run(
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: Callable[..., object],
    details: Literal[True], **options: Unpack[RunOptions],
) -> Conversation[dict[str, Any]]: ...  # fmt: skip
@overload
def run(
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: object,
    details: Literal[False] | None = False, **options: Unpack[RunOptions],
) -> Any: ...  # fmt: skip
@overload
def run(
    model: AnyModel, messages: Given, tools: Sequence[Any], *, schema: object,
    details: Literal[True], **options: Unpack[RunOptions],
) -> Conversation[Any]: ...  # fmt: skip
def run(
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
    """Lets a model call tools until it answers: call, execute, feed the result back, again.

        plan = run(model, "A weekend in Rome?", [get_weather, book], schema=Plan)

    What a tool raises, and arguments that its validators refuse, go back to the model as text. The calls of one turn
    run side by side (see `Tool`); their results stand in the order of the calls.

    Args:
        model, tools, parallel, options: as for `call`, of one conversation. `Limits(seconds=...)` and `cancel` end the
            whole run, tools included: it is `Stopped`, and a tool that has begun is not waited for.
        messages: a string or chat messages, as for `call`; or a `Conversation`, which goes on.
        schema: the type of the answer; None for text.
        max_turns: the number of turns of the model at most. In the last one no call is made: with `schema=` the model
            cannot call, and answers; without, a call there is a `RunError`.
        max_errors: how many failures of tools the whole conversation may have; the next one is raised. A call that a
            limit has cut off is one: it is not made, and the model is told so.
        confirm: a function, sync or async, that is asked about each call of a turn before any of them is made. If it
            returns False, or a text that says why not, the call is not made and the model reads this instead of a
            result.
        text_before_calls: with `schema=` the model calls, or answers in the schema, and writes no other text. True lets
            it write text before its calls, and answer in text; then another turn asks for this answer in the schema.
        choice: as for `call`, of the first turn: "required" or a tool makes the model call before it answers. The
            later turns are "auto".
        details: return a `Conversation`, with all messages and turns beside the answer.

    Returns:
        The answer: text, or a value of `schema`.

    Raises:
        RequestError: something cannot work; or a tool has no function.
        RunError: tools failed more than `max_errors` times: what the last one raised is the `__cause__`; or the model
            called in its last turn; or the run itself failed.

    Whatever ends a run that has begun, even `KeyboardInterrupt`, has the `Conversation` up to there as its
    `conversation`. Each call in it has a result: that of an interrupted one says so.
    """
    details = flag_of("details", details)
    loop = ToolLoop(messages, tools, schema, max_turns, max_errors, confirm, text_before_calls, choice)
    options = run_options(options)
    for each in loop.tools:
        each.invoking.require_other_home()
    images, deadline = reads_images(model, options.get("tokenizer")), deadline_of(options)
    with loop.resumable():
        for turn in loop.turns():
            turn |= {**options, **limits_of(options, deadline)}
            with loop.refusals():
                loop.take(call(model, loop.messages, loop.tools, **turn))
            for result in results([*loop.open], confirm, images=images, deadline=deadline):
                loop.take_result(result)
    return loop.outcome if details else loop.outcome.answer


def run_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of each turn of a run.

    Raises:
        OptionError: one is unknown.
    """
    require_known(given, RunOptions.__annotations__)
    return {"parallel": True, **without_nones(given), "details": True}


def deadline_of(options: Mapping[str, Any]) -> Deadline:
    """When a conversation must end, by its `limits` and `cancel`."""
    limits = options.get("limits")
    return Deadline(limits.seconds if isinstance(limits, Limits) else None, [options.get("cancel"), stopped_by.get()])


def limits_of(options: Mapping[str, Any], deadline: Deadline) -> dict[str, Any]:
    """The `limits` of the next turn, which has the time that is left."""
    return {} if deadline.left is None else {"limits": replace(options["limits"], seconds=deadline.left)}


class ToolLoop:
    """A conversation under way: what `run` and `arun` have in common. `run` documents the arguments.

    Attributes:
        tools: what the model may call; each has a function.
        messages: what was said, with the calls and their results.
        replies: the model's turns.
        open: the calls of the last turn that have no result yet.
    """

    def __init__(
        self,
        messages: Given,
        tools: Sequence[Any],
        schema: Any,
        max_turns: int | None,
        max_errors: int | None,
        confirm: Confirm | None,
        text_before_calls: bool | None,
        choice: Any,
    ) -> None:
        text_before_calls = flag_of("text_before_calls", text_before_calls)
        max_turns, max_errors = 8 if max_turns is None else max_turns, 3 if max_errors is None else max_errors
        choice = "auto" if choice is None else choice
        require_count("max_turns", max_turns, 1)
        forced = choice not in ("auto", "none")
        require(max_turns > 1 or not forced, "max_turns", max_turns, "2 or more where choice= asks for a call")
        require_count("max_errors", max_errors, 0)
        require(confirm is None or callable(confirm), "confirm", confirm, "a function of a ToolCall, or None")
        self.tools = _tools_that_run(tools)
        before = messages if isinstance(messages, Conversation) else None
        self.messages = as_messages(messages if before is None else before.messages)  # type: ignore[arg-type]
        self.replies: list[Reply[Any]] = [] if before is None else [*before.replies]
        self.open: list[ToolCall[Any]] = []
        self._schema, self._in_text = schema, schema is not None and text_before_calls
        self._max_turns, self._turns, self._max_errors, self._failures = max_turns, max_turns, max_errors, 0
        self._choice = choice
        self._over: Result | None = None  # the failure that was one too many
        self._answered = self._told_all = False

    @property
    def outcome(self) -> Conversation[Any]:
        """The conversation up to here."""
        answer = self.replies[-1].answer if self._answered else None
        return Conversation(answer, [*self.messages], [*self.replies])

    def turns(self) -> Iterator[dict[str, Any]]:
        """Yields the `choice=` and `schema=` of each turn, until the model has answered.

        In the last turn it must answer in the schema. Without one it is free to call, which ends the run: what a mask
        that forbids calls would let it write is no answer, but the rest of a call.

        Raises:
            RunError: tools have failed too often.
        """
        while not self._answered:
            self._turns -= 1
            self._in_text = self._in_text and self._turns > 0
            schema = None if self._in_text else self._schema
            answers = self._told_all or (not self._turns and schema is not None)
            choice = "none" if answers else self._choice
            self._choice = "auto"
            yield {"choice": choice, "schema": schema}
            if self._over is not None:
                told = f"a tool failed once more than max_errors allows: {excerpt(str(self._over.content))}"
                raise RunError(told) from self._over.error

    @contextmanager
    def resumable(self) -> Iterator[None]:
        """What is raised within has the conversation up to there, in which each call has a result."""
        try:
            yield
        except BaseException as error:
            for call in [*self.open]:
                self.take_result(unmade(call) or Result(INTERRUPTED))
            error.conversation = self.outcome  # type: ignore[attr-defined]
            raise

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Handles two failures of a turn; the next one is another try.

        What a type's validators refuse goes back to the model, except for the last turn. If new results of tools do not
        fit into the model's context, they are cut, so that they take half of it at most.
        """
        try:
            yield
        except ValidationFailed as refusal:
            if not self._turns:
                raise
            self.messages.append({"role": "assistant", "content": refusal.text})
            self.messages.append({"role": "user", "content": self._told(failure(refusal))})
        except PromptTooLong as error:
            tail = takewhile(lambda each: each["role"] == "tool", reversed(self.messages))
            new = [each for each in tail if isinstance(each.get("content"), str)]
            half = sum(len(each["content"]) for each in new) * error.context / error.tokens / 2
            most = int(half / max(len(new), 1))
            if most < SHORTEST_CUT:
                raise
            for each in new:
                each["content"] = cut(each["content"], most)
            self._turns += 1

    def take(self, reply: Reply[Any]) -> None:
        """The model has made calls, or has answered: in text, if that may stand before calls of tools.

        Raises:
            RunError: it calls in the last turn.
        """
        if reply.calls and not self._turns:
            called = ", ".join(quoted(call.name) for call in reply.calls)
            raise RunError(
                f"max_turns={self._max_turns}: in its last turn the model calls {called} and does not answer: raise "
                "max_turns, go on with the `conversation` of this error, or pass schema=, in which it must answer"
            )
        self.replies.append(reply)
        self.open, self._answered = [*reply.calls], not (reply.calls or self._in_text)
        self.messages.append(turn_message(reply.calls, reply.text, reply.generation.thinking))
        if self._in_text and not reply.calls:
            self._in_text, self._told_all = False, True
            self.messages.append({"role": "user", "content": ASK})

    def take_result(self, result: Result) -> None:
        """The first of the open calls has a result."""
        call, told = self.open.pop(0), self._told(result)
        self.messages.append({"role": "tool", "tool_call_id": call.id, "name": call.name, "content": told})

    def _told(self, result: Result) -> Any:
        if result.error is not None:
            self._failures += 1
            self._over = result if self._failures > self._max_errors else None
        return result.content


def reads_images(model: Any, tokenizer: Any) -> bool:
    """Does the model read images in the results of tools?"""
    owner = as_model(model, tokenizer)
    return owner.processor is not None and shows_images(owner.tokenizer, str(owner.tokenizer.chat_template))


def _tools_that_run(given: Sequence[Any]) -> list[Tool[..., Any]]:
    """Returns the tools, each of which has a function."""
    require(isinstance(given, (list, tuple)), "tools", given, "a list of tools")
    tools: list[Tool[..., Any]] = [Tool.of(each) for each in given]
    for tool in tools:
        require(tool.function is not None, "tools", tool.name, "tools with a function: Tool.of(entry, function)")
    return tools
