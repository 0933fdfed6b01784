"""Which of all tokens leave room for the phrases: the tokens of the trie are walked at once, one byte at a time.

A token is lost if no text of the grammar that continues after it can have all phrases (see `possible`). That depends on
three things alone: the position of the grammar after the token, the states of the tables of phrases that are looked for
in the whole text, and the state of the phrases that are bound to strings. Many tokens lead to few of each. So the nodes
of the trie at each depth are looked up in rows of 256 positions and states, and each combination is judged once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from structgen.automaton.bytewise import Bytewise
from structgen.automaton.checks import Check
from structgen.automaton.table_format import FRAME_MASK, FRAME_SHIFT
from structgen.errors import RequestError
from structgen.json_text.strings import NAME
from structgen.masks import Grammar
from structgen.masks.words import Words, ids_of
from structgen.memo import Numbering, once_per_object
from structgen.patience import check_patience
from structgen.phrases.progress import PhraseSet, Progress
from structgen.phrases.table import NEVER
from structgen.vocabulary import Vocabulary

Int64 = NDArray[np.int64]

DEAD, UNKNOWN = 0, 1
"""Numbers of positions: the byte is refused; or a test decides, which depends on the text. UNKNOWN is also the number
of the states of bound phrases in which only single tokens are judged."""
MAX_POSITIONS = 4096
"""The most positions or states of bound phrases whose rows are kept; each takes a kilobyte."""
MAX_CODE = np.iinfo(np.int64).max
"""The largest code of a combination of a position and states."""


class PhraseRoom:
    """The room that tokens of a grammar leave for phrases."""

    def __init__(self, grammar: Grammar, phrases: PhraseSet) -> None:
        self._grammar, self._phrases, self._tables = grammar, phrases, phrases.tables
        self._steps = Bytewise(grammar.automaton)
        self._forget()

    def _forget(self) -> None:
        self._positions, self._rows = Numbering[int]([0, -1]), _unknown_rows()  # DEAD and UNKNOWN; rows by number
        self._bound, self._bound_rows = Numbering[Progress | int]([0, -1]), _unknown_rows()  # without those of `tables`

    def lost(self, position: int, state: Progress, allowed: Words) -> tuple[Int64, Int64]:
        """The allowed tokens after which the phrases are impossible; and those of them that begin or end a value."""
        nodes_of, levels = _levels(self._grammar.vocabulary)
        if max(len(self._positions), len(self._bound)) > MAX_POSITIONS:
            self._forget()
        with self._grammar.lock:
            where, bound, states = self._walked(position, state, levels)
        ids = ids_of(allowed)
        ids = ids[nodes_of[ids] >= 0]
        nodes = nodes_of[ids]
        code, span = where[nodes].astype(np.int64) * len(self._bound) + bound[nodes], len(self._positions)
        span *= len(self._bound)
        for table, each in zip(self._tables, states, strict=True):
            if span * len(table.next) > MAX_CODE:  # the codes that occur are numbered
                code = np.unique(code, return_inverse=True)[1].ravel()
                span = len(code)
            code, span = code * len(table.next) + each[nodes], span * len(table.next)
        _, first, index = np.unique(code, return_index=True, return_inverse=True)
        is_lost, leaves = np.zeros((2, len(first)), np.bool_)
        for number, node in enumerate(nodes[first].tolist()):
            one = int(where[node])
            places = [int(each[node]) for each in states]
            if one in (DEAD, UNKNOWN):
                is_lost[number] = self._phrases.owed(self._phrases.joined(places, None)) >= NEVER
                continue
            after, known = self._positions.things[one], self._bound.things[bound[node]]
            text = self._phrases.joined(places, known if isinstance(known, Progress) else None)
            is_lost[number] = not self._phrases.has_room(text, self._grammar, after)
            leaves[number] = (after ^ position) >> FRAME_SHIFT & FRAME_MASK != 0
        index = index.ravel()
        return ids[is_lost[index]], ids[(is_lost & leaves)[index]]

    def _walked(
        self, position: int, state: Progress, levels: list[tuple[Int64, Int64, NDArray[np.uint8]]]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], list[NDArray[np.int32]]]:
        """For each node of the trie, the numbers of the position and of the state of bound phrases after it, and the
        states of the tables."""
        count = sum(len(nodes) for nodes, _, _ in levels) + 1  # the last one is the root
        where, bound = np.full((2, count), UNKNOWN, np.int32)
        places, strings = self._phrases.apart(state)
        states = [np.full(count, place, np.int32) for place in places]
        settled = self._steps.settled(position, lambda check, taken: True)
        where[-1], bound[-1] = self._positions[settled], self._bound[strings]
        for nodes, parents, bytes_ in levels:
            before = where[parents]
            self._expand(np.unique(before) if len(before) < 256 else np.flatnonzero(np.bincount(before)))
            where[nodes] = self._rows[before, bytes_]
            for table, each in zip(self._tables, states, strict=True):
                each[nodes] = table.next[each[parents], bytes_]
            if self._phrases.pointers:
                before = np.where(where[nodes] > UNKNOWN, bound[parents], UNKNOWN)
                self._feed(np.unique(before.astype(np.int64) << 8 | bytes_))
                bound[nodes] = self._bound_rows[before, bytes_]
        return where, bound, states

    def _feed(self, pairs: Int64) -> None:
        """Finds where some bytes lead from states of bound phrases; a pair is the number of a state, then the byte.

        In names only single tokens are judged: each name is a state of its own.
        """
        self._bound_rows = _as_long(self._bound_rows, len(self._bound))
        for pair in pairs[self._bound_rows.ravel()[pairs] < 0].tolist():
            before = self._bound.things[pair >> 8]
            assert isinstance(before, Progress), "the rows of DEAD and UNKNOWN are known"
            after = self._phrases.after(before, bytes([pair & 255]))
            is_known = all(scan.mode != NAME for scan in after.scans) and len(self._bound) <= 4 * MAX_POSITIONS
            self._bound_rows[pair >> 8, pair & 255] = self._bound[after] if is_known else UNKNOWN

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
            self._rows = _as_long(self._rows, len(self._positions))


def _unknown_rows() -> NDArray[np.int32]:
    """Rows of 256 numbers of what comes after each byte, -1 where it is not known; those of DEAD and UNKNOWN are."""
    rows = np.full((64, 256), -1, np.int32)
    rows[DEAD], rows[UNKNOWN] = DEAD, UNKNOWN
    return rows


def _as_long(rows: NDArray[np.int32], count: int) -> NDArray[np.int32]:
    """At least `count` rows; those that are added are not known."""
    while count > len(rows):
        rows = np.concatenate([rows, np.full_like(rows, -1)])
    return rows


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
