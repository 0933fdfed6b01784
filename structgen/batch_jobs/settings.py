"""The settings of a job as digests, so that no job goes on with other ones."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import fields
from hashlib import blake2b
from typing import Any

from structgen.batch_jobs.job_options import JobOptions
from structgen.decoding.call_options import CallOptions
from structgen.schema.python.types import from_type

MODEL = "model"
"""The one setting that may be unknown."""
BUDGET = "budget"
"""The one setting that may change: values that were cut short under another one are made again."""
DEEPEST = 50


def job_settings(model: Any, schema: Any, job: JobOptions, options: CallOptions) -> dict[str, str]:
    """What must be equal where a job goes on: digests by name. Code counts by its name, not by what it does.

    Args:
        model: a loaded one, or what it is loaded from; a function's is unknown.
    """
    module = getattr(model, "module", model)
    name = module if isinstance(module, str) else getattr(module, "name_or_path", "")
    described = from_type(schema)[0] if callable(schema) or hasattr(schema, "__origin__") else schema
    deciding = {each.name: getattr(options, each.name) for each in fields(options) if "speed" not in each.metadata}
    limits = deciding.pop("limits")
    deciding |= {"stop": getattr(limits, "stop", ()), BUDGET: limits}
    named = {MODEL: os.path.basename(name.rstrip("/")), "schema": described, **job.deciding, **deciding}
    if not name:
        del named[MODEL]
    return {each: _digest(value) for each, value in named.items()}


def _digest(value: Any) -> str:
    text = json.dumps(_plain(value, 0), sort_keys=True, default=str)
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _plain(value: Any, depth: int) -> Any:
    """A value as JSON, without addresses: an object is its class with its simple attributes."""
    if value is None or isinstance(value, (str, int, float)) or depth > DEEPEST:
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(each, depth + 1) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each, depth + 1) for each in value]
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(each, depth + 1) for each in value), key=str)
    if hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    kind = type(value)
    state = getattr(value, "__dict__", None) or {each: getattr(value, each) for each in getattr(kind, "__slots__", ())}
    simple = {
        each: own for each, own in state.items() if own is None or isinstance(own, (str, int, float, tuple, dict))
    }
    return [f"{kind.__module__}.{kind.__qualname__}", _plain(simple, depth + 1)]
