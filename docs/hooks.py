"""What mkdocs does to pages.

`<!-- notebook: examples/NAME.ipynb -->` becomes the cells and what they print. The words of `words.yml` become tags of
the pages: the search looks at them first. For machines that read, the site gets `llms.txt`, a list of its pages, and
`llms-full.txt`, their text.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import yaml  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parent.parent
PLACE = re.compile(r"<!-- notebook: (\S+) -->")
WORDS: dict[str, list[str]] = yaml.safe_load((ROOT / "docs" / "words.yml").read_text(encoding="utf-8"))
INCLUDED = re.compile(r"^--8<--\n(\S+)\n--8<--$", re.MULTILINE)
DESCRIBED = re.compile(r"^::: structgen\.([\w.]+)(?:\n(?: .*)?)*?(?=\n\S|\Z)", re.MULTILINE)
texts: dict[str, str] = {}
"""The Markdown of each page of this build, by its file."""


def on_page_markdown(markdown: str, page: Any = None, **_: Any) -> str:
    """The page with its notebooks written out; mkdocs calls it for each page."""
    markdown = PLACE.sub(lambda place: notebook(ROOT / place[1]), markdown)
    if page is not None:
        texts[page.file.src_uri] = markdown
    return markdown


def on_post_build(config: Any, **_: Any) -> None:
    """Writes `llms.txt` and `llms-full.txt`; mkdocs calls it at the end."""
    lines, whole = [f"# {config.site_name}", "", f"> {config.site_description}."], []
    for group in config.nav:
        for heading, entries in group.items():
            pages = list(files_of(entries, heading))
            lines += ["", f"## {'Optional' if heading == 'Project' else heading}", ""]
            lines += [f"- [{title}]({address(file)}): {sentence(texts[file]) or title}" for title, file in pages]
            if heading != "Project":
                whole += [plain(texts[file]) for _, file in pages]
    site = Path(config.site_dir)
    (site / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (site / "llms-full.txt").write_text("\n\n".join(whole) + "\n", encoding="utf-8")


def files_of(entries: Any, title: str) -> Iterator[tuple[str, str]]:
    """The pages below an entry of the navigation, each with its title there."""
    if isinstance(entries, str):
        yield title, entries
        return
    for entry in entries:
        for name, below in entry.items():
            yield from files_of(below, name)


def address(file: str) -> str:
    """Where a page is on the site."""
    return "index.html" if file == "index.md" else file.removesuffix(".md") + "/index.html"


def sentence(markdown: str) -> str:
    """The first sentence of a page's text."""
    blocks = (block.strip() for block in re.split(r"\n\n+", markdown))
    text = next((block for block in blocks if block[:1].isalpha() or block[:1] in "`*"), "")
    text = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", " ".join(text.split()))
    return re.split(r"(?<=\.)\s", text)[0]


def plain(markdown: str) -> str:
    """A page's text with its examples, and with the descriptions that the reference shows."""
    markdown = re.sub(r'^--8<-- ".*\n', "", markdown, flags=re.MULTILINE)  # drawings
    markdown = INCLUDED.sub(lambda place: (ROOT / place[1]).read_text(encoding="utf-8").rstrip(), markdown)
    return DESCRIBED.sub(lambda place: described(place[1]), markdown).strip()


def described(name: str) -> str:
    """A public name's parameters and docstring."""
    thing: Any = resolve_name(f"structgen.{name}")
    try:
        parameters = f"({', '.join(inspect.signature(thing).parameters)})"
    except (TypeError, ValueError):
        parameters = ""
    return f"### {name}{parameters}\n\n{inspect.getdoc(thing)}"


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """The page as it is, with the words that people search it by; mkdocs calls it for each page."""
    if page.file.src_uri in WORDS:
        page.meta["tags"] = WORDS[page.file.src_uri]
    if page.file.src_uri.startswith("project/"):
        page.meta.setdefault("search", {})["boost"] = 0.2  # the changelog and the decisions hold every word
    return html


def notebook(path: Path) -> str:
    """A notebook as Markdown."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(re.sub(r"\A# .*\n*", "", source))  # the page has a title of its own
            continue
        parts.append(f"```python\n{source}\n```")
        parts += ["```text\n" + "".join(output["text"]) + "```" for output in cell["outputs"]]
    return "\n\n".join(parts)
