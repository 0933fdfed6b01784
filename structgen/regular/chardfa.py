"""Deterministic automata over code points: sets of strings, closed under and, or, not.

They are made of patterns, literals, lengths and other automata. Every automaton returned here is trimmed and minimal:
from each state but the dead one, an accepting state can be reached.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, chain, count, pairwise
from os.path import commonprefix
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from structgen.memo import BoundedCache, kept_in
from structgen.memory import afford
from structgen.regular.chardfa_kernels import ALL, EVERY, FAR, NO_LONGEST, SOME, fewest_steps, longest_length, product
from structgen.regular.minimise import tidy
from structgen.regular.regex.charsets import SURROGATES
from structgen.regular.regex.compiler import leading_conditions, listed_texts
from structgen.regular.regex.nodes import PatternNode
from structgen.regular.regex.parser import parse
from structgen.regular.regex.subset import determinise
from structgen.errors import LimitExceeded

STATE_LIMIT = 50_000
"""How many states a pattern or a product may need while it is built."""
_OBJECTS = 3_000
"""The bytes of an automaton's objects and of its outline. Of a range of integers they are three times the arrays."""
_GROUP = 32
"""The most sets that are combined at a time."""
_BYTES_OF_LETTER, _BYTES_AT_ONCE = 150, 16 << 20
"""What a letter of words takes until their automaton is minimal, besides its row of a table; and what words take that
are put into one trie."""
_JointFinals: TypeAlias = Callable[[NDArray[np.bool_], NDArray[np.int64]], "list[int]"]


@dataclass(frozen=True, eq=False)
class CharDfa:
    """A set of strings. Compared by identity; its arrays are shared and never written to.

    Attributes:
        bounds: int32[k], the first code points of intervals, ascending from 0; the last interval ends at 0x10FFFF.
        classes: int32[k], the class of each interval. Class 0 is in no member, as the surrogates.
        next: int32[states, classes]; state 0 is dead, state 1 the start; column 0 is all dead.
        final: a bit mask per state: 0 does not accept, else a bit for each of the combined sets that do.
    """

    bounds: NDArray[np.int32]
    classes: NDArray[np.int32]
    next: NDArray[np.int32]
    final: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """The size for caches: of the arrays, and of what else there is about an automaton."""
        return _OBJECTS + self.bounds.nbytes + self.classes.nbytes + self.next.nbytes + 8 * len(self.final)

    @cached_property
    def empty(self) -> bool:
        """True when no string is a member."""
        return not any(self.final)

    @property
    def everything(self) -> bool:
        """True when every string is a member."""
        return len(self.final) == 2 and self.final[1] == 1 and self.bounds.tolist() == [0, 0xD800, 0xE000]

    @cached_property
    def shortest(self) -> str:
        """A member with the fewest characters; the empty set has none, and gives the empty text."""
        begins = dict(zip(self.classes[::-1].tolist(), self.bounds[::-1].tolist(), strict=True))
        steps, text, state = self._steps, "", 1
        while 0 < steps[state] < FAR:
            kind = int((steps[self.next[state]] == steps[state] - 1).argmax())
            text, state = text + chr(begins[kind]), self.next[state, kind]
        return text

    @cached_property
    def kinds(self) -> tuple[tuple[int, ...], NDArray[np.int32]]:
        """The different masks in `final`, and the index of each state's mask among them."""
        indices = {mask: index for index, mask in enumerate(dict.fromkeys(self.final))}
        return tuple(indices), _looked_up(indices, self.final)

    @cached_property
    def with_own_start(self) -> CharDfa:
        """The same set, by an automaton whose start no text leads to; it is not minimal."""
        beyond = np.where(self.next, self.next + 1, 0).astype(np.int32)
        table = np.concatenate([beyond[:1], beyond[1:2], beyond[1:]])
        return replace(self, next=table, final=(self.final[0], *self.final[1:2], *self.final[1:]))

    def state_after(self, text: str, state: int = 1) -> int:
        """The state after `text` from a state, by default the start; 0 when no member begins so."""
        bounds, classes = self._lookup
        for char in text:
            state = int(self.next[state, classes[bisect_right(bounds, ord(char)) - 1]])
            if state == 0:
                break
        return state

    def matches(self, text: str) -> bool:
        """True when `text` is a member."""
        return self.final[self.state_after(text)] != 0

    def matches_each(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """`matches` of each text. All texts are read side by side, one character at a time."""
        codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.int32)
        kinds = self.classes[np.searchsorted(self.bounds, codes, side="right") - 1]
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        starts = np.cumsum(lengths) - lengths
        states = np.ones(len(texts), np.int64)
        for place in range(int(lengths.max(initial=0))):
            going = np.flatnonzero((lengths > place) & (states > 0))
            states[going] = self.next[states[going], kinds[starts[going] + place]]
        return np.array([mask != 0 for mask in self.final])[states]

    def length_range(self) -> tuple[int, int | None]:
        """The shortest and the longest length of a member in code points; None when there is no longest.

        Raises:
            ValueError: the set is empty.
        """
        if self.empty:
            raise ValueError("the empty set of strings has no lengths")
        return self._lengths

    @cached_property
    def _lengths(self) -> tuple[int, int | None]:
        final = np.array([mask != 0 for mask in self.final], np.int32)
        longest = longest_length(self.next, final, *np.zeros((3, len(final)), np.int64))
        return int(self._steps[1]), None if longest == NO_LONGEST else longest

    @property
    def _steps(self) -> NDArray[np.int32]:
        """int32[states]: the fewest characters to an end."""
        return fewest_steps(self.next[:, 1:], np.array([mask != 0 for mask in self.final]))

    @cached_property
    def _lookup(self) -> tuple[list[int], list[int]]:
        return self.bounds.tolist(), self.classes.tolist()


def tidied(
    bounds: NDArray[np.int32], classes: NDArray[np.int32], table: NDArray[np.int32], final: Sequence[int]
) -> CharDfa:
    """A trimmed, minimal automaton from the attributes of any; column 0 must be dead."""
    masks = list(dict.fromkeys(chain((0,), final)))
    numbers = _looked_up({mask: kind for kind, mask in enumerate(masks)}, final)
    bounds, classes, small, numbers = tidy(bounds, classes, table, numbers, len(masks))
    return CharDfa(bounds, classes, small, tuple(map(masks.__getitem__, numbers.tolist())))


def _size(result: Any) -> int:
    """The bytes of automata, alone or in tuples and lists; of anything that has `nbytes`."""
    if isinstance(result, (tuple, list)):
        return sum(map(_size, result))
    return int(getattr(result, "nbytes", _OBJECTS))


LANGUAGES = BoundedCache[Any, Any](32 << 20, _size)
"""The automata of patterns, sets of strings and numbers, and names, for all schemas of the process."""


def _looked_up(indices: dict[int, int], masks: Sequence[int]) -> NDArray[np.int32]:
    """The index of each mask, looked up in C: an automaton may have tens of thousands of states."""
    return np.fromiter(map(indices.__getitem__, masks), np.int32, len(masks))


@kept_in(LANGUAGES)
def from_pattern(pattern: str, anchored: bool = False) -> CharDfa:
    """The strings in which an ECMA-262 pattern (with the `u` flag's meaning) matches somewhere; as a whole, when
    `anchored`. Compiled patterns are cached, process-wide.

    Look-aheads right after a leading `^` are held exactly (as intersection and complement), others are refused.

    Raises:
        PatternError: malformed; `offset` says where.
        PatternUnsupported: look-behind, a back-reference, other look-aheads (for all of which there is
            `patterns.pattern_language`), a construct without a clear meaning.
        LimitExceeded: more than `STATE_LIMIT` states.
    """
    parsed = parse(pattern)
    texts = listed_texts(parsed, anchored)
    if texts is not None:
        return literals(texts)
    conditions, tree = leading_conditions(parsed, anchored)
    result = from_tree(pattern, tree, anchored)
    for ahead, negative in conditions:
        prefix = from_tree(pattern, ahead)
        result = intersect(result, complement(prefix) if negative else prefix)
    return result


def from_tree(pattern: str, tree: PatternNode, anchored: bool = False, limit: int = STATE_LIMIT) -> CharDfa:
    """The strings in which a part of a pattern matches somewhere; as a whole, when `anchored`.

    Raises:
        PatternUnsupported: look-around, a back-reference or an atomic group is in the tree.
        LimitExceeded: more than `limit` states.
    """
    return tidied(*determinise(pattern, tree, anchored=anchored, limit=limit))


_SURROGATE = re.compile("[\ud800-\udfff]")


def literals(strings: Iterable[str]) -> CharDfa:
    """Exactly these strings. Strings with surrogates in them are not text and are left out."""
    return _marked((word, 1) for word in strings)


def numbered(strings: Sequence[str]) -> CharDfa:
    """Exactly these different strings, where the `final` of each is its position, from 1 on; see `literals`."""
    return _marked(zip(strings, count(1)))


def _marked(strings: Iterable[tuple[str, int]]) -> CharDfa:
    """Exactly these strings, each with its `final`."""
    return _minimal(sorted((word, mark) for word, mark in strings if word.isascii() or not _SURROGATE.search(word)))


def _minimal(words: list[tuple[str, int]]) -> CharDfa:
    """The minimal automaton of some words in their order: of half of them at a time, where their trie would be large.

    Raises:
        LimitExceeded: one word is too long.
    """
    letters, width = sum(len(word) for word, _ in words), len(set[str]().union(*(word for word, _ in words))) + 1
    size, middle = letters * (_BYTES_OF_LETTER + 8 * width), len(words) // 2
    if size <= _BYTES_AT_ONCE or not middle:
        afford(size, of=f"a text of {letters:,} characters")
        return _of_trie(words)
    first, second = _minimal(words[:middle]), _minimal(words[middle:])
    finals = np.array(first.final), np.array(second.final)

    def final(_: NDArray[np.bool_], states: NDArray[np.int64]) -> list[int]:
        return np.maximum(finals[0][states[:, 0]], finals[1][states[:, 1]]).tolist()  # type: ignore[no-any-return]

    # Words of both halves share no more beginnings than the last of the first half has.
    return _product((first, second), SOME, final, 2 * (len(first.final) + len(second.final)))


def _of_trie(words: list[tuple[str, int]]) -> CharDfa:
    """Their trie, made minimal."""
    codes = np.frombuffer("".join([word for word, _ in words]).encode("utf-32-le"), np.int32).astype(np.int64)
    chars, letters = np.unique(codes, return_inverse=True)
    starts = np.unique(np.concatenate((np.zeros(1, np.int64), chars, chars + 1)))
    starts = starts[starts <= 0x10FFFF]
    classes = np.zeros(starts.size, np.int32)
    classes[np.searchsorted(starts, chars)] = np.arange(1, chars.size + 1)
    edges, final = _trie([word for word, _ in words], [mark for _, mark in words])
    table = np.zeros((len(final), chars.size + 1), np.int32)
    table[edges[0], letters[edges[1]] + 1] = edges[2]
    return tidied(starts.astype(np.int32), classes, table, final)


def _trie(words: list[str], marks: list[int]) -> tuple[NDArray[np.int64], list[int]]:
    """The trie of words in their order: int64[3, edges], for each edge its state, the index of its letter in the words
    written one after another, and the state it leads to; and the mark of each state, of which the first is dead."""
    starts = list(accumulate(map(len, words), initial=0))
    edges = np.empty((3, starts[-1]), np.int64)
    path, last, final, done = np.ones(max(map(len, words), default=0) + 1, np.int64), "", [0, 0], 0
    for index, (word, start) in enumerate(zip(words, starts, strict=False)):  # neighbours share their beginnings
        shared = len(commonprefix((last, word)))  # noqa: RUF071 - character by character, as it is meant
        new = len(word) - shared
        path[shared + 1 : len(word) + 1] = np.arange(len(final), len(final) + new)
        edges[0, done : done + new] = path[shared : len(word)]
        edges[1, done : done + new] = np.arange(start + shared, start + len(word))
        edges[2, done : done + new] = path[shared + 1 : len(word) + 1]
        final += [0] * new
        final[path[len(word)]] = marks[index]
        last, done = word, done + new
    return edges[:, :done], final


_TEXT_BOUNDS = np.array([0, SURROGATES[0], SURROGATES[1] + 1], np.int32)
_TEXT_CLASSES = np.array([1, 0, 1], np.int32)


@kept_in(LANGUAGES)
def length(minimum: int = 0, maximum: int | None = None) -> CharDfa:
    """The strings of `minimum` to `maximum` code points (None: any number). Raises LimitExceeded, see `lengths`."""
    return lengths([(minimum, maximum)])


def lengths(ranges: Sequence[tuple[int, int | None]]) -> CharDfa:
    """`combine` of the `length` of each range, made at once.

    Raises:
        LimitExceeded: a bound is beyond `STATE_LIMIT`.
    """
    living = [
        (1 << i, minimum, maximum)
        for i, (minimum, maximum) in enumerate(ranges)
        if maximum is None or minimum <= maximum
    ]
    last = max((minimum if maximum is None else maximum for _, minimum, maximum in living), default=0)
    if last > STATE_LIMIT:
        raise LimitExceeded(f"a length of {last:,} exceeds the limit of {STATE_LIMIT:,} automaton states")
    changes = {
        0,
        *(minimum for _, minimum, _ in living),
        *(maximum + 1 for _, _, maximum in living if maximum is not None),
    }
    final, mask = [0], 0  # for the dead state; then for the state after each number of code points
    for low, high in pairwise([*sorted(changes), max(changes) + 1]):
        mask = sum(bit for bit, minimum, maximum in living if minimum <= low and (maximum is None or low <= maximum))
        final += [mask] * (high - low)
    if not mask and len(final) > 2:
        final.pop()
    table = np.zeros((len(final), 2), np.int32)
    table[1:-1, 1] = np.arange(2, len(final))
    if mask:
        table[-1, 1] = len(final) - 1
    if len(final) == 2:
        return tidied(_TEXT_BOUNDS, _TEXT_CLASSES, table, final)
    return CharDfa(_TEXT_BOUNDS, _TEXT_CLASSES, table, tuple(final))  # as it is minimal


def intersect(*dfas: CharDfa, limit: int = STATE_LIMIT) -> CharDfa:
    """The strings in every set (of none: all strings). Raises LimitExceeded beyond `limit` joint states."""
    if len(dfas) < 2:
        return dfas[0] if dfas else length()
    return _product(dfas, ALL, lambda accepts, _: accepts.all(1).astype(int).tolist(), limit)


def union(*dfas: CharDfa) -> CharDfa:
    """The strings in any set (of none: no string). Raises LimitExceeded beyond `STATE_LIMIT` joint states."""
    if len(dfas) < 2:
        return dfas[0] if dfas else literals(())
    return _product(dfas, SOME, lambda accepts, _: accepts.any(1).astype(int).tolist())


def complement(dfa: CharDfa) -> CharDfa:
    """The strings that are not in the set."""
    limit = len(dfa.final) + 2
    return _product((dfa,), EVERY, lambda accepts, _: [0, *(~accepts[1:, 0]).astype(int).tolist()], limit)


def less(language: CharDfa, exact: bool, taken: CharDfa, *, known: bool) -> tuple[CharDfa, bool]:
    """The members of a language that are not in `taken`, and whether that is exact.

    Args:
        exact: is `language` exact?
        known: is `taken` exact? If it is not, nothing is taken away.

    Raises:
        LimitExceeded: more than `STATE_LIMIT` states.
    """
    if not known:
        return language, exact and intersect(language, taken).empty
    rest = complement(taken)
    return rest if language.everything else intersect(language, rest), exact


def combine(dfas: Sequence[CharDfa]) -> CharDfa:
    """The union, with bit i of a state's `final` telling whether `dfas[i]` accepts there.

    Raises:
        LimitExceeded: more than `STATE_LIMIT` joint states.
    """
    if not dfas:
        return literals(())
    distinct = list(dict.fromkeys(dfas))
    if len(dfas) == 1 and max(dfas[0].kinds[0]) < 2:
        return dfas[0]
    if len(distinct) < len(dfas):  # each is combined once, and then gets the bits of all its indices
        joint = combine(distinct)
        bits = [sum(1 << index for index, dfa in enumerate(dfas) if dfa is each) for each in distinct]
        marks = {mask: sum(bit for i, bit in enumerate(bits) if mask >> i & 1) for mask in joint.kinds[0]}
        return replace(joint, final=tuple(map(marks.__getitem__, joint.final)))
    # A joint state is as wide as the number of automata, so thousands of them are combined in groups: a group never
    # has more joint states than all of them together.
    level = [_combined(dfas[i : i + _GROUP]) for i in range(0, len(dfas), _GROUP)]
    width = _GROUP
    while len(level) > 1:
        level = [beside(level[i : i + _GROUP], width) for i in range(0, len(level), _GROUP)]
        width *= _GROUP
    return level[0]


def _combined(dfas: Sequence[CharDfa]) -> CharDfa:
    bits = np.int64(1) << np.arange(len(dfas))
    return _product(dfas, SOME, lambda accepts, _: (accepts @ bits).tolist())


def beside(dfas: Sequence[CharDfa], width: int) -> CharDfa:
    """The union, with the `final` masks side by side: that of each automaton has `width` bits, the first the lowest.

    Raises:
        LimitExceeded: more than `STATE_LIMIT` joint states.
    """

    def final(accepts: NDArray[np.bool_], states: NDArray[np.int64]) -> list[int]:
        masks = [0] * len(states)
        for state, index in zip(*(indices.tolist() for indices in np.nonzero(accepts)), strict=True):
            masks[state] |= dfas[index].final[states[state, index]] << index * width
        return masks

    return _product(dfas, SOME, final)


def _product(dfas: Sequence[CharDfa], live: int, final: _JointFinals, limit: int = STATE_LIMIT) -> CharDfa:
    """The automata run in step over their joint classes.

    Args:
        live: the joint states that are kept, see `chardfa_kernels.product`.
        final: gives the masks of all joint states, from which of the automata accept there, bool[states, dfas], and
            from the state that each of them is in, int64[states, dfas].
    """
    parts = [(dfa.bounds, dfa.classes) for dfa in dfas]
    if live == EVERY:
        parts.append((_TEXT_BOUNDS, _TEXT_CLASSES))
    bounds = np.unique(np.concatenate([starts for starts, _ in parts]))
    signature = np.stack([kinds[np.searchsorted(starts, bounds, side="right") - 1] for starts, kinds in parts])
    classes, columns = _joint_classes(signature)
    offsets = np.cumsum([0, *(dfa.next.size for dfa in dfas[:-1])], dtype=np.int64)
    widths = np.array([dfa.next.shape[1] for dfa in dfas], np.int64)
    flat = np.concatenate([dfa.next.ravel() for dfa in dfas])
    joint = product(flat, offsets, widths, columns[: len(dfas)], live, limit)
    if joint is None:
        raise LimitExceeded(
            f"combining {len(dfas)} patterns takes more than {limit:,} automaton states; "
            "use shorter bounds in {m,n} or fewer overlapping patterns"
        )
    table, states = joint
    accepts = np.stack([np.array(dfa.final, dtype=bool)[states[:, i]] for i, dfa in enumerate(dfas)], axis=1)
    return tidied(bounds, classes, table, final(accepts, states))


def _joint_classes(signature: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Number the distinct columns of `signature`; all zeros is class 0."""
    known = {(0,) * signature.shape[0]: 0}
    numbers = [known.setdefault(tuple(column), len(known)) for column in signature.T.tolist()]
    return np.array(numbers, np.int32), np.ascontiguousarray(np.array(list(known), np.int64).T)
