"""The loop of an agent: the model calls tools, they run, and it reads their results, until it answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from itertools import takewhile
from typing import Any

from structgen.arguments import flag_of, require, require_count, without_nones
from structgen.calling.conversation import Conversation, Given
from structgen.calling.events import RunAnswer, RunCall, RunEvent, RunRestart, RunResult, RunText, RunThought
from structgen.calling.reply import Reply
from structgen.calling.request import TurnOptions
from structgen.calling.results import INTERRUPTED, AfterCall, BeforeCall, Caller, Confirm, Way, cut, failure, unmade
from structgen.calling.streaming import CallEvent, turn_events
from structgen.chat.history import as_messages
from structgen.chat.messages import shows_images, turn_message
from structgen.decoding.call_options import require_known
from structgen.errors import PromptTooLong, RunError, ValidationFailed, excerpt, quoted
from structgen.models.model import as_model
from structgen.options import Limits
from structgen.patience import Deadline, stopped_by
from structgen.remote import Remote
from structgen.tools import Ctx, Tool, ToolCall

ASK = "Now give this answer in the form that is wanted."
"""What the model is told when it has answered in text before an answer of the schema."""
SHORTEST_CUT = 100
"""The fewest characters to which a result is cut for the model's context."""


Compact = Callable[[list[dict[str, Any]]], Any]
"""Returns the messages with which a conversation continues, such as the last ten, or a summary. It may be async."""


class RunOptions(TurnOptions, total=False):
    """The options that every form of `run` takes; `run` explains them."""

    max_turns: int | None
    max_errors: int | None
    confirm: Confirm | None
    text_before_calls: bool | None
    choice: Any
    deps: Any
    before_call: BeforeCall | None
    after_call: AfterCall | None
    compact: Compact | None


class ToolLoop:
    """A conversation under way. `run` documents the arguments.

    Attributes:
        tools: what the model may call; each has a function.
        messages: what was said, with the calls and their results.
        replies: the model's turns.
        open: the calls of the last turn that have no result yet.
    """

    def __init__(
        self, model: Any, messages: Given, tools: Sequence[Any], schema: Any, options: Mapping[str, Any], way: Way
    ) -> None:
        require_known(options, RunOptions.__annotations__)
        options = without_nones(options)
        self._max_turns, self._max_errors = options.pop("max_turns", 8), options.pop("max_errors", 3)
        self._choice, self._deps = options.pop("choice", "auto"), options.pop("deps", None)
        self._in_text = flag_of("text_before_calls", options.pop("text_before_calls", False)) and schema is not None
        require_count("max_turns", self._max_turns, 1)
        require_count("max_errors", self._max_errors, 0)
        hooks = {name: options.pop(name, None) for name in ("confirm", "before_call", "after_call", "compact")}
        for name, each in hooks.items():
            require(each is None or callable(each), name, each, "a function, or None")
        self._model, self._schema, self._way, self._compact = model, schema, way, hooks.pop("compact")
        self.tools = _tools_that_run(tools)
        forced = self._choice not in ("auto", "none") and not any(each.ends for each in self.tools)
        require(self._max_turns > 1 or not forced, "max_turns", self._max_turns,
                "2 or more where choice= asks for a call")  # fmt: skip
        before = messages if isinstance(messages, Conversation) else None
        self.messages = as_messages(messages if before is None else before.messages)  # type: ignore[arg-type]
        self.replies: list[Reply[Any]] = [] if before is None else [*before.replies]
        self.open = [] if before is None else self._unanswered()
        self._options = {"parallel": True, **options}
        limits = options.get("limits")
        seconds = limits.seconds if isinstance(limits, Limits) else None
        self._deadline = Deadline(seconds, [options.get("cancel"), stopped_by.get()])
        images = reads_images(model, options.get("tokenizer"))
        self._caller = Caller(way, **hooks, images=images, deadline=self._deadline)
        self._turns, self._failures = self._max_turns, 0
        self._over: RunResult | None = None  # the failure that was one too many
        self._ended: RunResult | None = None  # the result that is the answer
        self._begun = self._answered = self._told_all = False

    @property
    def outcome(self) -> Conversation[Any]:
        """The conversation up to here."""
        answer = None if not self._answered else self._ended.value if self._ended else self.replies[-1].answer
        return Conversation(answer, [*self.messages], [*self.replies])

    async def events(self, *, pieces: bool) -> AsyncGenerator[RunEvent[Any]]:
        """Runs the conversation to its answer. `pieces`: with what the model writes, piece by piece."""
        with self._resumable():
            while True:
                for call in self.open:
                    yield RunCall(call)
                async with aclosing(self._results()) as results:
                    async for result in results:
                        yield result
                if self._answered:
                    break
                turn = self._next_turn()
                if self._compact is not None:
                    self.messages = as_messages(await self._way.settled(self._compact([*self.messages])), "compact")
                with self._refusals():
                    began = turn_events(self._model, self.messages, self.tools, pieces=pieces, **turn)
                    async with aclosing(self._way.told(began)) as told:
                        async for event in told:
                            if event.reply is not None:
                                self._take(event.reply)
                            else:
                                yield _of_turn(event)
        yield RunAnswer(self.outcome.answer, self.outcome)

    def _next_turn(self) -> dict[str, Any]:
        """Returns the options of the next turn, with the time that is left.

        In the last turn it must answer in the schema. Without one it is free to call, which ends the run: what a mask
        that forbids calls would let it write is no answer, but the rest of a call.

        Raises:
            RunError: tools have failed too often.
        """
        if self._over is not None:
            told = f"a tool failed once more than max_errors allows: {excerpt(str(self._over.content))}"
            raise RunError(told) from self._over.error
        self._turns -= 1
        self._in_text = self._in_text and self._turns > 0
        schema = None if self._in_text else self._schema
        answers = self._told_all or (not self._turns and schema is not None)
        choice, self._choice = "none" if answers else self._choice, "auto"
        left = self._deadline.left
        limits = {} if left is None else {"limits": replace(self._options["limits"], seconds=left)}
        return {"choice": choice, "schema": schema, **self._options, **limits}

    async def _results(self) -> AsyncGenerator[RunResult]:
        """Makes the open calls, and yields their results, which the model reads next."""
        if not self.open:
            return
        asked = await self._caller.allowed(self.open)
        self._begun = True
        told = tuple(self.messages)
        calls = [each if isinstance(each, RunResult) else Ctx(self._deps, each, told) for each in asked]
        self._replace([each.call or call for each, call in zip(calls, self.open, strict=True)])
        async with aclosing(self._caller.results(calls)) as results:
            async for result in results:
                self._take_result(result)
                yield result
        self._begun = False
        self._answered = self._ended is not None

    def _replace(self, calls: list[ToolCall[Any]]) -> None:
        """The open calls are made as these, with other arguments maybe; so the model reads them."""
        edited = {call.id: call for call, old in zip(calls, self.open, strict=True) if call is not old}
        self.open = calls
        turn = next((each for each in reversed(self.messages) if each.get("tool_calls")), None)
        if edited and turn is not None:
            place = self.messages.index(turn)
            self.messages[place] = {**turn, "tool_calls": [edited.get(each.id, each) for each in turn["tool_calls"]]}

    @contextmanager
    def _resumable(self) -> Iterator[None]:
        """What is raised within has the conversation up to there. In it, calls that were started have a result."""
        try:
            yield
        except BaseException as error:
            for call in [*self.open]:
                told = unmade(call) or (RunResult(call, None, INTERRUPTED) if self._begun else None)
                if told is not None:
                    self._take_result(told)
            error.conversation = self.outcome  # type: ignore[attr-defined]
            raise

    @contextmanager
    def _refusals(self) -> Iterator[None]:
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
            self.messages.append({"role": "user", "content": self._counted(failure(refusal)).content})
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

    def _take(self, reply: Reply[Any]) -> None:
        """The model has made calls, or has answered: in text, if that may appear before calls of tools.

        Raises:
            RunError: it calls in the last turn.
        """
        if reply.calls and not self._turns and not any(call.tool and call.tool.ends for call in reply.calls):
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

    def _take_result(self, result: RunResult) -> None:
        """The first of the open calls has a result."""
        call = result.call
        assert call is not None
        self.open = [each for each in self.open if each is not call]
        content = self._counted(result).content
        self.messages.append({"role": "tool", "tool_call_id": call.id, "name": call.name, "content": content})
        if self._ended is None and result.made and not result.error and call.tool is not None and call.tool.ends:
            self._ended = result

    def _counted(self, result: RunResult) -> RunResult:
        if result.error is not None:
            self._failures += 1
            self._over = result if self._failures > self._max_errors else None
        return result

    def _unanswered(self) -> list[ToolCall[Any]]:
        """Returns the calls of the last turn that have no result, with their tools.

        Raises:
            OptionError: one is of no tool that is there.
        """
        turn: Mapping[str, Any] = next((each for each in reversed(self.messages) if each["role"] == "assistant"), {})
        done = {each.get("tool_call_id") for each in self.messages if each["role"] == "tool"}
        left = [each for each in turn.get("tool_calls") or () if isinstance(each, ToolCall) and each.id not in done]
        tools = {each.name: each for each in self.tools}
        for call in left:
            require(call.name in tools, "tools", [*tools], f"{quoted(call.name)} among them, whose call is open")
        return [tools[call.name].called(call.json, call.id) for call in left]


def _of_turn(event: CallEvent) -> RunEvent[Any]:
    """Returns what an event of a turn is in a run."""
    if event.restart:
        return RunRestart()
    return RunThought(event.thinking) if event.thinking else RunText(event.text)


def reads_images(model: Any, tokenizer: Any) -> bool:
    """Does the model read images in the results of tools?"""
    if isinstance(model, Remote):
        return False
    owner = as_model(model, tokenizer)
    return owner.processor is not None and shows_images(owner.tokenizer, str(owner.tokenizer.chat_template))


def _tools_that_run(given: Sequence[Any]) -> list[Tool[..., Any]]:
    """Returns the tools, each of which has a function."""
    require(isinstance(given, (list, tuple)), "tools", given, "a list of tools")
    tools: list[Tool[..., Any]] = [Tool.of(each) for each in given]
    for tool in tools:
        require(tool.function is not None, "tools", tool.name, "tools with a function: Tool.of(entry, function)")
    return tools
