"""Constraints: a schema, a pattern, one of several texts, a composition, a grammar, a byte machine.

Each constraint is a frozen value that compiles to a `Grammar` for one vocabulary.
"""

from structgen.constraints.basic import Choice, JsonSchema, Regex
from structgen.constraints.compositions import Capture, Repeat, Sequence, SpecialToken, Text, Union
from structgen.constraints.languages import EBNF, GBNF, ByteMachine, Lark, Machine
from structgen.constraints.quotes import Quote

__all__ = [
    "EBNF",
    "GBNF",
    "ByteMachine",
    "Capture",
    "Choice",
    "JsonSchema",
    "Lark",
    "Machine",
    "Quote",
    "Regex",
    "Repeat",
    "Sequence",
    "SpecialToken",
    "Text",
    "Union",
]
