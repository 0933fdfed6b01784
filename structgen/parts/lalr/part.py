"""An LALR grammar in the tables of an automaton: frames are the parser's stack.

A rule that is being read has one frame: the state in which the rule began. The first symbol of a rule calls; each
further symbol replaces the state. Where the rules of a state have read different numbers of symbols, no frame can be
shared, and each symbol calls (`LR1.depth` is 0). The token that is being read has one more frame, the scanner's. A
reduction leaves the frame of its rule, and the state in which the rule began goes on behind the rule's origin. The
parser moves on arrival, between two bytes: a viable terminal is always shifted in the end (see `lr1`), so a mask may
allow it.

Where the parser reduces by the same rule whatever token comes next, it reduces before the token is read: behind the
string of `[ "a"`, the array goes on at once. The token is then looked for among the terminals that Lark's lexer would
have tried before the reduction.

A tail state (see `LR1.tail`) is entered by a tail call. Take `s: x s | y`: when `x` was read, its frame is left. If the
state below is a tail state too, and this `s` completes its rule, the state below gets no frame: the new state delivers
what the state below would have delivered. So right-recursive lists, as GBNF writes them, take no more stack than
left-recursive ones, and their positions are the same behind each item.

The scanners for the first states of the parser are made together when the grammar is compiled. All other states are
written when a walk reaches them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from structgen.automaton.machine import Automaton
from structgen.automaton.table_format import GOTO
from structgen.automaton.writing.chars import Lifted
from structgen.errors import LimitExceeded, OptionError
from structgen.memo import Numbering, cached_method
from structgen.parts.lalr.grammar import END, LalrGrammar
from structgen.parts.lalr.lr1 import LR1, LrState, TokenContext
from structgen.parts.lalr.scanner import Scanners, Token
from structgen.parts.parts import Entered, Families, Part
from structgen.regular.chardfa import CharDfa

ACCEPTED = 0
"""The outcome of a text that is complete. Other outcomes are reductions and tail calls."""
STATES_AHEAD = 128
"""The number of states of the parser, roughly, whose scanners are made when the grammar is compiled."""


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


class Unread(NamedTuple):
    """The next token is still to be found.

    Attributes:
        tried: the terminals that Lark's lexer tries.
        read: the characters that were read already; each stands for its class.
    """

    tried: frozenset[str]
    read: str


class Reduction(NamedTuple):
    """The parser reduces to `origin`, before the token `ahead`."""

    origin: str
    ahead: Token | Unread


class TailCall(NamedTuple):
    """The parser enters `target`, before the token `ahead`, and keeps no frame of the symbols that were left."""

    target: LrState
    ahead: Token | Unread


class _Parser:
    """The states of one grammar in one automaton."""

    def __init__(self, automaton: Automaton, grammar: LalrGrammar) -> None:
        self._automaton, self._grammar = automaton, grammar
        automaton.tables.keep_steps()
        self._states, self._scanners = LR1(grammar), Scanners(grammar)
        with suppress(LimitExceeded):  # the scanner that is too large is made again, alone, if a text needs it
            self._scanners.make(self._states.contexts(STATES_AHEAD))
        self._dead = automaton.tables.ranges(automaton.tables.stub(), ())
        self._outcomes = Numbering[tuple[int, Reduction | TailCall] | None]()
        assert self._outcomes[None] == ACCEPTED
        first = self._states.first
        self.start = self._going_on(first, Unread(grammar.accepts(first.lalr), ""))

    @cached_method
    def _going_on(self, top: LrState, ahead: Token | Unread) -> int:
        """The state in which the parser goes on in `top`."""
        number = self._reduction(top, ahead)
        if number is None:
            return self._read(top, ahead) if isinstance(ahead, Unread) else self._shift(top, ahead)
        rule = self._grammar.rules[number]
        if not rule.expansion:
            return self._automaton.later(partial(self._expand_empty, top, rule.origin, ahead))
        if top.delivers:
            return self._leave(top, self._states.depth(top.lalr), Reduction(top.delivers, ahead))
        return self._leave(top, len(rule.expansion), Reduction(rule.origin, ahead))

    def _reduction(self, top: LrState, ahead: Token | Unread) -> int | None:
        """The rule by which the parser reduces now; None where it reads on."""
        if isinstance(ahead, Unread):
            return self._grammar.sure[top.lalr]
        return self._states.reduction(top, ahead.terminal)

    def _expand_empty(self, top: LrState, origin: str, ahead: Token | Unread, state: int) -> None:
        """Write the state in which a rule of no symbols is complete.

        This waits for a walk: hundreds of such rules may follow each other, and each would nest calls of Python.
        """
        self._automaton.tables.ranges(state, (), miss=(GOTO, self._advance(top, origin, ahead), 0))

    def _read(self, top: LrState, unread: Unread) -> int:
        """The state that reads the next token in `top`, behind the characters of it that were read already."""
        (dfa, start), read = self._scanners.scanner(TokenContext(unread.tried, self._states.viable(top))), unread.read
        for i in range(len(read)):
            if dfa.state_after(read[: i + 1], start):
                continue
            final = dfa.final[dfa.state_after(read[:i], start)]
            if not final:
                return self._dead
            token = self._scanners.tokens.things[final - 1]
            return self._found(top, unread.tried, Token(token.terminal, token.behind + read[i:]))
        inside = self._lifted(dfa) + dfa.state_after(read, start) - 1
        return self._automaton.tables.call(inside, -self._scanned(top, unread.tried))

    def _shift(self, top: LrState, token: Token) -> int:
        """The state behind a token that is shifted in `top`."""
        if token.terminal == END:
            # What was read behind the end is nothing that could follow it.
            return self._dead if token.behind else self._automaton.pop(ACCEPTED)
        target = self._states.goto(top, token.terminal)
        return self._advance(top, token.terminal, Unread(self._grammar.accepts(target.lalr), token.behind))

    def _advance(self, top: LrState, symbol: str, ahead: Token | Unread) -> int:
        """The state behind a symbol that was read in `top`, and behind rules of one symbol to which it is reduced."""
        rules = self._grammar.rules
        for _ in range(len(rules) + 1):
            if self._states.completes(top, symbol):
                return self._leave(top, self._states.depth(top.lalr), Reduction(top.delivers, ahead))
            target = self._states.goto(top, symbol)
            number = self._reduction(target, ahead)
            if number is None or not rules[number].expansion:
                return self._enter(top, target, ahead)
            rule = rules[number]
            if len(rule.expansion) > 1:
                return self._leave(top, len(rule.expansion) - 1, Reduction(rule.origin, ahead))
            symbol = rule.origin
        terminals = [ahead.terminal] if isinstance(ahead, Token) else sorted(self._grammar.reductions[target.lalr])
        before = " or ".join(terminals)
        raise OptionError(f"before {before} the rule {symbol} is reduced to itself without end, by rules of one symbol")

    def _enter(self, top: LrState, target: LrState, ahead: Token | Unread) -> int:
        """The state that goes on in `target`, behind a symbol that was read in `top`."""
        depth, tail = self._states.depth(target.lalr), self._states.tail(target.lalr)
        if depth > 1 and self._states.depth(top.lalr) and tail is None:
            return self._going_on(target, ahead)
        if depth > 1 or tail is not None:
            return self._leave(top, depth - 1, TailCall(target, ahead))
        return self._automaton.tables.call(self._going_on(target, ahead), -self._below(top))

    def _leave(self, top: LrState, left: int, then: Reduction | TailCall) -> int:
        """The state that leaves the frames of `left` symbols, that of `top` first, and then goes on with `then`."""
        if left:
            # The frame of `top` holds all symbols of its rules, or one where their numbers differ.
            return self._automaton.pop(self._outcomes[left - (self._states.depth(top.lalr) or 1), then])
        return self._land(top, then) if isinstance(then, TailCall) else self._advance(top, then.origin, then.ahead)

    def _land(self, top: LrState, call: TailCall) -> int:
        """The state that enters a rule which began in `top`. `top` gets no frame if it would only pass a tail on."""
        target, tail = call.target, self._states.tail(call.target.lalr)
        passes = tail is not None and self._states.completes(top, tail)
        if tail is not None:
            target = self._states.delivering(target, top.delivers if passes else tail)
        going_on = self._going_on(target, call.ahead)
        return going_on if passes else self._automaton.tables.call(going_on, -self._below(top))

    @cached_method
    def _below(self, top: LrState) -> int:
        """The row of returns for rules that begin in a state."""
        return -self._automaton.returns(partial(self._returned, top))

    def _returned(self, top: LrState, outcome: int) -> int:
        left = self._outcomes.things[outcome]
        return self._automaton.pop(ACCEPTED) if left is None else self._leave(top, *left)

    @cached_method
    def _scanned(self, top: LrState, tried: frozenset[str]) -> int:
        """The row of returns for the tokens that a state finds."""
        tokens = self._scanners.tokens.things
        return -self._automaton.returns(lambda outcome: self._found(top, tried, tokens[outcome]))

    def _found(self, top: LrState, tried: frozenset[str], token: Token) -> int:
        """The state behind a token that was found among `tried`. Behind an ignored token, the same is read again."""
        return self._going_on(top, Unread(tried, token.behind) if token.terminal in self._grammar.ignore else token)

    @cached_method
    def _lifted(self, dfa: CharDfa) -> int:
        """The state in which an automaton of scanners starts."""
        return Lifted(self._automaton, dfa, lambda final: final - 1, quoted=False).start
