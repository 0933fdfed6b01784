"""Every text that says how to install says `structgen-llm`: the index has another project named `structgen`."""

from __future__ import annotations

import re
from pathlib import Path

from structgen.errors import DISTRIBUTION, not_installed

ROOT = Path(__file__).resolve().parent.parent
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
EXTRAS = set(re.findall(r"^([\w-]+) = \[", PROJECT.partition("[project.optional-dependencies]")[2], re.M))
FOLDERS = ("docs", "examples", "structgen", "tests", "benchmarks")
TEXTS = {
    path: path.read_text(encoding="utf-8")
    for path in [
        *ROOT.glob("*.md"),
        ROOT / "pyproject.toml",
        *(p for folder in FOLDERS for p in (ROOT / folder).rglob("*")),
    ]
    if path.suffix in {".md", ".py", ".toml", ".ipynb", ".yml"} and path != Path(__file__)
}
COMMAND = re.compile(r"\b(?:pip3?|uv add|uv pip) (?:install|download|uninstall)?([^#`\n]*)")
NAME = re.compile(r"(?<![\w./-])structgen(?![\w(-])")
WITH_EXTRAS = re.compile(r"(structgen[\w-]*)\[([\w, -]+)\]")


def test_the_project_has_the_name_that_messages_say():
    assert re.search(rf'^name = "{DISTRIBUTION}"', PROJECT, re.M)
    assert {"server", "mcp", "dev"} <= EXTRAS


def test_no_command_installs_the_project_of_that_name():
    assert len(TEXTS) > 300
    assert [(str(p), found) for p, text in TEXTS.items() for found in COMMAND.findall(text) if NAME.search(found)] == []


def test_each_extra_is_one_of_this_project():
    wrong = []
    for path, text in TEXTS.items():
        for name, extras in WITH_EXTRAS.findall(text):
            known = {each.strip() for each in extras.split(",")} <= EXTRAS
            if known != (name == DISTRIBUTION):
                wrong.append((str(path), name, extras))
    assert wrong == []


def test_errors_name_the_extra():
    sources = "".join(text for path, text in TEXTS.items() if path.is_relative_to(ROOT / "structgen"))
    extras = re.findall(r'not_installed\([^)]*"([\w-]+)"\)', sources)
    assert len(extras) >= 7
    assert set(extras) <= EXTRAS
    assert str(not_installed("spans need it", "otel")) == (
        "spans need it: pip install 'structgen-llm[otel]', or '.[otel]' in a checkout"
    )
