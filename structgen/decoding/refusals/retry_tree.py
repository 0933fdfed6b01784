"""The retry policy: a tree of the texts that a row has tried, and the places where it retries after a refusal.

A text is refused because nothing fits after it (a dead end), because a guard vetoes it, or because a validator refuses
its last value. Exactly that path of tokens is forbidden from then on. Forbidding its first token would lose good texts
that begin alike; forbidding only its last token would turn *150* into *1500*. So each node of the tree stores how much
of the model's probability is untried there: the children are refused texts or lead to some, and the rest belongs to
all other texts. Going on from a node with a token that is none of its children gives a text that is new, and each new
text comes after exactly one node. So no text comes twice, none is lost, and a finite set of texts is searched whole.

A row that samples draws the place by the untried probability. This gives each text its probability given that it is
none of the refused ones, as far as the row samples by the model's probabilities (Shi, Bieber and Sutton, *Incremental
Sampling Without Replacement for Sequence Models*, 2020). A greedy row goes where most is untried.

`RetryTree.places` generates the places, nearest first. Whoever runs the row goes there, closes the place if nothing is
allowed there, and takes the next. The policy knows no forward passes, caches or batches: it is the same in every loop.

Single tokens that a rule has refused before the model read them are kept here, too, by the text before them: a row that
comes to the same text again does not try them again. They were no texts, so the tree's probabilities do not know them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from structgen.decoding.choosing.measure import Entry
from structgen.errors import DeadEnd, StructgenError

PATIENCE = 16
"""Texts after which no place was left before the steps back grow."""

LEAST = 1e-9
"""The untried probability if the model sees hardly any other token: other tokens may still be allowed."""


@dataclass(eq=False, slots=True)
class TriedNode:
    """A text that was started."""

    entry: Entry | None = None  # where the node's token was measured
    left: float = 1.0  # the untried probability: that of the next tokens that are no children
    children: dict[int, TriedNode] = field(default_factory=dict)  # by token
    chances: dict[int, float] = field(default_factory=dict)  # the probability of each child


Path = tuple[tuple[int, TriedNode], ...]
"""The nodes of a text, each with the token that leads to it."""


@dataclass(frozen=True, slots=True)
class RetryPlace:
    """A node from which a row can continue."""

    path: Path  # of the text before the place
    node: TriedNode  # the path's last node

    @property
    def tokens(self) -> list[int]:
        """The tokens of the path."""
        return [token for token, _ in self.path]

    def close(self) -> None:
        """Nothing else is allowed here."""
        self.node.left = 0.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """A text that must not be said.

    Attributes:
        tokens: of the text, up to the one that completed the offence or after which nothing fits.
        depths: how many of the tokens to keep: the first number that leaves another text counts.
        error: makes the error to raise if no other text is left.
        pointer: of the JSON value that a validator refuses; None for any other reason.
        instead: texts to continue from before any other place is tried, as tokens.
        idle: the indexes of the tokens whose change cannot help.
    """

    tokens: tuple[int, ...]
    depths: Sequence[int]
    reason: str
    error: Callable[[], StructgenError]
    pointer: str | None = None
    instead: Sequence[Sequence[int]] = ()
    idle: Collection[int] = ()


class RetryTree:
    """The refused texts of one row, or of all hypotheses of a beam search.

    Args:
        draw: gives a random number in [0, 1); None for a greedy row.
        rollbacks: how often guards and dead ends may send the row back.

    Attributes:
        rollbacks: how often they did.
        refused_values: the number of values that validators have refused, by JSON pointer.
        refuses: was anything ever refused, a text or a single token?
    """

    def __init__(self, draw: Callable[[], float] | None = None, rollbacks: int = 0) -> None:
        self.rollbacks, self.refuses = 0, False
        self.refused_values: Counter[str] = Counter()
        self._root = TriedNode()
        self._refused: dict[tuple[int, ...], dict[str, Any]] = {}  # by the tokens before and the rule
        self._exhausted = 0
        self._draw, self._budget = draw, rollbacks

    @property
    def rollbacks_are_spent(self) -> bool:
        """True if guards and dead ends may not send the row back any more."""
        return self.rollbacks >= self._budget

    def spend_rollback(self, why: DeadEnd) -> None:
        """Counts one rollback of a guard or a dead end.

        Raises:
            DeadEnd: `why`, if none is left.
        """
        if self.rollbacks_are_spent:
            spent = f"rollbacks={self._budget} are spent: Limits(rollbacks=...) allows more"
            raise why.with_message(f"{why.message}; {spent}") from why
        self.rollbacks += 1

    def refuses_after(self, tokens: Sequence[int]) -> bool:
        """May a token be refused next to a text?"""
        return bool(self._root.children) or (bool(self._refused) and tuple(tokens) in self._refused)

    def refused(self, tokens: Sequence[int], option: str) -> Any | None:
        """What a rule has noted of the tokens that it refuses next to a text; None if it has refused none.

        Args:
            option: the rule's.
        """
        notes = self._refused.get(tuple(tokens)) if self._refused else None
        return None if notes is None else notes.get(option)

    def refuse(self, tokens: Sequence[int], option: str, note: Any) -> None:
        """Sets what a rule has noted of the tokens that it refuses next to a text."""
        self._refused.setdefault(tuple(tokens), {})[option], self.refuses = note, True

    def refused_along(self, tokens: Sequence[int], option: str) -> Iterator[tuple[int, Any]]:
        """What a rule has noted at each place of a text, with the number of tokens before the place, in order."""
        for before, notes in sorted(self._refused.items(), key=lambda each: len(each[0])):
            if option in notes and tuple(tokens[: len(before)]) == before:
                yield len(before), notes[option]

    def add(self, tokens: Sequence[int], entries: Sequence[Entry | None], chances: Sequence[float | None]) -> None:
        """Adds a refused text.

        Args:
            entries: where each token was measured.
            chances: the probability of each token among the allowed, untried ones; None if the model was not asked.
        """
        node, self.refuses = self._root, True
        for token, entry, chance in zip(tokens, entries, chances, strict=True):
            child = node.children.get(token)
            if child is None:
                child = node.children[token] = TriedNode(entry)
                share = 1.0 if chance is None else min(max(chance, 0.0), 1.0)
                node.chances[token] = share * node.left
                node.left = 0.0 if chance is None else max(node.left * (1 - share), LEAST)
            node = child
        node.left = 0.0

    def tried(self, tokens: Sequence[int]) -> list[int]:
        """The tokens that were tried next to a text."""
        path = self._path(tokens) if self._root.children else None
        return [] if path is None else list(path[-1][1].children)

    def places(self, refusal: Refusal) -> Iterator[RetryPlace]:
        """The places after the tokens to keep, those nearest to the end of the text first.

        The caller closes a place where nothing is allowed before it asks for the next.
        """
        for tokens in refusal.instead:
            if (begun := self._begun(tokens)) is not None:
                yield begun
        for number, depth in enumerate(refusal.depths):
            self._exhausted += number == 1
            while (place := self._next(refusal.tokens[:depth])) is not None:
                yield place

    def _begun(self, tokens: Sequence[int]) -> RetryPlace | None:
        """The place after a text that is given, not chosen by the model; None if it was tried."""
        node, is_new, path = self._root, False, list[tuple[int, TriedNode]]()
        self.refuses = True
        for token in tokens:
            child = node.children.get(token)
            if child is None:
                is_new, child = True, TriedNode()
                node.children[token], node.chances[token] = child, node.left / 2
                node.left /= 2
            path.append((token, child))
            node = child
        return RetryPlace(tuple(path), node) if is_new else None

    def depths(self, nearest: int) -> list[int]:
        """How many tokens of a refused text to keep: `nearest`, then fewer, in steps that grow with experience.

        If only going back far helps, small steps would try a hundred other spellings first.
        """
        step = 1 << min(self._exhausted // PATIENCE, 16)
        return [*range(nearest, 0, -step), 0] if nearest >= 0 else []

    def _next(self, tokens: Sequence[int]) -> RetryPlace | None:
        """The next place after these tokens: the most likely, or a drawn one."""
        path = self._path(tokens)
        places = [] if path is None else list(self._open(path))
        if not places:
            return None
        if self._draw is None:
            return max(places, key=lambda each: each[0])[1]
        logs = np.array([log for log, _ in places])
        shares = np.cumsum(np.exp(logs - logs.max()))
        return places[int(np.searchsorted(shares, self._draw() * shares[-1], side="right"))][1]

    def _open(self, path: Path) -> Iterator[tuple[float, RetryPlace]]:
        """The places after a path with untried probability, each with its logarithm."""
        waiting = [(path, 0.0)]
        while waiting:
            path, log = waiting.pop()
            node = path[-1][1]
            if node.left > 0:
                yield log + math.log(node.left), RetryPlace(path[1:], node)
            for token, child in node.children.items():
                waiting.append(((*path, (token, child)), log + math.log(max(node.chances[token], LEAST))))

    def _path(self, tokens: Sequence[int]) -> Path | None:
        """The root and the node of each token; None if the text was not tried."""
        path = [(-1, self._root)]
        for token in tokens:
            node = path[-1][1].children.get(token)
            if node is None:
                return None
            path.append((token, node))
        return tuple(path)


def exhausted(why: DeadEnd) -> DeadEnd:
    """The error of a row that has tried every other text."""
    error = why.with_message(f"{why.message}; every other way ends like this, too")
    error.__cause__ = why
    return error
