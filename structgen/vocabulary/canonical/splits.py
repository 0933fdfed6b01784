"""Where a pre-tokenizer cuts, as an automaton over the characters of a text and the joints of its tokens.

A letter of the automaton is the class of a character, and the kind of the place before it.

- `INSIDE`: within a token, so the pre-tokenizer must not cut here.
- `CUT`: between two tokens that byte-pair encoding would not leave side by side, so it must cut here.
- `FREE`: between two tokens that may stand side by side; it may cut here or not.

A text with its tokens is canonical if the pre-tokenizer cuts at all places marked `CUT` and at none marked `INSIDE`.
Whether it cuts may depend on what follows (`\\s+(?!\\S)`), so a state also knows which cuts are still to be confirmed.
The automaton is learned by asking (Myhill and Nerode): two prefixes are one state if no short continuation
distinguishes them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from structgen.errors import OptionError
from structgen.memo import cached_method

INSIDE, CUT, FREE = 0, 1, 2
DEAD, START = 0, 1
"""States: no continuation is canonical; nothing was read yet."""

MAX_STATES = 1_000
CHECKED = 1_000
"""Random texts that the learned automaton is tested with."""

Cuts = Callable[[str], "list[int]"]
"""The places where a pre-tokenizer cuts a text, without its start and its end."""
Word = tuple[tuple[int, int], ...]
"""Letters: class and place."""


@dataclass(frozen=True, slots=True, eq=False)
class Splits:
    """The learned automaton.

    Attributes:
        classes: uint8[0x110000]: the class of each character.
        following: int16[states, classes, 3]: the state behind a letter; `DEAD` where that is not canonical.
        may_end: bool[states]: whether the text may end.
    """

    classes: NDArray[np.uint8]
    following: NDArray[np.int16]
    may_end: NDArray[np.bool_]

    def follow(self, state: int, text: str, place: int) -> int:
        """The state behind some characters; `place` is the kind of place before the first one."""
        for character in text:
            state = self.following.item(state, self.classes.item(ord(character)), place)
            place = INSIDE
        return state


def learn(classes: NDArray[np.uint8], cuts: Cuts) -> Splits:
    """The automaton of a pre-tokenizer.

    Args:
        classes: uint8[0x110000]: the class of each character.
        cuts: asks the pre-tokenizer.

    Raises:
        OptionError: the learned automaton does not predict the pre-tokenizer's cuts.
    """
    return _Learner(classes, cuts).splits


class _Learner:
    """Asks a pre-tokenizer until no test distinguishes further states; `splits` is the result. See `learn`."""

    def __init__(self, classes: NDArray[np.uint8], cuts: Cuts) -> None:
        self._cuts = cuts
        members = [np.flatnonzero(classes == i) for i in range(int(classes.max()) + 1)]
        self._members = [
            "".join(map(chr, each[:: max(1, len(each) // 32)].tolist())) for each in members
        ]  # some of each
        alphabet = range(len(self._members))
        self._tests: list[tuple[int, ...]] = [()]
        self._tests += [(a,) for a in alphabet] + list(product(alphabet, alphabet)) + [(a, a, a) for a in alphabet]
        self.splits = Splits(classes, *self._learn())
        self._check()

    def _learn(self) -> tuple[NDArray[np.int16], NDArray[np.bool_]]:
        words: list[Word] = [(), ()]
        known: dict[tuple[int, ...], int] = {self._answers(()): START}
        rows, ends = [[[DEAD] * 3 for _ in self._members]], [False]
        number = START
        while number < len(words):
            rows.append([])
            ends.append(self._answers(words[number])[0] >= 0)
            for letter in range(len(self._members)):
                targets = []
                for place in (INSIDE, CUT, FREE):
                    word = (*words[number], (letter, place))
                    answers = self._answers(word)
                    target = DEAD
                    if any(answer >= 0 for answer in answers):
                        target = known.setdefault(answers, len(words))
                        if target == len(words):
                            words.append(word)
                    targets.append(target)
                rows[number].append(targets)
            if len(words) > MAX_STATES:
                raise OptionError(f"canonical tokens: the pre-tokenizer takes more than {MAX_STATES:,} states")
            number += 1
        return np.array(rows, np.int16), np.array(ends, np.bool_)

    def _answers(self, word: Word) -> tuple[int, ...]:
        """The answer to each test behind a word: -1 where the word is not canonical, else the cuts behind the word."""
        read = tuple(letter for letter, _ in word)
        inside = sum(1 << i for i, (_, place) in enumerate(word) if place == INSIDE)
        cut = sum(1 << i for i, (_, place) in enumerate(word) if place == CUT)
        answers = []
        for test in self._tests:
            bits = self._bits(read + test)
            answers.append(-1 if bits & inside or ~bits & cut else bits >> len(word))
        return tuple(answers)

    @cached_method
    def _bits(self, letters: tuple[int, ...]) -> int:
        """The cuts of a text of these classes as bits; its start counts as a cut."""
        text = "".join(self._members[letter][0] for letter in letters)
        return sum(1 << place for place in self._cuts(text)) | bool(text)

    def _check(self) -> None:
        """Test the automaton with random texts."""
        draw = random.Random(0)
        for _ in range(CHECKED):
            letters = draw.choices(range(len(self._members)), k=draw.randint(1, 10))
            text = "".join(draw.choice(self._members[letter]) for letter in letters)
            cuts = set(self._cuts(text))
            places = [FREE] + [draw.choice([CUT if i in cuts else INSIDE, FREE]) for i in range(1, len(text))]
            wrong = draw.randrange(len(text))
            spoiled = places[:]
            if wrong:
                spoiled[wrong] = INSIDE if wrong in cuts else CUT
            for tried, expected in ((places, True), (spoiled, not wrong)):
                state = START
                for letter, place in zip(letters, tried, strict=True):
                    state = int(self.splits.following[state, letter, place])
                if bool(self.splits.may_end[state]) != expected:
                    raise OptionError("canonical tokens: tests did not show how the pre-tokenizer cuts texts")
