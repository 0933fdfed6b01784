"""One engine in a process of its own: a job per line on standard input, a result per line on standard output.

A job is `{"schema", "documents": [[token, ...], ...], "end": [token, ...]}`; `measure` describes a result. With
`"order": "any"` the members of objects may come in any order, and with `"whitespace": "flexible"` white space may stand
anywhere between them, where the engine has that choice.
What an engine prints goes to standard error, so that it cannot break the protocol.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import time
from functools import reduce
from typing import Any

import psutil

from benchmarks import engines
from benchmarks.engines import Engine, Refused

# Thread CPU time: other processes of a shared machine do not count.
clock = time.thread_time_ns

# Some of everything, so that no kernel is compiled and no table is built inside the first measured schema.
WARM_UP_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["warm", "cold"]},
        "name": {"type": "string", "minLength": 1, "maxLength": 40},
        "code": {"type": "string", "pattern": "^[A-Z]{2}[0-9]+$"},
        "size": {"type": "integer", "minimum": 3, "maximum": 1234},
        "share": {"type": "number", "minimum": 0, "maximum": 1},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 5},
        "either": {"anyOf": [{"type": "string"}, {"type": "object", "properties": {"a": {"type": "null"}}}]},
        "day": {"type": "string", "format": "date"},
        "solid": {"type": "string", "pattern": "^[^\\s]+$"},
        "both": {"type": "string", "pattern": "^[a-f]", "allOf": [{"pattern": "b$"}], "maxLength": 9},
        "one": {"anyOf": [{"type": "string", "pattern": "^[a-c]+$"}, {"type": "string", "maxLength": 3}]},
        "word": {"type": "string", "enum": ["one", "two", "three"], "pattern": "^t"},
        "rest": {},
    },
    "required": ["kind", "name"],
    "additionalProperties": {"type": "boolean"},
}
MEMORY = 8 << 30
"""Bytes that an engine may hold: a grammar that needs more counts as a crash, and the machine goes on."""
DEEP = 80
"""Levels of a document whose stack outgrows what an engine sets aside at first."""
WARM_UP_DOCUMENT = {
    "kind": "warm",
    "name": "up \u00e4\u4e2d",
    "code": "AB12",
    "size": 77,
    "share": 0.25,
    "tags": ["x", "y z"],
    "either": {"a": None},
    "day": "2024-02-29",
    "solid": "\u00e4\u4e2dx",
    "both": "ab",
    "one": "cab",
    "word": "two",
    "rest": [1, {"b": [True]}],
    "other": False,
}
WARM_UPS: tuple[tuple[Any, Any], ...] = (
    (WARM_UP_SCHEMA, WARM_UP_DOCUMENT),
    ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, ["a", "b"]),  # not every engine takes it
    ({"type": "array"}, reduce(lambda inner, _: [inner], range(DEEP), 1)),
)


def encoded(tokenizer: Any, text: str) -> list[int]:
    """The tokens of a text, without the blank that a SentencePiece tokenizer puts before it."""
    tokens: list[int] = tokenizer.encode(text, add_special_tokens=False)
    if not tokenizer.convert_ids_to_tokens(tokens[:1])[0].startswith("\u2581"):
        return tokens
    before: list[int] = tokenizer.encode("\n", add_special_tokens=False)
    after: list[int] = tokenizer.encode("\n" + text, add_special_tokens=False)
    assert after[: len(before)] == before
    return after[len(before) :]


def measure(engine: Engine, job: dict[str, Any]) -> dict[str, Any]:
    """Run one schema. All times are thread CPU time in ns.

    Returns:
        `refused`: the engine's reason, and nothing else. Or `error`, where the run raised. Or
        `first`: compile, start and first mask together;
        `steps`: every later mask with the advance before it (a later document's first mask has none);
        `ends`: how many of the steps were taken by the end of each document;
        `accepted`: per document, whether every token was allowed and the text may end.
    """
    if engine.order is not None:
        engine.order = job.get("order", "schema")
    if engine.whitespace is not None:
        engine.whitespace = job.get("whitespace", "spaced")
    prepared = engine.prepare(job["schema"])
    end: list[int] = job["end"]
    steps: list[int] = []
    accepted: list[bool] = []
    ends: list[int] = []
    first = None
    began = clock()
    try:
        engine.compile(prepared)
    except Refused as refusal:
        return {"refused": str(refusal)[:300]}
    compiled = clock() - began
    try:
        for document in job["documents"] or [[]]:  # without documents, the first mask alone
            spent, allowed = _start(engine, document, end)
            if first is None:
                first = compiled + spent
            else:
                steps.append(spent)
            if allowed and document:
                allowed = _follow(engine, document, end, steps)
            accepted.append(allowed)
            ends.append(len(steps))
    except Exception as error:  # any engine, any error: it is counted, and the next schema goes on
        return {"error": f"{type(error).__name__}: {error}"[:300]}
    return {"first": first, "steps": steps, "ends": ends, "accepted": accepted[: len(job["documents"])]}


def _start(engine: Engine, document: list[int], end: list[int]) -> tuple[int, bool]:
    """The time of start and first mask, and whether that mask allows what comes first."""
    began = clock()
    engine.start()
    engine.mask()
    spent = clock() - began
    return spent, any(map(engine.allows, document[:1] or end))


def _follow(engine: Engine, document: list[int], end: list[int], steps: list[int]) -> bool:
    """Advance through a document whose first token is allowed; each position's time goes to `steps`."""
    ahead = [[token] for token in document[1:]] + [end]
    for token, wanted in zip(document, ahead, strict=True):
        began = clock()
        engine.advance(token)
        engine.mask()
        steps.append(clock() - began)
        if not any(map(engine.allows, wanted)):
            return False
    return True


def _ready(engine: Engine, name: str, start_up: float, before: int) -> dict[str, Any]:
    return {
        "engine": name,
        "version": engine.version,
        "settings": engine.settings,
        "orders": engine.order is not None,
        "start_up_s": round(start_up, 3),
        "start_up_rss_mb": round((psutil.Process().memory_info().rss - before) / 1e6, 1),
    }


def main(name: str, tokenizer_folder: str) -> None:
    """Build the engine, warm it up, say so, then answer jobs until standard input ends."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast.from_pretrained(tokenizer_folder)
    before = psutil.Process().memory_info().rss
    began = time.perf_counter()
    engine = engines.build(name, tokenizer)
    ready = _ready(engine, name, time.perf_counter() - began, before)
    if engine.lazy:
        for schema, value in WARM_UPS:
            document = encoded(tokenizer, json.dumps(value, ensure_ascii=False))
            result = measure(engine, {"schema": schema, "documents": [document], "end": [tokenizer.eos_token_id]})
            if result.get("accepted") != [True]:
                print(f"{name}: a warm-up did not pass: {result}", file=sys.stderr)
    gc.collect()
    gc.freeze()
    gc.disable()
    print(json.dumps(ready), file=out, flush=True)
    for line in sys.stdin:
        result = measure(engine, json.loads(line))
        print(json.dumps(result), file=out, flush=True)
        gc.collect()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
