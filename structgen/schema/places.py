"""Places of a schema that are prepared when it is compiled: patterns, long lists, and what may exceed a limit."""

from __future__ import annotations

from itertools import islice
from typing import Any

from structgen.schema.normal import Node
from structgen.schema.reader import SchemaNode, SchemaReader
from structgen.schema.references import in_place
from structgen.schema.scan import escaped

MAX_PLACES = 200
"""The most places that `limited_places` returns."""


def patterns(root: Node) -> dict[str, tuple[Node, str]]:
    """Each distinct pattern of the schema of `root`, with a node that holds it, and the pointer from there.

    It serves to refuse bad patterns before anything runs. It reads no node.
    """
    if not isinstance(root, SchemaNode):
        return {}
    nodes: dict[str, tuple[Node, str]] = {}
    for schema in root.reader.scan.patterned:
        texts = [(text, f"/patternProperties/{escaped(text)}") for text in schema.get("patternProperties", ())]
        texts += [(schema["pattern"], "/pattern")] if "pattern" in schema else []
        nodes.update((text, (root.reader.node(schema, None), path)) for text, path in texts if text not in nodes)
    return nodes


def long_places(root: Node) -> list[Node]:
    """The places with long lists in the schema of `root`, the places around them, and the references to them.

    They are read before anything runs, because reading 100,000 values takes long.
    """
    if not isinstance(root, SchemaNode) or not root.reader.scan.long:
        return []
    reader = root.reader
    places = [(schema, trail) for schema, trail, _ in reader.scan.places()]
    above: set[int] = set()
    wanted, size = {id(schema) for schema in reader.scan.long}, 0
    while len(wanted) > size:
        size = len(wanted)
        for schema, trail in places:
            if id(schema) in wanted or ("$ref" in schema and id(reader.target_schema(schema)) in wanted):
                above.add(id(trail))
                while not isinstance(trail, str):
                    trail = trail[0]
                    above.add(id(trail))
        wanted |= {id(schema) for schema, trail in places if id(trail) in above}
    return _values(reader, [schema for schema, trail in places if id(trail) in above])


def limited_places(root: Node) -> list[Node]:
    """All places, at most `MAX_PLACES`, of a schema that may exceed a limit; none for nearly every schema.

    Their states are written when the schema is compiled, so that the limit is not exceeded in the middle of a text. One
    automaton tells the sets of these keywords apart, and its size is a product over them.
    """
    if not isinstance(root, SchemaNode):
        return []
    scan, reader = root.reader.scan, root.reader
    large = sum("{" in pattern or "(?" in pattern for pattern in patterns(root))
    if scan.contains <= 2 and scan.negations <= 8 and len(scan.multiples) <= 3 and large <= 6:
        return []
    return _values(reader, [schema for schema, _, _ in islice(reader.scan.places(), MAX_PLACES)])


def _values(reader: SchemaReader, schemas: list[dict[str, Any]]) -> list[Node]:
    """The nodes of schemas; not of branches, which are read with the schema around them."""
    branches = {id(branch) for schema in schemas for branch, _ in in_place(schema, reader.dialect(schema))}
    return [reader.node(schema, None) for schema in schemas if id(schema) not in branches]
