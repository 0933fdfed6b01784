"""The mass of refused texts by prefix: what adaptive rejection knows, and how it draws.

Let p be the model's law over texts, and V the probability that a text is valid. A node is a prefix; its *alive* share
is the probability that a text goes on from there in a way that is not known to be refused: 1 before anything is known.
A mask tells at once which next tokens are refused, a guard or a validator one text at a time; what is refused is taken
off every prefix on the way to the root.

A *try* begins at the root, whose alive share is Z then, and takes each next token with the probability of that token
times its node's alive share, by the sum of these. It may learn on its way, or others may, that less is alive of the
node that it stands at: `now` instead of the share `then` that it was taken for. It goes on with probability now / then,
and is given up otherwise. All shares but the first cancel: a try ends with the valid text x with probability p(x) / Z.
So whatever was known when it began and was learned meanwhile, a text that comes out has the law p(x) / V, and it comes
out with probability V / Z. (Adaptive rejection with a trie: CARS, arXiv 2510.01902.)

A try that *weighs* always goes on instead, and its text counts with the weight Z times all of these now / then. It
comes out with probability p(x) / weight, so the weights of all tries that say x, with 0 for one whose text is refused,
have the mean p(x), whatever each try knew: weighted averages of the texts go to the averages of p(x) / V. (Adaptive
importance sampling.)

Several rows may draw from one tree at the same time. What one of them learns is certain, and the others pay for it by
the same rule; so their texts are independent, which `tests/decoding/exact` holds.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from structgen.decoding.choosing.measure import ALTERNATIVES, ChosenToken, measured
from structgen.decoding.choosing.sampling import Columns, Scores
from structgen.decoding.exact.validity import LogValidity, log_validity, log_validity_of_weights
from structgen.decoding.session import Finish
from structgen.masks.words import Words

KEPT_BYTES = 256 << 20
"""Bytes of next-token laws that one tree keeps; those used longest ago go first, and are read again if need be."""


class NextTokens:
    """The law of the next token behind one prefix, as far as it is alive.

    Args:
        ids: int64[n], ascending.
        chances: float64[n], their probabilities under the model.
        scores: float32[width], the model's logits, where choices are measured.
        words: the mask, uint32[words]; None allows every token.
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
        """What is alive of a token."""
        return float(self.weights[self.ids.searchsorted(token)])

    def weigh(self, token: int, chance: float) -> None:
        """So much of a token is alive, if it is among those that were allowed."""
        column = int(self.ids.searchsorted(token))
        if column < len(self.ids) and self.ids[column] == token:
            self.total -= float(self.weights[column])
            self.weights[column] = chance
            self.total += float(self.weights[column])
        if self.total < self._counted / 2:  # the difference of close numbers has few digits
            self._count()

    def token_at(self, point: float) -> int:
        """The token that a point in [0, total) lies in: the tokens lie side by side, each as wide as it is alive."""
        ends = self.weights.cumsum(dtype=np.float64)
        column = int(ends.searchsorted(min(point, np.nextafter(ends[-1], 0)), side="right"))
        return int(self.ids[column])

    def measured(self, token: int) -> ChosenToken | None:
        """The model's own measures of a token; None where nothing is measured."""
        return None if self.scores is None else measured(self.scores, self.words, token, traced=True)

    def among_alive(self, token: int, choice: ChosenToken) -> ChosenToken:
        """The measures of a token with probabilities among what is alive now, where there is a mask."""
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
    """A text that was begun."""

    parent: Prefix | None
    token: int  # that leads here from the parent
    chance: float  # its probability behind the parent
    children: dict[int, Prefix]
    alive: float = 1.0  # the probability of going on in a way that is not known to be refused
    law: NextTokens | None = None  # of the next token; None where it is not known, or not any more
    finish: Finish | None = None  # how the text ends here; None where it does not
    choice: ChosenToken | None = None  # what was measured of the token

    def tokens(self) -> list[int]:
        return [node.token for node in self.nodes()]

    def nodes(self) -> list[Prefix]:
        """The nodes behind the root, down to this one."""
        nodes, node = list[Prefix](), self
        while node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]


class RefusedMass:
    """The tree of one prompt, constraint and set of options; all rows of a call that share these share it."""

    def __init__(self) -> None:
        self.root = Prefix(None, -1, 1.0, {})
        self._known: OrderedDict[Prefix, None] = OrderedDict()  # those with a law, used longest ago first
        self._bytes = 0
        self._tries: Counter[float] = Counter()  # of rows that are over: what was alive when each try began
        self._texts = 0  # how many of them ended with a text
        self._log_weights: list[float] = []  # of those, where they weigh
        self._validity: LogValidity | None = None

    def draw(self, node: Prefix, point: float) -> int | None:
        """The next token behind a node whose law is known, or None: the try is given up.

        Args:
            point: a random number in [0, what was alive of the node when it was taken).
        """
        assert node.law is not None
        self._known.move_to_end(node)
        return node.law.token_at(point) if point < node.alive else None

    def learn(self, node: Prefix, law: NextTokens) -> None:
        """The law of the next token behind a node is known now, and with it how much is alive."""
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
        """The node behind one more token, which its law allows and which is new."""
        assert node.law is not None
        child = node.children[token] = Prefix(node, token, node.law.chance(token), {})
        child.choice = node.law.measured(token)
        return child

    def refuse(self, node: Prefix) -> None:
        """No text that begins like this is valid."""
        node.children.clear()
        _set_alive(node, 0.0)

    def choice(self, node: Prefix) -> ChosenToken | None:
        """The measures of a node's token, as probabilities among what is not known to be refused; None without any."""
        law = None if node.parent is None else node.parent.law
        return node.choice if node.choice is None or law is None else law.among_alive(node.token, node.choice)

    def row_is_over(self, tries: Counter[float], *, has_text: bool, log_weight: float | None = None) -> None:
        """Counts the tries of a row, by what was alive when each began, and its text.

        Args:
            log_weight: of the text; None where the tries do not weigh.
        """
        self._tries.update(tries)
        self._texts += has_text
        if log_weight is not None:
            self._log_weights.append(log_weight)
        self._validity = None

    def log_validity(self) -> LogValidity | None:
        """What is known of the probability that a text is valid; None before there is one."""
        if self._validity is None and self._log_weights:
            self._validity = log_validity_of_weights(self._log_weights, self._tries.total())
        elif self._validity is None and self._texts:
            self._validity = log_validity(self._tries, self._texts)
        return self._validity


def _set_alive(node: Prefix, alive: float) -> None:
    """So much is alive of a node, and less of all before it."""
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
