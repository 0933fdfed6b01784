"""`absence_thresholds`: when a member that may be null is null, learnt from examples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic_core import to_jsonable_python

from structgen.api import generate
from structgen.arguments import is_number, require
from structgen.decoding.refusals.absence_row import EVEN
from structgen.errors import OptionError
from structgen.json_text.pointers import unescaped
from structgen.schema.references import value_at

NEVER = 2.0
"""A threshold that no probability reaches."""
LEAST = 4
"""A member has a threshold of its own if that many examples have it, and that many have not."""

Scores = list[tuple[float, bool]]
"""The probability that a member is absent, and whether it is."""


def absence_thresholds(
    model: Any, examples: Sequence[tuple[Any, Any]], schema: Any, *, invented: float = 1.0, **options: Any
) -> dict[str, float]:
    """Finds the thresholds for `generate(..., absent=thresholds)` that make the fewest mistakes on examples.

        thresholds = absence_thresholds(model, [(prompt, {"name": "Ada", "phone": None}), ...], Contact)

    The model writes a value for each member, whatever it thinks of null. Between the probabilities of those that the
    example has and of those that it has not lies the threshold.

    Args:
        model, schema: as for `generate`.
        examples: pairs of a prompt and its right value: the type's own, or JSON.
        invented: how many lost values one invented value weighs.
        options: others of `generate`. `source=` is a list, with one for each example.

    Returns:
        Thresholds by JSON pointer, with `*` in place of an index; "" has that of all members together.

    Raises:
        OptionError: there are no examples, none decides about null, or they would make every member null.
    """
    pairs = isinstance(examples, (list, tuple)) and all(isinstance(each, (list, tuple)) for each in examples)
    require(bool(pairs and examples), "examples", examples, "a list of pairs of a prompt and its right value")
    require(is_number(invented, 0), "invented", invented, "a number of at least 0")
    prompts, right = [prompt for prompt, _ in examples], [to_jsonable_python(value) for _, value in examples]
    runs = generate(model, prompts, schema, absent=NEVER, details=True, **options)
    scores: dict[str, Scores] = {"": []}
    for run, value in zip(runs, right, strict=True):
        for pointer, absence in run.absences.items():
            for is_null in _is_null(value, pointer):
                starred = "/".join("*" if part.isdigit() else part for part in pointer.split("/"))
                scores.setdefault(starred, []).append((absence.probability, is_null))
                scores[""].append((absence.probability, is_null))
    require(bool(scores[""]), "schema", schema, "a schema with members that may be null, as the examples have")
    found = {pointer: _threshold(own, invented) for pointer, own in scores.items() if not pointer or _are_enough(own)}
    absent = sum(is_null for _, is_null in scores[""])
    if found[""] is None or absent == len(scores[""]):
        raise OptionError(
            f"examples: {absent} of {len(scores[''])} members are null in them, and with the thresholds that they give "
            "every member would be: pass more examples that have values, or invented= below 1"
        )
    return {pointer: each for pointer, each in found.items() if each is not None}


def _is_null(value: Any, pointer: str) -> Iterator[bool]:
    """Is the right value null there? Nothing if the example has no such place."""
    around, _, name = pointer.rpartition("/")
    try:
        holder = value_at(value, around)
    except (LookupError, ValueError, TypeError):
        return
    if isinstance(holder, Mapping):
        yield holder.get(unescaped(name)) is None


def _are_enough(scores: Scores) -> bool:
    absent = sum(is_null for _, is_null in scores)
    return min(absent, len(scores) - absent) >= LEAST


def _threshold(scores: Scores, invented: float) -> float | None:
    """The threshold with the cheapest mistakes; of several, in the middle of the widest gap. None if all are null."""
    odds = sorted((_log_odds(chance), is_null) for chance, is_null in scores)
    if len({is_null for _, is_null in odds}) < 2:
        return EVEN
    cost = float(sum(not is_null for _, is_null in odds))  # all are null
    best = (cost, 0.0, -math.inf)
    for place, (here, is_null) in enumerate(odds):
        cost += invented if is_null else -1.0
        beyond = odds[place + 1][0] if place + 1 < len(odds) else math.inf
        gap = beyond - here
        if gap > 0:
            middle = here + min(gap, 2.0) / 2
            best = min(best, (cost, -gap, middle))
    return None if best[2] == -math.inf else 1 / (1 + math.exp(-best[2]))


def _log_odds(chance: float) -> float:
    inside = min(max(chance, 1e-12), 1 - 1e-12)
    return math.log(inside) - math.log1p(-inside)
