"""The files of a job: JSON lines of results, and beside them JSON lines of inputs that failed."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from typing_extensions import Self

from structgen.errors import OptionError, excerpt


class ResultFiles:
    """Writes the results of a job, and the inputs that failed, each at once.

    Args:
        path: the file of results; that of failed inputs has the ending `.errors.jsonl` instead.
        resume: append to the file, without a last line that was cut off; failed inputs are tried again. Otherwise the
            file must not exist.
    """

    def __init__(self, path: str | PathLike[str], *, resume: bool) -> None:
        self.path = Path(path)
        self.errors_path = self.path.with_suffix(".errors.jsonl")
        self.done: set[str] = set()
        if self.path.exists():
            if not resume:
                raise OptionError(f"out={str(path)!r} is there already: pass resume=True to go on, or another name")
            self._read()
        self._results: BinaryIO | None = None
        self._errors: BinaryIO | None = None

    def _read(self) -> None:
        """Reads which inputs are done, and cuts off an incomplete last line."""
        whole = 0
        with self.path.open("rb+") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break
                try:
                    self.done.add(json.loads(line)["id"])
                except (ValueError, TypeError, LookupError) as error:
                    raise OptionError(
                        f"out={str(self.path)!r} has a line that is no result: {excerpt(line)}"
                    ) from error
                whole += len(line)
            file.truncate(whole)

    def __enter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.errors_path.unlink(missing_ok=True)
        self._results = self.path.open("ab")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        for file in (self._results, self._errors):
            if file is not None:
                file.close()

    def add(self, entry: dict[str, Any]) -> None:
        """Writes an entry; one with an `error` is a failed input."""
        if "error" in entry:
            if self._errors is None:
                self._errors = self.errors_path.open("ab")
            file = self._errors
        else:
            assert self._results is not None
            file = self._results
        file.write(json.dumps(entry, ensure_ascii=False).encode() + b"\n")
        file.flush()
