"""The constraint of a turn: text, calls of tools, or an answer in a schema, as a model's format writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from structgen.chat.arguments import JsonLayout, KeyedArguments
from structgen.chat.call_format import CallFormat, Spellings, Tags, thought_opening
from structgen.chat.json_values import json_values, members_of, possible, value_plan
from structgen.chat.judging import CallJudge
from structgen.chat.keyed.plans import KeyedPlans
from structgen.chat.keyed.strings import json_escaped, spelled_texts
from structgen.chat.literals import Literals
from structgen.chat.parser import TurnReader
from structgen.chat.pieces import Blank, OneOf, Slot, Spelling, common_prefix
from structgen.chat.row_turn import TurnReading
from structgen.chat.spellings import canonical, firsts, pattern
from structgen.chat.turn_plans import TurnPlans, free_words
from structgen.constraints.basic import Regex
from structgen.constraints.compositions import Composable, Composition, Text
from structgen.constraints.languages import text_plan
from structgen.errors import (
    OptionError,
    SchemaError,
    SchemaWarning,
    UnsatisfiableSchema,
    UnsupportedSchema,
    quoted,
    warn_caller,
)  # fmt: skip
from structgen.guards.validators import ValidatorGuard
from structgen.masks.grammar import Grammar
from structgen.memo import kept_where_hashable
from structgen.options import Whitespace
from structgen.parts.parts import Either, Loop, Plan, Series
from structgen.regular.quotes import Source
from structgen.regular.texts import escaped
from structgen.schema.keywords.dialects import dialect_of
from structgen.schema.places import quotes, sourced
from structgen.schema.python.validators import validators_of
from structgen.tools import Tool
from structgen.tools.parameters import INPUT, TextGrammar
from structgen.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class Turn(Composition):
    """The constraint of a turn, without its thinking.

    Attributes:
        rules: with those tools alone that can be called.
        checked: have the arguments rules that no mask holds? Then each complete call is held to its schema.
    """

    parts: Plan
    format: CallFormat
    rules: TurnRules
    checked: bool = False

    def compile(self, vocabulary: Vocabulary) -> Grammar:
        """The grammar. Its masks allow any depth: a call that nests too deep is cut off, not led to another one."""
        grammar = super().compile(vocabulary)
        grammar.depths, grammar.nesting = grammar.nesting, None
        return grammar

    def reading(self, vocabulary: Vocabulary, stop: Sequence[str]) -> TurnReading:
        """Returns what reads a row of this turn along with its generation."""
        rules = self.rules
        schemas = {tool.name: tool.arguments_schema for tool in rules.tools if rules.max_calls != 0}
        answers = rules.answer is not None
        reader = TurnReader(self.format, schemas, thought="closed", stop=stop, answers=answers)
        return TurnReading(reader, vocabulary, has_text=rules.text, has_value=answers, judge=self._judge())

    def _judge(self) -> CallJudge | None:
        """Returns what judges calls by more than their masks hold; None if the masks hold all."""
        tools = () if self.rules.max_calls == 0 else self.rules.tools
        guards = {
            tool.name: ValidatorGuard(tool.type)
            for tool in tools
            if tool.type is not None and validators_of(tool.type) is not None
        }
        checked = tools if self.checked else ()
        return CallJudge(self.format.reading, checked, guards) if guards or checked else None

    def plan(self) -> Plan:
        """Returns the turn as a part of a composition."""
        return self.parts


@dataclass(frozen=True)
class TurnRules:
    """What a turn may contain.

    Attributes:
        tools: the tools that may be called; their names differ. What begins a call of one of them is no text.
        min_calls, max_calls: how many calls the turn has; `max_calls` is None for any number, 0 for none.
        text: may the turn be an answer in free text?
        answer: the constraint of an answer that is not free text; None allows no such answer.
        order: the order of a call's arguments, as in `JsonSchema`.
        thought: may the model think first, within the tags of its format? None: what it thinks is read before this
            turn. False: it does not think, and a call does not begin as a thought does.
        source: what the arguments of tools quote.
    """

    tools: tuple[Tool[..., Any], ...]
    min_calls: int = 0
    max_calls: int | None = None
    text: bool = True
    answer: Composable | None = None
    order: str | Sequence[str] = "any"
    thought: bool | None = True
    source: Source | None = None


@kept_where_hashable(32)
def turn(format_: CallFormat, rules: TurnRules, vocabulary: Vocabulary) -> Turn:
    """Returns the constraint of a turn. The same tools give the same object, so that its masks are reused.

    Args:
        vocabulary: a special token of it is allowed only where the format has it.

    Raises:
        OptionError: `rules` demand more calls than the format allows in a turn, or two tools have the same name.
        MissingSource: something quotes, and there is no source.
        SchemaError, UnsupportedSchema: no tool can be called: nothing satisfies its schema, or the format cannot write
            its arguments.

    Warns:
        SchemaWarning: one of several tools cannot be called. The others can.
    """
    known = {name for name, i in vocabulary.special_names.items() if i not in vocabulary.end_ids}
    plans = _MaskPlans(format_, rules, Literals(known, exact=rules.min_calls > 0))
    return Turn(plans.plan(), format_, plans.rules, plans.checked)


class _MaskPlans(TurnPlans):
    """Makes the plan of a turn whose arguments fit the schemas of the tools."""

    def __init__(self, format_: CallFormat, rules: TurnRules, literal: Literals) -> None:
        if rules.thought is False and format_.thinking is not None:
            format_ = replace(format_, known=_apart(format_.spellings, format_.thinking.opening.strip()))
        names = [tool.name for tool in rules.tools]
        super().__init__(format_, names, literal, rules.min_calls, rules.max_calls)
        self.rules = rules
        self._spellings = format_.written if literal.exact else format_.spellings
        for name in names:
            if names.count(name) > 1:
                raise OptionError(f"tools: two of them have the name {quoted(name)}")
        if rules.min_calls > 1 and self._spellings.between is None:
            raise OptionError(f"{rules.min_calls} calls in a turn: the model's call format allows only one")
        keyed = format_.reading if isinstance(format_.reading, KeyedArguments) else None
        if literal.exact and isinstance(format_.arguments, KeyedArguments):
            keyed = format_.arguments  # as the template spells them
        self._keyed = None if keyed is None else KeyedPlans(keyed, literal, judged=True)
        self._arguments = dict[str, Plan]()
        impossible = [
            (tool, why) for tool in rules.tools if rules.max_calls != 0 and (why := self._impossible(tool)) is not None
        ]
        if impossible and not self._arguments:
            raise impossible[0][1]
        for tool, why in impossible:
            warn_caller(f"the tool {quoted(tool.name)} cannot be called: {why}", SchemaWarning)
            self._names.remove(tool.name)
        self.rules = replace(rules, tools=tuple(tool for tool in rules.tools if tool.name in self._names))
        self.checked = self._keyed is not None and self._keyed.checked

    def _impossible(self, tool: Tool[..., Any]) -> SchemaError | None:
        """Makes the plan of a tool's arguments. Returns why there is none."""
        try:
            self._arguments[tool.name] = self._written(tool)
        except (UnsatisfiableSchema, UnsupportedSchema) as why:
            return why
        return None

    def plan(self) -> Plan:
        """Returns the turns that the rules allow."""
        rules, spellings, literal = self.rules, self._spellings, self._literal
        turns: list[Plan] = []
        calls = rules.tools and rules.max_calls != 0
        mixed = bool(calls and rules.text and spellings.apart is not None)
        if rules.text:
            turns.append(self._text(mixed=mixed))
        if rules.answer is not None:
            tags = map(literal.spelling, (spellings.opening, spellings.answered))
            turns.append(Series((next(tags), rules.answer.plan(), next(tags))))
        if calls and not (mixed and self._begins_as_text()):
            turns.append(Series((literal.spelling(spellings.prefix), self.calls(spellings))))
        whole = turns[0] if len(turns) == 1 else Either(tuple(turns))
        tags_ = self._format.thinking
        return whole if not rules.thought or tags_ is None else Either((whole, self._thought(tags_, whole)))

    def _thought(self, tags: Tags, turn_: Plan) -> Plan:
        """Returns a turn after a thought. The prompt may have opened the thought."""
        literal = self._literal
        first, *rest = literal.split(tags.closing.strip())
        opening = literal.spelling(thought_opening(tags))
        free = Text(until=first).plan()
        end = literal.spelling((*(("".join(rest),) if rest else ()), Blank()))
        begun = Text(until=first, before=tuple(map(Regex, self._stops)))
        more = Loop(Series((opening, free, end)), 0, None) if tags.opening.strip() else Series(())
        ended: list[Plan] = [Series((opening, free, end, more, turn_)), Series((begun.plan(), end, more, turn_))]
        if self._format.ending_thought:
            ended.append(Series((opening, Text(before=tuple(map(Regex, self._stops))).plan(), turn_)))
        return Either(tuple(ended))

    @property
    def _stops(self) -> list[str]:
        """The patterns of what begins calls."""
        return [pattern(each) for _, triggers in self.ways for each in triggers]

    def _begins_as_text(self) -> bool:
        """Is a turn of calls alone also a turn of blank text and calls? Then the plan of the latter includes it."""
        spellings = self._spellings
        return not firsts(spellings.prefix) and not firsts(spellings.opening)

    def _text(self, *, mixed: bool) -> Plan:
        """Returns free text that does not contain what begins calls; if `mixed`, calls follow it."""
        spellings, literal = self._spellings, self._literal
        closers = [each for each in (*firsts(spellings.answered), *firsts(spellings.apart or ())) if each]
        thinking = self._format.thinking
        if thinking is not None and thinking.opening.strip() and not self.rules.thought:
            closers.append(thinking.opening.strip())  # the parser would read a thought
        free = free_words((*self._stops, *map(escaped, closers)))
        end: Plan = literal.spelling(spellings.answered) if firsts(spellings.answered) else Series(())
        if mixed:
            ways = [spellings, *(way for way, _ in self.ways[1:])]
            apart = literal.spelling(spellings.apart or ())
            end = Either((end, *(Series((apart, self.calls(way))) for way in ways)))
        return Series((literal.spelling(spellings.opening), free, end))

    def _ordered(self, body: Spelling, index: str | None) -> Plan | None:
        return super()._ordered(body, index) if _names_first(body) else self._arguments_first(body)

    def _arguments_first(self, body: Spelling) -> Plan | None:
        """Returns a call of any tool as a JSON object with the arguments before the name. None if the schemas of the
        tools do not tell all, or are too many to be followed together until the name comes."""
        tools = self.rules.tools
        if len(tools) > _FOLLOWED or any(tool.type is not None and validators_of(tool.type) for tool in tools):
            return None
        if any(tool.grammar is not None for tool in tools):
            return None
        drafts = list(dict.fromkeys(tool.arguments_schema.get("$schema") for tool in tools))
        if len(drafts) > 1:
            return None
        draft = {} if drafts[0] is None else {"$schema": drafts[0]}
        identifier = dialect_of(draft).identifier
        arguments, name = (_key_before(body, slot) for slot in (Slot.ARGUMENTS, Slot.NAME))
        objects = [
            {
                "type": "object",
                "properties": {
                    arguments: {identifier: f"tool:{n}", **tool.arguments_schema},
                    name: {"enum": [tool.name]},
                },
                "required": [arguments, name],
                "additionalProperties": False,
            }
            for n, tool in enumerate(tools)
        ]
        return value_plan(json_values({**draft, "anyOf": objects}, [arguments, name], source=self.rules.source))

    def _slot(self, slot: Slot, tool: str, index: str | None) -> Plan:
        if slot is Slot.ARGUMENTS:
            return self._arguments[tool]
        if slot is Slot.INDEX:
            return self._literal.plan(index) if index is not None else Regex("[1-9][0-9]{0,2}").plan()
        return Regex(self._spellings.id).plan()

    def _written(self, tool: Tool[..., Any]) -> Plan:
        source = self.rules.source
        if tool.grammar is not None:
            return self._text_of(tool.grammar)
        if self._keyed is not None:
            schema = tool.arguments_schema
            schema = schema if source is None or not quotes(schema) else sourced(schema, dict(source.documents))
            plan = self._keyed.plan(schema, tool.name, self.rules.order)
            if members_of(schema).unmasked or not _ROOT.isdisjoint(schema):
                possible(json_values(schema, source=source).plan())
            return plan
        schema = tool.arguments_schema if tool.type is None else tool.type
        return possible(value_plan(json_values(schema, self.rules.order, self._whitespace, source)))

    def _text_of(self, grammar: TextGrammar) -> Plan:
        """Returns the argument `INPUT` as a text of a grammar. It is spelled as a string of the format."""
        texts = text_plan(*grammar)
        if self._keyed is not None:
            return self._keyed.of_text(INPUT, texts)
        if self._literal.exact:
            head, tail = self._format.arguments.write({INPUT: "\0"}).split("\\u0000")
            ends = escaped(head), escaped(tail)
        else:
            ends = rf'\{{\s{{0,8}}"{INPUT}"\s?:\s?"', r'"\s{0,8}\}'
        return Series((Regex(ends[0]).plan(), spelled_texts(texts, json_escaped), Regex(ends[1]).plan()))

    @property
    def _whitespace(self) -> Whitespace:
        """The white space in arguments that are JSON: the template's where spellings are exact and it has one line."""
        layout = self._format.arguments
        if not isinstance(layout, JsonLayout):
            return Whitespace.FLEXIBLE
        if self._literal.exact and layout.indent is None:
            return Whitespace.COMPACT if layout.compact else Whitespace.SPACED
        bound = Whitespace.FLEXIBLE.bound + layout.margin + 2 * (layout.indent or 0)
        return replace(Whitespace.FLEXIBLE, bound=bound)


_ROOT = frozenset(("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "enum", "const"))
"""Keywords with which the arguments of a tool may be no objects at all."""
_FOLLOWED = 16
"""The number of tools whose arguments may come before the name."""


def _apart(spellings: Spellings, opening: str) -> Spellings:
    """Returns the spellings without those of a call that have more in common with the opening of a thought than the
    beginning of an answer has: a model that may not think would be led from the one into the other."""
    answers = max((common_prefix(first, opening) for first in firsts(spellings.opening)), default=0)
    begin: list[Any] = []
    for piece in spellings.begin:
        kept = piece
        if isinstance(piece, OneOf):
            shared = {each: max(common_prefix(first, opening) for first in firsts(each)) for each in piece.options}
            options = tuple(each for each in piece.options if shared[each] <= answers)
            kept = OneOf(options) if options else piece
        begin.append(kept)
    return replace(spellings, begin=tuple(begin))


def _names_first(body: Spelling) -> bool:
    return Slot.ARGUMENTS not in body[: body.index(Slot.NAME)]


def _key_before(body: Spelling, slot: Slot) -> str:
    """Returns the key of a JSON object whose value is this slot."""
    pieces = canonical(body)
    return str(pieces[pieces.index(slot) - 1]).split('"')[-2 if slot is Slot.ARGUMENTS else -3]
