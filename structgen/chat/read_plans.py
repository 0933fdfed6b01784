"""The plan of the text of a turn, for the machine that reads it.

It takes what the mask of a turn takes (`calls_constraint`), and what only a model without a mask writes: other
arguments than the tool's, any white space, blocks without a call, text and further calls after calls.
"""

from __future__ import annotations

import json
import re
from functools import cached_property, partial
from typing import NamedTuple

from structgen.chat.arguments import KeyedArguments
from structgen.chat.call_format import CallFormat, Spellings, Tags, tells, thought_opening
from structgen.chat.keyed.plans import KeyedPlans
from structgen.chat.literals import Literals, optional
from structgen.chat.pieces import TAG, Blank, Maybe, Slot, Spelling
from structgen.chat.reading import Event, Happens, JsonText, Later, Peek, Role, Told
from structgen.chat.spellings import WHITE, canonical, firsts, pattern
from structgen.chat.turn_plans import TurnPlans, free_words
from structgen.parts.parts import Either, Plan, RegularPart, Series
from structgen.parts.special import Fixed
from structgen.regular.chardfa import from_pattern
from structgen.regular.texts import escaped


class ReadRules(NamedTuple):
    """What a text may be.

    Attributes:
        schemas: pairs of the name of a tool and the JSON Schema of its arguments, as text.
        thought, text, answers: as of `TurnReader`.
    """

    format: CallFormat
    schemas: tuple[tuple[str, str], ...]
    thought: str | None
    text: bool
    answers: bool


def read_plan(rules: ReadRules) -> Plan:
    """Returns the plan of a turn that is read."""
    return _ReadPlans(rules).plan()


class _ReadPlans(TurnPlans):
    """Makes the plan of a turn of any calls of the tools, and of any text."""

    joins_names = False

    def __init__(self, rules: ReadRules) -> None:
        literal = Literals((), blanks=f"{WHITE}*")
        super().__init__(rules.format, [name for name, _ in rules.schemas], literal, 0, None)
        self._rules, self._schemas = rules, dict(rules.schemas)
        reading = rules.format.reading
        self._keyed = KeyedPlans(reading, literal, reads=True) if isinstance(reading, KeyedArguments) else None

    def plan(self) -> Plan:
        """Returns the turn, with the thought before it."""
        tags = self._format.thinking
        if tags is None:
            return self._turn
        if self._rules.thought == "open":
            return Either((*self._opened, self._known))
        if self._rules.thought is not None:
            return Either((*self._opened, self._turn))
        triggers = [pattern(each) for _, begun in self.ways[:1] for each in begun]
        opening = self._format.spellings.opening
        if any(firsts(opening)):  # what begins as an answer does is no thought
            triggers.append("^" + pattern(_present(opening)))
        guessed = self._thought(tags, [*self._format.ending_thought], triggers, certain=False)
        return Either((*self._opened, guessed, self._turn))

    @cached_property
    def _known(self) -> Plan:
        """A thought from its first character, and the turn after it."""
        assert self._format.thinking is not None
        return self._thought(self._format.thinking, [*self._format.ending_thought], certain=True)

    @cached_property
    def _opened(self) -> list[Plan]:
        """A thought with its opening tag, and the turn after it; none in a format without such a tag."""
        tags = self._format.thinking
        if tags is None or not tags.opening.strip():
            return []
        return [Series((self._literal.spelling(thought_opening(tags)), _CERTAIN, self._known))]

    def _thought(self, tags: Tags, ends: list[str], patterns: list[str] = [], *, certain: bool) -> Plan:  # noqa: B006
        """Returns a thought, and the turn after it.

        Args:
            ends: what ends it next to its closing tag, and begins calls.
            patterns: of what it does not contain either.
            certain: is it known that this is a thought? Else it has a closing tag.
        """
        literal, closing = self._literal, tags.closing.strip()
        text = free_words((*map(escaped, (closing, *ends)), *patterns))
        behind: Plan = Series(())
        for char in reversed(tags.closing[len(tags.closing.rstrip()) :]):
            behind = optional(Series((Fixed(char), behind)))
        after = Later(lambda: Either((*self._opened, self._turn)))  # thoughts may follow each other
        closed = Series((literal.blank(), literal.plan(closing), _CERTAIN, behind, after))
        called = [Peek(end, self._turn) for end in ends]
        return Series(
            (Told(Role.THOUGHT, text, lazy=True), Either((closed, *called, Series(())) if certain else (closed,)))
        )

    @cached_property
    def _turn(self) -> Plan:
        """The turn after a thought: calls, an answer, or text and calls."""
        spellings, literal, rest = self._format.spellings, self._literal, self._rest
        prefix, opening = map(literal.spelling, (spellings.prefix, spellings.opening))
        ways = self.ways[:1] if self._rules.answers else self.ways
        turns: list[Plan] = [Series((prefix, self.calls(way), rest)) for way, _ in ways]
        if self._rules.text or self._rules.answers or not turns:
            closers = [each for each in firsts(spellings.answered) if each]
            befores = [] if self._rules.answers else self._befores
            triggers = [each for _, begun in ways for each in begun] if befores else []
            if any(firsts(self._befores[0])):
                begins = (f"^{pattern(spellings.prefix)}", pattern(self._befores[0]))
                stops = [begin + pattern(each) for begin in begins for each in triggers]
            else:
                stops = list(map(pattern, triggers))
            text = Told(Role.TEXT, free_words((*stops, *map(escaped, closers))), lazy=True)
            ends = [Series((literal.spelling(before), self.calls(way), rest)) for before in befores for way, _ in ways]
            ends += [Series((literal.spelling(_present(spellings.answered)), rest))] if closers else []
            turns.append(Series((optional(opening), text, Either((*ends, Series(()))))))
        return Either(tuple(turns))

    @property
    def _befores(self) -> list[Spelling]:
        """What may appear between text and calls."""
        apart = self._format.spellings.apart or ()
        return [apart] if any(firsts(apart)) else [(Blank(),)]

    @cached_property
    def _rest(self) -> Plan:
        """What follows a turn, though no mask allows it: its end, which is nothing, then text and calls."""
        end, literal = self._format.end, self._literal
        ends = tuple(Fixed(text) for text in (end, end.rstrip()) if text)
        text = Told(Role.TEXT, free_words(()), lazy=True)
        ways = [] if self._rules.answers else self.ways
        calls = [
            Series((literal.spelling(before), self.calls(way, certain=False), more))
            for more in [Later(lambda: after)]
            for before in self._befores
            for way, _ in ways
        ]
        after: Plan = Series((text, Either((*calls, Series(())))))
        return Series((Either((*ends, Series(()))), after))

    def _calls(self, spellings: Spellings, *, certain: bool) -> Plan:
        calls = super()._calls(spellings, certain=certain)
        begin, closing = ("".join(map(str, canonical(each))) for each in (spellings.begin, spellings.closing))
        first, last = TAG.match(begin.strip()), "".join(TAG.findall(closing)[-1:])
        if first is not None and not spellings.named:  # there may be no call between the outer tags
            nothing = _NOTHING if last else _NO_ITEMS
            ends = (self._literal.plan(last),) if last else ()
            calls = Either((Series((self._literal.plan(first[0]), nothing, *ends)), calls))
        return Series((calls, Event(Happens.CALLS_END)))

    def _begun(self, spellings: Spellings, *, certain: bool) -> Plan:
        begun = super()._begun(spellings, certain=certain)
        is_value = self._rules.answers and any(each[:1] in tuple('{["') for each in firsts(spellings.begin))
        certain = certain and tells(spellings.begin) and not (spellings.named or is_value)
        return Series((begun, _CERTAIN)) if certain else begun

    def _between(self, spellings: Spellings) -> Plan:
        between = super()._between(spellings)
        may_be_empty = re.fullmatch(pattern(spellings.between or ()), "") is not None
        return between if may_be_empty or spellings.named else Series((between, _CERTAIN))

    def _call(self, body: Spelling, index: str | None) -> Plan:
        return Series((Event(Happens.CALL_BEGINS), super()._call(body, index), Event(Happens.CALL_ENDS)))

    def _called(self, rest: Spelling, tool: str, index: str | None) -> Plan:
        return Series((Event(Happens.NAMED, tool), Later(partial(self._pieces, rest, tool, index))))

    def _slot(self, slot: Slot, tool: str, index: str | None) -> Plan:
        if slot is not Slot.ARGUMENTS:
            return Told(Role.ID, _ID) if slot is Slot.ID else _ID
        if self._keyed is not None:
            return self._keyed.plan(json.loads(self._schemas[tool]), tool)
        return Series((self._literal.blank(), Told(Role.JSON, JsonText("{"))))


def _present(spelling: Spelling) -> Spelling:
    """Returns a spelling whose first piece is not left out."""
    first, *others = spelling
    if isinstance(first, Blank):
        return (first, *_present(tuple(others)))
    return (*_present(first.pieces), *others) if isinstance(first, Maybe) else spelling


_CERTAIN = Event(Happens.CERTAIN)
_NO_ITEMS = RegularPart(from_pattern(rf"{WHITE}*\[{WHITE}*\]{WHITE}*", anchored=True))
_NOTHING = RegularPart(from_pattern(rf"{WHITE}*(?:\[{WHITE}*\]{WHITE}*)?", anchored=True))
_ID = RegularPart(from_pattern("[A-Za-z0-9_-]*", anchored=True))
