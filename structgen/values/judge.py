"""Judges JSON that exists already, by the automaton that masks follow.

A value is written in one spelling: without white space, strings as `json.dumps` writes them, numbers in plain decimal
notation. The automaton reads this text with members in any order and numbers by their decimals. So what restricts only
the texts of masks (white space, notations, what a double holds exactly) refuses no value.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from json.encoder import encode_basestring
from typing import Any, NamedTuple

from structgen.automaton.expected import Walk
from structgen.json_text.lexer import TOKEN
from structgen.json_text.pointers import PointerReader, pointer_of
from structgen.errors import UnsatisfiableSchema, excerpt, quoted
from structgen.options import Whitespace
from structgen.schema.keywords.table import SPEAKS_OF
from structgen.schema.normal import Node
from structgen.schema.places import has_plain_integers
from structgen.schema.left_out import LeftOut
from structgen.schema.reader import SchemaNode, algebra_of
from structgen.json_text.pointers import unescaped
from structgen.schema.whole_numbers import with_ints
from structgen.values.json_automaton import JsonAutomaton

MOST_DIGITS = 5_000
"""A number with more digits before or after the point is written with an exponent."""


_KINDS = {"array": list, "object": Mapping}


class Fault(NamedTuple):
    """Why a value is refused.

    Attributes:
        pointer: JSON pointer of the value that is at fault.
        why: what was found there, and what refuses it.
        rule: JSON pointer of the keyword that refuses it, in the schema; empty if no single keyword does.
        found: the value there.
    """

    pointer: str
    why: str
    rule: str = ""
    found: Any = None

    def __str__(self) -> str:
        return f"{excerpt(self.pointer)}: {self.why}" if self.pointer else self.why


class Refused(ValueError):
    """A text is no JSON, or its value does not satisfy the schema; `fault` says why."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(str(fault))


class _Mark(str):
    """A bracket, a comma or a colon: text that stands for itself."""

    __slots__ = ()


class Judge:
    """Judges values by one schema. Safe for threads.

    Args:
        root: the schema in normal form. Where it quotes a source that is not known, any text may be a quote.
        finite: refuse numbers with a fraction or an exponent that are beyond the range of a double.
    """

    def __init__(self, root: Node, *, finite: bool = True) -> None:
        if isinstance(root, SchemaNode) and root.reader.scan.quoting:
            reader = root.reader
            quoting = [reader.node(each, None) for each in reader.scan.quoting]
            root = LeftOut(reader, [(node, "x-quote") for node in quoting if isinstance(node, SchemaNode)]).twin(root)
        self._root, self._finite, self._plain_integers = root, finite, has_plain_integers(root)
        self._automaton: JsonAutomaton | None = None
        self._never = ""
        try:
            self._automaton = JsonAutomaton(
                root, Whitespace.COMPACT, any_order=True, algebra=algebra_of(root), finite=False
            )
        except UnsatisfiableSchema as error:
            self._never = str(error)

    def value(self, text: str | bytes) -> Any:
        """The value of a JSON text, with ints where the schema says `integer`.

        Raises:
            Refused: the text is no JSON, or the schema refuses its value.
        """
        try:
            try:
                value = json.loads(text, parse_float=_decimal)
            except ValueError as error:
                raise Refused(Fault("", f"it is no JSON that can be read: {error}")) from error
            fault = self.fault(value)
            if fault is None:
                return with_ints(value, self._root)
        except RecursionError:
            fault = Fault("", "it nests too deeply to be read")
        raise Refused(fault)

    def holds(self, value: Any) -> bool:
        """Does a value satisfy the schema? Numbers may be Decimals."""
        try:
            text = self.text(value)
        except Refused:
            return False
        automaton = self._automaton
        if automaton is None:
            return False
        with automaton.lock:
            walk = Walk(automaton, text)
            return walk.taken == len(text) and walk.may_end

    def fault(self, value: Any) -> Fault | None:
        """Why a value does not satisfy the schema; None if it does. Numbers may be Decimals."""
        try:
            text = self.text(value)
        except Refused as refused:
            return refused.fault
        automaton = self._automaton
        if automaton is None:
            return Fault("", self._never)
        with automaton.lock:
            walk = Walk(automaton, text)
            if walk.taken == len(text) and walk.may_end:
                return None
            expected = walk.expected()
        return self._explained(value, text, walk, expected)

    def ordered(self, value: Any) -> Any:
        """A value that satisfies the schema, with the members of its objects in the order in which it declares them."""
        pieces, starts, offset = list(self._pieces(value)), list[int](), 0
        for piece in pieces:
            if isinstance(piece, _Mark) and piece == "{":
                starts.append(offset)
            offset += len(piece.encode("utf-8", "surrogatepass"))
        assert self._automaton is not None
        text = "".join(pieces).encode("utf-8", "surrogatepass")
        with self._automaton.lock:
            positions = Walk(self._automaton, text).positions
        ranks = algebra_of(self._root).ranks or {}
        objects = iter(self._automaton.read_against(text, positions, starts))

        def sorted_(item: Any) -> Any:
            if isinstance(item, (list, tuple)):
                return list(map(sorted_, item))
            if not isinstance(item, Mapping):
                return item
            names = [name for place in next(objects) for name in place.schema.get("properties", ())]
            names.sort(key=lambda name: ranks.get(name, len(ranks)))
            members = {name: sorted_(each) for name, each in item.items()}
            return {name: members[name] for name in dict.fromkeys([*filter(members.__contains__, names), *members])}

        return sorted_(value)

    def _explained(self, value: Any, text: bytes, walk: Walk, expected: str) -> Fault:
        """Why the walk of a value's text does not come to its end."""
        assert self._automaton is not None
        taken, rest = text[: walk.taken], text[walk.taken :]
        reader = PointerReader()
        reader.feed(taken + rest[: rest.startswith(b",")])
        token = TOKEN.match(text, len(reader.text) - len(reader.unfinished))
        whole = text[walk.taken : token.end() + 1] if token else rest  # the token that is refused, and a byte after it
        ends_number = rest[:1] == b"," and taken[-1:].isdigit()  # the comma may be refused because the number is
        tries = [whole, rest[:1]]  # the whole may fail for several reasons
        for refused in dict.fromkeys(tries[::-1] if ends_number else tries):
            blame = self._automaton.blame(taken, walk.positions, refused, ends=not rest)
            if blame.keyword:
                break
        pointer, found, kind = blame.pointer, _at(value, blame.pointer), _KINDS.get(SPEAKS_OF.get(blame.keyword, ""))
        if kind is not None and not isinstance(found, kind):
            pointer = pointer.rpartition("/")[0]
            found = _at(value, pointer)
        missing = [quoted(each) for each in blame.argument if each not in found] if blame.keyword == "required" else ()
        if missing:
            return Fault(pointer, f"{', '.join(missing)} is missing, and is required", blame.rule, found)
        what = f"found {self._shown(found)}"
        is_name = token is not None and token[1] is not None and reader.pending is None
        if token is not None and is_name and isinstance(found, Mapping):
            what = f"the member {quoted(json.loads(token[1]))} is not allowed"
        rule = f"{blame.keyword} is {quoted(blame.argument)}" if blame.keyword else f"expected {expected}"
        return Fault(pointer, f"{what}; {rule}", blame.rule, found)

    def _shown(self, value: Any) -> str:
        """A value as a message quotes it."""
        text = str(value) if isinstance(value, Decimal) else self.text(value).decode("utf-8", "surrogatepass")
        return excerpt(text.encode("utf-8", "backslashreplace").decode())

    def text(self, value: Any) -> bytes:
        """The text of a value that the automaton reads.

        Raises:
            Refused: the value is no JSON.
        """
        pieces: list[str] = []
        try:
            pieces.extend(self._pieces(value))  # those before an error stay
        except ValueError as error:
            reader = PointerReader()
            reader.feed("".join(pieces).encode("utf-8", "replace"))
            raise Refused(Fault(pointer_of(reader.pending or ()), str(error))) from None
        return "".join(pieces).encode("utf-8", "surrogatepass")

    def _pieces(self, value: Any) -> Iterator[str]:
        todo: list[Any] = [value]
        while todo:
            item = todo.pop()
            if isinstance(item, _Mark):
                yield item
            elif item is None or isinstance(item, bool):
                yield json.dumps(item)
            elif isinstance(item, str):
                yield encode_basestring(item)
            elif isinstance(item, (int, float, Decimal)):
                yield self._number(item)
            elif isinstance(item, (list, tuple)):
                parts = [part for each in item for part in (_Mark(","), each)]
                todo += [_Mark("]"), *reversed(parts[1:]), _Mark("[")]
            elif isinstance(item, Mapping) and all(isinstance(name, str) for name in item):
                members = item.items()
                parts = [part for name, each in members for part in (_Mark(","), name, _Mark(":"), each)]
                todo += [_Mark("}"), *reversed(parts[1:]), _Mark("{")]
            else:
                raise ValueError(f"{quoted(item)} is no JSON value")

    def _number(self, value: int | float | Decimal) -> str:
        """The plain decimal notation of a number, which ends with `.0` where that decides whether it is an integer."""
        number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        if not number.is_finite():
            raise ValueError(f"{json.dumps(float(value))} is no JSON number")
        whole = isinstance(value, int)
        if self._finite and not whole and math.isinf(float(number)):
            raise ValueError(f"{number} is beyond the range of a double")
        if number.is_zero():
            return "0" if whole or not self._plain_integers else "0.0"
        if max(number.adjusted(), -int(number.as_tuple().exponent)) > MOST_DIGITS and not whole:
            return f"{number:e}"
        text = f"{number:f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return f"{text}.0" if self._plain_integers and not whole and "." not in text else text


def _decimal(text: str) -> Decimal:
    """A number by its digits. For an exponent of more digits than `Decimal` takes, one that is far out of any range."""
    try:
        return Decimal(text)
    except InvalidOperation:
        mantissa, _, exponent = text.lower().partition("e")
        return Decimal(f"{mantissa}e{'-' if exponent.startswith('-') else ''}{10**9}")


def _at(value: Any, pointer: str) -> Any:
    """The value at a pointer."""
    for token in pointer.split("/")[1:]:
        value = value[unescaped(token)] if isinstance(value, Mapping) else value[int(token)]
    return value
