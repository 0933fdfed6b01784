"""`explain`: for each keyword of a schema, how it is enforced, and what will be slow."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from structgen.constraints.basic import Constraint, JsonSchema, Regex
from structgen.constraints.compositions import Capture, Repeat, Sequence, Text, Union
from structgen.constraints.grammars.ambiguity import described
from structgen.constraints.languages import EBNF, GBNF, Lark
from structgen.endings.overlaps import overlaps
from structgen.errors import LimitExceeded, OptionError, quoted
from structgen.json_text.lexer import canonical
from structgen.json_text.pointers import escaped
from structgen.regular.formats import FORMATS
from structgen.regular.patterns import is_backtracked
from structgen.regular.regex import PatternError, PatternUnsupported
from structgen.regular.regex.backtrack import STEP_LIMIT
from structgen.regular.regex.parser import extensions
from structgen.schema.keywords.arguments import Malformed, ScanContext
from structgen.schema.keywords.dialects import Dialect
from structgen.schema.keywords.table import ANNOTATION, CHECKED, MASKED, STRUCTURE, Keyword
from structgen.schema.normal import Numbers, Strings
from structgen.schema.reader import SchemaReader
from structgen.schema.scalars import exact
from structgen.schema.scan import joined, texts_in
from structgen.values.emptiness import Emptiness
from structgen.values.sets.numbers import number_predicate
from structgen.values.sets.strings import string_language, string_predicate

NOT_ENFORCED = "not enforced"
METADATA = frozenset("title description default examples $comment deprecated readOnly writeOnly $schema $id id".split())
_OPENAPI = frozenset("openapi info servers paths webhooks components security tags externalDocs".split())
"""The members of an OpenAPI document."""
_COMBINATORS = frozenset("allOf anyOf oneOf not if dependentSchemas dependentRequired dependencies".split())
MANY_ALTERNATIVES = 16
MANY_STATES = 2000
MAX_LIMITS = 4
"""Places that exceed a limit and are only noted; one more is an error, as when the schema is compiled."""
MAX_CHARACTERS = 1 << 26
"""Characters of all pointers together, which grow with the square of a schema's depth."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How one keyword at one place of the schema is enforced.

    Attributes:
        pointer: JSON pointer of the keyword's argument.
        keyword: its name.
        how: `masked` (no wrong token can be chosen), `checked` (the token that would complete a wrong value is not
            allowed), `not enforced`.
        why: the reason where `how` is not `masked`. It also names the parts of a pattern that ECMA-262 does not define,
            says that numbers are those that a double holds, and how texts and names beyond ASCII are spelled.
    """

    pointer: str
    keyword: str
    how: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Cliff:
    """A schema that is slow to enforce, that no value satisfies, or whose `oneOf` has branches with common values.

    Attributes:
        pointer: JSON pointer of the schema.
        what: what it costs, or the common value.
    """

    pointer: str
    what: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a schema is enforced.

    Attributes:
        rules: every keyword that restricts values, and every one that is not enforced.
        cliffs: what will be slow, can never be satisfied, or is refused because two branches of a `oneOf` take it.
    """

    rules: tuple[Rule, ...]
    cliffs: tuple[Cliff, ...]

    @property
    def exact(self) -> bool:
        """True when every rule is masked."""
        return all(rule.how == MASKED for rule in self.rules)

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON data."""
        return asdict(self)

    def text(self, *, every: bool = False) -> str:
        """A line for each rule: first what is not enforced, then what is checked, then remarks, then the cliffs.

        Args:
            every: all rules, in the order of the schema. By default masked ones without a remark are only counted.
        """
        shown = [*self.rules] if every else [rule for rule in self.rules if rule.how != MASKED or rule.why]
        if not every:
            shown.sort(key=lambda rule: (NOT_ENFORCED, CHECKED, MASKED).index(rule.how))
        width = min(max((len(rule.pointer) for rule in shown), default=0), 80)
        lines = [f"{rule.pointer:<{width}}  {rule.how}" + (f": {rule.why}" if rule.why else "") for rule in shown]
        lines += [f"note {cliff.pointer or '/'}: {cliff.what}" for cliff in self.cliffs]
        masked = [rule.keyword for rule in self.rules if rule not in shown]
        if masked:
            count = f"{len(masked)} more" if shown else f"{len(masked)}"
            lines.append(f"{count} {'is' if len(masked) == 1 else 'are'} masked: {', '.join(dict.fromkeys(masked))}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()


def explain(
    schema: Any,
    *,
    closed: bool | None = None,
    format: str = "enforce",
    registry: Any = None,
    dialect: str | None = None,
) -> Explanation:
    """For each keyword of a schema: masked, checked or not enforced, and why; and what will be slow.

    Args:
        schema: a JSON Schema (dict or bool), any Python type that `pydantic.TypeAdapter` takes, or a constraint. Of a
            composition, each part is a rule, and pointers begin with the part's number.
        closed, format, registry, dialect: as for `JsonSchema`; not for a constraint, which has its own.

    Raises:
        RequestError: what compiling the schema would raise, except `UnsatisfiableSchema`. `LimitExceeded` also where
            the pointers of all keywords, in a very deep schema, have more than 67,108,864 characters together.
    """
    if isinstance(schema, Constraint) and not isinstance(schema, type):
        return _explained(schema, "")
    return _json(JsonSchema(schema, closed=closed, format=format, registry=registry, dialect=dialect), "")


def _json(schema: JsonSchema, where: str) -> Explanation:
    reader = getattr(schema.read(), "reader", None)
    if reader is None:
        return Explanation((), ())
    walk = _Explaining(reader, enforce=schema.format == "enforce", finite=schema.finite)
    walk.rules += [Rule(where + at, name, MASKED, meaning) for at, name, meaning in schema.written().readings]
    characters = 0
    for schema_object, trail, dialect in reader.scan.places():
        pointer = where + joined(trail)
        characters += len(pointer) * (1 + len(schema_object))
        if characters > MAX_CHARACTERS:
            raise LimitExceeded(f"explain: the pointers of all keywords have more than {MAX_CHARACTERS:,} characters")
        walk.visit(schema_object, pointer, dialect)
    walk.cliffs += [Cliff(where + each.pointer, str(each)) for each in overlaps(reader)]
    return Explanation(tuple(walk.rules), tuple(walk.cliffs))


def _explained(given: object, where: str) -> Explanation:
    """A part of a composition, or a constraint alone; pointers begin with `where`."""
    if isinstance(given, JsonSchema):
        return _json(given, where)
    parts: tuple[object, ...] = ()
    if isinstance(given, (Sequence, Union)):
        parts = given.parts
    elif isinstance(given, Capture):
        parts = (given.part,)
    elif isinstance(given, Repeat):
        parts = (given.part, given.separator) if given.separator else (given.part,)
    each = [_explained(part, f"{where}/{i}") for i, part in enumerate(parts)]
    name = "text" if isinstance(given, str) else type(given).__name__
    if isinstance(given, (EBNF, GBNF, Lark)):
        return Explanation((Rule(where or "/", name, MASKED, described(given.plan())),), ())
    try:
        why = _dialect(given.pattern) if isinstance(given, Regex) else ""
    except (PatternError, PatternUnsupported) as error:
        raise OptionError(str(error)) from error
    rule = Rule(where or "/", name, MASKED, why)
    cliffs = [
        Cliff(
            f"{where}/{i}", "the end of this text is ambiguous: what follows may start at every position, in parallel"
        )
        for i, part in enumerate(parts[:-1])
        if isinstance(given, Sequence) and isinstance(part, Text) and not part.until and not part.before
    ]
    rules = [rule, *(rule for one in each for rule in one.rules)]
    return Explanation(tuple(rules), (*cliffs, *(cliff for one in each for cliff in one.cliffs)))


class _Explaining:
    """Collects the rules and cliffs of one schema."""

    def __init__(self, reader: SchemaReader, *, enforce: bool, finite: bool) -> None:
        self._reader = reader
        self._enforce, self._finite = enforce, finite
        self._is_empty = Emptiness(reader.algebra)
        self.rules: list[Rule] = []
        self.cliffs: list[Cliff] = []
        self._limits = 0

    def visit(self, schema: dict[str, Any], pointer: str, dialect: Dialect) -> None:
        late, alternatives = self._containers(schema, pointer)
        skipped = METADATA | _OPENAPI if "openapi" in schema else METADATA
        for keyword in schema:
            row = dialect.keywords.get(keyword)
            malformed = _malformed(row, schema) if row is not None and row.how == ANNOTATION else ""
            if (keyword in skipped and not malformed) or (row is not None and row.how == STRUCTURE):
                continue
            place = f"{pointer}/{escaped(keyword)}"
            if dialect.lone_references and "$ref" in schema and keyword != "$ref":
                how = NOT_ENFORCED, f"next to $ref it has no effect in draft {dialect.number}"
            elif row is None:
                how = NOT_ENFORCED, "no keyword of this draft: an annotation, as the standard says"
            elif malformed:
                how = NOT_ENFORCED, f"a malformed annotation: {malformed}"
            else:
                how = self._how(row, schema, place, late)
            self.rules.append(Rule(place, keyword, *how))
        if alternatives > MANY_ALTERNATIVES:
            self.cliffs.append(Cliff(pointer, f"{alternatives} alternatives are read side by side"))

    def _containers(self, schema: dict[str, Any], pointer: str) -> tuple[bool, int]:
        """Are some alternatives checked only at the closing bracket, and how many alternatives are there?"""
        node = self._reader.node(schema, pointer)
        try:
            if self._is_empty(node):
                self.cliffs.append(Cliff(pointer, "no value satisfies this schema: what it describes is never started"))
            containers = [part for shape in node.shapes for part in (shape.arrays, shape.objects) if part is not None]
        except LimitExceeded as error:
            self._limits += 1
            if self._limits > MAX_LIMITS:  # each of very many places would be read until it fails
                raise
            self.cliffs.append(Cliff(pointer, str(error)))
            return True, 0
        return any(part.without for part in containers), len(node.shapes)

    def _how(self, row: Keyword, schema: dict[str, Any], pointer: str, late: bool) -> tuple[str, str]:
        """How a keyword that its draft knows is enforced, and why."""
        name, value = row.name, schema[row.name]
        if row.how == ANNOTATION:
            return NOT_ENFORCED, "an annotation: it says nothing about which values are valid"
        if name == "format":
            return self._format(value)
        if name == "pattern":
            states = len(string_language(Strings(patterns=(value,))).next)
            if states > MANY_STATES:
                self.cliffs.append(Cliff(pointer, f"the automaton of the pattern has {states:,} states"))
            how, why = self._pattern(value)
            return how, "; ".join(filter(None, (why, _dialect(value))))
        if name == "patternProperties":
            how, why = next((each for each in map(self._pattern, value) if each[0] == CHECKED), (MASKED, ""))
            return how, "; ".join(filter(None, (why, *map(_dialect, value))))
        if name in ("enum", "const", "properties"):
            repeated = _repeated(value) if name == "enum" else ""
            return MASKED, "; ".join(filter(None, (repeated, _spelling(value, names=name == "properties"))))
        if name == "type" and "number" in value:
            return MASKED, "finite numbers" if self._finite else ""
        if name == "multipleOf":
            large = number_predicate(Numbers(multiples=(exact(value),))) is not None
            return (CHECKED, "too large for an automaton; decided when the number ends") if large else (MASKED, "")
        if name == "uniqueItems":
            late_items = "an item that equals an earlier one is not allowed to end (of few possible values: masked)"
            return (CHECKED, late_items) if value else (NOT_ENFORCED, "false restricts nothing")
        if name in ("then", "else") and "if" not in schema:
            return NOT_ENFORCED, "no effect without if"
        if name == "if" and "then" not in schema and "else" not in schema:
            return NOT_ENFORCED, "no effect without then or else"
        if name in _COMBINATORS and late:
            return CHECKED, "its alternatives would multiply; decided when the object or array closes"
        return MASKED, ""

    def _format(self, name: str) -> tuple[str, str]:
        if not self._enforce:
            return NOT_ENFORCED, "format='annotate'"
        if name not in FORMATS:
            return NOT_ENFORCED, f"the format {name!r} is none of the standard's"
        return self._text(Strings(formats=(name,)), "no automaton can tell such strings apart")

    def _pattern(self, pattern: str) -> tuple[str, str]:
        how, why = self._text(
            Strings(patterns=(pattern,)), "the pattern is not a regular language, or needs too many states"
        )
        if is_backtracked(pattern):
            why += f"; a text that takes more than {STEP_LIMIT:,} steps to match ends in LimitExceeded"
        return how, why

    def _text(self, strings: Strings, why: str) -> tuple[str, str]:
        return (
            (CHECKED, f"{why}; decided at the closing quote") if string_predicate(strings) is not None else (MASKED, "")
        )


def _malformed(row: Keyword, schema: dict[str, Any]) -> str:
    """What is wrong with the argument of an annotation; empty for nothing."""
    try:
        row.check(ScanContext(None), schema, schema[row.name])
    except Malformed as error:
        return str(error)
    return ""


def _repeated(values: list[Any]) -> str:
    """A remark on a value that an enum lists twice; empty without one."""
    seen: set[tuple[object, ...]] = set()
    for value in values:
        key = canonical(value)
        if key in seen:
            return f"{quoted(value)} appears there twice"
        seen.add(key)
    return ""


def _dialect(pattern: str) -> str:
    """A remark on what of a pattern ECMA-262 does not define; empty where it defines all."""
    names = extensions(pattern)
    return f"not ECMA-262, read as other dialects do: {', '.join(names)}" if names else ""


def _spelling(value: Any, *, names: bool) -> str:
    """A remark on the one spelling of texts or names that could be written with escapes, too; empty without any."""
    plain = all(map(str.isascii, value if names else texts_in(value)))
    return "" if plain else "spelled as json.dumps(..., ensure_ascii=False) writes it"
