"""Texts that a constraint forces and a guard forbids. They are reported before anything is generated.

`in_every_text` reads all texts of a grammar from their start, byte by byte, as long as they are few: an enum, the
alternatives of a pattern, the first names of an object. `in_schema` searches the normal form of a JSON Schema for a
required name that is banned, and for a required value whose allowed texts are all banned. The two do not find each
conflict, but each conflict that they report is real.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from structgen.errors import CallbackError, DeadEnd, quoted
from structgen.guards.banned import EVERYTHING, Banned
from structgen.guards.lookahead import GuardSet, States
from structgen.guards.protocol import Guard, Veto
from structgen.masks import Grammar
from structgen.masks.words import ids_of
from structgen.schema.normal import Arrays, Node, Objects, Property, Shape

MAX_TOKENS = 4096
"""A mask with more tokens than this ends the search: it is probably free text."""

MAX_STEPS = 2000
"""The number of bytes that are read before the search gives up."""

MAX_PLACES = 500
"""The number of places of a schema that are searched."""


class Unavoidable(NamedTuple):
    """An offence that every text has."""

    pointer: str  # the place in the schema that forces it
    reason: str  # the veto's
    forced: str  # the text that is forced, for messages
    others: tuple[str, ...] = ()  # the reasons of vetoes against other texts


def in_every_text(grammar: Grammar, guards: Sequence[Guard[Any]]) -> Unavoidable | None:
    """The first offence that was found, if every text of the grammar has one; None if a text has none, or if it is not
    known."""
    vetoes = list[tuple[Veto, bytes]]()
    try:
        blocked = _all_blocked(grammar, GuardSet(guards), vetoes)
    except CallbackError:  # raised again if a row reaches the same text; other rows may be fine
        return None
    if not blocked or not vetoes:
        return None
    reasons, forced = list(dict.fromkeys(veto.reason for veto, _ in vetoes)), vetoes[0][1]
    return Unavoidable("", reasons[0], forced.decode("utf-8", errors="replace"), tuple(reasons[1:]))


def _all_blocked(grammar: Grammar, guards: GuardSet, vetoes: list[tuple[Veto, bytes]]) -> bool:
    """Does every text of a grammar have an offence? False if it is not known.

    The texts are searched depth first, byte by byte. Each veto is added to `vetoes`, with the text that it refuses.
    """
    waiting: list[tuple[int, States, bytes]] = [(grammar.start, guards.start(), b"")]
    steps = MAX_STEPS
    while waiting:
        if len(waiting) > steps:  # the steps left are too few to follow all of them
            return False
        position, state, text = waiting.pop()
        steps -= 1
        follows = _follows(grammar, position)
        if follows is None:
            return False
        ends, tokens = follows
        if ends:
            veto = guards.finish(state)
            if veto is None:
                return False
            vetoes.append((veto, text))
        for token in tokens:
            byte = grammar.vocabulary.token(token)
            after = guards.feed(state, byte)
            if isinstance(after, Veto):
                vetoes.append((after, text + byte))
            else:
                waiting.append((grammar.advance(position, token), after, text + byte))
    return True


def _follows(grammar: Grammar, position: int) -> tuple[bool, list[int]] | None:
    """May a text end at a position? And the tokens of the bytes that may come next; None if there are too many."""
    try:
        words, ends, tested = grammar.mask(position)
    except DeadEnd:
        return False, []
    if tested is not None or int(np.bitwise_count(words).sum()) > MAX_TOKENS:
        return None
    texts = {token: grammar.vocabulary.token(token) for token in ids_of(words).tolist()}
    single = {text: token for token, text in texts.items() if len(text) == 1}
    if any(text and text[:1] not in single for text in texts.values()):
        return None
    return ends, list(single.values())


def in_schema(root: Node, guards: Sequence[Guard[Any]]) -> Unavoidable | None:
    """A required place of a schema with only banned values; None if none was found.

    Args:
        guards: only those that are `Banned` are asked: others may depend on more than one value.
    """
    for guard in guards:
        if isinstance(guard, Banned):
            blocked = _RequiredPlaces(guard).blocked(root, b"")
            if blocked is not None:
                return blocked
    return None


class _RequiredPlaces:
    """The required places of one schema, for one guard."""

    def __init__(self, guard: Banned[Any]) -> None:
        self._guard, self._left = guard, MAX_PLACES
        self._open: set[Node] = set()

    def blocked(self, node: Node, before: bytes) -> Unavoidable | None:
        """Why no value of a node can follow a text; None when one may."""
        self._left -= 1
        if node.is_any or node in self._open or self._left < 0:
            return None
        self._open.add(node)
        blocked = [self._shape(node, shape, before) for shape in node.shapes]
        self._open.discard(node)
        return blocked[0] if blocked and all(blocked) else None

    def _shape(self, node: Node, shape: Shape, before: bytes) -> Unavoidable | None:
        if shape.null or shape.true or shape.false or shape.numbers is not None:
            return None
        kinds: list[Unavoidable | None] = []
        if shape.strings is not None:
            kinds.append(self._literals(node.pointer, shape.strings.literals, before))
        if shape.arrays is not None:
            kinds.append(self._items(shape.arrays, before))
        if shape.objects is not None:
            kinds.append(self._members(node.pointer, shape.objects, before))
        return kinds[0] if kinds and all(kinds) else None

    def _literals(self, pointer: str, literals: tuple[str, ...] | None, before: bytes) -> Unavoidable | None:
        if not literals:
            return None
        reasons = [self._offence(before, _quoted(text)) for text in literals]
        if None in reasons:
            return None
        forced = " or ".join(map(quoted, literals[:5])) + (" or ..." if len(literals) > 5 else "")
        return Unavoidable(pointer, str(reasons[0]), forced)

    def _items(self, arrays: Arrays, before: bytes) -> Unavoidable | None:
        begun = before + b"["
        for node in (*arrays.prefix, arrays.rest)[: arrays.min_items]:
            blocked = None if node is None else self.blocked(node, begun)
            if blocked is not None:
                return blocked
            begun += b"null, "
        return None

    def _members(self, pointer: str, objects: Objects, before: bytes) -> Unavoidable | None:
        for member in objects.properties:
            if member.required and (blocked := self._member(pointer, member, before + b"{")):
                return blocked
        return None

    def _member(self, pointer: str, member: Property, before: bytes) -> Unavoidable | None:
        name = _quoted(member.name)
        reason = self._offence(before, name) if self._guard.scope == EVERYTHING else None
        if reason is not None:
            return Unavoidable(pointer, reason, f"the name {quoted(member.name)}")
        return self.blocked(member.value, before + name + b": ")

    def _offence(self, before: bytes, text: bytes) -> str | None:
        """Why `text` may not come after `before`, whatever follows it; None if it may."""
        state = self._guard.feed(self._guard.start(), before)
        if isinstance(state, Veto):  # `before` has names that are banned; they are reported at their own place
            return None
        veto = self._guard.feed(state, text)
        return veto.reason if isinstance(veto, Veto) and veto.offset >= len(before) else None


def _quoted(text: str) -> bytes:
    """The only spelling of a text that the masks allow."""
    return json.dumps(text, ensure_ascii=False).encode()
