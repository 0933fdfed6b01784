"""Beam search as a policy over scores: which candidates go on, which texts are kept, and when no better one can come.

A beam is a text on its way; its score is the sum of its tokens' log-probabilities. Each step offers the likeliest next
tokens of every beam; the best candidates of all of them together become the next beams. A candidate that completes a
text is no beam any more: it is kept if it is among the best `count`, with its score divided by its number of tokens to
the power of the length penalty. All this, and when it is over, is as in the beam search of transformers, which it
equals where nothing is refused.

What is new is `judge`: a candidate may be refused, by a guard for one. It is not taken then, and counts as if it had
not been there: the next best one takes its place. And with phrases that a text must have, candidates are taken in turn
from banks, by how much of the phrases they have, so that texts which say one stand beside texts that are only likely.

Nothing here knows a model, a token's text or a tensor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Generic, Protocol, TypeVar

from structgen.options import Beams


class BeamText(Protocol):
    """What a candidate becomes."""

    @property
    def done(self) -> bool:
        """Is it complete?"""


T = TypeVar("T", bound=BeamText)

ScoredToken = tuple[int, float]
"""A token that may come next, and the score of the beam with it."""


@dataclass(frozen=True, slots=True)
class Taken(Generic[T]):
    """A candidate that was taken."""

    parent: int  # the number of the beam that it continues
    score: float  # the sum of its tokens' log-probabilities
    text: T  # what it has become


@dataclass(slots=True)
class BeamStep(Generic[T]):
    """The candidates that a step takes, best first."""

    beams: list[Taken[T]] = field(default_factory=list)  # those that go on, at most as many as there are to be
    done: list[Taken[T]] = field(default_factory=list)  # those that are complete and were among the best `count`
    exhausted: bool = False  # there are no other candidates


Banks = Mapping[int, Iterator[ScoredToken]]
"""Candidates by the bytes that they owe of phrases, which count below zero: nothing is owed in bank 0."""


def select(
    candidates: Callable[[int], Banks],
    judge: Callable[[int, int], T | None],
    *,
    parents: int,
    count: int,
    limit: int,
) -> BeamStep[T]:
    """Takes the best candidates of all beams together; of equal scores, those of the first beam.

    The best of each bank in turn, the highest bank first: dynamic beam allocation (Post and Vilar 2018; Hu et al.
    2019). Of more banks than beams, the highest ones have one each, so that what was begun is completed, and the
    lowest, whose texts are likely and have begun no phrase. Without phrases there is one bank.

    Args:
        candidates: of a beam, best first. Asked again when one of them was refused, for others may come instead.
        judge: what a beam becomes with a token; None where that is refused.
        parents: how many beams there are.
        count: how many beams there are to be.
        limit: how many candidates are looked at, refused ones apart: a multiple of `count`, so that enough of them go
            on where many texts are complete.
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
    """The candidates of a step that are left, by bank. Of each beam and bank, only the best one is in a queue."""

    def __init__(self, candidates: Callable[[int], Banks], parents: int) -> None:
        self._left: dict[int, list[tuple[float, int, int]]] = {}
        self._candidates = candidates
        self._behind = [candidates(parent) for parent in range(parents)]
        for parent in range(parents):
            self._queue_all(parent)

    @property
    def banks(self) -> list[int]:
        """Those with candidates, the highest first."""
        return sorted((bank for bank, queue in self._left.items() if queue), reverse=True)

    def take(self, bank: int, judge: Callable[[int, int], T | None]) -> Taken[T] | None:
        """The best candidate of a bank that is not refused; None where there is none."""
        while queue := self._left.get(bank):
            score, parent, token = heappop(queue)
            text = judge(parent, token)
            if text is None:
                self._ask_again(parent)
            else:
                self._queue(parent, bank)
            if text is not None:
                return Taken(parent, -score, text)
        return None

    def _ask_again(self, parent: int) -> None:
        """Other candidates of a beam come in the place of those it had."""
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
        options: how many are kept, how length counts, and when it is over.
        budget: tokens that a text may have.

    Attributes:
        kept: the texts with their scores, the length penalty included, best first.
    """

    def __init__(self, options: Beams, budget: int) -> None:
        self._options, self._budget = options, budget
        self.kept: list[tuple[T, float]] = []

    def add(self, taken: Taken[T], length: int) -> None:
        """Adds a text of `length` tokens. Of equal scores the earlier one is better."""
        self.kept.append((taken.text, taken.score / self._weight(length)))
        self.kept.sort(key=lambda kept: -kept[1])
        del self.kept[self._options.count :]

    def is_over(self, score: float, length: int) -> bool:
        """Can no beam be complete with a score that would be kept, or need none be?

        Without `early_stopping` that is an estimate unless it is "never": a beam may still become better with length.

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
