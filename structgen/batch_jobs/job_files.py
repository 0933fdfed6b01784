"""The files of a job: its results, its failures, and next to them what a later run needs to continue.

For `out="people.jsonl"` there are

    people.jsonl                 a line for each result
    people.jsonl.errors.jsonl    a line for each input that failed, with the input
    people.jsonl.job/            settings, the digest of each input with a result, a lock, a report of the run

A table (CSV, Parquet) is made from `people.csv.job/results.jsonl` when the run ends. What this module does not write it
does not change: no file is removed or replaced but its own.

An input counts as done if it has a line of results, and its digest, which is written first. So whatever a killed
process has left, no result is lost, and none is kept for another input.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from filelock import FileLock, Timeout
from typing_extensions import Self

from structgen.arguments import require
from structgen.batch_jobs.files import OTHERS
from structgen.batch_jobs.report import write_report
from structgen.batch_jobs.rows import InputRow, source_of
from structgen.batch_jobs.settings import BUDGET, MODEL
from structgen.batch_jobs.tables import TABLES, arrow, write_table
from structgen.documents.files import READERS
from structgen.errors import OptionError, excerpt
from structgen.trace.records import CUT

Entry = dict[str, Any]
"""A line of results: `id` with `value` and `finish`; or one of failures: `id` with `error` and `input`."""


class Outcome(NamedTuple):
    """What has become of an input."""

    row: InputRow
    number: int  # its place among all
    entry: Entry  # its line of results or of failures
    tokens: int = 0
    seconds: float = 0.0
    value: Any = None  # of its type; None if the input failed
    text: str = ""  # that was generated


OTHER_FORMATS = (
    ".gz", *OTHERS, *READERS, ".txt", ".text", ".md", ".markdown", ".rst", ".html", ".htm", ".xml", ".json", ".yaml",
    ".yml", ".toml", ".rtf", ".tex", ".log", ".db", ".sqlite",
)  # fmt: skip
"""Endings of files that hold something other than results."""
SYNC_SECONDS = 1.0
"""Lines reach the system at once, and the disk at least so often."""
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def written(value: Any) -> bytes:
    """One line of JSON; what JSON does not know is written as text, and a number that is not finite as null."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(json.loads(json.dumps(value, default=str))), ensure_ascii=False)
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair
        return json.dumps(json.loads(text)).encode() + b"\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return list(map(_finite, value))
    return None if isinstance(value, float) and not math.isfinite(value) else value


def digest_of(row: InputRow) -> str:
    """Sixteen characters that tell an input from another one under its id."""
    given = [row.given, dict(row.fields)]
    text = ADDRESS.sub("", json.dumps(given, default=repr, skipkeys=True))
    return blake2b(text.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class Places:
    """Where the files of a job lie."""

    out: Path

    @classmethod
    def of(cls, out: str | PathLike[str]) -> Places:
        return cls(Path(os.path.realpath(out)))

    @property
    def folder(self) -> Path:
        return self.out.with_name(f"{self.out.name}.job")

    @property
    def errors(self) -> Path:
        return self.out.with_name(f"{self.out.name}.errors.jsonl")

    @property
    def results(self) -> Path:
        """The lines of results."""
        return self.folder / "results.jsonl" if self.is_table else self.out

    @property
    def is_table(self) -> bool:
        return self.out.suffix.lower() in TABLES

    @property
    def settings(self) -> Path:
        return self.folder / "job.json"

    @property
    def digests(self) -> Path:
        return self.folder / "inputs.jsonl"

    @property
    def kept(self) -> tuple[Path, Path, Path]:
        """The lines of results, of failures and of digests."""
        return self.results, self.errors, self.digests

    def has(self, path: Path) -> bool:
        """Is it a file of this job?"""
        real = Path(os.path.realpath(path))
        return real in (self.out, self.errors) or self.folder in (real, *real.parents)


def is_of_a_job(path: Path) -> bool:
    """Is it a file of any job, which is no document of a folder?"""
    if any(each.suffix == ".job" and (each / "job.json").exists() for each in path.parents):
        return True
    return Places(path.with_name(path.name.removesuffix(".errors.jsonl"))).settings.exists()


class JobFiles:
    """A block in which a job writes its results and failures, each as soon as it is known.

    Args:
        out: the file of results; its ending says whether it is a table.
        settings: what must be equal where the job continues, by name.
        resume: continue with the job of this file; otherwise there must be none.
        escape_formulas: see `write_table`.

    Attributes:
        done: the digests of the inputs that have a result, by their ids.
        cut: the ids of those whose result is cut short, or is not complete.

    Raises:
        OptionError: there is a file and `resume` is False, or none of a job, or another job's; another process writes
            it; or it cannot be written.
    """

    def __init__(
        self, out: str | PathLike[str], settings: Mapping[str, str], *, resume: bool, escape_formulas: bool = True
    ) -> None:
        self.places, self._settings, self._resume = Places.of(out), dict(settings), resume
        self._shown, self._escapes = os.fspath(out), escape_formulas
        self.done: dict[str, str] = {}
        self.cut = set[str]()
        self._failed: dict[str, bool] = {}  # each id of a line of failures from before: has it an outcome now?
        self._redone = False
        self._stack = ExitStack()
        named = self._shown != "" and not self._shown.endswith((os.sep, "/")) and not os.path.isdir(self.places.out)
        known = self.places.out.suffix.lower() not in OTHER_FORMATS
        require(named and known, "out", self._shown, "the name of a file in .jsonl, .csv, .tsv or .parquet")
        if self.places.out.suffix.lower() == ".parquet":
            arrow("out= in Parquet")

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._begin(stack)
            self._results, self._errors, self._digests = (
                stack.enter_context(_Lines(path)) for path in self.places.kept
            )
            self._results.open()
            self._stack = stack.pop_all()
        return self

    def _begin(self, stack: ExitStack) -> None:
        """Makes the job's folder, or reads what it has."""
        places, told = self.places, f"out={self._shown!r}"
        if not self._resume:
            there = next((each for each in (places.out, places.errors, places.folder) if os.path.lexists(each)), None)
            if there is not None:
                name = "it" if there == places.out else repr(there.name)
                raise OptionError(f"{told}: {name} already exists: pass resume=True to continue it, or another name")
        elif os.path.exists(places.out) and not os.path.exists(places.folder):
            raise OptionError(
                f"{told}: {places.folder.name!r} next to it is missing, so no job can continue there: move it"
            )
        try:
            places.folder.mkdir(parents=True, exist_ok=self._resume)
            with suppress(FileNotFoundError):
                os.lstat(places.errors)  # a name that is too long is found now, and not by the first failure
            lock = FileLock(places.folder / "lock", timeout=0)
            stack.enter_context(lock.acquire())
        except Timeout as error:
            raise OptionError(f"{told}: another process is writing it") from error
        except OSError as error:
            raise OptionError(f"{told} cannot be written: {excerpt(error)}") from error
        self._compare()
        if self._resume:
            self._read()

    def _compare(self) -> None:
        """Writes the settings, or compares them with those of the job that continues."""
        try:
            before = json.loads(self.places.settings.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            if self.places.results.exists():
                raise OptionError(f"{str(self.places.settings)!r} is missing, so no job can continue there") from error
            _replace(self.places.settings, [json.dumps(self._settings, indent=1).encode()])
            return
        except ValueError as error:
            raise OptionError(f"{str(self.places.settings)!r} is damaged: {excerpt(error)}") from error
        now = self._settings
        known = {name for name in {**before, **now} if name != MODEL or (name in before and name in now)} - {BUDGET}
        changed = sorted(name for name in known if before.get(name) != now.get(name))
        if changed:
            raise OptionError(
                f"out={self._shown!r} has results of a job with another {', '.join(changed)}, and resume=True would "
                "mix them: pass what that job had, or another out="
            )

    def _read(self) -> None:
        """Reads which inputs are done and which have failed. What was cut under another budget is not done."""
        places, digests, budget = self.places, dict[str, str](), [self._settings.get(BUDGET)]
        others = set[str]()
        for line in _whole_lines(places.digests):
            with suppress(ValueError):
                id_, digest, _, _, _, *used = json.loads(line)
                digests[id_] = digest
                (others.discard if used == budget else others.add)(id_)
        lines = 0
        for line in _whole_lines(places.results):
            entry = self._entry_of(line)
            id_, is_cut = str(entry["id"]), entry.get("finish") in CUT
            lines += 1
            (self.cut.add if is_cut or not entry.get("complete", True) else self.cut.discard)(id_)
            self.done[id_] = "" if is_cut and id_ in others else digests.get(id_, "")
        if lines > len(self.done):
            self._keep_last()
        for line in _whole_lines(places.errors):
            self._failed[self._id_of(line)] = False

    def _entry_of(self, line: bytes) -> Entry:
        try:
            entry: Entry = json.loads(line)
            entry["id"]
        except (ValueError, TypeError, LookupError) as error:
            raise OptionError(f"out={self._shown!r} has a line that is not a result: {excerpt(line)}") from error
        return entry

    def _id_of(self, line: bytes) -> str:
        return str(self._entry_of(line)["id"])

    def is_done(self, row: InputRow) -> bool:
        """Has the input a result, for what it says now?"""
        return row.id in self.done and self.done[row.id] == digest_of(row)

    def add(self, outcome: Outcome) -> None:
        """Writes the outcome of an input."""
        row, number, entry, tokens, seconds, *_ = outcome
        if row.id in self._failed:
            self._failed[row.id] = True
        if "error" in entry:
            self._errors.add(entry)
            return
        self._redone |= row.id in self.done
        self._digests.add([row.id, digest_of(row), number, tokens, round(seconds, 3), self._settings.get(BUDGET)])
        self._results.add(entry)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Removes what has been replaced, and writes the table."""
        with self._stack:
            for lines in (self._digests, self._results, self._errors):
                lines.__exit__()
            with suppress(OSError) if error is not None else nullcontext():  # the first error is the one to tell
                if self._redone:
                    self._keep_last()
                if any(self._failed.values()):
                    self._settle_failures()
                if self.places.is_table:
                    self._write_table()
                write_report(self.places.out.name, self.places.folder, map(_whole_lines, self.places.kept))

    def _keep_last(self) -> None:
        """Removes results that later ones have replaced."""
        path = self.places.results
        last = {self._id_of(line): number for number, line in enumerate(_whole_lines(path))}
        kept = set(last.values())
        _replace(path, (line for number, line in enumerate(_whole_lines(path)) if number in kept))

    def _settle_failures(self) -> None:
        """Removes failures of before whose inputs have another outcome since."""
        path = self.places.errors
        new = {self._id_of(line): number for number, line in enumerate(_whole_lines(path))}
        failed_again = {id_ for id_ in self._failed if self._failed[id_]} & self._errors.ids
        gone = {id_ for id_ in self._failed if self._failed[id_]} - failed_again
        kept = {number for id_, number in new.items() if id_ not in gone}
        if kept:
            _replace(path, (line for number, line in enumerate(_whole_lines(path)) if number in kept))
        else:
            path.unlink(missing_ok=True)

    def _write_table(self) -> None:
        """Makes the table of all results so far, in the order of the inputs."""
        read = partial(_entries_at, self.places.results, _offsets(self.places))
        new = self.places.folder / "table.new"
        write_table(read(), read(), new, self.places.out.suffix.lower(), escape_formulas=self._escapes)
        os.replace(new, self.places.out)


class _Lines:
    """A file to which lines are added, each fully or not at all.

    Attributes:
        ids: of the entries that were added with an `error`.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._synced, self.ids = path, time.monotonic(), set[str]()
        self._file: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._file is not None:
            with suppress(OSError):
                os.fsync(self._file.fileno())
            self._file.close()
            self._file = None

    def open(self) -> None:
        self._file = self._path.open("ab", buffering=0)

    def add(self, entry: Any) -> None:
        if self._file is None:
            self.open()
        rest, begin = written(entry), os.fstat(self._file.fileno()).st_size
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            with suppress(OSError):
                self._file.truncate(begin)
            raise
        if isinstance(entry, dict) and "error" in entry:
            self.ids.add(entry["id"])
        if time.monotonic() - self._synced > SYNC_SECONDS:
            os.fsync(self._file.fileno())
            self._synced = time.monotonic()


def _whole_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file. A last one that was not written to its end is cut off; none of no file."""
    if not path.exists():
        return
    with path.open("rb") as file:
        whole = 0
        for line in file:
            if not line.endswith(b"\n"):
                os.truncate(path, whole)
                return
            whole += len(line)
            yield line


def entries_of(out: str | PathLike[str]) -> Iterator[Entry]:
    """The lines of a job: its results in the order of their inputs, then its failures."""
    places = Places.of(out)
    if places.results.exists():
        yield from _entries_at(places.results, _offsets(places))
    yield from map(json.loads, _whole_lines(places.errors))


def _offsets(places: Places) -> list[int]:
    """Where each result begins in its file, in the order of the inputs."""
    offsets, numbers, offset = dict[str, int](), dict[str, int](), 0
    for line in _whole_lines(places.results):
        offsets[str(json.loads(line)["id"])] = offset
        offset += len(line)
    for line in _whole_lines(places.digests):
        id_, _, number, *_ = json.loads(line)
        numbers[id_] = number
    return [offsets[id_] for id_ in sorted(offsets, key=lambda id_: numbers.get(id_, 0))]


def _entries_at(path: Path, offsets: Iterable[int]) -> Iterator[Entry]:
    with path.open("rb") as file:
        for offset in offsets:
            file.seek(offset)
            yield json.loads(file.readline())


def _replace(path: Path, lines: Iterable[bytes]) -> None:
    """Writes a file again: it has all of its old or all of its new contents, whatever happens."""
    new = path.with_name(f"{path.name}.new")
    with new.open("wb") as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)


def failed_entry(row: InputRow, error: Exception) -> Entry:
    """Returns the entry of an input that failed."""
    return {**row.names, "error": {"type": type(error).__name__, "message": str(error)}, "input": source_of(row)}
