"""Coding agents at work on this server: each reads a file and edits it, and what goes wrong is counted.

    python -m benchmarks agents --clients ~/agents --install
    python -m benchmarks agents --clients ~/agents --model scripted --turns 20
    python -m benchmarks agents --clients ~/agents --model Qwen/Qwen2.5-Coder-1.5B-Instruct

The clients are npm packages. They run with a home of their own in the folder, ask 127.0.0.1 alone, and edit a file of a
folder that is made for each task. The scripted model knows the names of each client's tools; the random one calls and
says anything that the masks allow; a real one shows what it can. A row has the tasks that a client ended, those after
which the file was right, its requests, those that failed (a protocol error), the tokens of prompts, the share that was
cached after the first turn, and the milliseconds of CPU-bound work between the body and the prefill.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoTokenizer

import structgen as sg
from benchmarks.report import parser
from structgen.models.model import Model
from structgen.server import Settings, client_lines, create_app
from structgen.server.process import server_of
from structgen.testing import CLOSERS, ScriptedChatModel
from structgen.vocabulary import Vocabulary

TASK = "Read the file greet.py, then change the word hello in it to goodbye."
BEFORE, AFTER = "print('hello')\n", "print('goodbye')\n"
CALL = b'\n{"name": '
HEADER = "<|im_start|>assistant\n"


class Client(NamedTuple):
    """A coding agent.

    Attributes:
        package: of npm.
        command: what runs a task; `{task}` and `{url}` are replaced.
        calls: what the scripted model calls, with `{file}` for the path of the file; the name of a tool, its arguments.
        environment: variables; `{url}` is replaced.
        files: configuration, by its path in the folder of the task.
    """

    package: str
    command: tuple[str, ...]
    calls: tuple[tuple[str, dict[str, Any]], ...]
    environment: Mapping[str, str]
    files: Mapping[str, str]


def clients() -> dict[str, Client]:
    """The clients of data/agents.json; `@NAME` in a file is what the server tells that client to write there."""
    said = json.loads((Path(__file__).parent / "data" / "agents.json").read_text(encoding="utf-8"))
    for name, client in said.items():
        lines = client_lines(name, "{url}", "m") if name in ("codex", "opencode") else ""
        if name == "opencode":
            lines = lines.partition("\n")[2]
        client["files"] = {path: text.replace(f"@{name}", lines) for path, text in client["files"].items()}
    return {name: Client(**client) for name, client in said.items()}


CLIENTS = clients()


class Agent(ScriptedChatModel):
    """A model that says a text in each of its turns, whatever its tokenizer is.

    Args:
        header: the ids with which a turn begins.
        chaos: a generator that draws what is said instead; None for the texts.
    """

    def __init__(
        self, turns: list[str], vocabulary: Vocabulary, header: list[int], chaos: random.Random | None
    ) -> None:
        super().__init__(turns, vocabulary, max_position_embeddings=1 << 18)
        self._header, self._chaos = torch.tensor(header), chaos

    def _script_of(self, ids: Any, notes: Any) -> int:
        self._ids = ids.long()  # of the whole row, however its prompt was cut into parts
        return 0

    def _scores(self, row: int, said: tuple[int, ...]) -> Any:
        size = len(self._header)
        begun = (self._ids.unfold(0, size, 1) == self._header).all(1).nonzero()[:, 0]
        row, said = len(begun) - 1, tuple(self._ids[int(begun[-1]) + size :].tolist()) if len(begun) else ()
        closers = [self._by_bytes[closer] for closer in CLOSERS]
        if self._chaos is None:
            scores = super()._scores(row, said)
            if not said and self.wanted[row % len(self.wanted)].startswith(CALL):
                scores[self.vocabulary.special_names["<tool_call>"]] = 40.0
            scores[closers] = scores[closers].clamp(min=5.0)
            return scores
        seed = torch.Generator().manual_seed(self._chaos.getrandbits(40))
        scores = torch.randn(self.vocabulary.width, generator=seed)
        likely = [*closers, *self.vocabulary.end_ids, self.vocabulary.special_names["<tool_call>"]]
        scores[likely] += 4.0 * torch.rand(len(likely), generator=seed)
        return scores


def model_of(kind: str, tokenizer: str, client: Client, file: Path, seed: int) -> Model:
    """The model of a task."""
    if kind not in ("scripted", "random"):
        return sg.load(kind)
    read = AutoTokenizer.from_pretrained(tokenizer)
    turns = [
        f"\n{json.dumps({'name': name, 'arguments': arguments})}\n".replace("{file}", str(file))
        for name, arguments in client.calls
    ]
    vocabulary = Vocabulary.from_tokenizer(read)
    chaos = random.Random(seed) if kind == "random" else None
    agent = Agent([*turns, *["It is done."] * 30], vocabulary, read(HEADER)["input_ids"], chaos)
    return Model(agent, read, vocabulary)


@contextmanager
def served(model: Model, max_tokens: int | None, temperature: float) -> Iterator[str]:
    """Serves a model within the block, at the address that is given."""
    settings = Settings(name="m", max_tokens=max_tokens, temperature=temperature)
    server = server_of(create_app(model, settings), settings, port=0, log_level="warning")
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server could not be started"
        time.sleep(0.05)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


class Lines(logging.Handler):
    """Collects the server's line for each request."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(record.getMessage()))


def run(folder: Path, client: Client, url: str, work: Path, seconds: float) -> tuple[bool, str]:
    """Gives a client the task. Returns whether it ended well, and what it printed."""
    home = work / "home"

    def filled(text: str) -> str:
        return text.replace("{url}", url).replace("{home}", str(home)).replace("{task}", TASK)

    for path, text in client.files.items():
        file = work / filled(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(filled(text), encoding="utf-8")
    home.mkdir(exist_ok=True)
    own = {"HOME": str(home), "CODEX_HOME": str(home / ".codex"), "XDG_CONFIG_HOME": str(home / ".config")}
    usual = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
    environment = {**usual, **own, **{name: filled(value) for name, value in client.environment.items()}}
    command = [str(folder / "node_modules/.bin" / client.command[0]), *map(filled, client.command[1:])]
    try:
        done = subprocess.run(
            command, env=environment, cwd=work, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=seconds, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        return False, str(late.stdout)[-500:]
    return done.returncode == 0, (done.stdout + done.stderr)[-2000:]


def row(folder: Path, name: str, options: argparse.Namespace) -> dict[str, Any]:
    """The row of a client: its tasks, one after the other."""
    client, ended, right, lines = CLIENTS[name], 0, 0, list[dict[str, Any]]()
    for number in range(options.turns):
        with tempfile.TemporaryDirectory() as made:
            work = Path(made)
            file = work / "greet.py"
            file.write_text(BEFORE)
            heard = Lines()
            log = logging.getLogger("structgen.requests")
            log.addHandler(heard)
            log.setLevel(logging.INFO)
            model = model_of(options.model, options.tokenizer, client, file, number)
            temperature = 1.0 if options.model == "random" else 0.0
            bound = 60 if options.model == "random" else None
            with served(model, bound, temperature) as url:
                well, printed = run(folder, client, url, work, options.seconds)
            log.removeHandler(heard)
            lines += heard.lines
            ended, right = ended + well, right + (file.read_text() == AFTER if file.exists() else 0)
            if options.verbose:
                print(name, number, well, printed, *heard.lines, sep="\n")
    asked = [line for line in lines if line["route"].startswith("/v1/")]
    failed = [line for line in asked if line["status"] not in (200, 499)]
    later = [line for line in asked if line["cached_tokens"]]
    prompts = sum(line["prompt_tokens"] for line in later)
    busy = sorted(line.get("schema_ms", 0) + line.get("body_ms", 0) for line in later)
    return {
        "client": name,
        "tasks": options.turns,
        "ended": ended,
        "right": right,
        "requests": len(asked),
        "protocol errors": len(failed),
        "prompt tokens": max((line["prompt_tokens"] for line in asked), default=0),
        "cached of later turns": round(sum(line["cached_tokens"] for line in later) / prompts, 3) if prompts else None,
        "ms beside the template": busy[len(busy) // 2] if busy else None,
        "why": sorted({f"{line['status']} {line['code']} {line.get('param', '')}" for line in failed}),
    }


def main() -> None:
    given = parser(__doc__)
    given.add_argument("--clients", type=Path, required=True, help="The folder with the clients' packages.")
    given.add_argument("--install", action="store_true", help="Install them there, by npm.")
    given.add_argument("--only", nargs="*", choices=[*CLIENTS], default=[*CLIENTS])
    given.add_argument("--model", default="scripted", help="scripted, random, or a model to load.")
    given.add_argument("--tokenizer", default="Qwen/Qwen2.5-Coder-0.5B-Instruct", help="Of the first two.")
    given.add_argument("--turns", type=int, default=1, help="Tasks of each client.")
    given.add_argument("--seconds", type=float, default=300.0, help="For a task.")
    given.add_argument("--verbose", action="store_true")
    options = given.parse_args()
    folder: Path = options.clients.resolve()
    if options.install:
        folder.mkdir(parents=True, exist_ok=True)
        packages = [CLIENTS[name].package for name in options.only]
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), *packages], check=True)
    for name in options.only:
        print(json.dumps(row(folder, name, options)), flush=True)
