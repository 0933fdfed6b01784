"""Beam search as a policy over scores: which candidates go on, which texts are kept, and when the search is over.

A beam is an incomplete text; its score is the sum of its tokens' log-probabilities. Each step offers the likeliest next
tokens of every beam, and the best candidates of all become the next beams. A candidate that completes a text is kept if
it is among the best `count`; its score is then divided by its length to the power of the length penalty. All this, and
the end of the search, is as in the beam search of transformers, which it equals if nothing is refused.

Two things are new. `judge` may refuse a candidate, because of a guard for example: the next best one takes its place.
And with required phrases, candidates are taken in turn from banks, by how much of the phrases they have, so that texts
with a phrase stand beside texts that are only likely.

This module knows no model, no token's text and no tensor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Generic, Protocol, TypeVar

from structgen.options import Beams


class BeamText(Protocol):
    """A text with a candidate's token."""

    @property
    def done(self) -> bool:
        """Is the text complete?"""


T = TypeVar("T", bound=BeamText)

ScoredToken = tuple[int, float]
"""A next token, and the score of the beam with it."""


@dataclass(frozen=True, slots=True)
class Taken(Generic[T]):
    """A candidate that was taken."""

    parent: int  # the index of the beam that it continues
    score: float  # the sum of its tokens' log-probabilities
    text: T


@dataclass(slots=True)
class BeamStep(Generic[T]):
    """The candidates that a step takes, best first."""

    beams: list[Taken[T]] = field(default_factory=list)  # the incomplete ones, at most `count`
    done: list[Taken[T]] = field(default_factory=list)  # the complete ones among the best `count`
    exhausted: bool = False  # there are no other candidates


Banks = Mapping[int, Iterator[ScoredToken]]
"""Candidates by minus the number of bytes that their phrases still need: 0 if all phrases are said."""


def select(
    candidates: Callable[[int], Banks],
    judge: Callable[[int, int], T | None],
    *,
    parents: int,
    count: int,
    limit: int,
) -> BeamStep[T]:
    """Takes the best candidates of all beams; of equal scores, those of the first beam.

    It takes the best of each bank in turn, the highest bank first: dynamic beam allocation (Post and Vilar 2018; Hu et
    al. 2019). If there are more banks than beams, the highest ones get one each, so that begun phrases are completed,
    and the lowest gets one, whose texts are likely and have begun no phrase. Without phrases there is one bank.

    Args:
        candidates: of a beam, best first. Asked again after one was refused, since others may come instead.
        judge: what a beam becomes with a token; None if it is refused.
        parents: the number of beams.
        count: the number of beams of the next step.
        limit: the most candidates that are taken: a multiple of `count`, so that enough go on if many are complete.
    """
    step, ranks = BeamStep[T](), Counter[int]()
    queues: _Queues[T] = _Queues(candidates, parents)
    while (banks := queues.banks) and ranks.total() < limit and len(step.beams) < count:
        for bank in banks if len(banks) <= count else (*banks[: count - 1], banks[-1]):
            if ranks.total() == limit or len(step.beams) == count:
                break
            taken = queues.take(bank, judge)
            if taken is not None:
                ranks[bank] += 1
                if not taken.text.done:
                    step.beams.append(taken)
                elif ranks[bank] <= count:
                    step.done.append(taken)
    step.beams.sort(key=lambda taken: -taken.score)
    step.exhausted = not queues.banks
    return step


class _Queues(Generic[T]):
    """The remaining candidates of a step, by bank. Of each beam and bank, only the best one is in a queue."""

    def __init__(self, candidates: Callable[[int], Banks], parents: int) -> None:
        self._left: dict[int, list[tuple[float, int, int]]] = {}
        self._candidates = candidates
        self._behind = [candidates(parent) for parent in range(parents)]
        for parent in range(parents):
            self._queue_all(parent)

    @property
    def banks(self) -> list[int]:
        """The banks with candidates, the highest first."""
        return sorted((bank for bank, queue in self._left.items() if queue), reverse=True)

    def take(self, bank: int, judge: Callable[[int, int], T | None]) -> Taken[T] | None:
        """The best candidate of a bank that is not refused; None if there is none."""
        while queue := self._left.get(bank):
            score, parent, token = heappop(queue)
            text = judge(parent, token)
            if text is not None:
                self._queue(parent, bank)
                return Taken(parent, -score, text)
            self._ask_again(parent)
        return None

    def _ask_again(self, parent: int) -> None:
        """Replaces the candidates of a beam."""
        for queue in self._left.values():
            if any(entry[1] == parent for entry in queue):
                queue[:] = [entry for entry in queue if entry[1] != parent]
                heapify(queue)
        self._behind[parent] = self._candidates(parent)
        self._queue_all(parent)

    def _queue_all(self, parent: int) -> None:
        for bank in self._behind[parent]:
            self._queue(parent, bank)

    def _queue(self, parent: int, bank: int) -> None:
        candidate = next(self._behind[parent][bank], None)
        if candidate is not None:
            heappush(self._left.setdefault(bank, []), (-candidate[1], parent, candidate[0]))


class BestTexts(Generic[T]):
    """The best complete texts of one prompt.

    Args:
        budget: the most tokens of a text.

    Attributes:
        kept: the texts with their scores, length penalty included, best first.
    """

    def __init__(self, options: Beams, budget: int) -> None:
        self._options, self._budget = options, budget
        self.kept: list[tuple[T, float]] = []

    def add(self, taken: Taken[T], length: int) -> None:
        """Adds a text of `length` tokens. Of equal scores the earlier one ranks first."""
        self.kept.append((taken.text, taken.score / self._weight(length)))
        self.kept.sort(key=lambda kept: -kept[1])
        del self.kept[self._options.count :]

    def is_over(self, score: float, length: int) -> bool:
        """Is the search over, because no beam can become better than the kept texts, or need not be?

        With `early_stopping=False` this is an estimate: a beam may still become better with length.

        Args:
            score: of the best beam.
        """
        if len(self.kept) < self._options.count:
            return False
        if self._options.early_stopping is True:
            return True
        if self._options.early_stopping == "never" and self._options.length_penalty > 0:
            length = self._budget
        return score / self._weight(length) <= self.kept[-1][1]

    def _weight(self, length: int) -> float:
        return float(length**self._options.length_penalty)
