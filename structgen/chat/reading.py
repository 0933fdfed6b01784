"""The machine that reads a turn: it walks through the plan of the turn's text, and says what each character is.

A plan (see `parts.parts`) is read by threads, as in Pike's machine for regular expressions: a thread is a place in the
plan, and threads are kept in the order of preference. A thread that reaches a place where a preferred one is already is
dropped, and so is each one that refuses the next character. What is left at the end, or alone before, is the reading.

`Told` and `Event` in a plan say what its characters mean. A thread keeps what it was told until it is the only one
left: then this is certain. Places and their moves are made once and cached, as by a lazy automaton, and a `Reading` is
a value: to go back is to keep an earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, reduce
from typing import Any, NamedTuple

from structgen.automaton.machine import Automaton
from structgen.parts.parts import (
    Either,
    Entered,
    Families,
    Loop,
    Part,
    Plan,
    RegularPart,
    RulePlan,
    Series,
    Switch,
    Texts,
)
from structgen.parts.special import Fixed


class Role(Enum):
    """What characters of a turn are."""

    TEXT = "text"
    THOUGHT = "thought"
    ID = "id"
    JSON = "json"  # of arguments
    STRING = "string"  # the characters of a string in arguments
    WORD = "word"  # text that an event after it reads as a whole


class Happens(Enum):
    """What happens at a place in a turn."""

    CALLS_END = "calls end"
    CALL_BEGINS = "call begins"
    CALL_ENDS = "call ends"
    NAMED = "the tool is named"
    KEY = "a key"
    JSON = "JSON of arguments that no character spells"
    CONVERTED = "the word before is this JSON"
    CERTAIN = "no thread of less preference is right"


class ReadPart(Part):
    """A part of a plan that is read, and never entered in tables."""

    def enter(self, automaton: Automaton, families: Families) -> Entered:
        raise AssertionError("what only reads has no tables")


@dataclass(frozen=True, eq=False)
class Told(ReadPart):
    """A plan whose characters have a role in the turn.

    Attributes:
        lazy: does what follows it begin as early as it can?
    """

    role: Role
    plan: Plan
    lazy: bool = False


@dataclass(frozen=True, eq=False)
class Peek(ReadPart):
    """A plan whose text begins with this text."""

    text: str
    plan: Plan


@dataclass(frozen=True)
class Event(ReadPart):
    """A place where something happens.

    Attributes:
        data: the name of a tool, a key, JSON, or a function of a word.
    """

    what: Happens
    data: str | Callable[[str], str] = ""


@dataclass(eq=False)
class Later(ReadPart):
    """A plan that is made when a text reaches it. It may contain itself."""

    make: Callable[[], Plan | None]

    @cached_property
    def plan(self) -> Plan:
        """The plan."""
        plan = self.make()
        assert plan is not None, "a reader takes any value"
        return plan


@dataclass(frozen=True, eq=False)
class JsonText(ReadPart):
    """A JSON text that begins with one of these characters: an object, an array or a string. Its inside is read by
    brackets and quotes alone.

    A state is the number of open brackets and whether a string is open (1), or a backslash before (2).
    """

    openings: str

    def step(self, state: Any, char: str) -> Any:
        """The state after a character; None if it is refused."""
        if state is None or state == (0, 0):
            return None if state or char not in self.openings else (0, 1) if char == '"' else (1, 0)
        depth, quoted = state
        if quoted:
            return depth, 1 if quoted == 2 else 2 if char == "\\" else 0 if char == '"' else 1
        return (depth, 1) if char == '"' else (depth + (char in "[{") - (char in "]}"), 0)


Action = tuple[Role | Happens, Any]
Log = tuple[Any, Action] | None
"""What a thread was told: the log before, and the last action."""
_BEGUN = object()
"""The state of a leaf before its first character."""


class _After:
    """What comes after a leaf: a plan, and what comes after it. Equal ones are one object.

    Attributes:
        count: the number of items that were read of a loop; of a switch, 1 after its text; 0 for another plan.
        told: what the characters of the plan are; None if they mean nothing.
        calling: are calls open here?
    """

    __slots__ = ("after", "calling", "count", "plan", "told")

    def __init__(self, plan: Plan, count: int, told: Told | None, after: _After | None) -> None:
        self.plan, self.count, self.told, self.after = plan, count, told, after
        ends = isinstance(plan, Event) and plan.what is Happens.CALLS_END
        self.calling: bool = ends or (after is not None and after.calling)


class _Thread(NamedTuple):
    """A place: a leaf and its state. Without a leaf, the turn may end here.

    Attributes:
        told: what the characters of the leaf are.
        peek: the characters that must come next, see `Peek`.
    """

    leaf: Any
    state: Any
    told: Told | None
    after: _After | None
    peek: str = ""


class Position:
    """Threads in order of preference. Its moves are cached."""

    __slots__ = ("moves", "threads")

    def __init__(self, threads: tuple[_Thread, ...]) -> None:
        self.threads = threads
        self.moves: dict[str, Move] = {}

    @property
    def is_calling(self) -> bool:
        """Are calls started and not ended, whatever follows?"""
        return bool(self.threads) and all(thread.after is not None and thread.after.calling for thread in self.threads)


class Move(NamedTuple):
    """What a character does at a position.

    Attributes:
        position: the one after it.
        sources: for each thread there, the index of the one before; `origins` has each index once.
        certain: what all threads are told.
        rests: for each thread, what it is told next to that.
    """

    position: Position
    sources: tuple[int, ...]
    origins: tuple[int, ...]
    certain: tuple[Action, ...]
    rests: tuple[Log, ...]


class Reading(NamedTuple):
    """Where a text ends in a turn.

    Attributes:
        logs: for each thread, what it was told since the reading was last certain.
    """

    position: Position
    logs: tuple[Log, ...]


class TurnMachine:
    """Reads texts of a plan, character by character."""

    def __init__(self, plan: Plan) -> None:
        self._afters: dict[Any, _After] = {}
        self._positions: dict[tuple[_Thread, ...], Position] = {}
        self._texts: dict[Texts, dict[str, int]] = {}
        walk = _Walk(self)
        walk.open(plan, None, None, ())
        position, _, _, certain, rests = self._moved(walk)
        self.start = Reading(position, tuple(reduce(_told, (*certain, *actions_of(rest)), None) for rest in rests))

    def feed(self, reading: Reading, char: str) -> tuple[Reading, Sequence[Action]]:
        """Returns the reading after a character, and what is certain now. Without a thread, the text is no turn."""
        position, logs = reading
        after, sources, origins, certain, rests = position.moves.get(char) or self._move(position, char)
        log = logs[origins[0]]
        if len(origins) == 1 or all(logs[origin] is log for origin in origins):
            return Reading(after, rests), certain if log is None else [*actions_of(log), *certain]
        pairs = list(zip(map(logs.__getitem__, sources), rests, strict=True))  # threads with the same share their log
        told = {(id(log), id(rest)): reduce(_told, (*certain, *actions_of(rest)), log) for log, rest in pairs}
        return Reading(after, tuple([told[id(log), id(rest)] for log, rest in pairs])), []

    def _move(self, position: Position, char: str) -> Move:
        walk = _Walk(self)
        for source, thread in enumerate(position.threads):
            state = None if thread.leaf is None else self.step(thread.leaf, thread.state, char)
            if state is not None and thread.peek[:1] in ("", char):
                walk.source, walk.peek = source, thread.peek[1:]
                if walk.settle(
                    thread._replace(state=state), () if thread.told is None else ((thread.told.role, char),)
                ):
                    break
        move = self._moved(walk)
        if len(self._positions) > _KEPT:  # those in use keep what they need
            self._positions.clear()
        if char.isascii():
            position.moves[char] = move
        return move

    def _moved(self, walk: _Walk) -> Move:
        position = self._position(tuple(walk.threads))
        told = [actions for _, actions in walk.sources]
        shared = 0
        while told and all(len(each) > shared and each[shared] == told[0][shared] for each in told):
            shared += 1
        logs = {actions: reduce(_told, actions[shared:], None) for actions in told}
        rests = tuple(logs[actions] for actions in told)
        sources = tuple(source for source, _ in walk.sources)
        return Move(position, sources, tuple(dict.fromkeys(sources)) or (0,), told[0][:shared] if told else (), rests)

    def _position(self, threads: tuple[_Thread, ...]) -> Position:
        return self._positions.setdefault(threads, Position(threads))

    def step(self, leaf: Any, state: Any, char: str) -> Any:
        """Returns the state of a leaf after a character; None if it refuses it."""
        if isinstance(leaf, RegularPart):
            return leaf.language.state_after(char, 1 if state is _BEGUN else state) or None
        if isinstance(leaf, Fixed):
            place = 0 if state is _BEGUN else state
            return place + 1 if leaf.text[place : place + 1] == char else None
        if isinstance(leaf, Texts):
            read = char if state is _BEGUN else state + char
            return read if read in self.prefixes(leaf) else None
        return leaf.step(None if state is _BEGUN else state, char)

    def prefixes(self, texts: Texts) -> dict[str, int]:
        """Returns the prefixes of texts, with the place of the text that is whole; else -1."""
        known = self._texts.get(texts)
        if known is None:
            whole = [text.decode() for text in texts.texts]
            known = {text[:end]: -1 for text in whole for end in range(1, len(text))}
            known |= {text: place for place, text in enumerate(whole)}
            self._texts[texts] = known
        return known

    def outcome(self, leaf: Any, state: Any) -> int:
        """Returns whether a leaf may end in a state: a number from 0, that of a text among several; else -1."""
        if isinstance(leaf, RegularPart):
            return 0 if leaf.language.final[1 if state is _BEGUN else state] else -1
        if isinstance(leaf, Fixed):
            return 0 if state == len(leaf.text) else -1
        if isinstance(leaf, Texts):
            return -1 if state is _BEGUN else self.prefixes(leaf)[state]
        return 0 if state == (0, 0) else -1

    def goes_on(self, leaf: Any, state: Any) -> bool:
        """May a leaf take another character?"""
        if state is _BEGUN:
            return True
        return bool(leaf.language.next[state].any()) if isinstance(leaf, RegularPart) else self.outcome(leaf, state) < 0

    def then(self, plan: Plan, count: int, told: Told | None, after: _After | None) -> _After:
        """Returns what comes after a leaf; for equal ones, the same object."""
        key = plan, count, told, after
        return self._afters.get(key) or self._afters.setdefault(key, _After(*key))


_KEPT = 20_000
"""The number of positions that a machine keeps at most."""


class _Walk:
    """The threads that one character leads to. Its methods return True where no thread of less preference is right.

    Attributes:
        threads: in order of preference.
        sources: for each thread, the index of the one before the character, and the actions on the way.
        source: the thread that is followed now.
        peek: what the threads that are added must read next.
    """

    def __init__(self, machine: TurnMachine) -> None:
        self._machine = machine
        self.threads: list[_Thread] = []
        self.sources: list[tuple[int, tuple[Action, ...]]] = []
        self.source, self.peek = 0, ""
        self._seen = set[Any]()

    def settle(self, thread: _Thread, actions: tuple[Action, ...]) -> bool:
        """Adds a thread, and those that begin after its leaf if the leaf may end."""
        outcome, lazy = self._machine.outcome(thread.leaf, thread.state), thread.told is not None and thread.told.lazy
        if not lazy:
            self._add(thread, actions)
        if outcome >= 0 and self._behind(thread.after, outcome, actions):
            return True
        if lazy:
            self._add(thread, actions)
        return False

    def _add(self, thread: _Thread, actions: tuple[Action, ...]) -> None:
        thread = thread._replace(peek=self.peek)
        going = self._machine.goes_on(thread.leaf, thread.state) if thread.leaf is not None else not self.peek
        if going and thread not in self._seen:
            self._seen.add(thread)
            self.threads.append(thread)
            self.sources.append((self.source, actions))

    def _behind(self, after: _After | None, outcome: int, actions: tuple[Action, ...]) -> bool:
        """Begins what comes after a leaf that ends with this outcome."""
        if after is None:
            self._add(_END, actions)
            return False
        if (after, outcome, self.peek) in self._seen:
            return False
        self._seen.add((after, outcome, self.peek))
        plan = after.plan
        if isinstance(plan, Switch) and after.count:
            return self.open(plan.plans[outcome], after.told, after.after, actions)
        if isinstance(plan, Loop):
            return self._loop(plan, after.count, after.told, after.after, actions)
        if not isinstance(plan, Event):
            return self.open(plan, after.told, after.after, actions)
        if plan.what is Happens.CERTAIN:
            self._behind(after.after, 0, actions)
            return True
        told = () if plan.what is Happens.CALLS_END else ((plan.what, plan.data),)
        return self._behind(after.after, 0, (*actions, *told))

    def _loop(
        self, loop: Loop, count: int, told: Told | None, after: _After | None, actions: tuple[Action, ...]
    ) -> bool:
        """Begins another item of a loop, or what comes after it."""
        if loop.maximum is None or count < loop.maximum:
            counted = count + 1 if loop.maximum is not None else min(count + 1, max(loop.minimum, 1))
            again = self._machine.then(loop, counted, told, after)
            if self.open(loop.next if count else loop.item, told, again, actions):
                return True
        return count >= loop.minimum and self._behind(after, 0, actions)

    def open(self, plan: Plan, told: Told | None, after: _After | None, actions: tuple[Action, ...]) -> bool:
        """Begins a plan, and what comes after it."""
        then = self._machine.then
        if isinstance(plan, Series):
            for item in reversed(plan.items):
                after = then(item, 0, told, after)
            return self._behind(after, 0, actions)
        if isinstance(plan, Either):
            return any(self.open(item, told, after, actions) for item in plan.items)
        if isinstance(plan, Told):
            return self.open(plan.plan, plan, after, actions)
        if isinstance(plan, (Later, RulePlan)):
            return self.open(plan.plan if isinstance(plan, Later) else plan.body, told, after, actions)
        if isinstance(plan, Peek):
            self.peek = plan.text
            certain = self.open(plan.plan, told, after, actions)
            self.peek = ""
            return certain
        if isinstance(plan, (Loop, Event)):
            return self._behind(then(plan, 0, told, after), 0, actions)
        if isinstance(plan, Switch):
            return self.settle(_Thread(plan.texts, _BEGUN, told, then(plan, 1, told, after)), actions)
        return self.settle(_Thread(plan, _BEGUN, told, after), actions)


_END = _Thread(None, None, None, None)


def _told(log: Log, action: Action) -> Log:
    return log, action


def actions_of(log: Log) -> list[Action]:
    """Returns what a thread was told, in order."""
    actions = []
    while log is not None:
        log, action = log
        actions.append(action)
    actions.reverse()
    return actions
