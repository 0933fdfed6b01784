"""Why a token was refused: where in the value, by which keyword of the schema, and what could have stood there.

The automaton that makes masks does not know which keyword made a state: many do at once. So the keywords that speak of
the value are left out of the schema one after the other, innermost value first, until the same text would have been
taken. That is exact and costs nothing until somebody asks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from structgen.automaton.bytewise import Bytewise
from structgen.automaton.checks import Check
from structgen.automaton.machine import Automaton
from structgen.automaton.table_format import position as packed
from structgen.errors import OptionError, StructgenError, quoted
from structgen.guards.pointers import PointerReader
from structgen.masks import Matcher
from structgen.options import Whitespace
from structgen.regular.patterns import pattern_language
from structgen.schema.normal import Node
from structgen.schema.reader import SchemaNode
from structgen.schema.references import REFERENCES, in_place, references
from structgen.schema.scan import escaped
from structgen.values.json_automaton import JsonAutomaton

MOST_TRIED = 8
"""Places of one keyword that are tried one by one."""
MANY_BYTES = 64
"""Where more bytes than this may follow, they are not listed."""

_LAST = ("if", "not", "allOf", "anyOf", "oneOf", "type", *REFERENCES)
"""Without these a value may be anything; what other schemas say is to be blamed there."""
_OTHERS = ("additionalProperties", "unevaluatedProperties")
_ITEMS = ("prefixItems", "items", "additionalItems", "contains", "unevaluatedItems")


@dataclass(frozen=True, slots=True)
class RefusedToken:
    """Why a token cannot come next.

    Attributes:
        token: its bytes; empty for a token that ends the text.
        offset: how many of these could come.
        pointer: JSON pointer of the value that is being written; empty where the text is no JSON, too.
        keyword: the keyword that refuses the byte at `offset`, or the option (`order`, `whitespace`); empty where the
            text's own grammar does, as JSON's.
        rule: JSON pointer of the keyword's argument in the schema; empty for an option and where there is none.
        argument: of the keyword.
        expected: what could have come in words.
    """

    token: bytes
    offset: int
    pointer: str
    keyword: str
    rule: str
    argument: Any
    expected: str

    def __str__(self) -> str:
        given = f"{self.keyword}={quoted(self.argument)}" if self.keyword and not self.rule else self.keyword
        said = f"{self.keyword} {quoted(self.argument)}" if self.rule else given
        where = f"at {self.pointer or 'the root'}" + (f": {said}" if said else "")
        at = f", at byte {self.offset} of {quoted(self.token)}" if self.token else ""
        return f"{where}; expected {self.expected}{at}"


def why_refused(matcher: Matcher, token_id: int) -> RefusedToken | None:
    """Why a token cannot come next; None where it can.

    Args:
        matcher: stands where the token would come. It does not move.
        token_id: of the model's vocabulary.

    Raises:
        OptionError: there is no such token, or it is neither text nor an end token.
    """
    grammar, vocabulary = matcher.grammar, matcher.grammar.vocabulary
    ends = token_id in vocabulary.end_ids
    if not ends and not (0 <= token_id < vocabulary.width and vocabulary.token(token_id)):
        raise OptionError(f"token_id={quoted(token_id)}: expected the id of a token with a text, or of an end token")
    said, token = matcher.text, b"" if ends else vocabulary.token(token_id)
    automaton = grammar.automaton
    with grammar.lock:
        walk = _Walk(automaton, said + token)
        if walk.taken == len(said + token) and (not ends or walk.may_end):
            return None
        expected = walk.expected()
    taken = (said + token)[: walk.taken]
    pointer, keyword, rule, argument = "", "", "", None
    if isinstance(automaton, JsonAutomaton):
        reader = PointerReader()
        reader.feed(taken)
        pointer = reader.pointer
        keyword, rule, argument = _blamed(automaton, (said + token)[: walk.taken + 1], reader.path, ends=ends)
    return RefusedToken(token, walk.taken - len(said), pointer, keyword, rule, argument, expected)


class _Walk:
    """A text in an automaton, as far as it goes.

    Attributes:
        taken: the number of bytes that it takes.
    """

    def __init__(self, automaton: Automaton, text: bytes) -> None:
        self._automaton, self._text, self._bytewise = automaton, text, Bytewise(automaton)
        self.taken, self._position = 0, packed(automaton.start)
        while self.taken < len(text):
            after = self._bytewise.step(self._position, text[self.taken], self._answer)
            if not after:
                return
            self.taken, self._position = self.taken + 1, after

    @property
    def may_end(self) -> bool:
        """May the text end behind what is taken?"""
        return self._bytewise.over(self._position, self._answer)

    def expected(self) -> str:
        """What may come behind what is taken."""
        after = self._bytewise.successors(self._position, lambda check, taken: self._holds(check, b""))
        return described([byte for byte in range(256) if after[byte]], end=self.may_end)

    def _answer(self, check: Check, taken: bool) -> bool:
        return self._holds(check, self._text[self.taken : self.taken + taken])

    def _holds(self, check: Check, more: bytes) -> bool:
        text = self._automaton.json_text(self._text[: self.taken] + more)
        return check.holds(self._automaton.reading().feed(text))


def described(allowed: list[int], *, end: bool) -> str:
    """Bytes in words: `a digit 0 to 5, "," or "}"`."""
    parts = []
    if len(allowed) > MANY_BYTES:
        closing = [chr(byte) for byte in allowed if chr(byte) in '"']
        parts = ["any character", *(f"`{each}`" for each in closing)]
    else:
        digits = [byte for byte in allowed if chr(byte).isdigit()]
        if len(digits) > 2 and digits[-1] - digits[0] == len(digits) - 1:
            span = "" if len(digits) == 10 else f" {chr(digits[0])} to {chr(digits[-1])}"
            parts.append("a digit" + span)
            allowed = [byte for byte in allowed if byte not in digits]
        blank = [byte for byte in allowed if byte in b" \n\t\r"]
        parts += [f"`{chr(byte)}`" if byte < 128 else f"byte {byte:#x}" for byte in allowed if byte not in blank]
        parts += ["white space"] if blank else []
    if end:
        parts.append("the end")
    if not parts:
        return "nothing: no text goes on from here"
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} or {parts[-1]}"


def _blamed(automaton: JsonAutomaton, text: bytes, path: tuple[str | int, ...], *, ends: bool) -> tuple[str, str, Any]:
    """The keyword or option without which the text would be taken, where it stands, and its argument."""

    def would_do(other: JsonAutomaton) -> bool:
        walk = _Walk(other, text)
        return walk.taken == len(text) and (not ends or walk.may_end)

    if not automaton.any_order and would_do(automaton.again(automaton.root, any_order=True)):
        return "order", "", "schema"
    if not automaton.whitespace.bound and would_do(automaton.again(automaton.root, whitespace=Whitespace.FLEXIBLE)):
        return "whitespace", "", automaton.whitespace.kind
    root = automaton.root
    if not isinstance(root, SchemaNode):  # true, or {}
        return "", "", None

    def would_do_without(rules: Iterable[str]) -> bool:
        schema = reduce(without, rules, root.schema)
        try:
            return would_do(automaton.again(root.reader.again(schema)))
        except StructgenError:  # without the keyword it is no schema
            return False

    for level in _speaking(root, path):
        keywords = _keywords(level)
        for keyword, rules in keywords.items():
            if would_do_without(rules):  # of all schemas of the value: each of several alternatives may have it
                alone = (rule for rule in list(rules)[:MOST_TRIED] if len(rules) > 1 and would_do_without([rule]))
                rule = next(alone, next(iter(rules)))
                return keyword, rule, rules[rule]
        types = keywords.pop("type", {})  # an enum has a type of its own, so both stand in the way
        if any(would_do_without([*types, *rules]) for rules in keywords.values() if types):
            return "type", next(iter(types)), types[next(iter(types))]
    return "", "", None


def _keywords(level: Sequence[SchemaNode]) -> dict[str, dict[str, Any]]:
    """By keyword, the JSON pointers to its arguments in some schemas, and these."""
    places = [(place.pointer, place.schema) for place in level if place.pointer[:1] in ("", "/")]  # of this document
    known: dict[str, dict[str, Any]] = {}
    ranks = {keyword: rank for rank, keyword in enumerate(_LAST, 1)}
    names = dict.fromkeys(keyword for _, schema in places for keyword in schema)
    for keyword in sorted(names, key=lambda name: ranks.get(name, 0)):
        rules = {f"{pointer}/{escaped(keyword)}": schema[keyword] for pointer, schema in places if keyword in schema}
        known[keyword] = rules
    return known


def without(schema: Any, pointer: str) -> Any:
    """A copy of a schema without what a JSON pointer leads to; what is not on the way is shared."""
    name, _, rest = pointer[1:].partition("/")
    key: Any = name.replace("~1", "/").replace("~0", "~")
    if isinstance(schema, list):
        index = int(key)
        return [*schema[:index], *([without(schema[index], f"/{rest}")] if rest else []), *schema[index + 1 :]]
    if not rest:
        return {other: value for other, value in schema.items() if other != key}
    return {**schema, key: without(schema[key], f"/{rest}")}


def _speaking(root: SchemaNode, path: tuple[str | int, ...]) -> Iterator[list[SchemaNode]]:
    """The schemas that speak of a value, then those of the value around it, and so on."""
    levels = [_in_place([root])]
    for step in path:
        levels.append(_in_place([part for node in levels[-1] for part in _parts(node, step)]))
    for level in reversed(levels):
        yield level[::-1]


def _in_place(nodes: Sequence[Node]) -> list[SchemaNode]:
    """Schemas, and those that they apply to the same value."""
    known: list[SchemaNode] = []
    waiting = deque(nodes)
    while waiting:
        node = waiting.popleft()
        if isinstance(node, SchemaNode) and all(node is not other for other in known):
            known.append(node)
            dialect = node.reader.dialect(node.schema)
            waiting += [node.reader.target(node, keyword) for keyword in references(node.schema, dialect)]
            waiting += [node.reader.node(branch, (node, *tokens)) for branch, tokens in in_place(node.schema, dialect)]
    return known


def _parts(node: SchemaNode, step: str | int) -> list[Node]:
    """The schemas that a schema applies to the member or item of this name or index."""
    schema, read = node.schema, node.reader.node
    if isinstance(step, int):
        parts = []
        for keyword in _ITEMS:
            value = schema.get(keyword, True)
            if isinstance(value, list):
                parts += [read(value[step], (node, keyword, step))] if step < len(value) else []
            else:
                parts.append(read(value, (node, keyword)))
        return parts
    if step in schema.get("properties", {}):
        return [read(schema["properties"][step], (node, "properties", step))]
    patterned = schema.get("patternProperties", {})
    matching = [pattern for pattern in patterned if pattern_language(pattern).matches(step)]
    parts = [read(patterned[pattern], (node, "patternProperties", pattern)) for pattern in matching]
    return parts + [read(schema.get(keyword, True), (node, keyword)) for keyword in _OTHERS]
