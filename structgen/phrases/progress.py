"""How far a text has come with all its phrases, and whether a schema has strings that can have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structgen.errors import LimitExceeded, UnsupportedSchema
from structgen.guards.banned import Offence
from structgen.guards.protocol import Guard
from structgen.json_text.pointers import unescaped
from structgen.json_text.strings import CLOSE, OPEN, VALUE, Scan, StringFinder, StringPiece
from structgen.masks import Grammar
from structgen.memo import cached_method, cached_up_to
from structgen.phrases.bans import allowed
from structgen.phrases.kinds import PatternPhrase, Phrase, Wanted
from structgen.phrases.possible import Possible
from structgen.phrases.table import NEVER, PhraseTable
from structgen.schema.normal import Node, Strings
from structgen.values.sets.strings import string_is_empty
from structgen.vocabulary import Vocabulary

_REMEMBERED, _REMEMBERED_TOKENS = 1 << 16, 1 << 10
MAX_PLACES = 500
"""Places of a schema that are searched. With more places, the answer is that it is possible."""
_MET, _MISSED = -1, -2
"""Places of a phrase that is bound to strings: a string had it; or the only string has ended without it."""


class Progress(NamedTuple):
    """A state of all phrases."""

    places: tuple[int, ...]  # the place of each phrase: the state of its table
    scans: tuple[Scan, ...] = ()  # the JSON scan for each pointer


class Owed(NamedTuple):
    """What the phrases together still need."""

    size: int  # the fewest bytes
    phrases: int  # how many of the phrases


class _Tracked(NamedTuple):
    """One phrase."""

    name: str
    table: PhraseTable  # without what is banned
    at: str | None  # a JSON pointer; None where the phrase is looked for in the whole text
    pointer: int  # the index of `at`; -1 for None
    phrase: Wanted
    bans: tuple[Offence, ...]  # what was removed from the table
    every: bool  # every string that the pointer names must meet it, not one of them

    @property
    def lost(self) -> str:
        """The name for messages about a phrase that is impossible."""
        reasons = " or ".join(dict.fromkeys(ban.reason for ban in self.bans))
        return f"{self.name} without {reasons}" if reasons else self.name


class PhraseSet:
    """All phrases of a row. States are values; equal states have equal futures.

    Args:
        phrases: at least one.
        guards: the row's; a phrase is not met by a text that they ban.

    Attributes:
        pointers: the JSON pointers that phrases are bound to.

    Raises:
        OptionError: a phrase has too many states.
    """

    def __init__(self, phrases: Sequence[Wanted], guards: Sequence[Guard[Any]] = (), *, is_json: bool = False) -> None:
        self.pointers = pointers = list(dict.fromkeys(phrase.at for phrase in phrases if phrase.at is not None))
        self._phrases = list[_Tracked]()
        for phrase, every in (part for each in phrases for part in _parted(each)):
            pointer = -1 if phrase.at is None else pointers.index(phrase.at)
            left = allowed(phrase.compile(), guards, at=phrase.at, is_json=is_json)
            self._phrases.append(_Tracked(str(phrase), left.table, phrase.at, pointer, phrase, left.bans, every))
        self._unbound = tuple(number for number, phrase in enumerate(self._phrases) if phrase.at is None)
        self._finders = [StringFinder(pointer) for pointer in pointers]
        self.start = Progress((0,) * len(self._phrases), (Scan(),) * len(pointers))

    @cached_up_to(_REMEMBERED)
    def feed(self, state: Progress, text: bytes) -> Progress | None:
        """The state after more bytes; None where a phrase cannot be met any more."""
        after = self.after(state, text)
        return None if self.owed(after) >= NEVER else after

    def after(self, state: Progress, text: bytes) -> Progress:
        """The state after more bytes, possible or not."""
        told = [finder.feed(scan, text, 0) for finder, scan in zip(self._finders, state.scans, strict=True)]
        places = []
        for phrase, place in zip(self._phrases, state.places, strict=True):
            if place >= 0:
                pieces = None if phrase.at is None else told[phrase.pointer][1]
                place = phrase.table.after(place, text) if pieces is None else _read(phrase, place, pieces)
            places.append(place)
        return Progress(tuple(places), tuple(scan for scan, _ in told))

    @cached_property
    def tables(self) -> list[PhraseTable]:
        """The tables of the phrases that are looked for in the whole text."""
        return [self._phrases[number].table for number in self._unbound]

    def apart(self, state: Progress) -> tuple[tuple[int, ...], Progress]:
        """The places of the phrases in `tables`, and the state without them: as if they were met for ever."""
        places = [*state.places]
        for number in self._unbound:
            places[number] = _MET
        return tuple(state.places[number] for number in self._unbound), state._replace(places=tuple(places))

    def joined(self, places: Sequence[int], bound: Progress | None) -> Progress:
        """The state of which `apart` gives two parts. Without the second one, its phrases are met for ever."""
        joined = [_MET] * len(self._phrases) if bound is None else [*bound.places]
        for number, place in zip(self._unbound, places, strict=True):
            joined[number] = place
        return Progress(tuple(joined), self.start.scans if bound is None else bound.scans)

    def has_room(self, state: Progress, grammar: Grammar, position: int) -> bool:
        """May a text that continues from a position have all phrases?"""
        return self.owed(state) < NEVER and not self.lost(state, grammar, position)

    def lost(self, state: Progress, grammar: Grammar, position: int) -> str:
        """Phrases that no text of a grammar can have together that continues from a position; empty where none are
        known.

        Phrases that are bound to strings are not asked about, see `lost_in`.
        """
        together = self._may(self._unbound, state, grammar, position)
        if together and not self._possible(grammar, self._unbound).gave_up:
            return ""
        for size in (1,) if together else (1, 2, len(self._unbound)):
            for group in combinations(self._unbound, size):
                if not self._may(group, state, grammar, position):
                    return " and ".join(self._phrases[number].lost for number in group)
        return ""

    def _may(self, numbers: tuple[int, ...], state: Progress, grammar: Grammar, position: int) -> bool:
        return self._possible(grammar, numbers).may(position, tuple(state.places[number] for number in numbers))

    @cached_method
    def _possible(self, grammar: Grammar, numbers: tuple[int, ...]) -> Possible:
        return Possible(grammar, [self._phrases[number].table for number in numbers])

    def exceeded(self, text: bytes) -> bool:
        """Does a text have a phrase more often than it may?"""
        tables = [self._phrases[number].table for number in self._unbound]
        return any(table.owed[table.after(0, text)] >= NEVER for table in tables)

    def lost_in(self, root: Node) -> str:
        """The phrases of one pointer that no string of a schema can have there; empty where none are known."""
        for phrase in self._phrases:
            if phrase.at is not None and phrase.table.owed[0] >= NEVER:
                return phrase.lost
        for pointer in self.pointers:
            bound = [(each, each.phrase) for each in self._phrases if each.at == pointer]
            known = [(each, phrase) for each, phrase in bound if isinstance(phrase, PatternPhrase)]
            groups = [[one] for one in known if one[1].required]
            if groups and "*" not in pointer:  # else each may appear in a string of its own
                groups.append(known)
            for group in groups:
                required = [phrase.required for _, phrase in group if phrase.required]
                excluded = [phrase.excluded for _, phrase in group if phrase.excluded]
                bans = [ban.pattern for each, _ in group for ban in each.bans]
                if not may_have(root, pointer, required, [*excluded, *bans]):
                    return " and ".join(each.lost for each, _ in group)
        return ""

    @cached_up_to(_REMEMBERED)
    def owed(self, state: Progress) -> int:
        """The fewest bytes that all phrases together still need."""
        return sum(self._each(state))

    def owed_with(self, state: Progress, tokens: Sequence[int], vocabulary: Vocabulary) -> list[Owed]:
        """What is owed after one more token, for each of some tokens; `NEVER` bytes where a phrase is lost."""
        known = self._owed_behind(state, vocabulary)
        for token in tokens:
            if token not in known:
                after = self.feed(state, vocabulary.token(token))
                each = [NEVER] if after is None else self._each(after)
                known[token] = Owed(sum(each), sum(map(bool, each)))
        return [known[token] for token in tokens]

    @cached_up_to(_REMEMBERED_TOKENS)
    def _owed_behind(self, state: Progress, vocabulary: Vocabulary) -> dict[int, Owed]:
        """`owed` after the tokens that were asked about in a state; filled by `owed_with`."""
        return {}

    def unmet(self, state: Progress) -> str:
        """The phrases that are not met yet, for messages."""
        each = zip(self._phrases, self._each(state), strict=True)
        return " and ".join(phrase.name for phrase, owed in each if owed)

    @cached_up_to(_REMEMBERED)
    def wanted(self, state: Progress) -> bytes:
        """A text that meets all phrases that may appear here; of the others, the text that their strings need."""
        text = b""
        for _ in range(2 * len(self._phrases)):  # completing one may break off another
            each = self._each(state)
            unmet = [(not self._is_here(state, number), owed, number) for number, owed in enumerate(each) if owed]
            if not unmet:
                break
            elsewhere, _, number = min(unmet)
            table, place = self._reader(state, number)
            more = table.completion(place)
            text += more
            after = None if elsewhere else self.feed(state, more)
            state = after or state._replace(places=(*state.places[:number], _MET, *state.places[number + 1 :]))
        return text

    @cached_up_to(_REMEMBERED)
    def proposals(self, state: Progress, vocabulary: Vocabulary) -> NDArray[np.int64]:
        """Token ids, ascending, that advance a phrase that is not met yet; see `PhraseTable.proposals`."""
        each = [np.zeros(0, np.int64)]
        for number, owed in enumerate(self._each(state)):
            if owed and self._is_here(state, number):
                table, place = self._reader(state, number)
                each.append(table.proposals(place, vocabulary))
        return np.unique(np.concatenate(each))

    def _each(self, state: Progress) -> list[int]:
        """The fewest bytes that each phrase still needs."""
        owed = []
        for number, place in enumerate(state.places):
            if place < 0:
                owed.append(0 if place == _MET else NEVER)
            else:
                table, place = self._reader(state, number)
                owed.append(table.owed[place])
        return owed

    def _is_here(self, state: Progress, number: int) -> bool:
        """Does a phrase read the next byte?"""
        phrase = self._phrases[number]
        return phrase.at is None or state.scans[phrase.pointer].mode == VALUE

    def _reader(self, state: Progress, number: int) -> tuple[PhraseTable, int]:
        """The table of a phrase over the bytes of the text as it is written, and the place there."""
        phrase, place = self._phrases[number], state.places[number]
        if phrase.at is None:
            return phrase.table, place
        escaping = self._is_here(state, number) and state.scans[phrase.pointer].rest == b"\\"
        return phrase.table.in_string, place + len(phrase.table.owed) * escaping


def _read(phrase: _Tracked, place: int, pieces: Sequence[StringPiece]) -> int:
    """The place of a phrase after pieces of the strings to which it is bound."""
    assert phrase.at is not None
    for piece in pieces:
        if place < 0:
            break
        if piece.kind == OPEN:
            place = 0
        elif piece.kind != CLOSE:
            place = phrase.table.after(place, piece.text)
        elif phrase.table.owed[place] == 0:
            place = 0 if phrase.every else _MET
        else:
            place = (
                0 if "*" in phrase.at and not phrase.every else _MISSED
            )  # without a star there is one string at most
    return place


def _parted(phrase: Wanted) -> Iterator[tuple[Wanted, bool]]:
    """The phrase in parts, and of each: must every string have it to which it is bound?

    Where a pointer names many strings, one of them must have a phrase as often as is required, and none more often than
    is allowed.
    """
    if not isinstance(phrase, Phrase) or "*" not in (phrase.at or "") or phrase.excluded is None:
        yield phrase, False
        return
    least, most = phrase.bounds
    if least:
        yield replace(phrase, times=(least, None)), False
    yield replace(phrase, times=(0, most)), True


def may_have_strings(root: Node, pointer: str) -> bool:
    """May a string be at a JSON pointer? In it `*` is any member or item, and `**` any number of them."""
    strings = _strings(root, pointer)
    return strings is None or bool(strings)


def may_have(root: Node, pointer: str, patterns: Sequence[str], banned: Sequence[str] = ()) -> bool:
    """May a string at a JSON pointer match all ECMA-262 patterns in `patterns`, and none in `banned`?"""
    without = tuple(Strings(patterns=(pattern,)) for pattern in banned)
    strings = _strings(root, pointer)
    try:
        return strings is None or any(
            not string_is_empty(replace(each, patterns=(*each.patterns, *patterns), without=(*each.without, *without)))
            for each in strings
        )
    except LimitExceeded:
        return True


def _strings(root: Node, pointer: str) -> list[Strings] | None:
    """The sets of strings at a JSON pointer; None if they are not known."""
    nodes = [root]
    try:
        for step in pointer.split("/")[1:]:
            nodes = list(dict.fromkeys(part for node in nodes for part in _parts(node, step)))
            if step == "**" or len(nodes) > MAX_PLACES:
                return None
        return [shape.strings for node in nodes for shape in node.shapes if shape.strings is not None]
    except (LimitExceeded, UnsupportedSchema):  # raised again when a text comes there
        return None


def _parts(node: Node, step: str) -> Iterator[Node]:
    """The nodes of the members and items that a part of the pointer names, or may name where names are patterns."""
    name = unescaped(step)
    for shape in node.shapes:
        if (arrays := shape.arrays) is not None and (step == "*" or step.isdigit()):
            arrays.check_only(
                "phrases", "prefix", "rest", "min_items", "max_items", "contains", "unique", "repeated", "without"
            )
            prefix = arrays.prefix if step == "*" else arrays.prefix[int(step) : int(step) + 1]
            yield from prefix
            if arrays.rest is not None and (step == "*" or not prefix):
                yield arrays.rest
        if (objects := shape.objects) is not None:
            objects.check_only(
                "phrases", "properties", "rest", "min_properties", "max_properties", "patterns", "some", "without"
            )
            named = [each.value for each in objects.properties if step in ("*", "**") or each.name == name]
            yield from named
            if not named or step == "*":
                yield from (each.value for each in objects.patterns)
                if objects.rest is not None:
                    yield objects.rest
