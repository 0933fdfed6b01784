"""From what a caller gave to sessions, and from sessions to what the caller gets. All checks come first."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pydantic import ValidationError

from structgen.automaton.values import JsonAutomaton
from structgen.constraints import Constraint, JsonSchema
from structgen.decoding.checks import Checks
from structgen.decoding.generation import Generation
from structgen.decoding.grammars import grammar_for, spans_for
from structgen.decoding.guarding import Guarding
from structgen.decoding.loop import AUTOMATIC, ROWS, Batch, Execution
from structgen.decoding.model import Model, as_model
from structgen.decoding.processed import Prompt, read_prompts
from structgen.decoding.prompts import is_batch
from structgen.decoding.runaway import Runaway
from structgen.decoding.session import Session
from structgen.decoding.steering import CONTEXT, MAX_NEW_TOKENS, Steering, require_room
from structgen.decoding.thinking import thinking_caps, thought, ways_to_think
from structgen.decoding.validating import Validating
from structgen.errors import OptionError, RunError, SchemaError, StructgenError, UnsatisfiableSchema, ValidatorError
from structgen.guards import BannedWords, Guard
from structgen.guards.unavoidable import in_every_text, in_schema
from structgen.masks import Grammar
from structgen.options import Limits, Sampling, Thinking, Whitespace
from structgen.schema.types import from_type
from structgen.schema.users_code import validated
from structgen.schema.validators import validators_of

GREEDY = Sampling()
LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Target:
    """What a row's text must be, and how it becomes a value.

    Attributes:
        constraint: None for plain text.
        parse: text to value.
        is_json: the text is JSON.
        type: of the value, where JSON is read as a Python type; `Any` elsewhere.
    """

    constraint: Constraint | None
    parse: Callable[[str], Any]
    is_json: bool
    type: Any


@dataclass(frozen=True, slots=True)
class Request:
    """A checked call, ready to run.

    Attributes:
        model: what runs it.
        targets: one per row.
        sessions: one per row.
        many: a list of prompts was given: a list is given back.
        batch_size: rows that are decoded at once.
        execution: how it runs.
    """

    model: Model
    targets: list[Target]
    sessions: list[Session]
    many: bool
    batch_size: int
    execution: Execution = AUTOMATIC

    def result(self, row: int, batch: Batch) -> Generation[Any]:
        """The outcome of one row, once its session is done."""
        session, value = self.sessions[row], None
        text, error = session.text(), session.error
        if error is None:
            try:
                value = self.targets[row].parse(text)
            except ValidatorError as bug:
                error = bug
            except (ValidationError, ValueError) as refusal:
                error = RunError(f"the text is complete, but its type refuses it: {refusal}; text: {text!r:.200}")
                error.__cause__ = refusal
        choices = session.choices(batch.ledger)
        return Generation(
            value=value,
            text=text,
            token_ids=tuple(session.tokens),
            prompt_tokens=len(session.prompt),
            finish="error" if error is not None else session.finish or "error",
            logprobs=tuple(math.nan if choice is None else choice.logprob for choice in choices),
            removed=tuple(math.nan if choice is None else choice.removed for choice in choices),
            stats=batch.stats(session),
            trace=tuple(session.undone),
            seed=session.seed,
            caps=thinking_caps(session.before) + session.caps(is_json=self.targets[row].is_json),
            thinking=None if session.before is None else session.before.text(),
            error=error,
            _confidence=session.confidence(choices, is_json=self.targets[row].is_json),
        )


def prepare(
    model: Any,
    prompt: Any,
    schema: Any = None,
    *,
    tokenizer: Any = None,
    sampling: Sampling | Sequence[Sampling] = GREEDY,
    limits: Limits | Sequence[Limits] = LIMITS,
    whitespace: Whitespace = Whitespace.SPACED,
    order: str | Sequence[str] = "schema",
    fast_forward: bool = True,
    batch_size: int = ROWS,
    guards: Sequence[Guard[Any]] | Sequence[Sequence[Guard[Any]]] = (),
    banned: Sequence[str] | Sequence[Sequence[str]] = (),
    thinking: bool | Thinking | Sequence[bool | Thinking] = False,
) -> Request:
    """The request that `generate` and `stream` run; their docstrings say what each argument is.

    Raises:
        RequestError: the schema, an option, the model or the prompt cannot work.
    """
    owner = as_model(model, tokenizer)
    many = is_batch(prompt)
    count = len(prompt) if many else 1
    each = isinstance(schema, list) and many
    schemas = _per_row("schema", schema if each else [schema] * count, count)
    known = {id(given): target(given, whitespace, order) for given in schemas}
    targets = [known[id(given)] for given in schemas]
    rows = read_prompts(owner, prompt if many else [prompt], many=many)
    ways = _each("sampling", sampling, Sampling, count)
    bounds = _each("limits", limits, Limits, count)
    if not isinstance(batch_size, int) or batch_size < 1:
        raise OptionError(f"batch_size={batch_size!r}: expected a count of at least 1")
    grammars = {id(t): None if t.constraint is None else grammar_for(t.constraint, owner.vocabulary) for t in targets}
    watching = _watching(_lists("guards", guards, count), _lists("banned", banned, count), targets)
    for key, guarded in {(id(t), id(g)): g for t, g in zip(targets, watching, strict=True)}.items():
        if (grammar := grammars[key[0]]) is not None:
            _require_a_way(grammar, guarded)
    sessions = []
    for row, read in enumerate(rows):
        grammar = grammars[id(targets[row])]
        if bounds[row].stop and grammar is not None:
            raise OptionError("stop= is for plain text: a constraint says itself where its text ends")
        limits, bound = _within_context(owner, read, bounds[row])
        judges = None if targets[row].type is Any else validators_of(targets[row].type)
        guarding = Guarding(watching[row], owner.vocabulary) if watching[row] else None
        checks = Checks(
            guards=guarding,
            validating=Validating(judges, owner.vocabulary, limits.validations) if judges else None,
            steering=_steering(grammar, targets[row], limits, bound, guarding),
        )
        sessions.append(
            Session(
                read,
                owner.vocabulary,
                matcher=None if grammar is None else grammar.matcher(),
                sampling=ways[row],
                limits=limits,
                spans=spans_for(grammar, owner.tokenizer) if fast_forward and grammar is not None else None,
                checks=checks,
            )
        )
    for row, chosen in enumerate(ways_to_think(thinking, count)):
        if chosen is not None:
            sessions[row].before = thought(owner, rows[row], chosen, sessions[row], watching[row])
    return Request(owner, targets, sessions, many, batch_size)


def raise_first_error(results: Sequence[Generation[Any]]) -> None:
    """The first row's failure as an exception that says which row it was."""
    failed: list[tuple[int, StructgenError]] = [
        (row, result.error) for row, result in enumerate(results) if result.error is not None
    ]
    if not failed:
        return
    row, error = failed[0]
    if len(results) > 1:
        others = f" ({len(failed)} of {len(results)} prompts failed)" if len(failed) > 1 else ""
        error.args = (f"prompt[{row}]{others}: {error}", *error.args[1:])
    raise error


def target(schema: Any, whitespace: Whitespace, order: str | Sequence[str]) -> Target:
    """What a schema of any kind asks of the text."""
    _require_type("whitespace", whitespace, Whitespace)
    given = isinstance(schema, Constraint) and not isinstance(schema, type)
    if given or schema is None:
        if whitespace != Whitespace.SPACED or order != "schema":
            where = f"give them to {type(schema).__name__}(...)" if given else "plain text has none"
            raise OptionError(f"whitespace= and order= shape a schema's JSON: {where}")
        if not isinstance(schema, JsonSchema):
            return Target(schema, str, is_json=False, type=Any)
        constraint, schema = schema, schema.schema
    else:
        constraint = JsonSchema(schema, order=order, whitespace=whitespace)
    tp = Any if isinstance(schema, (dict, bool)) else schema
    return Target(constraint, _json_parser(schema), is_json=True, type=tp)


def _watching(
    guards: Sequence[Sequence[Guard[Any]]], banned: Sequence[Sequence[str]], targets: Sequence[Target]
) -> list[list[Guard[Any]]]:
    """Each row's guards. Rows that were given the same have the same."""
    rows = list(zip(guards, banned, targets, strict=True))
    known = {tuple(map(id, row)): _guards(*row) for row in {tuple(map(id, row)): row for row in rows}.values()}
    return [known[tuple(map(id, row))] for row in rows]


def _lists(name: str, given: Any, count: int) -> Sequence[Any]:
    """One list for every row, or a list with one for each."""
    nested = isinstance(given, (list, tuple)) and given and all(isinstance(item, (list, tuple)) for item in given)
    return _per_row(name, given, count) if nested else [given] * count


def _guards(given: Sequence[Guard[Any]], banned: Sequence[str], target: Target) -> list[Guard[Any]]:
    """The guards of a row. Banned words must not stand in a JSON text's string values; its names are the schema's."""
    if isinstance(given, Guard) or not all(isinstance(guard, Guard) for guard in given):
        raise OptionError(f"guards={given!r:.80}: expected a list of guards")
    words = [BannedWords(banned, scope="strings" if target.is_json else "text")] if banned else []
    return [*given, *words]


def _require_a_way(grammar: Grammar, guards: Sequence[Guard[Any]]) -> None:
    """What a constraint forces must be no offence, as far as that can be seen.

    Raises:
        UnsatisfiableSchema: it is one.
    """
    if not guards:
        return
    automaton = grammar.automaton
    found = in_schema(automaton.root, guards) if isinstance(automaton, JsonAutomaton) else None
    found = found or in_every_text(grammar, guards)
    if found is not None:
        wanted = f"nothing but what has it can be said, {found.forced}"
        raise UnsatisfiableSchema(f"{found.reason}: {wanted:.300}; ban less or allow more", found.pointer)


def _json_parser(schema: Any) -> Callable[[str], Any]:
    """Parsed JSON for a JSON Schema, a validated value for a type."""
    if isinstance(schema, (dict, bool)):
        return json.loads
    if isinstance(schema, (str, bytes, int, float, list, tuple)):
        raise SchemaError(f"{schema!r:.80} is no schema: expected a type, a JSON Schema dict or a constraint")
    return partial(validated, from_type(schema)[1])


def _each(name: str, given: Any, kind: type, count: int) -> Sequence[Any]:
    """One value for every row, or a list with one for each."""
    if isinstance(given, kind):
        return [given] * count
    if not isinstance(given, (list, tuple)) or not all(isinstance(item, kind) for item in given):
        raise OptionError(f"{name}={given!r:.80}: expected {kind.__name__}(...) or a list of them")
    return _per_row(name, given, count)


def _per_row(name: str, given: Sequence[Any], count: int) -> Sequence[Any]:
    if len(given) != count:
        raise OptionError(f"{name} has {len(given)} entries for {count} prompts")
    return given


def _within_context(model: Model, prompt: Prompt, limits: Limits) -> tuple[Limits, str]:
    """A row's limits within the model's context, and what sets its budget.

    The last token is never read: it needs no place.
    """
    room = limits.max_new_tokens if model.context is None else model.context - len(prompt.read) + 1
    return (replace(limits, max_new_tokens=room), CONTEXT) if room < limits.max_new_tokens else (limits, MAX_NEW_TOKENS)


def _steering(
    grammar: Grammar | None, target: Target, limits: Limits, bound: str, guards: Guarding | None
) -> Steering | None:
    """What keeps a constrained row within its limits.

    Raises:
        OptionError: no text fits into the budget.
    """
    if grammar is None:
        return None
    closes = require_room(grammar, limits.max_new_tokens, bound) and not limits.strict
    runaway = Runaway(limits) if target.is_json else None
    return Steering(grammar, bound, limits.max_new_tokens, guards=guards, closes=closes, runaway=runaway)


def _require_type(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise OptionError(f"{name}={value!r:.80}: expected {kind.__name__}(...)")
