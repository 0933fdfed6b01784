"""The classes of characters that a pre-tokenizer distinguishes.

Its patterns consist of atoms (`\\p{L}`, `[^\\r\\n\\p{L}]`, a letter). Each is a set of characters, and where the
tokenizer cuts depends only on the sets that each character is in. The members of a set are asked of the library that
cuts: libraries with different editions of Unicode differ on thousands of code points.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.errors import OptionError, quoted

MAX_CLASSES = 64
"""More classes than any known pre-tokenizer distinguishes."""

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""The pattern of `ByteLevel(use_regex=True)`."""
_DIGITS = r"\p{Nd}|\p{Nl}|\p{No}"
_SKIPPED = re.compile(r"\{\d*,?\d*\}|[?*+^$|]")
_GROUP = re.compile(r"\((?:\?(?:(?P<flags>[imsx-]*)(?P<scope>[:)])|[=!>]|<[=!]))?")
_FOLDED = re.compile(r"\(\?i:(.)\)", re.DOTALL)
_ANCHORS = frozenset(r"\b \B \A \z \Z \G".split())
_CODE_POINTS = 0x110000
SURROGATES = range(0xD800, 0xE000)
_PLANES = range(0x40000, 0xE0000), range(0xE1000, 0xF0000), range(0xF0000, _CODE_POINTS)
"""Blocks whose characters are all alike in every edition of Unicode: unassigned, or for private use."""


def classes_of(pre_tokenizer: Mapping[str, Any] | None) -> NDArray[np.uint8]:
    """uint8[0x110000]: the class of each character, numbered from 0; surrogates have the class of U+0000.

    Args:
        pre_tokenizer: its description, as in a `tokenizer.json`; None where there is none.

    Raises:
        OptionError: it is not known how it cuts, or it distinguishes too many classes.
    """
    signature = np.zeros(_CODE_POINTS, np.int64)
    atoms = dict.fromkeys(atom for pattern in _patterns(pre_tokenizer) for atom in _atoms(pattern))
    for number, atom in enumerate(atoms):
        if number % 32 == 31:  # before the numbers get too large
            signature = np.unique(signature, return_inverse=True)[1]
        signature = signature * 2 + _members(atom)
    signature[SURROGATES.start : SURROGATES.stop] = signature[0]
    classes = np.unique(signature, return_inverse=True)[1]
    if classes.max() >= MAX_CLASSES:
        raise OptionError(
            f"canonical tokens: the pre-tokenizer distinguishes more than {MAX_CLASSES} kinds of characters"
        )
    return classes.astype(np.uint8)


def _patterns(pre_tokenizer: Mapping[str, Any] | None) -> Iterator[str]:
    """The regular expressions with which a pre-tokenizer cuts."""
    if pre_tokenizer is None:
        return
    kind = pre_tokenizer["type"]
    if kind == "Sequence":
        for each in pre_tokenizer["pretokenizers"]:
            yield from _patterns(each)
    elif kind == "Split" and pre_tokenizer["behavior"] != "Removed":
        pattern = pre_tokenizer["pattern"]
        yield pattern["Regex"] if "Regex" in pattern else re.escape(pattern["String"])
    elif kind == "ByteLevel":
        if pre_tokenizer.get("use_regex", True):
            yield GPT2
    elif kind == "Digits":
        yield _DIGITS
    elif kind == "Metaspace" and not pre_tokenizer.get("split", True):
        return
    else:
        raise OptionError(f"canonical tokens: the pre-tokenizer {quoted(kind)} is not supported")


def _atoms(pattern: str) -> Iterator[str]:
    """The atoms of a pattern, each as a pattern of its own."""
    folding = [False]  # for each open group: is case ignored?
    offset = 0
    while offset < len(pattern):
        if skipped := _SKIPPED.match(pattern, offset):
            offset = skipped.end()
        elif group := _GROUP.match(pattern, offset):
            flags, scope = group["flags"] or "", group["scope"]
            folds = ("i" in flags.partition("-")[0]) or (folding[-1] and "i" not in flags.partition("-")[2])
            if scope == ")":
                folding[-1] = folds
            else:
                folding.append(folds)
            offset = group.end()
        elif pattern[offset] == ")":
            folding.pop()
            offset += 1
        else:
            atom = _atom().match(pattern, offset)[0]
            if atom == "[":
                raise OptionError(
                    f"canonical tokens: a class is not closed in the pre-tokenizer's pattern {quoted(pattern)}"
                )
            offset += len(atom)
            atom = r"\n" if atom == "." else atom
            if atom not in _ANCHORS:
                yield f"(?i:{atom})" if folding[-1] else atom


@cache
def _atom() -> Any:
    """Matches a bracketed class, which may hold others, an escape, or one character."""
    import regex

    bracketed = r"(?<class>\[\^?+\]?+(?:\\.|[^\[\]\\]|(?&class))*\])"
    escape = r"\\(?:[pP]\{[^}]*\}|x\{?[0-9a-fA-F]+\}?|u[0-9a-fA-F]{4}|.)"
    return regex.compile(f"{bracketed}|{escape}|.", regex.DOTALL)


@cache
def _sample() -> tuple[str, NDArray[np.int64]]:
    """All characters but surrogates, and one for each of the `_PLANES`: as a text, and as code points."""
    apart = np.ones(_CODE_POINTS, np.bool_)
    for block in (SURROGATES, *_PLANES):
        apart[block.start : block.stop] = False
    apart[[block.start for block in _PLANES]] = True
    places = np.flatnonzero(apart)
    return places.astype("<u4").tobytes().decode("utf-32-le"), places


@cache
def _same_but_for_case() -> Mapping[str, str]:
    """The characters that fold to each folded character."""
    folded: dict[str, str] = {}
    for character in _sample()[0]:
        key = character.casefold()
        folded[key] = folded.get(key, "") + character
    return folded


def _members(atom: str) -> NDArray[np.bool_]:
    """bool[0x110000]: the characters that an atom matches."""
    text, places = _sample()
    folded = _FOLDED.fullmatch(atom)
    letter = atom if folded is None else folded[1]
    if len(letter) == 1:  # quicker than to ask about all
        text = letter if folded is None else _same_but_for_case()[letter.casefold()]
        places = np.array([ord(each) for each in text])
    taken = np.zeros(_CODE_POINTS, np.bool_)
    taken[places] = True
    for start, end in _left(atom, text):
        taken[places[start:end]] = False
    for block in _PLANES:
        taken[block.start : block.stop] = taken[block.start]
    return taken


def _left(atom: str, text: str) -> Iterator[tuple[int, int]]:
    """The spans of a text that are left when the characters that an atom matches are removed."""
    from tokenizers import Regex
    from tokenizers.pre_tokenizers import Split

    try:
        cut = Split(Regex(f"(?:{atom})+"), "removed")
    except Exception as error:  # the library raises `Exception` itself
        raise OptionError(f"canonical tokens: the tokenizer's library refuses {quoted(atom)}: {error}") from error
    return (span for _, span in cut.pre_tokenize_str(text))
