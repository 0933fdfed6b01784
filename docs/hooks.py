"""What mkdocs does to pages: `<!-- notebook: examples/NAME.ipynb -->` becomes the cells and what they print."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PLACE = re.compile(r"<!-- notebook: (\S+) -->")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with its notebooks written out; mkdocs calls it for each page."""
    return PLACE.sub(lambda place: notebook(ROOT / place[1]), markdown)


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
