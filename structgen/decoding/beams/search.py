"""Beam search in the decode loop: hypotheses in rows of one cache, those of all prompts in one forward pass.

`policy` chooses the candidates, and each hypothesis knows which tokens are allowed and refused. This module gives each
hypothesis a row: the first one that continues a hypothesis keeps its row, the others get copies, in the places of rows
that nothing continues.

If every hypothesis is given up before a text is complete, the search goes back to the latest step with other
candidates, and takes the next best of these. So it finds a text if there is one, as far as `KEPT` and the limits reach:
beam search with a stack of pruned candidates (Zhou and Hansen, *Beam-Stack Search*, 2005).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from structgen.decoding.beams.hypothesis import Hypothesis
from structgen.decoding.beams.policy import Banks, BeamStep, BestTexts, ScoredToken, Taken, select
from structgen.decoding.choosing.choice import Ask
from structgen.decoding.choosing.masking import forbid
from structgen.decoding.choosing.measure import Entry, Ledger
from structgen.errors import BudgetExhausted, Stopped, StructgenError, ValidationFailed
from structgen.masks.words import Words
from structgen.models.row import Forward, Row, common
from structgen.models.transfer import Download, upload, upload_one
from structgen.options import Beams, Sampling

UNSAMPLED = Sampling()


class StepLogits:
    """The logits of one step.

    A token's score is its log-probability among all tokens: a mask selects the candidates, and changes no score.

    Args:
        logits: float[rows, width], without columns beyond the vocabulary's.
        everything: the mask of all tokens that exist.
        ledger: where the tried tokens are measured; None if they are not.
    """

    def __init__(self, logits: Tensor, everything: Words, ledger: Ledger | None) -> None:
        self._logits, self._everything, self._ledger = logits.float(), everything, ledger
        self._broken: set[int] = set()
        self._tried: list[tuple[int, Words | None, int]] = []

    def likeliest(
        self, first: int, masks: Sequence[Words | None], limit: int, proposed: Sequence[NDArray[np.int64]] = ()
    ) -> list[list[ScoredToken]]:
        """The likeliest allowed tokens of some rows and the likeliest proposed ones, best first, in one copy from the
        device.

        Args:
            masks: of row `first` and those behind it; None allows every token.
            limit: the most tokens of a row, and the most proposed ones.
            proposed: further allowed tokens of each row; may be empty.
        """
        scores = self._logits[first : first + len(masks)]
        width = min(limit, scores.shape[1])
        top = forbid(scores, self._on_device(masks)).topk(width)
        total = scores.logsumexp(dim=-1, keepdim=True)
        parts = [total, top.values, top.indices.float()]
        if longest := max(map(len, proposed), default=0):
            ids = np.full((len(proposed), longest), -1)
            for line, each in zip(ids, proposed, strict=True):
                line[: len(each)] = each
            columns = upload([ids], scores.device)[0]
            best = scores.gather(1, columns.clamp(0)).masked_fill(columns < 0, -math.inf).topk(min(limit, longest))
            parts += [best.values, columns.gather(1, best.indices).float()]
        rows = Download(torch.cat(parts, dim=1)).numbers()
        self._broken |= {first + i for i, row in enumerate(rows) if math.isnan(row[0]) or row[0] == math.inf}
        ranked = []
        for number, row in enumerate(rows):
            by_token = dict(zip(row[1 + width : 1 + 2 * width], row[1 : 1 + width], strict=True))
            if longest and len(proposed[number]):
                half = 1 + 2 * width + min(limit, longest)
                by_token.update(zip(row[half:], row[1 + 2 * width : half], strict=True))
            ranked.append(_ranked(row[0], by_token))
        return ranked

    def require_numbers(self, row: int, text: Hypothesis) -> None:
        """Raises the text's error if the probabilities of its row are not numbers."""
        if row in self._broken:
            error = text.logits_error(self._logits[row], None)
            assert error is not None, "the sum of finite logits is finite"
            raise error

    def entry(self, row: int, words: Words | None, token: int) -> Entry:
        """Notes a tried token, and returns where it is to be measured."""
        self._tried.append((row, words, token))
        return 0 if self._ledger is None else self._ledger.steps, len(self._tried) - 1

    def measure(self) -> None:
        """Measures all tokens that were tried."""
        if self._ledger is None or not self._tried:
            return
        rows, masks, tokens = zip(*self._tried, strict=True)
        logits = self._logits.index_select(0, upload_one(list(rows), self._logits.device))
        asks = [Ask(words, UNSAMPLED) for words in masks]
        self._ledger.add(logits, asks, tokens, None if logits.device.type == "cpu" else self._on_device(masks))

    def _on_device(self, masks: Sequence[Words | None]) -> Tensor:
        """Packed: int32[masks, words]."""
        packed = np.array([self._everything if words is None else words for words in masks])
        return upload([packed.view(np.int32)], self._logits.device)[0]


def _ranked(total: float, scores: Mapping[float, float]) -> list[ScoredToken]:
    """The possible tokens, best first; of equal scores the lowest token first, as in greedy decoding."""
    ranked = sorted((-score, int(token)) for token, score in scores.items() if abs(score) < math.inf)
    return [(token, -negative - total) for negative, token in ranked]


KEPT = 64
"""The number of earlier steps that a search can go back to."""

Hypotheses = list[Taken[Hypothesis]]
"""The hypotheses of a step, best first."""


class BeamSearch:
    """The beam search of one prompt.

    Args:
        root: the text before its first token.
        limit: the most candidates of a step.

    Attributes:
        text: the best text when the search is over, else an incomplete one.
    """

    def __init__(self, root: Hypothesis, options: Beams, limit: int) -> None:
        self.beams: Hypotheses = [Taken(0, 0.0, root)]
        self.rows = [root.row]
        self.text, self.done = root, root.done
        self.best: BestTexts[Hypothesis] = BestTexts(options, root.budget)
        self._prompt, self._count, self._limit = tuple(root.row.ids), options.count, limit
        self._thorough = options.early_stopping == "never"
        self._earlier: deque[tuple[Hypotheses, BeamStep[Hypothesis]]] = deque(maxlen=KEPT)

    @property
    def texts(self) -> Sequence[tuple[Hypothesis, float | None]]:
        """The complete texts with their scores, best first; if there is none, the one that has failed."""
        return self.best.kept or [(self.text, None)]

    @property
    def token_count(self) -> int:
        """The number of tokens of the best text."""
        return len(self.text.tokens)

    def costs(self) -> dict[str, Any]:
        """The fields of `Stats` for the best text. No token is forced: each is a candidate like any other."""
        return {**self.text.costs(), "fast_forwarded": 0}

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

    def unsettled(self) -> int:
        """The number of unsettled bytes in `said`: none, though going back may lead to another text."""
        return 0

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
            step = select(
                candidates.of, candidates.judge, parents=len(self.beams), count=self._count, limit=self._limit
            )
            self._settle(step, forward)
        except Stopped as stopped:
            self._end_early(stopped)
        except StructgenError as error:
            self.text.fail(error)
            self.done = True

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
        self.text = self.best.kept[0][0] if self.best.kept else self.beams[0].text.closed(stopped)
        self.done = True

    def _settle(self, step: BeamStep[Hypothesis], forward: Forward) -> None:
        if not step.exhausted:
            self._earlier.append((self.beams, step))
        for taken in step.done:
            self.best.add(taken, len(taken.text.tokens))
        if step.beams and not self._is_over(step.beams):
            self._seat(step.beams, forward)
            self.beams, self.text = step.beams, step.beams[0].text
        elif self.best.kept:
            self.text, self.done = self.best.kept[0][0], True
        else:
            self._go_back(forward)

    def _is_over(self, beams: Hypotheses) -> bool:
        """Can no beam become better than the kept texts?

        Unless `early_stopping="never"`, beams that lack a phrase, which their scores do not include yet, count only if
        there are no others.
        """
        ready = [beam for beam in beams if not beam.text.owed]
        asked = beams if self._thorough else ready or beams
        return self.best.is_over(asked[0].score, len(asked[0].text.tokens))

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
        early = [n for n, (beams, _) in enumerate(self._earlier) if len(beams[0].text.tokens) <= lasting]
        number = early[-1] if early else -1
        beams, later = self._earlier[number]
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
            wanted = [*self._prompt, *beam.text.tokens]
            row.truncate(common(row.ids, wanted))
            row.ids += wanted[len(row.ids) :]
            row.reread()


@dataclass
class BeamCandidates:
    """The candidates of one step of one search.

    Attributes:
        beams: the search's; one that refuses a token is replaced by its successor, which knows the refusal.
        first: the index of the search's first row among those of the step.
        masks: of each beam.
        likeliest: tokens of each beam, best first.
        limit: the most candidates of a beam.
    """

    beams: Hypotheses
    logits: StepLogits
    first: int
    masks: list[Words | None]
    likeliest: Sequence[list[ScoredToken]]
    limit: int

    def __post_init__(self) -> None:
        self._taken: list[set[int]] = [set() for _ in self.beams]
        self._left: list[list[ScoredToken] | None] = list(self.likeliest)

    def of(self, number: int) -> Banks:
        """The candidates of a beam, see `select`."""
        beam, likeliest = self.beams[number], self._left[number]
        self.logits.require_numbers(self.first + number, beam.text)
        if likeliest is None:
            words = self.masks[number] = beam.text.words()
            proposed = [beam.text.proposals(words)]
            (likeliest,) = self.logits.likeliest(self.first + number, [words], self.limit, proposed)
        self._left[number] = None
        banks: dict[int, list[ScoredToken]] = {}
        if not beam.text.done:
            left = [scored for scored in likeliest if scored[0] not in self._taken[number]]
            for (token, log), owed in zip(left, beam.text.owed_with([token for token, _ in left]), strict=True):
                banks.setdefault(-owed, []).append((token, beam.score + log))
        return {bank: iter(tokens) for bank, tokens in banks.items()}

    def judge(self, number: int, token: int) -> Hypothesis | None:
        """What a beam becomes with a token, see `select`."""
        beam = self.beams[number].text
        text = beam.taking(token, self.logits.entry(self.first + number, self.masks[number], token))
        if text.error is not None:
            beam.blame(text.error)
        elif text.sent_back:
            self.beams[number] = replace(self.beams[number], text=text)
        else:
            self._taken[number].add(token)
            return text
        return None
