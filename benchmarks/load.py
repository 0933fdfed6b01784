"""Load on a server: concurrent streams of which some are cancelled, and thousands of schemas with bombs among them.

    python -m benchmarks load --streams 100 --requests 300 --schemas 10000 --bombs 50
    python -m benchmarks load --large 2

`--large` measures small requests alone, then beside clients that send one chat of 3.6 MB after the other.

The server is a process of its own with the bundled model; the clients share the machine with it. Every finished
answer is validated by `jsonschema`, and has a constant that no other request has, so that a mix-up is seen. Of a
refusal both are told: the seconds on the wall, and those of the processor that the server had meanwhile, which other
programs do not lengthen.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jsonschema

try:
    import httpx2 as httpx  # which of the two openai has
except ImportError:
    import httpx

from benchmarks.report import megabytes, parser, setting
from structgen.server.settings import Settings

SERVE = [sys.executable, "-c", "from structgen.cli import app; app()", "serve", "demo", "--port", "0", "--log", "info"]
Schema = dict[str, Any]


@dataclass
class Tally:
    """What became of some requests."""

    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    first_piece: list[float] = field(default_factory=list)
    refusals: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    tokens: int = 0


def server(*options: str) -> tuple[subprocess.Popen[str], str]:
    """A server that listens, and its address."""
    process = subprocess.Popen([*SERVE, *options], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert process.stderr is not None
    line = next(line for line in process.stderr if "running on" in line)
    threading.Thread(target=deque, args=(process.stderr, 0), daemon=True).start()  # a full pipe would stop the server
    return process, line.split("running on ")[1].split()[0]


def processor_seconds(process: subprocess.Popen[str]) -> float:
    """CPU time that a process has had, of all its threads."""
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as status:
        user, system = status.read().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def random_value(rng: random.Random, depth: int) -> Schema:
    kinds: list[Callable[[], Schema]] = [
        lambda: {"type": "string", "maxLength": rng.randrange(3, 12)},
        lambda: {"type": "integer", "minimum": rng.randrange(-50, 50), "maximum": rng.randrange(60, 999)},
        lambda: {"enum": [f"v{rng.randrange(10**6)}" for _ in range(rng.randrange(2, 9))]},
        lambda: {"type": "boolean"},
        lambda: {"type": "string", "pattern": f"^[a-z]{{{rng.randrange(2, 5)}}}-[0-9]{{{rng.randrange(1, 4)}}}$"},
    ]
    if depth:
        kinds.append(lambda: {"type": "array", "items": random_value(rng, depth - 1), "maxItems": rng.randrange(1, 4)})
        kinds.append(lambda: random_object(rng, depth - 1))
    return rng.choice(kinds)()


def random_object(rng: random.Random, depth: int = 1, mark: str | None = None) -> Schema:
    members = {f"m{rng.randrange(1000)}": random_value(rng, depth) for _ in range(rng.randrange(1, 4))}
    own: Schema = {} if mark is None else {"mark": {"const": mark}}
    members = {**own, **members}
    return {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}


def bomb(rng: random.Random, number: int) -> Schema:
    """A schema that is made to hang or to explode; each is a little different."""
    n = number + rng.randrange(1000)
    values = [{"a": i, "b": [i, {"c": str(i * n)}]} for i in range(1500)]
    bombs: list[Schema] = [
        {"type": "array", "contains": {"const": n}, "minContains": 10**9 + n},
        {"type": "array", "items": {"enum": list(range(n, n + 5000))}, "uniqueItems": True, "minItems": 3000},
        nested("allOf", 400, n),
        {"not": {"enum": values}},
        {"allOf": [{"anyOf": [{"required": [f"p{i}"]}, {"required": [f"q{i}{n}"]}]} for i in range(20)]},
        {"type": "string", "allOf": [{"pattern": f"(.{{{i}}}[a-f{n % 9}]|x){{30,90}}y.{{{i},99}}"} for i in range(12)]},
        {"oneOf": [{"type": "object", "properties": {f"k{i}": {"const": n}}, "minProperties": i} for i in range(300)]},
        {"type": "string", "pattern": "(" * 40 + f"a|b{n}" + "){1,40}" * 40},
        {"patternProperties": {f"^.*{chr(97 + i)}.{{{i}}}{n % 7}": {"minLength": i} for i in range(26)}},
        {"type": "string", "minLength": 10**8 + n},
    ]
    return bombs[number % len(bombs)]


def nested(keyword: str, depth: int, n: int) -> Schema:
    schema: Schema = {"type": "object", "required": [f"z{n}"]}
    for i in range(depth):
        schema = {keyword: [schema, {"properties": {f"p{i}": {"type": "integer"}}}]}
    return schema


def body(schema: Schema, **options: Any) -> dict[str, Any]:
    """A request for JSON of a schema."""
    named = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    ask = [{"role": "user", "content": "Say something."}]
    return {"model": "demo", "messages": ask, "response_format": named, "max_tokens": 100, **options}


async def one_stream(client: httpx.AsyncClient, number: int, rng: random.Random, tally: Tally) -> None:
    """One stream with a schema of its own; every third is left behind after some pieces."""
    mark = f"{number:05}"
    schema = random_object(random.Random(number), 1, mark)
    leave_after = rng.randrange(1, 4) if number % 3 == 0 else None
    began, text, pieces = time.perf_counter(), "", 0
    async with client.stream("POST", "/v1/chat/completions", json=body(schema, stream=True)) as answer:
        if answer.status_code != 200:
            tally.outcomes[str(answer.status_code)] += 1
            return
        async for line in answer.aiter_lines():
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            chunk = json.loads(line.removeprefix("data: "))
            if "error" in chunk:
                tally.outcomes[chunk["error"]["code"]] += 1
                return
            pieces += 1
            if pieces == 2:
                tally.first_piece.append(time.perf_counter() - began)
            text += chunk["choices"][0]["delta"].get("content") or ""
            if pieces == leave_after:
                tally.outcomes["cancelled"] += 1
                return
    tally.seconds.append(time.perf_counter() - began)
    tally.outcomes["finished"] += 1
    check(text, schema, mark, tally)


def check(text: str, schema: Schema, mark: str, tally: Tally) -> None:
    try:
        value = json.loads(text)
        jsonschema.validate(value, schema)
        assert value["mark"] == mark, "the mark of another request"
    except (ValueError, AssertionError, jsonschema.ValidationError) as error:
        tally.wrong.append(f"{mark}: {type(error).__name__}: {str(error)[:100]}: {text[:100]}")


async def one_schema(
    process: subprocess.Popen[str], client: httpx.AsyncClient, number: int, is_bomb: bool, tally: Tally
) -> None:
    """One answer in a schema that no other request has."""
    mark = f"{number:05}"
    rng = random.Random(number)
    schema = bomb(rng, number // 7) if is_bomb else random_object(rng, 1, mark)
    began, processor = time.perf_counter(), processor_seconds(process)
    answer = await client.post("/v1/chat/completions", json=body(schema, max_tokens=60))
    seconds, found = time.perf_counter() - began, answer.json()
    name = "bomb" if is_bomb else "schema"
    if answer.status_code == 200:
        text = found["choices"][0]["message"]["content"]
        tally.outcomes[f"{name}: answered"] += 1
        tally.tokens += found["usage"]["completion_tokens"]
        tally.seconds.append(seconds)
        if not is_bomb:
            check(text, schema, mark, tally)
        return
    tally.outcomes[f"{name}: {found['error']['code']}"] += 1
    if is_bomb:
        tally.refusals.append(seconds)
        tally.processor.append(processor_seconds(process) - processor)


async def together(count: int, at_once: int, work: Callable[[int], Awaitable[None]]) -> None:
    """Works on numbers, so many at once."""
    numbers: Iterator[int] = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await work(number)

    await asyncio.gather(*(worker() for _ in range(at_once)))


def told(name: str, seconds: list[float]) -> str:
    if not seconds:
        return f"{name}: none"
    ranked = sorted(seconds)
    shown = {"p50": ranked[len(ranked) // 2], "p99": ranked[int(0.99 * (len(ranked) - 1))], "max": ranked[-1]}
    return f"{name}: " + ", ".join(f"{key} {value:.2f} s" for key, value in shown.items())


def clients(url: str, connections: int) -> httpx.AsyncClient:
    """A client with so many connections; it closes an idle one before the server does, after 5 s."""
    limits = httpx.Limits(max_connections=connections, keepalive_expiry=2)
    return httpx.AsyncClient(base_url=url, timeout=300, limits=limits)


async def idle(client: httpx.AsyncClient) -> bool:
    """Is no row and no place taken, a second after the last request?"""
    await asyncio.sleep(1)
    text = (await client.get("/metrics")).text
    return all(f'structgen_{kind}{{model="demo"}} 0.0' in text for kind in ("running", "waiting"))


async def streams(process: subprocess.Popen[str], url: str, options: argparse.Namespace) -> None:
    rng, tally = random.Random(0), Tally()
    async with clients(url, options.streams + 10) as client:
        await together(options.streams, options.streams, lambda n: one_stream(client, n, rng, Tally()))
        memory, began = [megabytes(process.pid)], time.perf_counter()

        async def work(number: int) -> None:
            await one_stream(client, number, rng, tally)
            if sum(tally.outcomes.values()) >= len(memory) * options.requests / 4:
                memory.append(megabytes(process.pid))

        await together(options.requests, options.streams, work)
        took = time.perf_counter() - began
        print(f"{options.requests} requests, {options.streams} at once, {took:.1f} s: {dict(tally.outcomes)}")
        print(told("to the first piece", tally.first_piece), "|", told("to the end", tally.seconds))
        print(f"wrong: {len(tally.wrong)} {tally.wrong[:3]}; idle behind: {await idle(client)}; "
              f"memory, MB, before and at each quarter: {[round(each) for each in memory]}")  # fmt: skip


async def schemas(process: subprocess.Popen[str], url: str, options: argparse.Namespace) -> None:
    tally, every = Tally(), max(1, options.schemas // max(options.bombs, 1))
    memory: list[float] = []

    async with clients(url, 100) as client:

        async def work(number: int) -> None:
            if number % max(1, options.schemas // 20) == 0:
                memory.append(megabytes(process.pid))
            await one_schema(process, client, number, number % every == every // 2, tally)

        began = time.perf_counter()
        await together(options.schemas, 8, work)
        took = time.perf_counter() - began
        print(f"{options.schemas} schemas, 8 at once, {took:.1f} s: {dict(tally.outcomes)}")
        print(told("to the end", tally.seconds))
        print(told("refusals", tally.refusals), "|", told("the server's CPU meanwhile", tally.processor))
        print(f"wrong: {len(tally.wrong)} {tally.wrong[:3]}; idle behind: {await idle(client)}; "
              f"load {os.getloadavg()[0]:.1f}")  # fmt: skip
        print(f"memory, MB, at each twentieth: {[round(each) for each in (*memory, megabytes(process.pid))]}")


LARGE_CHATS = {
    "words": "word " * 720_000,
    "Chinese": "".join(chr(0x4E00 + i % 5000) for i in range(1_200_000)),
}
"""Texts of 3.6 MB, both beyond the context of the bundled model."""


async def small_requests(client: httpx.AsyncClient, count: int) -> list[float]:
    """The seconds that small requests take, one after the other."""
    seconds = []
    for number in range(count):
        began = time.perf_counter()
        ask = {"model": "demo", "prompt": f"Text {number}: Ada Moreau lives in Lyon.\nJSON: ", "max_tokens": 16}
        answer = await client.post("/v1/completions", json=ask)
        assert answer.status_code == 200, answer.text
        seconds.append(time.perf_counter() - began)
    return seconds


async def large_chats(process: subprocess.Popen[str], url: str, options: argparse.Namespace) -> None:
    """Small requests beside large ones, whose clients are a process of their own: they cost much time, too."""
    async with clients(url, 4) as client:
        await small_requests(client, 20)
        for name, text in LARGE_CHATS.items():
            print(told("small requests alone", await small_requests(client, options.small)))
            ask = json.dumps({"model": "demo", "messages": [{"role": "user", "content": text}]}, ensure_ascii=False)
            send = [sys.executable, "-c", SENDER, url]
            piped: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            others = [subprocess.Popen(send, **piped) for _ in range(options.large)]
            for other in others:
                assert other.stdin is not None
                other.stdin.write(ask.encode())
                other.stdin.close()
            beside = await small_requests(client, options.small)
            for other in others:
                other.terminate()
            answered = Counter(line for other in others for line in (other.stdout or ()))
            print(told(f"beside {options.large} chats of {len(ask.encode()):,} bytes, {name}", beside))
            print(f"their answers: {dict(answered)}; memory {megabytes(process.pid):.0f} MB")


SENDER = """
import http.client, json, sys
host, ask = sys.argv[1].removeprefix("http://"), sys.stdin.buffer.read()
while True:
    connection = http.client.HTTPConnection(host)
    connection.request("POST", "/v1/chat/completions", ask, {"Content-Type": "application/json"})
    answer = json.loads(connection.getresponse().read())
    print(answer.get("error", {}).get("code"), flush=True)
"""
"""A client that sends the same chat again and again, with little work of its own."""


def main() -> None:
    given = parser(__doc__)
    given.add_argument("--streams", type=int, default=100)
    given.add_argument("--requests", type=int, default=300)
    given.add_argument("--schemas", type=int, default=10_000)
    given.add_argument("--bombs", type=int, default=50)
    given.add_argument("--large", type=int, default=0, help="clients that send large chats; nothing else is measured")
    given.add_argument("--small", type=int, default=150, help="small requests beside them")
    given.add_argument("--schema-seconds", default=str(Settings().schema_seconds))
    options = given.parse_args()
    print(setting())
    process, url = server("--schema-seconds", options.schema_seconds, "--max-tokens", "400", "--log", "info")
    try:
        if options.large:
            asyncio.run(large_chats(process, url, options))
            return
        asyncio.run(streams(process, url, options))
        if options.schemas:
            asyncio.run(schemas(process, url, options))
    finally:
        process.terminate()
