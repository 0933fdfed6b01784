"""The rollback policy: a tree of the texts that a row has tried, and where it retries after a text was refused.

A text is refused because nothing fits behind it (a dead end), because a guard vetoes it, or because a validator
refuses the value that it ends with. In each case that text is refused, a path of tokens, and no more: forbidding its
first token would lose good texts that begin alike; forbidding only its last would make of *150* a *1500*. So the tree
knows at each node how much of the model's probability has not been tried: a node's children are refused texts or lead
to some, and the rest of its probability is for all others. Going on from a node without its children gives a text that
was never said; and each text that was not said is behind exactly one node. So no text comes twice, none is lost, and of
finitely many texts the last one is found.

The place is drawn by the probability that is left there, which gives each text its probability given that it is none
of the refused ones (Shi, Bieber and Sutton, *Incremental Sampling Without Replacement for Sequence Models*, 2020), as
far as the row samples by the model's probabilities. A greedy row goes where most is left. That alone would retry the
same places with tokens of one kind where a model is sure of a value and sees no other: so after `STUBBORN` refused
values every second retry starts elsewhere, from the first place of the value or another one in turn, and the token
there is drawn, both by the numbers of Halton (1960), which are spread as evenly as can be.

The policy is a generator, `RetryTree.places`: it gives places, nearest first, and whoever runs the row goes there.
Where nothing is allowed there after all it closes the place and takes the next. The policy knows nothing of forwards,
caches or batches, so it is the same in every loop.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from structgen.decoding.choosing.measure import Entry
from structgen.errors import DeadEnd, StructgenError

PATIENCE = 16
"""Places where nothing was left before the steps back grow."""

STUBBORN = 4
"""Values that validators refuse before every second retry of a greedy row starts elsewhere."""

LEAST = 1e-9
"""The probability that counts as left where the model sees hardly any other token: others may still be allowed."""


@dataclass(eq=False, slots=True)
class TriedNode:
    """A text that was begun."""

    entry: Entry | None = None  # where the token that leads here was measured
    left: float = 1.0  # the part of the probability here that leads to none of the children
    children: dict[int, TriedNode] = field(default_factory=dict)  # the nodes behind it, by token
    chances: dict[int, float] = field(default_factory=dict)  # the probability of each child


Path = tuple[tuple[int, TriedNode], ...]
"""The nodes of a text, each with the token that leads there."""


@dataclass(frozen=True, slots=True)
class RetryPlace:
    """A node from which a row can go on."""

    path: Path  # of the text before the place
    node: TriedNode  # the last one of the path
    uniform: float | None = None  # draws the next token of a greedy row; None takes the likeliest

    @property
    def tokens(self) -> list[int]:
        """The tokens of the text before it."""
        return [token for token, _ in self.path]

    @property
    def entries(self) -> list[Entry | None]:
        """Where each of these tokens was measured."""
        return [node.entry for _, node in self.path]

    def close(self) -> None:
        """Nothing else is allowed here."""
        self.node.left = 0.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """A text that must not be said.

    Attributes:
        tokens: of the text; the last one completed what is refused, or nothing fits behind it.
        depths: how many of the tokens stay; where nothing else is left behind them, the next number counts.
        error: makes what is raised where no other text is left.
        pointer: of the JSON value that its type's validators refuse; None for any other reason.
        values: of a validator's refusal, the scalar values that are complete before the one that is changed first.
    """

    tokens: tuple[int, ...]
    depths: Sequence[int]
    reason: str
    error: Callable[[], StructgenError]
    pointer: str | None = None
    values: int = 0


class RetryTree:
    """The texts of one row that were refused. The hypotheses of a beam search share one tree.

    Args:
        draw: gives a random number in [0, 1); None for a greedy row.
        rollbacks: how often guards and dead ends may send the row back.

    Attributes:
        rollbacks: how often they did.
        refused_values: how many values the validators have refused, by JSON pointer.
    """

    def __init__(self, draw: Callable[[], float] | None = None, rollbacks: int = 0) -> None:
        self.rollbacks = 0
        self.refused_values: Counter[str] = Counter()
        self._root = TriedNode()
        self._exhausted = 0
        self._draw, self._budget = draw, rollbacks

    @property
    def is_greedy(self) -> bool:
        """True when the row goes where most is left, False when the place is drawn."""
        return self._draw is None

    @property
    def rollbacks_are_spent(self) -> bool:
        """True when guards and dead ends may not send the row back any more."""
        return self.rollbacks >= self._budget

    def spend_rollback(self, why: DeadEnd) -> None:
        """Counts one rollback of guards or dead ends.

        Raises:
            DeadEnd: there are none left; `why` says what was wanted.
        """
        if self.rollbacks_are_spent:
            spent = f"rollbacks={self._budget} are spent: Limits(rollbacks=...) allows more"
            raise why.with_message(f"{why.message}; {spent}") from why
        self.rollbacks += 1

    @property
    def is_empty(self) -> bool:
        """True when nothing was refused."""
        return not self._root.children

    def add(self, tokens: Sequence[int], entries: Sequence[Entry | None], chances: Sequence[float | None]) -> None:
        """Adds a refused text.

        Args:
            entries: where each token was measured, for when it is said again.
            chances: the probability of each token among those that were allowed and untried; None where the model was
                not asked.
        """
        node = self._root
        for token, entry, chance in zip(tokens, entries, chances, strict=True):
            child = node.children.get(token)
            if child is None:
                child = node.children[token] = TriedNode(entry)
                share = 1.0 if chance is None else min(max(chance, 0.0), 1.0)
                node.chances[token] = share * node.left
                node.left = 0.0 if chance is None else max(node.left * (1 - share), LEAST)
            node = child
        node.left = 0.0

    def prune(self, tokens: Sequence[int]) -> None:
        """Removes all places behind a text that was tried."""
        path = self._path(tokens)
        if path is not None:
            node = path[-1][1]
            node.left = 0.0
            node.children.clear()
            node.chances.clear()

    def tried(self, tokens: Sequence[int]) -> list[int]:
        """The tokens that were tried behind a text."""
        path = None if self.is_empty else self._path(tokens)
        return [] if path is None else list(path[-1][1].children)

    def places(self, refusal: Refusal) -> Iterator[RetryPlace]:
        """The places behind the tokens that stay, those nearest to the end of the text first.

        Whoever finds that nothing is allowed at a place closes it before the next one is asked for.
        """
        count = self.refused_values.total()
        spread = refusal.pointer is not None and self.is_greedy and count > STUBBORN and count % 2
        for number, depth in enumerate(refusal.depths):
            self._exhausted += number == 1
            while (place := self._next(refusal.tokens[:depth], turn=count // 2 if spread else None)) is not None:
                yield place

    def depths(self, nearest: int) -> list[int]:
        """How many tokens stay: the nearest first, then fewer, in steps that grow as often as nothing was left there.

        Where only going back far helps, small steps would say the same in a hundred other words first.
        """
        step = 1 << min(self._exhausted // PATIENCE, 16)
        return [*range(nearest, 0, -step), 0] if nearest >= 0 else []

    def _next(self, tokens: Sequence[int], turn: int | None) -> RetryPlace | None:
        """The next place behind these tokens; with a turn, one of the spread ones."""
        path = self._path(tokens)
        places = [] if path is None else list(self._open(path))
        if not places:
            return None
        if turn is not None:
            return _spread([place for _, place in places], turn)
        if self._draw is None:
            return max(places, key=lambda each: each[0])[1]
        logs = np.array([log for log, _ in places])
        shares = np.cumsum(np.exp(logs - logs.max()))
        return places[int(np.searchsorted(shares, self._draw() * shares[-1], side="right"))][1]

    def _open(self, path: Path) -> Iterator[tuple[float, RetryPlace]]:
        """The places behind a path where probability is left, each with the logarithm of that probability."""
        waiting = [(path, 0.0)]
        while waiting:
            path, log = waiting.pop()
            node = path[-1][1]
            if node.left > 0:
                yield log + math.log(node.left), RetryPlace(path[1:], node)
            for token, child in node.children.items():
                waiting.append(((*path, (token, child)), log + math.log(max(node.chances[token], LEAST))))

    def _path(self, tokens: Sequence[int]) -> Path | None:
        """The root and the nodes behind each token; None where the text was not tried."""
        path = [(-1, self._root)]
        for token in tokens:
            node = path[-1][1].children.get(token)
            if node is None:
                return None
            path.append((token, node))
        return tuple(path)


def _spread(places: Sequence[RetryPlace], turn: int) -> RetryPlace:
    """Every second turn the first of the places, else one of them in turn; the token there is drawn."""
    pair, other = divmod(turn, 2)
    index = int(_halton(pair, 3) * len(places)) if other else 0
    place = sorted(places, key=lambda each: len(each.path))[index]
    return RetryPlace(place.path, place.node, _halton(pair, 2))


def _halton(number: int, base: int) -> float:
    """The digits of a number behind the point, in reverse: in [0, 1)."""
    result, unit = 0.0, 1.0
    while number:
        number, digit = divmod(number, base)
        unit /= base
        result += digit * unit
    return result


def exhausted(why: DeadEnd) -> DeadEnd:
    """The error of a row that has tried every text it could say instead of a refused one."""
    error = why.with_message(f"{why.message}; every other way ends like this, too")
    error.__cause__ = why
    return error
