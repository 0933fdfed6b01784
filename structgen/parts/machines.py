"""A caller's own byte machine, written in Python, as states of the tables."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

from structgen.automaton.machine import Automaton
from structgen.automaton.table_format import NOTHING, POP, merged_edges
from structgen.callbacks import Calling
from structgen.errors import OptionError, quoted
from structgen.parts.parts import Entered, Families, Part


@runtime_checkable
class ByteMachine(Protocol):
    """A deterministic automaton over bytes.

    States are hashable values other than None. Equal states have equal futures. `step` and `accepts` must be pure: each
    is called only once for a state (and byte), and the answer is kept.

    Attributes:
        start: the state before the first byte.
    """

    start: Any

    def step(self, state: Any, byte: int, /) -> Any:
        """The state after a byte, 0 to 255; None if the byte is refused."""
        ...

    def accepts(self, state: Any, /) -> bool:
        """May the text end in this state?"""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class MachinePart(Part):
    """A byte machine in the tables: one state for each of its own."""

    machine: ByteMachine

    def enter(self, automaton: Automaton, families: Families) -> Entered:
        return Entered(_Interned(automaton, self.machine).state(self.machine.start))


class _Interned:
    def __init__(self, automaton: Automaton, machine: ByteMachine) -> None:
        self._automaton, self._machine = automaton, machine
        self._calling = Calling("machine", machine)
        self._states: dict[Hashable, int] = {}

    def state(self, of: Hashable) -> int:
        """The state of the tables for a state of the machine."""
        try:
            known = self._states.get(of)
        except TypeError as error:
            name = type(self._machine).__name__
            raise OptionError(f"{name} has a state {quoted(of)}: {error}; states must be hashable") from None
        if known is None:
            known = self._states[of] = self._automaton.later(partial(self._expand, of))
        return known

    def _expand(self, of: Hashable, state: int) -> None:
        with self._calling:
            after = [self._machine.step(of, byte) for byte in range(256)]
            ends = self._machine.accepts(of)
        edges = merged_edges(enumerate(0 if each is None else self.state(each) for each in after))
        self._automaton.tables.ranges(state, edges, miss=(POP, 0, 0) if ends else (NOTHING, 0, 0))
