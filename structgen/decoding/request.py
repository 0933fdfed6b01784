"""From what a caller gave to sessions, and from sessions to what the caller gets. All checks come first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pydantic import ValidationError

from structgen.arguments import is_listed, require, require_unicode
from structgen.decoding.beams.batch import BeamBatch
from structgen.decoding.beams.hypothesis import Hypothesis
from structgen.decoding.call_options import DEFAULTS, CallOptions
from structgen.decoding.choosing.measure import Ledger
from structgen.decoding.generation import Generation, Stats
from structgen.decoding.grammars import grammar_for, spans_for
from structgen.decoding.loop import AUTOMATIC, Batch, Execution
from structgen.decoding.prompts.per_row import each_of, lists, per_row
from structgen.decoding.prompts.processor_prompts import Prompt, read_prompts
from structgen.decoding.prompts.targets import Target, targets_of
from structgen.decoding.prompts.token_ids import is_batch
from structgen.decoding.refusals.budget import CONTEXT, MAX_NEW_TOKENS, Steering, require_room
from structgen.decoding.refusals.guarding import Guarding
from structgen.decoding.refusals.row_policies import Checks
from structgen.decoding.refusals.runaway import Runaway
from structgen.decoding.refusals.validating import Validating
from structgen.decoding.session import Session
from structgen.decoding.thinking import thinking_caps, thought, ways_to_think
from structgen.errors import OptionError, RunError, StructgenError, UnsatisfiableSchema, ValidatorError, excerpt, quoted
from structgen.guards import BannedWords, Guard
from structgen.guards.unavoidable import in_every_text, in_schema
from structgen.masks import Grammar
from structgen.models.evaluation_mode import evaluating
from structgen.models.model import Model, as_model
from structgen.options import Beams, Limits, Sampling, Thinking
from structgen.schema.python.mistaken import require_schema
from structgen.schema.python.validators import validators_of
from structgen.values.json_automaton import JsonAutomaton
from structgen.vocabulary import Vocabulary


class RowPlan(NamedTuple):
    """What one row is to do.

    Attributes:
        prompt: what comes first.
        target: what its text must be.
        grammar: the target's constraint for the model's vocabulary; None for plain text.
        sampling, limits, guards: as given, the banned words among the guards.
        thinking: what comes before the answer; None for nothing.
    """

    prompt: Prompt
    target: Target
    grammar: Grammar | None
    sampling: Sampling
    limits: Limits
    guards: Sequence[Guard[Any]]
    thinking: Thinking | None


@dataclass(frozen=True, slots=True)
class Request:
    """A checked call, ready to run.

    Attributes:
        model: what runs it.
        targets: one per row.
        sessions: one per row.
        many: a list of prompts was given: a list is given back.
        batch_size: rows that are decoded at once.
        beams: the sessions are roots of beam searches; None where they are not.
        execution: how it runs.
    """

    model: Model
    targets: list[Target]
    sessions: list[Session]
    many: bool
    batch_size: int
    beams: Beams | None = None
    execution: Execution = AUTOMATIC

    def batch(self, *, record: bool) -> Batch | BeamBatch:
        """What runs it, step by step, while the model is `evaluating`.

        Args:
            record: every choice is measured.
        """
        module, vocabulary, rows, execution = self.model.module, self.model.vocabulary, self.batch_size, self.execution
        if self.beams is None:
            return Batch(module, vocabulary, self.sessions, rows=rows, record=record, execution=execution)
        roots = [session for session in self.sessions if isinstance(session, Hypothesis)]
        return BeamBatch(module, vocabulary, roots, self.beams, rows=rows, record=record, execution=execution)

    def run(self, *, record: bool) -> Batch | BeamBatch:
        """Runs it to its end; a row's failure stays in its row. See `batch`."""
        with evaluating(self.model.module), closing(self.batch(record=record)) as batch:
            while batch.step():
                pass
        return batch

    def result(self, row: int, batch: Batch | BeamBatch) -> Generation[Any]:
        """The outcome of one row, once its session is done, or its search."""
        if not isinstance(batch, BeamBatch):
            return self._outcome(row, self.sessions[row], batch.stats(self.sessions[row]), batch.ledger)
        stats, texts = batch.stats(row), batch.searches[row].found
        found = [replace(self._outcome(row, text, stats, batch.ledger), score=score) for text, score in texts]
        return replace(found[0], beams=tuple(found))

    def _outcome(self, row: int, session: Session, stats: Stats, ledger: Ledger | None) -> Generation[Any]:
        text, error, value = session.text(), session.error, None
        if error is None:
            try:
                accepted = session.accepted
                value = self.targets[row].parse(text) if accepted is None else accepted.value
            except ValidatorError as bug:
                error = bug
            except (ValidationError, ValueError) as refusal:
                why = f"the text is complete, but its type refuses it: {excerpt(refusal)}; text: {quoted(text)}"
                error = RunError(why)
                error.__cause__ = refusal
        choices = session.choices(ledger)
        return Generation(
            value=value,
            text=text,
            token_ids=tuple(session.tokens),
            prompt_tokens=len(session.prompt),
            finish="error" if error is not None else session.finish or "error",
            logprobs=tuple(math.nan if choice is None else choice.logprob for choice in choices),
            removed=tuple(math.nan if choice is None else choice.removed for choice in choices),
            stats=stats,
            trace=tuple(session.undone),
            seed=session.seed,
            caps=thinking_caps(session.before) + session.caps(is_json=self.targets[row].is_json),
            **_thoughts(session.before),
            error=error,
            _confidence=session.confidence(choices, is_json=self.targets[row].is_json),
        )


def _thoughts(before: Session | None) -> dict[str, Any]:
    """What a generation tells of what was said before the answer."""
    if before is None:
        return {}
    return {
        "thinking": before.text(), "thinking_ids": tuple(before.tokens), "thinking_trace": tuple(before.undone),
    }  # fmt: skip


def prepare(model: Any, prompt: Any, schema: Any = None, options: CallOptions = DEFAULTS) -> Request:
    """The request that `generate` and `stream` run; their docstrings say what each argument is.

    Raises:
        RequestError: the schema, an option, the model or the prompt cannot work.
    """
    owner = as_model(model, options.tokenizer)
    many = is_batch(prompt)
    prompts = prompt if many else [prompt]
    each = isinstance(schema, list) and many
    if each and schema and all(isinstance(entry, str) for entry in schema):
        require_schema(schema)  # texts are no schemas, however many prompts there are
    schemas = per_row("schema", schema if each else [schema] * len(prompts), len(prompts))
    targets = targets_of(schemas, options.whitespace, options.order)
    plans = _plans(owner, read_prompts(owner, prompts, many=many), targets, options)
    assert isinstance(options.beams, Beams)
    beams = options.beams if options.beams.count > 1 else None
    kind = Session if beams is None else Hypothesis
    sessions = [_session(owner, plan, kind, fast_forward=options.fast_forward) for plan in plans]
    return Request(owner, targets, sessions, many, options.batch_size, beams)


def _plans(
    model: Model, prompts: Sequence[Prompt], targets: Sequence[Target], options: CallOptions
) -> Sequence[RowPlan]:
    """What each row is to do.

    Raises:
        OptionError: an option is none of what it may be.
        UnsatisfiableSchema: guards refuse what the constraint forces.
    """
    count = len(prompts)
    sampling = each_of("sampling", options.sampling, Sampling, count)
    limits = each_of("limits", options.limits, Limits, count)
    thinking = ways_to_think(options.thinking, count)
    guards = _watching(lists("guards", options.guards, count), lists("banned", options.banned, count), targets)
    known = {id(t): None if t.constraint is None else grammar_for(t.constraint, model.vocabulary) for t in targets}
    grammars = [known[id(target)] for target in targets]
    for grammar, watch in {(id(g), id(w)): (g, w) for g, w in zip(grammars, guards, strict=True)}.values():
        _require_a_way(grammar, watch)
    rows = zip(prompts, targets, grammars, sampling, limits, guards, thinking, strict=True)
    return [RowPlan(*row) for row in rows]


def _session(model: Model, plan: RowPlan, kind: type[Session], *, fast_forward: bool) -> Session:
    """What runs a row, or begins its beam search.

    Raises:
        OptionError: a limit cannot be kept, or the row cannot be searched by beams as it is asked to be.
    """
    grammar, vocabulary = plan.grammar, model.vocabulary
    if plan.limits.stop and grammar is not None:
        raise OptionError("stop= is for plain text: a constraint says itself where its text ends")
    _require_seed(model, plan.sampling)
    if kind is Hypothesis:
        _require_searchable(plan)
    limits, bound = _within_context(model, plan.prompt, plan.limits)
    session = kind(
        plan.prompt,
        vocabulary,
        matcher=None if grammar is None else grammar.matcher(),
        sampling=plan.sampling,
        limits=limits,
        spans=spans_for(grammar, model.tokenizer) if fast_forward and grammar is not None else None,
        checks=_checks(plan, limits, bound, vocabulary),
    )
    if plan.thinking is not None:
        session.before = thought(model, plan.prompt, plan.thinking, session, plan.guards)
    return session


def _require_seed(model: Model, sampling: Sampling) -> None:
    """Processes that hold parts of one model have to draw the same tokens.

    Raises:
        OptionError: each would draw with a seed of its own.
    """
    parts = getattr(model.module, "tp_size", None) or 1
    if parts > 1 and not sampling.greedy and sampling.seed is None:
        found = f"sampling={quoted(sampling)} has no seed, and the model is split over {parts} processes"
        raise OptionError(f"{found}: each would choose other tokens; give Sampling(seed=...) the same in all of them")


def _require_searchable(plan: RowPlan) -> None:
    """Beams are for the likeliest text.

    Raises:
        OptionError: the row is to be drawn, penalised or processed, or begins with thinking.
    """
    if not plan.sampling.greedy or plan.sampling.reads_text:
        wanted = "beams= finds the likeliest text by the model's own probabilities"
        raise OptionError(f"{wanted}: leave out temperature, penalties and processors of sampling=, or beams=")
    if plan.thinking is not None:
        raise OptionError("thinking= and beams= do not go together: generate the thoughts first, as plain text")


def _checks(plan: RowPlan, limits: Limits, bound: str, vocabulary: Vocabulary) -> Checks:
    guards = Guarding(plan.guards, vocabulary) if plan.guards else None
    judges = None if plan.target.type is Any else validators_of(plan.target.type)
    validating = Validating(judges, vocabulary, limits.validations) if judges else None
    return Checks(guards, validating, _steering(plan, limits, bound, guards))


def _steering(plan: RowPlan, limits: Limits, bound: str, guards: Guarding | None) -> Steering | None:
    """What keeps a constrained row within its limits.

    Raises:
        OptionError: no text fits into the budget.
    """
    if plan.grammar is None:
        return None
    closes = require_room(plan.grammar, limits.max_new_tokens, bound) and not limits.strict
    runaway = Runaway(limits) if plan.target.is_json else None
    return Steering(plan.grammar, bound, limits.max_new_tokens, guards=guards, closes=closes, runaway=runaway)


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


def _watching(
    guards: Sequence[Sequence[Guard[Any]]], banned: Sequence[Sequence[str]], targets: Sequence[Target]
) -> list[list[Guard[Any]]]:
    """Each row's guards. Rows that were given the same have the same."""
    rows = list(zip(guards, banned, targets, strict=True))
    known = {tuple(map(id, row)): _guards(*row) for row in {tuple(map(id, row)): row for row in rows}.values()}
    return [known[tuple(map(id, row))] for row in rows]


def _guards(given: Sequence[Guard[Any]], banned: Sequence[str], target: Target) -> list[Guard[Any]]:
    """The guards of a row. Banned words must not stand in a JSON text's string values; its names are the schema's."""
    require(is_listed(given, Guard), "guards", given, "a list of guards")
    listed = is_listed(banned, str) and all(banned)
    require(listed, "banned", banned, "a list of texts, none of them empty")
    require_unicode("banned", *banned)
    words = [BannedWords(banned, scope="strings" if target.is_json else "text")] if banned else []
    return [*given, *words]


def _require_a_way(grammar: Grammar | None, guards: Sequence[Guard[Any]]) -> None:
    """What a constraint forces must be no offence, as far as that can be seen.

    Raises:
        UnsatisfiableSchema: it is one.
    """
    if grammar is None or not guards:
        return
    automaton = grammar.automaton
    found = in_schema(automaton.root, guards) if isinstance(automaton, JsonAutomaton) else None
    found = found or in_every_text(grammar, guards)
    if found is not None:
        wanted = f"nothing but what has it can be said, {excerpt(found.forced)}"
        raise UnsatisfiableSchema(f"{found.reason}: {wanted}; ban less or allow more", found.pointer)


def _within_context(model: Model, prompt: Prompt, limits: Limits) -> tuple[Limits, str]:
    """A row's limits within the model's context, and what sets its budget.

    The last token is never read: it needs no place.
    """
    room = limits.max_new_tokens if model.context is None else model.context - len(prompt.read) + 1
    return (replace(limits, max_new_tokens=room), CONTEXT) if room < limits.max_new_tokens else (limits, MAX_NEW_TOKENS)
