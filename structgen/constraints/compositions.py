"""Compositions of constraints: free text, sequences, unions, repetitions, special tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import abc
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

from structgen.arguments import MAX_INTEGER, is_whole, named_options, nearest, require, require_unicode
from structgen.automaton.expected import Walk
from structgen.constraints.basic import Constraint, JsonSchema, Regex, Uncompiled
from structgen.constraints.part_limits import PartBudgets, part_limits
from structgen.endings.fewest_bytes import Distances
from structgen.endings.frame_search import NoWayOut
from structgen.endings.nesting import nested
from structgen.errors import OptionError, quoted
from structgen.masks.grammar import Grammar
from structgen.memory import bounded
from structgen.parts.composed import Composed
from structgen.parts.earley.part import GrammarPart
from structgen.parts.parts import Either, Loop, Plan, RegularPart, RulePlan, Series, Texts, parts_of
from structgen.parts.special import Fixed, Special, StoppedText, tokens_of, with_tokens
from structgen.regular.chardfa import CharDfa, literals
from structgen.regular.texts import escaped, free_text
from structgen.vocabulary import Vocabulary, require_vocabulary, special_text
from structgen.waiting import waiting


@runtime_checkable
class Composable(Constraint, Protocol):
    """A constraint that may be a part of a composition."""

    def plan(self) -> Plan:
        """The constraint as a part."""
        ...


Given: TypeAlias = "Composable | str | abc.Sequence[str] | dict[str, Any] | type[Any]"
"""A part as the user may write it: a constraint; a string for itself; a list of strings for one of them; a type or a
JSON Schema as a dict for its JSON."""
Stop: TypeAlias = "str | Regex | SpecialToken"
"""The end of a free text."""


@dataclass(frozen=True)
class Composition(Uncompiled, ABC):
    """The base class of compositions: a composition has a plan, and this compiles it."""

    @abstractmethod
    def plan(self) -> Plan:
        """The composition as a part of another."""

    @waiting("compiling the constraint")
    @bounded
    def compile(self, vocabulary: Vocabulary) -> Grammar:
        """The grammar; nothing is expanded before a text needs it."""
        require_vocabulary(vocabulary)
        plan = self.plan()
        parts = list(parts_of(plan))
        known = {name for name, i in vocabulary.special_names.items() if i not in vocabulary.end_ids}
        tokens = [token for part in parts for token in tokens_of(part, known)]
        named = any(isinstance(part, (Fixed, Texts)) and part.named for part in parts)
        if not tokens and not named:
            return _grammar(plan, vocabulary)
        numbered = {token: _numbered(token, vocabulary) for token in tokens if token.ids}
        for token in tokens:
            if token.needed and not token.ids and token.name not in known:
                raise _unknown(token.name, vocabulary)
        if numbered or named or any(isinstance(part, StoppedText) for part in parts):
            plan = with_tokens(plan, known, vocabulary.special_names.keys() - known, numbered)
        there = bool(numbered) or not known.isdisjoint(token.name for token in tokens)
        return _grammar(plan, vocabulary.with_special_text if there else vocabulary)


def _grammar(plan: Plan, vocabulary: Vocabulary) -> Grammar:
    automaton = Composed(plan)
    grammar = Grammar(automaton, vocabulary)
    if automaton.limited:  # a limit may end a token that would take all
        grammar.budgets = PartBudgets(grammar, automaton)
    elif any(isinstance(part, GrammarPart) for part in parts_of(plan)):
        _require_end(automaton)
    return nested(grammar) if automaton.has_values else grammar


def _require_end(automaton: Composed) -> None:
    """Refuses a grammar in which tokens take what must follow them, so that no text is ever complete."""
    walk = Walk(automaton, automaton.sample or b"")
    if walk.taken == len(automaton.sample or b"") and walk.may_end:
        return
    distances = Distances(automaton)
    try:
        distances.end(automaton.start)
    except NoWayOut as why:
        if why.least is None and not distances.known.refused:
            problem = "no text matches the grammar: a token takes as much as it can, so nothing is left for what must"
            raise OptionError(f"{problem} follow it; or some token that is needed has no text") from None


def _numbered(token: Special, vocabulary: Vocabulary) -> Plan:
    """One of the special tokens with some numbers."""
    names = {i: name for name, i in vocabulary.special_names.items() if i not in vocabulary.end_ids}
    found: list[Plan] = []
    for first, last in token.ids:
        for i in range(first, last + 1):
            if i not in names:
                raise OptionError(f"{token.name}: {i} is not a special token that may appear in a text")
            found.append(Special(names[i], special_text(names[i])))
    return Either(tuple(found))


def _unknown(name: str, vocabulary: Vocabulary) -> OptionError:
    """The error for a special token that the vocabulary does not have."""
    if name in vocabulary.special_names:
        return OptionError(
            f"SpecialToken({quoted(name)}): it ends every text of this model, so it cannot be inside one"
        )
    near = nearest(name, vocabulary.special_names)
    available = f"it has {near}" if near else "it has none with a name"
    return OptionError(f"SpecialToken({quoted(name)}): the vocabulary has no special token of that name; {available}")


@dataclass(frozen=True)
class SpecialToken(Composition):
    """A special token of the model, by its name in the tokenizer.

        Sequence(SpecialToken("<think>"), Text(until=SpecialToken("</think>")), City)

    It adds nothing to the returned text; it is among the token ids.

    Attributes:
        name: the tokenizer's name of the token.

    Raises (when it is compiled):
        OptionError: the vocabulary has no such special token, or it ends the model's texts.
    """

    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise OptionError(f"SpecialToken({quoted(self.name)}): expected the token's name, as '</think>'")
        require_unicode("SpecialToken", self.name)

    def plan(self) -> Plan:
        """The token as a part."""
        return Special(self.name, special_text(self.name))


@named_options
@dataclass(frozen=True)
class Text(Composition):
    """Free text, up to a stop.

        Text(until="</think>")            # everything up to </think>, and </think>
        Text(before="{")                  # everything without a brace

    Attributes:
        until: the text ends with the first of these: a string, a `Regex`, a `SpecialToken`, or several of them. Where a
            string is the name of a special token of the vocabulary, that token ends the text as well.
        before: the text contains none of these; the next part of a `Sequence` may begin with one.
        min_chars, max_chars: bounds of the length in characters, including the end. A special token has no characters.
        name: of a capture, as in `Capture`; empty for none.
        stop: strings that end the text as those of `until` do, but that its capture leaves out.
        max_tokens: at most that many tokens begin in the text, its end included: when only the shortest end fits into
            what is left, this is what follows. A token that ends in the middle of a character may add its rest to them.
        temperature: with which the tokens that begin in the text are drawn; None for that of the request. Only
            `generate` and `stream` draw.

    Raises (when it is compiled):
        OptionError: a stop is empty or not a pattern that can be searched for, or no text has such a length or so few
            tokens.
    """

    until: Stop | abc.Sequence[Stop] = ()
    before: str | Regex | abc.Sequence[str | Regex] = ()
    min_chars: int = 0
    max_chars: int | None = None
    name: str = ""
    stop: str | abc.Sequence[str] = ()
    max_tokens: int | None = None
    temperature: float | None = None

    def __post_init__(self) -> None:
        for name in ("until", "before", "stop"):
            stops = _each(getattr(self, name))
            require_unicode(name, *(stop for stop in stops if isinstance(stop, str)))
            object.__setattr__(self, name, stops)
        require(isinstance(self.name, str), "name", self.name, "a text")
        require(all(isinstance(stop, str) for stop in self.stop), "stop", self.stop, "texts")
        part_limits(self.max_tokens, self.temperature)
        bounds = f"min_chars={quoted(self.min_chars)}, max_chars={quoted(self.max_chars)}"
        _require_bounds(bounds, self.min_chars, self.max_chars)

    def plan(self) -> Plan:
        """The text as a part."""
        until, before = (*_each(self.until), *self.stop), _patterns("before", _each(self.before))
        stops = _patterns("until", [stop for stop in until if not isinstance(stop, SpecialToken)])
        tokens = tuple(_token(stop) for stop in until if not isinstance(stop, Regex))
        closed = free_text(stops, before, self.min_chars) if stops or not until else literals(())
        opened = free_text((), [*stops, *before], self.min_chars) if tokens else closed
        if not self._fits(opened if any(token.needed for token in tokens) else closed):
            raise OptionError(f"{quoted(self)}: there is no such text")
        limits = part_limits(self.max_tokens, self.temperature)
        made: Plan = RegularPart(closed, self.max_chars, limits=limits)
        if tokens:
            made = StoppedText(closed, opened, tokens, self.max_chars, limits)
        return RulePlan(self.name, made, self.name, literals(self.stop) if self.stop else None) if self.name else made

    def _fits(self, language: CharDfa) -> bool:
        """Has the language a text of at most `max_chars` characters?"""
        return not language.empty and (self.max_chars is None or language.length_range()[0] <= self.max_chars)


def _require_bounds(what: str, minimum: Any, maximum: Any) -> None:
    if not is_whole(minimum, 0, MAX_INTEGER) or not (maximum is None or is_whole(maximum, minimum, MAX_INTEGER)):
        raise OptionError(f"{what}: expected whole numbers, 0 <= min <= max <= {MAX_INTEGER:,}")


def _each(stops: Stop | abc.Sequence[Stop]) -> tuple[Stop, ...]:
    return tuple(stops) if isinstance(stops, (list, tuple)) else (cast("Stop", stops),)


def _token(stop: str | SpecialToken) -> Special:
    """The special token of a stop; for a string, the one with that name, which the vocabulary may lack."""
    name = stop if isinstance(stop, str) else stop.name
    return Special(name, special_text(name), needed=not isinstance(stop, str))


def _patterns(name: str, stops: abc.Iterable[Any]) -> list[str]:
    for stop in stops:
        if not isinstance(stop, (str, Regex)) or stop in ("", Regex("")):
            raise OptionError(f"{name}={quoted(stop)}: expected a text or a Regex, not empty")
    return [escaped(stop) if isinstance(stop, str) else stop.pattern for stop in stops]


@dataclass(frozen=True, init=False)
class Sequence(Composition):
    """Parts, one after the other.

        Sequence("Reasons: ", Text(until="\\n"), "Answer: ", City)

    It may be ambiguous where one part ends and the next begins: all ways to read the text are followed in parallel.

    Attributes:
        parts: constraints; strings stand for themselves, lists of strings for one of them, types and dicts for JSON.

    Raises:
        OptionError: an argument is not a part. When it is compiled: what the parts raise.
    """

    parts: tuple[Any, ...]

    def __init__(self, *parts: Given) -> None:
        object.__setattr__(self, "parts", tuple(map(as_part, parts)))

    def plan(self) -> Plan:
        """The sequence as a part."""
        return Series(tuple(_plan(part) for part in self.parts))


@dataclass(frozen=True, init=False)
class Capture(Composition):
    """A part with a name: `Generation.captures` says what it has written, and where.

        Sequence("Answer: ", Capture(Regex("[0-9]+"), "answer"), " because ", Text(until=".", name="reason"))

    In a grammar, it is the option `[capture]` or `[capture="name"]` of a rule. Where a text can be read in several
    ways, the captures are those of one of them.

    Attributes:
        part: as in a `Sequence`.
        name: of the capture.
    """

    part: Any
    name: str

    def __init__(self, part: Given, name: str) -> None:
        require(isinstance(name, str) and bool(name), "name", name, "a text, not empty")
        object.__setattr__(self, "part", as_part(part))
        object.__setattr__(self, "name", name)

    def plan(self) -> Plan:
        """The part, with its name."""
        return RulePlan(self.name, _plan(self.part), self.name)


@dataclass(frozen=True, init=False)
class Union(Composition):
    """One of several parts.

        Union(City, "I do not know")

    Attributes:
        parts: as for `Sequence`; at least one.
    """

    parts: tuple[Any, ...]

    def __init__(self, *parts: Given) -> None:
        if not parts:
            raise OptionError("Union(): expected at least one part")
        object.__setattr__(self, "parts", tuple(map(as_part, parts)))

    def plan(self) -> Plan:
        """The union as a part."""
        return Either(tuple(_plan(part) for part in self.parts))


@dataclass(frozen=True, init=False)
class Repeat(Composition):
    """A part several times.

        Repeat(Step, min=1, max=5, separator="\\n")

    Attributes:
        part: the part that is repeated, as in a `Sequence`.
        min, max: the bounds of the number of repetitions; None for no bound.
        separator: a part between two repetitions.
    """

    part: Any
    min: int
    max: int | None
    separator: Any

    def __init__(self, part: Given, min: int = 0, max: int | None = None, separator: Given = "") -> None:
        _require_bounds(f"Repeat(min={quoted(min)}, max={quoted(max)})", min, max)
        named = {"part": as_part(part, "part="), "separator": as_part(separator, "separator=")}
        for name, value in {**named, "min": min, "max": max}.items():
            object.__setattr__(self, name, value)

    def plan(self) -> Plan:
        """The repetition as a part."""
        return Loop(_plan(self.part), self.min, self.max, _plan(self.separator) if self.separator else None)


def as_part(given: Any, name: str = "") -> Composable | str:
    """A part that the user wrote, as a constraint or a text. `name`: the argument's name for messages."""
    if isinstance(given, str):
        require_unicode(name.rstrip("=") or "a part", given)
        return given
    if isinstance(given, Composable) and not isinstance(given, type):
        return given
    if isinstance(given, (list, tuple)) and given and all(isinstance(item, str) for item in given):
        return Union(*given)
    if isinstance(given, Constraint) and not isinstance(given, type):
        raise OptionError(f"{name}{quoted(given)} cannot be a part: it has no plan()")
    if isinstance(given, (list, tuple, bytes, int, float)) or given is None:
        raise OptionError(
            f"{name}{quoted(given)} cannot be a part: expected a constraint, a text, a type or a JSON Schema"
        )
    return JsonSchema(given)


def _plan(part: Composable | str) -> Plan:
    if isinstance(part, Composable):
        return part.plan()
    return RegularPart(literals((part,))) if part else Series(())
