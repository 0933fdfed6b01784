"""The page of a report: what stands in it, that nothing of a model is markup, and how it looks and works in a browser.

Covers `drawings` and `schema_lines`.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from runpy import run_path
from typing import Annotated, Any

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from pydantic import AfterValidator, BaseModel

import structgen as sg
from structgen.demo import load_demo
from structgen.testing import scripted
from structgen.trace.drawings import COLUMNS, MAX_NODES, along_text, distribution, percent, tree
from structgen.trace.page import fragment, page, write
from structgen.trace.records import Cap, TracedToken, Undone
from structgen.trace.report import FieldReport, Report
from structgen.trace.schema_lines import MOST, drawn, lines_of
from tests.support import browser
from tests.support.tables import cases

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = '</script><script>window.pwned = 1</script><img src=x onerror="window.pwned = 1">&amp;<!--'
VOID = {"meta", "link", "input", "rect", "img", "br"}


class Elements(HTMLParser):
    """Counts the elements of a page, and requires that they are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: Counter[str] = Counter()
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found[tag] += 1
        for name, value in attributes:
            if name in ("class", "id"):
                self.found.update(f"{'.' if name == 'class' else '#'}{each}" for each in (value or "").split())
            assert not name.startswith("on")
            assert name not in ("src", "href") or (value or "").startswith("data:")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def elements(html: str) -> Elements:
    parsed = Elements()
    parsed.feed(html)
    assert parsed.open == []
    return parsed


class Job(BaseModel):
    """Of the run that has everything to be shown."""

    title: str
    salary: Annotated[int, AfterValidator(lambda salary: _at_least(salary, 62000))]
    remote: bool
    skills: list[str]


def _at_least(value: int, least: int) -> int:
    if value < least:
        raise ValueError(f"the band begins at {least}")
    return value


@pytest.fixture(scope="module")
def report() -> Report:
    """A run with a banned word, a validator's refusal, forced text and a closing by the budget."""
    model, tokenizer = load_demo()
    prompt = """Extract the job: title, salary, remote (true or false), skills (list).
Text: Whitcombe Labs is looking for a Senior Designer. Salary: 61500. Skills: Figma, SQL, Excel and testing. Remote.
JSON: """
    limits = sg.Limits(24)
    run = sg.generate(model, prompt, Job, tokenizer=tokenizer, banned=["SQL"], limits=limits, details=True)
    known = run.report()
    assert {each.pointer for each in known.undone} == {None, "/salary"}
    assert known.caps
    assert any(token.forced for token in known.tokens)
    return known


def test_the_page_has_every_part_of_a_run(report: Report) -> None:
    html = page(report)
    parsed = elements(html)
    found = parsed.found
    assert found[".t"] == len(report.tokens)
    assert found[".u"] == len(report.undone)
    assert found[".f"] == sum(token.forced for token in report.tokens)
    assert found[".k"] == len(report.caps)
    assert (found["svg"], found[".bars"], found[".values"]) == (3, 2, 1)
    for part in ("#i-others", ".legend", ".tiles", ".tree", ".back", ".caps", ".schema", ".plot", "details"):
        assert found[part], part
    shown = "".join(parsed.text)
    assert "banned word 'SQL'" in shown
    assert "the band begins at 62000" in shown
    assert "closed by the budget" in shown
    assert not re.search(r"https?://", html.replace(report.prompt, ""))


@pytest.mark.parametrize("text", [HOSTILE, "\u2028\x00\x1b\u202e", "é🙂\n\t" * 3])
def test_what_a_model_says_is_never_markup(text: str) -> None:
    said = json.dumps({"name": text})
    run = sg.generate(scripted(said), HOSTILE, {"required": ["name"]}, details=True)
    known = run.report()
    known.undone.append(Undone(3, HOSTILE, HOSTILE, HOSTILE, 1))
    known.caps.append(Cap(name="max_new_tokens", pointer=HOSTILE, limit=3, offset=5, wanted=HOSTILE))
    known.json_schema = {"description": HOSTILE, "properties": {HOSTILE: {"enum": [HOSTILE]}}}
    known.parts[HOSTILE] = [HOSTILE]
    known.fields[HOSTILE] = FieldReport(probability=0.5, values={HOSTILE: 0.5, "other": 0.5})
    for html in (page(known), fragment(known)):
        parsed = elements(html)
        assert parsed.found["script"] == (2 if html.startswith("<!doctype") else 0)
        assert parsed.found["img"] == 0
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page(known), re.DOTALL)
    assert data is not None
    assert not set(data[1]) & set("<>&")
    assert "".join(token[1] for token in json.loads(data[1])["tokens"]) == run.text


def test_a_run_without_details_of_tokens_and_one_that_failed_have_a_page() -> None:
    bare = Report(text="hello", is_json=False, finish="length")
    assert "generate with details=True" in page(bare)
    failed = sg.generate(scripted("[" * 40), ["x"], {"type": "integer"}, details=True, limits=sg.Limits(3, strict=True))
    assert failed[0].error is not None
    assert (failed[0].fields, elements(page(failed[0].report())).found[".problem"]) == ({}, 1)
    empty = Report(text="", is_json=True, finish="error", error="no text")
    assert elements(page(empty)).found[".problem"] == 1


def test_many_tokens_share_bars_of_the_plots_and_the_highest_is_shown() -> None:
    heights: list[float | None] = [0.1] * 5000
    heights[3210], heights[7] = 0.9, None
    svg = along_text(heights, 1.0, [str(i) for i in range(5000)], "name")
    assert svg.count("<rect") <= COLUMNS
    assert 'data-t="3210"' in svg
    assert "".join(along_text([], 1.0, [], "none")).startswith("<svg")
    assert along_text([None, None], 1.0, ["", ""], "gaps").count('class="gap"') == 2


def test_a_distribution_names_its_values_likeliest_first_and_adds_up_the_others() -> None:
    svg = distribution({f'"v{i}"': (20 - i) / 210 for i in range(20)}, '"v2"', maximum=3)
    assert svg.index("v0") < svg.index("v1") < svg.index("v2")
    assert "17 more" in svg
    assert svg.count('class="said"') == 3


@pytest.mark.parametrize(
    ("chance", "told"),
    [(1.0, "100%"), (0.9999, "100%"), (0.998, "99.8%"), (0.5, "50%"), (0.031, "3.1%"), (1e-9, "<0.1%"), (0, "0%")],
)
def test_probabilities_are_told_as_people_say_them(chance: float, told: str) -> None:
    assert percent(chance) == told


def test_the_tree_has_every_value_up_to_a_bound() -> None:
    def of(value: Any, fields: dict[str, FieldReport] | None = None) -> str:
        return tree(Report(text=json.dumps(value), is_json=True, finish="end", fields=fields or {}))

    html = of({"a": [1, {"b/c": None}], "d": {}}, {"/a/0": FieldReport(probability=0.25)})
    places = re.findall(r'data-p="([^"]*)"', html)
    assert places == ["", "/a", "/a/0", "/a/1", "/a/1/b~1c", "/d"]
    assert html.count('class="sure"') == 1
    assert "25%" in html
    assert elements(of([0] * 5000)).found["li"] <= MAX_NODES + 5
    assert "1 more" in of(json.loads("[" * 100 + "]" * 100))
    assert tree(Report(text="[1", is_json=True, finish="error")) == ""


def test_a_notebook_gets_the_text_without_a_script(report: Report) -> None:
    parsed = elements(fragment(report))
    assert parsed.found[".t"] == len(report.tokens)
    assert parsed.found["script"] == 0


@pytest.fixture(scope="module")
def thought() -> Report:
    """A run that thinks, as if it had said a word in its thinking that was taken back."""
    schema = {"properties": {"name": {"type": "string"}}, "required": ["name"]}
    model = scripted('Say Paris, not that.</think>\n\n{"name": "Paris"}')
    run: sg.Generation[Any] = sg.generate(model, "x", schema, thinking=sg.Thinking(max_tokens=40), details=True)
    return run.report().model_copy(update={"thinking_undone": [Undone(15, "Rome", "banned word 'Rome'", None, 4)]})


def test_thinking_stands_in_a_span_of_its_own_with_its_marks_folded(thought: Report) -> None:
    html = page(thought)
    assert thought.thinking == "Say Paris, not that."
    found = elements(html).found
    length = len(thought.thinking.encode())  # of the tokens of one byte each
    assert found[".thought"] == 1
    assert found[".t"] == length + len(thought.tokens)
    assert found[".u"] == 1
    assert 'class="mark" title="&lt;/think&gt;"' in html
    assert re.findall(r'class="t[^"]*" role="option" aria-selected="false" tabindex="0" data-t="(\d+)"', html) == ["0"]
    numbers = [int(number) for number in re.findall(r'<span class="t[^>]*data-t="(\d+)"', html)]
    assert numbers == list(range(found[".t"]))
    plotted = [int(number) for number in re.findall(r'<rect data-t="(\d+)"', html)]
    assert min(plotted) >= length
    assert "<summary>Thinking" not in html
    assert "<summary>Thinking" in page(thought.model_copy(update={"thinking_tokens": []}))


def test_thinking_that_a_limit_ends_has_the_scissors_in_its_span() -> None:
    schema = {"type": "boolean"}
    run = sg.generate(scripted("hm" * 99), "x", schema, thinking=sg.Thinking(max_tokens=5), details=True)
    html = page(run.report())
    thinking = html[html.index('class="thought"') : html.index("thinking.max_tokens")]
    assert 'class="k"' in thinking
    assert html.count('class="k"') == len(run.caps)


@pytest.mark.slow
def test_thinking_can_be_looked_at_token_by_token(thought: Report, tmp_path: Path) -> None:
    script = """
        const place = document.querySelector('#i-place'), told = [];
        for (const each of ['.thought .t', '.thought .u', '.tokens > .t']) {
            document.querySelector(each).focus(); told.push(place.textContent);
        }
        document.querySelector('.tree [data-p=""]').click();
        return {told, first: document.querySelector('.tokens [aria-selected="true"]').dataset.t};
    """
    told = browser.probed(tmp_path, page(thought), script, 1400)
    assert told["told"][0].startswith("thinking")
    assert "Rome" in told["told"][1]
    assert told["told"][2].startswith("the root")
    assert int(told["first"]) == len((thought.thinking or "").encode())


def long_report() -> Report:
    """Thousands of tokens, a long word, and names that are long."""
    words = [TracedToken(i, f"word{i} ", "", chance=0.5, removed=0.2, seconds=0.01) for i in range(3000)]
    words.append(TracedToken(3000, "x" * 2000, ""))
    text = json.dumps({"y" * 300: "z" * 3000, "deep": [[[["a" * 500]]]]})
    undone = [Undone(i, "w" * 500, "r" * 500, "/" + "p" * 300, 2) for i in range(50)]
    cap = Cap(name="max_new_tokens", pointer="/" + "q" * 400, limit=3, wanted="v" * 200)
    schema = {"properties": {"y" * 300: {"enum": ["z" * 3000] * 9}}, "description": "d" * 2000}
    return Report(
        text=text, is_json=True, finish="end", tokens=words, undone=undone, caps=[cap], prompt="u" * 3000,
        json_schema=schema,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_is_wider_than_the_page_and_nothing_is_hidden(report: Report, tmp_path: Path, width: int) -> None:
    for known in (report, long_report()):
        script = """
            const parts = ['.tokens', '.legend', '.tiles', '.inspector', '.tree', '.back', '.caps', '.schema'];
            const boxes = parts.map((name) => document.querySelector(name).getBoundingClientRect());
            return {wide: document.documentElement.scrollWidth, screen: innerWidth,
                    out: boxes.filter((box) => box.width < 50 || box.right > innerWidth + 1).length};
        """
        told = browser.probed(tmp_path, page(known), script, width)
        assert told["screen"] == width
        assert told["wide"] <= width
        assert told["out"] == 0


@pytest.mark.slow
def test_the_keyboard_moves_through_the_tokens_and_the_details_follow(report: Report, tmp_path: Path) -> None:
    script = """
        const box = document.querySelector('.tokens'), title = document.querySelector('#i-title'), told = [];
        const press = (key) => {
            document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}));
            told.push([title.textContent, document.activeElement.textContent]);
        };
        box.querySelector('[tabindex="0"]').focus();
        ['Home', 'ArrowRight', 'End', 'ArrowLeft'].forEach(press);
        document.querySelector('.u').focus();
        told.push([title.textContent, document.querySelector('#i-place').textContent]);
        const stops = [...document.querySelectorAll('.tokens [tabindex="0"]')].length;
        const before = getComputedStyle(document.body).backgroundColor;
        document.querySelector('#theme').click();
        const after = getComputedStyle(document.body).backgroundColor;
        document.querySelector('.modes input[value="removed"]').click();
        return {told, stops, themes: [before, after], mode: document.querySelector('main').dataset.mode,
                pwned: typeof window.pwned};
    """
    told = browser.probed(tmp_path, page(report), script, 1400)
    count = len(report.tokens)
    assert told["told"][0] == [f"Token 1 of {count}", report.tokens[0].text]
    assert told["told"][1] == [f"Token 2 of {count}", report.tokens[1].text]
    assert told["told"][2][0] == f"Token {count} of {count}"
    assert told["told"][4][0].startswith("Taken back, 1 of")
    assert report.undone[0].reason in told["told"][4][1]
    assert told["stops"] == 1
    assert told["themes"][0] != told["themes"][1]
    assert told["mode"] == "removed"


def test_a_schema_has_a_line_for_each_keyword_and_its_schema() -> None:
    document = {"properties": {"a/b": {"enum": [1, 2]}, "c": {"type": "string", "maxLength": 3}}, "required": ["c"]}
    lines = [*lines_of(document)]
    assert [[line.text, line.depth, line.place, line.schema, line.whole] for line in lines] == cases(
        "trace/page", "a_schema_has_a_line_for_each_keyword_and_its_schema_data"
    )
    many = {"properties": {f"member {n}": {"type": "string"} for n in range(MOST)}}
    assert json.loads("".join(line.text for line in lines_of(many))) == many
    assert drawn(many).count("<span") == MOST + 1


@pytest.mark.slow
def test_the_schema_of_a_token_is_lit_and_the_keyword_that_refused_another(tmp_path: Path) -> None:
    """Of a union, those alternatives that the text so far leaves."""
    item = {"type": "object", "properties": {"kind": {"const": "a"}, "qty": {"type": "integer", "maximum": 500}}}
    other = {"type": "object", "properties": {"kind": {"const": "b"}, "qty": {"type": "boolean"}}}
    closed = [{**each, "required": ["kind", "qty"], "additionalProperties": False} for each in (item, other)]
    run = sg.generate(scripted('{"kind": "a", "qty": 5000}'), "?", {"anyOf": closed}, details=True)
    script = """
        const texts = (name) => [...document.querySelectorAll('.schema ' + name)].map((line) => line.textContent);
        return [...document.querySelectorAll('.t')].map((token) => {
            token.click();
            return [token.textContent, texts('.lit'), texts('.no')];
        });
    """
    told = browser.probed(tmp_path, page(run.report()), script, 1280)
    begun = '{"kind": "a", "qty": 500'
    assert "".join(text for text, _, _ in told).startswith(begun)
    assert told[begun.index("a")][1] == ['"kind": {"const": "a"},', '"kind": {"const": "b"},']
    assert told[begun.index("5")][1] == ['"qty": {', '"type": "integer",', '"maximum": 500', "}"]
    assert told[len(begun)][2] == ['"maximum": 500']


@pytest.mark.slow
def test_a_browser_loads_it_without_a_word_and_runs_nothing_that_a_model_said(report: Report, tmp_path: Path) -> None:
    hostile = sg.generate(scripted(json.dumps([HOSTILE])), "x", {"type": "array"}, details=True).report()
    for number, known in enumerate((report, hostile)):
        path = tmp_path / f"{number}.html"
        write(known, path)
        assert browser.console(tmp_path, path) == []
    told = browser.probed(tmp_path, page(hostile), "return typeof window.pwned", 800)
    assert told == "undefined"


PICTURE = ROOT / "docs" / "images" / "trace.png"


def digest_of(known: Report) -> str:
    """What a picture of a run shows, without times."""
    tokens = [(token.text, token.forced) for token in known.tokens]
    return hashlib.sha256(repr((tokens, known.undone, known.caps)).encode()).hexdigest()[:16]


def test_the_picture_in_the_docs_is_of_todays_run(tmp_path: Path) -> None:
    """`UPDATE_OUTPUTS=1` takes it again, of `examples/trace.py`; it holds the digest of what it shows."""
    known = run_path(str(ROOT / "examples" / "trace.py"))["run"].report()
    if os.environ.get("UPDATE_OUTPUTS") == "1":
        write(known, tmp_path / "trace.html")
        taken = browser.photographed(tmp_path, tmp_path / "trace.html", tmp_path / "trace.png", 1280, 1240)
        image, notes = Image.open(io.BytesIO(taken)), PngInfo()
        notes.add_text("shows", digest_of(known))
        image.convert("P", palette=Image.Palette.ADAPTIVE).save(PICTURE, optimize=True, pnginfo=notes)
    picture = Image.open(PICTURE)
    assert picture.size == (1280, 1240)
    assert picture.text["shows"] == digest_of(known)  # type: ignore[attr-defined]


@pytest.mark.slow
def test_the_picture_of_the_page_is_no_empty_one(report: Report, tmp_path: Path) -> None:
    """Structure, not pixels: many colours, of which the ground takes most, and text down to the end of the page."""
    path = tmp_path / "trace.html"
    write(report, path)
    image = Image.open(io.BytesIO(browser.photographed(tmp_path, path, tmp_path / "trace.png", 1400, 1200)))
    assert image.size == (1400, 1200)
    colours = Counter(image.convert("RGB").resize((350, 300)).getdata())
    assert len(colours) > 200
    assert 0.3 < colours.most_common(1)[0][1] / (350 * 300) < 0.95
