"""Which schemas no value satisfies: found before anything is generated, so that no walk can run into a dead end."""

from __future__ import annotations

from structgen.automaton.leaves import number_language, string_is_empty
from structgen.schema.normal import Arrays, Node, Objects, Shape


class Emptiness:
    """Decides `node has no value`, lazily and with memory.

    A node has a value when some shape of it has one that needs no larger value of the same node (a least fixed
    point): a node met again on the way to its own value counts as empty there.
    """

    def __init__(self) -> None:
        self._known: dict[Node, bool] = {}
        self._open: dict[Node, int] = {}
        self._lowest = 1 << 60

    def __call__(self, node: Node) -> bool:
        """True when no JSON value satisfies `node`."""
        known = self._known.get(node)
        if known is not None:
            return known
        if node.inhabited:
            self._known[node] = False
            return False
        if node in self._open:
            self._lowest = min(self._lowest, self._open[node])
            return True
        depth = len(self._open)
        outer, self._lowest = self._lowest, 1 << 60
        self._open[node] = depth
        empty = all(self._shape(shape) for shape in node.shapes)
        del self._open[node]
        # "Empty" that leans on a node still open is only known once that node is.
        if not empty or self._lowest >= depth:
            self._known[node] = empty
            self._lowest = outer
        else:
            self._lowest = min(self._lowest, outer)
        return empty

    def _shape(self, shape: Shape) -> bool:
        if shape.null or shape.true or shape.false:
            return False
        if shape.numbers is not None and not number_language(shape.numbers).empty:
            return False
        if shape.strings is not None and not string_is_empty(shape.strings):
            return False
        if shape.arrays is not None and not self.arrays(shape.arrays):
            return False
        return shape.objects is None or self.objects(shape.objects)

    def arrays(self, arrays: Arrays) -> bool:
        """True when no array satisfies `arrays`."""
        if arrays.max_items is not None and arrays.max_items < arrays.min_items:
            return True
        needed = arrays.prefix[: arrays.min_items]
        if any(self(node) for node in needed):
            return True
        if arrays.min_items <= len(arrays.prefix):
            return False
        return arrays.rest is None or self(arrays.rest)

    def objects(self, objects: Objects) -> bool:
        """True when no object satisfies `objects`."""
        properties = objects.properties
        if any(p.required and self(p.value) for p in properties):
            return True
        required = sum(p.required for p in properties)
        if objects.max_properties is not None and objects.max_properties < max(required, objects.min_properties):
            return True
        if objects.min_properties <= required or (objects.rest is not None and not self(objects.rest)):
            return False
        possible = required + sum(not p.required and not self(p.value) for p in properties)
        return possible < objects.min_properties
