"""Texts that a constraint forces although a guard forbids them, reported before anything runs.

`in_every_text` reads all texts of a grammar from their start, byte by byte, as long as they are few: an enum, the
alternatives of a pattern, the names in front. `in_schema` looks for what is required anywhere in a JSON Schema's normal
form: a member's name, or a value of which only some texts are allowed, each of them banned. Neither is complete, but
all that they report is unavoidable.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import TypeIs

from structgen.errors import CallbackError, DeadEnd, quoted
from structgen.guards.banned import EVERYTHING, Banned
from structgen.guards.guard_set import GuardSet, States
from structgen.guards.protocol import Guard, Veto
from structgen.masks import Grammar
from structgen.masks.words import ids_of
from structgen.schema.normal import Arrays, Node, Objects, Property, Shape

MOST_TOKENS = 4096
"""A mask of more tokens ends the search: it is free text."""

MOST_STEPS = 2000
"""Bytes that are read before it counts as unknown whether every text has an offence."""

MOST_PLACES = 500
"""Places of a schema that are looked at."""


class Unavoidable(NamedTuple):
    """An offence that every text has."""

    pointer: str  # the place in the schema that forces it
    reason: str  # the reason of the guard's veto
    forced: str  # the text that is forced, for messages
    others: tuple[str, ...] = ()  # further reasons, of other texts


def in_every_text(grammar: Grammar, guards: Sequence[Guard[Any]]) -> Unavoidable | None:
    """The first offence that was met, where every text of the grammar has one; None where one has none, or may not.

    Args:
        grammar: whose texts are read; a text of many possible bytes ends the search.
    """
    search = _TextSearch(grammar, GuardSet(guards))
    try:
        blocked = search.all_blocked()
    except CallbackError:  # it is raised again where a row comes there: in others, all may be well
        return None
    return search.first._replace(others=tuple(search.reasons)[1:]) if blocked and search.first else None


class _TextSearch:
    """Depth first through the texts of a grammar, by tokens of one byte."""

    def __init__(self, grammar: Grammar, guards: GuardSet) -> None:
        self._grammar, self._guards, self._steps = grammar, guards, MOST_STEPS
        self._vocabulary = grammar.vocabulary
        self.first: Unavoidable | None = None
        self.reasons: dict[str, None] = {}

    def all_blocked(self) -> bool:
        """Does every text have an offence? False where that is not known."""
        waiting: list[tuple[int, States, bytes]] = [(self._grammar.start, self._guards.start(), b"")]
        while waiting:
            if len(waiting) > self._steps:  # all of them would have to be followed
                return False
            position, state, text = waiting.pop()
            self._steps -= 1
            follows = self._follows(position)
            if follows is None:
                return False
            ends, tokens = follows
            if ends and not self._notes(self._guards.finish(state), text):
                return False
            for token in tokens:
                byte = self._vocabulary.token(token)
                after = self._guards.feed(state, byte)
                if not self._notes(after, text + byte):
                    waiting.append((self._grammar.advance(position, token), after, text + byte))
        return self.first is not None

    def _notes(self, answer: States | Veto | None, text: bytes) -> TypeIs[Veto]:
        """Is it a veto? The first one is kept."""
        if not isinstance(answer, Veto):
            return False
        self.reasons[answer.reason] = None
        self.first = self.first or Unavoidable("", answer.reason, text.decode("utf-8", errors="replace"))
        return True

    def _follows(self, position: int) -> tuple[bool, list[int]] | None:
        """May a text end at a position, and which bytes may come, each as a token? None where they are many."""
        try:
            words, ends, late = self._grammar.mask(position)
        except DeadEnd:
            return False, []
        if late is not None or int(np.bitwise_count(words).sum()) > MOST_TOKENS:
            return None
        bits = ids_of(words).tolist()
        texts = {token: self._vocabulary.token(token) for token in bits}
        single = {text: token for token, text in texts.items() if len(text) == 1}
        if any(text and text[:1] not in single for text in texts.values()):
            return None
        return ends, list(single.values())


def in_schema(root: Node, guards: Sequence[Guard[Any]]) -> Unavoidable | None:
    """A required place of a schema of which every value is banned; None where none was found.

    Args:
        guards: only `Banned` ones are asked, for others may want more than a value.
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
        self._guard, self._left = guard, MOST_PLACES
        self._open: set[Node] = set()

    def blocked(self, node: Node, before: bytes) -> Unavoidable | None:
        """Why no value of a node can be said behind a text; None when one may."""
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
        """Why a text may not stand behind another one, whatever comes then."""
        state = self._guard.feed(self._guard.start(), before)
        if isinstance(state, Veto):  # names of members around it: that is told where they stand, or no offence there
            return None
        veto = self._guard.feed(state, text)
        return veto.reason if isinstance(veto, Veto) and veto.offset >= len(before) else None


def _quoted(text: str) -> bytes:
    """The one spelling that the masks allow."""
    return json.dumps(text, ensure_ascii=False).encode()
