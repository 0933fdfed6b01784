"""Tables of cases: files under tests/data, in JSON, or in Python's notation where a case is a type or a constraint."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[1] / "data"


@cache
def _tables(path: Path) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return dict(json.loads(text))
    imports, *parts = re.split(r"^=== (\w+)\n", text, flags=re.MULTILINE)
    return {"": imports, **dict(zip(parts[::2], parts[1::2], strict=True))}


def cases(file: str, name: str, names: dict[str, Any] | None = None) -> Any:
    """The table of that name in a file.

    Args:
        file: below tests/data, without its ending: .json, or .txt if there are `names`.
        names: what the expressions of a table in Python's notation may use besides the imports at the file's beginning:
            the caller's globals.
    """
    if names is None:
        return json.loads(json.dumps(_tables(DATA / f"{file}.json")[name]))
    tables, scope = _tables(DATA / f"{file}.txt"), {**names}
    exec(tables[""], scope)
    return eval(compile(f"(\n{tables[name]}\n)", f"tests/data/{file}.txt", "eval"), scope)
