"""A JSON Schema as lines, each with the schema that it belongs to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import Any, NamedTuple

from structgen.json_text.pointers import escaped
from structgen.schema.places import scanned
from structgen.schema.scan import joined

MOST = 2_000
"""Lines that are shown."""
LONGEST = 600
"""Characters of a line that are shown."""
INLINE = 48
"""The longest text of an array or object on one line. Schemas of several keywords have several lines."""


class Line(NamedTuple):
    """One line.

    Attributes:
        depth: the containers around it.
        place: JSON pointer of what is in it.
        schema: JSON pointer of the innermost schema around it.
        whole: is it a schema on one line?
    """

    text: str
    depth: int
    place: str
    schema: str
    whole: bool = False


def lines_of(document: Any) -> Iterator[Line]:
    """Yields the lines of a JSON Schema."""
    schemas = {joined(trail) for _, trail, _ in scanned(document).places()}
    yield from _lines(document, Line("", 0, "", ""), "", schemas)


def drawn(document: Any) -> str:
    """Returns the lines as HTML."""
    rows = list[str]()
    for line in lines_of(document):
        if len(rows) == MOST:
            rows.append('<span class="note">…</span>')
            break
        whole = " data-w" if line.whole else ""
        rows.append(
            f'<span data-j="{escape(line.place)}" data-s="{escape(line.schema)}"{whole} style="--d:{line.depth}">'
            f"{escape(line.text if len(line.text) <= LONGEST else line.text[:LONGEST] + '…')}</span>"
        )
    return f'<pre class="lines">{"".join(rows)}</pre>'


def _lines(value: Any, first: Line, tail: str, schemas: set[str]) -> Iterator[Line]:
    """Yields the lines of a value.

    Args:
        first: its first line, with what is before the value.
        tail: what is after it in its last line.
    """
    lead, depth, place, around, _ = first
    own, short = (place if place in schemas else around), json.dumps(value, ensure_ascii=False)
    if not isinstance(value, (dict, list)) or not value or (len(short) <= INLINE and _is_plain(value, place, schemas)):
        yield Line(f"{lead}{short}{tail}", depth, place, own, place in schemas)
        return
    is_object = isinstance(value, dict)
    yield Line(lead + ("{" if is_object else "["), depth, place, own)
    members = list(value.items() if isinstance(value, dict) else enumerate(value))
    for number, (key, each) in enumerate(members, 1):
        name = f"{json.dumps(key, ensure_ascii=False)}: " if is_object else ""
        inner = Line(name, depth + 1, f"{place}/{escaped(key)}", own)
        yield from _lines(each, inner, "," if number < len(members) else "", schemas)
    yield Line(("}" if is_object else "]") + tail, depth, place, own)


def _is_plain(value: Any, place: str, schemas: set[str]) -> bool:
    """Is a container no schema of several keywords, with no schemas in it?"""
    several = place in schemas and len(value) > 1
    return not several and not any(each.startswith(f"{place}/") for each in schemas)
