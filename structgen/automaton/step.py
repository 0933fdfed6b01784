"""One byte: the transition function of the automaton, over plain arrays.

`step` is the only place that gives the tables their meaning (see `tables`). It stops with state -1 when it meets
something that is not there yet (a stub, an empty return, no room for a frame), and says in the registers what it
wants; the caller provides it and asks again. `machine` turns the registers into arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, njit, types
from numba.extending import intrinsic

from structgen.automaton.tables import (
    CALL, COUNT, DONE, EAGER, GOTO, HI, INC, KIND, LO, MISS, NEED, NOTHING, POP, R_ARGUMENT, R_BLOCKS,
    R_BUCKETS, R_CAP_BUCKETS, R_CAP_FRAMES, R_DEPTHS, R_EDGES, R_FRAMES, R_N_FRAMES, R_OUTCOME,
    R_RETURN_STRIDE, R_RETURNS, R_STATES, R_WANT, ROOM, START, STUB, TARGET, UNBOUNDED, WANT_FRAMES,
    WANT_RETURN, WANT_STATE, A, B, hash_frame,
)  # fmt: skip

Registers = Any
_hash_frame = njit(inline="always")(hash_frame)


def _pointer(element: Any) -> Any:
    """An intrinsic that turns an address into a pointer to `element`, for `carray`."""

    @intrinsic  # type: ignore[untyped-decorator]
    def pointer(typing_context: Any, address: Any) -> Any:
        signature = types.CPointer(element)(types.int64)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> ir.Value:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return signature, generate

    return pointer


pointer_int32 = _pointer(types.int32)
pointer_uint8 = _pointer(types.uint8)
pointer_uint16 = _pointer(types.uint16)
pointer_uint32 = _pointer(types.uint32)
_ANY = 1 << 40
"""A length that no index check needs: the arrays' real lengths are the tables' business."""


@njit(inline="always")
def machine(r: Registers) -> Any:
    """The arrays of `Tables` as views: states, edges, frames, buckets, returns."""
    return (
        carray(pointer_int32(r[R_STATES]), (_ANY, 8)),
        carray(pointer_int32(r[R_EDGES]), (_ANY, 2)),
        carray(pointer_int32(r[R_FRAMES]), (_ANY, 4)),
        carray(pointer_int32(r[R_BUCKETS]), (_ANY,)),
        carray(pointer_int32(r[R_RETURNS]), (_ANY,)),
    )


@njit(nogil=True, cache=True)
def push(r: Registers, frames: Any, buckets: Any, ret: int, parent: int, count: int) -> int:
    """The number of the frame `(ret, parent, count)`, interned; -1 when there is no room for a new one."""
    mask = r[R_CAP_BUCKETS] - 1
    slot = _hash_frame(ret, parent, count) & mask
    while buckets[slot] != 0:
        frame = buckets[slot]
        if frames[frame, 0] == ret and frames[frame, 1] == parent and frames[frame, 2] == count:
            return frame
        slot = (slot + 1) & mask
    frame = r[R_N_FRAMES]
    if frame >= r[R_CAP_FRAMES]:
        r[R_WANT] = WANT_FRAMES
        return -1
    frames[frame, 0], frames[frame, 1], frames[frame, 2] = ret, parent, count
    buckets[slot] = frame
    r[R_N_FRAMES] = frame + 1
    return frame


@njit(nogil=True, cache=True)
def leave(r: Registers, frames: Any, returns: Any, frame: int, outcome: int) -> tuple[int, int, int]:
    """Pop `frame`: the position it returns to for that outcome."""
    if frame == 0:
        return DONE, 0, 0
    ret = frames[frame, 0]
    if ret < 0:
        row, stride = -ret, r[R_RETURN_STRIDE]
        ret = returns[row * stride + outcome] if outcome < stride else 0
        if ret == 0:
            r[R_WANT], r[R_ARGUMENT], r[R_OUTCOME] = WANT_RETURN, row, outcome
            return -1, frame, 0
    return ret, frames[frame, 1], frames[frame, 2]


@njit(nogil=True, cache=True)
def settle(
    r: Registers, states: Any, frames: Any, buckets: Any, returns: Any, s: int, f: int, c: int
) -> tuple[int, int, int]:
    """Do what is done on arrival at a state: eager calls and pops."""
    while states[s, MISS] & EAGER:
        if states[s, MISS] == CALL | EAGER:
            inner = push(r, frames, buckets, states[s, B], f, c)
            if inner < 0:
                return -1, f, c
            s, f, c = states[s, A], inner, 0
        else:
            s, f, c = leave(r, frames, returns, f, states[s, A])
            if s < 0:
                return -1, f, c
    return s, f, c


@njit(nogil=True, cache=True)
def edge(states: Any, edges: Any, s: int, byte: int) -> int:
    """The edge of state `s` for a byte: 0 when there is none."""
    start = states[s, START]
    for e in range(start, start + states[s, COUNT]):
        span = edges[e, 0]
        if span & 255 <= byte and byte <= span >> 8:
            return edges[e, 1]
    return 0


@njit(nogil=True, cache=True)
def step(
    r: Registers, states: Any, edges: Any, frames: Any, buckets: Any, returns: Any,
    s: int, f: int, c: int, byte: int,
) -> tuple[int, int, int]:
    """The position after `byte`: state 0 when it is refused, -1 when the registers say what is wanted."""
    while True:
        if states[s, KIND] & 15 == STUB:
            r[R_WANT], r[R_ARGUMENT] = WANT_STATE, s
            return -1, f, c
        t = edge(states, edges, s, byte)
        if t > 0:
            target = t & TARGET
            if t >= INC:
                if (t & ROOM and c >= states[s, HI]) or (t & NEED and c < states[s, LO]):
                    return 0, f, c
                if t & INC:
                    c = c + 1 if states[target, HI] != UNBOUNDED else min(c + 1, states[target, LO])
            return settle(r, states, frames, buckets, returns, target, f, c)
        action = states[s, MISS] & 3
        if t < 0 or action == NOTHING:
            return 0, f, c
        if action == GOTO:
            s, c = states[s, A], 0
        elif action == CALL:
            inner = push(r, frames, buckets, states[s, B], f, c)
            if inner < 0:
                return -1, f, c
            s, f, c = states[s, A], inner, 0
        else:
            s, f, c = leave(r, frames, returns, f, states[s, A])
            if s < 0:
                return -1, f, c


@njit(nogil=True, cache=True)
def may_end(r: Registers, states: Any, frames: Any, returns: Any, s: int, f: int) -> int:
    """1 when the text may end in `(s, f)`, 0 when not, -1 when the registers say what is wanted."""
    while s != DONE:
        if states[s, KIND] & 15 == STUB:
            r[R_WANT], r[R_ARGUMENT] = WANT_STATE, s
            return -1
        if states[s, MISS] & 3 == GOTO:
            s = states[s, A]
        elif states[s, MISS] & 3 == POP:
            s, f, _ = leave(r, frames, returns, f, states[s, A])
            if s < 0:
                return -1
        else:
            return 0
    return 1
