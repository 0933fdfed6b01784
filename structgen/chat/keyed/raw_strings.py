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
"""Strings that cannot be written without quotes if the same argument may also be a value of this type."""


def raw_strings(shapes: Sequence[Shape], writer: Raw, behind: str, types: Sequence[str]) -> Words:
    """Returns the strings of a schema that can be written without quotes and read back.

    Args:
        writer: how strings are written; no string has a character that it changes or drops.
        behind: the text that ends a string; no string contains it.
        types: the JSON types of the same argument; no string looks like a value of another one of them: `12` is a
            number if the argument may be a number.
    """
    return _words(tuple(shape.strings for shape in shapes if shape.strings is not None), writer, behind, tuple(types))


@lru_cache(256)
def _words(sets: tuple[Strings, ...], writer: Raw, behind: str, types: tuple[str, ...]) -> Words:
    """Returns one part for all arguments that take the same strings, so that its states are made once."""
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
