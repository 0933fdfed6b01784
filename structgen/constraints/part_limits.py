"""Limits of single parts: how many tokens may begin in one, and their temperature.

The automaton knows no tokens, so they are counted next to it, by the threads that are alive after each byte: a token
begins in a part if its first byte is the part's. As soon as the shortest end of the part needs all tokens that are
left, only this end may follow: the part's thread is replaced by one that reads the end and continues after the part. A
partial character is completed first, and a token can make the end longer, where a pattern wants more text. So the part
may have a few tokens more than its limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from structgen.arguments import MAX_INTEGER, is_number, is_whole, require
from structgen.automaton.table_format import TARGET
from structgen.endings.closing import Closing
from structgen.errors import OptionError
from structgen.masks.budgets import Counted
from structgen.masks.grammar import Grammar
from structgen.memo import cached_method, cached_up_to
from structgen.parts.composed import Composed
from structgen.parts.parts import Part, PartLimits, Texts
from structgen.parts.threads import Thread


def part_limits(max_tokens: Any = None, temperature: Any = None) -> PartLimits | None:
    """The limits of a part; None for none.

    Raises:
        OptionError: one of them is malformed.
    """
    most = max_tokens is None or is_whole(max_tokens, 1, MAX_INTEGER)
    require(most, "max_tokens", max_tokens, "a positive whole number, or None")
    warm = temperature is None or is_number(temperature, 0)
    require(warm, "temperature", temperature, "a finite number of at least 0, or None")
    return None if max_tokens is None and temperature is None else PartLimits(max_tokens, temperature)


_WITHIN = frozenset(bytes([byte]) for byte in range(0x80, 0xC0))
"""The bytes within a character: it is the model's to complete."""


class PartBudgets:
    """The limits of the parts of a grammar; see `masks.budgets`.

    Raises:
        OptionError: a part has no text of so few tokens.
    """

    def __init__(self, grammar: Grammar, automaton: Composed) -> None:
        self._grammar, self._automaton, self._closing = grammar, automaton, Closing.of(grammar)
        limits = {part: part.limits for part in automaton.limited if part.limits is not None}
        self.temperatures = frozenset(each.temperature for each in limits.values() if each.temperature is not None)
        for part, (most, _) in limits.items():
            with grammar.lock:
                start = automaton.enter(part).start
            least = self._closing.cost(start)
            if most is not None and least and least >= most:
                raise OptionError(f"max_tokens={most} of a part: its shortest text needs {least}, and one is to spare")

    def after(self, before: int, token: int, position: int, counted: Counted) -> tuple[int, Counted]:
        """See `Budgets`."""
        with self._grammar.lock:
            if not counted and not self._begun(position & TARGET):
                return position, ()
        counts, ends = self._read(before, token, counted)
        if ends:
            with self._grammar.lock:
                position = self._ended(position, ends)
                going = self._begun(position & TARGET)
            counts = {part: count for part, count in counts.items() if part in going}
        return position, tuple(counts.items())

    def cut(self, before: int, token: int, counted: Counted) -> int | None:
        """See `Budgets`."""
        limits = [thread.part.limits for thread in self._read(before, token, counted)[1]]
        return next((each.max_tokens for each in limits if each is not None), None)

    def _read(self, before: int, token: int, counted: Counted) -> tuple[dict[object, int], dict[Thread, bytes]]:
        """The counts after a token, and the threads of which only these ends may follow."""
        with self._grammar.lock:
            position, counts = self._walked(before, self._grammar.vocabulary.token(token), dict(counted))
            begun = list(self._threads(position, counts))
        ends = ((thread, self._only_end(thread, left)) for thread, left in begun)
        return counts, {thread: end for thread, end in ends if end is not None}

    def _walked(self, position: int, token: bytes, counts: dict[object, int]) -> tuple[int, dict[object, int]]:
        """The position after one more token, and the number of tokens that have started in each part there."""
        own = frozenset[object]()
        for place, byte in enumerate(token):
            position = self._automaton.walk.step(position, byte, lambda check, taken: True)
            going = self._begun(position & TARGET)
            own = frozenset(going) if place == 0 else own & going
            counts = {part: counts.get(part, 0) for part in going}
        return position, {part: count + (part in own) for part, count in counts.items()}

    def temperature(self, position: int) -> float | None:
        """See `Budgets`. Where the text may be in several parts, the first of them that has a temperature counts."""
        with self._grammar.lock:
            return self._temperature(position)

    @cached_up_to(1 << 12)
    def _temperature(self, position: int) -> float | None:
        threads = self._automaton.threads_at(position)
        for thread in [each for each in threads if not each.fresh] or threads:
            limits = thread.part.limits
            found = limits.temperature if limits else self._temperature(thread.position)
            if found is not None:
                return found
        return None

    @cached_method
    def _begun(self, state: int) -> frozenset[object]:
        """The parts with limits of which the text at a state has read something."""
        begun = [thread for thread in self._automaton.threads_at(state) if not thread.fresh]
        nested = [self._begun(thread.position & TARGET) for thread in begun if thread.part.limits is None]
        return frozenset(thread.part for thread in begun if thread.part.limits).union(*nested)

    def _threads(self, position: int, counts: Mapping[object, int]) -> Iterator[tuple[Thread, int]]:
        """The threads in parts with a bound of tokens, and how many tokens may still begin in each."""
        for thread in self._automaton.threads_at(position):
            if thread.part in counts and thread.part.limits and not thread.fresh:
                most = thread.part.limits.max_tokens
                if most is not None:
                    yield thread, most - counts[thread.part]
            elif not thread.fresh and thread.part.limits is None:
                yield from self._threads(thread.position, counts)

    def _only_end(self, thread: Thread, left: int) -> bytes | None:
        """The shortest end of a thread's part, if it needs all tokens that are left."""
        end = self._closing.ending(thread.position)
        if end is None or len(end) < left or end[:1] in _WITHIN:
            return None
        tokens = self._closing.speller.spelled(end)
        return end if tokens is not None and len(tokens) >= left else None

    def _ended(self, position: int, ends: Mapping[Thread, bytes]) -> int:
        """The position in which only these ends may follow in the parts of these threads."""
        threads = self._automaton.threads_at(position)
        left = dict.fromkeys(each for thread in threads for each in self._after(thread, ends))
        return position if left.keys() == set(threads) else self._automaton.position_of(position, left)

    def _after(self, thread: Thread, ends: Mapping[Thread, bytes]) -> Iterable[Thread]:
        """What takes the place of a thread."""
        if thread not in ends:
            if thread.fresh or thread.part.limits is not None:
                return [thread]
            inner = self._ended(thread.position, ends)
            return [thread._replace(position=inner)] if inner else []
        if not ends[thread]:
            return self._automaton.reach_after([thread]).threads
        entered = self._automaton.enter(self._only(ends[thread]))
        return [Thread(entered.start, entered, thread.after, frozenset())]

    @cached_method
    def _only(self, text: bytes) -> Part:
        return Texts((text,))
