"""One byte: the transition function of the automaton.

`step` is the only place that gives the tables their meaning (see `table_format`). If it needs something that is not
there yet (the row of a stub, an unknown return, room for a frame), it stops with state -1 and writes to the registers
what is *wanted*. The caller provides it and calls again.

All integers that pass between kernels are int64, so that each kernel is compiled once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from structgen.automaton.table_format import (
    ACTION, ASK, CALL, COUNT, COUNT_SHIFT, DONE, EAGER, FRAME_MASK, FRAME_SHIFT, GOTO, HI, INC, KIND, LO, MISS,
    NEED, NOTHING, OPEN, RANGES, REFUSE, ROOM, R_ANSWER, R_ARGUMENT, R_BUCKETS, R_CAP_BUCKETS, R_CAP_FRAMES,
    R_CAP_RETURNS, R_EDGES, R_FRAME, R_FRAMES, R_KEPT, R_MET, R_N_FRAMES, R_OPEN, R_OUTCOME, R_PURE, R_RETURNS,
    R_SCRATCH, R_STATES, R_TAKEN, R_WANT, SPILL, START, STEPS_KEPT, STUB, TARGET, UNBOUNDED, WANT_ANSWER,
    WANT_FRAMES, WANT_RETURN, WANT_STATE, ZERO, A, B, hash_frame,
)  # fmt: skip
from structgen.kernels.views import table, view_int64
from structgen.kernels import inner_kernel

Position = tuple[int, int, int]
"""State, frame, counter."""

int64: Any = np.int64
"""In kernels: widens an integer that is read from a table. To the type checker it stays an int."""

registers_at = view_int64
states_at = table(types.int32, 8, R_STATES)
edges_at = table(types.int32, 2, R_EDGES)
scratch_at = table(types.int32, 0, R_SCRATCH)
frames_at = table(types.int64, 4, R_FRAMES)
_buckets_at = table(types.int32, 0, R_BUCKETS)
_returns_at = table(types.int64, 2, R_RETURNS)
_kept_at = table(types.int64, 2, R_KEPT)

_hash_frame = inner_kernel(hash_frame)


@inner_kernel
def write_row(base: int, s: int, kind: int, start: int, count: int, action: int, a: int, b: int, high: int) -> None:
    """Write the row of a state. Its counter has no lower bound."""
    states = states_at(base)
    states[s, START], states[s, COUNT], states[s, KIND] = start, count, kind
    states[s, MISS], states[s, A], states[s, B] = action, a, b
    states[s, LO], states[s, HI] = 0, high


@inner_kernel
def write_plain_row(base: int, s: int, start: int, count: int, high: int) -> None:
    """Write the row of a state that refuses each byte that its edges do not take."""
    write_row(base, s, int64(RANGES), start, count, int64(NOTHING), int64(0), int64(0), high)


@inner_kernel
def write_edge(base: int, e: int, byte: int, target: int) -> None:
    """Write the edge of one byte, to a target with its flags."""
    edges = edges_at(base)
    edges[e, 0], edges[e, 1] = byte | byte << 8, target


@inner_kernel
def mode_of(base: int, s: int) -> int:
    """The mode of a state: PLAIN, FREE, OVERLAY, CHARS, ITEMS or GAP."""
    return (states_at(base)[s, KIND] >> 4) & 15


@inner_kernel
def aux_of(base: int, s: int) -> int:
    """The number that belongs to the mode of a state (see the modes)."""
    return states_at(base)[s, KIND] >> 8


@inner_kernel
def push(base: int, ret: int, parent: int, count: int) -> int:
    """The number of the frame `(ret, parent, count)`, interned; -1 if there is no room for a new one."""
    r = registers_at(base)
    frames = frames_at(base)
    buckets = _buckets_at(base)
    mask = r[R_CAP_BUCKETS] - 1
    slot = _hash_frame(ret, parent, count) & mask
    while buckets[slot] != 0:
        frame = buckets[slot]
        if frames[frame, 0] == ret and frames[frame, 1] == parent and frames[frame, 2] == count:
            return int64(frame)
        slot = (slot + 1) & mask
    frame = r[R_N_FRAMES]
    if frame >= r[R_CAP_FRAMES]:
        r[R_WANT] = WANT_FRAMES
        return -1
    frames[frame, 0], frames[frame, 1], frames[frame, 2] = ret, parent, count
    buckets[slot] = frame
    r[R_N_FRAMES] = frame + 1
    return frame


@inner_kernel
def _returned(base: int, ret: int, outcome: int) -> int:
    """The state to which return `-ret` leads for an outcome; -1 if it is not known yet."""
    returns = _returns_at(base)
    mask = registers_at(base)[R_CAP_RETURNS] - 1
    key = ret << 24 | outcome
    slot = _hash_frame(ret, outcome, int64(0)) & mask
    while returns[slot, 0] != 0:
        if returns[slot, 0] == key:
            return returns[slot, 1]
        slot = (slot + 1) & mask
    return -1


@inner_kernel
def leave(base: int, frame: int, outcome: int) -> Position:
    """Pop `frame`: the position to which it returns for an outcome. Plain twin: a dictionary of (return, outcome)."""
    if frame == 0:
        return DONE, 0, 0
    r = registers_at(base)
    frames = frames_at(base)
    ret = frames[frame, 0]
    if ret < 0:
        state = _returned(base, -ret, outcome)
        if state < 0:
            r[R_WANT], r[R_ARGUMENT], r[R_OUTCOME] = WANT_RETURN, -ret, outcome
            return -1, frame, 0
        ret = state
    return ret, frames[frame, 1], frames[frame, 2]


@inner_kernel
def _answer(base: int, s: int, f: int) -> int:
    """The state to which the test `s` leads, answered as R_ANSWER says; -1 if the caller must answer."""
    r, states = registers_at(base), states_at(base)
    if r[R_ANSWER] == ASK:
        r[R_WANT], r[R_ARGUMENT], r[R_FRAME], r[R_TAKEN] = WANT_ANSWER, s, f, 0
        return -1
    r[R_PURE] = 0
    # The tests that were met form a linked list: LO marks members, HI is the previous member, R_MET the last one.
    if states[s, LO] == 0:
        states[s, LO], states[s, HI] = 1, r[R_MET]
        r[R_MET] = s
    if r[R_ANSWER] == REFUSE:
        return 0
    if r[R_ANSWER] == OPEN and states[s, B] != 0:
        return r[R_OPEN]
    return int64(states[s, A])


@inner_kernel
def forget_tests(base: int) -> None:
    """Empty the list of the tests that were met."""
    r, states = registers_at(base), states_at(base)
    s = r[R_MET]
    while s != 0:
        before = int64(states[s, HI])
        states[s, LO], states[s, HI] = 0, UNBOUNDED
        s = before
    r[R_MET] = 0


@inner_kernel
def settle(base: int, s: int, f: int, c: int) -> Position:
    """The position after the eager actions of a state: calls, pops and tests on arrival."""
    states = states_at(base)
    while states[s, MISS] & EAGER:
        s, f, c = miss(base, s, f, c)
        if s < 0:
            registers_at(base)[R_TAKEN] = 1
            break
    return s, f, c


@inner_kernel
def miss(base: int, s: int, f: int, c: int) -> Position:
    """The position at which to look up a byte that no edge of state `s` takes; state 0 if the byte is refused."""
    states = states_at(base)
    action = states[s, MISS] & ACTION
    if action == NOTHING:
        return 0, f, c
    if action == GOTO:
        return (_answer(base, s, f) if states[s, MISS] & EAGER else int64(states[s, A])), f, 0
    if action == CALL:
        inner = push(base, int64(states[s, B]), f, c)
        return (int64(states[s, A]) if inner >= 0 else -1), inner, 0
    return leave(base, f, int64(states[s, A]))


@inner_kernel
def edge(base: int, s: int, byte: int) -> int:
    """The edge of state `s` for a byte (target and flags); 0 if there is none, DEAD if an edge refuses the byte."""
    states, edges = states_at(base), edges_at(base)
    start = states[s, START]
    target: int = 0
    for e in range(start, start + states[s, COUNT]):
        span = edges[e, 0]
        if span & 255 <= byte and byte <= span >> 8:
            target = int64(edges[e, 1])
            break
    return target


@inner_kernel
def refuses_rest(base: int, s: int) -> bool:
    """Does state `s`, which is written, refuse all bytes that no edge of it takes?"""
    states = states_at(base)
    return states[s, MISS] & ACTION == NOTHING and states[s, KIND] != STUB


@inner_kernel
def unexpanded(base: int, s: int) -> bool:
    """Is the state a stub? Then its row is wanted."""
    stub = states_at(base)[s, KIND] == STUB
    if stub:
        r = registers_at(base)
        r[R_WANT], r[R_ARGUMENT] = WANT_STATE, s
    return stub


@inner_kernel
def step(base: int, s: int, f: int, c: int, byte: int) -> Position:
    """The position after `byte`; its state is 0 if the byte is refused, -1 if something is wanted."""
    states = states_at(base)
    while s > 0:
        if unexpanded(base, s):
            return -1, f, c
        t = edge(base, s, byte)
        if t > 0:  # an edge for the byte; its flags may require bounds
            target = int64(t & TARGET)
            unmet = (t & (INC | ROOM) and c >= states[target, HI]) or (t & NEED and c < states[s, LO])
            if not unmet:
                if t & INC:
                    c += 1
                    if states[target, HI] == UNBOUNDED and c > states[target, LO]:
                        c = int64(states[target, LO])
                return settle(base, target, f, c if t & ZERO == 0 else int64(0))
            if t & SPILL == 0:
                return 0, f, c
        elif t < 0:  # DEAD: refused, whatever the miss does
            return 0, f, c
        s, f, c = miss(base, s, f, c)
    return s, f, c


@inner_kernel
def kept_step(base: int, s: int, f: int, c: int, byte: int) -> Position:
    """`step`, with a cache if R_KEPT is set.

    In a parser's tables one byte may end a token, reduce a few rules and shift: it pops and pushes many frames, and
    does so again for each of the many tokens with the same beginning. If nothing is counted and no test is met, a step
    depends only on the state, the frame and the byte. So the last steps are cached, for all masks of an automaton.
    """
    r = registers_at(base)
    if r[R_KEPT] == 0 or c != 0:
        return step(base, s, f, c, byte)
    kept, key = _kept_at(base), s | f << FRAME_SHIFT | byte << COUNT_SHIFT
    slot = _hash_frame(s, f, byte) & (STEPS_KEPT - 1)
    if kept[slot, 0] == key:
        after = kept[slot, 1]
        return int64(after & TARGET), int64(after >> FRAME_SHIFT & FRAME_MASK), int64(after >> COUNT_SHIFT)
    r[R_PURE] = 1
    s, f, c = step(base, s, f, c, byte)
    if s >= 0 and r[R_PURE]:
        kept[slot, 0], kept[slot, 1] = key, s | f << FRAME_SHIFT | c << COUNT_SHIFT
    return s, f, c


@inner_kernel
def may_end(base: int, s: int, f: int) -> int:
    """1 if the text may end in `(s, f)`, 0 if not, -1 if something is wanted."""
    states = states_at(base)
    c = int64(0)
    while s != DONE:
        if s <= 0:
            return s
        if unexpanded(base, s):
            return -1
        if states[s, MISS] & (ACTION | EAGER) == CALL:
            return 0  # the callee needs a byte; only a callee that is called on arrival may end at once
        s, f, c = miss(base, s, f, c)
    return 1
