"""What mkdocs does to pages.

`<!-- notebook: examples/NAME.ipynb -->` becomes the cells and what they print. The words of `words.yml` become tags of
the pages: the search looks at them first.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
PLACE = re.compile(r"<!-- notebook: (\S+) -->")
WORDS: dict[str, list[str]] = yaml.safe_load((ROOT / "docs" / "words.yml").read_text(encoding="utf-8"))


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with its notebooks written out; mkdocs calls it for each page."""
    return PLACE.sub(lambda place: notebook(ROOT / place[1]), markdown)


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
