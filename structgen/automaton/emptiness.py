"""Which schemas no value satisfies: found before anything is generated, so that no walk can run into a dead end."""

from __future__ import annotations

from collections.abc import Generator

from structgen.automaton.leaves import number_language, string_is_empty
from structgen.schema.normal import Arrays, Node, Objects, Shape

Question = Generator[Node, bool, bool]
"""Asks for the emptiness of nodes, is sent the answers, and returns its own."""

_NONE = 1 << 60


class Emptiness:
    """Decides `node has no value`, lazily and with memory.

    A node has a value when some shape of it has one that needs no larger value of the same node (a least fixed
    point): a node met again on the way to its own value counts as empty there. Questions wait on a stack of our own,
    so that nesting of any depth is followed.
    """

    def __init__(self) -> None:
        self._known: dict[Node, bool] = {}

    def __call__(self, node: Node) -> bool:
        """True when no JSON value satisfies `node`."""
        known = self._glance(node)
        return self._answer(_node(node), node) if known is None else known

    def arrays(self, arrays: Arrays) -> bool:
        """True when no array satisfies `arrays`."""
        return self._answer(_arrays(arrays))

    def objects(self, objects: Objects) -> bool:
        """True when no object satisfies `objects`."""
        return self._answer(_objects(objects))

    def _glance(self, node: Node) -> bool | None:
        known = self._known.get(node)
        if known is None and node.inhabited:
            known = self._known[node] = False
        return known

    def _answer(self, question: Question, subject: Node | None = None) -> bool:
        """Answer a question (about the node `subject`), and those that it asks."""
        # Each entry: the question, its node, and the lowest place in the stack that its "empty" leans on.
        stack: list[tuple[Question, Node | None]] = [(question, subject)]
        lowest = [_NONE]
        places: dict[Node | None, int] = {subject: 0}
        answer: bool | None = None
        while True:
            question, subject = stack[-1]
            try:
                wanted = next(question) if answer is None else question.send(answer)
            except StopIteration as stop:
                answer = bool(stop.value)
                self._settle(subject, answer, len(stack) - 1, lowest)
                stack.pop()
                del places[subject]
                if not stack:
                    return answer
                continue
            answer = self._glance(wanted)
            if answer is None and wanted in places:
                lowest[-1] = min(lowest[-1], places[wanted])
                answer = True
            elif answer is None:
                places[wanted] = len(stack)
                stack.append((_node(wanted), wanted))
                lowest.append(_NONE)

    def _settle(self, subject: Node | None, empty: bool, place: int, lowest: list[int]) -> None:
        """Remember an answer. "Empty" that leans on a node still open is only known once that node is."""
        leans_on = lowest.pop()
        if not empty or leans_on >= place:
            if subject is not None:
                self._known[subject] = empty
        elif lowest:
            lowest[-1] = min(lowest[-1], leans_on)


def _node(node: Node) -> Question:
    for shape in node.shapes:
        if not (yield from _shape(shape)):
            return False
    return True


def _shape(shape: Shape) -> Question:
    if shape.null or shape.true or shape.false:
        return False
    if shape.numbers is not None and not number_language(shape.numbers).empty:
        return False
    if shape.strings is not None and not string_is_empty(shape.strings):
        return False
    if shape.arrays is not None and not (yield from _arrays(shape.arrays)):
        return False
    return shape.objects is None or (yield from _objects(shape.objects))


def _arrays(arrays: Arrays) -> Question:
    if arrays.max_items is not None and arrays.max_items < arrays.min_items:
        return True
    for node in arrays.prefix[: arrays.min_items]:
        if (yield node):
            return True
    if arrays.min_items <= len(arrays.prefix):
        return False
    return arrays.rest is None or (yield arrays.rest)


def _objects(objects: Objects) -> Question:
    required = 0
    for member in objects.properties:
        required += member.required
        if member.required and (yield member.value):
            return True
    if objects.max_properties is not None and objects.max_properties < max(required, objects.min_properties):
        return True
    if objects.min_properties <= required:
        return False
    # Of undeclared members only the first surely adds a name (see `members`).
    possible = required + (objects.rest is not None and not (yield objects.rest))
    for member in objects.properties:
        if not member.required and not (yield member.value):
            possible += 1
    return possible < objects.min_properties
