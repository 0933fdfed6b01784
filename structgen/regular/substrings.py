"""The substrings of a source as a deterministic automaton: the suffix automaton of its characters.

A state stands for the pieces that end at the same places of the source, so there are at most twice as many states as
characters, and three times as many edges (Blumer et al., 1985). It is built online, in one pass. If a quote may begin
and end only at some places, the source has a sign at each of them; an edge for such a sign reads nothing. The states
that no quote comes to are left out then.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from structgen.errors import LimitExceeded
from structgen.kernels import Rows, inner_kernel, kernel
from structgen.regular.chardfa import STATE_LIMIT, CharDfa, tidied
from structgen.regular.quotes import Flags, MissingSource, Quotable, Quotation

Int32 = npt.NDArray[np.int32]
Uint8 = npt.NDArray[np.uint8]

BREAK, BEGIN, END, FIRST_CHARACTER = range(4)
"""Signs: between documents; where a quote may begin; where it may end; the number of the first character."""
SYMBOL, TO, NEXT = range(3)
"""Columns of the edges of a suffix automaton: what is read; the state after it; the next edge of the state."""
ROOT = 1
FAR = 1 << 30
"""More characters than any way to an end has."""


@dataclass(frozen=True, eq=False)
class Substrings:
    """The quotes of a source.

    Attributes:
        characters: the characters of the source, in the order of their numbers, from `FIRST_CHARACTER` on.
        starts: int32[states + 2]: the first edge of each state, in order; state 1 is the start.
        edges: int32[., 2]: a character's number and the state after it, by ascending numbers.
        least: int32[states + 1]: the fewest characters from a state to the end of a quote.
    """

    characters: str
    starts: Int32
    edges: Int32
    least: Int32

    @property
    def empty(self) -> bool:
        """Is nothing to be quoted?"""
        return not len(self.edges)


@lru_cache(8)
def substrings(quotation: Quotation) -> Substrings:
    """The quotes of a source. Characters are numbered in the order of what spells them in JSON."""
    return _substrings(quotation.texts)


def _substrings(texts: Sequence[Quotable]) -> Substrings:
    marked = texts[0].starts is not None if texts else False
    codes = np.frombuffer("".join(each.text for each in texts).encode("utf-32-le"), np.int32)
    different = [chr(code) for code in np.unique(codes).tolist()]
    characters = sorted(different, key=lambda char: json.dumps(char, ensure_ascii=False)[1:-1])
    numbers = np.zeros(int(codes.max(initial=0)) + 1, np.int32)
    numbers[[ord(char) for char in characters]] = np.arange(FIRST_CHARACTER, FIRST_CHARACTER + len(characters))
    parts, done = [], 0
    for each in texts:
        own = numbers[codes[done : done + len(each.text)]]
        done += len(each.text)
        if each.starts is not None and each.ends is not None:
            own = _with_signs(own, each.starts, each.ends)
        parts += [own, np.array([BREAK], np.int32)]
    symbols: Int32 = np.concatenate(parts or [np.zeros(0, np.int32)]).astype(np.int32)
    return Substrings("".join(characters), *_automaton(symbols, FIRST_CHARACTER + len(characters), marked=marked))


def quote_language(quotation: Quotation) -> CharDfa:
    """The quotes of a source, for formats that write them without JSON's quotation marks.

    Raises:
        MissingSource: there is no source. LimitExceeded: the source has more than `STATE_LIMIT` states.
    """
    if quotation.source is None:
        raise MissingSource
    return _language(substrings(quotation))


def pieces_language(chunks: Sequence[str]) -> CharDfa:
    """Any number of neighbouring chunks of a text, which may be none.

    Args:
        chunks: two neighbouring characters tell whether a chunk ends between them, as it is for words.

    Raises:
        LimitExceeded: the text has more than `STATE_LIMIT` states.
    """
    text = "".join(chunks)
    marks = np.zeros(len(text) + 1, np.bool_)
    marks[np.cumsum([0, *map(len, chunks)])] = True
    return _language(_substrings((Quotable("", text, None, marks, marks),)), empty=True)


def _language(own: Substrings, *, empty: bool = False) -> CharDfa:
    """The automaton of substrings. `empty`: is the empty one among them? No edge leads back to the start."""
    count = len(own.least)
    if count > STATE_LIMIT:
        told = f"found a source with {count:,} states; where quotes have no quotation marks,"
        raise LimitExceeded(f"{told} the limit is {STATE_LIMIT:,}, about 35,000 characters")
    ordered = sorted(own.characters)
    bounds = sorted({0, *(code for char in ordered for code in (ord(char), ord(char) + 1))})
    kinds = {ord(char): place for place, char in enumerate(ordered, 1)}
    columns = np.array([kinds[ord(char)] for char in own.characters], np.int32)
    table: Int32 = np.zeros((count, len(ordered) + 1), np.int32)
    states = np.repeat(np.arange(count), np.diff(own.starts))
    table[states, columns[own.edges[:, SYMBOL] - FIRST_CHARACTER]] = own.edges[:, TO]
    classes = np.array([kinds.get(code, 0) for code in bounds], np.int32)
    final = (own.least[1:] == 0).astype(int).tolist()
    final[:1] = [1] if empty else final[:1]
    return tidied(np.array(bounds, np.int32), classes, table, (0, *final))


def _with_signs(own: Int32, starts: Flags, ends: Flags) -> Int32:
    """The numbers of a document's characters with the signs between them; an end comes before a beginning."""
    first, past = np.flatnonzero(starts), np.flatnonzero(ends)
    places = np.concatenate((past, first))
    signs = np.repeat(np.array([END, BEGIN], np.int32), [len(past), len(first)])
    order = np.argsort(places, kind="stable")
    return np.insert(own, places[order], signs[order])


def _automaton(symbols: Int32, width: int, *, marked: bool) -> tuple[Int32, Int32, Int32]:
    """`starts`, `edges` and `least` of `Substrings`, from the numbers of the source's characters."""
    most = 2 * len(symbols) + 2
    length, link, head, numbers = (np.zeros(most, np.int32) for _ in range(4))
    linked: Int32 = np.empty((3 * len(symbols) + 4, 3), np.int32)
    n_states, n_edges = build(symbols, np.zeros(width, np.int32), length, link, head, linked)
    least: Int32 = np.zeros(n_states, np.int32)
    least[ROOT], start = 1, ROOT
    if marked:
        order: Int32 = np.empty(n_states, np.int32)
        least_ends(length, head, linked, np.zeros(len(symbols) + 2, np.int32), order, least)
        begins = [edge for edge in _edges_of(linked, int(head[ROOT])) if linked[edge, SYMBOL] == BEGIN]
        if not begins:
            return np.zeros(3, np.int32), np.zeros((0, 2), np.int32), np.zeros(2, np.int32)
        start = int(linked[begins[0], TO])
    queue: Int32 = np.empty(n_states + 1, np.int32)
    starts: Int32 = np.zeros(n_states + 2, np.int32)
    pending: Int32 = np.empty(4, np.int32)
    room = n_edges
    while True:
        edges: Int32 = np.empty((room, 2), np.int32)
        numbers[:], numbers[start], queue[1] = 0, 1, start
        states, count = flatten(head, linked, least, numbers, queue, pending, starts, edges)
        if count <= room:
            break
        room = count  # several states have signs that lead to one
    starts[states + 1] = count
    return starts[: states + 2], edges[:count], np.append(np.int32(0), least[queue[1 : states + 1]]).astype(np.int32)


def _edges_of(linked: Int32, edge: int) -> list[int]:
    """The edges of a state, from its first on."""
    edges = []
    while edge:
        edges.append(edge)
        edge = int(linked[edge, NEXT])
    return edges


@inner_kernel
def _edge(root: Int32, head: Int32, edges: Rows[Int32], state: int, symbol: int) -> int:
    """The edge of a state for a symbol; 0 if there is none. The root has a table, since it has an edge for each."""
    if state == ROOT:
        found: int = root[symbol]
        return found
    edge: int = head[state]
    while edge != 0 and edges[edge, SYMBOL] != symbol:
        edge = edges[edge, NEXT]
    return edge


@kernel
def build(symbols: Int32, root: Int32, length: Int32, link: Int32, head: Int32, edges: Rows[Int32]) -> tuple[int, int]:
    """Build the suffix automaton of `symbols`; return the number of its states and edges, with those of number 0.

    Args:
        root: int32[different symbols], zeros; becomes the root's edge for each symbol.
        length, link, head: int32[states], zeros; become the length of a state's longest piece, its suffix link, its
            first edge.
        edges: int32[., 3]: see `SYMBOL`; edge 0 is none.
    """
    last, n_states, n_edges = ROOT, ROOT + 1, 1
    for i in range(symbols.size):
        symbol, new = symbols[i], n_states
        n_states += 1
        length[new] = length[last] + 1
        state, edge = last, 0
        while state != 0:  # each suffix of what was read gets an edge for the symbol, until one has it already
            edge = _edge(root, head, edges, state, symbol)
            if edge != 0:
                break
            edges[n_edges, SYMBOL], edges[n_edges, TO], edges[n_edges, NEXT] = symbol, new, head[state]
            head[state] = n_edges
            if state == ROOT:
                root[symbol] = n_edges
            n_edges += 1
            state = link[state]
        if state == 0:
            link[new] = ROOT
        elif length[edges[edge, TO]] == length[state] + 1:
            link[new] = edges[edge, TO]
        else:  # the pieces up to this length now end at one place more: they get a state of their own
            other, clone = edges[edge, TO], n_states
            n_states += 1
            length[clone], link[clone] = length[state] + 1, link[other]
            copied = head[other]
            while copied != 0:
                edges[n_edges, SYMBOL], edges[n_edges, TO] = edges[copied, SYMBOL], edges[copied, TO]
                edges[n_edges, NEXT] = head[clone]
                head[clone] = n_edges
                n_edges += 1
                copied = edges[copied, NEXT]
            while state != 0:
                edge = _edge(root, head, edges, state, symbol)
                if edge == 0 or edges[edge, TO] != other:
                    break
                edges[edge, TO] = clone
                state = link[state]
            link[other] = link[new] = clone
        last = new
    return n_states, n_edges


@kernel
def least_ends(length: Int32, head: Int32, edges: Rows[Int32], counts: Int32, order: Int32, least: Int32) -> None:
    """Fill `least` with the fewest characters from each state to the next sign for an end; `FAR` if there is none.

    Args:
        counts: int32[longest length + 2], zeros: scratch, as is `order`.
    """
    for state in range(1, order.size):
        counts[length[state] + 1] += 1
    for i in range(1, counts.size):
        counts[i] += counts[i - 1]
    for state in range(1, order.size):
        order[counts[length[state]]] = state
        counts[length[state]] += 1
    for i in range(order.size - 2, -1, -1):  # edges lead to longer pieces: those come first
        state = order[i]
        fewest, edge = FAR, head[state]
        while edge != 0:
            symbol, behind = edges[edge, SYMBOL], least[edges[edge, TO]]
            if symbol == END:
                fewest = 0
            elif symbol == BEGIN:
                fewest = min(fewest, behind)
            elif symbol != BREAK and behind < FAR:
                fewest = min(fewest, behind + 1)
            edge = edges[edge, NEXT]
        least[state] = fewest


@kernel
def flatten(
    head: Int32, linked: Rows[Int32], least: Int32, numbers: Int32, queue: Int32, pending: Int32, starts: Int32,
    edges: Rows[Int32],
) -> tuple[int, int]:  # fmt: skip
    """Number the states that a quote comes to, and write their edges; return the number of states and edges.

    Args:
        numbers: int32[states of the suffix automaton]: the number of each state; at first that of the start alone.
        queue: int32: the states in the order of their numbers; at first the start alone, at 1.
        pending: int32[4], scratch.
        edges: int32[., 2]. If it has too few rows, the result tells how many are needed.
    """
    n_states, n_edges, state = 1, 0, 1
    while state <= n_states:
        starts[state] = n_edges
        low, pending[0], waiting = n_edges, queue[state], 1
        while waiting > 0:  # the state, and those to which signs lead from it
            waiting -= 1
            edge = head[pending[waiting]]
            while edge != 0:
                symbol, target = linked[edge, SYMBOL], linked[edge, TO]
                if symbol in (BEGIN, END):
                    pending[waiting], waiting = target, waiting + 1
                elif symbol != BREAK and least[target] < FAR:
                    if numbers[target] == 0:
                        n_states += 1
                        numbers[target], queue[n_states] = n_states, target
                    if n_edges < edges.shape[0]:
                        place = n_edges
                        while place > low and edges[place - 1, SYMBOL] > symbol:
                            edges[place, SYMBOL], edges[place, TO] = edges[place - 1, SYMBOL], edges[place - 1, TO]
                            place -= 1
                        edges[place, SYMBOL], edges[place, TO] = symbol, numbers[target]
                    n_edges += 1
                edge = linked[edge, NEXT]
        state += 1
    return n_states, n_edges
