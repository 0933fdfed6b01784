"""The constraint of a turn: text, calls of tools, or an answer in a schema, as a model's format writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from structgen.chat.arguments import JsonLayout, KeyedArguments
from structgen.chat.call_format import CallFormat
from structgen.chat.json_values import json_plan
from structgen.chat.keyed.plans import KeyedPlans
from structgen.chat.literals import Literals, by_text
from structgen.chat.pieces import Slot
from structgen.constraints.basic import Regex
from structgen.constraints.compositions import Composable, Composition, Text
from structgen.errors import OptionError, quoted
from structgen.memo import kept_where_hashable
from structgen.parts.parts import Either, Loop, Plan, Series
from structgen.tools import Tool
from structgen.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class Turn(Composition):
    """The constraint of a turn, without its thinking."""

    parts: Plan

    def plan(self) -> Plan:
        """Returns the turn as a part of a composition."""
        return self.parts


@dataclass(frozen=True)
class TurnRules:
    """What a turn may contain.

    Attributes:
        tools: the tools that may be called; their names differ.
        min_calls, max_calls: how many calls the turn has; `max_calls` is None for any number.
        text: may the turn be an answer in free text?
        answer: the constraint of an answer that is not free text; None allows no such answer.
    """

    tools: tuple[Tool[..., Any], ...]
    min_calls: int = 0
    max_calls: int | None = None
    text: bool = True
    answer: Composable | None = None
    order: str | Sequence[str] = "schema"


@kept_where_hashable(32)
def turn(format_: CallFormat, rules: TurnRules, vocabulary: Vocabulary) -> Turn:
    """Returns the constraint of a turn. The same tools give the same object, so that its masks are reused.

    Args:
        vocabulary: a special token of it is allowed only where the format has it.

    Raises:
        OptionError: `rules` demand more calls than the format allows in a turn, or two tools have the same name.
        SchemaError, UnsupportedSchema: no mask can hold the arguments of a tool to their schema, or the format cannot
            write them.
    """
    known = {name for name, i in vocabulary.special_names.items() if i not in vocabulary.end_ids}
    return Turn(_TurnPlans(format_, rules, Literals(known)).plan())


class _TurnPlans:
    def __init__(self, format_: CallFormat, rules: TurnRules, literal: Literals) -> None:
        self._format, self._rules, self._literal = format_, rules, literal
        names = [tool.name for tool in rules.tools]
        for name in names:
            if names.count(name) > 1:
                raise OptionError(f"tools: two of them have the name {quoted(name)}")
        if rules.min_calls > 1 and format_.between is None:
            raise OptionError(f"{rules.min_calls} calls in a turn: the model's call format allows only one")
        keyed = format_.arguments if isinstance(format_.arguments, KeyedArguments) else None
        self._keyed = None if keyed is None else KeyedPlans(keyed, literal)
        self._arguments = {tool.name: self._written(tool) for tool in rules.tools}

    def plan(self) -> Plan:
        """Returns the turns that the rules allow."""
        rules, format_ = self._rules, self._format
        turns: list[Plan] = []
        calls = rules.tools and rules.max_calls != 0
        mixed = calls and rules.text and format_.gap is not None
        if rules.text:
            turns.append(self._text(mixed=bool(mixed)))
        if rules.answer is not None:
            content = format_.content
            turns.append(
                Series((self._literal.plan(content.opening), rules.answer.plan(), self._literal.plan(content.closing)))
            )
        if calls and not (mixed and self._begins_as_text()):
            turns.append(Series((self._literal.plan(format_.lead), self._calls())))
        return Either(tuple(turns))

    def _begins_as_text(self) -> bool:
        """Is a turn of calls alone also a turn of blank text and calls? Then the plan of the latter includes it."""
        lead = self._format.lead
        before = lead[: len(lead) - len(self._format.opening)]
        return before.removeprefix(self._format.content.opening).strip() == ""

    def _text(self, *, mixed: bool) -> Plan:
        """Returns free text that does not contain `trigger`; if `mixed`, calls follow it."""
        content, format_ = self._format.content, self._format
        stops = [format_.trigger] if self._rules.tools and format_.trigger else []
        closing = content.closing.strip()
        stops += [closing] if closing else []
        free = Text(before=tuple(stops)).plan()
        end: Plan = self._literal.plan(content.closing) if closing else Series(())
        if mixed:
            end = Either((end, Series((self._literal.plan(format_.opening), self._calls()))))
        return Series((self._literal.plan(content.opening), free, end))

    def _calls(self) -> Plan:
        """Returns the calls of a turn, from the first slot to `closing`."""
        format_, rules = self._format, self._rules
        max_calls = 1 if format_.between is None else rules.max_calls
        min_calls = max(rules.min_calls, 1)
        first = self._call(str(format_.first_index))
        more: list[Plan] = []
        if max_calls is None or max_calls > 1:
            counted = self._call(None) if Slot.INDEX in format_.body else first
            later = Series((self._literal.plan(format_.between or ""), counted))
            more.append(Loop(later, min_calls - 1, None if max_calls is None else max_calls - 1))
        return Series((first, *more, self._literal.plan(format_.closing)))

    def _call(self, index: str | None) -> Plan:
        """Returns a call of any tool. `index`: the text of `Slot.INDEX`; None allows any number, for later calls."""
        body = list(self._format.body)
        name_index = body.index(Slot.NAME)
        before = [self._piece(piece, "", index) for piece in body[:name_index]]
        entries = []
        for tool in self._rules.tools:
            behind = list(body[name_index + 1 :])
            text, rest = tool.name, behind
            if behind and isinstance(behind[0], str):
                first, *others = self._literal.split(behind[0])
                if not self._literal.is_token(first):
                    text, rest = tool.name + first, ["".join(others), *behind[1:]]
            after = Series(tuple(self._piece(piece, tool.name, index) for piece in rest))
            entries.append((text, after))
        return Series((*before, by_text(entries)))

    def _piece(self, piece: str | Slot, tool: str, index: str | None) -> Plan:
        if isinstance(piece, str):
            return self._literal.plan(piece)
        if piece is Slot.ARGUMENTS:
            return self._arguments[tool]
        if piece is Slot.NAME:
            return self._literal.plan(tool)
        if piece is Slot.INDEX:
            return self._literal.plan(index) if index is not None else Regex("[1-9][0-9]{0,2}").plan()
        return Regex("[A-Za-z0-9]{9}").plan()

    def _written(self, tool: Tool[..., Any]) -> Plan:
        if self._keyed is not None:
            return self._keyed.plan(tool.arguments_schema, tool.name)
        assert isinstance(self._format.arguments, JsonLayout)
        arguments = tool.arguments_schema if tool.type is None else tool.type
        return json_plan(arguments, self._format.arguments, self._rules.order)
