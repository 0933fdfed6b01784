"""What the automata of `formats` leave open: internationalised names, and regular expressions."""

from __future__ import annotations

import re
import unicodedata

from structgen.regular.regex.errors import PatternError, PatternUnsupported
from structgen.regular.regex.parser import parse
from structgen.errors import LimitExceeded

_DOTS = re.compile("[.\u3002\uff0e\uff61]")
_HOST_LENGTH, _LABEL_LENGTH, _LOCAL_LENGTH = 253, 63, 64


def is_regex(text: str) -> bool:
    """Whether ECMA-262 has the regular expression; one that is too long to tell is taken to be one."""
    try:
        parse(text, strict=True)
    except (PatternError, PatternUnsupported):
        return False
    except LimitExceeded:
        return True
    return True


def is_host_name(text: str) -> bool:
    """Whether each label in Punycode of an ASCII host name is the one spelling of an internationalised label.

    Other labels are as RFC 1123 has them: two hyphens in the third and fourth place are reserved to names that are read
    as internationalised ones.
    """
    names = [_decoded(label) if label[:4].lower() == "xn--" else label for label in text.split(".")]
    return None not in names and _directed([name or "" for name in names])


def is_international_host_name(text: str) -> bool:
    """Whether the labels of a name of letters, digits, hyphens and other characters are those of RFC 5891.

    The dots are those of RFC 3490, section 3.1: three other full stops separate labels too.
    """
    names = [_decoded(label) for label in _DOTS.split(text)]
    lengths = [_encoded_length(name) for name in names if name is not None]
    if None in names or any(length > _LABEL_LENGTH for length in lengths):
        return False
    return sum(lengths) + len(lengths) - 1 <= _HOST_LENGTH and _directed([name or "" for name in names])


def is_email(text: str) -> bool:
    """Whether an internationalised address (RFC 6531) has a local part of 64 octets at most and a true domain."""
    local, _, domain = text.rpartition("@")
    if len(local.encode()) > _LOCAL_LENGTH:
        return False
    if domain.startswith("[") or domain.isascii():
        return True
    return is_international_host_name(unicodedata.normalize("NFC", domain))  # mail systems may send either form


def _decoded(label: str) -> str | None:
    """The Unicode form of a label, which is `label` itself but for Punycode; None when it is no label."""
    import idna

    if not label or (label.isascii() and label[:4].lower() != "xn--"):
        ok = bool(label) and label[2:4] != "--" and "-" not in (label[0], label[-1])
        return label if ok else None
    try:
        name = idna.ulabel(label)
        # The other way round too: a name has one spelling, and one that is ASCII needs none
        if label.isascii() and (name.isascii() or idna.alabel(name).decode() != label.lower()):
            return None
        idna.check_label(name)
    except (idna.IDNAError, UnicodeError):
        return None
    return name


def _encoded_length(name: str) -> int:
    return len(name) if name.isascii() else len(name.encode("punycode")) + 4


def _directed(labels: list[str]) -> bool:
    """The Bidi rule of RFC 5893: with one right-to-left label, every label keeps to it."""
    if all(map(str.isascii, labels)):
        return True
    import idna

    if not any(unicodedata.bidirectional(char) in ("R", "AL", "AN") for label in labels for char in label):
        return True
    try:
        return all(idna.check_bidi(label, check_ltr=True) for label in labels)
    except idna.IDNAError:
        return False
