"""Derives how a chat template writes arguments from its rendering of known calls."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from structgen.chat.arguments import (
    ArgumentFormat,
    ArgumentWriter,
    JsonLayout,
    KeyedArguments,
    Raw,
    ValueWriter,
)
from structgen.chat.deriving.probes import KEYS, NAMES, Probes, Underivable
from structgen.chat.keyed.nested import PYTHON
from structgen.chat.pieces import Pieces, Slot, between, common_prefix, common_suffix, read_off
from structgen.chat.templates import CannotRender

WORD, NUMBER, OTHER = "qvalue", 73517, 84628
TRICKY = ('"', "\\", "\n", "'", "<", ">", "&", "é", "{", "\t")
"""Characters that a template may escape in strings, or drop."""

SAMPLES: dict[str, Any] = {
    "string": WORD,
    "number": NUMBER,
    "boolean": True,
    "null": None,
    "array": [WORD, NUMBER],
    "object": {"qmember": WORD, "qcount": NUMBER},
}


def layouts() -> Iterator[JsonLayout]:
    """Yields the layouts in which templates call `json.dumps`, the usual one first."""
    flags = (False, True)
    for compact, ascii_, sorted_ in product(flags, flags, flags):
        yield JsonLayout(ascii_, compact, None, sorted_)
    for indent, margin, ascii_, sorted_ in product((2, 4), (0, 2, 4, 6, 8), flags, flags):
        yield JsonLayout(ascii_, False, indent, sorted_, margin)


def argument_writer(probes: Probes) -> ArgumentWriter:
    """Returns how the template writes arguments.

    Raises:
        Underivable: the template writes them neither as JSON nor key by key. CannotRender: the template refuses a call.
    """
    whole = {KEYS[0]: 'q"é', KEYS[2]: {"qmember": [WORD, NUMBER]}}
    text = probes.calls(whole)
    if NAMES[0] not in text:
        raise Underivable("the template renders no calls; at most, its prompt describes the format")
    for layout in layouts():
        if layout.write(whole) in text:
            return layout
    if probes.as_text:
        raise Underivable("the template changes arguments that are given as JSON text")
    return _keyed(probes)


def _keyed(probes: Probes) -> KeyedArguments:
    before, separator, after = _frame(probes)
    formats = {}
    for type_, sample in SAMPLES.items():
        format_ = _format(probes, sample, before, after)
        if format_ is not None:
            formats[type_] = format_
    if "string" not in formats:
        raise Underivable("the template writes arguments neither as JSON nor key by key")
    if not separator and any(not format_.after for format_ in formats.values()):
        raise Underivable("the template writes nothing between two arguments, so the end of a value is unknown")
    rendered = probes.calls({KEYS[0]: NUMBER, KEYS[2]: OTHER})
    in_order = rendered.index(KEYS[0]) < rendered.index(KEYS[2])
    return KeyedArguments(tuple(formats.items()), separator, sorted=not in_order)


def _frame(probes: Probes) -> tuple[str, str, str]:
    """Returns the text before all arguments, between two of them, and after all of them."""
    one = probes.calls({KEYS[0]: NUMBER})
    two = probes.calls({KEYS[0]: NUMBER, KEYS[1]: OTHER})
    first = read_off(one, {KEYS[0]: Slot.KEY, str(NUMBER): Slot.VALUE})
    if Slot.KEY not in first or Slot.VALUE not in first:
        raise Underivable("the template writes arguments neither as JSON nor key by key")
    prefix = first[0] if isinstance(first[0], str) else ""
    suffix = first[-1] if isinstance(first[-1], str) else ""
    core = one[len(prefix) : len(one) - len(suffix)]
    other = core.replace(KEYS[0], KEYS[1]).replace(str(NUMBER), str(OTHER))
    if not (two.startswith(prefix + core) and two.endswith(other + suffix)):
        raise Underivable("the template writes two arguments in another form than each of them alone")
    inner = two[len(prefix + core) : len(two) - len(other + suffix)]
    try:
        empty = probes.calls({})
    except CannotRender:
        empty = None
    return _split(prefix, inner, suffix, empty)


def _split(prefix: str, inner: str, suffix: str, empty: str | None) -> tuple[str, str, str]:
    """Divides the text around an argument into text that belongs to the argument and text around all arguments.

    Several splits may be possible. A split in which the argument ends with a whole tag is preferred.

    Args:
        prefix: the text before the only argument of a call.
        inner: the text between two arguments.
        suffix: the text after the only argument of a call.
        empty: the text of a call without arguments; None if the template refuses such a call.

    Returns:
        The text before all arguments, between two of them, and after all of them.
    """
    splits = []
    for opened in range(common_suffix(prefix, inner) + 1):
        rest = inner[: len(inner) - opened]
        for closed in range(common_prefix(suffix, rest) + 1):
            before, after = prefix[: len(prefix) - opened], suffix[closed:]
            if empty is None or before + after == empty:
                tagged = rest[:closed].endswith((">", "]"))
                whole = not (opened and before.endswith(("<", "[")))
                splits.append(
                    (tagged and whole, closed == len(rest), closed + opened, closed, before, rest[closed:], after)
                )
    if not splits:
        raise Underivable("the template writes a call without arguments in another form than one with arguments")
    return max(splits)[-3:]


def _format(probes: Probes, sample: Any, before: str, after: str) -> ArgumentFormat | None:
    """Returns how arguments of the sample's type are written; None if that is unknown, or cannot be read back."""
    text = _argument(probes, sample, before, after)
    if text is None:
        return None
    if isinstance(sample, str):
        return _string_format(probes, text, before, after)
    containers = isinstance(sample, (list, dict))
    writers: list[ValueWriter] = [*layouts()] if containers else [*layouts(), PYTHON]
    for writer in writers:
        before_, has_value, behind = text.rpartition(writer.write(sample))  # a type may be named as its value: `null`
        pieces = [read_off(each, {KEYS[0]: Slot.KEY}) for each in (before_, behind)]
        if has_value and Slot.KEY in pieces[0]:
            return ArgumentFormat(pieces[0], writer, pieces[1])
    return None


def _string_format(probes: Probes, text: str, before: str, after: str) -> ArgumentFormat | None:
    pieces = read_off(text, {KEYS[0]: Slot.KEY, WORD: Slot.VALUE})
    if pieces.count(Slot.VALUE) != 1:
        return None
    tricky = _argument(probes, WORD + 'a"é\\b', before, after) or ""
    for layout in layouts():
        quoted_ = read_off(text, {KEYS[0]: Slot.KEY, layout.write(WORD): Slot.VALUE})
        if Slot.VALUE in quoted_ and layout.write(WORD + 'a"é\\b') in tricky:
            return _divided(quoted_, layout)
    plain = _divided(pieces, Raw())
    lost = {c for c in TRICKY if _argument(probes, f"a{c}b", before, after) != plain.write(KEYS[0], f"a{c}b")}
    trimmed = _argument(probes, " a ", before, after) != plain.write(KEYS[0], " a ")
    return ArgumentFormat(plain.before, Raw(frozenset(lost), trimmed), plain.after)


def _argument(probes: Probes, value: Any, before: str, after: str) -> str | None:
    """Returns the text of one argument with this value; None if it does not stand between `before` and `after`."""
    try:
        return between(probes.calls({KEYS[0]: value}), before, after)
    except ValueError:  # `CannotRender` is one
        return None


def _divided(pieces: Pieces, writer: ValueWriter) -> ArgumentFormat:
    index = pieces.index(Slot.VALUE)
    return ArgumentFormat(pieces[:index], writer, pieces[index + 1 :])
