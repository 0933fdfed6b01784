"""Plain text that is a member of a regular language."""

from __future__ import annotations

from structgen.regular.chardfa import CharDfa
from structgen.automaton.chars import lift
from structgen.automaton.machine import Automaton


class TextAutomaton(Automaton):
    """The automaton of a `CharDfa` over UTF-8, nothing quoted."""

    def __init__(self, language: CharDfa) -> None:
        super().__init__()
        self.start = lift(self, language, lambda final: 0, quoted=False)
