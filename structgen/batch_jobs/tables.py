"""Tables in memory and tables on disk: rows of data frames and Arrow tables, results as CSV and Parquet."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from structgen.arguments import require
from structgen.errors import not_installed

Fields = dict[str, Any]

CHUNK = 1024
"""Rows that are converted at once."""
_SIGN, _UNSEEN = (
    r"[=+\-@\uff1d\uff0b\uff0d\uff20]",
    r"\s\0-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u202a-\u206f\ufeff",
)
FORMULA = re.compile(rf"[\t\r\n]|[{_UNSEEN}]*[=+\-@\uff1d\uff0b\uff0d\uff20]")
"""With what a formula begins in some spreadsheet: a sign, also in full width, or after characters that nobody sees."""
NUMBER = re.compile(r" *[+-][0-9]+([.,][0-9]+)*([eE][+-]?[0-9]+)?")
TABLES = ".csv", ".tsv", ".parquet"
"""The endings of tables."""


def arrow(purpose: str) -> Any:
    """The module `pyarrow`.

    Raises:
        OptionError: it is not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet  # noqa: F401 - `pyarrow.parquet` is an attribute from now on
    except ImportError as missing:
        raise not_installed(f"{purpose} needs pyarrow", "parquet") from missing
    return pyarrow


def is_table(source: Any) -> bool:
    """Is it a data frame of pandas or polars, a table of Arrow, or a dataset? What iterates in rows is none."""
    arrow_has = any(hasattr(source, each) for each in ("__arrow_c_stream__", "to_batches", "to_pylist"))
    return _is_pandas(source) or arrow_has


def _is_pandas(source: Any) -> bool:
    return type(source).__module__.partition(".")[0] == "pandas" and hasattr(source, "columns")


def rows_of_table(source: Any) -> tuple[Iterator[Any], int | None]:
    """The rows of a table, and how many there are; a column of texts alone is texts.

    Raises:
        OptionError: pyarrow is needed and missing.
    """
    total = len(source) if hasattr(source, "__len__") else None
    if _is_pandas(source):
        require(source.columns.is_unique, "inputs", list(source.columns), "columns with a name each")
        return _rows_of_pandas(source), total
    if hasattr(source, "iter_rows"):  # polars
        return source.iter_rows(named=True), total
    if hasattr(source, "to_pylist") and not hasattr(source, "to_batches"):  # an array, or one batch
        return iter(source.to_pylist()), total
    if not hasattr(source, "to_batches"):
        if hasattr(source, "column_names") or not hasattr(source, "__arrow_c_stream__"):
            return iter(source), total  # a dataset gives rows
        if hasattr(source, "to_list"):  # a series of polars
            return iter(source), total
        source = arrow("this table").RecordBatchReader.from_stream(source)
    return chain.from_iterable(batch.to_pylist() for batch in _batches(source)), total


def _batches(table: Any) -> Iterable[Any]:
    """The record batches of an Arrow table, or of a reader of them."""
    batches: Iterable[Any] = table.to_batches(CHUNK) if hasattr(table, "num_rows") else table
    return batches


def _rows_of_pandas(frame: Any) -> Iterator[Fields]:
    names = [str(name) for name in frame.columns]
    for begin in range(0, len(frame), CHUNK):
        part = frame.iloc[begin : begin + CHUNK]
        columns = [
            part.iloc[:, place].astype(object).where(part.iloc[:, place].notna(), None) for place in range(len(names))
        ]
        for values in zip(*columns, strict=True):
            yield dict(zip(names, values, strict=True))


def write_table(
    entries: Iterable[Fields], again: Iterable[Fields], path: Path, ending: str, *, escape_formulas: bool = True
) -> None:
    """Writes the results of a job as a table: `id`, the columns that are carried through, those of the value, `finish`.

    Args:
        entries, again: the results, to be read twice: for the columns, and for their values.
        path: the new file.
        ending: one of `TABLES`.
        escape_formulas: in CSV, write `'` before texts that spreadsheets would execute, as OWASP says.
    """
    if ending == ".parquet":
        _write_parquet(entries, again, path)
    else:
        _write_csv(entries, again, path, "\t" if ending == ".tsv" else ",", _escaped if escape_formulas else _cell)


def flat(entry: Mapping[str, Any]) -> Fields:
    """The columns of one result. A value that is no object is the column `value`."""
    carried, value = entry.get("input") or {}, entry["value"]
    own = value if isinstance(value, dict) else {"value": value}
    fixed = {name: entry[name] for name in entry if name not in ("input", "value")}
    for name in [name for name, each in fixed.items() if isinstance(each, dict)]:
        fixed |= {f"{name}.{part}": each for part, each in fixed.pop(name).items()}
    columns = {"id": fixed.pop("id")}
    columns |= {f"input.{name}" if name in own or name in columns else name: each for name, each in carried.items()}
    columns |= {f"value.{name}" if name in columns or name in fixed else name: each for name, each in own.items()}
    return columns | fixed


def _write_csv(
    entries: Iterable[Fields], again: Iterable[Fields], path: Path, delimiter: str, cell: Callable[[Any], Any]
) -> None:
    names = list(dict.fromkeys(chain.from_iterable(map(flat, entries))))
    with path.open("w", encoding="utf-8", newline="") as file:
        # csv quotes a carriage return only if it ends lines; unquoted, it would begin a row for other readers.
        lines = SimpleNamespace(write=lambda line: file.write(line.removesuffix("\r\n") + "\n"))
        writer = csv.writer(lines, delimiter=delimiter, lineterminator="\r\n")
        writer.writerow([cell(name) for name in names] or ["id"])
        for entry in again:
            row = flat(entry)
            writer.writerow([cell(row.get(name)) for name in names])


def _escaped(value: Any) -> Any:
    """A cell that no spreadsheet executes. A text that is a number, as -5 or +1.5e3, is none of a formula's."""
    cell = _cell(value)
    executed = isinstance(cell, str) and FORMULA.match(cell) is not None and not NUMBER.fullmatch(cell)
    return f"'{cell}" if executed else cell


def _cell(value: Any) -> Any:
    """A cell of CSV; as JSON what it has no form for, among it texts with NUL, which readers and old writers refuse."""
    is_json = isinstance(value, (dict, list, bool)) or (isinstance(value, str) and "\0" in value)
    return json.dumps(value, ensure_ascii=False) if is_json else value


def _write_parquet(entries: Iterable[Fields], again: Iterable[Fields], path: Path) -> None:
    pyarrow = arrow("a Parquet file")
    types: dict[str, Any] = {}
    for rows in _chunks(entries):
        for name in dict.fromkeys(chain.from_iterable(rows)):
            types[name] = _type(pyarrow, types.get(name, pyarrow.null()), [row.get(name) for row in rows])
    schema = pyarrow.schema([(name, types[name] or pyarrow.string()) for name in types] or [("id", pyarrow.string())])
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for rows in _chunks(again):
            columns = [
                pyarrow.array([_as_text(row.get(name)) if types[name] is None else row.get(name) for row in rows],
                              schema.field(name).type)
                for name in types
            ]  # fmt: skip
            writer.write_batch(pyarrow.record_batch(columns, schema=schema))


def _type(pyarrow: Any, before: Any, values: list[Any]) -> Any:
    """The type of a column with more values; None where no type has them all, so that they are written as JSON."""
    try:
        new = pyarrow.array(values).type
        parts = [pyarrow.schema([("x", each)]) for each in (before, new) if each is not None]
        both = pyarrow.unify_schemas(parts, promote_options="permissive").field(0).type
        return None if before is None or not _is_writable(pyarrow, both) else both
    except (pyarrow.ArrowException, OverflowError):
        return None


def _is_writable(pyarrow: Any, kind: Any) -> bool:
    """Can Parquet hold the type? It has no objects without members."""
    if pyarrow.types.is_struct(kind):
        return kind.num_fields > 0 and all(_is_writable(pyarrow, each.type) for each in kind)
    return _is_writable(pyarrow, kind.value_type) if pyarrow.types.is_list(kind) else True


def _as_text(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _chunks(entries: Iterable[Fields]) -> Iterator[list[Fields]]:
    rows = map(flat, entries)
    while chunk := list(islice(rows, CHUNK)):
        yield chunk
