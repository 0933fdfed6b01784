"""The tables of a byte automaton: growable integer arrays, and the record that points at them (`Machine`).

Ctrl-C, a signal or a full memory may raise an exception at any call in Python, and walks must find the tables whole
afterwards. So whatever a walk can see is written in one step that no exception can divide: a row by one `pack_into` or
one kernel, an array together with its address by `_publish`. What nothing refers to yet may stay half-written.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from structgen.automaton.table_format import (
    CALL, EAGER, HI, KIND, LONGEST_LITERAL, MAX_FRAMES, MAX_STATES, MISS, NOTHING, PLAIN, POP, RANGES, STACK_DEPTH,
    START, STUB, TARGET, TEST, UNBOUNDED, A, Edge, Int64, Machine, WrittenRows,
)  # fmt: skip
from structgen.automaton.hash_tables import hang, move_returns, put, slot
from structgen.errors import LimitExceeded
from structgen.memory import Memory

_ADDRESS = {
    "states": Machine.states, "edges": Machine.edges, "frames": Machine.frames, "buckets": Machine.buckets,
    "returns": Machine.returns, "blocks": Machine.blocks, "depths": Machine.depths, "exits": Machine.exits,
}  # fmt: skip
_CAPACITY = {"frames": Machine.max_frames, "buckets": Machine.n_buckets, "returns": Machine.n_returns}
_FIRST_STATES, _FIRST_EDGES, _FIRST_FRAMES, _FIRST_RETURNS, _FIRST_BLOCKS = 1472, 3584, 64, 256, 8
_SIZES = (
    32 * _FIRST_STATES, 8 * _FIRST_EDGES, 32 * _FIRST_FRAMES, 8 * _FIRST_FRAMES, 16 * _FIRST_RETURNS,
    24 * _FIRST_BLOCKS, 9216, 8 * Machine.SIZE, 32 * STACK_DEPTH, 8192,
)  # fmt: skip
"""The bytes of the parts of the arena: the arrays with which `Machine` begins, `Machine` itself, the stack, and the
scratch space."""
_STARTS = [sum(_SIZES[:i]) for i in range(len(_SIZES) + 1)]
_MACHINE, _STACK, _SCRATCH = _STARTS[7:10]
_ZEROS = bytes(_STACK - _STARTS[2])
"""Zeros for the parts that are read before they are written: from frames to `Machine`. The row of a state is cleared
when the state is made."""

LARGEST_STEP = 16 << 20
"""Arrays are doubled when they grow, by at most this number of bytes."""

_Number = TypeVar("_Number", bound=np.generic)
_STUB = bytes(32)
_ROW = struct.Struct("8i")
_FIRST_NUMBERS = struct.Struct("11q")
_FIRST_ROWS = struct.pack("16i", *[0] * 8, RANGES, 0, 0, NOTHING, 0, 0, 0, UNBOUNDED)
"""The rows of state 0, which stands for a refused byte, and of `DONE`."""


_ARENAS = 8
"""The number of arenas that are allocated at once: to allocate one, and to ask for its address, takes a twentieth of
the time before a schema's first mask."""
_unused_arenas: list[tuple[memoryview, int]] = []


def _new_arena() -> tuple[memoryview, int]:
    """An arena and its address. Threads may call this without a lock."""
    try:
        return _unused_arenas.pop()
    except IndexError:
        size = _STARTS[-1]
        block: npt.NDArray[np.uint8] = np.empty(_ARENAS * size, np.uint8)
        data, address = block.data, int(block.ctypes.data)
        _unused_arenas.extend([(data[at : at + size], address + at) for at in range(size, _ARENAS * size, size)])
        return data[:size], address


def _array(index: int, dtype: type[_Number], columns: int = 0) -> cached_property[npt.NDArray[_Number]]:
    """An array of a table: a view of its part of the arena, made when it is first asked for.

    Args:
        index: its place in `Machine`.
        columns: 0 for an array of one dimension.
    """

    def view(tables: Tables) -> npt.NDArray[_Number]:
        part = np.frombuffer(tables._arena[_STARTS[index] : _STARTS[index + 1]], dtype)
        return part.reshape(-1, columns) if columns else part

    return cached_property(view)


class Tables:
    """The arrays of one automaton, and the only code that writes them from Python. `memory` counts their bytes."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        # A table is made for every schema: all its arrays lie in one arena until one must grow, and numpy's views of
        # them are made when they are asked for.
        data, address = _new_arena()
        self._arena = data
        data[_STARTS[2] : _STACK] = _ZEROS
        sizes = _FIRST_FRAMES, 1, 2 * _FIRST_FRAMES, _FIRST_RETURNS
        _FIRST_NUMBERS.pack_into(data, _MACHINE, *[address + start for start in _STARTS[:7]], *sizes)
        data[: len(_FIRST_ROWS)] = _FIRST_ROWS
        self.base = cast(Machine, address + _MACHINE)  # as kernels take it: by its address
        self.machine = data[_MACHINE:_STACK].cast("q")
        self.machine[Machine.scratch], self.machine[Machine.stack] = address + _SCRATCH, address + _STACK
        self._scratch = data[_SCRATCH:]
        self._state_bytes = data[: _STARTS[1]]
        self._edge_bytes = data[_STARTS[1] : _STARTS[2]]
        self._return_words = data[_STARTS[Machine.returns] : _STARTS[Machine.returns + 1]].cast("q")
        self._room_states, self._room_edges = _FIRST_STATES, _FIRST_EDGES
        self.counts_items = self.spills = False
        self.n_states, self.n_edges, self.n_returns, self.n_blocks, self.n_depths, self.n_exits = 2, 0, 0, 0, 0, 1

    def rows(self) -> WrittenRows:
        """All rows that are written. They must lead only to written rows."""
        blocks, depths = self.blocks[: self.n_blocks].tobytes(), self.depths[: self.n_depths].tobytes()
        states, edges = self._state_bytes[: 32 * self.n_states], self._edge_bytes[: 8 * self.n_edges]
        return WrittenRows(states.tobytes(), edges.tobytes(), blocks, depths)

    def begin_with(self, rows: WrittenRows) -> None:
        """Begin with the rows of other tables. They must fit into the arena, and no row may have been written yet."""
        for index, part in zip((Machine.states, Machine.edges, Machine.blocks, Machine.depths), rows, strict=True):
            start = _STARTS[index]
            assert len(part) <= _SIZES[index]
            self._arena[start : start + len(part)] = part
        self.n_states, self.n_edges = len(rows.states) // 32, len(rows.edges) // 8
        self.n_blocks, self.n_depths = len(rows.blocks) // 24, len(rows.depths)

    states = _array(Machine.states, np.int32, 8)
    """int32[., 8]: see `table_format`."""
    edges = _array(Machine.edges, np.int32, 2)
    """int32[., 2]: span, target and flags."""
    frames = _array(Machine.frames, np.int64, 4)
    """int64[., 4]: return, parent, counter, the frame that masks take for it (0: unknown; `masks.alike`)."""
    buckets = _array(Machine.buckets, np.int32)
    """int32[.]: frames by their hash."""
    returns = _array(Machine.returns, np.int64, 2)
    """int64[., 2]: `return << 24 | outcome` (0: a free slot) and the state it leads to, by the hash of both."""
    blocks = _array(Machine.blocks, np.int32, 6)
    """int32[., 6]: see `block`."""
    depths = _array(Machine.depths, np.uint8)
    """uint8[.]: the alive-depths of all blocks."""

    @cached_property
    def exits(self) -> Int64:
        """int64[., 2]: for each state of a block with free text, the characters that lead away, and its home (see
        `text_loops.write_exits`)."""
        return np.zeros((0, 2), np.int64)

    def is_stub(self, state: int) -> bool:
        """Is the state still to be expanded?"""
        return self._state_bytes[32 * state] & 15 == STUB

    def _grow(self, name: str, need: int) -> None:
        """Replace an array by one with at least `need` rows."""
        self._replace(**{name: self._grown(getattr(self, name), need)})

    def _replace(self, **arrays: npt.NDArray[Any]) -> None:
        """Replace arrays, with the addresses, views and sizes that depend on them."""
        numbers = {_ADDRESS[name]: int(array.ctypes.data) for name, array in arrays.items()}
        numbers |= {_CAPACITY[name]: len(array) for name, array in arrays.items() if name in _CAPACITY}
        attributes: dict[str, Any] = dict(arrays)
        for name, array in arrays.items():
            if name == "states":
                attributes |= {"_state_bytes": array.data.cast("B"), "_room_states": len(array)}
            elif name == "edges":
                attributes |= {"_edge_bytes": array.data.cast("B"), "_room_edges": len(array)}
            elif name == "returns":
                attributes["_return_words"] = array.data.cast("B").cast("q")
        self._publish(numbers, attributes)

    def _publish(self, numbers: dict[int, int], attributes: dict[str, Any]) -> None:
        """Set numbers of `Machine` and attributes in one step: `deque` runs the loop, and within one call of C no
        signal is handled."""
        kernels_see = map(self.machine.__setitem__, numbers.keys(), numbers.values())
        python_sees = map(partial(setattr, self), attributes.keys(), attributes.values())
        deque(chain(kernels_see, python_sees), maxlen=0)

    def reserve(self, states: int = 0, edges: int = 0) -> None:
        """Make room for this number of new rows."""
        if self.n_states + states > MAX_STATES:
            raise LimitExceeded(f"the automaton needs more than {MAX_STATES:,} states; simplify the schema")
        if self.n_states + states > self._room_states:
            self._grow("states", self.n_states + states)
        if self.n_edges + edges > self._room_edges:
            self._grow("edges", self.n_edges + edges)

    def take(self, states: int, edges: int) -> tuple[int, int]:
        """Set rows aside for a kernel, which returns the first state and edge that it did not need.

        Nothing else is written there, even where an exception comes between the kernel and the new counts. Returns the
        first state and the first edge.
        """
        self.reserve(states, edges)
        first = self.n_states, self.n_edges
        self.n_states, self.n_edges = first[0] + states, first[1] + edges
        return first

    def stub(self, count: int = 1) -> int:
        """The first of `count` new states, to be expanded when a walk meets them."""
        if self.n_states + count > self._room_states:
            self.reserve(states=count)
        first = self.n_states
        self.n_states = first + count
        self._state_bytes[32 * first : 32 * self.n_states] = _STUB if count == 1 else bytes(32 * count)
        return first

    def scratch(self, size: int) -> memoryview:
        """uint8[`size` or more], at `Machine.scratch`: where a kernel finds what it is to write."""
        if size > len(self._scratch):
            space: npt.NDArray[np.uint8] = np.empty(2 * size, np.uint8)
            self._publish({Machine.scratch: int(space.ctypes.data)}, {"_scratch": space.data})
        return self._scratch

    def _write(self, state: int, *row: int) -> None:
        _ROW.pack_into(self._state_bytes, state * 32, *row)

    def ranges(
        self,
        state: int,
        edges: Sequence[Edge],
        *,
        miss: tuple[int, int, int] = (NOTHING, 0, 0),
        mode: int = PLAIN,
        aux: int = 0,
        lo: int = 0,
        hi: int = UNBOUNDED,
    ) -> int:
        """Expand `state`: edges `(first byte, last byte, target | flags)`, and what a miss does. Returns `state`."""
        count, start = len(edges), self.n_edges
        if count:
            if start + count > self._room_edges:
                self.reserve(edges=count)
            flat = [x for low, high, target in edges for x in (low | high << 8, target)]
            struct.pack_into(f"{2 * count}i", self._edge_bytes, start * 8, *flat)
            self.n_edges = start + count
        self._write(state, RANGES | mode << 4 | aux << 8, start, count, *miss, lo, hi)
        return state

    def chain(self, text: bytes, after: int) -> int:
        """Writes a state for each byte of a text. The last one leads to `after`. Returns the first, or `after` if the
        text is empty."""
        count, start = len(text), self.n_edges
        if start + count > self._room_edges:
            self.reserve(edges=count)
        first = self.stub(count) if count else after
        targets = (*range(first + 1, first + count), after)
        flat = [x for byte, target in zip(text, targets, strict=False) for x in (byte | byte << 8, target)]
        struct.pack_into(f"{2 * count}i", self._edge_bytes, start * 8, *flat)
        self.n_edges = start + count
        rows = [x for edge in range(start, start + count) for x in (RANGES, edge, 1, NOTHING, 0, 0, 0, UNBOUNDED)]
        struct.pack_into(f"{8 * count}i", self._state_bytes, 32 * first, *rows)
        return first

    def row(self, state: int) -> tuple[int, ...]:
        """The eight numbers of a state."""
        return _ROW.unpack_from(self._state_bytes, 32 * state)

    def copy_row(self, source: int, target: int) -> None:
        """Write the row of one state to another, which then has the same edges and the same miss."""
        self._state_bytes[32 * target : 32 * target + 32] = self._state_bytes[32 * source : 32 * source + 32]

    def edges_of(self, state: int) -> list[Edge]:
        """The edges of an expanded state."""
        start, count = struct.unpack_from("2i", self._state_bytes, 32 * state + 4 * START)
        flat = struct.unpack_from(f"{2 * count}i", self._edge_bytes, 8 * start)
        return [(span & 255, span >> 8, target) for span, target in zip(flat[::2], flat[1::2], strict=True)]

    def literal(self, state: int) -> tuple[bytes, int]:
        """The bytes from a state on of which each is the only one that may come and counts nothing, at most
        `LONGEST_LITERAL`; and the state after them."""
        text, row = bytearray(), self.row(state)
        while row[: A + 1] == (RANGES, row[START], 1, NOTHING, 0) and len(text) < LONGEST_LITERAL:
            span, target = struct.unpack_from("2i", self._edge_bytes, 8 * row[START])
            if span & 255 != span >> 8 or not 0 < target <= TARGET:
                break
            text.append(span & 255)
            state, row = target, self.row(target)
        return bytes(text), state

    def call(self, callee: int, ret: int, state: int = 0) -> int:
        """Expand `state`, or a new one: it enters `callee` on arrival and comes back to `ret` (negative: see
        `Automaton.returns`). Returns the state."""
        state = state or self.stub()
        self._write(state, RANGES, 0, 0, CALL | EAGER, callee, ret, 0, UNBOUNDED)
        return state

    def bound(self, state: int, mode: int, lo: int, hi: int) -> None:
        """Give a written state a mode and bounds of the counter."""
        _, start, count, miss, a, b, _, _ = self.row(state)
        self._write(state, RANGES | mode << 4, start, count, miss, a, b, lo, hi)

    def pop(self, outcome: int) -> int:
        """A state that leaves its frame on arrival, with this outcome."""
        return self.ranges(self.stub(), (), miss=(POP | EAGER, outcome, 0))

    def pops(self, count: int) -> int:
        """The first of `count` states that leave their frame on arrival, with the outcomes 0 to `count` - 1."""
        first = self.stub(count)
        rows = self.states[first : first + count]
        rows[:, [KIND, MISS, HI]] = RANGES, POP | EAGER, UNBOUNDED
        rows[:, A] = np.arange(count)
        return first

    def test(self, yes: int, no: int) -> int:
        """A state that asks a test on arrival. The answer leads to `yes` or to `no` (0: refused)."""
        return self.ranges(self.stub(), (), miss=(TEST, yes, no))

    def met_tests(self) -> list[int]:
        """The test states that the last walk for a mask has met, the last one first."""
        met, state = [], self.machine[Machine.met]
        while state:
            met.append(state)
            state = self.row(state)[HI]
        return met

    def open_end(self) -> int:
        """The state that any bytes may follow, for `OPEN`."""
        if not self.machine[Machine.open_state]:
            state = self.stub()
            self.machine[Machine.open_state] = self.ranges(state, [(0, 255, state)])
        return self.machine[Machine.open_state]

    def returned(self, ret: int, outcome: int) -> int | None:
        """The state to which return `-ret` leads for this outcome; None while it is not known."""
        index = 2 * slot(self._return_words, ret << 24 | outcome)
        return self._return_words[index + 1] if self._return_words[index] else None

    def set_return(self, ret: int, outcome: int, state: int) -> None:
        """Sets the state to which return `-ret` leads for this outcome of the callee."""
        if 2 * self.n_returns >= self.machine[Machine.n_returns]:
            self._memory.spend(self.returns.nbytes)
            grown: Int64 = np.zeros((2 * len(self.returns), 2), np.int64)
            move_returns(self.returns, grown)
            self._replace(returns=grown)
        self.n_returns += 1  # first: a count that is too high does no harm
        put(self._return_words, ret << 24 | outcome, state)

    def block(self, first: int, depths: npt.NDArray[np.uint8], slack: int, exits: Int64 | None = None) -> int:
        """Register a lifted `CharDfa`: states from `first`, alive-depths uint8[classes, states]. Returns its number.

        Args:
            slack: where characters are counted, the most characters that a state needs to reach an end; else 0.
            exits: int64[states, 2], see `text_loops.write_exits`; None if no state is free text.
        """
        need = self.n_depths + depths.size
        if need > len(self.depths):
            self._grow("depths", need)
        if self.n_blocks == len(self.blocks):
            self._grow("blocks", self.n_blocks + 1)
        self.depths[self.n_depths : need] = depths.ravel()
        exits_at = 0 if exits is None else self._add_exits(exits)
        self.blocks[self.n_blocks] = (first, depths.shape[1], self.n_depths, depths.shape[0], slack, exits_at)
        self.n_depths = need
        self.n_blocks += 1
        return self.n_blocks - 1

    def _add_exits(self, exits: Int64) -> int:
        """Write exits after those that are there. Return the place of the first, which is never 0."""
        first, self.n_exits = self.n_exits, self.n_exits + len(exits)
        if self.n_exits > len(self.exits):
            self._grow("exits", self.n_exits)
        self.exits[first : self.n_exits] = exits
        return first

    def grow_frames(self) -> None:
        """Make room for twice as many frames. Frames keep their numbers."""
        size = 2 * len(self.frames)
        if size > MAX_FRAMES:
            raise LimitExceeded(f"the automaton holds more than {MAX_FRAMES:,} frames; compile the grammar again")
        frames, buckets = self._grown(self.frames, size), np.zeros(2 * size, np.int32)
        self._memory.spend(self.buckets.nbytes)
        hang(frames, self.machine[Machine.n_frames], buckets)
        self._replace(frames=frames, buckets=buckets)

    def _grown(self, array: npt.NDArray[Any], need: int) -> npt.NDArray[Any]:
        """A copy of an array with at least `need` rows."""
        row, count = array.itemsize * (array.shape[1] if array.ndim > 1 else 1), len(array)
        size = max(need, count + min(count, LARGEST_STEP // row))
        self._memory.spend(row * (size - count))
        grown = np.zeros((size, *array.shape[1:]), array.dtype)
        grown[:count] = array
        return grown

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays."""
        arrays: Iterable[npt.NDArray[np.generic]] = (
            self.states, self.edges, self.frames, self.buckets, self.returns, self.blocks, self.depths, self.exits,
        )  # fmt: skip
        return sum(array.nbytes for array in arrays)
