"""Containers and classes with JSON at the borders of what their validators take; see `python_values.py`."""

from __future__ import annotations

from tests.support.python_values import Row
from tests.support.tables import cases

CONTAINERS: list[Row] = cases("support/python_object_values", "CONTAINERS", globals())

MODELS: list[Row] = cases("support/python_object_values", "MODELS", globals())
