"""The mass of refused texts by prefix: the knowledge of adaptive rejection sampling, and its draws.

Let p be the model's law over texts, and V the probability that a text is valid. A node is a prefix. Its *alive* share
is the probability that a text goes on from there in a way that is not known to be refused: at first 1. A mask tells at
once which next tokens are refused, a guard or a validator one text at a time. Refused mass is subtracted from every
prefix on the way to the root.

A *try* begins at the root, with the alive share Z, and draws each next token in proportion to its probability times its
node's alive share. Meanwhile it, or another row, may learn that less is alive of the node where it is: `now`
instead of the share `then` at which the node was taken. The try continues with probability now / then, and is given up
otherwise. All shares but the first cancel, so a try ends with the valid text x with probability p(x) / Z, whatever was
known or learned: a text has the law p(x) / V, and a try gives one with probability V / Z. (Adaptive rejection with a
trie: CARS, arXiv 2510.01902.)

A try that *weighs* always goes on instead, and its text has the weight Z times all of these now / then. The text comes
out with probability p(x) / weight. So the weights of all tries with the text x, 0 for a refused one, have the mean
p(x), whatever each try knew: weighted averages of texts converge to averages under p(x) / V. (Adaptive importance
sampling.)

Several rows may draw from one tree at the same time. What one learns is certain, and the others pay for it by the same
rule, so their texts are independent (tested in `tests/decoding/exact`).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from structgen.decoding.choosing.measure import ALTERNATIVES, ChosenToken, measured
from structgen.decoding.choosing.sampling import Columns, Scores
from structgen.decoding.exact.validity import LogValidity, log_validity, log_validity_of_weights
from structgen.masks.words import Words
from structgen.trace.records import Finish

KEPT_BYTES = 256 << 20
"""The most bytes of next-token laws that a tree keeps. The least recently used go first and may be read again."""


class NextTokens:
    """The alive part of the law of the next token after one prefix.

    Args:
        ids: int64[n], ascending.
        chances: float64[n], their probabilities under the model.
        scores: float32[width], the model's logits, if choices are measured.
        words: the mask, uint32[words]; None for every token.
    """

    def __init__(
        self, ids: Columns, chances: NDArray[np.float64], scores: Scores | None = None, words: Words | None = None
    ) -> None:
        self.ids, self.weights = ids.astype(np.int32), chances.astype(np.float32)
        self.scores, self.words = scores, words
        self.nbytes = self.ids.nbytes + self.weights.nbytes + (0 if scores is None else scores.nbytes)
        self._count()

    def _count(self) -> None:
        self.total = self._counted = float(self.weights.sum(dtype=np.float64))

    def chance(self, token: int) -> float:
        """The alive probability of a token."""
        return float(self.weights[self.ids.searchsorted(token)])

    def weigh(self, token: int, chance: float) -> None:
        """Sets the alive probability of a token, if it is among the allowed ones."""
        column = int(self.ids.searchsorted(token))
        if column < len(self.ids) and self.ids[column] == token:
            self.total -= float(self.weights[column])
            self.weights[column] = chance
            self.total += float(self.weights[column])
        if self.total < self._counted / 2:  # differences of close numbers lose digits
            self._count()

    def token_at(self, point: float) -> int:
        """The token at a point in [0, total), where tokens lie side by side, each as wide as its alive probability."""
        ends = self.weights.cumsum(dtype=np.float64)
        column = int(ends.searchsorted(min(point, np.nextafter(ends[-1], 0)), side="right"))
        return int(self.ids[column])

    def measured(self, token: int) -> ChosenToken | None:
        """The model's own measures of a token; None if nothing is measured."""
        return None if self.scores is None else measured(self.scores, self.words, token, traced=True)

    def among_alive(self, token: int, choice: ChosenToken) -> ChosenToken:
        """The measures of a token, with probabilities among what is alive now if there is a mask."""
        if self.words is None or self.total <= 0:
            return choice
        chances = self.weights.astype(np.float64) / self.total
        top = np.argsort(-chances, kind="stable")[:ALTERNATIVES]
        likely = tuple((int(self.ids[i]), float(chances[i])) for i in top if chances[i] > 0)
        possible = chances[chances > 0]
        entropy = max(0.0, -float(possible @ np.log(possible)))
        return replace(choice, chance=self.chance(token) / self.total, entropy=entropy, alternatives=likely)


@dataclass(eq=False, slots=True)
class Prefix:
    """A text that was started."""

    parent: Prefix | None
    token: int  # the last one
    chance: float  # the token's probability after the parent
    children: dict[int, Prefix]
    alive: float = 1.0  # the probability of continuing in a way that is not known to be refused
    law: NextTokens | None = None  # of the next token; None if it is not known, or not kept
    finish: Finish | None = None  # how the text ends here; None if it continues
    choice: ChosenToken | None = None  # the measures of the token

    def tokens(self) -> list[int]:
        return [node.token for node in self.nodes()]

    def nodes(self) -> list[Prefix]:
        """The nodes from behind the root to this one."""
        nodes, node = list[Prefix](), self
        while node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]


class RefusedMass:
    """The tree of one prompt, constraint and set of options, shared by all rows of a call that have these."""

    def __init__(self) -> None:
        self.root = Prefix(None, -1, 1.0, {})
        self._known: OrderedDict[Prefix, None] = OrderedDict()  # nodes with a law, least recently used first
        self._bytes = 0
        self._tries: Counter[float] = Counter()  # of finished rows, by the root's alive share when they began
        self._texts = 0  # the number of these tries that ended with a text
        self._log_weights: list[float] = []  # of these texts, if the tries weigh
        self._validity: LogValidity | None = None

    def draw(self, node: Prefix, point: float) -> int | None:
        """The next token after a node whose law is known; None if the try is given up.

        Args:
            point: a random number in [0, the node's alive share when it was taken).
        """
        assert node.law is not None
        self._known.move_to_end(node)
        return node.law.token_at(point) if point < node.alive else None

    def learn(self, node: Prefix, law: NextTokens) -> None:
        """Sets the law of the next token after a node, and with it the alive share."""
        for token, child in node.children.items():
            law.weigh(token, child.chance * child.alive)
        node.law = law
        self._known[node] = None
        self._bytes += law.nbytes
        while self._bytes > KEPT_BYTES and len(self._known) > 1:
            oldest, _ = self._known.popitem(last=False)
            assert oldest.law is not None
            self._bytes -= oldest.law.nbytes
            oldest.law = None
        _set_alive(node, law.total)

    def begin(self, node: Prefix, token: int) -> Prefix:
        """A new node for a token that the node's law allows."""
        assert node.law is not None
        child = node.children[token] = Prefix(node, token, node.law.chance(token), {})
        child.choice = node.law.measured(token)
        return child

    def refuse(self, node: Prefix) -> None:
        """Notes that no text that begins like this is valid."""
        node.children.clear()
        _set_alive(node, 0.0)

    def choice(self, node: Prefix) -> ChosenToken | None:
        """The measures of a node's token among what is not known to be refused; None if there are none."""
        law = None if node.parent is None else node.parent.law
        return node.choice if node.choice is None or law is None else law.among_alive(node.token, node.choice)

    def row_is_over(self, tries: Counter[float], *, has_text: bool, log_weight: float | None = None) -> None:
        """Counts the tries of a finished row, by the root's alive share when they began, and its text.

        Args:
            log_weight: of the text; None if the tries do not weigh.
        """
        self._tries.update(tries)
        self._texts += has_text
        if log_weight is not None:
            self._log_weights.append(log_weight)
        self._validity = None

    def log_validity(self) -> LogValidity | None:
        """The estimate of the probability that a text is valid; None before there is a text."""
        if self._validity is None and self._log_weights:
            self._validity = log_validity_of_weights(self._log_weights, self._tries.total())
        elif self._validity is None and self._texts:
            self._validity = log_validity(self._tries, self._texts)
        return self._validity


def _set_alive(node: Prefix, alive: float) -> None:
    """Sets the alive share of a node, and lowers that of its ancestors."""
    while True:
        before, node.alive = node.alive, max(alive, 0.0)
        parent = node.parent
        if parent is None or before == node.alive:
            return
        if parent.law is None:
            alive = parent.alive + node.chance * (node.alive - before)
        else:
            parent.law.weigh(node.token, node.chance * node.alive)
            alive = parent.law.total
        node = parent
