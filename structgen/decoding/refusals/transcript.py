"""The text of one row: its tokens and bytes, the model's row, the constraint's matcher and its rules' states.

All are at the same place. What a rule has read is a value, kept by the number of tokens before it. So going back is to
delete what was after, and another text that begins like this one is a copy.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from copy import copy
from itertools import accumulate
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import numpy as np

from structgen.chat.parser import begun_stop
from structgen.chat.row_turn import TurnReading
from structgen.decoding.choosing.measure import Entry
from structgen.decoding.refusals.retry_tree import RetryTree
from structgen.endings.agreed import SearchEffort
from structgen.masks import Matcher
from structgen.masks.words import Words, pack
from structgen.models.row import Row
from structgen.vocabulary import Vocabulary

S = TypeVar("S")
State = TypeVar("State", covariant=True)


class Reader(Protocol[State]):
    """What reads a text, token by token or only here and there. It has no state of its own."""

    def start(self, prompt: Sequence[int]) -> State:
        """The state before the first token."""


class TokenReader(Reader[S], Protocol[S]):
    """What reads each token."""

    def feed(self, state: S, token: int, piece: bytes) -> S:
        """The state after a token, whose text is `piece`. Pure: no state is changed."""


class CutOff(NamedTuple):
    """A limit has ended the row within its calls.

    Attributes:
        tokens: the number of tokens before the end.
        name, limit: as in `Cap`.
        token: the one that exceeded a cap; None if the text only ended there.
    """

    tokens: int
    name: str
    limit: float
    token: int | None = None


class Seam:
    """Where a prompt and its text meet: the prompt's last token is chosen together with the text's first characters.

    Args:
        own: the prompt's last token.
        words: the tokens that may come in its place.

    Attributes:
        chosen: the token that has come in its place, and where its choice is measured; None while it is to be chosen.
    """

    def __init__(self, own: int, words: Words) -> None:
        self.own, self._words = own, words
        self.chosen: tuple[int, Entry] | None = None
        self._tried: list[int] = []
        self._known: dict[tuple[int, ...], tuple[int, Entry]] = {}  # by the text's tokens that each starts with

    @property
    def left(self) -> Words:
        """The tokens that were not tried; when there are none, the prompt's own."""
        width = 32 * len(self._words)
        left: Words = self._words & ~pack(np.array(self._tried, np.int64), width)
        return left if left.any() or self.own in self._tried else pack(np.array([self.own]), width)

    def close(self, token: int, entry: Entry, begun: Sequence[int]) -> None:
        """A token was chosen, with which the text begins with these tokens."""
        self.chosen = token, entry
        self._known[tuple(begun)] = token, entry

    def refuse(self, token: int) -> None:
        """A token may not come in place of the prompt's last one."""
        self._tried.append(token)

    def rest(self, vocabulary: Vocabulary, token: int) -> bytes:
        """The text that begins with a token in place of the prompt's last one."""
        return vocabulary.token(token)[len(vocabulary.token(self.own)) :]

    def reopen(self) -> None:
        """The text goes back after the chosen token: another one is chosen."""
        if self.chosen is not None:
            self.refuse(self.chosen[0])
        self.chosen = None

    def begins(self, tokens: Sequence[int]) -> tuple[int, Entry] | None:
        """The token with which a text has started before, if any."""
        found = [size for size in range(1, len(tokens) + 1) if tuple(tokens[:size]) in self._known]
        return self._known[tuple(tokens[: found[-1]])] if found else None


class Transcript:
    """The text of one row. Only `take`, `heal` and `cut` change it, and its parts go together.

    Args:
        matcher: of the row's constraint; None for plain text.
        row: what the model has to read.
        readers: those whose states are kept.
        turn: one of them, which finds stop strings in the free text of a turn; None: they hold everywhere.
        retries: what was refused of texts of the row.

    Attributes:
        entries: where each token is measured; None if the model was not asked.
        states: of each reader, its state by the number of tokens before it, in ascending order; the first is at 0.
        budget: the most tokens that it may have.
        said: the tokens' text, without a stop string.
        seam: where it meets its prompt, if the prompt's last token may be another one; else None.
        at_seam: the seam, while that token is chosen next; else None.
        healed: the number of tokens at the start that stand for the end of the row's token before them, see `heal`.
        stop_strings: those that may end it.
        stop: the one before which it ends; None without one.
        cut_off: where a limit has ended it within its calls; else None.
        effort: of searches for its end.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        matcher: Matcher | None,
        row: Row,
        stop: Sequence[str] = (),
        readers: Iterable[Reader[Any]] = (),
        turn: TurnReading | None = None,
        retries: RetryTree | None = None,
    ) -> None:
        self.matcher, self.row = matcher, row
        self.tokens: list[int] = []
        self.entries: list[Entry | None] = []
        self.states: dict[Reader[Any], dict[int, Any]] = {each: {0: each.start(row.ids)} for each in readers}
        self.retries = RetryTree() if retries is None else retries
        self.said, self.budget = bytearray(), sys.maxsize
        self._cut_off = b""  # the stop string and what follows it: the rest of the tokens' text
        self.vocabulary = vocabulary
        self._stop, self._turn = [text.encode() for text in stop if turn is None], turn
        self.stop: str | None = None
        self.stop_strings = tuple(stop)
        self.seam = self.at_seam = cast("Seam | None", None)
        self.healed = 0
        self.cut_off: CutOff | None = None
        self.effort = SearchEffort()

    @property
    def has_room(self) -> bool:
        """True if a token may follow the next one."""
        return len(self.tokens) + 1 < self.budget

    @property
    def said_before_last(self) -> int:
        """The number of bytes before the last token."""
        return len(self.said) - len(self.vocabulary.token(self.tokens[-1]))

    def fork(self) -> Transcript:
        """Another text that begins like this one. Its row has only the tokens added to it."""
        twin = copy(self)
        twin.matcher = None if self.matcher is None else self.matcher.fork()
        twin.tokens, twin.entries, twin.said = self.tokens[:], self.entries[:], self.said[:]
        twin.states = {reader: states.copy() for reader, states in self.states.items()}
        twin.row, twin.effort = Row(()), copy(self.effort)
        return twin

    def state(self, reader: TokenReader[S], count: int | None = None) -> S:
        """The state of what reads each token, after the first `count` tokens; after all by default."""
        states, count = self.states[reader], len(self.tokens) if count is None else count
        if (state := states.get(count)) is None:
            last = next(reversed(states))
            state = states[last]
            for number in range(last, count):
                token = self.tokens[number]
                state = states[number + 1] = reader.feed(state, token, self.vocabulary.token(token))
        found: S = state
        return found

    def text(self) -> str:
        return self.said.decode("utf-8", errors="replace")

    def take(self, token: int, entry: Entry | None) -> None:
        if self.matcher is not None:
            self.matcher.advance(token)
        self.tokens.append(token)
        self.row.ids.append(token)
        self.entries.append(entry)
        self.said += self.vocabulary.token(token)

    def open_seam(self, seam: Seam) -> None:
        """Begins again, without the prompt's last token. The prompt is text, and nothing of it was read."""
        self.cut(0)
        self.row, self.seam, self.at_seam = Row(self.row.ids[:-1]), seam, seam

    def heal(self, token: int, entry: Entry) -> None:
        """Takes a token in place of the prompt's last one. The text begins with the rest of it, in tokens of its own,
        which the model's row does not have."""
        assert self.seam is not None
        self.row.ids.append(token)
        begun = self.vocabulary.trie.spelled(self.seam.rest(self.vocabulary, token))
        for each in begun:
            if self.matcher is not None:
                self.matcher.advance(each)
        self.tokens += begun
        self.entries += [entry] * len(begun)
        self.healed = len(begun)
        self.said += self.vocabulary.decode(begun)
        self.seam.close(token, entry, begun)
        self.at_seam = None

    def cut(self, length: int) -> str:
        """Goes back to the first `length` tokens, and returns the text of the others.

        Where some of the others stand for the end of a token, it goes back to the choice of that token.
        """
        length = length if length >= self.healed else 0
        gone = self.tokens[length:]
        if self.matcher is not None:
            self.matcher.rollback(len(gone))
        del self.tokens[length:], self.entries[length:]
        for states in self.states.values():
            while next(reversed(states)) > length:
                states.popitem()
        taken_back = self.vocabulary.decode(gone)
        self.said += self._cut_off
        del self.said[len(self.said) - len(taken_back) :]
        self._cut_off, self.stop = b"", None
        if self.cut_off is not None and self.cut_off.tokens > length:
            self.cut_off = None
        if self.seam is not None and length < self.healed:
            self.row.truncate(len(self.row.ids) - len(gone) + self.healed - 1)
            self.healed = 0
            self.seam.reopen()
            self.at_seam = self.seam
        else:
            self.row.truncate(len(self.row.ids) - len(gone))
        return taken_back.decode("utf-8", errors="replace")

    def cut_at(self, offset: int) -> None:
        """Goes back to the tokens that end before the byte at `offset`; takes nothing back if there is no such byte."""
        ends = accumulate(len(self.vocabulary.token(token)) for token in self.tokens)
        self.cut(sum(end <= offset for end in ends))

    def stopped(self) -> bool:
        """Does a stop string end in the last token? If so, cuts the text off before it."""
        if self._turn is not None and self.stop_strings:
            stop = self.state(self._turn).stop(self.said)
            return stop is not None and self._cut_before(*stop)
        if not self._stop:
            return False
        last = len(self.vocabulary.token(self.tokens[-1])) if self.tokens else 0
        offsets = [(self.said.find(stop, max(0, len(self.said) - last - len(stop) + 1)), stop) for stop in self._stop]
        offset, stop_bytes = min((each for each in offsets if each[0] >= 0), default=(-1, b""))
        return offset >= 0 and self._cut_before(offset, stop_bytes.decode())

    def _cut_before(self, offset: int, stop: str) -> bool:
        """Cuts the text off before its stop string."""
        self._cut_off, self.stop = bytes(self.said[offset:]), stop
        del self.said[offset:]
        return True

    def begun_stop(self) -> int:
        """The number of bytes at the end that may begin a stop string."""
        return begun_stop(self.said, self._stop)
