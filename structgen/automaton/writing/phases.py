"""Kernels that write the states between the members of plain objects, and the states that call the members' values.

A *phase* is a state before a name or the closing brace (see `values.plain_objects`). One call writes several phases.
"""

from __future__ import annotations

from array import array
from itertools import accumulate
from struct import Struct
from typing import NamedTuple

from structgen.automaton.machine import Automaton
from structgen.automaton.step import write_edge, write_plain_row, write_row
from structgen.automaton.table_format import CALL, DEAD, EAGER, GAP, GOTO, INC, RANGES, ROOM, UNBOUNDED, Machine
from structgen.automaton.tables import Tables
from structgen.automaton.writing.literals import LITERAL_WORDS, insert, put_literal, work_space
from structgen.automaton.writing.strings import NAME, PLACES, copy_block
from structgen.kernels import inner_kernel, kernel, view_int32, view_int64, view_uint8

SPACES = (0x20, 0x0A, 0x0D, 0x09)
_HEAD_WORDS = 16
(_STATE, _CLOSE, _OTHER, _FIRST, _BEFORE, _LAST, _COMMA, _CAME, _PHASES, _COUNT, _SIZE, _BEHIND, _F_STATES,
 _F_COUNT, _F_EDGES, _F_N_EDGES) = range(_HEAD_WORDS)  # fmt: skip
"""The int64 numbers at the start of the scratch space of `write_phases`, which says what they are."""
_ASKED, _KEPT = Struct("9q"), Struct("7q")
"""Those numbers that are packed for each call, and those that are packed once for an object."""
_FREE_NAME = PLACES[NAME, False]
_OF_PHASE = 6
"""A phase has at most as many states and edges beside those of its names, of `before` and of `last`, and the edges of
white space."""


class Phases(NamedTuple):
    """Phases to write: one or several, each behind one member more than the phase before, in the members' order.

    Attributes:
        state: the state of the first phase; the states of the next phases follow it.
        before: the bytes between a member and the opening quote of the next name, such as `, `.
        last: the bytes between a member and the end of the object, with the closing brace.
        close: the state behind `last`; 0 if the object may not end.
        members: the declared members that may come, as bits.
        comma: -1 if a member comes before the first phase. Else the number of bytes at the start of `before` that the
            first phase leaves out; of `last` it then takes the closing brace only.
        required: the required members, as bits. No later member, no undeclared name and no end may come before them.
        came: the index of the first member that may still come in the first phase.
        number: the number of phases.
        first: the state behind the spelling of member 0; the states for the next members follow it.
        other: the state behind the closing quote of an undeclared name in the first phase; the states for the next
            phases follow it. 0 if no undeclared name may come.
    """

    state: int
    before: bytes
    last: bytes
    close: int
    members: int
    comma: int = -1
    required: int = 0
    came: int = 0
    number: int = 1
    first: int = 0
    other: int = 0


class MemberNames:
    """The names of an object's declared members, prepared for the kernel that writes phases.

    Args:
        spellings: for each declared member, its name, the closing quote, and `behind` more bytes.
        bound: the longest run of free white space, in bytes; 0 for none.

    Attributes:
        size: the bytes of all spellings.
    """

    __slots__ = ("_bound", "_count", "_data", "_longest", "size")

    def __init__(self, spellings: list[bytes], *, behind: int, bound: int) -> None:
        order = sorted(range(len(spellings)), key=spellings.__getitem__)
        names = b"".join([spellings[i] for i in order])
        ends = accumulate([len(spellings[i]) for i in order])
        head = _KEPT.pack(len(order), len(names), behind, *_FREE_NAME)
        self._data = b"".join((head, array("i", ends).tobytes(), array("i", order).tobytes(), names))
        self._bound, self._count, self.size = bound, len(order), len(names)
        self._longest = max(map(len, spellings), default=0)

    def write(self, automaton: Automaton, phases: Phases) -> None:
        """Write these phases."""
        state, before, last, close, members, comma, required, came, number, first, other = phases
        tables, size = automaton.tables, (self._count + 7) // 8
        asked = _ASKED.pack(state, close, other, first, len(before), len(last), comma, came, number)
        bits = members.to_bytes(size, "little") + required.to_bytes(size, "little")
        data = b"".join((asked, self._data, before, last, bits))
        place = (len(data) + 3) // 4
        tables.scratch(4 * place + work_space(self._count))[: len(data)] = data
        names = self.size if other or members & members - 1 else self._longest  # the latter for one member only
        room = names + _OF_PHASE + len(before) + len(last)
        blocks = _FREE_NAME if other else (0, 0, 0, 0)
        taken = tables.take(number * (room + blocks[1]), number * (room + 2 * len(SPACES) + blocks[3]))
        tables.n_states, tables.n_edges = write_phases(tables.base, place, self._bound, *taken)


def write_calls(
    automaton: Automaton, first: int, callees: list[int], *, ret: int, colon: bytes = b"", bound: int = 0
) -> None:
    """Write states from `first` on. Each takes a colon, and then enters its callee.

    Args:
        ret: the state to which the first call comes back. The second call comes back to the next state, and so on.
        colon: the bytes between the name and the value; empty if they were read with the name.
        bound: the longest run of free white space before and behind the colon, in bytes; 0 for none. If it is not 0,
            `colon` is not used.
    """
    tables, count = automaton.tables, len(callees)
    data = Struct(f"{count}i").pack(*callees) + colon
    tables.scratch(len(data))[: len(data)] = data
    taken = tables.take(count * (len(colon) + 3), count * (len(colon) + 2 * len(SPACES) + 1))
    tables.n_states, tables.n_edges = write_members(tables.base, first, count, ret, len(colon), bound, *taken)


def write_gap(tables: Tables, state: int, miss: tuple[int, int, int], bound: int) -> int:
    """Write a state that takes at most `bound` bytes of free white space; `miss` says what other bytes do.

    `_write_gap` is its twin for kernels.
    """
    return tables.ranges(state, [(byte, byte, state | INC | ROOM) for byte in SPACES], miss=miss, mode=GAP, hi=bound)


@inner_kernel
def _write_gap(machine: Machine, state: int, target: int, bound: int, n_edges: int) -> int:
    """Write a state that takes at most `bound` bytes of free white space; other bytes go on at `target`.

    Returns the new count of edges. `write_gap` is its twin in Python."""
    write_row(machine, state, RANGES | GAP << 4, n_edges, 4, GOTO, target, 0, bound)
    for byte in SPACES:
        write_edge(machine, n_edges, byte, state | INC | ROOM)
        n_edges += 1
    return n_edges


@inner_kernel
def _write_chain(
    machine: Machine, text: int, length: int, target: int, n_states: int, n_edges: int
) -> tuple[int, int, int]:
    """Write a state for each of the `length` bytes at the address `text`. The last one leads to `target`.

    Returns:
        The first of the states (`target` if the text is empty), and the new counts of states and edges.
    """
    blob, first = view_uint8(text), n_states
    for i in range(length):
        write_plain_row(machine, n_states, n_edges, 1, UNBOUNDED)
        write_edge(machine, n_edges, blob[i], n_states + 1 if i + 1 < length else target)
        n_states += 1
        n_edges += 1
    return first if length > 0 else target, n_states, n_edges


@inner_kernel
def _names_at(machine: Machine) -> int:
    """The address of the spellings in the scratch space."""
    start = machine.scratch
    address: int = start + 8 * (_HEAD_WORDS + view_int64(start)[_COUNT])
    return address


@inner_kernel
def _bits_at(machine: Machine) -> int:
    """The address of the members that may come, as bits. The bits of the required members stand behind them."""
    head = view_int64(machine.scratch)
    address: int = _names_at(machine) + head[_SIZE] + head[_BEFORE] + head[_LAST]
    return address


@inner_kernel
def _owed(machine: Machine) -> int:
    """The first required member that has not come; the number of members if there is none."""
    head = view_int64(machine.scratch)
    member: int = head[_CAME]
    count = head[_COUNT]
    bits = view_uint8(_bits_at(machine) + (count + 7) // 8)
    while member < count and not bits[member >> 3] >> (member & 7) & 1:
        member += 1
    return member


@inner_kernel
def _list_names(machine: Machine, place: int) -> int:
    """Write the literals of a phase to the work space, from `place` on. Return their number.

    The plain loop: each member that may come is a literal that leads to its state. If undeclared names may come, the
    name of each other member is a literal that leads to DEAD, so that it cannot come as an undeclared name."""
    head, scratch = view_int64(machine.scratch), view_int32(machine.scratch)
    count, other, row, start = head[_COUNT], head[_OTHER], place, 0
    came, owed, bits = head[_CAME], _owed(machine), view_uint8(_bits_at(machine))
    for i in range(count):
        end, member = scratch[2 * _HEAD_WORDS + i], scratch[2 * _HEAD_WORDS + count + i]
        if came <= member <= owed and bits[member >> 3] >> (member & 7) & 1:
            row = put_literal(scratch, row, start, end, head[_FIRST] + member)
        elif other:
            row = put_literal(scratch, row, start, end - head[_BEHIND], DEAD)
        start = end
    return (row - place) // LITERAL_WORDS


@inner_kernel
def _write_names(machine: Machine, place: int, n_states: int, n_edges: int) -> tuple[int, int, int]:
    """Write the states behind the opening quote of a name.

    Returns:
        The first of them, 0 if no name may come; and the new counts of states and edges.
    """
    head, names, inner = view_int64(machine.scratch), 0, 0
    count, other = _list_names(machine, place), head[_OTHER]
    if other:  # any name, which the trie below leaves for each of the others
        names = inner = n_states
        copy_block(
            machine, head[_F_STATES], head[_F_COUNT], head[_F_EDGES], head[_F_N_EDGES], inner, n_edges, other,
            0, UNBOUNDED,
        )  # fmt: skip
        n_states, n_edges = n_states + head[_F_COUNT], n_edges + head[_F_N_EDGES]
    if count:  # the trie of the declared names; where other names may come, it lies over the free name
        names = n_states
        n_states, n_edges = insert(
            machine, _names_at(machine), place, count, names, inner, inner, n_states + 1, n_edges
        )  # fmt: skip
    return names, n_states, n_edges


@inner_kernel
def _write_before(machine: Machine, names: int, bound: int, comma: int, n_states: int, n_edges: int) -> tuple[int, int]:
    """Write the state of a phase. Return the new counts of states and edges.

    Args:
        names: the state behind the opening quote of a name; 0 if no name may come.
        comma: see `Phases`.
    """
    head = view_int64(machine.scratch)
    state, close, before, text = head[_STATE], head[_CLOSE], head[_BEFORE], _names_at(machine) + head[_SIZE]
    last, n_last = text + before, head[_LAST]
    if comma >= 0:  # no member comes before: there is no comma, and `last` is the brace alone
        text, before, last, n_last = text + comma, before - comma, last + n_last - 1, 1
    node = state
    if bound:  # white space in front of both
        node = n_states
        n_edges = _write_gap(machine, state, node, bound, n_edges)
        n_states += 1
    # The state has two edges at most: for the first byte in front of a name, and for the first byte of `last`. They
    # stand in the order of their bytes.
    edge, first_byte, end = n_edges, view_uint8(text)[0] if before else 0x22, view_uint8(last)[0]
    count = (close != 0) + (names != 0)
    n_edges += count
    if names != 0:
        if before:  # the rest of `before`, white space, and the quote
            quote = n_states
            write_plain_row(machine, quote, n_edges, 1, UNBOUNDED)
            write_edge(machine, n_edges, 0x22, names)
            n_states, n_edges, names = n_states + 1, n_edges + 1, quote
            if bound:
                n_edges = _write_gap(machine, n_states, names, bound, n_edges)
                n_states, names = n_states + 1, n_states
            names, n_states, n_edges = _write_chain(machine, text + 1, before - 1, names, n_states, n_edges)
        write_edge(machine, edge + (close != 0 and end < first_byte), first_byte, names)
    if close != 0:
        after, n_states, n_edges = _write_chain(machine, last + 1, n_last - 1, close, n_states, n_edges)
        write_edge(machine, edge + (names != 0 and first_byte < end), end, after)
    write_plain_row(machine, node, edge, count, UNBOUNDED)
    return n_states, n_edges


@kernel
def write_phases(machine: Machine, place: int, bound: int, n_states: int, n_edges: int) -> tuple[int, int]:
    """Write phases, see `Phases`. Return the new counts of states and edges.

    The plain loop: for each phase, write a trie of `before`, a quote and the spelling of each member that may come; of
    `before`, a quote and any undeclared name; and of `last`. Free white space may stand in front of `before`, behind it
    and in front of `last`.

    The scratch space holds, one behind the other:

    - 16 numbers, int64: from `_STATE` to `_FIRST` the attributes of `Phases` with these names; the number of bytes of
      `before` and of `last`; `comma`, `came` and `number` of `Phases`; the number of members, the bytes of all
      spellings, and the bytes behind each closing quote; the block of free names, as in `PLACES`;
    - int32, for each spelling in sorted order: its end in the joined spellings;
    - int32, for each spelling in sorted order: its member;
    - the bytes of the spellings, of `before` and of `last`;
    - the members that may come, as bits, and the required members, as bits;
    - from `place` on, the work space of `insert`.
    """
    head = view_int64(machine.scratch)
    close, other = head[_CLOSE], head[_OTHER]
    for phase in range(head[_PHASES]):
        # Is no required member missing? Only then may an undeclared name or the end come.
        free = _owed(machine) == head[_COUNT]
        head[_CLOSE] = close if free else 0
        head[_OTHER] = other + phase if free and other else 0
        names, n_states, n_edges = _write_names(machine, place, n_states, n_edges)
        comma = head[_COMMA] if phase == 0 else -1
        n_states, n_edges = _write_before(machine, names, bound, comma, n_states, n_edges)
        head[_STATE] += 1
        head[_CAME] += 1
    return n_states, n_edges


@kernel
def write_members(
    machine: Machine, first: int, count: int, ret: int, colon: int, bound: int, n_states: int, n_edges: int
) -> tuple[int, int]:
    """Write the states behind names, see `write_calls`. Return the new counts of states and edges.

    The scratch space holds the callees, int32, and then the bytes of the colon; `colon` is the number of these bytes.
    """
    scratch, text = view_int32(machine.scratch), machine.scratch + 4 * count
    for i in range(count):
        state = first + i
        call = state  # the state that enters the callee: behind the colon, where one is to be read
        if bound:  # white space, the colon, and white space again
            call = n_states + 2
            n_edges = _write_gap(machine, state, n_states, bound, n_edges)
            write_plain_row(machine, n_states, n_edges, 1, UNBOUNDED)
            write_edge(machine, n_edges, 0x3A, n_states + 1)
            n_edges = _write_gap(machine, n_states + 1, call, bound, n_edges + 1)
            n_states += 3
        elif colon:
            call = n_states
            after, n_states, n_edges = _write_chain(machine, text + 1, colon - 1, call, n_states + 1, n_edges)
            write_plain_row(machine, state, n_edges, 1, UNBOUNDED)
            write_edge(machine, n_edges, view_uint8(text)[0], after)
            n_edges += 1
        action, callee = CALL | EAGER, scratch[i]
        write_row(machine, call, RANGES, n_edges, 0, action, callee, ret + i, UNBOUNDED)
    return n_states, n_edges
