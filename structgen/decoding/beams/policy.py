"""Beam search as a policy over scores: which candidates go on, which texts are kept, and when no better one can come.

A beam is a text on its way; its score is the sum of its tokens' log-probabilities. Each step offers the likeliest next
tokens of every beam; the best candidates of all of them together become the next beams. A candidate that completes a
text is no beam any more: it is kept if it is among the best `count`, with its score divided by its number of tokens to
the power of the length penalty. All this, and when it is over, is as in the beam search of transformers, which it
equals where nothing is refused.

What is new is `judge`: a candidate may be refused, by a guard for one. It is not taken then, and counts as if it had
not been there: the next best one takes its place.

Nothing here knows a model, a token's text or a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
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


def select(
    candidates: Callable[[int], Iterator[ScoredToken]],
    judge: Callable[[int, int], T | None],
    *,
    parents: int,
    count: int,
    limit: int,
) -> BeamStep[T]:
    """Takes the best candidates of all beams together; of equal scores, those of the first beam.

    Args:
        candidates: of a beam, best first. Asked again when one of them was refused, for others may come instead.
        judge: what a beam becomes with a token; None where that is refused.
        parents: how many beams there are.
        count: how many beams there are to be.
        limit: how many candidates are looked at, refused ones apart: a multiple of `count`, so that enough of them go
            on where many texts are complete.
    """
    step, rank = BeamStep[T](), 0
    heap: list[tuple[float, int, int]] = []
    left = [candidates(parent) for parent in range(parents)]

    def push(parent: int) -> None:
        candidate = next(left[parent], None)
        if candidate is not None:
            heappush(heap, (-candidate[1], parent, candidate[0]))

    for parent in range(parents):
        push(parent)
    while heap and rank < limit and len(step.beams) < count:
        score, parent, token = heappop(heap)
        text = judge(parent, token)
        if text is None:
            left[parent] = candidates(parent)
        else:
            rank += 1
            if not text.done:
                step.beams.append(Taken(parent, -score, text))
            elif rank <= count:
                step.done.append(Taken(parent, -score, text))
        push(parent)
    step.exhausted = not heap
    return step


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
            length: tokens of each beam.
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
