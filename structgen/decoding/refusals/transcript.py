"""The text of one row: its tokens and bytes, the model's row and the constraint's matcher, all at the same place."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from copy import copy
from itertools import accumulate

from structgen.chat.stopping import TurnReading
from structgen.decoding.choosing.measure import Entry
from structgen.masks import Matcher
from structgen.models.row import Row
from structgen.vocabulary import Vocabulary

Follower = Callable[[int, bytearray], None]
"""Goes back to the first tokens of a text, given their number and their text."""


class Transcript:
    """The text of one row. Only `take`, `heal` and `cut` change it, and its parts go together.

    Args:
        matcher: of the row's constraint; None for plain text.
        row: what the model has to read.
        followers: called when it is cut.
        turn: finds stop strings in the free text of a turn; None: they hold everywhere.

    Attributes:
        entries: where each token is measured; None if the model was not asked.
        budget: the most tokens that it may have.
        forced: the number of tokens that were taken without asking the model.
        said: the tokens' text, without a stop string.
        healed: the number of tokens at the start that stand for the end of the row's token before them, see `heal`.
        stop_strings: those that may end it.
        stop: the one before which it ends; None without one.
        prompt_end: the prompt's last token, if the row has another one in its place; else empty.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        matcher: Matcher | None,
        row: Row,
        stop: Sequence[str] = (),
        followers: Sequence[Follower] = (),
        turn: TurnReading | None = None,
    ) -> None:
        self.matcher, self.row = matcher, row
        self.tokens: list[int] = []
        self.entries: list[Entry | None] = []
        self.forced = 0
        self.said = bytearray()
        self._cut_off = b""  # the stop string and what follows it: the rest of the tokens' text
        self._vocabulary, self._followers = vocabulary, followers
        self._stop, self._turn = [text.encode() for text in stop if turn is None], turn
        self.stop: str | None = None
        self.stop_strings = tuple(stop)
        self.healed = 0
        self.prompt_end: list[int] = []
        self.budget = sys.maxsize

    @property
    def has_room(self) -> bool:
        """True if a token may follow the next one."""
        return len(self.tokens) + 1 < self.budget

    def fork(self, followers: Sequence[Follower]) -> Transcript:
        """Another text that begins like this one, with its own followers. Its row has only the tokens added to it."""
        twin = copy(self)
        twin.matcher = None if self.matcher is None else self.matcher.fork()
        twin.tokens, twin.entries, twin.said = self.tokens[:], self.entries[:], self.said[:]
        twin.row, twin._followers = Row(()), followers
        return twin

    def text(self) -> str:
        return self.said.decode("utf-8", errors="replace")

    def take(self, token: int, entry: Entry | None) -> None:
        if self.matcher is not None:
            self.matcher.advance(token)
        self.tokens.append(token)
        self.row.ids.append(token)
        self.entries.append(entry)
        self.forced += entry is None
        self.said += self._vocabulary.token(token)

    def heal(self, row: Row, tokens: Sequence[int], entry: Entry | None) -> None:
        """Goes on in a row whose last token replaces the prompt's last token and these tokens.

        If the text goes back behind one of these, the row has the prompt's own token again, and the rest behind it.

        Args:
            entry: where the choice of the row's last token is measured.
        """
        self.prompt_end, self.row = self.row.ids[-1:], row
        for token in tokens:
            self.take(token, entry)
        row.truncate(len(row.ids) - len(tokens))
        self.healed = len(tokens)

    def cut(self, length: int) -> str:
        """Goes back to the first `length` tokens, and returns the text of the others."""
        gone = self.tokens[length:]
        if self.matcher is not None:
            self.matcher.rollback(len(gone))
        self.forced -= self.entries[length:].count(None)
        del self.tokens[length:], self.entries[length:]
        taken_back = self._vocabulary.decode(gone)
        self.said += self._cut_off
        del self.said[len(self.said) - len(taken_back) :]
        self._cut_off, self.stop = b"", None
        for follower in self._followers:
            follower(length, self.said)
        if length < self.healed:
            self.row.truncate(len(self.row.ids) - len(gone) + self.healed - length - 1)
            self.row.ids += [*self.prompt_end, *self.tokens]
            self.healed, self.prompt_end = 0, []
        else:
            self.row.truncate(len(self.row.ids) - len(gone))
        return taken_back.decode("utf-8", errors="replace")

    def cut_at(self, offset: int) -> None:
        """Goes back to the tokens that end before the byte at `offset`; takes nothing back if there is no such byte."""
        ends = accumulate(len(self._vocabulary.token(token)) for token in self.tokens)
        self.cut(sum(end <= offset for end in ends))

    def stopped(self) -> bool:
        """Does a stop string end in the last token? If so, cuts the text off before it."""
        if self._turn is not None and self.stop_strings:
            stop = self._turn.stop(self.tokens, self.said)
            return stop is not None and self._cut_before(*stop)
        if not self._stop:
            return False
        last = len(self._vocabulary.token(self.tokens[-1])) if self.tokens else 0
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
        ends = (n for stop in self._stop for n in range(1, len(stop)) if self.said.endswith(stop[:n]))
        return max(ends, default=0)
