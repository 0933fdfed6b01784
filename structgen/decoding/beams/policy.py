"""Beam search as a policy over scores: which candidates continue, which texts are kept, and when the search is over.

A beam is an incomplete text; its score is the sum of its tokens' log-probabilities. Each step offers the likeliest next
tokens of every beam, and the best candidates of all become the next beams. A candidate that completes a text is kept if
it is among the best `count`; its score is then divided by its length to the power of the length penalty. All this, and
the end of the search, is as in the beam search of transformers, which it equals if nothing is refused.

Two things are new. `judge` may refuse a candidate, because of a guard for example: the next best one takes its place.
And candidates may come from banks: a search for phrases ranks those that have them apart from those that have started
them, the latter by an estimate of what they will have paid when they are done (`FinishingCosts`).

This module knows no model, no token's text and no tensor.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Generic, NamedTuple, Protocol, TypeVar

from structgen.options import Beams


class BeamText(Protocol):
    """A text with a candidate's token."""

    @property
    def done(self) -> bool:
        """Is the text complete?"""

    @property
    def finish(self) -> str | None:
        """How it has ended; "cut" if a limit came within a call."""


T = TypeVar("T", bound=BeamText)


class Candidate(NamedTuple):
    """A beam with a next token."""

    token: int
    score: float  # the sum of the tokens' log-probabilities
    rank: float  # the greatest is taken first; the score, or what it is expected to be when the phrases are said


@dataclass(frozen=True, slots=True)
class Taken(Generic[T]):
    """A candidate that was taken."""

    parent: int  # the index of the beam that it continues
    score: float  # the sum of its tokens' log-probabilities
    text: T


@dataclass(slots=True)
class BeamStep(Generic[T]):
    """The candidates that a step takes, best first."""

    beams: list[Taken[T]] = field(default_factory=list)  # the incomplete ones
    done: list[Taken[T]] = field(default_factory=list)  # the complete ones among the best `count`
    exhausted: bool = False  # there are no other candidates
    plain: int = 0  # with phrases: this many of the first beams are those of the plain search


Banks = Mapping[int, Iterator[Candidate]]
"""Candidates by bank, those of a bank by rank."""


def select(
    candidates: Callable[[int], Banks],
    judge: Callable[[int, int], T | None],
    *,
    parents: int,
    count: int,
    limit: int,
) -> BeamStep[T]:
    """Takes the best candidates of all beams; of equal scores, those of the first beam.

    It takes the best of each bank in turn, the highest bank first: dynamic beam allocation (Post and Vilar 2018).

    Args:
        candidates: of a beam, best first. Asked again after one was refused, since others may come instead.
        judge: what a beam becomes with a token; None if it is refused.
        parents: the number of beams.
        count: the number of beams of the next step.
        limit: the most candidates that are taken: a multiple of `count`, so that enough continue if many are complete.
    """
    step, ranks = BeamStep[T](), Counter[int]()
    queues: _Queues[T] = _Queues(candidates, parents)
    while (banks := queues.banks) and ranks.total() < limit and len(step.beams) < count:
        for bank in banks:
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
        self._left: dict[int, list[tuple[float, int, Candidate]]] = {}
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
            _, parent, candidate = heappop(queue)
            text = judge(parent, candidate.token)
            if text is not None:
                self._queue(parent, bank)
                return Taken(parent, candidate.score, text)
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
            heappush(self._left.setdefault(bank, []), (-candidate.rank, parent, candidate))


class FinishingCosts:
    """What texts pay for the phrases that they still owe, as a sum of log-probabilities: estimated by the bytes owed.

    A text that says its phrases at once pays for the next token and for what is then owed; the mean over the latest
    texts is the estimate (temporal differences: Sutton 1988). What was never seen costs nothing, so that it is tried.
    """

    _SLOWEST = 0.1  # the least weight of the latest text

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, float]] = {}

    def of(self, owed: int) -> float:
        return self._seen[owed][1] if owed in self._seen else 0.0

    def learn(self, owed: int, ways: Iterable[tuple[float, int]]) -> None:
        """Learns from a text that owes `owed` bytes.

        Args:
            ways: for each token that it may say a phrase with: its log-probability, and the bytes owed after it.
        """
        cost = max((log + self.of(behind) for log, behind in ways), default=None)
        if cost is not None:
            count, mean = self._seen.get(owed, (0, 0.0))
            self._seen[owed] = count + 1, mean + (cost - mean) * max(1 / (count + 1), self._SLOWEST)


class BestTexts(Generic[T]):
    """The best complete texts of one prompt.

    Args:
        budget: the most tokens of a text.

    Attributes:
        kept: the texts with their scores, length penalty included, best first.
        most likely: the greatest score of a text, without length penalty.
    """

    def __init__(self, options: Beams, budget: int) -> None:
        self._options, self._budget = options, budget
        self.kept: list[tuple[T, float]] = []
        self.likeliest = -math.inf

    def add(self, taken: Taken[T], length: int) -> None:
        """Adds a text of `length` tokens. Of equal scores the earlier one ranks first, and those that are cut last."""
        self.kept.append((taken.text, taken.score / self._weight(length)))
        self.likeliest = max(self.likeliest, taken.score)
        self.kept.sort(key=lambda kept: (kept[0].finish == "cut", -kept[1]))
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
