"""Strings without quotes, as parts of a composition."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from structgen.chat.arguments import Raw
from structgen.errors import UnsupportedSchema
from structgen.parts.parts import Words
from structgen.regular.chardfa import CharDfa, complement, from_pattern, intersect, union
from structgen.regular.string_sets import string_predicate, uncapped_language
from structgen.regular.texts import escaped, free_text
from structgen.schema.normal import Shape, Strings

_SPELLED = {
    "number": r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$",
    "boolean": "^([Tt]rue|[Ff]alse)$",
    "null": "^(null|None)$",
    "array": r"^\[",
    "object": r"^\{",
}
"""What a string must not look like where a value of this type may stand in the same place."""


def raw_strings(shapes: Sequence[Shape], writer: Raw, behind: str, types: Sequence[str]) -> Words:
    """Strings as they are, so that they can be read back.

    Args:
        shapes: of the schema.
        writer: what it does not keep is left out.
        behind: what ends a string: it stands in none.
        types: of the values that may stand in the same place: no string looks like one of another type.
    """
    return _words(tuple(shape.strings for shape in shapes if shape.strings is not None), writer, behind, tuple(types))


@lru_cache(256)
def _words(sets: tuple[Strings, ...], writer: Raw, behind: str, types: tuple[str, ...]) -> Words:
    """One part for all places that take the same strings: its states are made once."""
    combined: CharDfa | None = None
    longest = 0
    for strings in sets:
        if string_predicate(strings) is not None:
            raise UnsupportedSchema("a string whose pattern or format no automaton holds, in a format without quotes")
        language, max_length = uncapped_language(strings)
        combined = language if combined is None else union(combined, language)
        longest = -1 if max_length is None or longest < 0 else max(longest, max_length)
    bounds = [free_text((), [escaped(text) for text in (behind, *writer.without) if text], 0)]
    if writer.trimmed:
        bounds.append(from_pattern(r"^(\S([\s\S]*\S)?)?$"))
    bounds += [complement(from_pattern(_SPELLED[type_])) for type_ in types if type_ != "string"]
    language = intersect(*bounds) if combined is None else intersect(combined, *bounds)
    return Words(language, None if longest < 0 else longest)
