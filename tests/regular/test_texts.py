"""Free text up to a stop, against Python's `re` on every short text."""

from __future__ import annotations

import re
from itertools import product

import pytest

from structgen.regular.texts import escaped, free_text

TEXTS = ["".join(chars) for size in range(6) for chars in product("ab<", repeat=size)]


def wanted(text: str, until: list[str], before: list[str], least: int) -> bool:
    """The definition: the text ends with the first match of a stop, and holds no match of what it must not."""
    if len(text) < least or any(re.search(pattern, text) for pattern in before):
        return False
    if not until:
        return True
    ends = [n for n in range(len(text) + 1) if any(re.search(f"(?:{pattern})$", text[:n]) for pattern in until)]
    return bool(ends) and ends[0] == len(text)


@pytest.mark.parametrize(
    ("until", "before", "least"),
    [
        ([], [], 0), ([], [], 3), (["<"], [], 0), (["ab"], [], 0), (["aab", "b<"], [], 0), (["a+<"], [], 0),
        ([], ["<"], 0), ([], ["aa", "b<"], 2), (["<"], ["aa"], 2), (["<"], ["<"], 0),
    ],
)  # fmt: skip
def test_texts_end_with_the_first_stop(until: list[str], before: list[str], least: int) -> None:
    language = free_text(until, before, least)
    for text in TEXTS:
        assert language.matches(text) == wanted(text, until, before, least), text


def test_an_escaped_text_matches_itself_alone() -> None:
    for text in ("a.b", "(x|y)*", "[^$]", "\\d{2}", "a/b", "+?"):
        language = free_text([], [f"^{escaped(text)}$"], 0)
        assert not language.matches(text)
        assert language.matches(text + "x")
        assert language.matches("other")
