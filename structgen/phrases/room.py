"""Which of all tokens leave room for the phrases: the tokens of the trie are walked at once, one byte at a time.

A token is lost if no text of the grammar that continues after it can have all phrases (see `possible`). That depends on
two things alone: the position of the grammar after the token, and the states of the phrases' tables. Many tokens lead
to few of either. So the nodes of the trie at each depth are looked up in rows of 256 positions and states, and each
pair that occurs is judged once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from structgen.automaton.bytewise import Bytewise
from structgen.automaton.checks import Check
from structgen.automaton.table_format import FRAME_MASK, FRAME_SHIFT
from structgen.errors import RequestError
from structgen.masks import Grammar
from structgen.masks.words import Words, ids_of
from structgen.memo import Numbering, once_per_object
from structgen.patience import check_patience
from structgen.phrases.progress import PhraseSet, Progress
from structgen.phrases.table import NEVER
from structgen.vocabulary import Vocabulary

Int64 = NDArray[np.int64]

DEAD, UNKNOWN = 0, 1
"""Numbers of positions: the byte is refused; or a test decides, which depends on the text."""
MAX_POSITIONS = 4096
"""The most positions whose rows are kept; each takes a kilobyte."""


class PhraseRoom:
    """The room that tokens of a grammar leave for phrases that are looked for in its whole texts."""

    def __init__(self, grammar: Grammar, phrases: PhraseSet) -> None:
        self._grammar, self._phrases, self._tables = grammar, phrases, phrases.tables or []
        self._steps = Bytewise(grammar.automaton)
        self._forget()

    def _forget(self) -> None:
        self._positions = Numbering[int]([0, -1])  # DEAD and UNKNOWN
        self._rows = np.full((64, 256), -1, np.int32)  # by number of a position; -1 in rows that are not known
        self._rows[DEAD], self._rows[UNKNOWN] = DEAD, UNKNOWN

    def lost(self, position: int, state: Progress, allowed: Words) -> tuple[Int64, Int64]:
        """The allowed tokens after which the phrases are impossible; and those of them that begin or end a value."""
        nodes_of, levels = _levels(self._grammar.vocabulary)
        if len(self._positions) > MAX_POSITIONS:
            self._forget()
        with self._grammar.lock:
            where, states = self._walked(position, state, levels)
        ids = ids_of(allowed)
        ids = ids[nodes_of[ids] >= 0]
        nodes = nodes_of[ids]
        code = where[nodes].astype(np.int64)
        tables = [table.next for table in self._tables]
        for table, each in zip(tables, states, strict=True):
            code = code * len(table) + each[nodes]
        codes, index = np.unique(code, return_inverse=True)
        is_lost, leaves = np.zeros((2, len(codes)), np.bool_)
        for number, one in enumerate(codes.tolist()):
            places = []
            for table in reversed(tables):
                one, place = divmod(one, len(table))
                places.append(place)
            text = Progress(tuple(reversed(places)))
            if one in (DEAD, UNKNOWN):
                is_lost[number] = self._phrases.owed(text) >= NEVER
            else:
                after = self._positions.things[one]
                is_lost[number] = not self._phrases.has_room(text, self._grammar, after)
                leaves[number] = (after ^ position) >> FRAME_SHIFT & FRAME_MASK != 0
        index = index.ravel()
        return ids[is_lost[index]], ids[(is_lost & leaves)[index]]

    def _walked(
        self, position: int, state: Progress, levels: list[tuple[Int64, Int64, NDArray[np.uint8]]]
    ) -> tuple[NDArray[np.int32], list[NDArray[np.int32]]]:
        """For each node of the trie, the number of the position and the states of the tables after it."""
        count = sum(len(nodes) for nodes, _, _ in levels) + 1  # the last one is the root
        where = np.zeros(count, np.int32)
        states = [np.zeros(count, np.int32) for _ in state.places]
        settled = self._steps.settled(position, lambda check, taken: True)
        where[-1] = self._positions[settled]
        for each, place in zip(states, state.places, strict=True):
            each[-1] = place
        for nodes, parents, bytes_ in levels:
            before = where[parents]
            self._expand(np.unique(before) if len(before) < 256 else np.flatnonzero(np.bincount(before)))
            where[nodes] = self._rows[before, bytes_]
            for table, each in zip(self._tables, states, strict=True):
                each[nodes] = table.next[each[parents], bytes_]
        return where, states

    def _expand(self, numbers: Int64) -> None:
        """Finds the rows of some positions, which no test decides."""
        for number in numbers[self._rows[numbers, 0] < 0].tolist():
            asked = False

            def answer(check: Check, taken: bool) -> bool:
                nonlocal asked
                asked = True
                return True

            try:
                row = self._steps.successors(self._positions.things[number], answer)
            except RequestError:  # no text can come there: the run would be refused
                check_patience()
                asked = True
            if asked or len(self._positions) > 4 * MAX_POSITIONS:
                self._rows[number] = UNKNOWN
                continue
            self._rows[number] = [self._positions[after] for after in row.tolist()]
            while len(self._positions) > len(self._rows):
                self._rows = np.concatenate([self._rows, np.full_like(self._rows, -1)])


@once_per_object
def _levels(vocabulary: Vocabulary) -> tuple[Int64, list[tuple[Int64, Int64, NDArray[np.uint8]]]]:
    """The node of each token, int64[width], -1 without one; and of each depth the nodes, their parents, and bytes."""
    trie = vocabulary.trie
    nodes_of, nodes = np.full(vocabulary.width, -1, np.int64), np.flatnonzero(trie.token >= 0)
    tokens = trie.token[nodes]
    while len(tokens):
        nodes_of[tokens] = nodes
        nodes, tokens = nodes[trie.twin[tokens] >= 0], trie.twin[tokens][trie.twin[tokens] >= 0]
    levels, above = list[tuple[Int64, Int64, NDArray[np.uint8]]](), np.array([-1])
    for depth in range(1, int(trie.depth.max(initial=0)) + 1):
        nodes = np.flatnonzero(trie.depth == depth)
        levels.append((nodes, above[np.searchsorted(above, nodes) - 1], trie.byte[nodes]))
        above = nodes
    return nodes_of, levels
