"""The inputs of a job: a folder, a file of rows, or an iterable."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from structgen.arguments import require
from structgen.callbacks import Calling
from structgen.errors import OptionError, excerpt

Prompt = str | Callable[[Mapping[str, Any]], Any] | None


@dataclass(frozen=True, slots=True)
class InputRow:
    """One input.

    Attributes:
        id: the `id` of a row, or its number from 1; for a file of a folder, its path in the folder.
        fields: the fields by name; a text is the field `text`.
        given: the prompt itself, if it is chat messages or token ids.
        error: why the input cannot be read; empty if it can.
    """

    id: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    given: Any = None
    error: str = ""

    def prompt(self, template: Prompt) -> Any:
        """Returns the prompt for the model.

        Args:
            template: a text with names of fields in braces, or a function of the fields; None for the text itself.

        Raises:
            OptionError: a field is missing, or the row cannot be read. CallbackError: the function raises.
        """
        if self.error:
            raise OptionError(self.error)
        if callable(template):
            with Calling("prompt", template):
                return template(self.fields)
        if self.given is not None:
            return self.given
        try:
            return self.fields["text"] if template is None else template.format_map(self.fields)
        except (LookupError, ValueError, AttributeError, TypeError) as error:  # a template may have `{a[0].b:x}`
            has = f"the row has {', '.join(map(repr, self.fields)) or 'none'}"
            raise OptionError(f"the prompt needs a field {excerpt(error)}: {has}") from error


def read_inputs(source: Any) -> Iterator[InputRow]:
    """Yields the inputs.

    Args:
        source: the path of a folder (each file is an input), of a `.jsonl`, `.csv`, `.tsv` or `.parquet` file (each row
            is one), or of another file (it is one); or an iterable of texts, dicts of fields, chat messages or token
            ids.

    Raises:
        OptionError: it is none of these, or two inputs have one id.
    """
    rows = _of_path(Path(source)) if isinstance(source, (str, PathLike)) else _of_program(source)
    known: set[str] = set()
    for row in rows:
        if row.id in known:
            raise OptionError(f"inputs: two have the id {row.id!r}")
        known.add(row.id)
        yield row


def _of_path(path: Path) -> Iterator[InputRow]:
    require(path.exists(), "inputs", str(path), "a folder or file that is there")
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.is_file() and not each.name.startswith("."))
        return (_of_file(each, each.relative_to(path).as_posix()) for each in files)
    kinds: dict[str, Callable[[Path], Iterator[InputRow]]] = {
        ".jsonl": _of_json_lines,
        ".ndjson": _of_json_lines,
        ".csv": _of_csv,
        ".tsv": _of_csv,
        ".parquet": _of_parquet,
    }
    kind = kinds.get(path.suffix.lower())
    return iter([_of_file(path, path.name)]) if kind is None else kind(path)


def _of_file(path: Path, name: str) -> InputRow:
    try:
        return InputRow(name, {"path": name, "text": path.read_text(encoding="utf-8")})
    except (OSError, UnicodeError) as error:
        return InputRow(name, error=f"{type(error).__name__}: {excerpt(error)}")


def _of_json_lines(path: Path) -> Iterator[InputRow]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield _of_value(json.loads(line), number)
            except (ValueError, RecursionError) as error:
                yield InputRow(str(number), error=f"line {number} is not JSON: {excerpt(error)}")


def _of_csv(path: Path) -> Iterator[InputRow]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        for number, fields in enumerate(csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ","), 1):
            yield _of_value({name: value for name, value in fields.items() if name is not None}, number)


def _of_parquet(path: Path) -> Iterator[InputRow]:
    try:
        from pyarrow import parquet
    except ImportError as missing:
        raise OptionError("inputs: a Parquet file needs pyarrow: install structgen[parquet]") from missing
    number = 0
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(1024):
            for fields in batch.to_pylist():
                number += 1
                yield _of_value(fields, number)


def _of_program(source: Any) -> Iterator[InputRow]:
    listed = isinstance(source, Iterable) and not isinstance(source, Mapping)
    require(listed, "inputs", source, "a path, or an iterable of texts, dicts, chat messages or token ids")
    return (_of_value(value, number) for number, value in enumerate(source, 1))


def _of_value(value: Any, number: int) -> InputRow:
    if isinstance(value, str):
        return InputRow(str(number), {"text": value})
    if isinstance(value, Mapping):
        own = value.get("id")
        return InputRow(str(number) if own is None or own == "" else str(own), value)
    if isinstance(value, (list, tuple)) and value:
        return InputRow(str(number), given=list(value))
    return InputRow(str(number), error=f"{excerpt(repr(value))} is no text, row of fields, messages or token ids")
