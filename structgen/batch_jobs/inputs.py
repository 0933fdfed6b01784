"""The inputs of a job: a folder, a file of rows, a table, or an iterable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import count as numbers_from
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, cast

from structgen.arguments import require
from structgen.batch_jobs.files import rows_of_lines, rows_of_path
from structgen.batch_jobs.rows import KINDS, InputRow, is_missing, row_of, source_of
from structgen.batch_jobs.tables import is_table, rows_of_table
from structgen.callbacks import Calling
from structgen.errors import StructgenError, quoted


def read_inputs(source: Any, *, encoding: str | None = None, without: Callable[[Path], bool] | None = None) -> Inputs:
    """The inputs, which are read as they are asked for. What cannot be read is a row with an `error`.

    Args:
        source: the path of a folder (each file is an input, but of a file of rows each row), of a file of rows
            (`.jsonl`, `.csv`, `.tsv`, also with `.gz`, or `.parquet`), or of another file (it is one input); a table
            (pandas, polars, Arrow, datasets of Hugging Face); an iterable of texts, dicts of fields, chat messages or
            token ids; or `Inputs`.
        encoding: of files; None for UTF-8, or what a byte order mark says.
        without: the files of a folder that are no inputs.

    Raises:
        OptionError: it is none of these, or no file or folder is there.
    """
    if isinstance(source, Inputs):
        return source
    if isinstance(source, (str, PathLike)):
        return Inputs(*rows_of_path(Path(source), encoding, without))
    if is_table(source):
        tables, total = rows_of_table(source)
        return Inputs((row_of(value, number) for number, value in enumerate(tables, 1)), total)
    listed = isinstance(source, Iterable) and not isinstance(source, (Mapping, bytes))
    require(listed, "inputs", source, f"a path, a table, or an iterable, each item {KINDS}")
    total = len(source) if hasattr(source, "__len__") else None
    return Inputs((row_of(value, number) for number, value in enumerate(source, 1)), total, in_memory=total is not None)


def inputs_of_lines(file: BinaryIO) -> Inputs:
    """A text of each line of a stream that is not blank, as soon as it has come."""
    return Inputs(rows_of_lines(file), None, in_memory=False)


class Inputs:
    """The inputs of a job, with an id each. A second input with the id of an earlier one is a row with an error.

    Attributes:
        in_memory: all of them are there, so reading some ahead waits for nobody.
        total: how many there are; None if that is not known.
        several: how many values each has.
        id_field: the name of the field that the id is; "id" unless `id=` says another.
        broken: why the source has ended before its end; None if it has not.
    """

    def __init__(
        self, rows: Iterator[InputRow], total: int | Callable[[], int] | None, *, in_memory: bool = True
    ) -> None:
        self._rows, self._total, self.in_memory, self.several = rows, total, in_memory, 1
        self.id_field, self.broken = "id", cast("StructgenError | None", None)
        self._is_named = False  # an input among the first has an id of its own

    @property
    def total(self) -> int | None:
        return self._total * self.several if isinstance(self._total, int) else None

    @property
    def is_counted(self) -> bool:
        """Is it known how many there are, or can it be counted?"""
        return self._total is not None

    def counted(self) -> int | None:
        """The total, for which a file of rows is read once."""
        if callable(self._total):
            self._total = self._total()
        return self.total

    def first(self, count: int) -> list[InputRow]:
        """The first inputs, which come again in the iteration; none if their source raises an error.

        Of a source that may wait for more, only one is read.
        """
        count = count if self.is_counted else min(count, 1)
        source, rows = self._rows, list[InputRow]()
        failure: StructgenError | None = None
        try:
            with Calling("inputs", source):
                rows += islice(source, count)
        except StructgenError as error:
            failure = error

        def inputs() -> Iterator[InputRow]:
            yield from rows
            if failure is not None:
                raise failure
            yield from source

        self._rows = inputs()
        self._is_named = any(not self._identified(row).is_numbered for row in rows)
        return [] if failure is not None else rows

    def _identified(self, row: InputRow) -> InputRow:
        """The input with the id that `id=` says."""
        own = None if self.id_field == "id" or row.error else row.fields.get(self.id_field)
        return row if own == "" or is_missing(own) else replace(row, id=str(own), is_numbered=False)

    def __iter__(self) -> Iterator[InputRow]:
        """The inputs. An id that is but a number gives way to one that an input has itself."""
        known: dict[str, bool] = {}  # each id: is it only a number?
        for number in numbers_from(1):
            try:
                with Calling("inputs", self._rows):
                    row = next(self._rows, None)
            except StructgenError as error:  # what is in flight is finished first
                error.args = (f"{error}, after input {number - 1}", *error.args[1:])
                self.broken = error
                return
            if row is None:
                return
            row = self._identified(row)
            if row.is_numbered and (self._is_named or row.id in known):
                head, colon, _ = row.id.rpartition(":")
                row = replace(row, id=f"{head}{colon}row {number}")
            elif known.get(row.id):
                row = replace(row, id=f"{row.id} (input {number})")
            if row.id in known:
                why = f"an earlier input has the id {quoted(row.id)}, too"
                row = InputRow(f"{row.id} (input {number})", error=why, source=source_of(row))
            known[row.id] = row.is_numbered
            yield from row.samples(self.several)
