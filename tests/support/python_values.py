"""Scalar types with JSON at the borders of what their validators take: one row per kind of field.

`right`: the validator takes it, and the mask must. `wrong`: the validator refuses it, and the mask must. What a
validator takes but nothing writes (`"1"` for an int) stands in neither.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.support.tables import cases

WORDS = tuple(f"word {n}" for n in range(1500))


def quoted(*texts: str) -> list[str]:
    """JSON strings."""
    return [json.dumps(text, ensure_ascii=False) for text in texts]


ONE_UUID = "12345678-1234-4678-9234-567812345678"
MAX = sys.float_info.max

# A name, the type, right, wrong.
Row = tuple[str, Any, list[str], list[str]]

SCALARS: list[Row] = cases("support/python_values", "SCALARS", globals())

STRINGS: list[Row] = cases("support/python_values", "STRINGS", globals())
