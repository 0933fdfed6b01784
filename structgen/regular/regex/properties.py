"""`\\p{...}`: the general categories, as this Python's `unicodedata` knows them, and all else as `regex` does."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from structgen.regular.regex.charsets import ANY, LAST, Ranges, union

# Long names and aliases of Unicode's PropertyValueAliases.txt, for General_Category.
_LONG_NAMES = {
    "Cased_Letter": "LC",
    "Close_Punctuation": "Pe",
    "Connector_Punctuation": "Pc",
    "Control": "Cc",
    "cntrl": "Cc",
    "Currency_Symbol": "Sc",
    "Dash_Punctuation": "Pd",
    "Decimal_Number": "Nd",
    "digit": "Nd",
    "Enclosing_Mark": "Me",
    "Final_Punctuation": "Pf",
    "Format": "Cf",
    "Initial_Punctuation": "Pi",
    "Letter": "L",
    "Letter_Number": "Nl",
    "Line_Separator": "Zl",
    "Lowercase_Letter": "Ll",
    "Mark": "M",
    "Combining_Mark": "M",
    "Math_Symbol": "Sm",
    "Modifier_Letter": "Lm",
    "Modifier_Symbol": "Sk",
    "Nonspacing_Mark": "Mn",
    "Number": "N",
    "Open_Punctuation": "Ps",
    "Other": "C",
    "Other_Letter": "Lo",
    "Other_Number": "No",
    "Other_Punctuation": "Po",
    "Other_Symbol": "So",
    "Paragraph_Separator": "Zp",
    "Private_Use": "Co",
    "Punctuation": "P",
    "punct": "P",
    "Separator": "Z",
    "Space_Separator": "Zs",
    "Spacing_Mark": "Mc",
    "Surrogate": "Cs",
    "Symbol": "S",
    "Titlecase_Letter": "Lt",
    "Unassigned": "Cn",
    "Uppercase_Letter": "Lu",
}
_GROUPS = {"LC": ("Lu", "Ll", "Lt")}


@cache
def _categories() -> dict[str, Ranges]:
    """The code points of each two-letter category, found by one pass over all of them."""
    runs: dict[str, list[tuple[int, int]]] = {}
    start, current = 0, unicodedata.category("\0")
    for code in range(1, LAST + 2):
        category = unicodedata.category(chr(code)) if code <= LAST else ""
        if category != current:
            runs.setdefault(current, []).append((start, code - 1))
            start, current = code, category
    return {name: tuple(ranges) for name, ranges in runs.items()}


@cache
def property_ranges(name: str) -> Ranges | None:
    """The set that `\\p{name}` stands for, or None for a property that is not known.

    `name` is a General_Category, short or long, alone or after `gc=` or `General_Category=`; or `Any`,
    `ASCII` or `Assigned`; or a script (`Script=`, `Script_Extensions=`), a binary property or a block by any name
    that the `regex` module has for it.
    """
    key, _, value = name.rpartition("=")
    if not key and name in ("Any", "ASCII"):
        return ANY if name == "Any" else ((0, 0x7F),)
    if key not in ("", "gc", "General_Category"):
        return _other_property(name)
    categories = _categories()
    if not key and name == "Assigned":
        return union(pair for short, ranges in categories.items() if short != "Cn" for pair in ranges)
    short = _LONG_NAMES.get(value, value)
    wanted = _GROUPS.get(short) or tuple(key for key in categories if short and key.startswith(short))
    if not wanted:
        return _other_property(name)
    return union(pair for category in wanted for pair in categories[category])


_NAME = re.compile(r"[A-Za-z0-9_ &-]+(=[A-Za-z0-9_ -]+)?")


def _other_property(name: str) -> Ranges | None:
    """What the `regex` module takes `name` for: the runs it finds in the text of all code points."""
    import regex

    if not _NAME.fullmatch(name):
        return None
    try:
        runs = regex.compile(rf"\p{{{name}}}+")
    except regex.error:
        return None
    everything = "".join(map(chr, range(LAST + 1)))
    return tuple((match.start(), match.end() - 1) for match in runs.finditer(everything))
