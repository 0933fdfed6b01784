"""How far a text has come with all its phrases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structgen.guards.banned import Offence
from structgen.guards.protocol import Guard, Veto
from structgen.guards.strings import CLOSE, OPEN, VALUE, Piece, Scan, StringFinder
from structgen.masks import Grammar
from structgen.memo import cached_up_to
from structgen.phrases.bans import allowed
from structgen.phrases.kinds import PatternPhrase, Wanted
from structgen.phrases.places import may_have
from structgen.phrases.possible import Possible
from structgen.phrases.table import NEVER, PhraseTable
from structgen.schema.normal import Node
from structgen.vocabulary import Vocabulary

_REMEMBERED, _REMEMBERED_TOKENS = 1 << 14, 1 << 10
_MET, _MISSED = -1, -2
"""Places of a phrase that is bound to strings: one of them had it, or the only one has ended without it."""


class Progress(NamedTuple):
    """A state: the place of each phrase in its table, and of each JSON pointer where the text stands."""

    places: tuple[int, ...]
    scans: tuple[Scan, ...] = ()


class _Tracked(NamedTuple):
    """One phrase."""

    name: str
    table: PhraseTable  # without what is banned
    pointer: int | None  # the number of its JSON pointer; None where it is looked for in the whole text
    bans: tuple[Offence, ...]  # what was taken away

    @property
    def lost(self) -> str:
        """For messages, where nothing is left of it."""
        reasons = " or ".join(dict.fromkeys(ban.reason for ban in self.bans))
        return f"{self.name} without {reasons}" if reasons else self.name


class PhraseSet:
    """All phrases of a row. States are values; equal states have equal futures.

    Args:
        phrases: at least one.
        guards: of the row. What they ban is no way to say a phrase.

    Attributes:
        pointers: JSON pointers of the places that some of them are bound to.

    Raises:
        OptionError: a phrase has too many states.
    """

    def __init__(self, phrases: Sequence[Wanted], guards: Sequence[Guard[Any]] = (), *, is_json: bool = False) -> None:
        self.pointers = pointers = list(dict.fromkeys(phrase.at for phrase in phrases if phrase.at is not None))
        self._phrases = list[_Tracked]()
        for phrase in phrases:
            pointer = None if phrase.at is None else pointers.index(phrase.at)
            left = allowed(phrase.compile(), guards, at=phrase.at, is_json=is_json)
            self._phrases.append(_Tracked(str(phrase), left.table, pointer, left.bans))
        self._finders = [StringFinder(pointer) for pointer in pointers]
        self._is_one = ["*" not in pointer for pointer in pointers]  # at most one string stands there
        self.start = Progress((0,) * len(phrases), (Scan(),) * len(pointers))
        self._wanted = list(phrases)
        self._anywhere = [number for number, phrase in enumerate(phrases) if phrase.at is None]
        self._possible: dict[Grammar, Possible] = {}

    @cached_up_to(_REMEMBERED)
    def feed(self, state: Progress, text: bytes) -> Progress | None:
        """The state behind more bytes; None where a phrase cannot be met any more."""
        places, scans = list(state.places), list(state.scans)
        for pointer, finder in enumerate(self._finders):
            scans[pointer], pieces = finder.feed(scans[pointer], text, 0)
            for number, phrase in enumerate(self._phrases):
                if pieces and phrase.pointer == pointer:
                    places[number] = self._read(phrase, places[number], pieces)
        for number, phrase in enumerate(self._phrases):
            if phrase.pointer is None:
                places[number] = phrase.table.after(places[number], text)
        after = Progress(tuple(places), tuple(scans))
        return None if self.owed(after) >= NEVER else after

    def lost(self, state: Progress, grammar: Grammar, position: int) -> str:
        """The name of a phrase that no text of a grammar has that goes on from a position; empty where none is known.

        Phrases that are bound to strings are not asked about, see `lost_in`.
        """
        if not self._anywhere:
            return ""
        possible = self._possible.get(grammar)
        if possible is None:
            tables = [self._phrases[number].table for number in self._anywhere]
            possible = self._possible[grammar] = Possible(grammar, tables)
        number = possible.first_lost(position, [state.places[number] for number in self._anywhere])
        return "" if number is None else self._phrases[self._anywhere[number]].lost

    def lost_in(self, root: Node) -> str:
        """The phrases of one pointer that no string of a schema has there; empty where none are known."""
        for phrase in self._phrases:
            if phrase.pointer is not None and phrase.table.owed[0] >= NEVER:
                return phrase.lost
        for pointer in self.pointers:
            bound = [
                (phrase.pattern, tracked)
                for phrase, tracked in zip(self._wanted, self._phrases, strict=True)
                if isinstance(phrase, PatternPhrase) and phrase.at == pointer
            ]
            together = [bound] if "*" not in pointer else []  # else each may stand in a string of its own
            for each in [*([one] for one in bound), *together]:
                banned = [ban.pattern for _, tracked in each for ban in tracked.bans]
                if not may_have(root, pointer, [pattern for pattern, _ in each], banned):
                    return " and ".join(tracked.lost for _, tracked in each)
        return ""

    def _read(self, phrase: _Tracked, place: int, pieces: Sequence[Piece]) -> int:
        """The place of a phrase behind pieces of the strings to which it is bound."""
        assert phrase.pointer is not None
        for piece in pieces:
            if place == _MET:
                break
            if piece.kind == OPEN:
                place = 0
            elif piece.kind != CLOSE:
                place = phrase.table.after(place, piece.text)
            elif phrase.table.owed[place] == 0:
                place = _MET
            else:
                place = _MISSED if self._is_one[phrase.pointer] else 0
        return place

    @property
    def are_lost(self) -> bool:
        """Is one of which guards leave nothing among them?"""
        return self.owed(self.start) >= NEVER

    @cached_up_to(_REMEMBERED)
    def owed(self, state: Progress) -> int:
        """The bytes that are owed, of all phrases together."""
        return sum(self._each(state))

    def owed_with(self, state: Progress, tokens: Sequence[int], vocabulary: Vocabulary) -> list[int]:
        """The bytes that are owed behind one token more, for each of some tokens; `NEVER` where a phrase is lost."""
        known = self._owed_behind(state, vocabulary)
        for token in tokens:
            if token not in known:
                after = self.feed(state, vocabulary.token(token))
                known[token] = NEVER if after is None else self.owed(after)
        return [known[token] for token in tokens]

    @cached_up_to(_REMEMBERED_TOKENS)
    def _owed_behind(self, state: Progress, vocabulary: Vocabulary) -> dict[int, int]:
        """What is owed behind the tokens that were asked about in a state."""
        return {}

    def unmet(self, state: Progress) -> str:
        """The phrases that are owed, for messages."""
        each = zip(self._phrases, self._each(state), strict=True)
        return " and ".join(phrase.name for phrase, owed in each if owed)

    @cached_up_to(_REMEMBERED)
    def wanted(self, state: Progress) -> bytes:
        """A text with which all phrases are met, as far as they may stand here; of the others, what they want."""
        text = b""
        for _ in range(2 * len(self._phrases)):  # one that is completed may break off another
            open_ = [number for number, owed in enumerate(self._each(state)) if owed]
            if not open_:
                break
            number = min(open_, key=lambda number: (not self._is_here(state, number), self._each(state)[number]))
            table, place = self._reader(state, number)
            more = table.completion(place)
            text += more
            after = self.feed(state, more) if self._is_here(state, number) else None
            state = after or state._replace(places=(*state.places[:number], _MET, *state.places[number + 1 :]))
        return text

    @cached_up_to(_REMEMBERED)
    def proposals(self, state: Progress, vocabulary: Vocabulary) -> NDArray[np.int64]:
        """Token ids, ascending, that lead on with a phrase that is owed, see `PhraseTable.proposals`."""
        each = [np.zeros(0, np.int64)]
        for number, owed in enumerate(self._each(state)):
            if owed and self._is_here(state, number):
                table, place = self._reader(state, number)
                each.append(table.proposals(place, vocabulary))
        return np.unique(np.concatenate(each))

    def _each(self, state: Progress) -> list[int]:
        """The bytes that each phrase is owed."""
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
        pointer = self._phrases[number].pointer
        return pointer is None or state.scans[pointer].mode == VALUE

    def _reader(self, state: Progress, number: int) -> tuple[PhraseTable, int]:
        """The table of a phrase over the bytes as they are written, and its place there."""
        phrase, place = self._phrases[number], state.places[number]
        if phrase.pointer is None:
            return phrase.table, place
        escaping = self._is_here(state, number) and state.scans[phrase.pointer].rest == b"\\"
        return phrase.table.in_string, place + len(phrase.table.owed) * escaping


class PhraseGuard(Guard[Progress]):
    """Refuses a text that ends without its phrases, or can have them no more."""

    def __init__(self, phrases: PhraseSet) -> None:
        self._phrases = phrases

    def start(self) -> Progress:
        return self._phrases.start

    def feed(self, state: Progress, text: bytes) -> Progress | Veto:
        return self._phrases.feed(state, text) or Veto(0, f"without {self._phrases.unmet(state)}")

    def finish(self, state: Progress) -> Veto | None:
        return Veto(0, f"without {self._phrases.unmet(state)}") if self._phrases.owed(state) else None
