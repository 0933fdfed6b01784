"""The quotes of a source in the tables of an automaton: as UTF-8, or as they are inside a JSON string.

Inside JSON each character has one spelling, that of `json.dumps(text, ensure_ascii=False)`.
"""

from __future__ import annotations

import numpy as np

from structgen.automaton.machine import Automaton
from structgen.json_text.lexer import spelled
from structgen.automaton.step import write_edge, write_row
from structgen.automaton.table_format import (
    INC, MAX_COUNT, NOTHING, POP, RANGES, ROOM, UNBOUNDED, Int32, Int64, Machine,
)  # fmt: skip
from structgen.kernels import Rows, kernel
from structgen.regular.substrings import FIRST_CHARACTER, SYMBOL, TO, Uint8, substrings
from structgen.regular.quotes import MissingSource, Quotation

STATE, LOW, HIGH, DEPTH = range(4)
"""Columns of the states that are still to be written: the state; its edges; how many bytes were read before it."""
_LONGEST = 6
"""The most bytes of a character: `\\u001f`."""


def write_quotation(
    automaton: Automaton, quotation: Quotation, *, close: int, quoted: bool, maximum: int | None = None
) -> int:
    """Writes the quotes of a source. Returns the first state; 0 if nothing is to be quoted.

    Args:
        close: the state after the closing quote. Not used outside JSON, where the text leaves its frame.
        quoted: inside a JSON string, or plain UTF-8?
        maximum: the longest length in characters.

    Raises:
        MissingSource: the source is not known.
    """
    if quotation.source is None:
        raise MissingSource
    source = substrings(quotation)
    if source.empty or (maximum is not None and maximum < source.least[1]):
        return 0
    texts = [spelled(char) if quoted else char.encode() for char in source.characters]
    sizes = np.array([0] * FIRST_CHARACTER + [len(text) for text in texts], np.int64)
    spellings: Uint8 = np.zeros((len(sizes), _LONGEST), np.uint8)
    padded = b"".join(text.ljust(_LONGEST, b"\0") for text in texts)
    spellings[FIRST_CHARACTER:] = np.frombuffer(padded, np.uint8).reshape(-1, _LONGEST)
    count, tables = len(source.least) - 1, automaton.tables
    middle = int((sizes[source.edges[:, SYMBOL]] - 1).sum())
    first, first_edge = tables.take(count + middle, len(source.edges) + middle + count)
    bounded = -1 if maximum is None else min(maximum, MAX_COUNT)
    settings: Int64 = np.array([first, close if quoted else 0, bounded, first + count, first_edge], np.int64)
    tables.n_states, tables.n_edges = write_quotes(
        tables.base, settings, source.starts, source.edges, source.least, spellings, sizes,
        np.empty((len(sizes) * 2 + 8, 4), np.int64),
    )  # fmt: skip
    automaton.quotations[first] = quotation
    return first


@kernel
def write_quotes(
    machine: Machine, settings: Int64, starts: Int32, flat: Rows[Int32], least: Int32, spellings: Rows[Uint8],
    sizes: Int64, pending: Rows[Int64],
) -> tuple[int, int]:  # fmt: skip
    """Write the states and edges of `Substrings`; return the new counts of states and edges of the tables.

    Args:
        settings: the first state; the state after the closing quote, 0 outside JSON; the longest length, -1 for none;
            the first state for the middle of characters; the first edge.
        spellings, sizes: the bytes of each character, and how many there are.
        pending: int64[., 4], scratch: see `STATE`.
    """
    first, close, maximum, n_states, n_edges = settings[0], settings[1], settings[2], settings[3], settings[4]
    counts, room = INC if maximum >= 0 else 0, ROOM if maximum >= 0 else 0
    for q in range(1, least.size):
        pending[0, STATE], pending[0, DEPTH] = first + q - 1, 0
        pending[0, LOW], pending[0, HIGH] = starts[q], starts[q + 1]
        waiting = 1
        while waiting > 0:  # the state, then those in the middle of its characters
            waiting -= 1
            state, low, high = pending[waiting, STATE], pending[waiting, LOW], pending[waiting, HIGH]
            depth, start = pending[waiting, DEPTH], n_edges
            limit = UNBOUNDED
            if maximum >= 0:
                limit = 0
                if depth == 0:
                    limit = max(limit, maximum - least[q])
                else:  # the greatest limit after it
                    for i in range(low, high):
                        limit = max(limit, maximum - least[flat[i, TO]])
            while low < high:  # edges are searched in order: lower case before everything else of ASCII
                symbol = flat[high - 1, SYMBOL]
                byte, begin = spellings[symbol, depth], high - 1
                if sizes[symbol] == depth + 1:
                    write_edge(machine, n_edges, byte, first + flat[high - 1, TO] - 1 + counts)
                else:
                    while begin > low and spellings[flat[begin - 1, SYMBOL], depth] == byte:
                        begin -= 1
                    write_edge(machine, n_edges, byte, n_states + room)
                    pending[waiting, STATE], pending[waiting, LOW] = n_states, begin
                    pending[waiting, HIGH], pending[waiting, DEPTH] = high, depth + 1
                    n_states, waiting = n_states + 1, waiting + 1
                n_edges, high = n_edges + 1, begin
            ends = depth == 0 and least[q] == 0
            if ends and close > 0:
                write_edge(machine, n_edges, 0x22, close)
                n_edges += 1
            action = POP if ends and close == 0 else NOTHING
            write_row(machine, state, RANGES, start, n_edges - start, action, 0, 0, limit)
    return n_states, n_edges
