"""Structural tags: what a model writes around its calls, as JSON that OpenAI-compatible servers take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from structgen.arguments import MAX_INTEGER, is_whole
from structgen.chat.arguments import KeyedArguments, Raw
from structgen.chat.formats import STYLES
from structgen.chat.keyed.plans import KeyedPlans
from structgen.chat.literals import Literals
from structgen.constraints.basic import JsonSchema, Regex
from structgen.constraints.compositions import Composition, Text
from structgen.constraints.languages import grammar_of
from structgen.errors import OptionError, quoted
from structgen.options import Whitespace
from structgen.parts.parts import Either, Loop, Plan, Series, Switch, Texts
from structgen.parts.special import Fixed, Special
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
    `grammar`, `any_text`, `any_tokens`, `token`, `sequence`, `or`, `tag`, `triggered_tags`, `token_triggered_tags`,
    `tags_with_separator`, `dispatch`, `token_dispatch`, `optional`, `plus`, `star`, `repeat` and `qwen_xml_parameter`.
    Free text in a tag ends before the tag's end, and has no special tokens. Where the vocabulary has special tokens
    whose names are in a fixed text or in the tags of a style, the model writes these tokens. JSON may have white
    space wherever JSON allows it.

    Attributes:
        value: the structural tag, its `format` alone, or the older form with `structures` and `triggers`.

    Raises (when it is compiled):
        OptionError: it is malformed, or it has what is not supported: `exclude_token`, excluded tokens that are not
            special, other styles and fields. The message says where.
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
    if not {"format", "structures"}.isdisjoint(value) and value.get("type", "structural_tag") != "structural_tag":
        raise OptionError(f"type: expected 'structural_tag', found {quoted(value['type'])}")
    if "format" in value:
        return value["format"]
    tags = value.get("structures", value.get("tags") if "triggers" in value and "type" not in value else None)
    if tags is None:
        if value.get("type") == "structural_tag":
            raise OptionError("the structural tag has neither a format nor structures")
        return value
    if isinstance(tags, list):
        tags = [tag if not isinstance(tag, Mapping) or "content" in tag else _newer(**tag) for tag in tags]
    return {"type": "triggered_tags", "triggers": value.get("triggers"), "tags": tags}


def _newer(schema: Any = True, **tag: Any) -> Format:
    return {**tag, "content": {"type": "json_schema", "json_schema": schema}}


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
        unsupported = "is not supported" if kind == "exclude_token" else "is no kind of format"
        raise OptionError(f"{where}: the type {quoted(kind)} {unsupported}; known are {', '.join(sorted(_KINDS))}")
    fields = _Fields(given, where)
    plan = read(fields, stops)
    fields.rest()
    return plan


@dataclass(frozen=True)
class _Fields:
    """The fields of one format, with its place for messages.

    Attributes:
        read: the names of those that were asked for.
    """

    given: Format
    where: str
    read: set[str] = field(default_factory=lambda: {"type"})

    def get(self, name: str, default: Any = None) -> Any:
        """A field."""
        self.read.add(name)
        return self.given.get(name, default)

    def refuse(self, name: str, reason: str) -> NoReturn:
        """Raises an OptionError that names the field."""
        raise OptionError(f"{self.where}.{name}: {reason}, found {quoted(self.given.get(name))}")

    def text(self, name: str) -> str:
        """A field that is a text."""
        value = self.get(name)
        return value if isinstance(value, str) else self.refuse(name, "expected a text")

    def texts(self, name: str, *, needed: bool = False) -> list[str]:
        """A field that is a list of texts."""
        value = self.get(name, None if needed else [])
        if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
            self.refuse(name, "expected a list of texts, none of them empty")
        return value

    def flag(self, name: str) -> bool:
        """A field that is true or false; false by default."""
        value = self.get(name, False)
        return value if isinstance(value, bool) else self.refuse(name, "expected true or false")

    def count(self, name: str, least: int = 0) -> int | None:
        """A field that is a whole number or null; null by default."""
        value: int | None = self.get(name)
        if value is not None and not is_whole(value, least, MAX_INTEGER):
            self.refuse(name, f"expected a whole number of at least {least}")
        return value

    def listed(self, name: str) -> list[Any]:
        """A field that is a list, not empty."""
        value = self.get(name)
        return value if isinstance(value, list) and value else self.refuse(name, "expected a list, not empty")

    def inner(self, name: str, stops: tuple[str, ...] = ()) -> Plan:
        """The plan of a format in a field."""
        return _plan(self.get(name), stops, f"{self.where}.{name}")

    def rest(self) -> None:
        """Refuses the fields that nobody has asked for."""
        more = [name for name, value in self.given.items() if name not in self.read and value not in (None, [], False)]
        if more:
            self.refuse(more[0], f"this is no field of {quoted(self.given.get('type'))} that is supported")


def _const_string(fields: _Fields, stops: tuple[str, ...]) -> Plan:
    return _literal(fields.text("value"))


def _literal(text: str) -> Plan:
    return Fixed(text, named=True) if text else Series(())


def _json_schema(fields: _Fields, stops: tuple[str, ...]) -> Plan:
    style = fields.get("style", "json")
    if style in STYLES:
        return _styled(fields, style)
    if style != "json":
        fields.refuse("style", f"expected 'json' or one of {', '.join(STYLES)}")
    schema = fields.get("json_schema")
    if not isinstance(schema, (bool, Mapping)):
        fields.refuse("json_schema", "expected a JSON Schema")
    most, blanks = fields.count("max_whitespace_cnt"), Whitespace.FLEXIBLE
    if most is not None:
        blanks = replace(blanks, bound=min(most, blanks.bound)) if most else Whitespace.COMPACT
    return JsonSchema(schema, order="any" if fields.flag("any_order") else "schema", whitespace=blanks).plan()


def _styled(fields: _Fields, style: str) -> Plan:
    """Each property between tags, as `<parameter=name>value</parameter>`; texts as they are, other values as JSON."""
    schema = fields.get("json_schema")
    if schema is not True and not (isinstance(schema, Mapping) and schema.get("type", "object") == "object"):
        fields.refuse("json_schema", "expected the JSON Schema of an object")
    if fields.count("max_whitespace_cnt") is not None:
        fields.refuse("max_whitespace_cnt", f"the style {style} has bounds of its own")
    literal, order = Literals(None), "any" if fields.flag("any_order") else "schema"
    formats = dict(STYLES[style].formats)
    formats["string"] = replace(formats["string"], writer=Raw(frozenset(fields.texts("excludes"))))
    plans = KeyedPlans(KeyedArguments(tuple(formats.items())), literal)
    if schema is True or not schema.keys() - {"type", "title", "description"}:
        schema = {"additionalProperties": True}
    if any(set(name) & set('<>&"') for name in schema.get("properties", ())):
        fields.refuse("json_schema", "names of properties with <, >, & or quotes cannot stand in a tag")
    return Series((plans.plan(schema, fields.where, order), literal.blank()))


def _qwen_xml(fields: _Fields, stops: tuple[str, ...]) -> Plan:
    return _styled(fields, "qwen_xml")


def _grammar(fields: _Fields, stops: tuple[str, ...]) -> Plan:
    return grammar_of(fields.text("grammar")).plan()


def _regex(fields: _Fields, stops: tuple[str, ...]) -> Plan:
    return Regex(fields.text("pattern")).plan()


def _any_text(fields: _Fields, stops: tuple[str, ...]) -> Plan:
    return _text(fields, stops, fields.count("max_tokens"))


def _text(fields: _Fields, stops: tuple[str, ...], max_tokens: int | None = None) -> Plan:
    before = tuple(dict.fromkeys((*fields.texts("excludes"), *stops)))
    most = fields.count("max_chars")
    return Series(()) if max_tokens == 0 else Text(before=before, max_chars=most, max_tokens=max_tokens).plan()


def _any_tokens(fields: _Fields, stops: tuple[str, ...]) -> Plan:
    """Free text, in which no special token is. So excluded tokens only have to be special ones of the vocabulary:
    each is a part that is read zero times."""
    excluded, most = fields.get("exclude_tokens") or [], fields.count("max_tokens")
    if not isinstance(excluded, list):
        fields.refuse("exclude_tokens", "expected a list of names or numbers")
    text = Series(()) if most == 0 else Text(before=stops, max_tokens=most).plan()
    return Series((text, *(Loop(_special(each, fields), 0, 0) for each in excluded)))


def _token(fields: _Fields, stops: tuple[str, ...]) -> Plan:
    return _special(fields.get("token"), fields)


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
    return _begun([_opened(fields, stops)])


def _opened(fields: _Fields, stops: tuple[str, ...]) -> tuple[str | Plan, Plan]:
    """What a tag begins with, and what follows."""
    begin, end = fields.get("begin"), fields.get("end")
    opening: str | Plan = begin if isinstance(begin, str) else fields.inner("begin")
    if isinstance(end, Mapping):
        return opening, Series((fields.inner("content"), fields.inner("end")))
    ends = end if isinstance(end, list) else [end]
    if not ends or not all(isinstance(each, str) for each in ends):
        fields.refuse("end", "expected a text, texts or a token")
    closing = tuple(each for each in ends if each)
    content = fields.inner("content", closing or stops)
    return opening, Series((content, Either(tuple(map(_literal, ends)))))


def _begun(each: list[tuple[str | Plan, Plan]]) -> Plan:
    """One of several plans, each after what it begins with. One automaton reads the texts among these."""
    texts = dict[bytes, list[Plan]]()
    others = list[Plan]()
    for begin, plan in each:
        if isinstance(begin, str) and begin:
            texts.setdefault(begin.encode(), []).append(plan)
        else:
            others.append(plan if isinstance(begin, str) else Series((begin, plan)))
    if texts:
        plans = tuple(plans[0] if len(plans) == 1 else Either(tuple(plans)) for plans in texts.values())
        others.append(Switch(Texts(tuple(texts), named=True), plans))
    return others[0] if len(others) == 1 else Either(tuple(others))


def _tags(fields: _Fields) -> Plan:
    """Any one of the tags."""
    each = []
    for i, tag in enumerate(fields.listed("tags")):
        where = f"{fields.where}.tags[{i}]"
        if not isinstance(tag, Mapping) or tag.get("type", "tag") != "tag":
            raise OptionError(f"{where}: expected a tag, found {quoted(tag)}")
        inner = _Fields(tag, where)
        each.append(_opened(inner, ()))
        inner.rest()
    return _begun(each)


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
    triggers = fields.listed("trigger_tokens")
    for i, tag in enumerate(fields.listed("tags")):
        begin = tag.get("begin") if isinstance(tag, Mapping) else None
        if not isinstance(begin, Mapping) or begin.get("token") not in triggers:
            raise OptionError(
                f"{fields.where}.tags[{i}].begin: expected one of the trigger_tokens, found {quoted(begin)}"
            )
    return _dispatched(fields, _any_tokens(fields, stops), _tags(fields))


def _dispatched(fields: _Fields, text: Plan, tag: Plan) -> Plan:
    """Free text with tags in it. If at least one is asked for, the first begins at once."""
    more = Loop(Series((tag, text)), 0, None)
    first, once = fields.flag("at_least_one"), fields.flag("stop_after_first")
    if once:
        return tag if first else Series((text, Either((tag, Series(())))))
    return Series((tag, text, more)) if first else Series((text, more))


def _tags_with_separator(fields: _Fields, stops: tuple[str, ...]) -> Plan:
    separator = _literal(fields.text("separator"))
    most = 1 if fields.flag("stop_after_first") else None
    return Loop(_tags(fields), int(fields.flag("at_least_one")), most, separator)


def _dispatch(fields: _Fields, stops: tuple[str, ...]) -> Plan:
    rules = _rules(fields)
    if not all(isinstance(pattern, str) and pattern for pattern, _ in rules):
        fields.refuse("rules", "expected pairs of a text and a format")
    text = _text(fields, (*(pattern for pattern, _ in rules), *stops))
    return _by_rules(fields, stops, text, [pattern for pattern, _ in rules])


def _token_dispatch(fields: _Fields, stops: tuple[str, ...]) -> Plan:
    return _by_rules(
        fields, stops, _any_tokens(fields, stops), [_special(token, fields) for token, _ in _rules(fields)]
    )


def _rules(fields: _Fields) -> list[Any]:
    rules = fields.listed("rules")
    if not all(isinstance(rule, (list, tuple)) and len(rule) == 2 for rule in rules):
        fields.refuse("rules", "expected pairs of what begins a format, and the format")
    return rules


def _by_rules(fields: _Fields, stops: tuple[str, ...], text: Plan, begins: Sequence[str | Plan]) -> Plan:
    """Free text with formats in it, each after what begins it."""
    inner = [_plan(format_, stops, f"{fields.where}.rules[{i}]") for i, (_, format_) in enumerate(_rules(fields))]
    one = _begun(list(zip(begins, inner, strict=True)))
    if fields.get("loop", True):
        return Series((text, Loop(Series((one, text)), 0, None)))
    return Series((text, Either((one, Series(())))))


def _repeated(minimum: int, maximum: int | None) -> Callable[[_Fields, tuple[str, ...]], Plan]:
    return lambda fields, stops: Loop(fields.inner("content"), minimum, maximum)


def _repeat(fields: _Fields, stops: tuple[str, ...]) -> Plan:
    least, most = fields.count("min") or 0, fields.count("max", -1)
    if most is None or -1 < most < least:
        fields.refuse("max", "expected whole numbers, 0 <= min <= max, or max -1 for no bound")
    return Loop(fields.inner("content"), least, None if most == -1 else most)


_KINDS: dict[str, Callable[[_Fields, tuple[str, ...]], Plan]] = {
    "const_string": _const_string, "json_schema": _json_schema, "qwen_xml_parameter": _qwen_xml, "grammar": _grammar,
    "regex": _regex, "any_text": _any_text, "token": _token, "sequence": _sequence, "or": _or, "tag": _tag,
    "triggered_tags": _triggered_tags, "token_triggered_tags": _token_triggered_tags,
    "tags_with_separator": _tags_with_separator, "dispatch": _dispatch,
    "any_tokens": _any_tokens, "token_dispatch": _token_dispatch, "optional": _repeated(0, 1),
    "plus": _repeated(1, None), "star": _repeated(0, None), "repeat": _repeat,
}  # fmt: skip
