"""Checks the arguments of `call` and prepares the run of its turns."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from pydantic_core import from_json

from structgen.arguments import is_whole, require, require_flag, without_nones
from structgen.chat import CallFormat, call_format
from structgen.chat.calls_constraint import TurnRules, turn
from structgen.chat.control_tokens import ids_behind
from structgen.chat.history import EXPECTED, Messages, as_messages, is_conversation
from structgen.chat.json_values import json_values
from structgen.chat.messages import prompt_ids, turn_message
from structgen.chat.named import NamedChat, named_chat
from structgen.chat.parser import CallEnded, ReadTurn
from structgen.chat.templates import Message
from structgen.chat.thoughts import thought_options
from structgen.constraints.basic import Constraint
from structgen.constraints.compositions import Composable
from structgen.constraints.quotes import KEYWORD
from structgen.decoding.call_options import CallOptions, StreamOptions, require_known
from structgen.decoding.confidence import quotes_in
from structgen.decoding.generation import Generation
from structgen.decoding.grammars import grammar_for
from structgen.decoding.prompts.per_row import lists, per_row, shared
from structgen.decoding.prompts.prompt import require_fits
from structgen.decoding.prompts.sources import is_missing, sources_of, with_source
from structgen.decoding.prompts.targets import Target, targets_of
from structgen.decoding.request import Request, prepare
from structgen.decoding.session import Session
from structgen.decoding.thinking import switch_of, thinking_of_rows
from structgen.errors import OptionError, ValidationFailed, quoted
from structgen.few_shot import answer_text, pairs
from structgen.given_prompts import ChatPrompt, GivenPrompt, GivenPrompts
from structgen.models.model import Model, as_model
from structgen.options import Whitespace
from structgen.regular.quotes import MissingSource, Place, Source
from structgen.rendering import LEAD, schema_text
from structgen.schema.places import NOTHING_QUOTES, quotes
from structgen.tools import Tool, ToolCall
from structgen.vocabulary import spelled

Choice = Any
"""`"auto"`, `"required"`, `"none"`, or a tool that must be called."""
Parallel = bool | tuple[int, int]


class TurnOptions(StreamOptions, total=False):
    """The options that every form of `call`, `stream_call` and `run` takes; `call` explains them."""

    template_options: Mapping[str, Any] | None
    call_format: str | CallFormat | None
    parallel: Parallel | list[Parallel] | None


LEAD_BESIDE_TOOLS = "If you call no tool, answer with JSON of this form:"


@dataclass(frozen=True)
class TurnRequest:
    """A turn to be generated: one row of a request.

    Attributes:
        format: the call format of the model; None without tools.
        answer: reads an answer of the schema; None for text.
        source: what the arguments of tools quote.
    """

    request: Request
    tools: Mapping[str, Tool[..., Any]]
    format: CallFormat | None
    answer: Target | None = field(repr=False)
    row: int = 0
    source: Source | None = field(default=None, repr=False)

    def cut(self, turn: ReadTurn, generation: Generation[Any]) -> ToolCall[Any]:
        """Returns the call within which a limit has ended the text."""
        cap = max(generation.caps, key=lambda cap: cap.offset)
        written = from_json(turn.arguments or "{}", allow_partial="trailing-strings")
        return ToolCall(turn.name, written, tool=self.tools[turn.name], cut=cap.option)

    def called(self, event: CallEnded) -> ToolCall[Any]:
        """Returns a call that the model has written.

        Raises:
            ValidationFailed: the tool's validators refuse it.
        """
        return replace(self.tools[event.name].called(event.arguments, event.id), quotes=self.quotes(event))

    def quotes(self, said: CallEnded | str) -> dict[str, tuple[Place, ...]]:
        """Returns where the quotes of a call's arguments, or of the text of an answer, are, by JSON pointer."""
        constraint: Constraint | None = None
        matcher, is_json = self.session.matcher, True
        if isinstance(said, CallEnded):
            tool = self.tools[said.name]
            if f'"{KEYWORD}"' not in json.dumps(tool.arguments_schema):
                return {}
            constraint = json_values(tool.arguments_schema if tool.type is None else tool.type, source=self.source)
            said = json.dumps(json.loads(said.arguments), ensure_ascii=False)
        elif self.answer is not None and matcher is not None and matcher.grammar.automaton.quotations:
            constraint, is_json = self.answer.constraint, self.answer.is_json
        if constraint is None:
            return {}
        grammar = grammar_for(constraint, self.request.model.vocabulary)
        return quotes_in(grammar.automaton, said.encode(), is_json=is_json)

    @property
    def session(self) -> Session:
        """The row's session."""
        return self.request.sessions[self.row]

    def written(self, token_ids: Sequence[int]) -> bytes:
        """Returns the bytes of tokens, with special tokens by their names, without those that end a text."""
        vocabulary = self.request.model.vocabulary
        return spelled(vocabulary, token_ids, vocabulary.end_ids)


class CallRequest(NamedTuple):
    """The turns of a call. `many`: was a list of conversations given? Then a list is returned."""

    request: Request
    turns: list[TurnRequest]
    many: bool


@dataclass(frozen=True)
class _SharedRequest:
    """What conversations with the same tools and the same answer have in common."""

    declared: Sequence[Tool[..., Any]]
    callable: Sequence[Tool[..., Any]]
    format: CallFormat | None
    answer: Target | None
    constraint: Constraint | None
    lead: str | None
    source: Source | None


def prepared(
    model: Any,
    messages: Messages | Sequence[Messages],
    tools: Sequence[Any],
    *,
    choice: Choice,
    schema: Any,
    options: Mapping[str, Any],
    begun: str = "",
) -> CallRequest:
    """Returns the request of the turns. `call` documents the arguments; `begun` is a text with which the model's turn
    begins, and after which it continues.
    """
    require_known(options, TurnOptions.__annotations__)
    options, many = without_nones(options), not is_conversation(messages)
    choice, parallel = "auto" if choice is None else choice, options.pop("parallel", False)
    owner = as_model(model, options.pop("tokenizer", None))
    conversations = named_conversations(messages, many=many)
    count = len(conversations)
    require(isinstance(tools, (list, tuple)), "tools", tools, "a list of tools")
    template_options = options.pop("template_options", {})
    require(isinstance(template_options, Mapping), "template_options", template_options, "a dict")
    chat = named_chat(owner.tokenizer, owner.vocabulary, options.pop("call_format", None))
    shown, examples = options.pop("prompt_schema", True), pairs(options.pop("examples", ()))
    require_flag("prompt_schema", shown)
    layout = options.pop("order", None), options.pop("whitespace", Whitespace.SPACED)

    def each(name: str, value: Any) -> Sequence[Any]:
        return per_row(name, value, count) if many and isinstance(value, list) else [value] * count

    sources = sources_of(options.pop("source", None), count)
    wanted = [switch_of(row) for row in thinking_of_rows(options.get("thinking"), count)]
    answers = each("schema", schema)
    columns = lists("tools", tools, count), each("choice", choice), each("parallel", parallel), answers, wanted
    planned: Any = partial(_plan, owner, chat, layout)
    tried = shared(partial(_plan_or_none, planned), *columns, sources)
    plans = [
        plan or planned(*row, Source.of(ChatPrompt(messages, name).quotable()))
        for plan, (name, messages), *row in zip(tried, conversations.items(), *columns, strict=True)
    ]
    prompts = []
    for plan, (name, conversation), answer, thinks in zip(plans, conversations.items(), answers, wanted, strict=True):
        prompt: GivenPrompt = ChatPrompt(conversation, name)
        if shown and plan.lead is not None:
            prompt = prompt.with_schema(schema_text(answer, plan.lead))
        prompt = prompt.with_examples([turn for n, each in enumerate(examples) for turn in _example(*each, plan, n)])
        require_fits(owner, prompt)
        switched = thought_options(chat.tokenizer, owner.vocabulary, thinks, template_options)
        told = chat.messages(prompt.given, plan.declared)
        tools_shown = () if chat.tells else plan.declared
        ids = prompt_ids(
            chat.tokenizer, told, tools_shown, plan.format, switched, where=name, processor=owner.processor
        )
        prompts.append([*ids, *ids_behind(chat.tokenizer, begun)] if begun and isinstance(ids, list) else ids)
    constraints = [plan.constraint for plan in plans] if many else plans[0].constraint
    given = GivenPrompts.of(prompts if many else prompts[0])
    request = prepare(owner, given, constraints, CallOptions.of(options))
    turns = [
        TurnRequest(request, {tool.name: tool for tool in plan.callable}, plan.format, plan.answer, row, plan.source)
        for row, plan in enumerate(plans)
    ]
    return CallRequest(request, turns, many)


def named_conversations(given: Any, *, many: bool) -> dict[str, list[dict[str, Any]]]:
    """Returns the messages of each conversation, by its name in error messages."""
    require(not many or isinstance(given, (list, tuple)), "messages", given, f"{EXPECTED}, or a list of those")
    named = {f"messages[{row}]": each for row, each in enumerate(given)} if many else {"messages": given}
    return {name: as_messages(each, name) for name, each in named.items()}


def _plan_or_none(planned: Callable[..., _SharedRequest], *arguments: Any) -> _SharedRequest | None:
    """Returns what is planned; None if something quotes, and no source is given."""
    try:
        return planned(*arguments)
    except MissingSource:
        return None


def _plan(
    owner: Model,
    chat: NamedChat,
    layout: tuple[Any, Whitespace],
    tools: Any,
    choice: Choice,
    parallel: Parallel,
    schema: Any,
    thinks: bool | None,
    source: Source | None,
) -> _SharedRequest:
    """Returns what the turn may contain, and how it is written.

    Raises:
        MissingSource: something quotes, and there is no source.
    """
    order, whitespace = layout
    declared: list[Tool[..., Any]] = [Tool.of(each) for each in tools]
    format_: CallFormat | None
    if declared:
        format_ = chat.format or call_format(owner.tokenizer, owner.vocabulary)
    else:
        format_ = _answer_format(owner)
    chosen, min_calls, max_calls = _choice(choice, declared, parallel)
    answer = None if schema is None else targets_of([schema], whitespace, "schema" if order is None else order)[0]
    wanted = None if answer is None else answer.constraint
    if answer is not None and wanted is not None and is_missing(partial(grammar_for, wanted, owner.vocabulary)):
        if source is None:
            raise MissingSource
        answer = replace(answer, constraint=with_source(wanted, source))
    elif source is not None and not any(quotes(tool.arguments_schema) for tool in declared):
        raise OptionError(NOTHING_QUOTES)
    forced = choice not in ("auto", "none")
    lead = None
    if answer is not None and answer.is_json and not forced:
        lead = LEAD_BESIDE_TOOLS if chosen and max_calls != 0 else LEAD
    if format_ is None:
        constraint = None if answer is None else answer.constraint
        return _SharedRequest(declared, chosen, None, answer, constraint, lead, source)
    if format_.between is None and max_calls != 0:  # the template cannot write several calls in a history
        if min_calls > 1:
            raise OptionError(f"{min_calls} calls in a turn: the model's call format allows only one")
        max_calls = 1
    rules = TurnRules(
        tuple(chosen),
        min_calls=min_calls,
        max_calls=max_calls,
        text=not forced and answer is None,
        answer=None if forced or answer is None else _composable(answer),
        order="any" if order is None else order,
        thought=False if thinks is False else None,
        source=source,
    )
    planned = turn(format_, rules, owner.vocabulary)
    callable_ = planned.rules.tools if max_calls != 0 else ()
    return _SharedRequest(declared, callable_, format_, answer, planned, lead, source)


def _example(text: str, wanted: Any, plan: _SharedRequest, number: int) -> list[Message]:
    """Returns the turns of an example: a user's text, and the calls or the answer that it should give.

    Raises:
        OptionError: a call is of no tool that is there, or its arguments are refused; or the answer is none of the
            schema.
    """
    where, user = f"examples[{number}]", {"role": "user", "content": text}
    calls = [wanted] if isinstance(wanted, ToolCall) else wanted
    if not isinstance(calls, (list, tuple)) or not calls or not all(isinstance(each, ToolCall) for each in calls):
        target = Target(None, str, is_json=False, type=Any) if plan.answer is None else plan.answer
        return [user, {"role": "assistant", "content": answer_text(wanted, target, Whitespace.SPACED, where)}]
    tools = {tool.name: tool for tool in plan.declared}
    for call in calls:
        require(call.name in tools, where, call.name, f"a call of one of {list(tools)}")
        try:
            tools[call.name].parse(call.json)
        except ValidationFailed as refusal:
            raise OptionError(f"{where}: {refusal}") from refusal
    return [user, turn_message(calls)]


def _answer_format(owner: Model) -> CallFormat | None:
    """Returns the format of a model that writes tags around its answers; None where an answer is text alone."""
    try:
        format_ = call_format(owner.tokenizer, owner.vocabulary)
    except OptionError:
        return None
    return format_ if (format_.content.opening + format_.content.closing).strip() else None


def _choice(
    choice: Choice, tools: Sequence[Tool[..., Any]], parallel: Parallel
) -> tuple[Sequence[Tool[..., Any]], int, int | None]:
    """Returns the tools that may be called, and the least and the greatest number of calls."""
    min_calls, max_calls = _counts(parallel)
    if choice == "none":
        return tools, 0, 0
    if choice == "auto":
        return tools, min_calls, max_calls
    if not tools:
        raise OptionError(f"choice={quoted(choice)}: there are no tools to call")
    if choice == "required":
        return tools, max(min_calls, 1), max_calls
    name = choice if isinstance(choice, str) else Tool.of(choice).name
    named = [tool for tool in tools if tool.name == name]
    require(bool(named), "choice", choice, f"'auto', 'required', 'none', or one of {[t.name for t in tools]}")
    return named, max(min_calls, 1), max_calls


def _counts(parallel: Parallel) -> tuple[int, int | None]:
    if parallel is False:
        return 0, 1
    if parallel is True:
        return 0, None
    allowed = "True, False, or the least and the most number of calls, as (2, 3)"
    pair = isinstance(parallel, tuple) and len(parallel) == 2 and all(is_whole(each, 1, 1000) for each in parallel)
    require(pair and parallel[0] <= parallel[1], "parallel", parallel, allowed)
    return parallel


def _composable(answer: Target) -> Composable:
    constraint = answer.constraint
    if not isinstance(constraint, Composable):
        raise OptionError(f"schema={quoted(constraint)} cannot stand beside calls: it has no plan()")
    return constraint
