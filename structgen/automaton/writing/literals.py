"""Tries of literals: a whole trie of names is written by one kernel call."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from functools import partial
from itertools import accumulate

import numpy as np

from structgen.automaton.machine import Automaton
from structgen.automaton.step import edge, write_edge, write_row
from structgen.automaton.table_format import (
    GOTO, NEED, NOTHING, OVERLAY, POP, RANGES, TARGET, UNBOUNDED, B, Int32, Machine, merged_edges,
)  # fmt: skip
from structgen.kernels import inner_kernel, kernel, view_int32, view_uint8


LITERAL_WORDS, NODE_WORDS = 3, 5
"""The int32 numbers that a literal takes, and that a node on the stack takes, in the work space of `insert`."""


def write_literals(
    automaton: Automaton, state: int, literals: Iterable[tuple[bytes, int]], *, inner: int = 0, other: int = 0
) -> None:
    """Expand `state` into a trie of `(literal, target)`. No literal may be a prefix of another.

    Column B of each state of the trie is the place of the shortest literal below it among the sorted literals, from 1
    on.

    Args:
        inner: if `other` is inside a free string, the first state of the string's block; else 0.
        other: a state of the same frame, from which a text continues that leaves the trie; 0 if such a text is refused.
            The states through which the literals lead from `other` must have been written.
    """
    pairs = sorted(literals)
    blob = b"".join([literal for literal, _ in pairs])
    tables, count, size = automaton.tables, len(pairs), len(blob)
    ends = accumulate([len(literal) for literal, _ in pairs])
    data = array("i", [*ends, *[target for _, target in pairs]]).tobytes() + blob
    tables.scratch(len(data) + work_space(count))[: len(data)] = data
    tables.n_states, tables.n_edges = insert_literals(
        tables.base, count, len(blob), state, inner, other, *tables.take(size, size)
    )


def write_words(automaton: Automaton, state: int, words: Iterable[bytes], target: int) -> None:
    """Expand `state` into a trie of words that all lead to `target`.

    The way out of each of its states (see `Automaton.way_out`) follows the shortest word below it only."""
    tables, root = automaton.tables, automaton.tables.stub()
    write_literals(automaton, root, [(word, target) for word in words])
    first, last = root + 1, tables.n_states

    def way_out(inside: int) -> int:
        if inside != state and not first <= inside < last:
            return inside
        word = tables.row(inside)[B]
        edges = tables.edges_of(inside)
        kept = [edge for edge in edges if first <= edge[2] < last and tables.row(edge[2])[B] == word]
        return tables.ranges(tables.stub(), kept or [edge for edge in edges if edge[2] == target][:1])

    automaton.shorten(state, lambda: way_out(state))
    automaton.own(first, way_out)
    tables.copy_row(root, state)


BYTES_OF_TEXT = 48
"""Of the Python object of a text, its place in a list and its length, next to its characters."""


class LazyTrie:
    """A trie of texts that is written node by node, as walks reach them: there may be 100,000 texts and more.

    A text ends by leaving the frame, and may be a prefix of others. The way out of each state (see
    `Automaton.way_out`) follows the shortest text below it only.

    Attributes:
        texts: sorted, each once.
        start: the state before them.
    """

    def __init__(self, automaton: Automaton, texts: Iterable[bytes]) -> None:
        self.texts = sorted({*texts})
        self._automaton, self._end = automaton, automaton.tables.ranges(automaton.tables.stub(), (), miss=(POP, 0, 0))
        self._lengths = np.fromiter(map(len, self.texts), np.int32, len(self.texts))
        automaton.memory.spend(int(self._lengths.sum()) + BYTES_OF_TEXT * len(self.texts))
        self.start = self._nodes([0, len(self.texts)], 0)

    @property
    def extends(self) -> frozenset[int]:
        """The bytes with which a complete text may continue."""
        prefixes, following = list[bytes](), set[int]()
        for text in self.texts:
            while prefixes and not text.startswith(prefixes[-1]):
                prefixes.pop()
            if prefixes:
                following.add(text[len(prefixes[-1])])
            prefixes.append(text)
        return frozenset(following)

    def _nodes(self, bounds: list[int], depth: int) -> int:
        """The first of the nodes, of which each has the texts from one bound to the next, with `depth` bytes read."""
        automaton, count = self._automaton, len(bounds) - 1

        def way_out(state: int) -> int:
            if not 0 <= state - first < count:
                return state
            low = bounds[state - first]
            text = self.texts[low + int(self._lengths[low : bounds[state - first + 1]].argmin())]
            if len(text) == depth:
                return self._end
            automaton.expand(state)
            edges = automaton.tables.edges_of(state)
            return automaton.tables.ranges(
                automaton.tables.stub(), [each for each in edges if each[0] <= text[depth] <= each[1]]
            )

        expand = partial(self._write, bounds, depth)
        first = automaton.later_block(count, lambda state: expand(state, state - first), way_out)
        return first

    def _write(self, bounds: list[int], depth: int, state: int, index: int) -> None:
        tables, (low, high) = self._automaton.tables, bounds[index : index + 2]
        if high == low + 1:
            tables.copy_row(tables.chain(self.texts[low][depth:], self._end), state)
            return
        ends = len(self.texts[low]) == depth
        starts = [low + ends]
        while starts[-1] < high:
            prefix = self.texts[starts[-1]][: depth + 1]
            starts.append(bisect_left(self.texts, prefix[:-1] + bytes([prefix[-1] + 1]), starts[-1], high))
        first = self._nodes(starts, depth + 1)
        edges = merged_edges((self.texts[start][depth], first + i) for i, start in enumerate(starts[:-1]))
        tables.ranges(state, edges, miss=(POP, 0, 0) if ends else (NOTHING, 0, 0))


def after_text(automaton: Automaton, state: int, text: bytes) -> int:
    """The state after `text`; 0 if the text is refused. Expands the states on the way.

    No byte of the text may be counted, and none may lead out of the frame."""
    for byte in text:
        automaton.expand(state)
        edges = automaton.tables.edges_of(state)
        state = next((target & TARGET for low, high, target in edges if low <= byte <= high and target > 0), 0)
        if not state:
            break
    return state


def work_space(count: int) -> int:
    """The bytes of scratch space that `insert` needs for `count` literals, and some for alignment."""
    return 4 * (LITERAL_WORDS + NODE_WORDS) * (count + 2)


@inner_kernel
def _push_node(scratch: Int32, top: int, low: int, high: int, depth: int, state: int, other: int) -> int:
    """Put a node on the stack in the scratch space; return the new top. `insert` says what the numbers are."""
    scratch[top], scratch[top + 1], scratch[top + 2] = low, high, depth
    scratch[top + 3], scratch[top + 4] = state, other
    return top + NODE_WORDS


@inner_kernel
def put_literal(scratch: Int32, row: int, start: int, end: int, target: int) -> int:
    """Write a literal to the work space of `insert`; return the place of the next literal."""
    scratch[row], scratch[row + 1], scratch[row + 2] = start, end, target
    return row + LITERAL_WORDS


@inner_kernel
def _shortest_literal(scratch: Int32, low: int, high: int) -> int:
    """The place of the shortest of the literals at the places from `low` to `high`; of several, the first."""
    shortest, length = low, UNBOUNDED
    for row in range(low, high, LITERAL_WORDS):
        each = scratch[row + 1] - scratch[row]
        if each < length:
            shortest, length = row, each
    return shortest


@inner_kernel
def _other_after(machine: Machine, other: int, byte: int) -> int:
    """The state of the other text after a byte, given the state in front of it; 0 if no such text shares the byte."""
    if other == 0:
        return 0
    taken = edge(machine, other, byte)
    # NEED marks the quote that closes the other text: after it, the other text shares nothing with the literals.
    return taken & TARGET if taken > 0 and not taken & NEED else 0


@inner_kernel
def _write_node(machine: Machine, node: int, start: int, end: int, inner: int, other: int, shortest: int) -> None:
    """Write the row of a trie's node, whose edges are `start..end - 1`. Bytes without an edge continue at `other`."""
    kind, action = RANGES, GOTO if other else NOTHING
    if other and inner:  # aux is 1 in the middle of a character: the free string is not in its first state there
        kind = RANGES | OVERLAY << 4 | (other != inner) << 8
    write_row(machine, node, kind, start, end - start, action, other, shortest + 1, UNBOUNDED)


@inner_kernel
def insert(
    machine: Machine, text: int, rows: int, count: int, state: int, inner: int, other: int, n_states: int, n_edges: int
) -> tuple[int, int]:
    """Write the trie of `count` sorted literals below `state`; return the new counts of states and edges.

    The plain loop: for each node, group its literals by their next byte. A group of several literals, or of one literal
    with more bytes to come, is a node in turn. Any other group is one literal, and leads to its target.

    The scratch space holds, from the place `rows` on, three numbers for each literal: where it starts and ends, as
    offsets from the address `text`, and its target. The stack is after them. It holds five numbers for each node
    that is still to be written: the place of the first literal below it, the place after the last one, the length of
    their common prefix, the node's state, and the state of the other text there (0: none).
    """
    scratch, blob = view_int32(machine.scratch), view_uint8(text)
    bottom = rows + LITERAL_WORDS * count
    top = _push_node(scratch, bottom, rows, bottom, 0, state, other)
    while top > bottom:
        # Take a node from the stack.
        top -= NODE_WORDS
        low, end, depth = scratch[top], scratch[top + 1], scratch[top + 2]
        node, fallback, first_edge = scratch[top + 3], scratch[top + 4], n_edges
        shortest = (_shortest_literal(scratch, low, end) - rows) // LITERAL_WORDS
        # An edge for each group of literals with the same next byte.
        while low < end:
            byte = blob[scratch[low] + depth]
            high = low + LITERAL_WORDS
            while high < end and blob[scratch[high] + depth] == byte:
                high += LITERAL_WORDS
            target = scratch[low + 2]
            # Is the literal alone in its group? How many of its bytes come after this one?
            alone, left = high == low + LITERAL_WORDS, scratch[low + 1] - scratch[low] - depth - 1
            if left > 0 or not alone:
                target = n_states
                n_states += 1
                top = _push_node(scratch, top, low, high, depth + 1, target, _other_after(machine, fallback, byte))
            write_edge(machine, n_edges, byte, target)
            n_edges += 1
            low = high
        _write_node(machine, node, first_edge, n_edges, inner, fallback, shortest)
    return n_states, n_edges


@kernel
def insert_literals(
    machine: Machine, count: int, size: int, state: int, inner: int, other: int, n_states: int, n_edges: int
) -> tuple[int, int]:
    """Write the trie of the `count` sorted literals in the scratch space; return the new counts of states and edges.

    The scratch space holds, one after another: for each literal its end in the joined text, for each literal its
    target, and the joined text of all literals, `size` bytes.
    """
    scratch = view_int32(machine.scratch)
    rows = 2 * count + (size + 3) // 4
    row, start = rows, 0
    for i in range(count):
        end = scratch[i]
        row = put_literal(scratch, row, start, end, scratch[count + i])
        start = end
    text = machine.scratch + 8 * count
    return insert(machine, text, rows, count, state, inner, other, n_states, n_edges)
