"""One byte: the transition function of the automaton.

`step` is the only place that gives the tables their meaning (see `table_format`). If it needs something that is not
there yet (the row of a stub, an unknown return, room for a frame), it stops with state -1 and writes down what is
*wanted*. The caller provides it and calls again.

In most kernels `machine` is the automaton, `state`, `frame` and `count` are a position of it.
"""

from __future__ import annotations


from structgen.automaton.table_format import (
    ACTION, ASK, CALL, COUNT, COUNTER, DONE, EAGER, GOTO, HI, INC, KEY, KIND,
    LEADS, LO, MISS, NEED, NOTHING, OPEN, PARENT, RANGES, REFUSE, RETURN, ROOM, SPAN, SPILL, START, STUB,
    TARGET, UNBOUNDED, WANT_ANSWER, WANT_FRAMES, WANT_RETURN, WANT_STATE, ZERO, A, B, Machine, hash_frame,
)  # fmt: skip
from structgen.kernels import inner_kernel

Position = tuple[int, int, int]
"""State, frame, counter."""


@inner_kernel
def write_row(
    machine: Machine, state: int, kind: int, start: int, count: int, action: int, a: int, b: int, high: int
) -> None:
    """Write the row of a state. Its counter has no lower bound."""
    states = machine.states
    states[state, START], states[state, COUNT], states[state, KIND] = start, count, kind
    states[state, MISS], states[state, A], states[state, B] = action, a, b
    states[state, LO], states[state, HI] = 0, high


@inner_kernel
def write_plain_row(machine: Machine, state: int, start: int, count: int, high: int) -> None:
    """Write the row of a state that refuses each byte that its edges do not take."""
    write_row(machine, state, RANGES, start, count, NOTHING, 0, 0, high)


@inner_kernel
def write_span(machine: Machine, row: int, first: int, last: int, leads: int) -> None:
    """Write the edge of the bytes from `first` to `last`, to a target with its flags."""
    edges = machine.edges
    edges[row, SPAN], edges[row, LEADS] = first | last << 8, leads


@inner_kernel
def write_edge(machine: Machine, row: int, byte: int, leads: int) -> None:
    """Write the edge of one byte, to a target with its flags."""
    write_span(machine, row, byte, byte, leads)


@inner_kernel
def mode_of(machine: Machine, state: int) -> int:
    """The mode of a state: PLAIN, FREE, OVERLAY, CHARS, ITEMS or GAP."""
    return (machine.states[state, KIND] >> 4) & 15


@inner_kernel
def aux_of(machine: Machine, state: int) -> int:
    """The number that belongs to the mode of a state (see the modes)."""
    return machine.states[state, KIND] >> 8


@inner_kernel
def push(machine: Machine, ret: int, parent: int, count: int) -> int:
    """The number of the frame `(ret, parent, count)`, interned; -1 if there is no room for a new one."""
    frames, buckets = machine.frames, machine.buckets
    # The frame may be there: look at its bucket, and at those after it up to a free one.
    mask = machine.n_buckets - 1
    slot = hash_frame(ret, parent, count) & mask
    while buckets[slot] != 0:
        frame = buckets[slot]
        if frames[frame, RETURN] == ret and frames[frame, PARENT] == parent and frames[frame, COUNTER] == count:
            return frame
        slot = (slot + 1) & mask
    # It is not: `slot` is free, and the frame gets the next number.
    frame = machine.n_frames
    if frame >= machine.max_frames:
        machine.want = WANT_FRAMES
        return -1
    frames[frame, RETURN], frames[frame, PARENT], frames[frame, COUNTER] = ret, parent, count
    buckets[slot] = frame
    machine.n_frames = frame + 1
    return frame


@inner_kernel
def _returned(machine: Machine, ret: int, outcome: int) -> int:
    """The state to which return `-ret` leads for an outcome; -1 if it is not known yet."""
    returns = machine.returns
    mask = machine.n_returns - 1
    key = ret << 24 | outcome
    slot = hash_frame(ret, outcome, 0) & mask
    while returns[slot, KEY] != 0:
        if returns[slot, KEY] == key:
            return returns[slot, LEADS]
        slot = (slot + 1) & mask
    return -1


@inner_kernel
def leave(machine: Machine, frame: int, outcome: int) -> Position:
    """Pop `frame`: the position to which it returns for an outcome. Plain twin: a dictionary of (return, outcome)."""
    if frame == 0:
        return DONE, 0, 0
    frames = machine.frames
    state = frames[frame, RETURN]
    if state < 0:  # the state depends on the outcome
        known = _returned(machine, -state, outcome)
        if known < 0:
            machine.want, machine.argument, machine.outcome = WANT_RETURN, -state, outcome
            return -1, frame, 0
        state = known
    return state, frames[frame, PARENT], frames[frame, COUNTER]


@inner_kernel
def _answer(machine: Machine, test: int, frame: int) -> int:
    """The state to which the test `test` leads, answered as `machine.answer` says; -1 if the caller must answer."""
    states = machine.states
    if machine.answer == ASK:
        machine.want, machine.argument, machine.tested_frame = WANT_ANSWER, test, frame
        machine.taken = 0
        return -1
    # The tests that were met form a linked list: LO marks members, HI is the previous member, `met` the last one.
    if states[test, LO] == 0:
        states[test, LO], states[test, HI] = 1, machine.met
        machine.met = test
    if machine.answer == REFUSE:
        return 0
    if machine.answer == OPEN and states[test, B] != 0:
        return machine.open_state
    return states[test, A]


@inner_kernel
def forget_tests(machine: Machine) -> None:
    """Empty the list of the tests that were met."""
    states = machine.states
    test = machine.met
    while test != 0:
        before = states[test, HI]
        states[test, LO], states[test, HI] = 0, UNBOUNDED
        test = before
    machine.met = 0


@inner_kernel
def settle(machine: Machine, state: int, frame: int, count: int) -> Position:
    """The position after the eager actions of a state: calls, pops and tests on arrival."""
    states = machine.states
    while states[state, MISS] & EAGER:
        state, frame, count = miss(machine, state, frame, count)
        if state < 0:
            machine.taken = 1
            break
    return state, frame, count


@inner_kernel
def miss(machine: Machine, state: int, frame: int, count: int) -> Position:
    """The position at which to look up a byte that no edge of a state takes; state 0 if the byte is refused."""
    states = machine.states
    action = states[state, MISS] & ACTION
    if action == NOTHING:
        return 0, frame, count
    if action == GOTO:  # an eager one is a test
        test = states[state, MISS] & EAGER
        return (_answer(machine, state, frame) if test else states[state, A]), frame, 0
    if action == CALL:
        inner = push(machine, states[state, B], frame, count)
        return (states[state, A] if inner >= 0 else -1), inner, 0
    return leave(machine, frame, states[state, A])


@inner_kernel
def edge(machine: Machine, state: int, byte: int) -> int:
    """The edge of a state for a byte (target and flags); 0 if there is none, DEAD if an edge refuses the byte."""
    states, edges = machine.states, machine.edges
    start = states[state, START]
    leads: int = 0
    for row in range(start, start + states[state, COUNT]):
        span = edges[row, SPAN]
        if span & 255 <= byte and byte <= span >> 8:
            leads = edges[row, LEADS]
            break
    return leads


@inner_kernel
def refuses_rest(machine: Machine, state: int) -> bool:
    """Does a state that is written refuse all bytes that no edge of it takes?"""
    states = machine.states
    return states[state, MISS] & ACTION == NOTHING and states[state, KIND] != STUB


@inner_kernel
def unexpanded(machine: Machine, state: int) -> bool:
    """Is the state a stub? Then its row is wanted."""
    stub = machine.states[state, KIND] == STUB
    if stub:
        machine.want, machine.argument = WANT_STATE, state
    return stub


@inner_kernel
def step(machine: Machine, state: int, frame: int, count: int, byte: int) -> Position:
    """The position after `byte`; its state is 0 if the byte is refused, -1 if something is wanted."""
    states = machine.states
    while state > 0:
        if unexpanded(machine, state):
            return -1, frame, count
        leads = edge(machine, state, byte)
        if leads > 0:  # an edge for the byte; its flags may require bounds
            target = leads & TARGET
            unmet = (leads & (INC | ROOM) and count >= states[target, HI]) or (
                leads & NEED and count < states[state, LO]
            )
            if not unmet:
                if leads & INC:  # without an upper bound the counter stops at the lower one
                    count += 1
                    if states[target, HI] == UNBOUNDED and count > states[target, LO]:
                        count = states[target, LO]
                return settle(machine, target, frame, count if leads & ZERO == 0 else 0)
            if leads & SPILL == 0:
                return 0, frame, count
        elif leads < 0:  # DEAD: refused, whatever the miss does
            return 0, frame, count
        # No edge takes the byte: it is looked up where the miss leads, perhaps in another frame.
        state, frame, count = miss(machine, state, frame, count)
    return state, frame, count


@inner_kernel
def may_end(machine: Machine, state: int, frame: int) -> int:
    """1 if the text may end in a state and frame, 0 if not, -1 if something is wanted."""
    states = machine.states
    count = 0
    while state != DONE:
        if state <= 0:
            return state
        if unexpanded(machine, state):
            return -1
        if states[state, MISS] & (ACTION | EAGER) == CALL:
            return 0  # the callee needs a byte; only a callee that is called on arrival may end at once
        state, frame, count = miss(machine, state, frame, count)
    return 1
