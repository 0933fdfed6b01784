"""The joint walk of trie and automaton: kernels that compute the packed mask of a position.

The result equals a plain loop (see `tests/support/reference_masks.py`): for each token, `step` through its bytes from
the position, and set the token's bit if no byte is refused. A kernel returns -1 when something is *wanted*: the
automaton must expand a state or make room, as `machine.want` says. After the caller has done so, the same call
continues the walk.
"""

from __future__ import annotations


from structgen.automaton.step import (
    Position, aux_of, edge, forget_tests, may_end, miss, mode_of, refuses_rest, step, unexpanded,
)  # fmt: skip
from structgen.automaton.table_format import (
    ASK, BLOCK_DEPTHS, BLOCK_FIRST, BLOCK_STATES, CALL, CHARS, COUNT, EAGER, FREE, GAP, GOTO, HI, INC, MISS, OVERLAY,
    ROOM, START, UNBOUNDED, Machine,
)  # fmt: skip
from structgen.automaton.writing.outline_kernels import MAX_DEPTH
from structgen.automaton.writing.text_classes import BLANKS, NAMING, TEXT_CLASSES, class_bounds, class_ends
from structgen.kernels import inner_kernel, kernel, view_uint16, view_uint32, view_uint8
from structgen.masks.slices import ANY_LENGTH, LENGTHS, tables_of
from structgen.masks.advance import arrived
from structgen.masks.nodes import (
    NO_LOOP, SEVERAL, above, allow, begin, byte_of, depth_of, first_byte, last_byte, put, stay, subtree_end, token_of,
)  # fmt: skip
from structgen.masks.string_walk import fill_free
from structgen.masks.text_walk import best_class, exits_and_home, fill_like, fill_text, untouched

TESTED = 4
"""`fill` adds this to its result if it met a test."""
EMPTY_WORDS = 64
"""The number of words of a mask that are tested together."""
MANY = 200
"""From this number of trie nodes below a first byte on, the walk looks for a class of characters that may follow it."""
MAX_FIT = 12
"""Most tokens have no more characters than this."""
AWAY = 2
"""Walking this many tokens that no text class covers takes as long as walking one token that may leave a text."""
NO_CLASS, STOPPED = -1, -2
"""Results of `_class_after` in place of a class."""
FIRST_REST = len(TEXT_CLASSES)
"""The first row of `Slices.runs` for a `RestSlice`; the rows before it are those of the text classes."""

_NAMES = class_bounds[class_ends[NAMING - 2] : class_ends[NAMING - 1]]


@inner_kernel
def _walk(machine: Machine, out: int, low: int, high: int, row: int, within: int) -> int:
    """Allow the tokens of the trie nodes `low..high - 1` that may come at the position at depth 0 of the stack.

    The most common steps are inlined in this loop: an edge without flags, an edge that counts, and no edge.

    Args:
        row: the row of the covers and runs. It tells which bits are set already: those of a text class, or, from
            `FIRST_REST` on, those of a class of `RestSlice`.
        within: subtrees whose tokens have at most this many characters of the class are skipped. 0: none are skipped.
            `ANY_LENGTH`: all that the row covers are skipped, a run at a time.

    Returns:
        0; -1 if something is wanted. Then the walk continues at node `machine.node`.
    """
    tables = tables_of(machine)
    nodes, states = tables.nodes, machine.states
    cover = view_uint8(tables.cover + row * tables.n_nodes)
    runs = view_uint16(tables.runs + 2 * row * tables.n_nodes)
    node = low
    while node < high:
        # The tokens of some subtrees are allowed already.
        if within == ANY_LENGTH:
            if runs[node] != 0:
                node += runs[node]
                continue
        elif within > 0 and cover[node] <= within:
            node = subtree_end(nodes, node)
            continue
        depth, byte = depth_of(nodes, node), byte_of(nodes, node)
        state, frame, count = above(machine, depth)
        # `loop` is the edge that would lead from the state to itself in the same way: the state, or INC and the state.
        leads, loop = edge(machine, state, byte), NO_LOOP
        counts = INC < leads and leads < ROOM
        if 0 < leads and leads < INC and states[leads, MISS] & EAGER == 0:  # no flags: the edge is the next state
            loop, state = state, leads
        elif counts and count >= states[leads - INC, HI]:  # the counter is full
            state = 0
        elif counts and states[leads - INC, MISS] & EAGER == 0 and states[leads - INC, HI] < UNBOUNDED:
            loop, state, count = INC + state, leads - INC, count + 1
        elif leads == 0 and refuses_rest(machine, state):
            state = 0
        else:
            state, frame, count = step(machine, state, frame, count, byte)
            if state < 0:
                machine.node = node
                return -1
        end = subtree_end(nodes, node)
        if state == 0:
            node = end
            continue
        allow(machine, out, token_of(nodes, node))
        if end == node + 1:  # a leaf
            node += 1
        elif leads == loop and end - node >= SEVERAL:
            node = stay(machine, out, node, state, frame, count, loop, row, within)
        else:
            put(machine, depth, state, frame, count)
            node += 1
    return 0


@inner_kernel
def _takes_names(machine: Machine, state: int) -> bool:
    """Does an edge of the state take a character of the largest class of `RestSlice`?"""
    states, edges = machine.states, machine.edges
    for row in range(states[state, START], states[state, START] + states[state, COUNT]):
        for i in range(_NAMES.shape[0]):
            if first_byte(edges, row) <= _NAMES[i, 1] and last_byte(edges, row) >= _NAMES[i, 0]:
                return True
    return False


@inner_kernel
def _class_after(machine: Machine, state: int, frame: int, count: int, byte: int) -> int:
    """The largest class of `RestSlice` of which any number of characters may follow a byte.

    `NO_CLASS` if there is none, `STOPPED` if something is wanted. The state after the byte may take no such character
    itself; it may take optional white space, for example. Then the state to which its miss leads decides.
    """
    states, blocks, depths = machine.states, machine.blocks, machine.depths
    state, frame, count = step(machine, state, frame, count, byte)
    while state > 0:
        if unexpanded(machine, state):
            return STOPPED
        if _takes_names(machine, state):
            mode, block = mode_of(machine, state), aux_of(machine, state)
            if states[state, HI] != UNBOUNDED:
                return NO_CLASS
            if mode == FREE:
                return NAMING - 1
            if mode == CHARS:
                first = blocks[block, BLOCK_DEPTHS] + state - blocks[block, BLOCK_FIRST]
                for k in range(NAMING - 1, -1, -1):
                    if depths[first + k * blocks[block, BLOCK_STATES]] == MAX_DEPTH:
                        return k
            return NO_CLASS
        state, frame, count = miss(machine, state, frame, count)
    return STOPPED if state < 0 else NO_CLASS


@inner_kernel
def _in_class(k: int, byte: int) -> bool:
    """Is a byte a character of the text class `k`?"""
    for i in range(class_ends[k - 1] if k > 0 else 0, class_ends[k]):
        if class_bounds[i, 0] <= byte and byte <= class_bounds[i, 1]:
            return True
    return False


@inner_kernel
def _allow_after(machine: Machine, out: int, k: int, byte: int) -> None:
    """Allow the tokens that have this first byte, and after it only characters of class `k`."""
    tables = tables_of(machine)
    starts = tables.rest_starts
    ids, mask, index = tables.rest_ids, view_uint32(out), tables.rest_row_of[k, byte]
    if index >= 0:  # there are `MANY_IDS` or more, and a row of a mask has them
        row = view_uint32(tables.rest_rows + index * 4 * tables.words)
        for w in range(tables.words):
            mask[w] |= row[w]
    else:
        for i in range(starts[k, byte], starts[k, byte + 1]):
            mask[ids[i] >> 5] |= 1 << (ids[i] & 31)


@inner_kernel
def _walk_byte(machine: Machine, out: int, low: int, byte: int, best: int, within: int) -> int:
    """`_walk` below a first byte, from node `low` on. For `best` and `within` see `_walk_from`.

    Tokens of the byte and characters of a class of `RestSlice` are allowed at once, without a walk, if any number of
    such characters may follow the byte. This is tried if many nodes are below the byte and the byte is not in `best`.
    """
    first = tables_of(machine).first
    high = first[byte + 1]
    if high - first[byte] < MANY or (within > 0 and _in_class(best, byte)):
        return _walk(machine, out, low, high, best, within)
    state, frame, count = above(machine, 1)
    k = _class_after(machine, state, frame, count, byte)
    if k == STOPPED:
        machine.node = low
        return -1
    if k == NO_CLASS:
        return _walk(machine, out, low, high, best, within)
    _allow_after(machine, out, k, byte)
    return _walk(machine, out, low, high, FIRST_REST + k, ANY_LENGTH)


@inner_kernel
def _walk_from(machine: Machine, out: int, state: int, frame: int, count: int, best: int, within: int) -> int:
    """`_walk_byte` for each first byte that the position accepts. Returns 0; -1 if something is wanted.

    These are the bytes of the state's edges, then of the edges of the state to which its miss leads, and so on. Each
    byte of an edge is a *segment*; segments are numbered in this order. `machine.segment` is the first that is not
    done, and `machine.node` the node in it at which the walk continues. The tokens of the text class `best` with at
    most `within` characters are allowed already (see `_walk`).
    """
    states, edges = machine.states, machine.edges
    first = tables_of(machine).first
    put(machine, 0, state, frame, count)
    segment = 0
    while state > 0:
        if unexpanded(machine, state):
            return -1
        start = states[state, START]
        for row in range(start, start + states[state, COUNT]):
            for byte in range(first_byte(edges, row), last_byte(edges, row) + 1):
                if segment >= machine.segment and first[byte] < first[byte + 1]:
                    low = first[byte]
                    if segment == machine.segment and low < machine.node:  # the walk has stopped here
                        low = machine.node
                    if _walk_byte(machine, out, low, byte, best, within) < 0:
                        machine.segment = segment
                        return -1
                    machine.segment, machine.node = segment + 1, 0
                segment += 1
        state, frame, count = miss(machine, state, frame, count)
    return state


@inner_kernel
def _looks_away(machine: Machine, exits: int, best: int, level: int) -> bool:
    """Is it faster to walk the tokens that may leave a text than the tokens that its best text class does not cover?

    Many of the latter take little time, because `_walk_byte` allows them at once.
    """
    tokens = tables_of(machine).tokens
    return AWAY * (tokens - untouched(machine, exits)) < tokens - tables_of(machine).counts[best, level]


@inner_kernel
def _fill_walk(machine: Machine, out: int, state: int, frame: int, count: int) -> int:
    """Fill the mask where no free string is open. Returns 0; -1 if something is wanted."""
    best, level = 0, 0
    if mode_of(machine, state) == CHARS:
        exits, home = exits_and_home(machine, state)
        if home != 0 and machine.like != 0:
            return fill_like(machine, out, state, frame, count, home)
        best, level = best_class(machine, state, count)
        has_room = machine.states[state, HI] - count >= MAX_FIT
        if exits != 0 and (machine.like != 0 or (has_room and _looks_away(machine, exits, best, level))):
            return fill_text(machine, out, state, frame, count, exits)
    elif mode_of(machine, state) == GAP:
        room = machine.states[state, HI] - count
        best, level = BLANKS, 0 if room < 0 else LENGTHS - 1 if room >= LENGTHS else room
    if machine.phase == 0:
        begin(machine, out, tables_of(machine).rows, best * (LENGTHS + 1) + level, level == 0)
        machine.phase, machine.segment, machine.node = 1, 0, 0
    return _walk_from(machine, out, state, frame, count, best, ANY_LENGTH if level == LENGTHS else level)


@inner_kernel
def _empty(machine: Machine, out: int) -> bool:
    """Does a mask allow nothing? The inner loop has no early exit, so the compiler takes eight words at a time."""
    mask, words, low = view_uint32(out), tables_of(machine).words, 0
    while low < words:
        high, bits = min(low + EMPTY_WORDS, words), 0
        for w in range(low, high):
            bits |= mask[w]
        if bits != 0:
            return False
        low = high
    return True


@kernel
def fill(machine: Machine, position: int, out: int, answer: int) -> int:
    """Write the mask of `position` to the address `out`, uint32[words]. `machine.phase` must be 0 at the first call.

    Args:
        answer: how tests are answered: ASK, YES, REFUSE or OPEN.

    Returns:
        -1 if something is wanted: provide it, and call again. Else 1 if the text may end there, 0
        if not, 2 if nothing is allowed; plus `TESTED` if a test was met.
    """
    if machine.phase == 0:  # also if something was wanted before the first phase: its tests will be met again
        forget_tests(machine)
    machine.answer, machine.loop = answer, NO_LOOP
    ends = _fill(machine, position, out)
    machine.answer = ASK
    return ends + TESTED if machine.met != 0 and ends >= 0 else ends


@inner_kernel
def _entered(machine: Machine, state: int, frame: int, count: int) -> Position:
    """The position after the calls and gotos of states without edges; its state is -1 if something is wanted."""
    states = machine.states
    while True:
        if unexpanded(machine, state):
            return -1, frame, count
        if states[state, COUNT] > 0 or states[state, MISS] not in (CALL, GOTO):
            return state, frame, count
        state, frame, count = miss(machine, state, frame, count)
        if state < 0:
            return state, frame, count


@inner_kernel
def _fill(machine: Machine, position: int, out: int) -> int:
    """`fill` without `TESTED`, after `machine.answer` was set."""
    state, frame, count = arrived(machine, position)
    ending, below = state, frame  # `may_end` asks here: the text may end before the callee takes a byte
    if state >= 0:
        state, frame, count = _entered(machine, state, frame, count)
    if state < 0:
        return -1
    mode = mode_of(machine, state)
    between_bytes = (
        mode == OVERLAY and aux_of(machine, state) != 0
    )  # of a character: the string's row does not fit there
    if mode in (FREE, OVERLAY) and not between_bytes:
        stopped = fill_free(machine, out, state, frame, count)
    else:
        stopped = _fill_walk(machine, out, state, frame, count)
    if stopped < 0:
        return -1
    ends = may_end(machine, ending, below)
    if ends == 1:
        ids = tables_of(machine).ends
        for i in range(tables_of(machine).n_ends):
            allow(machine, out, ids[i])
    elif ends == 0 and _empty(machine, out):
        return 2
    return ends
