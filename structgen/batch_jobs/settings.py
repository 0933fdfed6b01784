"""The settings of a job as digests, so that no job continues with other ones."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Mapping
from dataclasses import fields
from hashlib import blake2b
from types import CellType, CodeType
from typing import Any, get_args

from structgen.batch_jobs.job_options import JobOptions
from structgen.decoding.call_options import CallOptions
from structgen.remote import Remote
from structgen.schema.python.types import from_type

MODEL = "model"
"""The one setting that may be unknown."""
BUDGET = "budget"
"""The one setting that may change: values that were cut short under another one are made again."""
DEEPEST = 50
_NOT_THE_USERS = {"builtins", "pydantic", "typing", "typing_extensions", "enum", "datetime", "decimal", "uuid"}


def job_settings(model: Any, schema: Any, job: JobOptions, options: CallOptions) -> dict[str, str]:
    """What must be equal where a job continues: digests by name.

    Functions count by name and code: a prompt that is a lambda, a guard, the validators of a type.

    Args:
        model: a loaded one, or what it is loaded from; a function's is unknown.
    """
    module = getattr(model, "module", model)
    name = module.model if isinstance(module, Remote) else getattr(module, "name_or_path", "")
    name = module if isinstance(module, str) else name
    described = from_type(schema)[0] if callable(schema) or hasattr(schema, "__origin__") else schema
    deciding = {each.name: getattr(options, each.name) for each in fields(options) if "speed" not in each.metadata}
    limits = deciding.pop("limits")
    deciding |= {"stop": getattr(limits, "stop", ()), BUDGET: limits}
    named = {MODEL: os.path.basename(name.rstrip("/")), "schema": described, **job.deciding, **deciding}
    code = _code_of(schema, set())
    if code:
        named["validators"] = code
    if not name:
        del named[MODEL]
    return {each: _digest(value) for each, value in named.items()}


def _digest(value: Any) -> str:
    text = json.dumps(_plain(value, 0), sort_keys=True, default=str)
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _code_of(value: Any, seen: set[int]) -> list[str]:
    """Digests of the functions of the user: of one itself, or those of a type and of the types of its members."""
    if id(value) in seen:
        return []
    seen.add(id(value))
    function = inspect.unwrap(getattr(value, "wrapped", None) or getattr(value, "__func__", None) or value)
    code = getattr(function, "__code__", None)
    if code is not None:
        kept = [cell.cell_contents for cell in function.__closure__ or () if cell != CellType()]
        own = [_instructions(code), _plain([function.__defaults__, function.__kwdefaults__, kept], DEEPEST - 3)]
        return [blake2b(repr(own).encode(), digest_size=8).hexdigest()]
    found = list[str]()
    if isinstance(value, type):
        if value.__module__.partition(".")[0] in _NOT_THE_USERS:
            return []
        for base in value.__mro__[1:]:
            found += _code_of(base, seen)
        for name, each in vars(value).items():
            if hasattr(each, "wrapped") or (not name.startswith("__") and hasattr(each, "__func__")):
                found += _code_of(each, seen)
        for each in (getattr(value, "__annotations__", None) or {}, getattr(value, "model_fields", None) or {}):
            for member in each.values():
                found += _code_of(member, seen)
    for name in ("func", "annotation"):
        found += _code_of(getattr(value, name, None), seen)
    for each in (*get_args(value), *(getattr(value, "metadata", None) or getattr(value, "__metadata__", None) or ())):
        found += _code_of(each, seen)
    return found


def _instructions(code: CodeType) -> list[Any]:
    """What a function does, without the places of its lines."""
    constants = [
        _instructions(each)
        if isinstance(each, CodeType)
        else repr(sorted(each, key=repr))
        if isinstance(each, frozenset)
        else repr(each)
        for each in code.co_consts
    ]
    return [code.co_code.hex(), constants, code.co_names, code.co_varnames]


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
        return [f"{value.__module__}.{value.__qualname__}", _code_of(value, set())]
    kind = type(value)
    state = getattr(value, "__dict__", None) or {each: getattr(value, each) for each in getattr(kind, "__slots__", ())}
    simple = {
        each: own for each, own in state.items() if own is None or isinstance(own, (str, int, float, tuple, dict))
    }
    return [f"{kind.__module__}.{kind.__qualname__}", _plain(simple, depth + 1)]
