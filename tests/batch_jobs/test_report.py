"""The report of a job: what it counts, and a page in which no text acts as markup.

Covers `report_page` and `quotes_page`.
"""

from __future__ import annotations

import json
import re
from html import unescape
from urllib.parse import unquote

import pytest

import structgen as sg
from structgen.batch_jobs.report import DISTINCT, SAMPLED, FieldSummary, report_of
from structgen.testing import scripted

EVIL = "<script>alert('1')</script>"


def test_what_a_report_counts():
    values = [{"n": n, "tags": ["x"] * (n % 3), "ok": n % 2 == 0, "o": {}, "who": {"a/b": None}} for n in range(10)]
    results = [{"value": value, "finish": "length" if value["n"] == 3 else "end"} for value in values]
    errors = [{"id": f"e{n}", "error": {"type": "OptionError", "message": f"row {n} is no '{n}'"}} for n in range(5)]
    digests = [[f"r{n}", "", n, n, 0.5] for n in range(20)]
    for number, result in enumerate(results):
        result |= {"id": f"r{number}", "confidence": {"n": 1 - number / 10, "ok": 1.0}}
    data = report_of("o.jsonl", iter(results), iter(errors), iter(digests))
    assert (data["done"], data["cut"], data["failed"], data["tokens"]) == (9, 1, 5, 190)
    assert [(each["count"], each["message"], each["ids"]) for each in data["failures"]] == [
        (5, "row 0 is no '0'", ["e0", "e1", "e2"])
    ]
    assert [each["id"] for each in data["longest"]] == [f"r{n}" for n in range(19, 9, -1)]
    assert data["unsure"][:2] == [{"confidence": 1 - n / 10, "id": f"r{n}", "field": "n"} for n in (9, 8)]
    assert list(data["fields"]) == ["/n", "/tags", "/ok", "/o", "/who/a~1b", "/tags/*"]
    number, tags = data["fields"]["/n"], data["fields"]["/tags"]
    bins = number["size"].pop("bins")
    assert (number["size"], len(bins), sum(bins), bins[0]) == ({"least": 0, "mean": 4.5, "greatest": 9}, 12, 10, 1)
    assert (tags["size"]["mean"], tags["kinds"], tags["distinct"]) == (0.9, {"array": 10}, 0)
    assert data["fields"]["/ok"]["common"] == [["true", 5], ["false", 5]]
    assert data["fields"]["/tags/*"]["share"] == 0.9


def test_a_job_is_the_list_of_its_entries_where_it_keeps_them(tmp_path):
    model = scripted('{"a": 1}')
    job = sg.extract_many(model, ["x", "y"], {"type": "object"})
    assert [entry["value"] for entry in job] == [{"a": 1}, {"a": 1}] == [entry["value"] for entry in job.results]
    written = sg.extract_many(model, ["x"], {"type": "object"}, out=tmp_path / "o.jsonl")
    with pytest.raises(sg.OptionError, match="the entries are in the file of out="):
        list(written)
    assert list(sg.extract_many(model, [], {"type": "object"}, out=tmp_path / "none.jsonl")) == []


def test_a_field_with_more_than_fits_into_memory():
    summary = FieldSummary()
    for number in [*range(3 * SAMPLED), 10**400]:
        summary.add(number)
    told = summary.to_dict(3 * SAMPLED)
    assert (told["count"], told["distinct"], told["has_more"]) == (3 * SAMPLED + 1, DISTINCT, True)
    assert len(summary.sample) == SAMPLED == sum(told["size"]["bins"])
    assert abs(told["size"]["mean"] - 1.5 * SAMPLED) < 1


def test_a_job_writes_its_report_at_each_end(tmp_path):
    out, schema = tmp_path / "o.jsonl", {"type": "object", "additionalProperties": {"type": "string"}}
    model = scripted(json.dumps({EVIL: EVIL}))
    for rows in ({"id": EVIL, "text": ""}, {"id": "b" + EVIL, "text": "b"}):
        sg.extract_many(model, [rows], schema, out=out, resume=True)
    folder = tmp_path / "o.jsonl.job"
    data, page = json.loads((folder / "report.json").read_text()), (folder / "report.html").read_text()
    assert (data["done"], data["failed"], data["failures"][0]["ids"]) == (1, 1, [EVIL])
    assert data["longest"][0]["id"] == "b" + EVIL
    assert data["fields"]["/" + EVIL.replace("/", "~1")]["common"] == [[json.dumps(EVIL), 1]]
    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 3
    assert "default-src 'none'" in page


def test_quotes_are_marked_in_their_texts_and_linked_to_their_values(tmp_path):
    """Quotes that overlap, quotes that stand twice, and texts that look like tags."""
    name = {"type": "string", "x-quote": {}}
    schema = {"type": "object", "properties": {"a": name, "b": name, "n": {"type": "integer"}}, "required": ["a", "b"]}
    text, value = "<b>Ada</b> & Ada", {"a": "Ada", "b": "da</b> &", "n": 3}
    model, out = scripted(json.dumps(value)), tmp_path / "o.jsonl"
    sg.extract_many(model, [{"id": EVIL, "text": text}], schema, out=out, columns=["source"])
    (entry,) = map(json.loads, out.read_text().splitlines())
    assert entry["source"] == {"": text}
    page = (tmp_path / "o.jsonl.job" / "quotes.html").read_text()
    assert "<script" not in page
    (shown,) = re.findall("<pre>(.*?)</pre>", page, re.DOTALL)
    assert unescape(re.sub("<[^>]*>", "", shown)) == text
    titles = re.findall('<mark class="q[01]" title="([^"]*)">', shown)
    assert titles == ["/a", "/a, /b", "/b", "/a"]
    report = (tmp_path / "o.jsonl.job" / "report.html").read_text()
    (linked,) = re.findall('href="quotes.html#([^"]*)"', report)
    assert unquote(linked) == EVIL == unescape(re.findall('<section class="card" id="([^"]*)"', page)[0])
    links = re.findall('href="#([^"]*)"', page)
    assert links == ["r0/a", "r0/b"]
    assert all(page.count(f'id="{link}"') == 1 for link in links)
