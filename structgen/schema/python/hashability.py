"""Which core schemas give values that Python cannot hash: no set can hold them."""

from __future__ import annotations

from typing import Any

from structgen.schema.python.member_names import WRAPPERS

_UNHASHABLE = frozenset({"list", "set", "dict", "deque", "typed-dict", "counter", "ordered-dict"})


def unhashable(schema: Any, definitions: dict[str, Any]) -> str:
    """What cannot be hashed about the values of a core schema; "" when nothing is known to stand in the way.

    Args:
        definitions: the core schemas that references lead to.
    """
    stack, seen = [schema], set()
    while stack:
        core = stack.pop()
        kind = core["type"]
        if kind in _UNHASHABLE:
            return f"{kind} values"
        if kind in ("model", "dataclass") and core["cls"].__hash__ is None:
            return f"{core['cls'].__name__} values"
        if kind == "definition-ref" and core["schema_ref"] not in seen:
            seen.add(core["schema_ref"])
            stack += [definitions[name] for name in [core["schema_ref"]] if name in definitions]
        elif kind == "union":
            stack += [choice[0] if isinstance(choice, tuple) else choice for choice in core["choices"]]
        elif kind == "tagged-union":
            stack += core["choices"].values()
        elif kind == "tuple":
            stack += core["items_schema"]
        elif kind == "json-or-python":
            stack.append(core["json_schema"])
        elif kind in WRAPPERS:
            stack.append(core["schema"])
    return ""
