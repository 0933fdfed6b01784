"""The languages of numbers and strings: normal form in; `CharDfa`, tests and counts out.

The only door to them for what is built above. Every set has a language; where no automaton holds the set exactly, the
language is a superset, and there is a predicate that decides each member.
"""

from __future__ import annotations

from functools import lru_cache

from structgen.regular import number_sets
from structgen.regular.number_sets import (
    combined_languages,
    number_count,
    number_language,
    number_predicate,
)
from structgen.regular.string_sets import (
    allowed_literals,
    doubted_language,
    is_free,
    string_count,
    string_holds,
    string_is_empty,
    string_language,
    string_predicate,
    uncapped_language,
    uncapped_predicate,
)

__all__ = [
    "allowed_literals",
    "combined_languages",
    "doubted_language",
    "is_free",
    "name_language",
    "number_count",
    "number_is_empty",
    "number_language",
    "number_predicate",
    "string_count",
    "string_holds",
    "string_is_empty",
    "string_language",
    "string_predicate",
    "uncapped_language",
    "uncapped_predicate",
]

number_is_empty = lru_cache(1024)(number_sets.number_is_empty)
"""Many places of a schema have the same numbers."""
name_language = string_language
"""The same for the names of members."""
