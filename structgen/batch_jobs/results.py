"""The files of a job: JSON lines of results, and beside them JSON lines of inputs that failed."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

from structgen.arguments import require
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
        lines = self.path.suffix.lower() not in (".csv", ".tsv", ".parquet", ".xlsx")
        require(lines, "out", str(path), "a name that ends in .jsonl: the file has a line of JSON for each input")
        self.errors_path = self.path.with_suffix(".errors.jsonl")
        self.done: set[str] = set()
        if self.path.exists():
            if not resume:
                raise OptionError(f"out={str(path)!r} is there already: pass resume=True to go on, or another name")
            self._read()

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

    def begin(self) -> None:
        """Makes the file of results, and removes that of failed inputs."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.touch()
        self.errors_path.unlink(missing_ok=True)

    def add(self, entry: dict[str, Any]) -> None:
        """Writes an entry; one with an `error` is a failed input."""
        with (self.errors_path if "error" in entry else self.path).open("ab") as file:
            file.write(json.dumps(entry, ensure_ascii=False).encode() + b"\n")
