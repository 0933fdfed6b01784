"""Kernels that look ahead: can a text go on with tokens that the grammar allows and that are canonical?

A *place* is a position of the grammar and a packed state of `Canonical`. A text can go on from a place in three cases:
it may end there; more than `WIDE` tokens are allowed and canonical; or it can go on from the place after one of these
tokens. `tests/masks/test_continuations.py` has the plain search. The search makes no masks: at each place
it walks the trie until it has found more than `WIDE` tokens.

The tables do not tell everything (an incomplete character, a test of the text). If the answer depends on this, it is
`DOUBTFUL`. The arguments `machine`, `canonical` and `work` are addresses: of the grammar's automaton, of the tables of
`Canonical`, and of the kernels' own numbers (see `NUMBERS`).
"""

from __future__ import annotations

import numpy as np


from structgen.automaton.step import edge, may_end, miss, refuses_rest, step, unexpanded
from structgen.automaton.table_format import (
    COUNT, COUNT_SHIFT, FRAME_SHIFT, START, TARGET, WANT_ANSWER, Int64, Machine, hash_frame,
)  # fmt: skip
from structgen.kernels import inner_kernel, kernel, view, view_int64
from structgen.masks.advance import WANTS, advance, arrived
from structgen.masks.nodes import above, byte_of, depth_of, first_byte, last_byte, next_twin, put, subtree_end, token_of
from structgen.masks.slices import tables_of
from structgen.masks.string_slices import HAS_TWIN, Uint32
from structgen.vocabulary.canonical.step_kernels import UNTOLD, Steps, behind, ends_chunk, may_end_packed, may_follow

DEPTH = 12
"""The number of tokens to look ahead. In 373 schemas, looking 12 tokens ahead missed no dead end; looking two tokens
ahead missed one in 10 of 1,000 steps."""
WIDE = 64
"""If more tokens than this are allowed at a place, the search assumes that the text can go on."""
NODES = 1 << 14
"""The number of trie nodes that one search visits before it gives up."""
KNOWN = 1 << 9
"""The number of slots in the cache of answers, a hash table by place."""
DEAD_END, ALIVE, DOUBTFUL, UNSEEN = 0, 1, 2, 3
"""Answers: the text cannot go on; it can; the tables do not tell; the place is not in the cache."""

LEVELS = DEPTH + 2
INFO, FOUND = 5, 3
I_POSITION, I_PACKED, I_COUNT, I_NEXT, I_DOUBT = range(INFO)
F_TOKEN, F_POSITION, F_SIZE = range(FOUND)
"""Columns of the levels of a search: the place, the number of tokens found, how many of them were followed, and whether
there may be more. Columns of the tokens found: the token, the position behind it, and its bytes (0 once followed)."""
W_LEFT, W_STOPPED = 0, 1
W_BYTES = 2
W_INFO = W_BYTES + 256
W_FOUND = W_INFO + LEVELS * INFO
W_KNOWN = W_FOUND + LEVELS * (WIDE + 1) * FOUND
NUMBERS = W_KNOWN + 3 * KNOWN
"""The numbers at `work`: the nodes that may still be visited; the level where a search was stopped, plus one; a flag
for each byte that may come next; the levels; the tokens found; the cached answers (position, packed state,
answer + 1)."""

_info_at, _entries_at = view(np.int64, INFO), view(np.int64, FOUND)
_known_at = view(np.int64, 3)


@inner_kernel
def _slot(position: int, packed: int) -> int:
    return hash_frame(position & TARGET, position >> FRAME_SHIFT, packed ^ packed >> 27) & (KNOWN - 1)


@inner_kernel
def _keep(work: int, position: int, packed: int, answer: int) -> None:
    known, slot = _known_at(work + 8 * W_KNOWN), _slot(position, packed)
    known[slot, 0], known[slot, 1], known[slot, 2] = position, packed, answer + 1


@inner_kernel
def _add(machine: Machine, canonical: Steps, work: int, level: int, token: int, position: int) -> None:
    """Add a token to a level's tokens if it is canonical there."""
    info = _info_at(work + 8 * W_INFO)
    packed, i = info[level, I_PACKED], info[level, I_COUNT]
    told = _told(canonical, packed, token)
    if told < 0:
        if told == UNTOLD:
            info[level, I_DOUBT] = 1
        return
    entries = _entries_at(work + 8 * (W_FOUND + level * (WIDE + 1) * FOUND))
    size = tables_of(machine).offsets[token + 1] - tables_of(machine).offsets[token]
    entries[i, F_TOKEN], entries[i, F_POSITION], entries[i, F_SIZE] = token, position, size
    info[level, I_COUNT] = i + 1


@inner_kernel
def _told(canonical: Steps, packed: int, token: int) -> int:
    """`may_follow`, but `UNTOLD` for a token after which the state is not packed."""
    told = may_follow(canonical, packed, token)
    return UNTOLD if told >= 0 and ends_chunk(canonical, packed, token) else told


@inner_kernel
def _take(canonical: Steps, work: int, level: int) -> None:
    """Follow a token of a level to the next level's place: the longest that was not followed, the first of equals."""
    info, entries = _info_at(work + 8 * W_INFO), _entries_at(work + 8 * (W_FOUND + level * (WIDE + 1) * FOUND))
    best = 0
    for i in range(1, info[level, I_COUNT]):
        if entries[i, F_SIZE] > entries[best, F_SIZE]:
            best = i
    entries[best, F_SIZE] = 0
    info[level, I_NEXT] += 1
    _lead(canonical, work, level, level + 1, best)


@inner_kernel
def _lead(canonical: Steps, work: int, level: int, to: int, i: int) -> None:
    """Set the place of level `to` to the place after the `i`-th token of level `level`."""
    info, entries = _info_at(work + 8 * W_INFO), _entries_at(work + 8 * (W_FOUND + level * (WIDE + 1) * FOUND))
    info[to, I_POSITION] = entries[i, F_POSITION]
    info[to, I_PACKED] = behind(canonical, info[level, I_PACKED], entries[i, F_TOKEN])


@inner_kernel
def _stopped(machine: Machine, work: int, level: int) -> int:
    """Why a step has stopped: WANTS; or 0 at a test, and the level is marked as doubtful."""
    _info_at(work + 8 * W_INFO)[level, I_DOUBT] = 1
    return 0 if machine.want == WANT_ANSWER else WANTS


@inner_kernel
def _mark_first_bytes(machine: Machine, work: int, state: int, frame: int, count: int) -> int:
    """Mark the bytes that edges take at a position. Returns their number; -1 if something is wanted."""
    states, edges, marks = machine.states, machine.edges, view_int64(work + 8 * W_BYTES)
    marked = 0
    for byte in range(256):
        marks[byte] = 0
    while state > 0:
        if unexpanded(machine, state):
            return -1
        for row in range(states[state, START], states[state, START] + states[state, COUNT]):
            for byte in range(first_byte(edges, row), last_byte(edges, row) + 1):
                marked += 1 - marks[byte]
                marks[byte] = 1
        state, frame, count = miss(machine, state, frame, count)
    return marked if state == 0 else state


@inner_kernel
def _collect(machine: Machine, canonical: Steps, work: int, level: int) -> int:
    """Find the tokens that may come next at a level's place, and stop after more than `WIDE`.

    Returns 1 if the text may end at the place, else 0; or WANTS.
    """
    info, first, marks = _info_at(work + 8 * W_INFO), tables_of(machine).first, view_int64(work + 8 * W_BYTES)
    info[level, I_COUNT], info[level, I_NEXT], info[level, I_DOUBT] = 0, 0, 0
    position = info[level, I_POSITION]
    state, frame, count = arrived(machine, position)
    ends = may_end(machine, state, frame) if state >= 0 else state
    if ends < 0:
        return _stopped(machine, work, level)
    if ends == 1 and tables_of(machine).n_ends > 0 and may_end_packed(canonical, info[level, I_PACKED]):
        return 1
    bytes_marked = _mark_first_bytes(machine, work, state, frame, count)
    if bytes_marked < 0 and _stopped(machine, work, level) < 0:
        return WANTS
    if bytes_marked > WIDE and _is_wide(machine, canonical, work, level, state, frame, count):
        return 0
    put(machine, 0, state, frame, count)
    for byte in range(256):
        if marks[byte] != 0 and first[byte] < first[byte + 1]:
            if _collect_below(machine, canonical, work, level, first[byte], first[byte + 1]) < 0:
                return WANTS
            if info[level, I_COUNT] > WIDE:
                break
    return 0


@inner_kernel
def _is_wide(machine: Machine, canonical: Steps, work: int, level: int, state: int, frame: int, count: int) -> bool:
    """Are more than `WIDE` tokens of one byte allowed and canonical at a level's place? This is a quick first test."""
    info, nodes, first = _info_at(work + 8 * W_INFO), tables_of(machine).nodes, tables_of(machine).first
    marks, packed, fitting = view_int64(work + 8 * W_BYTES), info[level, I_PACKED], 0
    for byte in range(256):
        if marks[byte] == 0 or first[byte] >= first[byte + 1]:
            continue
        token = token_of(nodes, first[byte])
        others, token = token >= HAS_TWIN, token if token < 0 else token & (HAS_TWIN - 1)
        while token >= 0 and _told(canonical, packed, token) < 0:
            token = next_twin(machine, token) if others else -1
        if token >= 0 and step(machine, state, frame, count, byte)[0] > 0:
            fitting += 1
            if fitting > WIDE:
                info[level, I_COUNT] = fitting
                return True
    return False


@inner_kernel
def _collect_below(machine: Machine, canonical: Steps, work: int, level: int, low: int, high: int) -> int:
    """`_collect` among the trie nodes `low..high - 1`, from the position at depth 0 of the stack: 0, or WANTS."""
    nodes, left, info, node = tables_of(machine).nodes, view_int64(work), _info_at(work + 8 * W_INFO), low
    while node < high and info[level, I_COUNT] <= WIDE:
        depth, byte = depth_of(nodes, node), byte_of(nodes, node)
        state, frame, count = above(machine, depth)
        if edge(machine, state, byte) == 0 and refuses_rest(machine, state):
            node = subtree_end(nodes, node)
            continue
        left[W_LEFT] -= 1
        if left[W_LEFT] < 0:
            info[level, I_DOUBT] = 1
            return 0
        state, frame, count = step(machine, state, frame, count, byte)
        if state < 0 and _stopped(machine, work, level) < 0:
            return WANTS
        if state <= 0:
            node = subtree_end(nodes, node)
            continue
        token = token_of(nodes, node)
        if token >= 0:
            after = state | frame << FRAME_SHIFT | count << COUNT_SHIFT
            others, token = token >= HAS_TWIN, token & (HAS_TWIN - 1)
            _add(machine, canonical, work, level, token, after)
            while others and next_twin(machine, token) >= 0:
                token = next_twin(machine, token)
                if info[level, I_COUNT] <= WIDE:
                    _add(machine, canonical, work, level, token, after)
        put(machine, depth, state, frame, count)
        node += 1
    return 0


@inner_kernel
def _collect_from(machine: Machine, canonical: Steps, work: int, level: int, tokens: Int64) -> int:
    """`_collect` where the allowed and canonical tokens are known."""
    info, offsets = _info_at(work + 8 * W_INFO), tables_of(machine).offsets
    info[level, I_COUNT], info[level, I_NEXT], info[level, I_DOUBT] = 0, 0, 0
    for i in range(len(tokens)):
        token = tokens[i]
        if offsets[token] == offsets[token + 1]:
            return 1
        after = advance(machine, info[level, I_POSITION], token, 0)
        if after == WANTS:
            return after
        if after >= 0:
            _add(machine, canonical, work, level, token, after)
        else:
            info[level, I_DOUBT] = 1
    return 0


@inner_kernel
def _arrive(machine: Machine, canonical: Steps, work: int, level: int, last: int, tokens: Int64) -> int:
    """The answer for a level's place if it is known at once; `DOUBTFUL` if its tokens must be followed; or WANTS.

    Args:
        tokens: the allowed and canonical tokens at the first level's place; empty if they are not known.
    """
    info, known = _info_at(work + 8 * W_INFO), _known_at(work + 8 * W_KNOWN)
    position, packed = info[level, I_POSITION], info[level, I_PACKED]
    slot = _slot(position, packed)
    if known[slot, 2] != 0 and known[slot, 0] == position and known[slot, 1] == packed:
        return known[slot, 2] - 1
    if level == 0 and len(tokens) > 0:
        ends = _collect_from(machine, canonical, work, level, tokens)
    else:
        ends = _collect(machine, canonical, work, level)
    if ends < 0:
        return ends
    if ends == 1 or info[level, I_COUNT] > WIDE or (level == last and info[level, I_COUNT] > 0):
        return ALIVE
    return DOUBTFUL


@inner_kernel
def _search(machine: Machine, canonical: Steps, work: int, top: int, level: int, depth: int, tokens: Int64) -> int:
    """Can a text go on from the place of level `top`? Looks `depth` tokens ahead. Returns an answer, or WANTS.

    The search begins at `level`: at `top`, or at the level where it was stopped before.
    """
    info, last, answer = _info_at(work + 8 * W_INFO), top + depth, UNSEEN
    while True:
        if answer == UNSEEN:
            answer = _arrive(machine, canonical, work, level, last, tokens)
        if answer == WANTS:
            view_int64(work)[W_STOPPED] = level + 1
            return answer
        if answer == ALIVE:
            for i in range(top, level + 1):
                if level < last or last - i > DEPTH // 2:  # with fewer tokens ahead the answer is too weak to cache
                    _keep(work, info[i, I_POSITION], info[i, I_PACKED], answer)
            return answer
        if answer == DEAD_END:
            level -= 1
            if level < top:
                return answer
        if info[level, I_NEXT] < info[level, I_COUNT]:
            _take(canonical, work, level)
            level += 1
            answer = UNSEEN
        elif info[level, I_DOUBT] == 0:
            answer = DEAD_END
            _keep(work, info[level, I_POSITION], info[level, I_PACKED], answer)
        else:
            level -= 1
            if level < top:
                return DOUBTFUL
            info[level, I_DOUBT] = 1
            answer = DOUBTFUL


@kernel
def alive(machine: Machine, canonical: Steps, work: int, position: int, packed: int, depth: int, tokens: Int64) -> int:
    """Can a text go on from a place? Looks `depth` tokens ahead. Returns `ALIVE`, `DEAD_END` or `DOUBTFUL`; or WANTS.

    Args:
        tokens: the allowed and canonical tokens at the place, at most `WIDE`; empty if they are not known.
    """
    info, head, level = _info_at(work + 8 * W_INFO), view_int64(work), 0
    if head[W_STOPPED] > 0 and info[0, I_POSITION] == position and info[0, I_PACKED] == packed:
        level = head[W_STOPPED] - 1
    else:
        head[W_LEFT] = NODES
    head[W_STOPPED] = 0
    info[0, I_POSITION], info[0, I_PACKED] = position, packed
    return _search(machine, canonical, work, 0, level, depth, tokens)


@kernel
def live(machine: Machine, canonical: Steps, work: int, position: int, packed: int, out: Int64, tokens: Int64) -> int:
    """Write the tokens with which a text can go on from a place to `out`, int64[WIDE]. For `tokens` see `alive`.

    Returns their number; or -1 if there are too many, if the text may end at the place, or if one of them is
    `DOUBTFUL`; or WANTS.
    """
    info, entries = _info_at(work + 8 * W_INFO), _entries_at(work + 8 * W_FOUND)
    view_int64(work)[W_LEFT] = NODES
    info[0, I_POSITION], info[0, I_PACKED] = position, packed
    if len(tokens) > 0:
        ends = _collect_from(machine, canonical, work, 0, tokens)
    else:
        ends = _collect(machine, canonical, work, 0)
    if ends == WANTS:
        return ends
    if ends == 1 or info[0, I_DOUBT] != 0 or info[0, I_COUNT] > WIDE:
        return -1
    count = 0
    for i in range(info[0, I_COUNT]):
        _lead(canonical, work, 0, 1, i)
        answer = _search(machine, canonical, work, 1, 1, DEPTH, tokens)
        if answer == WANTS:
            view_int64(work)[W_STOPPED] = 0
            return answer
        if answer == DOUBTFUL:
            return -1
        if answer == ALIVE:
            out[count] = entries[i, F_TOKEN]
            count += 1
    return count


@kernel
def few(words: Uint32, tokens: Int64) -> int:
    """Write the tokens that a mask allows to `tokens`, int64[WIDE], in ascending order.

    Returns their number; `WIDE + 1` if there are more than `WIDE`.
    """
    count: int = 0
    for block in range(0, len(words), 8):
        k, end = block, block + 8
        if end <= len(words):
            first, second = words[k] | words[k + 1] | words[k + 2] | words[k + 3], words[k + 4] | words[k + 5]
            if first | second | words[k + 6] | words[k + 7] == 0:
                continue
        for i in range(k, min(end, len(words))):
            bits, token = words[i], 32 * i
            while bits != 0:
                if bits & 1:
                    if count == WIDE:
                        return count + 1
                    tokens[count] = token
                    count += 1
                bits, token = bits >> 1, token + 1
    return count
