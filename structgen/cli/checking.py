"""`structgen check`: can a schema be enforced, and do documents satisfy it?"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from structgen.batch_jobs.columns import COLUMNS
from structgen.batch_jobs.files import decoded, encoding_of, opened, text_lines
from structgen.constraints.basic import JsonSchema
from structgen.errors import OptionError, ValidatorError, excerpt
from structgen.schema.python.types import from_type
from structgen.schema.python.validators import validated
from structgen.values.judge import Fault, Refused
from structgen.vocabulary.vocabulary import single_bytes

LINES = ".jsonl", ".ndjson"
WRITTEN = {"id", "value", "finish"}
"""The names in a line of results."""
BESIDE = {"input", "input_id", "sample", *COLUMNS}
"""Further names that it may have."""
EMPTY = "there is nothing in it"
UTF_8 = "utf-8"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for one document.

    Attributes:
        file: the document's file; `-` for the standard input.
        line: the line in a file of JSON lines, from 1; 0 for a whole file.
        error: why the document does not satisfy the schema; empty if it does.
        pointer: JSON pointer of the wrong value.
        encoding: in which the file was read.
    """

    file: str
    line: int = 0
    error: str = ""
    pointer: str = ""
    encoding: str = UTF_8

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        place += "" if self.encoding == UTF_8 else f" ({self.encoding})"
        return f"{place}: {self.pointer or 'the whole'}: {self.error}" if self.error else f"{place}: valid"


def compiled(schema: Any) -> None:
    """Compiles a schema for a vocabulary of single bytes.

    Raises:
        SchemaError, LimitExceeded: it cannot be enforced, or nothing satisfies it.
    """
    JsonSchema(schema).compile(single_bytes()).matcher().mask()


def verdicts(schema: Any, files: Sequence[str]) -> Iterator[Verdict]:
    """Yields the result for each document.

    Args:
        files: files of JSON, or of JSON lines by their endings, which may have `.gz` after them; `-` reads lines from
            the standard input. Of a line that `extract` has written, the value is judged.
    """
    read = _reader(schema)
    for file in files:
        for line, text, error, encoding in _documents(file):
            fault = Fault("", error) if error else _fault(read, text)
            yield Verdict(file, line, fault.why, fault.pointer, encoding)


def _documents(file: str) -> Iterator[tuple[int, str, str, str]]:
    """The line and text of each document, why it cannot be read, and its encoding."""
    path, stream = Path(file), file == "-"
    lines = stream or (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower() in LINES
    with nullcontext(sys.stdin.buffer) if stream else opened(path) as source:
        data = source.read()
    encoding, count = encoding_of(data).removesuffix("-sig"), 0
    if not lines:
        try:
            text, error = decoded(data), "" if data.strip() else EMPTY
        except OptionError as unreadable:
            text, error = "", str(unreadable)
        yield 0, text, error, encoding
        return
    for number, (text, error) in enumerate(text_lines(BytesIO(data)), 1):
        if text.strip():
            count += 1
            yield number, text, error, encoding
    if not count:
        yield 0, "", EMPTY, encoding


def golds(files: Sequence[str], field: str | None) -> Iterator[Any]:
    """Yields the value of each document, or of a field of it; of a line that `extract` has written, its value.

    Raises:
        OptionError: a document is not JSON, or has no such field.
    """
    for file in files:
        for line, text, error, _ in _documents(file):
            try:
                value: Any = None if error else _result(json.loads(text))[0]
                value = value if field is None or error else value[field]
            except (ValueError, RecursionError, LookupError, TypeError) as wrong:
                error = f"{type(wrong).__name__}: {excerpt(wrong)}"
            if error:
                raise OptionError(str(Verdict(file, line, error)))
            yield value


def _result(document: Any) -> tuple[Any, str]:
    """The value that a document is, and where it is: of a line of results, its member `value`."""
    if isinstance(document, dict) and document.keys() >= WRITTEN and document.keys() <= WRITTEN | BESIDE:
        return document["value"], "/value"
    return document, ""


def _reader(schema: Any) -> Callable[[str], Any]:
    """What raises a `Refused` or a ValidationError for a text that is no value of the schema."""
    if isinstance(schema, (dict, bool)):
        return JsonSchema(schema).judge().value
    return partial(validated, from_type(schema)[1])


def _fault(read: Callable[[str], Any], text: str) -> Fault:
    """Why a document, or the value in a line of results, does not satisfy the schema; empty texts if it does."""
    place = ""
    try:
        document, place = _result(json.loads(text))
        read(json.dumps(document) if place else text)
    except ValidationError as refusal:
        first = refusal.errors()[0]
        return Fault(place + "".join(f"/{part}" for part in first["loc"]), excerpt(first["msg"]))
    except Refused as refusal:
        return Fault(place + refusal.fault.pointer, refusal.fault.why)
    except (ValueError, RecursionError, ValidatorError) as error:
        return Fault(place, f"{type(error).__name__}: {excerpt(error)}")
    return Fault("", "")
