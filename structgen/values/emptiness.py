"""Which schemas no value satisfies. They are found before anything is generated, so no walk can reach a dead end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from structgen.patience import check_patience
from structgen.values.clashes import clash
from structgen.values.array_progress import Asking, Items, ItemSteps, T
from structgen.values.sets.numbers import number_is_empty
from structgen.values.sets.strings import string_is_empty
from structgen.values.object_progress import Flags, Inhabited, Members, MemberSteps, MemberOptions
from structgen.errors import LimitExceeded, UnsatisfiableSchema
from structgen.memo import cached_method
from structgen.schema.algebra import Algebra
from structgen.schema.keywords.arguments import MAX_DEPTH
from structgen.schema.normal import ANY, Arrays, Node, Objects, Shape
from structgen.schema.reader import SchemaNode

_NONE = 1 << 60


class Emptiness:
    """Decides whether a node has no value. Called with a node; answers are remembered.

    A node has a value if one of its shapes has one. While the node is being decided, the same node inside it counts as
    empty (a least fixed point), because a value cannot contain itself. Open questions wait on a list instead of
    Python's stack, so nesting may be deep. Sets that a set excludes (`without`) are ignored here; they are checked when
    a value is closed.

    Raises:
        LimitExceeded: a value would have to nest deeper than `MAX_DEPTH`.
    """

    def __init__(self, algebra: Algebra) -> None:
        self.items = ItemSteps(algebra)
        self.members = MemberSteps(algebra)
        self._known: dict[Node, bool] = {ANY: False}  # by hand: `_answer` finds several at once
        self._closing: dict[Items, bool] = {}
        self._some: set[Objects] = set()
        """The sets of objects that are known not to be empty."""

    def __call__(self, node: Node) -> bool:
        """True when no JSON value satisfies `node`."""
        begun = self._begin(node)
        return begun if isinstance(begun, bool) else self._answer(begun, node)

    def require(self, node: Node) -> None:
        """Refuses a node that no value satisfies.

        Raises:
            UnsatisfiableSchema: it is one; the message says which part excludes what.
        """
        if self(node):
            place = self.culprit(node)
            where = "it" if place is node else "this part of the schema, and one is required"
            why = clash(place)
            raise UnsatisfiableSchema(f"no JSON value satisfies {where}" + (f": {why}" if why else ""), place.pointer)

    def _begin(self, node: Node) -> bool | Asking[bool]:
        """The answer if it is known, or plain without asking about other nodes; else the question."""
        known = self._known.get(node)
        if known is not None:
            return known
        needs = node.needs()
        if needs:
            return _any_empty(needs)
        if needs is None and not any(map(_has_scalar, node.shapes)):
            return self._node(node)
        self._known[node] = False
        return False

    def culprit(self, node: Node) -> Node:
        """The innermost empty node that every value of an empty node would have to contain."""
        culprit, seen = node, {node}
        while needed := next((n for n in self._needed(culprit) if isinstance(n, SchemaNode) and self(n)), None):
            if needed in seen:
                return node
            seen.add(needed)
            culprit = needed
        return culprit

    def _needed(self, node: Node) -> Iterator[Node]:
        """The nodes of the items or members that every value of `node` has; none if the node has several shapes."""
        if len(node.shapes) != 1:
            return
        arrays, objects = node.shapes[0].arrays, node.shapes[0].objects
        if arrays is not None and objects is None:
            rest = (arrays.rest,) if arrays.rest is not None and arrays.min_items > len(arrays.prefix) else ()
            yield from (*arrays.prefix[: arrays.min_items], *rest)
        elif objects is not None and arrays is None:
            outline = self.members.outline(objects)
            yield from (outline.member(i) for i, member in enumerate(objects.properties) if member.required)

    def arrays(self, arrays: Arrays) -> bool:
        """True when no array satisfies `arrays`."""
        return self._answer(self._arrays(arrays))

    def objects(self, objects: Objects) -> bool:
        """True when no object satisfies `objects`."""
        return objects not in self._some and self._answer(self._objects(objects))

    def next_items(self, progress: Items) -> Iterator[tuple[Node, Items]]:
        """The options for the next item after which the array can still be closed; none when it must close now."""
        simple = self.items.plan(progress.arrays).simple
        for node, after in self.items.options(progress):
            if self(node):
                continue
            if simple or any(self.closes(x) and not self(n) for n, x in self.items.outcomes(progress, node, after)):
                yield node, after

    def closes(self, progress: Items) -> bool:
        """Can the array be closed, now or later?"""
        known = self._closing.get(progress)
        if known is None:
            known = self._closing[progress] = self._answer(self.items.closes(progress, self._closing))
        return known

    @cached_method
    def inhabited(self, objects: Objects) -> Inhabited:
        """Which members these objects can have."""
        return self._answer(self.members.inhabited(objects))

    def next_members(self, node: Node, after: Members, marks: int) -> MemberOptions:
        """The options of a member whose name has these marks, after which the object can still be closed."""
        if self(node):
            return []
        can = self.inhabited(after.objects)
        if not after.objects.some:
            return [(node, after)] if self.members.closes(after, can) else []
        options = self.members.options(node, after, marks)
        return [(n, a) for n, a in options if not self(n) and self.members.closes(a, can)]

    @cached_method
    def open_members(self, objects: Objects) -> OpenMembers:
        """Finds the declared members that may come next in objects of a set without existential rules."""
        return OpenMembers(objects, self)

    def _answer(self, asking: Asking[T], subject: Node | None = None) -> T:
        """Answers a question (about the node `subject`), and all questions about nodes that it asks.

        A node that waits for its own answer is assumed to be empty. For each question on the stack, `lowest` holds the
        lowest stack index of a node that was assumed to be empty for it.
        """
        stack: list[tuple[Asking[Any], Node | None]] = [(asking, subject)]
        lowest = [_NONE]
        places: dict[Node | None, int] = {subject: 0}
        answer: bool | None = None
        while True:
            check_patience()
            question, subject = stack[-1]
            try:
                wanted = next(question) if answer is None else question.send(answer)
            except StopIteration as stop:
                answer = stop.value
                self._settle(subject, bool(answer), len(stack) - 1, lowest)
                stack.pop()
                del places[subject]
                if not stack:
                    result: T = stop.value
                    return result
                continue
            if wanted in places:
                lowest[-1] = min(lowest[-1], places[wanted])
                answer = True
                continue
            begun = self._begin(wanted)
            if isinstance(begun, bool):
                answer = begun
            else:
                answer = None
                places[wanted] = len(stack)
                if len(stack) > MAX_DEPTH:
                    raise LimitExceeded(f"a value must nest more than {MAX_DEPTH:,} deep", wanted.pointer)
                stack.append((begun, wanted))
                lowest.append(_NONE)

    def _settle(self, subject: Node | None, empty: bool, place: int, lowest: list[int]) -> None:
        """Remembers an answer. "Empty" is not sure while it relies on an assumption about a node lower on the stack."""
        leans_on = lowest.pop()
        if not empty or leans_on >= place:
            if subject is not None:
                self._known[subject] = empty
        elif lowest:
            lowest[-1] = min(lowest[-1], leans_on)

    def _node(self, node: Node) -> Asking[bool]:
        try:
            for shape in node.shapes:
                if _has_scalar(shape):
                    return False
                if shape.arrays is not None and not (yield from self._arrays(shape.arrays)):
                    return False
                if shape.objects is not None and not (yield from self._objects(shape.objects)):
                    self._some.add(shape.objects)
                    return False
            return True
        except LimitExceeded as error:
            raise error.at(node.pointer) from error.__cause__

    def _arrays(self, arrays: Arrays) -> Asking[bool]:
        if not arrays.only("prefix", "rest", "min_items", "max_items", "without"):
            return not (yield from self.items.closes(self.items.start(0, arrays), {}))
        if arrays.max_items is not None and arrays.max_items < arrays.min_items:
            return True
        for node in arrays.prefix[: arrays.min_items]:
            if (yield node):
                return True
        if arrays.min_items <= len(arrays.prefix):
            return False
        return arrays.rest is None or (yield arrays.rest)

    def _objects(self, objects: Objects) -> Asking[bool]:
        required = 0
        outline = self.members.outline(objects) if objects.patterns else None
        for i, member in enumerate(objects.properties):
            required += member.required
            if member.required and (yield outline.member(i) if outline else member.value):
                return True
        if objects.max_properties is not None and objects.max_properties < max(required, objects.min_properties):
            return True
        counts = objects.only("properties", "rest", "min_properties", "max_properties", "patterns", "without")
        if counts and objects.min_properties <= required:
            return False
        can = yield from self.members.inhabited(objects)
        return not self.members.closes(Members(0, objects), can)


def _any_empty(nodes: Sequence[Node]) -> Asking[bool]:
    """Has one of the nodes no value?"""
    for node in nodes:
        if (yield node):
            return True
    return False


def _has_scalar(shape: Shape) -> bool:
    """Has the shape a value that is neither an array nor an object?"""
    return (
        shape.null
        or shape.true
        or shape.false
        or (shape.strings is not None and not string_is_empty(shape.strings))
        or (shape.numbers is not None and not number_is_empty(shape.numbers))
    )


class OpenMembers:
    """The declared members that may come next, for a set of objects that counts members and has no existential rules.

    `of` answers for all members at once, with arrays, what `Emptiness.next_members` answers for one. An object of
    10,000 members would otherwise ask 10,000 times after each of them.
    """

    def __init__(self, objects: Objects, is_empty: Emptiness) -> None:
        self._objects, self._is_empty = objects, is_empty
        self._required = np.array([member.required for member in objects.properties], np.bool_)
        outline = is_empty.members.outline(objects)
        self._possible = np.array([not is_empty(outline.member(i)) for i in range(self._required.size)], np.bool_)

    def of(self, progress: Members) -> Flags:
        """bool[declared members]: may the member come next, so that the object can still be closed?"""
        flags: Flags = progress.open_flags(self._required.size) & self._possible
        objects, members = self._objects, progress.members_after
        if objects.max_properties is not None:
            flags &= members + progress.left_after(self._required) <= objects.max_properties
        others = self._is_empty.inhabited(objects).others_left(progress)
        if members < objects.min_properties and others is not None:
            flags &= members + progress.left_after(self._possible) + others >= objects.min_properties
        return flags
