"""The keywords of a schema that no value satisfies, for the message of `UnsatisfiableSchema`."""

from __future__ import annotations

from structgen.errors import QUOTED, excerpt, quoted
from structgen.schema.keywords.table import ANNOTATION, KEYWORDS, STRUCTURE
from structgen.schema.normal import Node
from structgen.schema.reader import SchemaNode

_RESTRICTING = frozenset(row.name for row in KEYWORDS if row.how not in (STRUCTURE, ANNOTATION))
_BOUNDS = [
    *((f"min{kind}", f"max{kind}") for kind in ("imum", "Length", "Items", "Properties", "Contains")),
    *(("exclusiveMinimum", high) for high in ("maximum", "exclusiveMaximum")),
    ("minimum", "exclusiveMaximum"),
]


def clash(place: Node) -> str:
    """Names the keywords that restrict the values of a place, as part of a message: two bounds alone if they clash."""
    if not isinstance(place, SchemaNode):
        return ""
    lone = place.reader.has_lone_reference(place.schema)
    keywords = ["$ref"] if lone else [name for name in place.schema if name in _RESTRICTING or name == "$ref"]
    arguments = {name: place.schema[name] for name in keywords}
    if isinstance(quote := arguments.get("x-quote"), dict):
        return f"there is nothing to quote in source={quoted(quote.get('source'))}"
    for low, high in _BOUNDS:
        least, most = arguments.get(low), arguments.get(high)
        if least is None or most is None or isinstance(least, bool) or isinstance(most, bool):  # as in draft 4
            continue
        if least > most or (least == most and "exclusive" in low + high):
            return f"{low} {least} {'>' if least > most else '>='} {high} {most}"
    if not arguments:
        return ""
    room = max(QUOTED // len(arguments) - 24, 16)
    texts = {name: quoted(argument) for name, argument in arguments.items()}
    parts = [f"{name} {text if len(text) <= room else f'{text[: room - 3]}...'}" for name, text in texts.items()]
    if len(parts) == 1:
        return f"{parts[0]} excludes every value"
    return excerpt(f"{', '.join(parts[:-1])} and {parts[-1]}") + " exclude each other"
