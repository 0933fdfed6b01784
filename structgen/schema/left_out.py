"""A schema read again without some of its keywords, to find the keyword that refuses a value.

The schema is not scanned again, and reading is lazy, so a try costs only the places that it visits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

from structgen.schema.algebra import Algebra, Both, Not, UnionNode
from structgen.schema.keywords.facts import Where
from structgen.schema.normal import Node
from structgen.schema.reader import SchemaNode, SchemaReader


class LeftOut(SchemaReader):
    """A reader of the same schema as `other`. They share no nodes, so another thread may use `other` meanwhile.

    Args:
        rules: the keywords to leave out, each with its place.
    """

    def __init__(self, other: SchemaReader, rules: Iterable[tuple[SchemaNode, str]] = ()) -> None:
        algebra = Algebra(other.algebra.ranks)
        super().__init__(other.scan, dict(other._targets), algebra, other._scopes, formats=other.formats)
        self._drafts = dict(self._drafts)
        self._other = other
        self._instead: dict[int, dict[str, Any]] = {}
        for place, keyword in rules:
            kept = {**self._instead.get(id(place.schema), place.schema)}
            kept.pop(keyword, None)
            self._instead[id(place.schema)] = self.adopted(kept, place.schema)

    def node(self, schema: Any, where: Where) -> Node:
        return super().node(self._instead.get(id(schema), schema), where)

    def _scoped(self, schema: dict[str, Any], where: Where, scope: Any) -> Node:
        return super()._scoped(self._instead.get(id(schema), schema), where, scope)

    def pointer_of(self, place: SchemaNode) -> str:
        """Empty: no message shows a place of this reader."""
        return ""

    def twin(self, node: Node) -> Node:
        """The node here for a node of the other reader. A node that is no place of the schema stands for itself."""
        if isinstance(node, SchemaNode) and node.reader is self._other:
            scoped = self._scopes is not None
            return self._scoped(node.schema, node.where, node.scope) if scoped else self.node(node.schema, node.where)
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
    known: dict[SchemaNode, None] = {}
    waiting = deque(nodes)
    while waiting:
        node = waiting.popleft()
        if isinstance(node, (Both, UnionNode)):
            waiting += node.operands if isinstance(node, Both) else node.members
        elif isinstance(node, SchemaNode) and node not in known:
            known[node] = None
            waiting += node.reader.applied(node)
    return [*known]
