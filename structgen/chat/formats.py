"""The call formats that are known by name: how models were trained to write calls.

The table is `formats.json`; `docs/reference/call-formats.md` lists the formats with their sources. A row has the
attributes of `Native` and `Spellings`, those that differ from the defaults. Its spellings are texts with these signs:

    ⟨name⟩ ⟨id⟩ ⟨index⟩ ⟨arguments⟩ ⟨key⟩    a slot
    ⟦text⟧                                  a model may leave it out
    ⟬text⟭                                  so may a model; the format itself does not write it
    ⦅one│other⦆                             alternatives
    «text»                                  without more white space than it has; elsewhere see `spellings.loosened`
    ‿                                       white space
    ⟨object⟩                                a text of the table `texts`

Arguments that are written key by key are groups: the types of the values, how they are written, and the texts before
and after a value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from structgen.chat.arguments import JSON_TYPES, ArgumentFormat, JsonLayout, KeyedArguments, Raw, ValueWriter
from structgen.chat.call_format import Spellings, Tags
from structgen.chat.keyed.nested import LITERALS, Elements, Nested
from structgen.chat.native import Native
from structgen.chat.pieces import Blank, Maybe, OneOf, Slot, Spelling, read_off
from structgen.chat.spellings import spelled, tidy

_SLOTS = {f"⟨{slot.value}⟩": slot for slot in Slot}
_SIGNS = re.compile(rf"({'|'.join(_SLOTS)}|«[^»]*»|[⟦⟧⟬⟭⦅⦆│‿])")
_CLOSERS = {"⟦": "⟧", "⟬": "⟭", "⦅": "⦆"}
_PARTS = ("begin", "body", "between", "closing", "prefix", "opening", "answered", "apart")


def _spelling(text: str, texts: Mapping[str, str]) -> Spelling:
    """Returns the spelling that a text of the table describes."""
    for name, each in texts.items():
        text = text.replace(f"⟨{name}⟩", each)
    pieces = iter([piece for piece in _SIGNS.split(text) if piece])

    def until(closer: str) -> list[Spelling]:
        """The alternatives up to this sign."""
        options, option = list[Spelling](), list[Any]()
        for piece in pieces:
            if piece in ("│", closer):
                options.append(tidy(option))
                option = []
                if piece == closer:
                    return options
            elif piece in _CLOSERS:
                inner = until(_CLOSERS[piece])
                option.append(OneOf(tuple(inner)) if piece == "⦅" else Maybe(inner[0], written=piece == "⟦"))
            elif piece in _SLOTS or piece[0] in "«‿":
                option.append(_SLOTS.get(piece) or piece[1:-1] or Blank())
            else:
                option += spelled(piece)
        return [*options, tidy(option)]

    return until("")[0]


def _keyed(groups: list[dict[str, Any]], separator: str = "", sorted_: bool = False) -> KeyedArguments:
    """Returns how arguments are written that the table has as groups."""
    formats = dict[str, ArgumentFormat]()
    for each in groups:
        before, after = (read_off(each[side], _SLOTS) for side in ("before", "after"))
        formats |= {type_: ArgumentFormat(before, _writer(each["writer"]), after) for type_ in each["types"]}
    written = tuple((type_, formats[type_]) for type_ in JSON_TYPES if type_ in formats)
    return KeyedArguments(written, separator, sorted_)


def _writer(given: str | dict[str, Any]) -> ValueWriter:
    if isinstance(given, dict):
        ((name, options),) = given.items()
        known: dict[str, Any] = {"raw": Raw, "elements": Elements, "nested": Nested}
        made = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
        writer: ValueWriter = known[name](**made)
        return replace(writer, without=frozenset(writer.without)) if isinstance(writer, Raw) else writer
    plain: dict[str, ValueWriter] = {"raw": Raw(), "json": JsonLayout(), "python": LITERALS}
    return plain[given]


def _native(row: dict[str, Any], texts: Mapping[str, str]) -> Native:
    parts = {part: row.pop(part) for part in _PARTS if part in row}
    spellings = {part: None if text is None else _spelling(text, texts) for part, text in parts.items()}
    options = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
    if "arguments" in row:
        options["arguments"] = _keyed(*row["arguments"])
    if "thinking" in row:
        options["thinking"] = Tags(*row["thinking"])
    kinds: dict[str, Any] = {"id": options.pop("id")} if "id" in options else {}
    return Native(spellings=Spellings(**spellings, **kinds), **options)  # type: ignore[arg-type]


_TABLE = json.loads(Path(__file__).with_name("formats.json").read_text(encoding="utf-8"))
NATIVE = tuple(_native(row, _TABLE["texts"]) for row in _TABLE["formats"])
"""The formats, those with the clearest marks first."""
STYLES = {name: _keyed(groups) for name, groups in _TABLE["styles"].items()}
"""How structural tags write each property of an object, by xgrammar's names of styles."""


@cache
def by_name(name: str) -> Native | None:
    """Returns the format with this name; None if there is none."""
    return next((each for each in NATIVE if each.name == name), None)


def native_of(text: str) -> Native | None:
    """Returns the format that a chat template is for; None if it is of no known one.

    Args:
        text: the template, and the prompt that it renders with tools.
    """
    return next((each for each in NATIVE if each.is_of(text)), None)
