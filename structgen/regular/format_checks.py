"""The predicates of `formats`: internationalised names, and regular expressions."""

from __future__ import annotations

import re
import unicodedata

from structgen.regular.regex.errors import PatternError, PatternUnsupported
from structgen.regular.regex.parser import parse
from structgen.errors import LimitExceeded

_DOTS = re.compile("[.\u3002\uff0e\uff61]")
_HOST_LENGTH, _LABEL_LENGTH, _LOCAL_LENGTH = 253, 63, 64


def is_regex(text: str) -> bool:
    """Whether a text is a regular expression of ECMA-262; one that is too long to tell counts as one."""
    try:
        parse(text, strict=True)
    except (PatternError, PatternUnsupported):
        return False
    except LimitExceeded:
        return True
    return True


def is_host_name(text: str) -> bool:
    """Whether each Punycode label of an ASCII host name is the canonical spelling of an internationalised label.

    Other labels follow RFC 1123; hyphens as third and fourth character are reserved for internationalised names.
    """
    names = [_decoded(label) if label[:4].lower() == "xn--" else label for label in text.split(".")]
    return None not in names and _directed([name or "" for name in names])


def is_international_host_name(text: str) -> bool:
    """Whether the labels of a name are internationalised labels of RFC 5891, or ASCII ones.

    Labels are separated by the dots of RFC 3490, section 3.1: three other full stops count as dots.
    """
    names = [_decoded(label) for label in _DOTS.split(text)]
    known = [name for name in names if name is not None]
    lengths = [len(name) if name.isascii() else len(name.encode("punycode")) + 4 for name in known]
    if None in names or any(length > _LABEL_LENGTH for length in lengths):
        return False
    return sum(lengths) + len(lengths) - 1 <= _HOST_LENGTH and _directed(known)


def is_email(text: str) -> bool:
    """Whether an internationalised address (RFC 6531) has a local part of at most 64 octets and a valid domain."""
    local, _, domain = text.rpartition("@")
    if len(local.encode()) > _LOCAL_LENGTH:
        return False
    if domain.startswith("[") or domain.isascii():
        return True
    return is_international_host_name(unicodedata.normalize("NFC", domain))  # mail systems may send either form


def _decoded(label: str) -> str | None:
    """The Unicode form of a label, which differs from it only for Punycode; None when it is no valid label."""
    import idna

    if not label or (label.isascii() and label[:4].lower() != "xn--"):
        ok = bool(label) and label[2:4] != "--" and "-" not in (label[0], label[-1])
        return label if ok else None
    try:
        name = idna.ulabel(label)
        # Encoding must give the label again: a name has one spelling, and an ASCII name needs no Punycode
        if label.isascii() and (name.isascii() or idna.alabel(name).decode() != label.lower()):
            return None
        idna.check_label(name)
    except (idna.IDNAError, UnicodeError):
        return None
    return name


def _directed(labels: list[str]) -> bool:
    """The Bidi rule of RFC 5893: if one label has right-to-left characters, every label must satisfy the rule."""
    if all(map(str.isascii, labels)):
        return True
    import idna

    if not any(unicodedata.bidirectional(char) in ("R", "AL", "AN") for label in labels for char in label):
        return True
    try:
        return all(idna.check_bidi(label, check_ltr=True) for label in labels)
    except idna.IDNAError:
        return False
