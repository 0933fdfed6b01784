"""A phrase as a table over bytes: where each byte leads, and how many bytes are still needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from structgen.errors import LimitExceeded
from structgen.json_text.lexer import LETTERS
from structgen.kernels import Rows, kernel
from structgen.memo import Numbering, cached_up_to
from structgen.regular.chardfa import CharDfa
from structgen.regular.chardfa_kernels import FAR, fewest_steps
from structgen.regular.minimise import tidy
from structgen.vocabulary import Vocabulary

S = TypeVar("S", bound=Hashable)

Int32 = NDArray[np.int32]
Bool = NDArray[np.bool_]

NEVER = FAR
"""The bytes that are needed where the phrase cannot be met any more."""
FREE = 64
"""A state from which more bytes than this advance the phrase is a gap: the model fills it, and nothing is proposed."""
_REMEMBERED = 8
"""Results of `without` that each table keeps."""
MAX_PROPOSED = 256
"""Tokens that are proposed in one state at most."""
_BACKSLASH, _QUOTE = b'\\"'
MAX_STATES = 1 << 14
"""States of one table; each takes a kilobyte."""
_TRIED = (*b" aetoinshr", *range(0x21, 0x7F), *range(256))
"""Where several bytes advance the phrase equally, the first of these is taken."""


class PhraseTable:
    """A deterministic automaton over bytes, which reads the whole text. The phrase is met where the text may end.

    Args:
        next_: int32[states, 256]; the start is state 0.
        met: bool[states], may the text end here?
        whole: bool[states, 256], does the byte continue a character? Only such bytes count as a way to meet the phrase.

    Attributes:
        next: see `next_`.
        whole: see above; all true if it was not given.
        for_ever: bool[states], is the phrase met whatever follows, at the latest after the character that has started?
        owed: for each state, the fewest bytes that meet the phrase; 0 with `for_ever`, `NEVER` if it cannot be met.
    """

    def __init__(self, next_: Int32, met: Bool, whole: Bool | None = None) -> None:
        self.next = next_
        self._rows: list[list[int]] = [row.tolist() for row in next_]
        self.whole = np.ones(next_.shape, np.bool_) if whole is None else whole
        within = ~self.whole[:, ord(" ")]
        self.for_ever: Bool = _distances(next_, ~met & ~within, self.whole) >= NEVER
        self._distances = _distances(next_, met | self.for_ever, self.whole)
        self.owed: list[int] = self._distances.tolist()
        # By hand: tables live longer than vocabularies, and vocabularies longer than tables.
        self._proposed: WeakKeyDictionary[Vocabulary, dict[int, NDArray[np.int64]]] = WeakKeyDictionary()

    def after(self, state: int, text: bytes) -> int:
        """The state after more bytes."""
        table = self._rows
        for byte in text:
            state = table[state][byte]
        return state

    def row(self, state: int) -> list[int]:
        """The state after each byte."""
        return self._rows[state]

    @cached_up_to(MAX_STATES)
    def completion(self, state: int) -> bytes:
        """One of the shortest texts that meet the phrase."""
        text = bytearray()
        while 0 < self.owed[state] < NEVER:
            row, whole, wanted = self._rows[state], self.whole[state], self.owed[state] - 1
            text.append(next(byte for byte in _TRIED if self.owed[row[byte]] == wanted and whole[byte]))
            state = row[text[-1]]
        return bytes(text)

    def examples(self) -> Iterator[bytes]:
        """For each state from which the phrase can be met: a shortest text to the state, with a shortest completion.
        Texts to nearer states come first."""
        waiting, seen = deque([(0, b"")]), {0}
        while waiting:
            state, text = waiting.popleft()
            if self.owed[state] < NEVER:
                yield text + self.completion(state)
                row, whole = self._rows[state], self.whole[state]
                for byte in _TRIED:
                    if whole[byte] and row[byte] not in seen:
                        seen.add(row[byte])
                        waiting.append((row[byte], text + bytes([byte])))

    @cached_up_to(_REMEMBERED)
    def without(self, other: PhraseTable) -> PhraseTable:
        """The table of the texts that have this phrase and not another one.

        Raises:
            LimitExceeded: it would have more than `MAX_STATES` states.
        """
        width = len(other.next)
        lost = len(self.next) * width  # the state where the other phrase is met whatever follows
        pairs, fresh, behind = np.zeros(0, np.int64), np.zeros(1, np.int64), list[NDArray[np.int64]]()
        while len(fresh):
            pairs = np.concatenate([pairs, fresh])
            if len(pairs) > MAX_STATES:
                raise LimitExceeded(f"a phrase has more than {MAX_STATES:,} states")
            own, others = np.divmod(np.where(fresh < lost, fresh, 0), width)
            after = np.where(
                other.for_ever[other.next[others]], lost, self.next[own] * np.int64(width) + other.next[others]
            )
            after[fresh == lost] = lost
            behind.append(after)
            fresh = np.setdiff1d(after, pairs)
        order = np.argsort(pairs)
        rows = order[np.searchsorted(pairs[order], np.vstack(behind))].astype(np.int32)
        own, others = np.divmod(np.where(pairs < lost, pairs, 0), width)
        met = (pairs < lost) & (self._distances[own] == 0) & (other._distances[others] > 0)
        return _fewest(rows, met, self.whole[own] & other.whole[others])

    @cached_property
    def may_be_lost(self) -> bool:
        """Is there a text after which the phrase cannot be met any more, such as one that has it too often?"""
        lost = self.whole & (self._distances[self.next] >= NEVER)
        return bool(lost[self._distances < NEVER].any())

    @cached_property
    def of_whole_characters(self) -> PhraseTable:
        """The table that does not find the phrase in texts that are not UTF-8."""
        lost = len(self.next)
        table = np.vstack([np.where(self.whole, self.next, lost), np.full((1, 256), lost, np.int32)])
        whole = np.vstack([self.whole, np.ones((1, 256), np.bool_)])
        return _fewest(table, np.append(self._distances == 0, False), whole)

    def proposals(self, state: int, vocabulary: Vocabulary) -> NDArray[np.int64]:
        """Token ids, ascending, that advance the phrase with every byte, however it is cut into tokens.

        A space may appear before the phrase. In the token that ends the phrase, anything may follow it. If there are
        more than `MAX_PROPOSED` tokens, those with the fewest such bytes.
        """
        known = self._proposed.setdefault(vocabulary, {})
        if state not in known:
            trie = vocabulary.trie
            tokens, idle = np.empty((2, len(trie)), np.int32)
            path = np.zeros((3, int(trie.depth.max(initial=0)) + 1), np.int32)
            count = leading_nodes(
                trie.byte, trie.depth, trie.skip, trie.token, self.next, self._distances, self._gaps, state, path,
                tokens, idle,
            )  # fmt: skip
            tokens, idle = tokens[:count], idle[:count]
            best = tokens[np.lexsort((tokens, idle))[:MAX_PROPOSED]]
            twins = [twin for token in best.tolist() for twin in trie.twins(token)]
            known[state] = np.sort(np.array(twins[:MAX_PROPOSED], np.int64))
        return known[state]

    @cached_property
    def _gaps(self) -> NDArray[np.bool_]:
        gaps: NDArray[np.bool_] = (self._distances[self.next] < self._distances[:, None]).sum(axis=1) > FREE
        return gaps

    @cached_property
    def in_string(self) -> PhraseTable:
        """The same phrase inside a JSON string as it is written: `\\n` is a newline.

        State `s` is the same as in this table; `s` plus this table's number of states is the state after a backslash.
        An escape like `\\u0041` and the string's end lead to a state from which the phrase cannot be met.
        """
        count, lost = len(self.next), 2 * len(self.next)
        table = np.full((lost + 1, 256), lost, np.int32)
        table[:count, 0x20:] = self.next[:, 0x20:]
        table[:count, _BACKSLASH], table[:count, _QUOTE] = np.arange(count, lost), lost
        for letter, meant in LETTERS.items():
            table[count:lost, letter] = self.next[:, meant]
        whole = np.concatenate([self.whole, np.ones((count + 1, 256), np.bool_)])
        return PhraseTable(table, np.concatenate([self._distances == 0, np.zeros(count + 1, np.bool_)]), whole)


@kernel
def leading_nodes(
    byte: NDArray[np.uint8], depth: NDArray[np.uint16], skip: Int32, token: Int32, next_: Rows[Int32], owed: Int32,
    gaps: Bool, state: int, path: Rows[Int32], tokens: Int32, idle: Int32,
) -> int:  # fmt: skip
    """Write the tokens that advance the phrase from a state. Returns their number.

    The plain loop: in each token of the trie, each byte must advance the phrase (less is owed after it), or come
    after its end (nothing is owed before it), or be a first space that changes nothing. At least one byte must advance
    it outside of a gap.

    Written are `tokens`, int32[nodes], and `idle`, int32[nodes]: how many bytes of the token do not advance the phrase.
    `path`, int32[3, depths], is scratch space: by depth the state, the bytes that do not advance, and does one advance?
    """
    count, node = 0, 0
    path[0, 0], path[1, 0], path[2, 0] = state, 0, 0
    while node < len(byte):
        above = depth[node] - 1
        before, behind, leads = path[0, above], path[1, above], path[2, above]
        after = next_[before, byte[node]]
        if owed[after] < owed[before]:
            if not gaps[before]:
                leads = 1
        elif owed[before] == 0 or (byte[node] == 32 and leads == 0 and owed[after] == owed[state]):
            behind += 1
        else:
            node = skip[node]
            continue
        path[0, above + 1], path[1, above + 1], path[2, above + 1] = after, behind, leads
        if token[node] >= 0 and leads == 1 and owed[after] < owed[state]:
            tokens[count] = token[node]
            idle[count] = behind
            count += 1
        node += 1
    return count


def _fewest(next_: Int32, met: Bool, whole: Bool) -> PhraseTable:
    """The table with the fewest states. The start stays the first."""
    kinds, kind_of = np.unique(np.hstack([met[:, None], whole]), axis=0, return_inverse=True)
    columns, column_of = np.unique(next_, axis=1, return_inverse=True)
    table = np.zeros((len(next_) + 1, columns.shape[1] + 1), np.int32)  # for `tidy`: state 0 is dead, class 0 not taken
    table[1:, 1:] = columns + 1
    kind = np.append(0, kind_of.ravel() + 1).astype(np.int32)
    classes = column_of.ravel().astype(np.int32) + 1
    bounds, classes, table, kind = tidy(np.arange(256, dtype=np.int32), classes, table, kind, len(kinds) + 1)
    kept = kinds[kind[1:] - 1]
    bytes_ = np.repeat(classes, np.diff([*bounds.tolist(), 256]))
    return PhraseTable(np.ascontiguousarray(table[1:, bytes_] - 1), kept[:, 0].copy(), kept[:, 1:].copy())


def _distances(next_: Int32, met: Bool, whole: Bool) -> Int32:
    """The fewest bytes from each state to one in which the phrase is met, by bytes that continue a character."""
    lost = np.full((1, 256), len(next_), np.int32)
    return fewest_steps(np.vstack([np.where(whole, next_, len(next_)), lost]), np.append(met, False))[:-1]


def table_of_machine(start: S, row: Callable[[S], Sequence[S]], is_met: Callable[[S], bool]) -> PhraseTable:
    """The table of an automaton that is given by its start state and functions of its states.

    Args:
        row: the states after each byte.

    Raises:
        LimitExceeded: it has more than `MAX_STATES` states.
    """
    numbers, rows = Numbering[S]([start]), list[list[int]]()
    for state in numbers.things:  # grows while new states are reached
        rows.append([numbers[after] for after in row(state)])
        if len(numbers) > MAX_STATES:
            raise LimitExceeded(f"a phrase has more than {MAX_STATES:,} states")
    return PhraseTable(np.array(rows, np.int32), np.array([bool(is_met(state)) for state in numbers.things]))


def table_of_language(language: CharDfa) -> PhraseTable:
    """The table of a language, in UTF-8. A byte that belongs to no character is read as U+FFFD."""
    count = len(language.next)
    state_of = np.array([count - 1, *range(count - 1)], np.int32)  # the dead state comes last, the start first
    after = state_of[np.roll(language.next, -1, axis=0)]
    classes = np.repeat(language.classes, np.diff([*language.bounds.tolist(), 0x110000])).astype(np.uint16)
    blocks, block_of = np.unique(classes.reshape(-1, 64).view("V128"), return_inverse=True)
    chars, block_of = blocks.view(np.uint16).reshape(-1, 64), block_of.ravel()
    rows = [np.full(256, -1, np.int32) for _ in range(count)]
    broken = after[:, classes[0xFFFD]].tolist()  # by state: the state after a byte that belongs to no character
    nodes: dict[tuple[int, int, bytes], int] = {}

    def node(state: int, targets: Int32, first: int = 0) -> int:
        """The state within a character that was started in `state`, from which byte `0x80 + first + i` leads to
        `targets[i]`."""
        key = state, first, targets.tobytes()
        if key not in nodes:
            if len(rows) >= MAX_STATES:
                raise LimitExceeded(f"a phrase has more than {MAX_STATES:,} states")
            nodes[key] = len(rows)
            rows.append(np.full(256, -1, np.int32))
            rows[-1][0x80 + first : 0x80 + first + len(targets)] = targets
            broken.append(broken[state])
        return nodes[key]

    for state in range(count):
        ends = np.array([node(state, after[state, block]) for block in chars], np.int32)[block_of].reshape(-1, 64)
        row = rows[state]
        row[:0x80], row[0xC2:0xE0] = after[state, classes[:0x80]], ends[0, 2:32]
        row[0xE0] = node(state, ends[0, 32:], first=32)
        row[0xE1:0xF0] = [
            node(state, seconds[:32] if lead == 0xED else seconds)  # beyond are surrogates, which are no characters
            for lead, seconds in enumerate(ends[1:16], 0xE1)
        ]
        thirds = np.array([node(state, seconds) for seconds in ends[16:]], np.int32)
        row[0xF0] = node(state, thirds[:48], first=16)
        row[0xF1:0xF5] = [node(state, thirds[start : start + 64]) for start in range(48, len(thirds), 64)]
    table = np.array(rows)
    whole = table >= 0
    for state in range(len(rows)):  # the states between characters come first: the others take over their rows
        missing = table[state] < 0
        table[state, missing] = broken[state] if state < count else table[broken[state], missing]
    met = np.zeros(len(rows), np.bool_)
    met[state_of[np.array(language.final) != 0]] = True
    return PhraseTable(table, met, whole)
