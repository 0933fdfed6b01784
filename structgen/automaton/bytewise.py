"""Single steps of an automaton from Python: the positions after a byte, and whether the text may end."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from structgen.automaton.checks import Check
from structgen.automaton.machine import Automaton
from structgen.automaton.step import may_end, settle, step
from structgen.automaton.table_format import (
    COUNT_SHIFT, FRAME_MASK, FRAME_SHIFT, TARGET, WANT_ANSWER, A, B, Int64, Machine, position as packed,
)  # fmt: skip
from structgen.kernels import kernel, view_int64, view_uint8

CheckAnswer = Callable[[Check, bool], bool]
"""Answers a check. The second argument tells whether the current byte was read before the check is asked."""


@kernel
def ends_at(machine: Machine, position: int) -> int:
    """1 if the text may end at `position`, 0 if not, -1 if something is wanted (see `step`)."""
    ends: int = may_end(machine, position & TARGET, (position >> FRAME_SHIFT) & FRAME_MASK)
    return ends


@kernel
def after_bytes(machine: Machine, position: int, first: int, last: int, out: int) -> int:
    """Write the position after each of the bytes `first..last` to the address `out`, int64[256]; 0 for a refused byte.

    Returns `last + 1`. If something is wanted (see `step`) at a byte, it returns the byte minus 256, which is negative.
    """
    positions = view_int64(out)
    state, frame, count = position & TARGET, (position >> FRAME_SHIFT) & FRAME_MASK, position >> COUNT_SHIFT
    for byte in range(first, last + 1):
        after, inner, counted = step(machine, state, frame, count, byte)
        if after < 0:
            return byte - 256
        positions[byte] = after | inner << FRAME_SHIFT | counted << COUNT_SHIFT if after > 0 else 0
    return last + 1


@kernel
def after_text(machine: Machine, text: int, first: int, last: int, out: int) -> int:
    """Write the position after `text[i]` to `out[i + 1]`, for each `i` in `first..last - 1`; `out[i]` is known.

    Args:
        text: the address of its bytes.
        out: the address of the positions, int64.

    Returns:
        The number of bytes of the text that are accepted. If something is wanted (see `step`) at the byte after them,
        it is the number minus `last`, which is negative.
    """
    bytes_of, positions = view_uint8(text), view_int64(out)
    for place in range(first, last):
        position = positions[place]
        state, frame, count = position & TARGET, (position >> FRAME_SHIFT) & FRAME_MASK, position >> COUNT_SHIFT
        state, frame, count = step(machine, state, frame, count, bytes_of[place])
        if state < 0:
            return place - last
        if state == 0:
            return place
        positions[place + 1] = state | frame << FRAME_SHIFT | count << COUNT_SHIFT
    return last


@kernel
def settled(machine: Machine, position: int) -> int:
    """The position after a state's eager actions; 0 if one of them refuses, -1 if something is wanted (see `step`)."""
    state, frame, count = position & TARGET, (position >> FRAME_SHIFT) & FRAME_MASK, position >> COUNT_SHIFT
    state, frame, count = settle(machine, state, frame, count)
    if state < 0:
        machine.taken = 0
    after: int = state if state <= 0 else state | frame << FRAME_SHIFT | count << COUNT_SHIFT
    return after


class Bytewise:
    """Walks an automaton one byte at a time.

    Args:
        automaton: the automaton; it expands the stubs that the walk reaches. The caller must hold its lock.
    """

    def __init__(self, automaton: Automaton) -> None:
        self._automaton, self.lock = automaton, automaton.lock
        self._out: Int64 = np.zeros(256, np.int64)
        self._address = int(self._out.ctypes.data)

    def step(self, position: int, byte: int, answer: CheckAnswer) -> int:
        """The position after a byte; 0 if the byte is refused."""
        while True:
            if self._bytes(position, byte, byte):
                return int(self._out[byte])
            taken = bool(self._automaton.tables.machine[Machine.taken])
            position = self._answered(answer, taken=taken)
            if taken or not position:
                return self.settled(position, answer)

    def follow(self, text: bytes, positions: Int64, first: int) -> tuple[int, bool]:
        """Reads `text[first:]` until a byte is refused or a test asks; `positions[first]` is known.

        Returns:
            The number of bytes of the whole text that are accepted, and whether a test stops the walk at the next one.
        """
        automaton, machine = self._automaton, self._automaton.tables.machine
        address, out = np.frombuffer(text, np.uint8).ctypes.data, positions.ctypes.data
        while True:
            taken = after_text(automaton.tables.base, address, first, len(text), out)
            if taken >= 0:
                return int(taken), False
            first = int(taken) + len(text)
            if machine[Machine.want] == WANT_ANSWER:
                return first, True
            automaton.provide()

    def successors(self, position: int, answer: CheckAnswer) -> Int64:
        """int64[256]: the position after each byte; 0 if the byte is refused."""
        first = 0
        targets: Int64 = np.zeros(256, np.int64)
        while first < 256 and not self._bytes(position, first, 255):
            stopped = self._stopped_at
            targets[first:stopped] = self._out[first:stopped]
            targets[stopped] = self.step(position, stopped, answer)
            first = stopped + 1
        targets[first:] = self._out[first:]
        return targets

    def over(self, position: int, answer: CheckAnswer) -> bool:
        """May the text, started at frame 0, end here?"""
        automaton, machine = self._automaton, self._automaton.tables.machine
        while position:
            ends = ends_at(automaton.tables.base, position)
            if ends >= 0:
                return bool(ends)
            if machine[Machine.want] == WANT_ANSWER:
                position = self._answered(answer, taken=False)
            else:
                automaton.provide()
        return False

    def _bytes(self, position: int, first: int, last: int) -> bool:
        """Fills `_out` for the bytes `first..last`; False if a test stops it at the byte `_stopped_at`."""
        automaton, machine = self._automaton, self._automaton.tables.machine
        while True:
            stopped = after_bytes(automaton.tables.base, position, first, last, self._address)
            if stopped >= 0 or machine[Machine.want] == WANT_ANSWER:
                self._stopped_at = stopped + 256
                return bool(stopped >= 0)
            first = stopped + 256
            automaton.provide()

    def _answered(self, answer: CheckAnswer, *, taken: bool) -> int:
        """The state to which the test that has stopped a walk leads; 0 if it refuses."""
        automaton, machine = self._automaton, self._automaton.tables.machine
        test, frame = machine[Machine.argument], machine[Machine.tested_frame]
        holds = answer(automaton.checks[test], taken)
        state = int(automaton.tables.states[test, A if holds else B])
        return packed(state, frame) if state else 0

    def settled(self, position: int, answer: CheckAnswer) -> int:
        """The position after what a state does on arrival; 0 if a check refuses there."""
        automaton, machine = self._automaton, self._automaton.tables.machine
        while position:
            after = int(settled(automaton.tables.base, position))
            if after >= 0:
                return after
            if machine[Machine.want] == WANT_ANSWER:
                position = self._answered(answer, taken=True)
            else:
                automaton.provide()
        return 0
