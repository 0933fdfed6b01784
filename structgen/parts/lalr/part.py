"""An LALR grammar in the tables of an automaton: frames are the parser's stack.

Every state below the top of the stack is a frame; a token is one more frame above them, the scanner's. A shift calls. A
reduction by `A: x y z` leaves the frames of what it takes off, each of which is told how many are still to go, and the
last one calls the state behind `A`. All of it is done on arrival, between two bytes, and may be done because a viable
terminal is always shifted in the end (see `lr1`).

A tail state (see `LR1.tail`) is entered by a tail call. Of `s: x s | y`, the frames of `x` are left as soon as `x` is
read; and where the state below is a tail state too which that `s` would complete, no frame is made of it: the new state
delivers what the one below would have delivered. So lists that recurse to the right, as GBNF writes them, take no more
stack than those that recurse to the left, and their positions are the same behind each item.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from structgen.automaton.machine import Automaton
from structgen.automaton.table_format import CALL, EAGER, GOTO, NOTHING, POP
from structgen.automaton.writing.chars import lift
from structgen.errors import OptionError
from structgen.memo import Numbering, cached_method
from structgen.parts.lalr.grammar import END, LalrGrammar
from structgen.parts.lalr.lr1 import LR1, LrState
from structgen.parts.lalr.scanner import Scanners, Token
from structgen.parts.parts import Entered, Families, Part
from structgen.regular.chardfa import CharDfa

ACCEPTED = 0
"""The outcome of a text that is complete; others are reductions."""


@dataclass(frozen=True, eq=False)
class LarkPart(Part):
    """The texts of a grammar."""

    grammar: LalrGrammar

    def enter(self, automaton: Automaton, families: Families) -> Entered:
        return Entered(_Parser(automaton, self.grammar).start, self._bytes())

    def _bytes(self) -> frozenset[int]:
        """All bytes that stand in some text."""
        ranges = [pair for each in self.grammar.program.sets for pair in each]
        used = frozenset(byte for low, high in ranges for byte in range(low, min(high, 127) + 1))
        beyond = any(high >= 128 for _, high in ranges)
        return used | frozenset(range(128, 256) if beyond else ())


class Reduction(NamedTuple):
    """To what the parser reduces, frames still to be left, and the token that comes next."""

    origin: str
    left: int
    token: Token


class TailCall(NamedTuple):
    """The tail state that the parser enters, frames still to be left, and the token: shifted, or coming next."""

    target: LrState
    left: int
    token: Token
    shifted: bool


class _Parser:
    """The states of one grammar in one automaton."""

    def __init__(self, automaton: Automaton, grammar: LalrGrammar) -> None:
        self._automaton, self._grammar = automaton, grammar
        automaton.tables.keep_steps()
        self._states, self._scanners = LR1(grammar), Scanners(grammar)
        self._dead = automaton.tables.ranges(automaton.tables.stub(), ())
        self._outcomes = Numbering[Reduction | TailCall | None]()
        assert self._outcomes[None] == ACCEPTED
        self.start = self._scan(self._states.first, "")

    @cached_method
    def _scan(self, top: LrState, read: str) -> int:
        """The state in which the next token is looked for, of which `read` was read already."""
        return self._replay(top, read) if read else self._automaton.later(partial(self._expand_scan, top))

    def _expand_scan(self, top: LrState, state: int) -> None:
        dfa = self._scanner(top)
        self._call(state, self._start_of(dfa), -self._scanned(top))

    def _replay(self, top: LrState, read: str) -> int:
        """The state behind characters that were read before this context was known."""
        dfa = self._scanner(top)
        for i in range(len(read)):
            if dfa.state_after(read[: i + 1]):
                continue
            final = dfa.final[dfa.state_after(read[:i])]
            if not final:
                return self._dead
            token = self._scanners.tokens.things[final - 1]
            return self._act(top, Token(token.terminal, token.behind + read[i:]))
        inside = self._start_of(dfa) + dfa.state_after(read) - 1
        return self._automaton.tables.call(inside, -self._scanned(top))

    @cached_method
    def _act(self, top: LrState, token: Token) -> int:
        """The state in which the parser does what it does on a token."""
        return self._automaton.later(partial(self._expand_act, top, token))

    def _expand_act(self, top: LrState, token: Token, state: int) -> None:
        terminal, behind = token
        number = None if terminal in self._grammar.ignore else self._states.reduction(top, terminal)
        if terminal in self._grammar.ignore:
            self._automaton.tables.ranges(state, (), miss=(GOTO, self._scan(top, behind), 0))
        elif number is not None:
            rule = self._grammar.rules[number]
            if top.delivers and rule.expansion:
                self._leave(state, top, Reduction(top.delivers, 1, token))
            else:
                self._leave(state, top, Reduction(rule.origin, len(rule.expansion), token))
        elif terminal == END:
            # What was read behind the end is nothing that could follow it.
            self._automaton.tables.ranges(state, (), miss=(NOTHING, 0, 0) if behind else (POP | EAGER, ACCEPTED, 0))
        else:
            self._enter(state, top, self._states.goto(top, terminal), token, shifted=True)

    def _leave(self, state: int, top: LrState, outcome: Reduction | TailCall) -> None:
        """Leave frames until the one is met from which a reduction or a tail call goes on."""
        if outcome.left:
            number = self._outcomes[outcome._replace(left=outcome.left - 1)]  # what is left of it
            self._automaton.tables.ranges(state, (), miss=(POP | EAGER, number, 0))
        elif isinstance(outcome, TailCall):
            self._land(state, top, outcome)
        else:
            self._reduced(state, top, outcome.origin, outcome.token)

    def _reduced(self, state: int, top: LrState, origin: str, token: Token) -> None:
        """Go on behind what was reduced to `origin`, and then by rules of one symbol, which come back to `top`."""
        rules = self._grammar.rules
        for _ in rules:
            if self._states.completes(top, origin):
                return self._leave(state, top, Reduction(top.delivers, 1, token))
            behind = self._states.goto(top, origin)
            number = self._states.reduction(behind, token.terminal)
            if number is None or len(rules[number].expansion) != 1:
                return self._enter(state, top, behind, token, shifted=False)
            origin = rules[number].origin
        raise OptionError(
            f"the rule {origin} is reduced to itself for ever before {token.terminal}, by rules of one symbol"
        )

    def _enter(self, state: int, top: LrState, target: LrState, token: Token, *, shifted: bool) -> None:
        """Go on in `target`, above `top`."""
        tail = self._states.tail(target)
        if tail is None:
            self._call(state, self._going_on(target, token, shifted), -self._below(top))
        else:
            self._leave(state, top, TailCall(target, tail.read - 1, token, shifted))

    def _land(self, state: int, top: LrState, call: TailCall) -> None:
        """Enter a tail state whose rule began in `top`; without a frame of `top` where that would only pass it on."""
        tail = self._states.tail(call.target)
        assert tail is not None
        passes = self._states.completes(top, tail.origin)
        target = self._states.delivering(call.target, top.delivers if passes else tail.origin)
        going_on = self._going_on(target, call.token, call.shifted)
        if passes:
            self._automaton.tables.ranges(state, (), miss=(GOTO, going_on, 0))
        else:
            self._call(state, going_on, -self._below(top))

    def _going_on(self, top: LrState, token: Token, shifted: bool) -> int:
        """The state in which the parser goes on behind a token that was shifted, or before one that comes next."""
        return self._scan(top, token.behind) if shifted else self._act(top, token)

    @cached_method
    def _below(self, top: LrState) -> int:
        """The row of returns for a state that is below the top of the stack."""
        return -self._automaton.returns(partial(self._returned, top))

    def _returned(self, top: LrState, outcome: int) -> int:
        if outcome == ACCEPTED:
            return self._automaton.pop(0)
        going_on = self._outcomes.things[outcome]
        assert going_on is not None
        state = self._automaton.tables.stub()
        self._leave(state, top, going_on)
        return state

    @cached_method
    def _scanned(self, top: LrState) -> int:
        """The row of returns for the tokens that are found in a state."""
        return -self._automaton.returns(
            lambda outcome: self._written(self._act(top, self._scanners.tokens.things[outcome]))
        )

    def _scanner(self, top: LrState) -> CharDfa:
        return self._scanners.scanner(top.lalr, self._states.viable(top))

    @cached_method
    def _start_of(self, dfa: CharDfa) -> int:
        """The first state of a scanner."""
        return lift(self._automaton, dfa, lambda final: final - 1, quoted=False)

    def _call(self, state: int, callee: int, ret: int) -> None:
        self._automaton.tables.ranges(state, (), miss=(CALL | EAGER, self._written(callee), ret))

    def _written(self, state: int) -> int:
        """A state that a walk enters at once: it is written now, so that the walk does not stop for it."""
        self._automaton.expand(state)
        return state
