"""Beam search in the decode loop: hypotheses in rows of one cache, those of all prompts in one forward pass.

`policy` chooses the candidates, and each hypothesis knows which tokens are allowed and refused. This module gives each
hypothesis a row: the first one that continues a hypothesis keeps its row, the others get copies, in the places of rows
that nothing continues.

A search for phrases is two searches over the same rows. The plain one takes the most likely candidates, phrases or not,
as if none were asked for: where its text has them, no worse text is found. Beside it go as many beams that have begun a
phrase or have said them all. When the plain search would be over, only these continue.

If every hypothesis is given up before a text is complete, the search goes back to the latest step with other
candidates, and takes the next best of these. So it finds a text if there is one, as far as `KEPT` and the limits reach:
beam search with a stack of pruned candidates (Zhou and Hansen, *Beam-Stack Search*, 2005).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

from torch import Tensor

from structgen.decoding.beams.candidates import BeamCandidates, Hypotheses, StepLogits, depth
from structgen.decoding.beams.hypothesis import Hypothesis
from structgen.decoding.beams.policy import Banks, BeamStep, BestTexts, FinishingCosts, Taken, select
from structgen.decoding.choosing.choice import Ask
from structgen.decoding.choosing.measure import Ledger
from structgen.errors import BudgetExhausted, Stopped, StructgenError, ValidationFailed
from structgen.masks import find_masks
from structgen.masks.words import Words
from structgen.models.prefixes import common
from structgen.models.row import Forward, Row
from structgen.options import Beams
from structgen.vocabulary import Vocabulary

KEPT = 64
"""The number of earlier steps that a search can go back to."""


class BeamSearch:
    """The beam search of one prompt.

    Args:
        root: the text before its first token.

    Attributes:
        seats: the most rows that it takes at once: one for each beam, two with phrases.
        limit: the most candidates of a step.
        ledger: where the tokens that it takes are measured; None if they are not.
        beams: with phrases, those of the plain search come first, then the others; each best first.
        text: the best text when the search is over, else an incomplete one.
        prompt: the tokens before it.
    """

    def __init__(self, root: Hypothesis, options: Beams, vocabulary: Vocabulary) -> None:
        self.seats = options.count * (2 if root.phrases else 1)
        self.limit = max(2, 1 + len(vocabulary.end_ids)) * options.count
        self.ledger: Ledger | None = None
        self.beams: Hypotheses = [Taken(0, 0.0, root)]
        self.rows = [root.row]
        self.text, self.done = root, root.done
        self._first = root.row
        self.best: BestTexts[Hypothesis] = BestTexts(options, root.budget)
        self.prompt, self._count = tuple(root.row.ids), options.count
        self._thorough = options.early_stopping == "never"
        self._earlier: deque[tuple[Hypotheses, int, BeamStep[Hypothesis]]] = deque(maxlen=KEPT)
        self._unbegun, self._costs = root.owed, FinishingCosts()
        self._places = options.count  # of the plain search: a text that would lose a phrase holds its own forever
        self._plain, self._floor = 1, BestTexts[Hypothesis](options, root.budget)  # its beams; its complete texts

    @property
    def phases(self) -> tuple[BeamSearch]:
        """See `Session.phases`."""
        return (self,)

    @property
    def texts(self) -> Sequence[tuple[Hypothesis, float | None]]:
        """The complete texts with their scores, best first; if there is none, the one that has failed."""
        return self.best.kept or [(self.text, None)]

    @property
    def is_over(self) -> bool:
        return self.done

    @property
    def token_count(self) -> int:
        """The number of tokens of the best text."""
        return len(self.text.tokens)

    def costs(self) -> dict[str, Any]:
        """The fields of `Stats` for the best text. No token is forced: each is a candidate like any other."""
        return {**self.text.costs(), "fast_forwarded": 0, "cached": self._first.cached}

    @property
    def error(self) -> StructgenError | None:
        return self.text.error

    @property
    def said(self) -> bytes:
        """The best text when the search is over; before, the settled bytes that all texts begin with."""
        if self.done:
            return self.text.said
        going = [beam.text.said[: len(beam.text.said) - beam.text.unsettled()] for beam in self.beams]
        complete = [text.said for text, _ in self.best.kept]
        return reduce(lambda one, other: one[: common(one, other)], going + complete)

    def is_free(self, start: int, end: int) -> bool:
        """See `Session.is_free`. All texts begin alike, so each of them tells."""
        return any(beam.text.is_free(start, end) for beam in self.beams)

    def unsettled(self) -> int:
        """The number of unsettled bytes in `said`: none, though going back may lead to another text."""
        return 0

    def measured_in(self, ledger: Ledger | None) -> None:
        """Sets the batch's ledger; None if the batch measures nothing."""
        self.ledger = ledger

    def next_forced(self, limit: int) -> list[Sequence[int]]:
        """The tokens that each beam must take next: at most `limit`, and equally many for all beams."""
        spans = [beam.text.next_forced() for beam in self.beams] if limit > 0 else [()]
        count = min(limit, *map(len, spans))
        return [span[:count] for span in spans] if count > 0 else [()] * len(self.beams)

    def step(self, candidates: BeamCandidates, forward: Forward) -> None:
        """Takes the best candidates, and gives each a row."""
        try:
            for row in self.rows:
                if row.error is not None:
                    raise row.error
            step = self._with_phrases(candidates) if self._unbegun else self._select(candidates, candidates.of)
            self._settle(step, forward)
        except Stopped as stopped:
            self._end_early(stopped)
        except StructgenError as error:
            self.fail(error)

    def fail(self, error: StructgenError) -> None:
        self.text.fail(error)
        self.done = True

    def _select(
        self,
        candidates: BeamCandidates,
        offers: Callable[[int], Banks],
        parents: int | None = None,
        count: int | None = None,
    ) -> BeamStep[Hypothesis]:
        parents, count = len(self.beams) if parents is None else parents, self._count if count is None else count
        return select(offers, candidates.judge, parents=parents, count=count, limit=self.limit)

    def _with_phrases(self, candidates: BeamCandidates) -> BeamStep[Hypothesis]:
        """The candidates of the plain search, if it is not over, and as many others that have started a phrase."""
        candidates.learn(self._costs)
        plain = self._select(candidates, candidates.of, self._plain, max(1, self._places))
        self._places = max(0, self._places - candidates.losing)
        for complete in plain.done:
            self._floor.add(complete, len(complete.text.tokens))
        for complete in candidates.lacking:  # whose last token was rolled back
            self._floor.add(complete, len(complete.text.tokens) + 1)
        begun = self._select(candidates, partial(candidates.with_phrases, costs=self._costs, unbegun=self._unbegun))
        going = plain.beams
        over = not self._places or (going and self._floor.is_over(going[0].score, len(going[0].text.tokens)))
        if over and (begun.beams or self.best.kept):
            going = []
            begun.beams += [beam for beam in plain.beams if beam.text.owed < self._unbegun]
        done, exhausted = plain.done + begun.done, plain.exhausted and begun.exhausted
        return BeamStep(going + begun.beams, done, exhausted, plain=len(going))

    def end_if_late(self) -> None:
        """Ends the search if its call must end."""
        try:
            self.text.patience.deadline.check()
        except Stopped as stopped:
            self._end_early(stopped)

    def _end_early(self, stopped: Stopped) -> None:
        """Ends with the best complete text, or else the best incomplete one, which is closed."""
        cancelled = self.text.patience.deadline.is_cancelled
        if cancelled:
            self.best.kept.clear()
        if self.best.kept:
            self.text = self.best.kept[0][0]
        else:
            self.text = min(self.beams, key=lambda beam: beam.text.owed).text.closed(stopped)
        self.done = True

    def _settle(self, step: BeamStep[Hypothesis], forward: Forward) -> None:
        if not step.exhausted:
            self._earlier.append((self.beams, self._plain, step))
        for taken in step.done:
            self.best.add(taken, len(taken.text.tokens))
        if step.beams and not self._is_over(step):
            self._seat(step.beams, forward)
            self.beams, self._plain, self.text = step.beams, step.plain, step.beams[0].text
        elif self.best.kept:
            self.text, self.done = self.best.kept[0][0], True
        else:
            self._go_back(forward)

    def _is_over(self, step: BeamStep[Hypothesis]) -> bool:
        """Can no beam become better than the kept texts, or need not be?

        A beam beside the plain search counts while it is likelier than the likeliest kept text, with what its phrases
        are expected to cost. So no beam waters its phrases down by words that come cheap: they lower its score, but
        raise the mean of it.
        """
        beams, begun = step.beams, step.beams[step.plain :]
        if self._unbegun and self.best.kept and not self._thorough:
            if any(beam.score + self._costs.of(beam.text.owed) > self.best.likeliest for beam in begun):
                return False
            beams = step.beams[: step.plain]
        best = max(beams, key=lambda beam: beam.score, default=None)
        return best is None or self.best.is_over(best.score, len(best.text.tokens))

    def _seat(self, beams: Hypotheses, forward: Forward) -> None:
        """Gives each hypothesis a row: that of the hypothesis it continues or a copy, with its new tokens."""
        followed = {beam.parent for beam in beams}
        free = [row for number, row in enumerate(self.rows) if number not in followed]
        rows = []
        for beam in beams:
            row = source = self.rows[beam.parent]
            if beam.parent in followed:
                followed.remove(beam.parent)
            else:
                row = free.pop() if free else Row(source.ids, source.source, source.inputs)
                forward.fork(source, row)
            rows.append(row)
        for row in free:
            forward.release(row)
        for row, beam in zip(rows, beams, strict=True):
            row.ids += beam.text.row.ids
        self.rows = rows

    def _go_back(self, forward: Forward) -> None:
        """Goes back to the latest step with other candidates that is early enough.

        Raises:
            StructgenError: there is none, or the search has gone back too often.
        """
        texts = [beam.text for beam in self.beams]
        spent = next((t.error for t in texts if isinstance(t.error, (ValidationFailed, BudgetExhausted))), None)
        if spent is not None or not self._earlier:
            raise spent or texts[0].why_not
        lasting = min(text.lasting for text in texts)
        early = [n for n, (beams, _, _) in enumerate(self._earlier) if len(beams[0].text.tokens) <= lasting]
        number = early[-1] if early else -1
        beams, self._plain, later = self._earlier[number]
        del self._earlier[number]
        for taken in (*later.beams, *later.done):
            taken.text.never_again()
        texts[0].retreat(len(beams[0].text.tokens))
        self.beams, self.text = beams, beams[0].text
        self._seat_again(forward)

    def _seat_again(self, forward: Forward) -> None:
        """Gives rows to hypotheses of an earlier step. The rows forget other texts."""
        while len(self.rows) < len(self.beams):
            row = Row(self.rows[0].ids, self.rows[0].source, self.rows[0].inputs)
            forward.fork(self.rows[0], row)
            self.rows.append(row)
        while len(self.rows) > len(self.beams):
            forward.release(self.rows.pop())
        for row, beam in zip(self.rows, self.beams, strict=True):
            wanted = [*self.prompt, *beam.text.tokens]
            row.truncate(common(row.ids, wanted))
            row.ids += wanted[len(row.ids) :]
            row.reread()


def step_searches(searches: Sequence[BeamSearch], logits: Tensor, forward: Forward, everything: Words) -> None:
    """Lets searches take their next tokens.

    Args:
        logits: of all beams of all searches: float[beams, width].
        forward: gives beams new rows, and takes rows from those that nothing continues.
        everything: the mask of all tokens that exist.
    """
    beams = [beam.text for search in searches for beam in search.beams]
    find_masks([beam.matcher for beam in beams if beam.matcher is not None])  # while a device still runs
    ledger = next((search.ledger for search in searches if search.ledger is not None), None)
    step = StepLogits(logits, everything, ledger)
    if any(beam.sampling.reads_text for beam in beams):
        prompts = [search.prompt for search in searches for _ in search.beams]
        each = zip(prompts, beams, strict=True)
        step.process([Ask(None, b.sampling, 0.0, prompt, b.tokens, b.counted(prompt)) for prompt, b in each])
    masks = [beam.words() for beam in beams]
    proposed = [beam.proposals(words) for beam, words in zip(beams, masks, strict=True)]
    deepest = max(depth(beam.text, search.limit) for search in searches for beam in search.beams)
    likeliest, first = step.likeliest(0, masks, deepest, proposed), 0
    for search in searches:
        own = slice(first, first + len(search.beams))
        search.step(BeamCandidates(search.beams, step, first, masks[own], likeliest[own], search.limit), forward)
        first = own.stop
    step.measure()
