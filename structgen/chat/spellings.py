"""Sets of spellings: what a model may write where a format writes one text.

A model puts white space elsewhere than its template, leaves out a tag, or has two words for one thing. A `Spelling`
has all of these. It is written by `canonical`, and becomes a plan in `literals`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from structgen.chat.pieces import Blank, Maybe, OneOf, Slot, Spelling
from structgen.regular.chardfa import from_pattern
from structgen.regular.texts import escaped

WHITE = "[ \\t\\r\\n]"
"""The pattern of one blank."""
ALLOWED_BLANKS = "[ \\t]?|\n{1,2}[ \\t]{0,16}"
"""The pattern of the white space that a mask allows in one place: a blank, or a line break with the indentation after
it. More of it, in each place, leads a model that would rather not call on and on. The parser reads any."""
_WORDS = re.compile(r"""\s+|\]<\][^<>\s]*\[>\[<[^<>\s]*>?|<[^<>\s]*>?|\[/?[A-Z_]+\]|[\[\]{}(),:>]|[^\s<>\[\]{}(),:]+""")
_JSON = frozenset("{}[](),:=")


def loosened(text: str, *, before: bool = True, behind: bool = True) -> Spelling:
    """Returns a text of a format with all the white space that a model may put: around tags and JSON's punctuation.

    Args:
        before, after: may there also be white space before the text, and after it?
    """
    words = _WORDS.findall(text)
    pieces: list[Any] = []
    in_tag = False  # is a tag open, as in `<invoke name="`?
    for place, word in enumerate(words):
        last = words[place - 1] if place else ""
        if word.isspace():
            behind_word = words[place + 1] if place + 1 < len(words) else ""
            inside = last and behind_word and not (_ends(last) or _begins(behind_word))
            pieces.append(word if in_tag or inside else Blank(word))
        else:
            apart = place and not last.isspace() and not in_tag and (_ends(last) or _begins(word))
            pieces += [Blank(), word] if apart else [word]
            in_tag = (in_tag or word.startswith(("<", "]<"))) and not word.endswith(">")
    if before and words and _begins(words[0]):
        pieces.insert(0, Blank())
    if behind and words and not in_tag and _ends(words[-1]):
        pieces.append(Blank())
    return tidy(pieces)


def _begins(word: str) -> bool:
    """May a model put white space before this word?"""
    return word.startswith(("<", "]<", "```")) or word in _JSON or (word.startswith("[") and len(word) > 1)


def _ends(word: str) -> bool:
    """May a model put white space after this word?"""
    return word.endswith(">") or word in _JSON or (word.endswith("]") and len(word) > 1)


def spelled(*pieces: Any) -> Spelling:
    """Returns a spelling. Texts in it are loosened, also those in `Maybe` and `OneOf`."""
    loose: list[Any] = []
    for place, piece in enumerate(pieces):
        if isinstance(piece, str):
            beside = [pieces[n] if 0 <= n < len(pieces) else None for n in (place - 1, place + 1)]
            loose += loosened(piece, before=beside[0] is not Slot.VALUE, behind=beside[1] is not Slot.VALUE)
        elif isinstance(piece, Maybe):
            loose.append(Maybe(spelled(*piece.pieces), piece.written))
        elif isinstance(piece, OneOf):
            loose.append(OneOf(tuple(spelled(*option) for option in piece.options)))
        else:
            loose.append(piece)
    return tidy(loose)


def tidy(pieces: Sequence[Any]) -> Spelling:
    """Returns the pieces without empty ones, with neighbouring texts and neighbouring white space joined."""
    merged: list[Any] = []
    for piece in pieces:
        last = merged[-1] if merged else None
        if piece in ("", Maybe(())):
            continue
        if isinstance(piece, str) and isinstance(last, str):
            merged[-1] = last + piece
        elif isinstance(piece, Blank) and isinstance(last, Blank):
            merged[-1] = Blank(last.text + piece.text)
        else:
            merged.append(piece)
    return tuple(merged)


def canonical(spelling: Spelling) -> tuple[str | Slot, ...]:
    """Returns the pieces that the format itself writes."""
    pieces: list[str | Slot] = []
    for piece in spelling:
        if isinstance(piece, Blank):
            pieces.append(piece.text)
        elif isinstance(piece, Maybe):
            pieces += canonical(piece.pieces) if piece.written else ()
        elif isinstance(piece, OneOf):
            pieces += canonical(piece.options[0])
        else:
            pieces.append(piece)
    return tidy(pieces)  # type: ignore[return-value]


def has_slot(spelling: Spelling) -> bool:
    """Has a spelling a slot, at any depth?"""
    return any(
        isinstance(piece, Slot)
        or (isinstance(piece, Maybe) and has_slot(piece.pieces))
        or (isinstance(piece, OneOf) and any(map(has_slot, piece.options)))
        for piece in spelling
    )


def orders(body: Spelling) -> list[Spelling]:
    """Returns the orders in which the parts of a call may come: its name, then its arguments, or the other way."""
    if Slot.NAME in body:
        return [body]
    place = next(n for n, piece in enumerate(body) if isinstance(piece, OneOf) and has_slot((piece,)))
    options = body[place]
    assert isinstance(options, OneOf)
    return [each for option in options.options for each in orders((*body[:place], *option, *body[place + 1 :]))]


def pattern(spelling: Spelling) -> str:
    """Returns the pattern of the texts of a spelling that has no slots."""
    parts = []
    for piece in spelling:
        if isinstance(piece, str):
            parts.append(escaped(piece))
        elif isinstance(piece, Blank):
            parts.append(f"{WHITE}*")
        elif isinstance(piece, Maybe):
            parts.append(f"(?:{pattern(piece.pieces)})?")
        elif isinstance(piece, OneOf):
            parts.append(f"(?:{'|'.join(map(pattern, piece.options))})")
    return "".join(parts)


def begun_length(spelling: Spelling, text: str) -> int:
    """Returns how many characters at the end of a text may be the beginning of a spelling without slots."""
    dfa = from_pattern(pattern(spelling), anchored=True)
    for start in range(max(0, len(text) - LONGEST), len(text)):
        if dfa.state_after(text[start:]) != 0:
            return len(text) - start
    return 0


LONGEST = 200
"""The number of characters at the end of a text that may be the beginning of a spelling."""


def firsts(spelling: Spelling) -> list[str]:
    """Returns the texts with which the texts of a spelling may begin, after white space; empty texts for a slot."""
    found: list[str] = []
    for piece in spelling:
        if isinstance(piece, Blank):
            continue
        if isinstance(piece, Maybe):
            found += firsts(piece.pieces)
            continue
        if isinstance(piece, OneOf):
            return found + [first for option in piece.options for first in firsts(option)]
        return [*found, piece if isinstance(piece, str) else ""]
    return found


def leading(spelling: Spelling) -> Spelling:
    """Returns the pieces before the first one that is a slot, or has one."""
    for place, piece in enumerate(spelling):
        if has_slot((piece,)):
            return spelling[:place]
    return spelling
