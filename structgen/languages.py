"""Languages of the user's own: byte machines written in Python."""

from __future__ import annotations

from dataclasses import dataclass

from structgen.automaton.composed import Composed
from structgen.automaton.machines import ByteMachine, MachinePart
from structgen.automaton.parts import Plan
from structgen.errors import OptionError
from structgen.masks.grammar import Grammar
from structgen.vocabulary import Vocabulary

__all__ = ["ByteMachine", "Machine"]


@dataclass(frozen=True)
class Machine:
    """Texts that a byte machine accepts.

        class EvenA:
            start = 0

            def step(self, state, byte):
                return state ^ 1 if byte == ord("a") else None

            def accepts(self, state):
                return state == 0

        Machine(EvenA())

    A state from which nothing can be accepted any more is a dead end: `step` should give None instead of it.

    Attributes:
        machine: any object with `start`, `step(state, byte)` and `accepts(state)`; see `ByteMachine`.

    Raises:
        OptionError: it is none. When it is used: a state that is not hashable.
    """

    machine: ByteMachine

    def __post_init__(self) -> None:
        if not isinstance(self.machine, ByteMachine) or isinstance(self.machine, type):
            raise OptionError(f"{self.machine!r:.80}: expected an object with start, step(state, byte), accepts(state)")

    def plan(self) -> Plan:
        """The texts as a part of a composition."""
        return MachinePart(self.machine)

    def compile(self, vocabulary: Vocabulary) -> Grammar:
        """The grammar; states are asked for when a walk meets them."""
        return Grammar(Composed(self.plan()), vocabulary)
