"""Documents of a job are read in windows, and no result loses a row without a word."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import structgen as sg
from structgen.batch_jobs.windowed import PROMPT
from structgen.errors import OptionError
from structgen.server import Settings
from tests.support.readers import reader, write_pdf
from tests.support.serving import served


class Row(BaseModel):
    n: str
    a: int | None


class Order(BaseModel):
    number: int | None
    buyer: str | None
    lines: list[Row]


OPTIONS: dict[str, Any] = {"prompt": PROMPT, "windows": sg.Windows(60)}


def rows_in(text: str) -> list[dict[str, Any]]:
    return [{"n": name, "a": int(number)} for name, number in re.findall(r"(?m)^(\w+),? (\d+)$", text)]


def listing(count: int) -> str:
    return "".join(f"N{number} {number % 7}\n" for number in range(count))


def test_each_document_of_a_folder_is_one_list(tmp_path: Path) -> None:
    """Texts, a page and a PDF; what is left out is named; a job goes on without reading documents again."""
    folder, out = tmp_path / "in", tmp_path / "o.jsonl"
    folder.mkdir()
    (folder / "a.txt").write_text(listing(40))
    (folder / "b.html").write_text(f"<p>{'</p><p>'.join(listing(20).splitlines())}</p>")
    write_pdf(folder / "c.pdf", [[(50, 550 - 20 * n, f"P{n} {n}") for n in range(9)] for _ in range(2)])
    (folder / "empty.txt").write_text(" ")
    read = list[str]()

    def answer(text: str) -> str:
        read.append(text)
        return json.dumps([row for row in rows_in(text) if row["n"] != "N19"])

    job = sg.extract_many(reader(answer), folder, list[Row], out=out, columns=["places", "source"], **OPTIONS)
    assert (job.done, job.incomplete, job.cut, job.failed) == (3, 2, 0, 1)
    assert "2 with lines that no value was made of" in str(job)
    entries = {entry["id"]: entry for entry in map(json.loads, out.read_text().splitlines())}
    assert [len(entries[id_]["value"]) for id_ in ("a.txt", "b.html", "c.pdf")] == [39, 19, 18]
    assert [entries[id_]["complete"] for id_ in ("a.txt", "b.html", "c.pdf")] == [False, False, True]
    assert [each["text"] for each in entries["a.txt"]["unused"]] == ["N19 5"]
    place = entries["c.pdf"]["places"]["/10"][0]
    assert place["boxes"][0]["page"] == 2
    page = (tmp_path / "o.jsonl.job" / "quotes.html").read_text()
    assert page.count("<svg") == 2
    assert [page.count(f'id="r{number}/10"') for number in range(3)] == [1, 1, 1]
    assert set(re.findall('href="#([^"]*)"', page)) == set(re.findall(' id="(r[^"]*)"', page))
    report = json.loads((tmp_path / "o.jsonl.job" / "report.json").read_text())
    assert report["incomplete"] == 2
    again = sg.extract_many(
        reader(str), folder, list[Row], out=out, columns=["places", "source"], resume=True, **OPTIONS
    )
    assert (again.done, again.skipped) == (0, 3)
    with pytest.raises(OptionError, match="another windows"):
        sg.extract_many(
            reader(str), folder, list[Row], out=out, columns=["places", "source"], resume=True, prompt=PROMPT
        )


def test_members_of_an_object_come_from_the_windows_that_say_them() -> None:
    """Lists are merged, made-up members give way to those that a line says, and two that lines say are a conflict."""
    text = "Order 512 of 3 May\nBuyer Moreau\n" + listing(30) + "Buyer Berg\n"

    def answer(window: str) -> str:
        number, buyer = re.search(r"Order (\d+)", window), re.search(r"Buyer (\w+)", window)
        order = {"number": int(number[1]) if number else 99, "buyer": buyer[1] if buyer else None}
        return json.dumps({**order, "lines": rows_in(window)})

    job = sg.extract_many(reader(answer), [text], Order, columns=["probabilities", "confidence"], **OPTIONS)
    (value,), (entry,) = job.values, job.results
    assert value == Order(number=512, buyer="Moreau", lines=[Row(n=f"N{n}", a=n % 7) for n in range(30)])
    (conflict,) = entry["conflicts"]
    assert (conflict["pointer"], conflict["values"]) == ("/buyer", ["Moreau", "Berg"])
    assert [text[each["start"] : each["end"]] for each in conflict["places"]] == ["Buyer Moreau", "Buyer Berg"]
    assert entry["probabilities"].keys() >= {"/number", "/lines/29/a"}
    assert entry["confidence"].keys() == {"number", "buyer", "lines"}
    assert entry["complete"]


def test_records_are_merged_by_their_key() -> None:
    """A row in one table, more of it in another: one record, and what differs is told with both lines."""
    text = "Ada: 3\nBob: 4\nCy: 5\n" + "-\n" * 30 + "Ada, kg\nBob, m now 9\n"
    schema = {
        "type": "array",
        "items": {
            "type": "object", "required": ["n", "a", "unit"], "additionalProperties": False,
            "properties": {
                "n": {"type": "string"}, "a": {"type": ["integer", "null"]}, "unit": {"type": ["string", "null"]},
            },
        },
    }  # fmt: skip

    def answer(window: str) -> str:
        first = [{"n": n, "a": int(a), "unit": None} for n, a in re.findall(r"(\w+): (\d)", window)]
        more = re.findall(r"(\w+), (\w+)(?: now (\d))?", window)
        return json.dumps(first + [{"n": n, "a": int(a) if a else None, "unit": unit} for n, unit, a in more])

    windows = sg.Windows(60, key="n")
    (entry,) = sg.extract_many(reader(answer), [text], schema, prompt=PROMPT, windows=windows).results
    assert entry["value"] == [
        {"n": "Ada", "a": 3, "unit": "kg"}, {"n": "Bob", "a": 4, "unit": "m"}, {"n": "Cy", "a": 5, "unit": None},
    ]  # fmt: skip
    (conflict,) = entry["conflicts"]
    assert (conflict["pointer"], conflict["values"]) == ("/*/a", [4, 9])
    assert [text[each["start"] : each["end"]] for each in conflict["places"]] == ["Bob: 4", "Bob, m now 9"]
    assert entry["complete"]


def test_rows_may_have_several_lines() -> None:
    """The lines of a row follow each other; a value of lines of two rows leaves a line unused."""
    text = "".join(f"{n} N{n} GER\n{n % 7}.5 s\n" for n in range(10))

    def answer(window: str) -> str:
        return json.dumps([{"n": n, "a": float(a)} for n, a in re.findall(r"\d+ (\w+) GER\n(\S+) s", window)])

    class Time(BaseModel):
        n: str
        a: float

    for count, complete in ((1, False), (2, True)):
        found = sg.extract(reader(answer), text, list[Time], windows=sg.Windows(500, row_lines=count))
        assert (len(found.values), found.complete) == (10, complete)
    shifted = reader(lambda window: answer(window.partition("\n")[2].replace("N1 GER\n1.5", "N1 GER\n0.5")))
    assert not sg.extract(shifted, text, list[Time], windows=sg.Windows(500, row_lines=2)).complete


def test_what_a_limit_cuts_is_read_again_or_told() -> None:
    """A window's list that a cap ends has its last item taken out; the rest comes with the next pass."""
    model = reader(lambda text: json.dumps(rows_in(text)))
    options = {**OPTIONS, "limits": sg.Limits(max_new_tokens=150)}
    for passes, finish, count in ((1, "cut", 12), (9, "complete", 30)):
        options["windows"] = sg.Windows(60, passes=passes)
        (entry,) = sg.extract_many(model, [listing(30)], list[Row], **options).results
        assert (entry["finish"], entry["complete"], len(entry["value"]) >= count) == (finish, passes == 9, True)
        assert len(entry["value"]) + len(entry.get("unused", ())) == 30


def test_an_endpoint_reads_windows() -> None:
    """In a job, for one document, in an evaluation; a model that it does not have is an error of each row."""

    def answer(text: str) -> str:
        return json.dumps(rows_in(text.rpartition("Text:\n")[2].partition("\nJSON:")[0]))

    text, options = listing(6), {**OPTIONS, "windows": sg.Windows(20)}
    expected = rows_in(text)
    with served(reader(answer), Settings()) as server:
        remote = sg.Remote(f"{server.url}/v1", "model")
        job = sg.extract_many(remote, [text, ""], list[Row], **options)
        assert (job.done, job.failed, job.incomplete, job.results[0]["value"]) == (1, 1, 0, expected)
        found = sg.extract(remote, text, list[Row], **options)
        assert (found.complete, [row.model_dump() for row in found.values]) == (True, expected)
        rows = [{"text": text, "expected": expected}]
        assert sg.evaluate(remote, rows, list[Row], **options).whole.right == 1
        lost = sg.extract_many(sg.Remote(f"{server.url}/v1", "other"), [text], list[Row], **options)
    assert (lost.failed, "no window has a value" in lost.results[0]["error"]["message"]) == (1, True)


def test_what_cannot_be_read_in_windows_is_refused() -> None:
    model = reader(lambda text: "[]")
    for changes, told in (
        ({"schema": str}, "a list, as list"),
        ({"columns": ["seed"]}, "columns"),
        ({"windows": 3}, "structgen.Windows"),
        ({"prompt": "{a} {b}"}, "the document that is cut"),
    ):
        with pytest.raises(OptionError, match=told):
            sg.extract_many(model, [{"text": "x", "a": "y", "b": "z"}], **{"schema": list[Row], **OPTIONS, **changes})


def test_a_document_is_a_text_or_the_path_of_a_file(tmp_path: Path) -> None:
    model = reader(lambda text: json.dumps(rows_in(text)))
    write_pdf(tmp_path / "a.pdf", [[(50, 550 - 20 * n, f"P{n} {n}") for n in range(9)]])
    found = sg.extract(model, tmp_path / "a.pdf", list[Row])
    assert ([row.n for row in found.values], found.complete) == ([f"P{n}" for n in range(9)], True)
    assert found.places[3] is not None
    assert [box.page for box in found.boxes(found.places[3])] == [1]
    with pytest.raises(OptionError, match="pass Path"):
        sg.extract(model, str(tmp_path / "a.pdf"), list[Row])
    (tmp_path / "b.pdf").write_bytes(b"%PDF")
    with pytest.raises(OptionError, match="cannot be read"):
        sg.extract(model, tmp_path / "b.pdf", list[Row])
