"""`structgen check`: can a schema be enforced, and do documents satisfy it?"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
from pydantic import ValidationError

from structgen.constraints.basic import JsonSchema
from structgen.errors import ValidatorError, excerpt
from structgen.schema.python.types import from_type
from structgen.schema.python.validators import validated
from structgen.vocabulary.vocabulary import single_bytes

LINES = ".jsonl", ".ndjson"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for one document.

    Attributes:
        file: the document's file; `-` for the standard input.
        line: the line in a file of JSON lines, from 1; 0 for a whole file.
        error: why the document does not satisfy the schema; empty if it does.
        pointer: JSON pointer of the wrong value.
    """

    file: str
    line: int = 0
    error: str = ""
    pointer: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
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
        files: files of JSON, or of JSON lines by their endings; `-` reads lines from the standard input.
    """
    for file in files:
        for line, text in _documents(file):
            yield Verdict(file, line, *_fault(schema, text))


def _documents(file: str) -> Iterator[tuple[int, str]]:
    if file != "-" and Path(file).suffix.lower() not in LINES:
        yield 0, Path(file).read_text(encoding="utf-8")
        return
    text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    yield from ((number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip())


def _fault(schema: Any, text: str) -> tuple[str, str]:
    """Returns why a document does not satisfy the schema, and the JSON pointer; empty texts if it does."""
    try:
        if not isinstance(schema, (dict, bool)):
            validated(from_type(schema)[1], text)
            return "", ""
        judge = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
        judge(schema, format_checker=judge.FORMAT_CHECKER).validate(json.loads(text))
    except ValidationError as refusal:
        first = refusal.errors()[0]
        return excerpt(first["msg"]), "".join(f"/{part}" for part in first["loc"])
    except jsonschema.ValidationError as refusal:
        return excerpt(refusal.message), "".join(f"/{part}" for part in refusal.absolute_path)
    except (ValueError, RecursionError, ValidatorError) as error:
        return f"{type(error).__name__}: {excerpt(error)}", ""
    return "", ""
