"""The rollback policy: the tree of what a row has tried, and where to go on from when a text was refused.

A text is refused because nothing fits behind it (a dead end), because a guard vetoes it, or because a validator refuses
the value that it ends with. In each case what is refused is that text, a path of tokens, and no more: forbidding its
first token would lose good texts that begin alike; forbidding only its last would make of *150* a *1500*. So the tree
knows at each of its nodes how much of the model's probability has not been tried: a node's children are refused texts
or lead to some, and what is left of the node is for all others. Going on from a node without its children is a text
that was never said; and each text that was not said is behind exactly one node. So nothing comes twice, nothing is
lost, and of finitely many texts the last one is found.

Where to go on is drawn by what is left, which gives each text its probability given that it is none of the refused
ones (Shi, Bieber and Sutton, *Incremental Sampling Without Replacement for Sequence Models*, 2020), as far as the
model's probabilities are those that it is sampled by. A greedy row goes where most is left. That alone would try the
same places with tokens of one kind again and again where a model is sure of a value and sees no other: so when
`STUBBORN` values were refused, it goes elsewhere every second time, to the first place of the value or another in turn,
and draws the token there, both by the numbers of Halton (1960), which are spread as evenly as can be.

The policy is a generator, `Tries.ways`: it gives places, nearest first, and whoever runs the row goes there. Where
nothing is allowed there after all it closes the place and takes the next. It knows nothing of forwards, caches or
batches, so it is the same in every loop.
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
"""Values that validators refuse before a greedy row goes elsewhere every second time."""

LEAST = 1e-9
"""What is left where the model sees hardly anything else: others may still be allowed."""


@dataclass(eq=False, slots=True)
class TriedNode:
    """A text that was begun.

    Attributes:
        left: of the probability here, what leads to none of the children.
        children: by token.
        chances: of each child.
        entry: what the caller keeps of the token that leads here.
    """

    entry: Entry | None = None
    left: float = 1.0
    children: dict[int, TriedNode] = field(default_factory=dict)
    chances: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RetryPlace:
    """Somewhere to go on from.

    Attributes:
        path: the nodes before it, each with the token that leads there; the first tokens of the text come first.
        node: in the tree.
        uniform: draws the next token of a greedy row; None takes the likeliest.
    """

    path: tuple[tuple[int, TriedNode], ...]
    node: TriedNode
    uniform: float | None = None

    @property
    def tokens(self) -> list[int]:
        """All tokens before it."""
        return [token for token, _ in self.path]

    @property
    def entries(self) -> list[Entry | None]:
        """What the caller kept of each token."""
        return [node.entry for _, node in self.path]

    def close(self) -> None:
        """Nothing else is allowed here."""
        self.node.left = 0.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """A text that must not be said.

    Attributes:
        tokens: of the text; the last one completed what is refused, or nothing fits behind it.
        depths: so many of them stay, or, where nothing else is left behind those, so many, and so on.
        reason: for the trace.
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


class Tries:
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
    def rollbacks_are_spent(self) -> bool:
        """True when guards and dead ends may not send the row back any more."""
        return self.rollbacks >= self._budget

    def spend_rollback(self, why: DeadEnd) -> None:
        """Counts one rollback of guards or dead ends.

        Raises:
            DeadEnd: there are none left; `why` says what was wanted.
        """
        if self.rollbacks_are_spent:
            raise DeadEnd(f"{why}; rollbacks={self._budget} are spent: Limits(rollbacks=...) allows more") from why
        self.rollbacks += 1

    @property
    def is_greedy(self) -> bool:
        """Does the row go where most is left, and not where a number is drawn?"""
        return self._draw is None

    @property
    def any(self) -> bool:
        """Was anything refused?"""
        return bool(self._root.children)

    def refuse(self, tokens: Sequence[int], entries: Sequence[Entry | None], chances: Sequence[float | None]) -> None:
        """Adds a text.

        Args:
            tokens: of the text.
            entries: kept of each token, for when it is said again.
            chances: of each token among what was allowed there, what was tried left out; None where the model was not
                asked.
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
        """Nothing behind a text that was tried is gone on from any more."""
        path = self._path(tokens)
        if path is not None:
            node = path[-1][1]
            node.left = 0.0
            node.children.clear()
            node.chances.clear()

    def tried(self, tokens: Sequence[int]) -> list[int]:
        """The tokens that were tried behind a text."""
        path = self._path(tokens) if self._root.children else None
        return [] if path is None else list(path[-1][1].children)

    def ways(self, refusal: Refusal) -> Iterator[RetryPlace]:
        """Where to go on: places behind the tokens that stay, of those nearest to the end of the text first.

        Whoever finds that nothing is allowed at a place closes it before the next one is asked for.
        """
        count = self.refused_values.total()
        spread = refusal.pointer is not None and self._draw is None and count > STUBBORN and count % 2
        for at, depth in enumerate(refusal.depths):
            self._exhausted += at == 1
            while (place := self._next(refusal.tokens[:depth], turn=count // 2 if spread else None)) is not None:
                yield place

    def depths(self, nearest: int) -> list[int]:
        """How many tokens stay: the nearest first, then fewer, in steps that grow as often as nothing was left there.

        Where only going back far helps, small steps would say the same in a hundred other words first.
        """
        step = 1 << min(self._exhausted // PATIENCE, 16)
        return [*range(nearest, 0, -step), 0] if nearest >= 0 else []

    def _next(self, begun: Sequence[int], turn: int | None) -> RetryPlace | None:
        """Behind these tokens, from the text that was said last or an earlier one; with a turn, anywhere."""
        path = self._path(begun)
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

    def _open(self, path: tuple[tuple[int, TriedNode], ...]) -> Iterator[tuple[float, RetryPlace]]:
        """The places behind a path where something is left, each with the logarithm of what that is."""
        waiting = [(path, 0.0)]
        while waiting:
            path, reached = waiting.pop()
            node = path[-1][1]
            if node.left > 0:
                yield reached + math.log(node.left), RetryPlace(path[1:], node)
            for token, child in node.children.items():
                waiting.append(((*path, (token, child)), reached + math.log(max(node.chances[token], LEAST))))

    def _path(self, tokens: Sequence[int]) -> tuple[tuple[int, TriedNode], ...] | None:
        """The root and the nodes behind each token; None where that was not tried."""
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
    at = int(_halton(pair, 3) * len(places)) if other else 0
    place = sorted(places, key=lambda each: len(each.path))[at]
    return RetryPlace(place.path, place.node, _halton(pair, 2))


def _halton(number: int, base: int) -> float:
    """The digits of a number behind the point, in reverse: in [0, 1)."""
    found, unit = 0.0, 1.0
    while number:
        number, digit = divmod(number, base)
        unit /= base
        found += digit * unit
    return found


def exhausted(why: str, cause: DeadEnd | None = None) -> DeadEnd:
    """The error of a row that has tried every text it could say instead of a refused one."""
    error = DeadEnd(f"{why}; every other way ends like this, too")
    error.__cause__ = cause
    return error
