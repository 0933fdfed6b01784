"""A schema read again without some of its keywords, to find the keyword that refuses a value.

The schema is not scanned again, and reading is lazy, so a try costs only the places that it visits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

from structgen.schema.algebra import Algebra, Both, Not, UnionNode
from structgen.schema.keywords.arguments import ALL_TYPES
from structgen.schema.keywords.facts import Where
from structgen.schema.normal import Node
from structgen.schema.reader import SchemaNode, SchemaReader

PlacedKeyword = tuple[SchemaNode, str]
"""A keyword at a place."""


class LeftOut(SchemaReader):
    """A reader of the same schema as `other`. They share no nodes, so another thread may use `other` meanwhile.

    Args:
        rules: the keywords to leave out.
    """

    def __init__(self, other: SchemaReader, rules: Iterable[PlacedKeyword] = ()) -> None:
        algebra = Algebra(other.algebra.ranks)
        super().__init__(other.scan, dict(other._targets), algebra, other._scopes, formats=other.formats)
        self._drafts = dict(self._drafts)  # of its own: copies are added
        self._other = other
        self._instead: dict[int, dict[str, Any]] = {}
        for place, keyword in rules:
            self._copy(place.schema).pop(keyword, None)

    def _copy(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The copy that is read instead of a schema, in the same draft and with the same target."""
        copy = self._instead.get(id(schema))
        if copy is None:
            copy = self._instead[id(schema)] = dict(schema)
            self._drafts[id(copy)] = self._drafts[id(schema)]
            if id(schema) in self._targets:
                self._targets[id(copy)] = self._targets[id(schema)]
        return copy

    def node(self, schema: Any, where: Where, kinds: int = ALL_TYPES) -> Node:
        return super().node(self._instead.get(id(schema), schema), where, kinds)

    def _scoped(self, schema: dict[str, Any], where: Where, scope: Any, kinds: int) -> Node:
        return super()._scoped(self._instead.get(id(schema), schema), where, scope, kinds)

    def pointer_of(self, place: SchemaNode) -> str:
        """Empty: no message shows a place of this reader."""
        return ""

    def twin(self, node: Node) -> Node:
        """The node here for a node of the other reader. A node that is no place of the schema stands for itself."""
        if isinstance(node, SchemaNode) and node.reader is self._other:
            place = node.schema, node.where
            scoped = self._scopes is not None
            return self._scoped(*place, node.scope, node.kinds) if scoped else self.node(*place, node.kinds)
        if isinstance(node, Both):
            return reduce(self.algebra.node, map(self.twin, node.operands))
        if isinstance(node, Not):
            return self.algebra.negation(self.twin(node.operand))
        if isinstance(node, UnionNode):
            return self.algebra.union(map(self.twin, node.members))
        return node


def speaking(nodes: Sequence[Node]) -> list[SchemaNode]:
    """The places whose keywords restrict a value that must satisfy `nodes`.

    They are the places of the nodes, and the schemas that these apply to the same value; a complement has none.
    """
    places: dict[int, SchemaNode] = {}  # by schema: it may be read for some JSON types, too
    known = set[Node]()
    waiting = deque(nodes)
    while waiting:
        node = waiting.popleft()
        if isinstance(node, (Both, UnionNode)):
            waiting += node.operands if isinstance(node, Both) else node.members
        elif isinstance(node, SchemaNode) and node not in known:
            known.add(node)
            places.setdefault(id(node.schema), node)
            waiting += node.reader.applied(node)
    return [*places.values()]
