"""From a caller's arguments to sessions, and from sessions to results. All arguments are checked first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeGuard, cast

from pydantic import ValidationError

from structgen.decoding.beams.hypothesis import Hypothesis
from structgen.decoding.beams.search import BeamSearch
from structgen.decoding.call_options import DEFAULTS, CallOptions
from structgen.decoding.choosing.measure import ChosenToken
from structgen.decoding.confidence import Confidence
from structgen.decoding.engine import Engine
from structgen.decoding.exact.exact_session import ExactSession
from structgen.decoding.generation import Generation, Stats
from structgen.decoding.loop import AUTOMATIC, Decoded, Execution
from structgen.decoding.prompts.per_row import per_row
from structgen.decoding.prompts.targets import Target
from structgen.decoding.rows import RowBuilder
from structgen.decoding.session import Session
from structgen.decoding.thinking import ThinkingSession, thinking_caps
from structgen.decoding.ticket import Ticket
from structgen.decoding.tracing import trace_of
from structgen.decoding.value_scores import RunAgain
from structgen.endings.overlaps import warn_of_overlaps
from structgen.errors import NoExactSample, RunError, Stopped, StructgenError, ValidatorError, excerpt, quoted
from structgen.given_prompts import GivenPrompts
from structgen.models.model import Model
from structgen.options import Beams
from structgen.parts.captures import captures_something
from structgen.schema.python.mistaken import require_schema
from structgen.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Request:
    """A checked call, ready to run.

    Attributes:
        prompts: as the caller gave them.
        targets, sessions: one per row.
        beams: the options of the beam searches, whose roots the sessions are; None without beams.
    """

    model: Model
    prompts: GivenPrompts
    targets: list[Target]
    sessions: list[Session]
    batch_size: int
    builder: RowBuilder
    beams: Beams | None = None
    execution: Execution = AUTOMATIC

    def submit(self, *, record: bool, since: float | None = None) -> Ticket:
        """Gives the rows to the model's engine, to be decoded when somebody waits for them. See `Engine.submit`."""
        module, vocabulary, execution = self.model.module, self.model.vocabulary, self.execution
        engine = Engine.of(self.model)
        if execution is not AUTOMATIC:
            engine = Engine(module, vocabulary, execution=execution)
        rows: list[Decoded] = [*self.sessions]
        if self.beams is not None:
            rows = [BeamSearch(root, self.beams, vocabulary) for root in cast("list[Hypothesis]", self.sessions)]
        return engine.submit(rows, record=record, at_once=self.batch_size, since=since)

    def results(self, *, record: bool) -> list[Generation[Any]]:
        """Runs all rows to their end, and returns their results. A row's failure stays in the row."""
        with self.submit(record=record) as ticket:
            ticket.wait()
            results = [self.result(row, ticket) for row in range(len(self.sessions))]
        local = {row: session.local() for row, session in enumerate(self.sessions) if _is_drawn_locally(session)}
        later = self.with_sessions(local).results(record=record) if local else []
        for row, result in zip(local, later, strict=True):
            results[row] = replace(result, stats=results[row].stats.with_run(result.stats, same_row=True))
        return results

    def with_sessions(self, sessions: Mapping[int, Session]) -> Request:
        """The same call with only some rows, each with another session."""
        return replace(self, targets=[self.targets[row] for row in sessions], sessions=[*sessions.values()])

    def result(self, row: int, ticket: Ticket) -> Generation[Any]:
        """The result of one row that is over."""
        stats = ticket.stats(row)
        outcomes = [
            replace(self._outcome(row, session, stats, ticket), score=score)
            for session, score in ticket.rows[row].texts
        ]
        return outcomes[0] if self.beams is None else replace(outcomes[0], beams=tuple(outcomes))

    def _outcome(self, row: int, session: Session, stats: Stats, ticket: Ticket) -> Generation[Any]:
        text, error, value, ledger = session.text(), session.error, None, ticket.ledger
        if session.matcher is not None:
            warn_of_overlaps(session.matcher.grammar)
        if error is None:
            try:
                accepted = session.accepted
                value = self.targets[row].parse(text) if accepted is None else accepted.value
            except ValidatorError as bug:
                error = bug
            except (ValidationError, ValueError, RecursionError) as refusal:
                why = f"the text is complete, but its type refuses it: {excerpt(refusal)}; text: {quoted(text)}"
                error = RunError(why)
                error.__cause__ = refusal
        choices = session.choices(ledger)
        tokens, entries, measured, vocabulary = session.tokens, session.entries, choices, self.model.vocabulary
        healed, healing, is_json = b"", session.healing, self.targets[row].is_json
        if healing is not None:
            healed = vocabulary.token(session.prompt[-1])
            token, entry = healing
            tokens = [token, *tokens[session.healed :]]
            entries = [entry, *entries[session.healed :]]
            choices[: session.healed] = [None] * min(session.healed, len(choices))
            measured = [*([] if ledger is None else [ledger.choice(*entry)]), *choices[session.healed :]]
        return Generation(
            value=value,
            text=text,
            token_ids=tuple(tokens),
            prompt_tokens=len(session.prompt) - (healing is not None),
            finish="error" if error is not None else session.finish or "error",
            logprobs=tuple(math.nan if choice is None else choice.logprob for choice in measured),
            removed=tuple(math.nan if choice is None else choice.removed for choice in measured),
            stats=stats,
            trace=trace_of(
                session.undone,
                vocabulary,
                ledger if ticket.record else None,
                tokens,
                entries,
                measured,
                is_json=is_json,
                prompt_end=healed,
                automaton=None if session.matcher is None else session.matcher.grammar.automaton,
                rules=session.rules,
            ),
            seed=session.seed,
            stop=session.stop,
            absences=session.absences,
            caps=thinking_caps(session.thinking) + session.caps(is_json=is_json),
            **_thinking(session.thinking, vocabulary, ticket),
            **_exact(session),
            healed=healed.decode("utf-8", "replace"),
            error=error,
            _confidence=None if error else _confidence(self.model, session, choices, is_json=is_json),
            _read=(vocabulary, tuple(session.prompt)),
            _is_json=is_json,
        )


def _thinking(before: Session | None, vocabulary: Vocabulary, ticket: Ticket) -> dict[str, Any]:
    """The attributes of a generation that describe the thinking or the plan before the answer."""
    if not isinstance(before, ThinkingSession):
        return {}
    choices, ledger = before.choices(ticket.ledger), ticket.ledger if ticket.record else None
    trace = trace_of(before.undone, vocabulary, ledger, before.tokens, before.entries, choices, is_json=False)
    return {before.name: before.text(), "thinking_ids": tuple(before.tokens), "thinking_trace": trace}


def _confidence(
    model: Model, session: Session, choices: Sequence[ChosenToken | None], *, is_json: bool
) -> Confidence | None:
    """The confidence of each value; None for plain text, and if nothing was measured, quoted or captured."""
    if session.matcher is None:
        return None
    automaton = session.matcher.grammar.automaton
    if not (choices or automaton.quotations or captures_something(automaton)):
        return None
    again = RunAgain.of(model.module, session) if choices else None
    return Confidence(session.matcher.grammar.matcher(), tuple(session.tokens), choices, again, is_json=is_json)


def _exact(session: Session) -> dict[str, Any]:
    """The attributes of a generation that describe exact sampling."""
    if not isinstance(session, ExactSession):
        return {}
    known = session.validity
    return {
        "exact": session.error is None and session.log_weight is None,
        "log_weight": session.log_weight,
        "log_validity": None if known is None else known.estimate,
        "log_validity_error": None if known is None else known.error,
    }


def _is_drawn_locally(session: Session) -> TypeGuard[ExactSession]:
    """Has exact sampling found no text, so that the row is to be drawn step by step?"""
    failed = isinstance(session, ExactSession) and isinstance(session.error, NoExactSample)
    return failed and session.sampling.exact == "prefer"


def prepare(model: Model, prompts: GivenPrompts, schema: Any = None, options: CallOptions = DEFAULTS) -> Request:
    """The request that `generate` and `stream` run; their docstrings explain the arguments.

    Raises:
        RequestError: the schema, an option or the prompt is invalid. Stopped: the call must end.
    """
    each, count = isinstance(schema, list) and prompts.many, len(prompts.each)
    if each and schema and all(isinstance(entry, str) for entry in schema):
        require_schema(schema)  # raises: texts are no schemas
    schemas = per_row("schema", schema if each else [schema] * count, count)
    builder = RowBuilder(model, options)
    patience = builder.patience()
    try:
        with patience if patience.deadline.is_bounded else nullcontext():
            targets, sessions = builder.rows(prompts.each, schemas)
    except Stopped as stopped:
        if not patience.deadline.is_cancelled:
            advice = "a call without seconds= prepares the schema for later ones"
            stopped.args = (f"{stopped} before the first token: {advice}",)
        raise
    return Request(model, prompts, targets, sessions, options.batch_size, builder, builder.beams)


def raise_first_error(errors: Sequence[StructgenError | None]) -> None:
    """Raises the error of the first row that failed, if any; the message names the row."""
    failed = [(row, error) for row, error in enumerate(errors) if error is not None]
    if not failed:
        return
    row, error = failed[0]
    if len(errors) > 1:
        others = f" ({len(failed)} of {len(errors)} prompts failed)" if len(failed) > 1 else ""
        error.args = (f"prompt[{row}]{others}: {error}", *error.args[1:])
    raise error
