"""What a result says of its value, on request: how sure the model was, what was cut, seed and costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from structgen.arguments import is_listed, require
from structgen.decoding.confidence import Field
from structgen.decoding.generation import Generation
from structgen.documents.layout import Document
from structgen.json_text.pointers import unescaped
from structgen.regular.quotes import Place

CONFIDENCE, PROBABILITIES, PLACES, SOURCE = "confidence", "probabilities", "places", "source"
LAYOUT = "layout"
"""Beside the source of a PDF: its pages, and the boxes of its words."""


def _confidence(made: Generation[Any]) -> dict[str, float]:
    """Of each member of an object, or of the whole `value`: the probability of the scalar that was least sure."""
    has_names, least = made.text.lstrip()[:1] == "{", dict[str, float]()
    for pointer, each in _scalars(made):
        if pointer or not has_names:
            name = unescaped(pointer.split("/")[1]) if has_names else "value"
            least[name] = min(least.get(name, 1.0), round(each.probability, 4))
    return least


def _probabilities(made: Generation[Any]) -> dict[str, float]:
    """The probability of each scalar, by JSON pointer: of what was chosen, without asking the model again."""
    return {pointer: round(each.unasked().probability, 4) for pointer, each in _scalars(made)}


def _scalars(made: Generation[Any]) -> Iterator[tuple[str, Field]]:
    containers = {pointer.rpartition("/")[0] for pointer in made.fields if pointer}
    return ((pointer, each) for pointer, each in made.fields.items() if pointer not in containers)


def places_of(places: Mapping[str, Sequence[Place]], document: Document | None = None) -> dict[str, Any]:
    """Places as data, by JSON pointer; those in a PDF with their boxes.

    Args:
        document: what the input's field `text` is from.
    """
    found = {pointer: list(map(asdict, each)) for pointer, each in places.items()}
    if document is None or not document.pages:
        return found
    for each in found.values():
        for place in each:
            if place["document"] in ("", "text"):
                place["boxes"] = [box._asdict() for box in document.boxes(place["start"], place["end"])]
    return found


COLUMNS: dict[str, Callable[[Generation[Any]], Any]] = {
    CONFIDENCE: _confidence,
    PROBABILITIES: _probabilities,
    PLACES: lambda made: places_of(made.quotes),
    SOURCE: lambda made: dict(made.sources),
    "truncated": lambda made: list(dict.fromkeys(cap.pointer for cap in made.caps)),
    "seed": lambda made: made.seed,
    "tokens": lambda made: made.stats.completion_tokens,
    "seconds": lambda made: round(made.stats.prefill_seconds + made.stats.decode_seconds, 3),
}
"""The value of each column."""


def require_columns(given: Any) -> Sequence[str]:
    known = is_listed(given, str) and set(given) <= COLUMNS.keys()
    require(known, "columns", given, f"a list of names among {', '.join(COLUMNS)}")
    return tuple(given)
