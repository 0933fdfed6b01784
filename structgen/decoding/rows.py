"""What each row of a call is to do, and the session that does it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from structgen.arguments import is_listed, require, require_unicode
from structgen.decoding.beams.hypothesis import Hypothesis
from structgen.decoding.call_options import CallOptions
from structgen.decoding.grammars import grammar_for, spans_for
from structgen.decoding.prompts.per_row import each_of, lists
from structgen.decoding.prompts.processor_prompts import Prompt, read_prompts
from structgen.decoding.prompts.targets import Target, targets_of
from structgen.decoding.refusals.budget import CONTEXT, MAX_NEW_TOKENS, Steering, require_room
from structgen.decoding.refusals.caps import CapReader
from structgen.decoding.refusals.guarding import Guarding
from structgen.decoding.refusals.row_policies import Checks
from structgen.decoding.refusals.validating import Validating
from structgen.decoding.session import Session
from structgen.decoding.thinking import thought, ways_to_think
from structgen.errors import OptionError, UnsatisfiableSchema, excerpt, quoted
from structgen.guards import BannedWords, Guard
from structgen.guards.unavoidable import in_every_text, in_schema
from structgen.masks import Grammar
from structgen.models.model import Model
from structgen.options import Beams, Limits, Sampling, Thinking
from structgen.schema.python.validators import validators_of
from structgen.values.json_automaton import JsonAutomaton


class RowPlan(NamedTuple):
    """What one row is to do.

    Attributes:
        prompt: what comes first.
        target: what its text must be.
        grammar: the target's constraint for the model's vocabulary; None for plain text.
        sampling: as given.
        guards: as given, and one for the banned words.
        thinking: what comes before the answer; None for nothing.
        limits: as given, `max_new_tokens` within the model's context.
        bound: the option that sets `max_new_tokens`.
    """

    prompt: Prompt
    target: Target
    grammar: Grammar | None
    sampling: Sampling
    guards: Sequence[Guard[Any]]
    thinking: Thinking | None
    limits: Limits
    bound: str


class RowBuilder:
    """Builds the sessions of a call.

    Args:
        options: of the call.

    Attributes:
        beams: how each row is searched, by a `Hypothesis` then; None where it is not.
    """

    def __init__(self, model: Model, options: CallOptions) -> None:
        self._model, self._options = model, options
        assert isinstance(options.beams, Beams)
        self.beams = options.beams if options.beams.count > 1 else None

    def rows(self, prompts: Sequence[Any], schemas: Sequence[Any], *, many: bool) -> tuple[list[Target], list[Session]]:
        """What each row's text becomes, and the session that makes the text.

        Args:
            prompts: as the caller gave them.
            schemas: one for each.
            many: the caller gave a list.

        Raises:
            RequestError: a schema, an option or a prompt is none of what it may be, a limit cannot be kept, guards
                refuse what a constraint forces, or beams cannot do what is asked.
        """
        targets = targets_of(schemas, self._options.whitespace, self._options.order)
        plans = self._plans(read_prompts(self._model, prompts, many=many), targets)
        return targets, [self._session(plan) for plan in plans]

    def _plans(self, prompts: Sequence[Prompt], targets: Sequence[Target]) -> list[RowPlan]:
        options, count = self._options, len(prompts)
        sampling = each_of("sampling", options.sampling, Sampling, count)
        limits = each_of("limits", options.limits, Limits, count)
        thinking = ways_to_think(options.thinking, count)
        guards = _guards_of_rows(
            lists("guards", options.guards, count), lists("banned", options.banned, count), targets
        )
        compiled = {id(target): self._grammar(target) for target in targets}
        grammars = [compiled[id(target)] for target in targets]
        for grammar, watch in {(id(g), id(w)): (g, w) for g, w in zip(grammars, guards, strict=True)}.values():
            _require_a_text(grammar, watch)
        within = [self._within_context(*row) for row in zip(prompts, limits, strict=True)]
        fitted, bounds = [limits for limits, _ in within], [bound for _, bound in within]
        rows = zip(prompts, targets, grammars, sampling, guards, thinking, fitted, bounds, strict=True)
        return [RowPlan(*row) for row in rows]

    def _grammar(self, target: Target) -> Grammar | None:
        return None if target.constraint is None else grammar_for(target.constraint, self._model.vocabulary)

    def _within_context(self, prompt: Prompt, limits: Limits) -> tuple[Limits, str]:
        """A row's limits within the model's context, and the option that sets its budget.

        The last token is never read: it takes no place of the context.
        """
        if self._model.context is None:
            return limits, MAX_NEW_TOKENS
        room = self._model.context - len(prompt.read) + 1
        within = room >= limits.max_new_tokens
        return (limits, MAX_NEW_TOKENS) if within else (replace(limits, max_new_tokens=room), CONTEXT)

    def _session(self, plan: RowPlan) -> Session:
        model, grammar = self._model, plan.grammar
        if plan.limits.stop and grammar is not None:
            raise OptionError("stop= is for plain text: a constraint says itself where its text ends")
        self._require_seed(plan.sampling)
        if self.beams is not None:
            _require_searchable(plan)
        kind = Session if self.beams is None else Hypothesis
        session = kind(
            plan.prompt,
            model.vocabulary,
            matcher=None if grammar is None else grammar.matcher(),
            sampling=plan.sampling,
            limits=plan.limits,
            spans=spans_for(grammar, model.tokenizer) if self._options.fast_forward and grammar is not None else None,
            checks=self._checks(plan),
        )
        if plan.thinking is not None:
            session.before = thought(model, plan.prompt, plan.thinking, session, plan.guards)
        return session

    def _require_seed(self, sampling: Sampling) -> None:
        """Processes that hold parts of one model have to draw the same tokens.

        Raises:
            OptionError: each would draw with a seed of its own.
        """
        parts = getattr(self._model.module, "tp_size", None) or 1
        if parts > 1 and not sampling.greedy and sampling.seed is None:
            found = f"sampling={quoted(sampling)} has no seed, and the model is split over {parts} processes"
            raise OptionError(
                f"{found}: each would choose other tokens; give Sampling(seed=...) the same in all of them"
            )

    def _checks(self, plan: RowPlan) -> Checks:
        """What may refuse the row's text, or close it in time.

        Raises:
            OptionError: no text fits into the budget.
        """
        vocabulary, limits = self._model.vocabulary, plan.limits
        guards = Guarding(plan.guards, vocabulary) if plan.guards else None
        steering = None
        if plan.grammar is not None:
            budget = limits.max_new_tokens
            closes = require_room(plan.grammar, budget, plan.bound) and not limits.strict
            caps = CapReader(limits) if plan.target.is_json else None
            steering = Steering(plan.grammar, plan.bound, budget, guards=guards, closes=closes, cap_reader=caps)
        validators = None if plan.target.type is Any else validators_of(plan.target.type)
        validating = Validating(validators, vocabulary, limits.validations, steering) if validators else None
        return Checks(guards, validating, steering)


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


def _guards_of_rows(
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


def _require_a_text(grammar: Grammar | None, guards: Sequence[Guard[Any]]) -> None:
    """What a constraint forces must be no offence, as far as that can be seen.

    Raises:
        UnsatisfiableSchema: it is one.
    """
    if grammar is None or not guards:
        return
    automaton = grammar.automaton
    offence = in_schema(automaton.root, guards) if isinstance(automaton, JsonAutomaton) else None
    offence = offence or in_every_text(grammar, guards)
    if offence is not None:
        forced = f"nothing but what has it can be said, {excerpt(offence.forced)}"
        raise UnsatisfiableSchema(f"{offence.reason}: {forced}; ban less or allow more", offence.pointer)
