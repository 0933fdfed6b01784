"""Checks the arguments of `call` and prepares the run of a turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from structgen.arguments import is_whole, require
from structgen.calling.messages import Message, as_messages, prompt_ids
from structgen.calling.validating import judges
from structgen.chat import CallFormat, call_format
from structgen.chat.calls_constraint import Turn, TurnRules, turn
from structgen.chat.parser import TurnParser
from structgen.constraints.basic import Constraint
from structgen.constraints.compositions import Composable
from structgen.decoding.call_options import CallOptions
from structgen.decoding.prompts.targets import Target, targets_of
from structgen.decoding.request import Request, prepare
from structgen.errors import OptionError, quoted
from structgen.models.model import as_model
from structgen.options import Thinking, Whitespace
from structgen.tools import Tool
from structgen.vocabulary import Vocabulary

Choice = Any
"""`"auto"`, `"required"`, `"none"`, or a tool that must be called."""
Parallel = bool | tuple[int, int]


@dataclass(frozen=True)
class TurnRequest:
    """A turn to be generated.

    Attributes:
        request: the prepared run.
        tools: the tools that may be called, by name.
        format: the call format of the model; None without tools.
        answer: reads an answer of the schema; None for text.
    """

    request: Request
    tools: Mapping[str, Tool[..., Any]]
    format: CallFormat | None
    answer: Target | None = field(repr=False)

    def parser(self) -> TurnParser | None:
        """Returns a parser for the generated text; None without tools: then all of the text is an answer."""
        if self.format is None:
            return None
        return TurnParser(self.format, {name: tool.arguments_schema for name, tool in self.tools.items()})

    @property
    def prompt(self) -> str:
        """The text that the model reads, with special tokens by their names."""
        return self._written(self.request.sessions[0].prompt, ()).decode("utf-8", errors="replace")

    def written(self, token_ids: Sequence[int]) -> bytes:
        """Returns the bytes of tokens, with special tokens by their names, without those that end a text."""
        return self._written(token_ids, self.request.model.vocabulary.end_ids)

    def _written(self, token_ids: Sequence[int], silent: Sequence[int]) -> bytes:
        vocabulary = self.request.model.vocabulary
        names = {i: name.encode() for name, i in vocabulary.special_names.items() if i not in silent}
        return b"".join(names.get(token) or vocabulary.token(token) for token in token_ids)


def prepared(
    model: Any,
    messages: str | Sequence[Message],
    tools: Sequence[Any],
    *,
    choice: Choice,
    parallel: Parallel,
    schema: Any,
    template_options: Mapping[str, Any] | None,
    options: dict[str, Any],
) -> TurnRequest:
    """Returns the request of a turn. `call` documents the arguments.

    Raises:
        RequestError: an argument cannot work; nothing has run.
    """
    owner = as_model(model, options.get("tokenizer"))
    declared: list[Tool[..., Any]] = [Tool.of(each) for each in tools]
    format_ = call_format(owner.tokenizer, owner.vocabulary) if declared else None
    chosen, min_calls, max_calls = _choice(choice, declared, parallel)
    order, whitespace = options.pop("order", "schema"), options.pop("whitespace", Whitespace.SPACED)
    answer = None if schema is None else targets_of([schema], whitespace, order)[0]
    ids = prompt_ids(owner, as_messages(messages), declared, format_, template_options or {})
    if options.get("thinking") is True and format_ is not None and format_.thinking is not None:
        options["thinking"] = Thinking(format_.thinking.opening, format_.thinking.closing)
    constraint: Constraint | None = None if answer is None else answer.constraint
    if format_ is not None:
        forced = choice not in ("auto", "none")
        rules = TurnRules(
            tuple(chosen) if max_calls != 0 else (),
            min_calls=min_calls,
            max_calls=max_calls,
            text=not forced and answer is None,
            answer=None if forced or answer is None else _composable(answer),
            order=order,
        )
        constraint = _turn(format_, rules, owner.vocabulary)
        options["guards"] = [*options.get("guards", ()), *judges(format_, rules, owner.vocabulary)]
    call_options = CallOptions.of(options)
    request = prepare(owner, ids, constraint, call_options)
    return TurnRequest(request, {tool.name: tool for tool in chosen}, format_, answer)


@lru_cache(32)
def _remembered(format_: CallFormat, rules: TurnRules, vocabulary: Vocabulary) -> Turn:
    return turn(format_, rules, vocabulary)


def _turn(format_: CallFormat, rules: TurnRules, vocabulary: Vocabulary) -> Turn:
    """Returns the constraint of a turn: the same object for the same tools, so that its masks are reused."""
    try:
        hash(rules)
    except TypeError:  # an answer in a JSON Schema that is a dict
        return turn(format_, rules, vocabulary)
    return _remembered(format_, rules, vocabulary)


def _choice(
    choice: Choice, tools: Sequence[Tool[..., Any]], parallel: Parallel
) -> tuple[Sequence[Tool[..., Any]], int, int | None]:
    """Returns the tools that may be called, and the least and the greatest number of calls.

    Raises:
        OptionError: `choice` or `parallel` has no allowed value.
    """
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
