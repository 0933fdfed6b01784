"""Inputs on disk: folders, texts, JSON lines, CSV and Parquet. What cannot be read is a row with an error."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain, count, starmap
from pathlib import Path
from typing import Any, BinaryIO, cast

from structgen.arguments import require
from structgen.batch_jobs.rows import InputRow, row_of
from structgen.batch_jobs.tables import CHUNK, arrow
from structgen.documents.files import READERS, document_of, read_document
from structgen.errors import OptionError, excerpt, quoted

MARKS = {
    codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16",
}  # fmt: skip
"""Byte order marks; that of UTF-32 begins like that of UTF-16."""
GZIP = b"\x1f\x8b"
"""With what a compressed file begins, whatever its name."""
DELIMITERS = ",;\t|"
ROWS = ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet"
"""Endings of files of rows."""
OTHERS = ".xlsx", ".xls", ".ods", ".doc", ".pptx", ".zip", ".zst", ".bz2", ".xz", ".avro", ".orc", ".feather", ".arrow"
"""Endings of files that are no texts."""
LONGEST = 2**31 - 1
"""The most characters of a cell that every platform takes."""
BROKEN = OSError, EOFError, zlib.error
"""What reading a compressed file raises."""
UNREADABLE = "is not text in {}: pass encoding=, as encoding='latin-1', or save it as UTF-8"
ZEROS = "the line has zero bytes: it is not text, or in UTF-16 without a byte order mark (pass encoding=)"

Rows = Iterator[InputRow]


def encoding_of(beginning: bytes, given: str | None = None) -> str:
    """The encoding of a text: what its byte order mark says, or else the given one, or UTF-8."""
    marked = next((name for mark, name in MARKS.items() if beginning.startswith(mark)), None)
    return marked or given or "utf-8"


def decoded(data: bytes, given: str | None = None) -> str:
    """The text of a whole file, without a byte order mark.

    Raises:
        OptionError: it is no text in its encoding.
    """
    encoding = encoding_of(data, given)
    try:
        text = data.decode(encoding)
    except UnicodeError as error:
        raise OptionError(f"it {UNREADABLE.format(encoding)}; {excerpt(error)}") from error
    if "\0" in text:
        raise OptionError(ZEROS.replace("the line", "it"))
    return text


def rows_of_path(
    path: Path, encoding: str | None, without: Callable[[Path], bool] | None
) -> tuple[Rows, int | Callable[[], int] | None]:
    """The inputs of a folder or file, and how many there are, or a function that counts them; None for a pipe.

    Raises:
        OptionError: there is no such folder or file, or a file of rows is none.
    """
    require(os.path.exists(path), "inputs", str(path), "a folder or file that is there")
    if encoding is not None:
        try:
            codecs.lookup(encoding)
        except LookupError as error:
            raise OptionError(f"encoding={quoted(encoding)}: Python has no such encoding") from error
    if path.is_dir():
        files = _files(path, without)
        require(bool(files), "inputs", str(path), "a folder with files")
        if not any(_kind(each)[0] in (*ROWS, ".json") for each in files):
            texts = (_of_file(each, shown(each.relative_to(path).as_posix()), encoding, path) for each in files)
            return texts, len(files)
        read = partial(_of_shards, path, files, encoding)
        return read(), lambda: sum(1 for _ in read())
    kind, is_gz = _kind(path)
    require(
        kind not in OTHERS,
        "inputs",
        str(path),
        "text, PDF, Word, HTML, JSON lines, CSV or Parquet: save it as one of them",
    )
    if kind == ".parquet":
        require(not is_gz, "inputs", str(path), "a Parquet file as it is: it is compressed itself")
        return _of_parquet(path)
    if kind in (".jsonl", ".ndjson"):
        read = partial(_of_json_lines, path, encoding)
        return read(), _counting(path, read)
    if kind in (".csv", ".tsv"):
        read = partial(_of_csv, path, encoding, usual="\t" if kind == ".tsv" else ",")
        return read(), _counting(path, read)
    row = _of_file(path, shown(path.name), encoding)
    if kind == ".json" and not row.error:
        rows = _listed(row.fields["text"])
        if rows is not None:
            return starmap(row_of, zip(rows, count(1), strict=False)), len(rows)
        if _has_json_lines(row.fields["text"]):
            read = partial(_of_json_lines, path, encoding)
            return read(), _counting(path, read)
    return iter([row]), 1


def _kind(path: Path) -> tuple[str, bool]:
    """The ending of a name, and whether `.gz` is after it."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    is_gz = suffixes[-1:] == [".gz"]
    return "".join(suffixes[-2:-1] if is_gz else suffixes[-1:]), is_gz


def _of_shards(folder: Path, files: Iterable[Path], encoding: str | None) -> Rows:
    """The rows of several files, each read as what it is; the name of the file is before the id of a row."""
    for each in files:
        name, kind = shown(each.relative_to(folder).as_posix()), _kind(each)[0]
        try:
            _require_within(each, folder)
            if kind not in (*ROWS, ".json"):
                yield _of_file(each, name, encoding, folder)
                continue
            for row in rows_of_path(each, encoding, None)[0]:
                yield replace(row, id=name if row.id == shown(each.name) else f"{name}:{row.id}")
        except OptionError as error:
            yield InputRow(name, error=str(error), source={"path": name})


def _counting(path: Path, read: Callable[[], Rows]) -> Callable[[], int] | None:
    return (lambda: sum(1 for _ in read())) if path.is_file() else None


def _listed(text: str) -> list[Any] | None:
    """The items of a list of objects in JSON; None of another text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list) and all(isinstance(each, dict) for each in value) else None


def _has_json_lines(text: str) -> bool:
    """Do the first two lines of a text have an object of JSON each?"""
    first = [line for line in text.split("\n", 50) if line.strip()][:2]
    try:
        return len(first) == 2 and all(isinstance(json.loads(line), dict) for line in first)
    except (ValueError, RecursionError):
        return False


def _files(folder: Path, without: Callable[[Path], bool] | None) -> list[Path]:
    """The files and links of a folder, without hidden ones, empty marks such as `_SUCCESS`, and the files of jobs."""
    files = []
    for each in folder.rglob("*"):
        hidden = any(part.startswith(".") for part in each.relative_to(folder).parts)
        if not hidden and (each.is_file() or each.is_symlink()) and not (without is not None and without(each)):
            if each.name[0] == "_" and each.is_file() and not each.stat().st_size:
                continue
            files.append(each)
    return sorted(files)


def _require_within(path: Path, folder: Path | None) -> None:
    """Refuses a link in a folder to a file outside of it: whoever may write there could have any file read.

    A link to another folder is not followed, and refused, too: nothing is left out without a word.
    """
    if folder is None or not path.is_symlink():
        return
    if not path.is_file():
        raise OptionError("it is a link to a folder or to nothing: pass what it leads to itself, or copy it")
    if not path.resolve().is_relative_to(folder.resolve()):
        raise OptionError("it is a link to a file outside of the folder: pass that file itself, or copy it")


def shown(name: str) -> str:
    """A name as Unicode text: bytes that are no UTF-8 are escaped."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _of_file(path: Path, name: str, encoding: str | None, folder: Path | None = None) -> InputRow:
    source = {"path": name}
    try:
        _require_within(path, folder)
        with opened(path) as file:
            data = file.read()
        kind = _kind(path)[0]
        if kind in READERS:
            document = read_document(data, kind)
        elif kind in (".html", ".htm"):
            document = document_of(decoded(data, encoding))
        else:
            return InputRow(name, {"path": name, "text": decoded(data, encoding)}, source=source)
        return InputRow(name, {"path": name, "text": document.text}, source=source, document=document)
    except BROKEN as error:
        return InputRow(name, error=f"{type(error).__name__}: {excerpt(error)}", source=source)
    except OptionError as error:
        return InputRow(name, error=str(error), source=source)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A file, unpacked if it is compressed."""
    with path.open("rb") as file:
        if not file.peek(len(GZIP)).startswith(GZIP):
            yield file
            return
        with gzip.open(file) as unpacked:
            yield cast("BinaryIO", unpacked)


def text_lines(file: BinaryIO, given: str | None = None) -> Iterator[tuple[str, str]]:
    """The lines of a file with their ends, and why one cannot be read; such a line's bytes are escaped."""
    first = file.readline()
    encoding = encoding_of(first, given)
    if codecs.lookup(encoding).name.startswith(("utf-16", "utf-32")):  # a line's end is more than one byte
        text = (first + file.read()).decode(encoding, "replace")
        for decoded_line in io.StringIO(text, newline=""):
            yield decoded_line, ("the line " + UNREADABLE.format(encoding) if "\ufffd" in decoded_line else "")
        return
    name = "utf-8" if encoding == "utf-8-sig" else encoding
    for line in chain([first.removeprefix(codecs.BOM_UTF8)], file):
        try:
            yield line.decode(name), (ZEROS if b"\0" in line else "")
        except UnicodeError:
            yield line.decode(name, "backslashreplace"), "the line " + UNREADABLE.format(name)


def rows_of_lines(file: BinaryIO) -> Rows:
    """A text of each line that is not blank."""
    for number, (line, fault) in enumerate(text_lines(file), 1):
        text = line.rstrip("\r\n")
        if fault:
            yield InputRow(f"line {number}", error=fault, source=text)
        elif text.strip():
            yield InputRow(str(number), {"text": text})


def _of_json_lines(path: Path, encoding: str | None) -> Rows:
    number = 0
    try:
        with opened(path) as file:
            for number, (line, fault) in enumerate(text_lines(file, encoding), 1):
                if not line.strip():
                    continue
                try:
                    if fault:
                        raise ValueError(fault)
                    value = json.loads(line)
                except (ValueError, RecursionError) as error:
                    why = fault or f"line {number} is not JSON: {excerpt(error)}"
                    yield InputRow(f"line {number}", error=why, source=line.rstrip("\r\n"))
                else:
                    yield row_of(value, number)
    except BROKEN as error:
        yield _rest(number, error)


def _rest(number: int, error: BaseException) -> InputRow:
    """Stands for all rows after a place where a file cannot be read on."""
    why = f"the file cannot be read after row {number}: {type(error).__name__}: {excerpt(error)}"
    return InputRow(f"after row {number}", error=why, source={"after": number})


def _of_csv(path: Path, encoding: str | None, *, usual: str) -> Rows:
    """The rows of a CSV file. Its header, or a line `sep=;` before it, says what separates cells.

    Args:
        usual: the separator, if the header has it.
    """
    number = 0
    try:
        with opened(path) as file:
            lines = _Lines(text_lines(file, encoding))
            first, fault = next(lines, ""), lines.fault
            if first.lower().startswith("sep="):
                delimiter, first = first[4:5] if first[4:].strip("\r\n") else usual, next(lines, "")
            else:
                delimiter = next((each for each in usual + DELIMITERS if _separates(each, first)), usual)
            require(not fault, "inputs", str(path), f"a header that can be read: {fault}")
            reader = csv.reader(chain([first], lines), delimiter=delimiter)
            names = _names(_next_row(reader) or [], path)
            while True:
                lines.clear()
                try:
                    cells = _next_row(reader)
                except csv.Error as error:
                    number += 1
                    yield InputRow(f"row {number}", error=f"row {number} is not CSV: {error}", source={"row": number})
                    continue
                if cells is None:
                    return
                if cells:
                    number += 1
                    yield _of_cells(names, cells, number, lines.fault or lines.open_quote(delimiter))
    except BROKEN as error:
        yield _rest(number, error)


def _separates(delimiter: str, header: str) -> bool:
    try:
        return len(next(csv.reader([header], delimiter=delimiter), ())) > 1
    except csv.Error:
        return False


def _names(cells: list[str], path: Path) -> list[str]:
    """The names of columns. A further one without a name is called by its place."""
    names = [name or f"column {place}" if "" in cells[: place - 1] else name for place, name in enumerate(cells, 1)]
    doubled = ", ".join(quoted(name) for name in sorted({name for name in names if names.count(name) > 1}))
    require(not doubled, "inputs", str(path), f"columns with a name each, not {doubled} twice")
    return names


class _Lines:
    """The lines of a CSV file, which may end as on any system, and what is wrong with those of the current row.

    Attributes:
        fault: why a line since `clear` cannot be read; empty if all can.
    """

    def __init__(self, lines: Iterable[tuple[str, str]]) -> None:
        self._lines, self.fault, self._row, self._is_over = lines, "", list[str](), False
        self._all = self._split()

    def _split(self) -> Iterator[str]:
        for text, fault in self._lines:
            for part in io.StringIO(text, newline=""):
                self.fault = self.fault or fault
                self._row.append(part)
                yield part
        self._is_over = True

    def __iter__(self) -> Iterator[str]:
        return self._all

    def __next__(self) -> str:
        return next(self._all)

    def clear(self) -> None:
        """The next row begins."""
        self.fault = ""
        self._row.clear()

    def open_quote(self, delimiter: str) -> str:
        """What is wrong with the last row if its quote has no end, so that all lines to the end are in it."""
        if not self._is_over or len(self._row) < 2:
            return ""
        try:
            _next_row(csv.reader(self._row, delimiter=delimiter, strict=True))
        except csv.Error as error:
            if "end of data" in str(error):
                return f"the line begins a quote that has no end: the {len(self._row)} last lines of the file are in it"
        return ""


def _next_row(reader: Iterator[list[str]]) -> list[str] | None:
    """The next row; None after the last. Cells may have any length, and other readers keep their own limit."""
    limit = csv.field_size_limit(LONGEST)
    try:
        return next(reader, None)
    finally:
        csv.field_size_limit(limit)


def _of_cells(names: list[str], cells: list[str], number: int, fault: str) -> InputRow:
    """The input of a row of CSV, without empty cells of columns that have no name."""
    source: Any = {name: cell for name, cell in zip(names, cells, strict=False) if cell or not _is_unnamed(name)}
    if fault:
        return InputRow(f"row {number}", error=fault.replace("the line", f"row {number}"), source=source)
    if len(cells) != len(names):
        why = f"row {number} has {len(cells)} cells, the header {len(names)}"
        return InputRow(f"row {number}", error=f"{why}: is a comma unquoted?", source=cells)
    row = row_of(source, number)
    return row if "id" not in source or source["id"] else replace(row, id=f"row {number}")


def _is_unnamed(name: str) -> bool:
    return name == "" or name.startswith("column ")


def _of_parquet(path: Path) -> tuple[Rows, int]:
    pyarrow = arrow("a Parquet file")
    try:
        file = pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise OptionError(f"inputs={quoted(str(path))}: it is not a Parquet file: {excerpt(error)}") from error
    return _of_row_groups(file, pyarrow.ArrowException), file.metadata.num_rows


def _of_row_groups(file: Any, wrong: type[Exception]) -> Rows:
    number = 0
    with file:
        for group in range(file.metadata.num_row_groups):
            end = number + file.metadata.row_group(group).num_rows
            try:
                for batch in file.iter_batches(CHUNK, row_groups=[group]):
                    for fields in batch.to_pylist():
                        number += 1
                        yield row_of(fields, number)
            except (wrong, OSError) as error:
                which = f"rows {number + 1} to {end}"
                why = f"{which} cannot be read: {type(error).__name__}: {excerpt(error)}"
                yield InputRow(which, error=why, source={"rows": [number + 1, end]})
            number = end
