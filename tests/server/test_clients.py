"""The clients' own examples, unchanged, against a server whose address they read from the environment.

`STRUCTGEN_CLIENTS` names a folder: `<client>/bin/python` is the environment of a client, `src/<client>` a checkout of
its repository, and `src/node_modules` has `tsx` and the packages for JavaScript. What is not there is skipped by name.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from structgen.models.model import Model
from structgen.server import Settings
from structgen.testing import CLOSERS, ScriptedChatModel, scripted_chat
from tests.support.serving import served
from tests.support.tables import cases

FOLDER = os.environ.get("STRUCTGEN_CLIENTS", "")
MODEL = re.compile(r"""["'](?:\w+:)?((?:gpt|claude|o\d)[\w.-]*)["']""")
"""The name of a model in an example."""
EXAMPLES = cases("server/clients", "EXAMPLES", globals())
"""A client -> its examples: files, or blocks of Python in a page, by their numbers."""


class Caller(ScriptedChatModel):
    """Calls a tool if there is one, then answers; a value is as short as its schema permits."""

    def _scores(self, row, said):
        scores = super()._scores(row, said)
        closers = [self._by_bytes[closer] for closer in CLOSERS]
        scores[closers] = scores[closers].clamp(min=5.0)
        return scores


@pytest.fixture(scope="module")
def address():
    small = scripted_chat("x")
    turns = ["<tool_call>\n{", "It is done."] * 6
    caller = Caller(turns, small.vocabulary, max_position_embeddings=100_000)
    files = [Path(FOLDER, "src", client, each.partition("#")[0]) for client, own in EXAMPLES.items() for each in own]
    texts = [file.read_text(encoding="utf-8") for file in files if FOLDER and file.exists()]
    aliases = sorted({name for text in texts for name in MODEL.findall(text)})
    settings = Settings(name="caller", aliases=aliases, temperature=0.0)
    with served(Model(caller, small.tokenizer, small.vocabulary), settings) as server:
        yield server.url


def program(file: Path, blocks: str) -> str:
    """The text of a file, or the blocks of Python of a page."""
    text = file.read_text(encoding="utf-8")
    if not blocks:
        return text
    found = re.findall(r"```(?:py|python)[^\n]*\n(.*?)```", text, re.S)
    return "\n".join(found[int(number)] for number in blocks.split(","))


@pytest.mark.slow
@pytest.mark.parametrize(("client", "example"), [(client, each) for client, own in EXAMPLES.items() for each in own])
def test_a_clients_own_example_works_unchanged(client, example, address, tmp_path):
    name, _, blocks = example.partition("#")
    folder = Path(FOLDER)
    file, python = folder / "src" / client / name, folder / client / "bin" / "python"
    runs = [str(folder / "src/node_modules/.bin/tsx"), str(file)] if file.suffix == ".ts" else [str(python), "it.py"]
    for needed in (file, Path(runs[0])):
        if not FOLDER or not needed.exists():
            pytest.skip(f"{client} is not there: STRUCTGEN_CLIENTS has no {needed}")
    if file.suffix != ".ts":
        (tmp_path / "it.py").write_text(program(file, blocks), encoding="utf-8")
    keys = {
        "OPENAI_API_KEY": "none",
        "ANTHROPIC_API_KEY": "none",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "OPENAI_DEFAULT_MODEL": "caller",
    }
    urls = {"ANTHROPIC_BASE_URL": address, **dict.fromkeys(("OPENAI_BASE_URL", "OPENAI_API_BASE"), f"{address}/v1")}
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        runs, env={**inherited, **keys, **urls}, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "APICallError" not in done.stdout + done.stderr
