"""Makes the sessions of a call's rows from its options."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from structgen.arguments import left_out
from structgen.chat.calls_constraint import Turn
from structgen.constraints.basic import Regex
from structgen.decoding.beams.hypothesis import Hypothesis
from structgen.decoding.call_options import CallOptions
from structgen.decoding.exact.exact_session import ExactSession, require_exact
from structgen.decoding.exact.refused_mass import RefusedMass
from structgen.decoding.grammars import grammar_for, spans_for
from structgen.decoding.healing import seam_of
from structgen.decoding.plan_first import plan_session
from structgen.decoding.prompts.per_row import each_of, lists, shared
from structgen.decoding.prompts.prompt import Prompt, read_prompt
from structgen.decoding.prompts.sources import sourced_targets
from structgen.decoding.prompts.targets import Target, asked_target, targets_of, written_target
from structgen.decoding.refusals.absence_row import thresholds_of
from structgen.decoding.refusals.budget import CONTEXT, MAX_NEW_TOKENS, Budget
from structgen.decoding.refusals.guarding import guards_behind, guards_of
from structgen.decoding.refusals.phrase_row import phrases_of, require_strings
from structgen.decoding.refusals.rules import Rules, rules_for
from structgen.decoding.session import Session
from structgen.decoding.thinking import (
    Wanted,
    opened_thinking,
    switch_of,
    thinking_of_rows,
    thinking_session,
    thought_state,
)  # fmt: skip
from structgen.errors import OptionError, quoted
from structgen.given_prompts import GivenPrompt
from structgen.guards import Guard
from structgen.masks import Grammar
from structgen.models.model import Model
from structgen.options import DEFAULT_DEPTH, Beams, Limits, Sampling, Thinking
from structgen.patience import ENDLESS, Deadline, Patience, stopped_by
from structgen.phrases.progress import PhraseSet

ANY_TEXT = Regex(r"[\s\S]*")
"""The constraint of plain text with phrases: it tells how the text may end."""


class RowPlan(NamedTuple):
    """The options of one row. `guards` includes the banned words."""

    prompt: Prompt
    target: Target
    sampling: Sampling
    limits: Limits
    guards: Sequence[Guard[Any]]
    phrases: PhraseSet | None
    thinking: Wanted


class RowBuilder:
    """Builds the sessions of a call.

    Attributes:
        beams: the options of the beam search, if there is one.
    """

    def __init__(self, model: Model, options: CallOptions) -> None:
        self._model, self._options = model, options
        self._grammars: dict[tuple[int, int], tuple[Target, Grammar | None]] = {}  # by the target's id, and the depth
        self._plans: list[RowPlan] = []
        self._masses: dict[Hashable, RefusedMass] = {}
        assert isinstance(options.beams, Beams)
        self.beams = options.beams if options.beams.count > 1 else None
        wanted = options.canonical != "off" if options.token_healing is None else options.token_healing
        self._heals = wanted and self.beams is None
        self._events, self._deadlines = (options.cancel, stopped_by.get()), dict[float | None, Deadline]()

    def patience(self) -> Patience:
        """A block of the call's own work, before there are sessions. The longest limit of the rows holds.

        Raises:
            Stopped: the call must end.
        """
        given = self._options.limits
        limits = given if isinstance(given, (list, tuple)) else [given]
        seconds = [each.seconds or math.inf for each in limits if isinstance(each, Limits)]
        longest = max(seconds, default=math.inf)
        return Patience(deadline=self._deadline(None if longest == math.inf else longest))

    def _deadline(self, seconds: float | None) -> Deadline:
        """The one deadline of all rows with this limit."""
        if seconds is None and self._events == (None, None):
            return ENDLESS
        return self._deadlines.setdefault(seconds, Deadline(seconds, self._events))

    def rows(self, prompts: Sequence[GivenPrompt], schemas: Sequence[Any]) -> tuple[list[Target], list[Session]]:
        """The target and the session of each row.

        Raises:
            RequestError: a schema or an option is invalid, a limit cannot be kept, or options do not go
                together.
        """
        options, count = self._options, len(prompts)
        thinking = thinking_of_rows(options.thinking, count)
        read = shared(self._read, prompts, thinking)
        targets = targets_of(schemas, options.whitespace, options.order)
        if options.optional == "write":
            targets = shared(written_target, targets)
        if options.absent is not None:
            targets = shared(asked_target, targets)
        targets = sourced_targets(targets, options.source, prompts, self._grammar)
        sampling = each_of("sampling", options.sampling, Sampling, count)
        limits = each_of("limits", options.limits, Limits, count)
        guards: Sequence[Sequence[Guard[Any]]] = [()] * count
        if not (left_out(options.guards) and left_out(options.banned)):
            banned = lists("banned", options.banned, count)
            guards = shared(guards_of, lists("guards", options.guards, count), banned, targets)
            guards = shared(partial(guards_behind, self._model.vocabulary), guards, read)
        grammars = shared(self._grammar, targets, [each.max_depth for each in limits])
        phrases: Sequence[PhraseSet | None] = [None] * count
        if not left_out(options.phrases):
            finds = [self.beams is not None or bool(each.exact) for each in sampling]
            phrases = shared(phrases_of, lists("phrases", options.phrases, count), guards, targets, limits, finds)
            shared(require_strings, grammars, phrases)
        columns = zip(read, targets, sampling, limits, guards, phrases, thinking, strict=True)
        self._plans = [RowPlan(*column) for column in columns]
        return targets, [self._session(plan) for plan in self._plans]

    def session_for(self, row: int, prompt: GivenPrompt) -> Session:
        """A new session for one of the rows last given to `rows`, with another prompt.

        Raises:
            OptionError: the prompt cannot be read, or leaves no room for an answer.
        """
        plan = self._plans[row]
        return self._session(plan._replace(prompt=self._read(prompt, plan.thinking)))

    def _read(self, prompt: GivenPrompt, thinking: Wanted) -> Prompt:
        plans = self._options.plan is not None  # what is to be thought is in the plan
        return read_prompt(self._model, prompt, thinks=False if plans and thinking is None else switch_of(thinking))

    def _grammar(self, target: Target, max_depth: int = DEFAULT_DEPTH) -> Grammar | None:
        constraint = target.constraint
        key = id(target), max_depth
        if key not in self._grammars:
            grammar = None if constraint is None else grammar_for(constraint, self._model.vocabulary, max_depth)
            self._grammars[key] = target, grammar
        return self._grammars[key][1]

    def _session(self, plan: RowPlan) -> Session:
        session = self._built(plan)
        session.patience.deadline = self._deadline(plan.limits.seconds)
        return session

    def _built(self, plan: RowPlan) -> Session:
        model, grammar = self._model, self._grammar(plan.target, plan.limits.max_depth)
        if grammar is None and plan.phrases is not None:
            grammar = grammar_for(ANY_TEXT, model.vocabulary)
        self._require_seed(plan.sampling)
        self._require_part_limits(plan, grammar)
        may_think = False
        if self._options.plan is not None:
            self._require_plannable(plan)
        elif not isinstance(plan.thinking, Thinking):
            state = thought_state(model, plan.prompt)
            may_think = state == "free" and plan.thinking is None
            plan = plan._replace(thinking=Thinking() if state == "open" else None)
        if self._options.token_healing:
            self._require_healable(plan)
        if self._options.absent is not None and (self.beams is not None or plan.sampling.exact):
            other = "beams=" if self.beams is not None else "Sampling(exact=...)"
            raise OptionError(f"absent= and {other} do not go together: leave one of them out")
        if plan.sampling.exact:
            return self._exact_session(plan, grammar)
        if self.beams is not None:
            _require_searchable(plan)
        rules, options = self._session_options(plan, grammar)
        kind = Session if self.beams is None else Hypothesis
        session = kind(plan.prompt, model.vocabulary, rules=rules, **options)
        if self._options.plan is not None:
            session.begin_after(plan_session(model, plan.prompt, plan.limits, plan.target, session, plan.guards))
        elif isinstance(plan.thinking, Thinking):
            session.begin_after(thinking_session(model, plan.prompt, plan.thinking, session, plan.guards))
        elif may_think and self.beams is None:
            constraint = plan.target.constraint
            session.begin_after(opened_thinking(model, plan.prompt, constraint, session, plan.guards))
        if session.has_begun and self._heals and not session.done:
            seam = seam_of(plan.prompt, model.vocabulary, grammar)
            if seam is not None:
                session.open_seam(seam)
        return session

    def _session_options(self, plan: RowPlan, grammar: Grammar | None) -> tuple[Rules, dict[str, Any]]:
        """The rules and the other options of a row's session."""
        constraint, stop = plan.target.constraint, plan.limits.stop
        turn = constraint if isinstance(constraint, Turn) else None
        if stop and constraint is not None and (turn is None or not turn.rules.text):
            raise OptionError("stop= is for plain text: a constraint itself defines where its text ends")
        turn_text = None if turn is None else turn.reading(self._model.vocabulary, stop)
        budget = self._budget(plan)
        forced = self._options.fast_forward and (self.beams is None or self._options.canonical == "off")
        rules = rules_for(
            self._model.vocabulary, grammar, plan.target, plan.limits, budget, plan.guards, plan.phrases,
            turn_text, canonical=str(self._options.canonical), absent=thresholds_of(self._options.absent),
        )  # fmt: skip
        return rules, {
            "matcher": None if grammar is None else grammar.matcher(),
            "sampling": plan.sampling,
            "limits": plan.limits,
            "budget": budget.tokens,
            "spans": spans_for(grammar, self._model) if forced and grammar is not None else None,
        }

    def _exact_session(self, plan: RowPlan, grammar: Grammar | None) -> Session:
        """A row that draws whole texts; it has no limit that would change a text."""
        canonical, sampling = str(self._options.canonical), plan.sampling
        require_exact(
            sampling, beams=self.beams is not None, thinking=bool(plan.thinking), canonical=canonical,
            phrases=plan.phrases is not None,
        )  # fmt: skip
        rules, options = self._session_options(plan, grammar)
        text = plan.prompt.row()
        read = (tuple(text.ids), None if text.source is None else tuple(text.source), id(text.inputs or None))
        law = replace(sampling, seed=None, processors=()), plan.limits, options["budget"], id(plan.target)
        key = (*read, *law, *map(id, (*sampling.processors, *plan.guards, plan.phrases)))
        return ExactSession(
            plan.prompt,
            self._model.vocabulary,
            mass=self._masses.setdefault(key, RefusedMass()),
            local=lambda: self._session(plan._replace(sampling=replace(sampling, exact=False))),
            rules=replace(rules, steering=None),
            **options,
        )

    def _require_part_limits(self, plan: RowPlan, grammar: Grammar | None) -> None:
        """Refuses options that do not go with the limits of single parts."""
        budgets = None if grammar is None else grammar.budgets
        if budgets is None:
            return
        if plan.sampling.exact:
            raise OptionError("Sampling(exact=...) draws whole texts: leave out max_tokens= and temperature= of parts")
        if budgets.temperatures and self.beams is not None:
            raise OptionError("beams= finds the likeliest text and draws nothing: leave out temperature= of parts")
        for temperature in budgets.temperatures:
            self._require_seed(replace(plan.sampling, temperature=temperature))

    def _require_plannable(self, plan: RowPlan) -> None:
        """Refuses options that do not go with a plan."""
        others = {
            "beams=": self.beams is not None, "thinking=": bool(plan.thinking),
            "Sampling(exact=...)": bool(plan.sampling.exact), "token_healing=": bool(self._options.token_healing),
        }  # fmt: skip
        for other, given in others.items():
            if given:
                raise OptionError(f"plan= and {other} do not go together: leave one of them out")

    def _require_healable(self, plan: RowPlan) -> None:
        """Refuses options that do not go with token healing."""
        others = {
            "beams=": self.beams is not None, "thinking=": bool(plan.thinking),
            "Sampling(exact=...)": bool(plan.sampling.exact),
            "a prompt that is more than text": plan.prompt.start is not None or plan.prompt.inputs is not None,
        }  # fmt: skip
        for other, given in others.items():
            if given:
                raise OptionError(f"token_healing= and {other} do not go together: leave out token_healing=")

    def _budget(self, plan: RowPlan) -> Budget:
        """The most tokens of a row's answer. The last one is never read: it takes no place of the model's context."""
        tokens, context = plan.limits.budget(is_json=plan.target.is_json), self._model.context
        room = tokens if context is None else context - len(plan.prompt.read) + 1
        return Budget(tokens, MAX_NEW_TOKENS) if room >= tokens else Budget(room, CONTEXT)

    def _require_seed(self, sampling: Sampling) -> None:
        """Refuses to draw without a seed if several processes hold parts of the model: each would draw other tokens."""
        parts = getattr(self._model.module, "tp_size", None) or 1
        if parts > 1 and not sampling.greedy and sampling.seed is None:
            given = f"sampling={quoted(sampling)} has no seed, and the model is split over {parts} processes"
            raise OptionError(
                f"{given}: each would choose other tokens; pass Sampling(seed=...), the same in all of them"
            )


def _require_searchable(plan: RowPlan) -> None:
    """Refuses options that do not go with beams, which find the most likely text."""
    if not plan.sampling.greedy:
        raise OptionError("beams= finds the likeliest text and draws nothing: leave out temperature=, or beams=")
    if plan.thinking:
        raise OptionError(
            "thinking= and beams= do not go together: generate the thoughts first, as plain text; if the chat template "
            "opens a thought by itself, pass thinking=False"
        )
