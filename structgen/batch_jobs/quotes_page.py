"""A page of texts with their quotes marked and linked to the values; it loads nothing and runs nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any

from structgen.batch_jobs.columns import LAYOUT
from structgen.batch_jobs.report_page import job_page
from structgen.documents.layout import Document
from structgen.json_text.pointers import pointer_of

COLOURS = 6
STYLE = """
.row { display: grid; grid-template-columns: minmax(0, 2fr) minmax(0, 1fr); gap: 24px; }
@media (max-width: 720px) { .row { grid-template-columns: minmax(0, 1fr); } }
.row pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; font: inherit; line-height: 1.6; }
.row dl { margin: 0; font-size: 14px; } .row dt { color: var(--soft); }
.row dd { margin: 0 0 8px; overflow-wrap: anywhere; }
.page { width: 100%; height: auto; background: #fff; border: 1px solid var(--soft); } .page text { fill: #111; }
.page { font-family: sans-serif; }
mark, dd a { border-radius: 3px; padding: 0 2px; color: inherit; } .page :target { stroke: #111; }
mark:target { outline: 2px solid currentColor; }
""" + "".join(
    f".q{number} {{ background: hsl({hue} 75% 60% / .35); fill: hsl({hue} 75% 60% / .45); text-decoration: none; }}\n"
    for number, hue in enumerate(range(0, 360, 360 // COLOURS))
)


def quotes_page(name: str, entries: Sequence[Mapping[str, Any]]) -> str:
    """The page of results that have the columns `places` and `source`.

    Args:
        name: of the job's output.
    """
    cards = "".join(_card(f"r{number}", entry) for number, entry in enumerate(entries))
    return job_page(name, f'<span class="badge good">{len(entries):,} texts</span>', cards, STYLE)


def _card(anchor: str, entry: Mapping[str, Any]) -> str:
    places: Mapping[str, Sequence[Mapping[str, Any]]] = entry["places"]
    colours = {pointer: number % COLOURS for number, pointer in enumerate(places)}
    texts = ""
    for title, text in entry["source"].items():
        if LAYOUT in entry and title in ("", "text"):
            marked = "".join(_pages(anchor, Document.from_dict(text, entry[LAYOUT]), places, colours))
            texts += marked or '<p class="note">no quotes</p>'
            continue
        marked = "".join(_marked(anchor, title, text, places, colours))
        texts += f"{f'<h3>{escape(title)}</h3>' if title else ''}<pre>{marked}</pre>"
    values = "".join(_value(anchor, pointer, value, colours) for pointer, value in _leaves(entry["value"], ()))
    row = f'<div class="row"><div>{texts}</div><dl>{values}</dl></div>'
    id_ = str(entry["id"])
    return f'<section class="card" id="{escape(id_)}"><h2>{escape(id_)}</h2>{row}</section>'


def _pages(
    anchor: str, document: Document, places: Mapping[str, Sequence[Mapping[str, Any]]], colours: Mapping[str, int]
) -> Iterator[str]:
    """The pages of a PDF that have quotes: their words where they are, with the quotes' boxes behind them."""
    boxes: dict[int, list[str]] = {}
    begun = set[str]()
    for pointer, each in places.items():
        for box in (box for place in each for box in place.get("boxes", ())):
            named = "" if pointer in begun else f' id="{anchor}{escape(pointer)}"'
            begun.add(pointer)
            size = f'width="{box["x1"] - box["x0"]:.1f}" height="{box["bottom"] - box["top"]:.1f}"'
            boxes.setdefault(box["page"], []).append(
                f'<rect{named} class="q{colours[pointer]}" x="{box["x0"]:.1f}" y="{box["top"]:.1f}" {size}>'
                f"<title>{escape(pointer or 'the value')}</title></rect>"
            )
    for number, marks in sorted(boxes.items()):
        width, height = document.pages[number - 1]
        words = "".join(
            f'<text x="{box.x0:.1f}" y="{box.bottom - 0.2 * (box.bottom - box.top):.1f}" '
            f'font-size="{0.9 * (box.bottom - box.top):.1f}" textLength="{box.x1 - box.x0:.1f}" '
            f'lengthAdjust="spacingAndGlyphs">{escape(text)}</text>'
            for text, box in document.words_of(number)
        )
        drawn = f'<svg class="page" viewBox="0 0 {width:g} {height:g}">{"".join(marks)}{words}</svg>'
        yield f"<h3>page {number}</h3>{drawn}"


def _marked(
    anchor: str, title: str, text: str, places: Mapping[str, Sequence[Mapping[str, Any]]], colours: Mapping[str, int]
) -> Iterator[str]:
    """A document with its quotes marked. Where several overlap, the mark is the first one's and names all."""
    spans = [
        (place["start"], place["end"], pointer)
        for pointer, each in places.items()
        for place in each
        if place["document"] == title
    ]
    edges, begun = sorted({0, len(text), *(edge for start, end, _ in spans for edge in (start, end))}), set[str]()
    for start, end in pairwise(edges):
        here = list(dict.fromkeys(pointer for first, last, pointer in spans if first <= start and end <= last))
        piece = escape(text[start:end])
        for pointer in here:
            if pointer not in begun:  # what the value's link leads to
                begun.add(pointer)
                piece = f'<span id="{anchor}{escape(pointer)}"></span>{piece}'
        named = escape(", ".join(pointer or "the value" for pointer in here))
        yield f'<mark class="q{colours[here[0]]}" title="{named}">{piece}</mark>' if here else piece


def _value(anchor: str, pointer: str, value: Any, colours: Mapping[str, int]) -> str:
    shown = escape(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    place = next((each for each in _around(pointer) if each in colours), None)
    if place is not None:
        shown = f'<a class="q{colours[place]}" href="#{anchor}{escape(place)}">{shown}</a>'
    return f"<dt>{escape(pointer or 'value')}</dt><dd>{shown}</dd>"


def _around(pointer: str) -> Iterator[str]:
    """A pointer, and those of the values that it is in: an item of a list may have one place for all of its members."""
    yield pointer
    while pointer:
        pointer = pointer.rpartition("/")[0]
        yield pointer


def _leaves(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str, Any]]:
    """The scalars and empty containers of a value, by JSON pointer."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not members:
        yield pointer_of(path), value
    for name, member in members:
        yield from _leaves(member, (*path, name))
