"""Free text up to a stop, and patterns for plain texts."""

from __future__ import annotations

from collections.abc import Sequence

from structgen.regular.chardfa import CharDfa, complement, from_pattern, intersect, length, tidied

_SYNTAX = frozenset("^$\\.*+?()[]{}|/")


def escaped(text: str) -> str:
    """The pattern that matches exactly this text."""
    return "".join("\\" + char if char in _SYNTAX else char for char in text)


def cases(char: str) -> list[str]:
    """The upper and lower case forms of a character, itself first."""
    return list(dict.fromkeys((char, char.lower(), char.upper(), char.title(), char.casefold())))


def one_of(texts: Sequence[str]) -> str:
    """The pattern that matches exactly these texts, at least one."""
    return f"(?:{'|'.join(map(escaped, texts))})" if len(texts) > 1 else escaped(texts[0])


def free_text(until: Sequence[str], before: Sequence[str], least: int) -> CharDfa:
    """Texts that end with the first match of a pattern in `until`, and have no match of one in `before`.

    Args:
        until: patterns; with none, a text may end anywhere.
        least: the least number of characters.
    """
    languages = [length(least)]
    if until:
        languages.append(first_end(from_pattern(f"[\\s\\S]*(?:{'|'.join(f'(?:{p})' for p in until)})", anchored=True)))
    languages += [complement(from_pattern(pattern)) for pattern in before]
    return intersect(*languages)


def first_end(dfa: CharDfa) -> CharDfa:
    """The members that have no shorter member as a prefix."""
    table = dfa.next.copy()
    table[[mask != 0 for mask in dfa.final]] = 0
    return tidied(dfa.bounds, dfa.classes, table, dfa.final)
