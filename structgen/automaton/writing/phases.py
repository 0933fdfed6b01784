"""The kernel that writes the states of an object between its members.

A *phase* of an object is its first declared member that may still come (see `values.objects`). A document comes through
most phases of its objects, so several are written at once.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate
from struct import Struct

from structgen.automaton.machine import Automaton
from structgen.automaton.step import write_edge, write_plain_row, write_row
from structgen.automaton.table_format import DEAD, GAP, GOTO, INC, RANGES, ROOM, UNBOUNDED, Machine
from structgen.automaton.writing.literals import LITERAL_WORDS, insert, put_literal, work_space
from structgen.automaton.writing.strings import NAME, PLACES, copy_block
from structgen.kernels import Record, inner_kernel, kernel, number, view_int32

AT_ONCE, AT_ONCE_BYTES = 16, 512
"""The number of phases that are written at once, and the bytes of names in them, by an estimate."""
LIVING, REQUIRED = 1, 2
"""Flags of a declared member: its schema has a value; the object needs it."""
_BLANKS = (0x20, 0x0A, 0x0D, 0x09)
_OF_PHASE = 20
"""A phase has fewer further states and edges than this, besides those of its literals and of the free name."""


class _Head(Record):
    """What the scratch space begins with. The spellings follow: for each, in sorted order, int32 its end in the joined
    text; for each, in sorted order, int32 its member; for each member, in the schema's order, int32 its flags; the
    joined text; `before`; and `last`.

    `state` is the state of the first phase. Those of the next phases follow it, as the states do that `others` begins:
    the state after an other name, 0 if none may come. `members` is the state after the name of member 0. `behind` is
    the number of bytes after the quote of a spelling. `bound` is the longest run of free white space. `gap` is 1 if
    white space and the opening quote come after `before`; else `before` ends with the quote.
    """

    state, phase, phases, members, others, close = number(), number(), number(), number(), number(), number()
    before, last, gap, bound = number(), number(), number(), number()
    count, size, behind = number(), number(), number()
    free_states, free_count, free_edges, free_n_edges = number(), number(), number(), number()


_ENDS = 34
"""The int32 words of `_Head`."""
_NUMBERS = Struct("17q")
assert 2 * _Head.SIZE == _ENDS


class MemberNames:
    """The names of the declared members of an object, for the states between its members.

    Args:
        spellings: for each member what is read after the opening quote.
        behind: the number of bytes after its closing quote.
        flags: for each member LIVING, REQUIRED, both or none.
    """

    __slots__ = ("_at_once", "_behind", "_flags", "_order", "_text", "count")

    def __init__(self, spellings: Sequence[bytes], behind: int, flags: Sequence[int]) -> None:
        order = sorted(range(len(spellings)), key=spellings.__getitem__)
        names = [spellings[i] for i in order]
        self._order = array("i", [*accumulate(map(len, names)), *order]).tobytes()
        self._text, self._flags, self._behind, self.count = b"".join(names), flags, behind, len(order)
        optional = 1 + self.count - sum(each >= REQUIRED for each in flags)
        self._at_once = min(AT_ONCE, 1 + AT_ONCE_BYTES * (self.count + 1) // (1 + len(self._text) * optional))

    def write(
        self,
        automaton: Automaton,
        state: int,
        phase: int,
        *,
        came: int | None,
        before: bytes,
        last: bytes,
        members: int,
        others: int,
        close: int,
        bound: int,
        alone: bool,
    ) -> None:
        """Writes the state of a phase; and the next ones, which follow it, unless it stands alone.

        Args:
            came: in any order, the members that came, as bits: the others may come, whatever is required.
            before: the bytes before the opening quote of a name.
            last: the bytes to the end of the object.
            members: the state after the name of the first member; those of the next members follow it.
            others: the state after an other name, in this phase; those of the next phases follow it. 0 if none may
                come.
            close: the state after `last`.
            bound: the longest run of free white space; 0 for none.
        """
        tables, phases, limit = automaton.tables, 1, 1 if alone else min(self._at_once, self.count + 1 - phase)
        while phases < limit and tables.is_stub(state + phases):
            phases += 1
        gap = bool(bound and before)
        before = before if gap else before + b'"'
        free, size = PLACES[NAME, False] if others else (0, 0, 0, 0), len(self._text)
        flags = self._flags
        if came is not None:
            flags = [0 if came >> i & 1 else each & LIVING for i, each in enumerate(flags)]
        head = _NUMBERS.pack(
            state, phase, phases, members, others, close,
            len(before), len(last), gap, bound, self.count, size, self._behind, *free,
        )  # fmt: skip
        data = b"".join((head, self._order, array("i", flags).tobytes(), self._text, before, last))
        rows = (len(data) + 3) // 4
        tables.scratch(4 * rows + work_space(self.count + 2))[: len(data)] = data
        room = size + len(before) + len(last) + _OF_PHASE
        taken = tables.take(phases * (room + free[1]), phases * (room + free[3]))
        tables.n_states, tables.n_edges = write_phases(tables.base, rows, *taken)


@inner_kernel
def _write_gap(machine: Machine, state: int, target: int, bound: int, n_edges: int) -> int:
    """Write the state that reads at most `bound` characters of white space. Return the new count of edges."""
    write_row(machine, state, RANGES | GAP << 4, n_edges, len(_BLANKS), GOTO, target, 0, bound)
    for byte in _BLANKS:
        write_edge(machine, n_edges, byte, state | INC | ROOM)
        n_edges += 1
    return n_edges


@inner_kernel
def _write_between(
    machine: Machine, state: int, name: int, close: int, rows: int, n_states: int, n_edges: int
) -> tuple[int, int]:
    """Write the state of a phase, with white space where that is free. Return the new counts of states and edges.

    Args:
        name: the state after the opening quote of a name; 0 if none may come.
        close: the state after the closing brace; 0 if it may not come.
    """
    head, scratch, row = _Head(machine.scratch), view_int32(machine.scratch), rows
    text = machine.scratch + 4 * (_ENDS + 3 * head.count)
    if head.bound != 0:
        n_edges = _write_gap(machine, state, n_states, head.bound, n_edges)
        state = n_states
        n_states += 1
    if name != 0:
        if head.gap != 0:
            write_plain_row(machine, n_states, n_edges, 1, UNBOUNDED)
            write_edge(machine, n_edges, 0x22, name)
            name = n_states + 1
            n_edges = _write_gap(machine, name, n_states, head.bound, n_edges + 1)
            n_states += 2
        row = put_literal(scratch, row, head.size, head.size + head.before, name)
    if close != 0:
        start = head.size + head.before
        row = put_literal(scratch, row, start, start + head.last, close)
    return insert(machine, text, rows, (row - rows) // LITERAL_WORDS, state, 0, 0, n_states, n_edges)


@kernel
def write_phases(machine: Machine, rows: int, n_states: int, n_edges: int) -> tuple[int, int]:
    """Write phases, as the scratch space says (see `_Head`). Return the new counts of states and edges.

    The plain loop: for each phase, a trie of `before` with the spelling of each member that may come, or with any other
    name; and of `last`. Of the members, those up to the next required one may come. An other name or the end may come
    where no required member is left, and an other name is no name of a member.

    Args:
        rows: the place in the scratch space, in int32, from which on `insert` works.
    """
    head, scratch = _Head(machine.scratch), view_int32(machine.scratch)
    count, members, flags = head.count, _ENDS + head.count, _ENDS + 2 * head.count
    text = machine.scratch + 4 * (_ENDS + 3 * count)
    for step in range(head.phases):
        phase = head.phase + step
        owed = phase
        while owed < count and scratch[flags + owed] < REQUIRED:
            owed += 1
        other = 0
        if head.others != 0 and owed == count:
            other = n_states
            copy_block(
                machine, head.free_states, head.free_count, head.free_edges, head.free_n_edges, other, n_edges,
                head.others + step, 0, UNBOUNDED,
            )  # fmt: skip
            n_states += head.free_count
            n_edges += head.free_n_edges
        row, start = rows, 0
        for i in range(count):
            end, member = scratch[_ENDS + i], scratch[members + i]
            if phase <= member and member <= owed and scratch[flags + member] & LIVING:
                row = put_literal(scratch, row, start, end, head.members + member)
            elif other != 0:  # the name of a member that may not come is no other name, either
                row = put_literal(scratch, row, start, end - head.behind, DEAD)
            start = end
        name = other
        if row > rows:
            name = n_states
            n_states, n_edges = insert(
                machine, text, rows, (row - rows) // LITERAL_WORDS, name, other, other, n_states + 1, n_edges
            )
        close = head.close if owed == count else 0
        n_states, n_edges = _write_between(machine, head.state + step, name, close, rows, n_states, n_edges)
    return n_states, n_edges
