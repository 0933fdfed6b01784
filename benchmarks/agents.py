"""Coding agents at work on this server: each reads a file and edits it, and what goes wrong is counted.

    python -m benchmarks agents --clients ~/agents --install
    python -m benchmarks agents --clients ~/agents --model scripted --turns 20
    python -m benchmarks agents --clients ~/agents --model random --turns 20
    python -m benchmarks agents --clients ~/agents --model qwen2.5-coder-1.5b --tasks 5

The clients are packages of npm and PyPI. They run with a home of their own in the folder, ask 127.0.0.1 alone, and edit
a file of a folder that is made anew for each task, always at the same path. The scripted model knows the names of each
client's tools; the random one calls and says anything that the masks allow; a real one shows what it can. One server
answers all tasks of a client. A row has the tasks that a client ended, those after which the file was right, its
requests, those that failed (a protocol error), the tokens of the longest prompt, and of the requests after the first
one the share of the prompts that was cached. `--record` keeps what the clients send, a line of JSON for each request.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import torch
from transformers import AutoTokenizer

import structgen as sg
from benchmarks.report import parser
from structgen.models.model import Model
from structgen.server import Settings, client_lines, create_app
from structgen.server.process import server_of
from structgen.testing import CLOSERS, ScriptedChatModel
from structgen.vocabulary import Vocabulary

FILE = "greet.py"
TASK = f"Read the file {FILE}, then change the word hello in it to goodbye."
OTHER = "notes{}.txt"
"""Files that a long session reads first."""
BEFORE, AFTER = "print('hello')\n", "print('goodbye')\n"
CALL = b'\n{"name": '
HEADER = "<|im_start|>assistant\n"


class Client(NamedTuple):
    """A coding agent.

    Attributes:
        package: of npm; one of PyPI begins with `pip:`.
        command: what runs a task; `{task}` and `{url}` are replaced.
        calls: what the scripted model calls, with `{file}` for the path of the file; the name of a tool, its arguments.
            The first one reads. In a long session it does so with other files first.
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


def model_of(options: argparse.Namespace, client: Client, file: Path) -> Model:
    """The model of a client's tasks."""
    kind = options.model
    if kind not in ("scripted", "random"):
        return sg.load(kind, dtype=getattr(torch, options.dtype))
    read = AutoTokenizer.from_pretrained(options.tokenizer)
    turns = [
        f"\n{json.dumps({'name': name, 'arguments': arguments})}\n".replace("{file}", str(file))
        for name, arguments in client.calls
    ]
    reads = max(options.turns - len(turns) - 1, 0)
    turns = [turns[0].replace(file.name, OTHER.format(number)) for number in range(reads)] + turns
    vocabulary = Vocabulary.from_tokenizer(read)
    chaos = random.Random(0) if kind == "random" else None
    agent = Agent([*turns, *["It is done."] * 30], vocabulary, read(HEADER)["input_ids"], chaos)
    return Model(agent, read, vocabulary)


@contextmanager
def served(model: Model, options: argparse.Namespace, record: TextIO | None) -> Iterator[str]:
    """Serves a model within the block, at the address that is given."""
    usual = {"max_tokens": 60, "temperature": 1.0} if options.model == "random" else {"temperature": 0.0}
    settings = Settings(name="m", request_seconds=options.seconds, **usual)
    app: Any = create_app(model, settings)
    server = server_of(app, settings, port=0, log_level="warning")
    if record is not None:
        app.add_middleware(Recorded, file=record)
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


class Recorded:
    """Writes the path and the body of each request that has one into a file."""

    def __init__(self, app: Any, file: TextIO) -> None:
        self._app, self._file = app, file

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        parts = list[bytes]()

        async def heard() -> Any:
            message = await receive()
            parts.append(message.get("body", b""))
            if parts[-1] and not message.get("more_body"):
                line = {"path": scope["path"], "body": json.loads(b"".join(parts))}
                print(json.dumps(line), file=self._file, flush=True)
            return message

        await self._app(scope, heard, send)


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

    shutil.rmtree(work, ignore_errors=True)
    home.mkdir(parents=True)
    (work / FILE).write_text(BEFORE)
    for number in range(30):
        (work / OTHER.format(number)).write_text(f"note {number}\n")
    for path, text in client.files.items():
        file = work / filled(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(filled(text), encoding="utf-8")
    own = {"HOME": str(home), "CODEX_HOME": str(home / ".codex"), "XDG_CONFIG_HOME": str(home / ".config")}
    usual = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
    environment = {**usual, **own, **{name: filled(value) for name, value in client.environment.items()}}
    programs = folder / ("python/bin" if client.package.startswith("pip:") else "node_modules/.bin")
    command = [str(programs / client.command[0]), *map(filled, client.command[1:])]
    try:
        done = subprocess.run(
            command, env=environment, cwd=work, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=seconds, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        return False, str(late.stdout)[-500:]
    return done.returncode == 0, (done.stdout + done.stderr)[-20_000:]


def row(folder: Path, name: str, options: argparse.Namespace) -> dict[str, Any]:
    """The row of a client: its tasks, one after the other, until there are enough of them and of its requests."""
    client, work, heard = CLIENTS[name], folder / "work" / name, Lines()
    file, ends = work / FILE, list[tuple[bool, bool]]()
    log = logging.getLogger("structgen.requests")
    log.setLevel(logging.INFO)

    def asked() -> list[dict[str, Any]]:
        return [line for line in heard.lines if line["route"].startswith("/v1/")]

    with ExitStack() as over:
        log.addHandler(heard)
        over.callback(log.removeHandler, heard)
        record = options.record and over.enter_context((options.record / f"{name}.jsonl").open("w", encoding="utf-8"))
        url = over.enter_context(served(model_of(options, client, file), options, record))
        while len(ends) < options.tasks or (len(asked()) < options.turns and len(ends) < options.turns):
            heard_before = len(heard.lines)
            well, printed = run(folder, client, url, work, options.seconds)
            ends.append((well, file.exists() and file.read_text().strip() == AFTER.strip()))
            if options.verbose:
                print(name, *ends[-1], printed, *heard.lines[heard_before:], sep="\n", flush=True)
    lines = asked()
    failed = [line for line in lines if line["status"] not in (200, 499)]
    later = [line for line in lines if line["prompt_tokens"]][1:]
    prompts = sum(line["prompt_tokens"] for line in later)
    return {
        "client": name,
        "tasks": len(ends),
        "ended": sum(well for well, _ in ends),
        "right": sum(right for _, right in ends),
        "requests": len(lines),
        "protocol errors": len(failed),
        "prompt tokens": max((line["prompt_tokens"] for line in lines), default=0),
        "cached after the first": round(sum(line["cached_tokens"] for line in later) / prompts, 3) if prompts else None,
        "why": sorted({f"{line['status']} {line['code']} {line.get('param', '')}" for line in failed}),
    }


def install(folder: Path, names: Sequence[str]) -> None:
    """Installs the newest clients in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    packages = [CLIENTS[name].package for name in names]
    of_python = [package.removeprefix("pip:") for package in packages if package.startswith("pip:")]
    of_npm = [package for package in packages if not package.startswith("pip:")]
    if of_npm:
        npm = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder)]
        subprocess.run([*npm, *of_npm], check=True)
    if of_python:
        subprocess.run([sys.executable, "-m", "venv", str(folder / "python")], check=True)
        subprocess.run([str(folder / "python/bin/pip"), "install", "--upgrade", *of_python], check=True)


def main() -> None:
    given = parser(__doc__)
    given.add_argument("--clients", type=Path, required=True, help="The folder with the clients' packages.")
    given.add_argument("--install", action="store_true", help="Install them there, by npm and pip.")
    given.add_argument("--only", nargs="*", choices=[*CLIENTS], default=[*CLIENTS])
    given.add_argument("--model", default="scripted", help="scripted, random, or a model to load.")
    given.add_argument("--dtype", default="bfloat16", help="Of a model to load.")
    given.add_argument("--tokenizer", default="Qwen/Qwen2.5-Coder-0.5B-Instruct", help="Of the first two.")
    given.add_argument("--tasks", type=int, default=1, help="Of each client, at least.")
    given.add_argument("--turns", type=int, default=1, help="The requests of each client, at least.")
    given.add_argument("--seconds", type=float, default=300.0, help="For a task, and for a request.")
    given.add_argument("--record", type=Path, help="A folder for what the clients send.")
    given.add_argument("--verbose", action="store_true")
    options = given.parse_args()
    folder: Path = options.clients.resolve()
    if options.record:
        options.record.mkdir(parents=True, exist_ok=True)
    if options.install:
        install(folder, options.only)
    for name in options.only:
        print(json.dumps(row(folder, name, options)), flush=True)
