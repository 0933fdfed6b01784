"""Structural tags: what a model writes around its calls, as JSON that OpenAI-compatible servers take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from structgen.arguments import MAX_INTEGER, is_whole
from structgen.constraints.basic import Choice, JsonSchema, Regex
from structgen.constraints.compositions import Composition, Text
from structgen.constraints.languages import grammar_of
from structgen.errors import OptionError, quoted
from structgen.options import Whitespace
from structgen.parts.parts import Either, Loop, Plan, Series
from structgen.parts.special import Special
from structgen.vocabulary import special_text

MAX_DEPTH = 100
Format = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class StructuralTag(Composition):
    """The texts of a structural tag, as vLLM, SGLang and xgrammar take it.

        StructuralTag({"format": {
            "type": "triggered_tags",
            "triggers": ["<call:"],
            "tags": [{"begin": "<call:add>", "content": {"type": "json_schema", "json_schema": ...}, "end": "</call>"}],
        }})

    The kinds of `format` are `const_string`, `json_schema` (`style` "json" or a model's, as "qwen_xml"), `regex`,
    `grammar`, `any_text`, `token`, `sequence`, `or`, `tag`, `triggered_tags`, `token_triggered_tags`,
    `tags_with_separator`, `dispatch`, `optional`, `plus`, `star`, `repeat` and `qwen_xml_parameter`. Free text in a
    tag ends before the tag's end. JSON may have white space wherever JSON allows it.

    Attributes:
        value: the structural tag, its `format` alone, or the older form with `structures` and `triggers`.

    Raises (when it is compiled):
        OptionError: it is malformed, or it has what is not supported: `exclude_token`, `any_tokens`, `token_dispatch`,
            other styles. The message says where.
        SchemaError, UnsupportedSchema, UnsatisfiableSchema: what a JSON Schema inside raises.
    """

    value: Any

    def __post_init__(self) -> None:
        if not isinstance(self.value, Mapping):
            raise OptionError(f"StructuralTag({quoted(self.value)}): expected an object")

    def plan(self) -> Plan:
        """The texts as a part of a composition."""
        return _plan(_format_of(self.value), (), "format")


def _format_of(value: Format) -> Any:
    """The `format` of a structural tag in any of its forms."""
    if "format" in value:
        return value["format"]
    tags = value.get("structures", value.get("tags") if "triggers" in value and "type" not in value else None)
    if tags is None:
        if value.get("type") == "structural_tag":
            raise OptionError("the structural tag has neither a format nor structures")
        return value
    older = [tag if "content" in tag else {**tag, "content": _older(tag)} for tag in tags]
    return {"type": "triggered_tags", "triggers": value.get("triggers"), "tags": older}


def _older(tag: Format) -> Format:
    return {"type": "json_schema", "json_schema": tag.get("schema", True)}


def _plan(given: Any, stops: tuple[str, ...], where: str) -> Plan:
    """The plan of a format.

    Args:
        stops: the texts before which free text at its end must end.
        where: its place, for messages.
    """
    if where.count(".") + where.count("[") > MAX_DEPTH:
        raise OptionError(f"{where[:60]}...: formats inside each other more than {MAX_DEPTH} deep")
    if not isinstance(given, Mapping):
        raise OptionError(f"{where}: expected an object with a type, found {quoted(given)}")
    kind = given.get("type")
    read = _KINDS.get(kind) if isinstance(kind, str) else None
    if read is None:
        unsupported = "is not supported" if kind in _UNSUPPORTED else "is no kind of format"
        raise OptionError(f"{where}: the type {quoted(kind)} {unsupported}; known are {', '.join(sorted(_KINDS))}")
    return read(_Fields(given, where), stops)


@dataclass(frozen=True)
class _Fields:
    """The fields of one format, with its place for messages."""

    given: Format
    where: str

    def refuse(self, name: str, reason: str) -> NoReturn:
        """Raises an OptionError that names the field."""
        raise OptionError(f"{self.where}.{name}: {reason}, found {quoted(self.given.get(name))}")

    def text(self, name: str) -> str:
        """A field that is a text."""
        value = self.given.get(name)
        return value if isinstance(value, str) else self.refuse(name, "expected a text")

    def texts(self, name: str, *, needed: bool = False) -> list[str]:
        """A field that is a list of texts."""
        value = self.given.get(name, None if needed else [])
        if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
            self.refuse(name, "expected a list of texts, none of them empty")
        return value

    def flag(self, name: str) -> bool:
        """A field that is true or false; false by default."""
        value = self.given.get(name, False)
        return value if isinstance(value, bool) else self.refuse(name, "expected true or false")

    def count(self, name: str) -> int | None:
        """A field that is a whole number or null; null by default."""
        value = self.given.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            self.refuse(name, "expected a whole number")
        return value

    def listed(self, name: str) -> list[Any]:
        """A field that is a list, not empty."""
        value = self.given.get(name)
        return value if isinstance(value, list) and value else self.refuse(name, "expected a list, not empty")

    def inner(self, name: str, stops: tuple[str, ...] = ()) -> Plan:
        """The plan of a format in a field."""
        return _plan(self.given.get(name), stops, f"{self.where}.{name}")

    def none(self, name: str) -> None:
        """Refuses a field that is not supported."""
        if self.given.get(name) is not None:
            self.refuse(name, "this is not supported")


def _const_string(fields: _Fields, stops: tuple[str, ...]) -> Plan:
    return _literal(fields.text("value"))


def _literal(text: str) -> Plan:
    return Choice((text,)).plan() if text else Series(())


def _json_schema(fields: _Fields, stops: tuple[str, ...]) -> Plan:
    style = fields.given.get("style", "json")
    if style in _TAGS:
        return _tagged(fields, style)
    if style != "json":
        fields.refuse("style", f"expected 'json' or one of {', '.join(_TAGS)}")
    if "json_schema" not in fields.given:
        fields.refuse("json_schema", "expected a JSON Schema")
    order = "any" if fields.flag("any_order") else "schema"
    return JsonSchema(fields.given["json_schema"], order=order, whitespace=Whitespace.FLEXIBLE).plan()


_BLANK = "[ \\n\\r\\t]*"
_TAGS: dict[str, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    "qwen_xml": (("<parameter={}>",), (), "</parameter>"),
    "minimax_xml": (('<parameter name="{}">',), (), "</parameter>"),
    "glm_xml": (("<arg_key>{}</arg_key>", "<arg_value>"), (), "</arg_value>"),
    "deepseek_xml": (
        ('<｜DSML｜parameter name="{}" string="true">',), ('<｜DSML｜parameter name="{}" string="false">',),
        "</｜DSML｜parameter>",
    ),
    "deepseek_v4_1_xml": (
        ('<｜DSML｜ parameter name="{}" string="true">',), ('<｜DSML｜ parameter name="{}" string="false">',),
        "</｜DSML｜ parameter>",
    ),
}  # fmt: skip
"""By style: the pieces that open a property that is a text, those that open another one (empty: the same), and what
closes both. White space may stand between the pieces."""


def _tagged(fields: _Fields, style: str) -> Plan:
    """Each property between tags, as `<parameter=name>value</parameter>`; texts as they are, other values as JSON."""
    schema = fields.given.get("json_schema")
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(schema, Mapping) or not isinstance(properties, Mapping):
        fields.refuse("json_schema", "expected an object's schema with properties")
    blank, (of_text, of_other, end) = Regex(_BLANK).plan(), _TAGS[style]
    definitions = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
    members: list[Plan] = []
    for name, inner in properties.items():
        whole = {**definitions, **inner} if isinstance(inner, Mapping) else inner
        word, is_string = _word(whole), isinstance(inner, Mapping) and inner.get("type") == "string"
        free = word is None and is_string and not set(inner) & _RESTRICTING
        if free:
            value = Text(until=end).plan()
        else:
            written = JsonSchema(whole, whitespace=Whitespace.FLEXIBLE).plan() if word is None else word
            exact = word is not None and bool(of_other)  # white space would be part of the text
            value = Series((written, _literal(end)) if exact else (blank, written, blank, _literal(end)))
        pieces = of_text if free or word is not None or not of_other else of_other
        opening = Series(tuple(part for piece in pieces for part in (blank, _literal(piece.replace("{}", name)))))
        member = Series((opening, value))
        members.append(member if name in schema.get("required", ()) else Either((member, Series(()))))
    return Series((*members, blank))


def _qwen_xml(fields: _Fields, stops: tuple[str, ...]) -> Plan:
    return _tagged(fields, "qwen_xml")


_RESTRICTING = {"enum", "const", "pattern", "format", "minLength", "maxLength"}


def _word(schema: Any) -> Plan | None:
    """The plan of a listed text or one with a pattern, which stands without quotes; None for other values."""
    listed = (
        schema.get("enum", [schema["const"]] if "const" in schema else None) if isinstance(schema, Mapping) else None
    )
    if listed and all(isinstance(each, str) and each for each in listed):
        return Choice(listed).plan()
    if isinstance(schema, Mapping) and isinstance(schema.get("pattern"), str) and schema.get("type") == "string":
        return Regex(schema["pattern"]).plan()
    return None


def _grammar(fields: _Fields, stops: tuple[str, ...]) -> Plan:
    return grammar_of(fields.text("grammar")).plan()


def _regex(fields: _Fields, stops: tuple[str, ...]) -> Plan:
    return Regex(fields.text("pattern")).plan()


def _any_text(fields: _Fields, stops: tuple[str, ...]) -> Plan:
    most = fields.count("max_tokens")
    return Series(()) if most == 0 else _text(fields, stops, most)


def _text(fields: _Fields, stops: tuple[str, ...], max_tokens: int | None = None) -> Plan:
    before = tuple(dict.fromkeys((*fields.texts("excludes"), *stops)))
    return Text(before=before, max_chars=fields.count("max_chars"), max_tokens=max_tokens).plan()


def _token(fields: _Fields, stops: tuple[str, ...]) -> Plan:
    return _special(fields.given.get("token"), fields)


def _special(name: Any, fields: _Fields) -> Plan:
    if is_whole(name, 0, MAX_INTEGER):
        return Special(f"<[{name}]>", special_text(f"<[{name}]>"), ids=((name, name),))
    if not isinstance(name, str) or not name:
        raise OptionError(f"{fields.where}: a token is given by its name or its number, found {quoted(name)}")
    return Special(name, special_text(name))


def _sequence(fields: _Fields, stops: tuple[str, ...]) -> Plan:
    elements = fields.listed("elements")
    last = len(elements) - 1
    plans = [
        _plan(each, stops if i == last else (), f"{fields.where}.elements[{i}]") for i, each in enumerate(elements)
    ]
    return Series(tuple(plans))


def _or(fields: _Fields, stops: tuple[str, ...]) -> Plan:
    elements = enumerate(fields.listed("elements"))
    return Either(tuple(_plan(each, stops, f"{fields.where}.elements[{i}]") for i, each in elements))


def _tag(fields: _Fields, stops: tuple[str, ...]) -> Plan:
    begin, end = fields.given.get("begin"), fields.given.get("end")
    opening = _literal(begin) if isinstance(begin, str) else fields.inner("begin")
    if isinstance(end, Mapping):
        return Series((opening, fields.inner("content"), fields.inner("end")))
    ends = end if isinstance(end, list) else [end]
    if not ends or not all(isinstance(each, str) for each in ends):
        fields.refuse("end", "expected a text, texts or a token")
    closing = tuple(each for each in ends if each)
    content = fields.inner("content", closing or stops)
    return Series((opening, content, Either(tuple(map(_literal, ends)))))


def _tags(fields: _Fields) -> list[Plan]:
    return [
        _plan({"type": "tag", **each} if isinstance(each, Mapping) else each, (), f"{fields.where}.tags[{i}]")
        for i, each in enumerate(fields.listed("tags"))
    ]


def _triggered_tags(fields: _Fields, stops: tuple[str, ...]) -> Plan:
    triggers = fields.texts("triggers", needed=True)
    for i, tag in enumerate(fields.listed("tags")):
        begin = tag.get("begin") if isinstance(tag, Mapping) else None
        if not isinstance(begin, str) or not any(begin.startswith(trigger) for trigger in triggers):
            raise OptionError(
                f"{fields.where}.tags[{i}].begin: expected a text that begins with a trigger, found {quoted(begin)}"
            )
    return _dispatched(fields, _text(fields, (*triggers, *stops)), _tags(fields))


def _token_triggered_tags(fields: _Fields, stops: tuple[str, ...]) -> Plan:
    if fields.given.get("exclude_tokens"):
        fields.refuse("exclude_tokens", "this is not supported")
    return _dispatched(fields, Text(before=stops).plan(), _tags(fields))


def _dispatched(fields: _Fields, text: Plan, tags: list[Plan]) -> Plan:
    """Free text with tags in it. If at least one is asked for, the first begins at once."""
    tag = Either(tuple(tags))
    more = Loop(Series((tag, text)), 0, None)
    first, once = fields.flag("at_least_one"), fields.flag("stop_after_first")
    if once:
        return tag if first else Series((text, Either((tag, Series(())))))
    return Series((tag, text, more)) if first else Series((text, more))


def _tags_with_separator(fields: _Fields, stops: tuple[str, ...]) -> Plan:
    separator = _literal(fields.text("separator"))
    most = 1 if fields.flag("stop_after_first") else None
    return Loop(Either(tuple(_tags(fields))), int(fields.flag("at_least_one")), most, separator)


def _dispatch(fields: _Fields, stops: tuple[str, ...]) -> Plan:
    rules = fields.listed("rules")
    if not all(
        isinstance(rule, (list, tuple)) and len(rule) == 2 and rule[0] and isinstance(rule[0], str) for rule in rules
    ):
        fields.refuse("rules", "expected pairs of a text and a format")
    plans = [
        Series((_literal(pattern), _plan(inner, stops, f"{fields.where}.rules[{i}]")))
        for i, (pattern, inner) in enumerate(rules)
    ]
    text = _text(fields, (*(pattern for pattern, _ in rules), *stops))
    one = Either(tuple(plans))
    if fields.given.get("loop", True):
        return Series((text, Loop(Series((one, text)), 0, None)))
    return Series((text, Either((one, Series(())))))


def _repeated(minimum: int, maximum: int | None) -> Callable[[_Fields, tuple[str, ...]], Plan]:
    return lambda fields, stops: Loop(fields.inner("content"), minimum, maximum)


def _repeat(fields: _Fields, stops: tuple[str, ...]) -> Plan:
    least, most = fields.count("min") or 0, fields.count("max")
    if most is None or least < 0 or most < -1 or (most != -1 and most < least):
        fields.refuse("max", "expected whole numbers, 0 <= min <= max, or max -1 for no bound")
    return Loop(fields.inner("content"), least, None if most == -1 else most)


_KINDS: dict[str, Callable[[_Fields, tuple[str, ...]], Plan]] = {
    "const_string": _const_string, "json_schema": _json_schema, "qwen_xml_parameter": _qwen_xml, "grammar": _grammar,
    "regex": _regex, "any_text": _any_text, "token": _token, "sequence": _sequence, "or": _or, "tag": _tag,
    "triggered_tags": _triggered_tags, "token_triggered_tags": _token_triggered_tags,
    "tags_with_separator": _tags_with_separator, "dispatch": _dispatch, "optional": _repeated(0, 1),
    "plus": _repeated(1, None), "star": _repeated(0, None), "repeat": _repeat,
}  # fmt: skip
_UNSUPPORTED = {"exclude_token", "any_tokens", "token_dispatch"}
