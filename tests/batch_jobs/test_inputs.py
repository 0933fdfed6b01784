"""Inputs of every kind: what is read of them, and what becomes of one that cannot be read.

Covers `files`, `rows`, `tables`.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy
import pyarrow
import pytest
from pyarrow import parquet

import structgen as sg
from structgen.batch_jobs import InputRow, read_inputs
from structgen.batch_jobs.inputs import inputs_of_lines
from structgen.batch_jobs.tables import write_table
from structgen.errors import CallbackError, OptionError
from structgen.testing import scripted
from tests.support.tables import cases

ROWS = [{"id": "x", "text": "one", "n": 1}, {"id": "y", "text": "two", "n": 2}]


def read(source, **options):
    return [(row.id, row.fields.get("text", row.given), row.error) for row in read_inputs(source, **options)]


def errors(source, **options):
    return {id_: error for id_, _, error in read(source, **options) if error}


def csv_text(delimiter=","):
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, ROWS[0], delimiter=delimiter)
    writer.writeheader()
    writer.writerows(ROWS)
    return text.getvalue()


JSON_LINES = "".join(json.dumps(row) + "\n" for row in ROWS)
FILES = cases("batch_jobs/inputs", "FILES", globals())


def test_files_of_rows_in_every_encoding(tmp_path):
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
        rows = read_inputs(tmp_path / name)
        assert [(row.id, str(row.prompt("{text}/{n}"))) for row in rows] == [("x", "one/1"), ("y", "two/2")], name
        assert read_inputs(tmp_path / name).counted() == 2
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "r.parquet")
    assert read(tmp_path / "r.parquet") == [("x", "one", ""), ("y", "two", "")]
    (tmp_path / "l.csv").write_bytes("text\ncafé\n".encode("latin-1"))
    assert read(tmp_path / "l.csv", encoding="latin-1") == [("1", "café", "")]


def test_tables_as_programs_write_them(tmp_path):
    """The header says what separates cells; lines end as on any system; columns without a name may be empty."""
    expected = [("1", "Ada, of Rome", ""), ("2", "Tom", "")]
    tables = {
        "semicolon.csv": "id;text\n1;Ada, of Rome\n2;Tom\n",
        "excel.csv": 'sep=;\r\nid;text\r\n1;"Ada, of Rome"\r\n2;Tom\r\n',
        "pipe.csv": "id|text\n1|Ada, of Rome\n2|Tom",
        "mac.csv": 'id,text\r1,"Ada, of Rome"\r2,Tom\r',
        "comma.tsv": 'id,text\n1,"Ada, of Rome"\n2,Tom\n',
        "unnamed.csv": 'id,text,,\n1,"Ada, of Rome",,\n2,Tom,,\n',
    }
    for name, text in tables.items():
        (tmp_path / name).write_bytes(text.encode())
        assert read(tmp_path / name) == expected, name
    (tmp_path / "excel.csv").write_bytes("id\ttext\r\n1\tAda, of Rome\r\n2\tTom\r\n".encode("utf-16"))
    assert read(tmp_path / "excel.csv") == expected
    (tmp_path / "index.csv").write_text(",text,,\n0,a,b,c\n")
    assert [row.fields for row in read_inputs(tmp_path / "index.csv")] == [
        {"": "0", "text": "a", "column 3": "b", "column 4": "c"}
    ]
    (tmp_path / "open.csv").write_text('id,text\n0,x\n1,"Ada\n2,Tom\n3,Eve\n')
    (fine, _, _), (_, _, error) = read(tmp_path / "open.csv")
    assert (fine, error) == ("0", "row 2 begins a quote that has no end: the 3 last lines of the file are in it")
    (tmp_path / "wide.csv").write_bytes("id,text\n1,Ada\n".encode("utf-16-le"))
    (tmp_path / "twice.csv").write_text("a,a\n1,2\n")
    for name, why in {"wide.csv": "has zero bytes", "twice.csv": "not 'a' twice"}.items():
        inputs = read_inputs(tmp_path / name)
        assert (list(inputs), why in str(inputs.broken)) == ([], True)
    (tmp_path / "zero.csv").write_bytes(b"id,text\n1,A\0da\n2,Tom\n")
    assert list(errors(tmp_path / "zero.csv")) == ["row 1"]


def test_files_are_read_by_what_they_are(tmp_path):
    """Compressed or not, whatever the name says; a list in JSON; a pipe; no files of other programs."""
    (tmp_path / "packed.jsonl").write_bytes(gzip.compress(JSON_LINES.encode()))
    (tmp_path / "plain.jsonl.gz").write_text(JSON_LINES)
    (tmp_path / "list.json").write_text(json.dumps(ROWS, indent=1))
    os.mkfifo(tmp_path / "pipe.jsonl")
    writing = threading.Thread(target=(tmp_path / "pipe.jsonl").write_text, args=[JSON_LINES])
    writing.start()
    for name in ("packed.jsonl", "plain.jsonl.gz", "list.json", "pipe.jsonl"):
        assert read(tmp_path / name) == [("x", "one", ""), ("y", "two", "")], name
    writing.join()
    assert read_inputs(tmp_path / "pipe.jsonl").counted() is None
    for text in ('{"a": 1}', "[1, 2]", "[{"):
        (tmp_path / "one.json").write_text(text)
        assert read(tmp_path / "one.json") == [("one.json", text, "")]
    (tmp_path / "book.xlsx").write_bytes(b"PK")
    for source in (tmp_path / "book.xlsx", "x" * 5000, "a\0b"):
        with pytest.raises(OptionError, match="inputs="):
            read_inputs(source)


def test_a_folder_of_files_of_rows_gives_their_rows(tmp_path):
    """A file that cannot be read is one failed row; ids of several files do not meet."""
    for name in ("b.jsonl", "a.csv", "deep/a.parquet", "bad.parquet", "twice.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(FILES.get(f"e{name[1:]}", FILES["b.jsonl"]))
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "deep/a.parquet")
    (tmp_path / "twice.csv").write_text("a,a\n1,2\n")
    rows = read(tmp_path)
    fine = [f"{name}:{id_}" for name in ("a.csv", "b.jsonl", "deep/a.parquet") for id_ in "xy"]
    assert [id_ for id_, _, error in rows if not error] == fine
    assert [id_ for id_, _, error in rows if error] == ["bad.parquet", "twice.csv"]
    assert read_inputs(tmp_path).counted() == 8
    (tmp_path / "read.me").write_text("one")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "lines.json").write_text(JSON_LINES)
    rows = read(tmp_path)
    assert [id_ for id_, *_ in rows if id_[0] in "lr"] == ["lines.json:x", "lines.json:y", "read.me"]
    assert (len(rows), read_inputs(tmp_path).counted()) == (11, 11)


def test_cells_that_are_no_text_fail_their_row():
    """`nan`, `None` and `b'...'` would be facts of the prompt."""
    cells = [float("nan"), numpy.float32("nan"), [1, None], b"bytes", {"a": 1}, {"b": None}, numpy.datetime64("NaT")]
    for cell in cells:
        (row,) = read_inputs([{"text": cell}])
        template = "{text[b]}" if cell == {"b": None} else "{text}"
        with pytest.raises(OptionError, match="the prompt needs"):
            row.prompt(template)
    (row,) = read_inputs([{"text": {"a": 1}, "tags": ["x", "y"], "n": 0.0}])
    assert str(row.prompt("{text[a]} {tags} {n}")) == "1 ['x', 'y'] 0.0"


def test_ids_of_inputs_win_over_numbers():
    """An input without an id takes none away from one that has it, in whatever order they come."""
    named = [{"text": "a"}, {"text": "b", "id": "1"}, {"text": "c", "id": 3}, {"text": "d"}]
    inputs = read_inputs(named)
    inputs.first(100)
    assert [(row.id, row.error) for row in inputs] == [("row 1", ""), ("1", ""), ("3", ""), ("row 4", "")]
    late = read_inputs(iter([{"text": "a", "id": "2"}, {"text": "b"}, {"text": "c"}, {"text": "d", "id": "3"}]))
    assert [(row.id, row.error) for row in late] == [("2", ""), ("row 2", ""), ("3", ""), ("3 (input 4)", "")]


def test_any_field_may_be_the_id(tmp_path):
    model = scripted('"x"')
    rows = [{"text": "a", "ticket": 7}, {"text": "b", "ticket": "T8", "id": "1"}]
    job = sg.extract_many(model, rows, {"type": "string"}, id="ticket")
    assert [entry["id"] for entry in job.results] == ["7", "T8"]
    with pytest.raises(OptionError, match="id: no input has a field 'tiket'"):
        sg.extract_many(model, rows, {"type": "string"}, id="tiket")


def test_a_folder_gives_its_files(tmp_path):
    """None that is hidden, and none of a job. Names that are no UTF-8 are escaped."""
    for name in ("b.txt", "old/a.txt", ".git/config", ".hidden", "jobs.jsonl.job/x", "c.txt.gz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"\xef\xbb\xbfone" if "gz" not in name else gzip.compress(b"one"))
    (tmp_path / "o.jsonl.job").mkdir()
    for name in ("o.jsonl.job/job.json", "o.jsonl.job/inputs.jsonl", "o.jsonl", "o.jsonl.errors.jsonl"):
        (tmp_path / name).write_text("{}")
    with open(os.fsencode(tmp_path) + b"/\xe9.txt", "w") as file:
        file.write("one")
    for name, data in {"bad.txt": b"caf\xe9", "bin.txt": b"a\0", "no.gz": b"\x1f\x8ba"}.items():
        (tmp_path / name).write_bytes(data)
    from structgen.batch_jobs.job_files import is_of_a_job

    found = {row.id: row.error or row.fields["text"] for row in read_inputs(tmp_path, without=is_of_a_job)}
    assert {id_ for id_, text in found.items() if text == "one"} == {
        "b.txt", "old/a.txt", "jobs.jsonl.job/x", "c.txt.gz", "\\xe9.txt",
    }  # fmt: skip
    assert {id_: why[:14] for id_, why in found.items() if why != "one"} == {
        "bad.txt": "it is not text", "bin.txt": "it has zero by", "no.gz": "EOFError: Comp",
    }  # fmt: skip
    (tmp_path / "empty").mkdir()
    with pytest.raises(OptionError, match="a folder with files"):
        read_inputs(tmp_path / "empty")


def test_a_bad_line_of_json_is_one_failed_row(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_bytes(b'{"id": 2}\n{"id": \n"three"\n\n"caf\xe9"\n5\n["r1", "text"]\n"\xe2\x80\xa8"\n{"id": 2}\n')
    rows = list(read_inputs(path))
    assert [row.id for row in rows] == ["2", "line 2", "3", "line 5", "6", "7", "8", "2 (input 8)"]
    assert {row.id for row in rows if row.error} == {"line 2", "line 5", "6", "7", "2 (input 8)"}
    assert (rows[1].source, rows[3].source) == ('{"id": ', '"caf\\xe9"')
    assert "name the parts" in rows[5].error
    packed = tmp_path / "r.jsonl.gz"
    packed.write_bytes(gzip.compress(os.urandom(9) + b"\n" * 99 + JSON_LINES.encode() * 9)[:-30])
    assert any("cannot be read after row" in error for error in errors(packed).values())


def test_a_bad_row_of_csv_is_one_failed_row(tmp_path):
    path, long = tmp_path / "r.csv", "x" * 140_000
    rows = ["1,a,b", "2,caf\xe9,b", "3,short", "4,an unquoted, comma,b", f"5,{long},b", "", ",blank,b", '6,"a\nb",c']
    path.write_bytes("\n".join(["id,text,n", *rows]).encode("latin-1"))
    limit = csv.field_size_limit()
    found = list(read_inputs(path))
    assert csv.field_size_limit() == limit
    assert {row.id: row.fields["text"] for row in found if not row.error} == {
        "1": "a", "5": long, "row 6": "blank", "6": "a\nb",
    }  # fmt: skip
    assert errors(path) == {
        "row 2": "row 2 is not text in utf-8: pass encoding=, as encoding='latin-1', or save it as UTF-8",
        "row 3": "row 3 has 2 cells, the header 3: is a comma unquoted?",
        "row 4": "row 4 has 4 cells, the header 3: is a comma unquoted?",
    }
    assert [row.source for row in found if row.error] == [
        {"id": "2", "text": "caf\\xe9", "n": "b"}, ["3", "short"], ["4", "an unquoted", " comma", "b"],
    ]  # fmt: skip


def test_a_broken_parquet_file(tmp_path):
    path = tmp_path / "r.parquet"
    path.write_bytes(b"PAR1 no table")
    with pytest.raises(OptionError, match="not a Parquet file"):
        read_inputs(path)
    table = pyarrow.table({"text": [f"{'t' * 200} {number}" for number in range(4000)]})
    parquet.write_table(table, path, row_group_size=1000, compression="none", use_dictionary=False)
    data = bytearray(path.read_bytes())
    middle = data.index(b"t 1500")
    data[middle - 250_000 : middle - 249_000] = b"\xff" * 1000
    path.write_bytes(data)
    found = list(read_inputs(path))
    assert found[-1].fields["text"].endswith(" 3999")
    assert all(row.error == "" or row.id.startswith("rows ") for row in found)


def test_tables_in_memory():
    expected = [("x", "one", ""), ("y", "two", "")]
    table = pyarrow.Table.from_pylist(ROWS)
    assert read(table) == read(table.to_reader()) == read(iter(ROWS)) == expected
    assert read_inputs(table).total == 2
    assert read(table.to_batches()[0]) == expected
    assert read(table["text"]) == read(table["text"].chunk(0)) == [("1", "one", ""), ("2", "two", "")]
    assert read(numpy.array([("x", "one"), ("y", "two")], [("id", "U9"), ("text", "U9")])) == expected
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame([*ROWS, {"id": "z", "text": None, "n": float("nan")}])
    assert read(frame)[:2] == expected
    assert [*read_inputs(frame)][2].fields == {"id": "z", "text": None, "n": None}
    assert read(frame["text"][:2]) == [("1", "one", ""), ("2", "two", "")]
    assert read(frame[:2].itertuples()) == expected
    with pytest.raises(OptionError, match="columns with a name each"):
        read(pandas.DataFrame([["a", "b"]], columns=["text", "text"]))
    polars = pytest.importorskip("polars", reason="polars is not installed")
    assert read(polars.DataFrame(ROWS)) == expected
    assert read(polars.DataFrame(ROWS)["text"]) == [("1", "one", ""), ("2", "two", "")]
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    assert read(datasets.Dataset.from_list(ROWS)) == expected


class Row(NamedTuple):
    id: str
    text: str


@dataclass
class Record:
    id: str
    text: str


def test_what_is_no_input():
    messages = [{"role": "user", "content": "x"}]
    given = list(read_inputs(iter(["a", messages, [1, 2], {"messages": messages}])))
    assert [row.prompt(None) for row in given] == [sg.plain("a"), messages, [1, 2], messages]
    for wrong in ("/no/such/file", 5, {"a": 1}, b"text"):
        with pytest.raises(OptionError, match="inputs"):
            read_inputs(wrong)
    with pytest.raises(OptionError, match="no such encoding"):
        read_inputs(__file__, encoding="utf-99")
    assert list(errors([("r1", "text"), ["a", "b"], None, 5, [], [{"text": "a"}]])) == ["1", "2", "3", "4", "5", "6"]
    assert read([Row("x", "one"), Record("y", "two"), {"id": float("nan"), "text": "z"}]) == [
        ("x", "one", ""), ("y", "two", ""), ("3", "z", ""),
    ]  # fmt: skip

    def raising():
        yield "a"
        raise KeyError("b")

    inputs = read_inputs(raising())
    assert [row.id for row in inputs] == ["1"]
    assert isinstance(inputs.broken, CallbackError)


@pytest.mark.parametrize(("fields", "template", "told"), cases("batch_jobs/inputs", "a_prompt_is_made"))
def test_a_prompt_is_made_of_what_is_there_or_not_at_all(fields, template, told):
    with pytest.raises(OptionError, match=told):
        InputRow("1", fields).prompt(template)
    assert InputRow("1", {"a": "", "b": 0}).prompt("{a}{b}") == sg.PlainText("0", ((0, 0), (0, 1)))
    with pytest.raises(OptionError, match="chat messages or token ids"):
        InputRow("1", given=[1, 2]).prompt("{nofield}")


def test_lines_of_a_stream():
    """A line ends where a line ends, and not at each character that some programs take for one."""
    data = "\ufeffone\r\n\n \ntwo \u2028 three\x0bfour\n".encode() + b"caf\xe9\n"
    rows = list(inputs_of_lines(io.BytesIO(data)))
    assert [(row.id, row.fields.get("text")) for row in rows] == [
        ("1", "one"), ("4", "two \u2028 three\x0bfour"), ("line 5", None),
    ]  # fmt: skip


def test_tables_of_results(tmp_path):
    """Columns have types; one that mixes them is JSON. Names of inputs give way to those of the value."""
    entries = cases("batch_jobs/inputs", "tables_of_results_data")
    write_table(entries, entries, tmp_path / "t.parquet", ".parquet")
    table = parquet.read_table(tmp_path / "t.parquet")
    assert table.to_pylist() == cases("batch_jobs/inputs", "tables_of_results_data2")
    write_table(entries, entries, tmp_path / "t.csv", ".csv")
    with (tmp_path / "t.csv").open(newline="") as file:
        assert [*csv.DictReader(file)][1] == {
            "id": "b", "input.n": "", "m": "y", "n": "2", "t": "[]", "mixed": "1", "finish": "length", "o": "{}",
            "confidence.n": "0.5",
        }  # fmt: skip
    for ending in (".csv", ".parquet"):
        write_table([], [], tmp_path / f"e{ending}", ending)
    assert parquet.read_table(tmp_path / "e.parquet").num_rows == 0


FORMULAS = ["=HYPERLINK('http://evil')", "+1+1", "-2+3+cmd|' /C calc'!A0", "@SUM(1)", "\t=1", "\r=1", "\n=1", "=", "-",
            "+x", "\uff1d1", "\uff0bx", "\uff0dx", "\uff20x", " =1", "\x0b=1",
            " \u200b\ufeff@x",
            *(f"{blank}=1" for blank in "\x85\xa0\xad\u200b\u200f\u2028\u202e\u2060\u3000\ufeff")]  # fmt: skip
HARMLESS = ["-5", "+33", "-1,234.50", "-1e-9", "a=1", " -5", " a", "\ufeffa", "'=1", "", "x", "a\r=1",
            5, -5, -0.5, None, True, ["=1"], [{"a": "=1"}]]  # fmt: skip


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_no_cell_of_a_table_is_a_formula(tmp_path, ending):
    """Ids, fields that are carried, values and names of columns; also those with quotes, tabs and line ends in them."""
    delimiter = "\t" if ending == ".tsv" else ","
    entries = [
        {"id": text, "input": {"=f": text, "n": 1}, "value": {"v": text, f"{text}x": 1}, "finish": "complete"}
        for text in [*FORMULAS, *map(str, HARMLESS)]
    ]
    for escapes in (True, False):
        write_table(entries, entries, tmp_path / f"t{ending}", ending, escape_formulas=escapes)
        with (tmp_path / f"t{ending}").open(newline="", encoding="utf-8") as file:
            names, *rows = csv.reader(file, delimiter=delimiter)
        for row, entry in zip(rows, entries, strict=True):
            text = entry["id"]
            wanted = f"'{text}" if escapes and text in FORMULAS else text
            assert (row[0], row[1], row[3]) == (wanted, wanted, wanted)
        cells = [cell for row in rows for cell in row]
        assert all(not cell.startswith(("=", "@", "\t", "\r", "\n")) for cell in [*names, *cells]) is escapes
    entry = {"id": "1", "value": {"v": "\0=1"}, "finish": "complete"}
    write_table([entry], [entry], tmp_path / f"n{ending}", ending)
    assert r"\u0000=1" in (tmp_path / f"n{ending}").read_text()  # NUL is JSON: before Python 3.11, csv refuses it
    value = [{"id": "1", "value": each, "finish": "complete"} for each in HARMLESS]
    tables = []
    for escapes in (True, False):
        write_table(value, value, tmp_path / f"h{ending}", ending, escape_formulas=escapes)
        tables.append((tmp_path / f"h{ending}").read_bytes())
    assert tables[0] == tables[1]


def test_a_link_in_a_folder_leads_to_no_file_outside_of_it(tmp_path):
    (tmp_path / "secret").mkdir()
    for name in ("key.txt", "rows.jsonl"):
        (tmp_path / "secret" / name).write_text('{"text": "secret"}\n')
    for name, other in (("key.txt", "a.txt"), ("rows.jsonl", "a.jsonl")):
        folder = tmp_path / f"in-{name}"
        (folder / "deep").mkdir(parents=True)
        (folder / other).write_text('{"text": "fine"}\n')
        for place, target in {"link": tmp_path / "secret" / name, "deep/link": f"../../secret/{name}",
                              "inside": other, "deep/inside": f"../{other}"}.items():  # fmt: skip
            (folder / f"{place}{Path(name).suffix}").symlink_to(target)
        (folder / "folder").symlink_to(tmp_path / "secret")
        (folder / "gone").symlink_to(tmp_path / "nothing")
        rows = read(folder)
        assert not [row for row in rows if "secret" in str(row[1])]
        assert len([row for row in rows if "fine" in str(row[1])]) == 3
        wrong = [(id_.removesuffix(Path(name).suffix), why) for id_, _, why in rows if why]
        assert [id_ for id_, _ in wrong] == ["deep/link", "folder", "gone", "link"]
        assert "a file outside of the folder" in wrong[0][1]
        assert "a link to a folder or to nothing" in wrong[1][1] == wrong[2][1]
        assert read(folder / f"link{Path(name).suffix}")[0][2] == ""  # which the user names
        linked = tmp_path / f"linked-{name}"
        linked.symlink_to(folder)
        assert len(read(linked)) == len(rows)
