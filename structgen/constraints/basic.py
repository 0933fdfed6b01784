"""The basic constraints: JSON of a schema, text of a pattern, one of several texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from typing_extensions import Never

from structgen.arguments import (
    allowing,
    check_options,
    named_options,
    one_of,
    option,
    optional,
    require,
    require_flag,
    require_unicode,
    several,
)
from structgen.automaton.machine import Automaton
from structgen.automaton.writing.chars import Lifted
from structgen.automaton.writing.literals import LazyTrie
from structgen.endings.nesting import nested
from structgen.errors import OptionError, quoted
from structgen.masks.grammar import Grammar
from structgen.memory import bounded
from structgen.options import Whitespace
from structgen.parts.parts import ChoicePart, JsonValue, Plan, RegularPart
from structgen.regular.chardfa import CharDfa, from_pattern
from structgen.regular.patterns import pattern_language, pattern_predicate
from structgen.regular.quotes import MissingSource, Source
from structgen.regular.regex import PatternError, PatternUnsupported
from structgen.regular.regex.parser import parse
from structgen.schema.asked import with_nulls
from structgen.schema.normal import Node
from structgen.schema.places import check_patterns, quotes_a_source, sourced
from structgen.schema.python.mistaken import require_schema
from structgen.schema.python.types import from_type
from structgen.schema.reader import algebra_of, read, require_order
from structgen.schema.scalars import counted_class
from structgen.schema.written import DIALECT_NAMES, Written, as_written, documents_as_written
from structgen.values.json_automaton import JsonAutomaton
from structgen.values.judge import Judge
from structgen.values.sets.strings import string_is_empty, uncapped_language
from structgen.vocabulary import Vocabulary
from structgen.waiting import waiting


class TextAutomaton(Automaton):
    """The automaton of a regular language in UTF-8. `maximum`: the greatest number of characters."""

    def __init__(self, language: CharDfa, maximum: int | None = None) -> None:
        super().__init__()
        self.start = Lifted(self, language, lambda final: 0, quoted=False, maximum=maximum).start


@runtime_checkable
class Constraint(Protocol):
    """An object that can be compiled to a grammar."""

    def compile(self, vocabulary: Vocabulary) -> Grammar:
        """The grammar of this constraint for one vocabulary."""
        ...


class Uncompiled:
    """The base class of the constraints: says what comes before a matcher and its masks."""

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            own = type(self).__name__
            if name in _OF_MATCHERS:
                raise AttributeError(f"{own} has no {name}: compile it first, {_COMPILED}", name=name, obj=self)
            raise AttributeError(f"{own!r} object has no attribute {name!r}", name=name, obj=self)


_OF_MATCHERS = frozenset({"advance", "allowed_tokens", "apply", "bool_mask", "mask", "matcher"})
_COMPILED = "constraint.compile(model.vocabulary).matcher()"


_WHITESPACE = allowing(lambda value: isinstance(value, Whitespace), "Whitespace(...)")
_REGISTRY = allowing(lambda value: value is None or hasattr(value, "resolver_with_root"), "a referencing.Registry")


@named_options
@dataclass(frozen=True)
class JsonSchema(Uncompiled):
    """JSON that satisfies a schema.

    Attributes:
        schema: a JSON Schema (dict or bool), any Python type that `pydantic.TypeAdapter` takes, or a function, for the
            arguments it can be called with.
        order: the order of declared members: "schema", "any", or names to put first in every object that declares them.
        whitespace: where white space is written.
        closed: for Python types: allow no undeclared members in objects (the default). A dict says so itself.
        format: "enforce" checks the standard's formats of strings, "annotate" none.
        registry: a `referencing.Registry` with the targets of remote references; nothing is ever fetched.
        finite: allow only numbers that a double can hold. False also allows `1e999`, which Python reads as infinity.
            Integers written in digits alone, `enum` and `const` have no such limit.
        source: what the schema's `Quote`s quote: a text, a list of texts, or a dict of texts by their names.
        nulls: "written": members that may be null are never left out; "all": no member is, and each optional one may be
            null, which stands for a missing one where the schema does not have null (`generate(optional="write")` takes
            these out of the value); "optional": as the schema says.
        dialect: of a dict without `$schema`: "draft4", "draft6", "draft7", "2019-09", "2020-12", "openapi-3.0",
            "openapi-3.1" or "gemini". By default 2020-12, with the keywords of OpenAPI and Gemini that it has.

    Raises:
        OptionError: a wrong value of an option. When it is compiled: `closed` with a dict, or a name in `order` that no
            object of the schema declares.
        SchemaError (when it is compiled): not a schema, or malformed. UnsupportedSchema: an unknown dialect, or a type
            that no schema describes. UnsatisfiableSchema: no value satisfies it.
    """

    schema: Any
    order: str | Sequence[str] = field(default="schema", metadata=option(lambda _, order: require_order(order)))
    whitespace: Whitespace = field(default=Whitespace.SPACED, metadata=option(_WHITESPACE))
    closed: bool | None = field(default=None, metadata=option(optional(require_flag)))
    format: str = field(default="enforce", metadata=option(one_of("enforce", "annotate")))
    registry: Any = field(default=None, metadata=option(_REGISTRY))
    finite: bool = field(default=True, metadata=option(require_flag))
    source: Any = None
    nulls: str = field(default="optional", metadata=option(one_of("optional", "written", "all")))
    dialect: str | None = field(default=None, metadata=option(one_of(*DIALECT_NAMES)))

    def __post_init__(self) -> None:
        check_options(self)
        if self.source is not None:
            object.__setattr__(self, "source", Source.of(self.source))

    @waiting("compiling the constraint")
    @bounded
    def compile(self, vocabulary: Vocabulary) -> Grammar:
        """The grammar. Only long lists (1,000 values or names, 50 alternatives) are expanded before a text needs it.

        Its masks nest values at most 128 levels deep, unless the schema requires more.
        """
        return nested(Grammar(self.automaton(), vocabulary))

    def plan(self) -> Plan:
        """The value as a part of a composition."""
        root = self._readable()
        return JsonValue(root, self.whitespace, self.order == "any", algebra_of(root), self.finite)

    def automaton(self) -> JsonAutomaton:
        """The automaton over bytes, which knows no vocabulary."""
        root = self._readable()
        return JsonAutomaton(
            root, self.whitespace, any_order=self.order == "any", algebra=algebra_of(root), finite=self.finite
        )

    def _readable(self) -> Node:
        """The root, all of whose quotes have a source."""
        root = self.read()
        if quotes_a_source(root):
            raise MissingSource
        return root

    def judge(self) -> Judge:
        """What judges values that exist already."""
        return Judge(self.read(), finite=self.finite)

    def document(self) -> dict[str, Any] | bool:
        """The JSON Schema; a type's is shared, and must not be changed."""
        if isinstance(self.schema, (dict, bool)):
            return self.written().schema  # type: ignore[no-any-return]
        return from_type(self.schema, closed=self.closed is not False)[0]

    def written(self) -> Written:
        """A dict as JSON Schema, with what of it another dialect defines."""
        if isinstance(self.schema, dict):
            require_schema(self.schema)
            return as_written(self.schema, self.dialect)
        return Written(self.schema)

    def read(self) -> Node:
        """The root of the normal form, with every pattern checked."""
        of_type = not isinstance(self.schema, (dict, bool))
        if not of_type and self.closed is not None:
            raise OptionError(f"closed={self.closed}: a dict says by additionalProperties which members it takes")
        if self.dialect is not None and not isinstance(self.schema, dict):
            raise OptionError(f"dialect={quoted(self.dialect)}: it is for a JSON Schema as a dict")
        schema, registry = self.document(), documents_as_written(self.registry)
        if self.nulls != "optional":
            schema = with_nulls(schema, everywhere=self.nulls == "all")
        if self.source is not None:
            schema = sourced(schema, self.source, registry)
        enforce = self.format == "enforce"
        root = read(schema, registry=registry, order=self.order, formats=enforce, plain_integers=of_type)
        check_patterns(root)
        return root


@named_options
@dataclass(frozen=True)
class Regex(Uncompiled):
    """Text that matches an ECMA-262 regular expression as a whole.

    Raises:
        OptionError: the pattern is not a string. When it is compiled: it is malformed, uses what no automaton can
            decide (a back-reference), or matches no text.
    """

    pattern: str

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str):
            raise OptionError(f"pattern={quoted(self.pattern)}: expected a regular expression as text")
        require_unicode("pattern", self.pattern)

    @waiting("compiling the constraint")
    @bounded
    def compile(self, vocabulary: Vocabulary) -> Grammar:
        """The grammar."""
        return Grammar(TextAutomaton(*self._counted()), vocabulary)

    def plan(self) -> Plan:
        """The texts as a part of a composition."""
        return RegularPart(*self._counted())

    def _counted(self) -> tuple[CharDfa, int | None]:
        """The set of texts without the greatest length, and that length; None where the set has it."""
        counted = counted_class(self.pattern, anchored=True)
        if counted is None or string_is_empty(counted):
            return self.language(), None
        return uncapped_language(counted)

    def language(self) -> CharDfa:
        """The set of texts."""
        try:
            language = self._language()
        except (PatternError, PatternUnsupported) as error:
            raise OptionError(str(error)) from error
        if language.empty:
            raise OptionError(f"pattern {quoted(self.pattern)} matches no text at all")
        return language

    def _language(self) -> CharDfa:
        parse(self.pattern)  # its errors quote the user's pattern, not `whole`
        try:
            return from_pattern(self.pattern, anchored=True)
        except PatternUnsupported:
            whole = f"^(?:{self.pattern})$"
            if pattern_predicate(whole) is not None:
                raise
            return pattern_language(whole)


@named_options
@dataclass(frozen=True)
class Choice(Uncompiled):
    """One of several texts, exactly.

    Attributes:
        options: the texts; at least one, none of them empty.
    """

    options: tuple[str, ...]

    def __init__(self, options: Sequence[str], *others: Never) -> None:
        if others:
            raise OptionError(f"Choice takes one list: pass sg.Choice({quoted([options, *others])})")
        allowed = "a list of texts, none of them empty; values in JSON are schema=Literal[...] or {'enum': [...]}"
        texts = several("options", options, allowed)
        require(bool(texts) and all(isinstance(text, str) and text for text in texts), "options", options, allowed)
        require_unicode("options", *texts)
        object.__setattr__(self, "options", tuple(texts))

    @waiting("compiling the constraint")
    @bounded
    def compile(self, vocabulary: Vocabulary) -> Grammar:
        """The grammar."""
        automaton = Automaton()
        automaton.start = LazyTrie(automaton, map(str.encode, self.options)).start
        return Grammar(automaton, vocabulary)

    def plan(self) -> Plan:
        """The texts as a part of a composition."""
        return ChoicePart(self.options)
