"""The engines of the public MaskBench by its runner's interface, over the schemas that are here.

    python benchmarks/public_maskbench/run.py --engine structgen --engine llguidance

As in the public runner, `compile_grammar` is the time to the first mask, and `compute_mask` with `commit_token` the
time of a token; a schema passes if it compiles and each document is accepted or refused as it should be (whether a text
may end is not asked). Times are wall time, as there: mind what else runs. Each engine runs in a process of its own; a
schema that takes longer than the limit counts as a timeout.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import signal
import sys
import time
import types
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from maskbench import DATA, ROOT, read_rows  # noqa: E402
from tokenizer_files import unpacked  # noqa: E402

ENGINES = {
    "structgen": 1,
    "structgen-any": 1,
    "llguidance": 1,
    "xgrammar": 50,
    "xgrammar-compliant": 50,
    "outlines": 150,
}
"""By engine: every n-th schema only. Those with more than 1 would take hours."""
_engine: Any = None


class Engine:
    """The base class that the public runner gives its engines."""

    tokenizer: Any


class _Peer(Engine):
    """A peer through the face that `benchmarks/engines` has."""

    def __init__(self, name: str) -> None:
        self._name = name

    def init(self) -> None:
        from engines import build

        self._engine = build(self._name, self.tokenizer)

    def compile_grammar(self, schema: Any) -> None:
        self._engine.compile(self._engine.prepare(schema))

    def reset(self) -> None:
        self._engine.start()

    def compute_mask(self) -> None:
        self._engine.mask()

    def commit_token(self, token: int) -> bool:
        allowed = self._engine.allows(token)
        if allowed:
            self._engine.advance(token)
        return bool(allowed)


class _XGrammar(Engine):
    def __init__(self, *, compliant: bool) -> None:
        self._options = {"any_whitespace": compliant, "strict_mode": not compliant}

    def init(self) -> None:
        import xgrammar

        info = xgrammar.TokenizerInfo.from_huggingface(self.tokenizer, vocab_size=len(self.tokenizer))
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self._bits = xgrammar.allocate_token_bitmask(1, info.vocab_size)

    def compile_grammar(self, schema: Any) -> None:
        self._grammar = self._compiler.compile_json_schema(json.dumps(schema), **self._options)

    def reset(self) -> None:
        import xgrammar

        self._matcher = xgrammar.GrammarMatcher(self._grammar)

    def compute_mask(self) -> None:
        self._matcher.fill_next_token_bitmask(self._bits)

    def commit_token(self, token: int) -> bool:
        return bool(self._matcher.accept_token(token))


class _Outlines(Engine):
    def init(self) -> None:
        from outlines_core import Vocabulary

        import structgen as sg

        known = sg.Vocabulary.from_tokenizer(self.tokenizer)
        ids: dict[bytes, list[int]] = {}
        for token in range(len(self.tokenizer)):
            if text := known.token(token):
                ids.setdefault(text, []).append(token)
        self._vocabulary = Vocabulary(self.tokenizer.eos_token_id, ids)

    def compile_grammar(self, schema: Any) -> None:
        from outlines_core import Index
        from outlines_core.json_schema import build_regex_from_schema

        self._index = Index(build_regex_from_schema(json.dumps(schema)), self._vocabulary)

    def reset(self) -> None:
        from outlines_core import Guide

        self._guide = Guide(self._index)

    def compute_mask(self) -> None:
        self._allowed = self._guide.get_tokens()

    def commit_token(self, token: int) -> bool:
        allowed = token in self._allowed
        if allowed:
            self._guide.advance(token)
        return allowed


def _made(name: str) -> Any:
    if name.startswith("structgen"):
        package = types.ModuleType("entry")
        package.__path__ = [str(HERE)]
        base = types.ModuleType("entry.engine")
        base.Engine = Engine  # type: ignore[attr-defined]
        sys.modules |= {"entry": package, "entry.engine": base}
        engine = importlib.import_module("entry.structgen_engine").StructgenEngine()
        engine.any_order = name == "structgen-any"
        return engine
    if name.startswith("xgrammar"):
        return _XGrammar(compliant=name != "xgrammar")
    return _Outlines() if name == "outlines" else _Peer(name)


def _start(name: str, folder: str) -> None:
    global _engine
    from transformers import AutoTokenizer

    _engine = _made(name)
    _engine.tokenizer = AutoTokenizer.from_pretrained(folder)
    _engine.init()
    gc.collect()
    gc.freeze()
    gc.disable()


def _late(*_: Any) -> None:
    raise TimeoutError


def one(row: dict[str, Any], limit: int) -> dict[str, Any]:
    """The status of a schema, as the public runner writes it."""
    result: dict[str, Any] = {"id": row["id"], "masks": []}
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(limit)
    start = time.monotonic()
    try:
        _engine.compile_grammar(row["schema"])
        result["first"] = time.monotonic() - start
        for test in row["tests"]:
            _engine.reset()
            text = json.dumps(test["data"], ensure_ascii=False)
            accepted = True
            for token in _engine.tokenizer.encode(text, add_special_tokens=False):
                begin = time.monotonic()
                _engine.compute_mask()
                accepted = _engine.commit_token(token)
                result["masks"].append(time.monotonic() - begin)
                if not accepted:
                    break
            if accepted != test["valid"]:
                result["wrong"] = "invalid accepted" if accepted else "valid refused"
    except TimeoutError:
        result["wrong"] = "timeout"
    except Exception as error:
        result["wrong"] = "error" if "first" in result else "refused"
        result["message"] = repr(error)[:200]
    finally:
        signal.alarm(0)
    gc.collect()
    return result


def measured(name: str, rows: list[dict[str, Any]], folder: Path, limit: int) -> list[dict[str, Any]]:
    """The results of an engine. A schema that kills the process counts as a crash, and a new process goes on."""
    results: list[dict[str, Any]] = []
    while len(results) < len(rows):
        done = len(results)
        with ProcessPoolExecutor(1, get_context("spawn"), _start, (name, str(folder))) as pool:
            try:
                pool.submit(int).result(timeout=300)  # raises where the engine cannot be made
                for row in rows[done:]:
                    results.append(pool.submit(one, row, limit).result(timeout=10 * limit + 120))  # noqa: PERF401
            except (Exception, KeyboardInterrupt) as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                if len(results) == done and not done:
                    raise
                for process in (pool._processes or {}).values():
                    process.kill()
                results.append({"id": rows[len(results)]["id"], "masks": [], "wrong": "crash"})
    return results


CAUSES = ("refused", "valid refused", "invalid accepted", "timeout", "error", "crash")


def table(results: dict[str, list[dict[str, Any]]]) -> str:
    """The results as a table."""
    lines = [
        "| engine | schemas | pass, % | "
        + " | ".join(CAUSES)
        + " | us a token: mean | p50 | p99 | first, us: mean | p50 | p99 |"
    ]
    lines.append("| --- |" + " ---: |" * (lines[0].count("|") - 2))
    for name, rows in results.items():
        causes = Counter(row.get("wrong") for row in rows)
        masks = 1e6 * np.array([us for row in rows for us in row["masks"]] or [np.nan])
        first = 1e6 * np.array([row["first"] for row in rows if "first" in row] or [np.nan])
        times = [f"{value:,.0f}" for each in (masks, first) for value in (each.mean(), *np.percentile(each, (50, 99)))]
        counts = [f"{causes[cause]:,}" for cause in CAUSES]
        lines.append(
            f"| {name} | {len(rows):,} | {100 * causes[None] / len(rows):.2f} | {' | '.join(counts + times)} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Runs the engines and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", action="append", choices=ENGINES)
    parser.add_argument("--limit", type=int, default=20, help="seconds for a schema")
    parser.add_argument("--stride", type=int, default=1, help="every n-th schema, times the engine's own")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "public-maskbench.md")
    options = parser.parse_args()
    rows, results = read_rows(DATA / "maskbench-dev.jsonl.xz"), {}
    with unpacked(DATA / "llama3-tokenizer") as folder:
        for name in options.engine or ENGINES:
            results[name] = measured(name, rows[:: ENGINES[name] * options.stride], folder, options.limit)
            print(table({name: results[name]}), flush=True)
    versions = ", ".join(f"{each} {version(each)}" for each in ("llguidance", "xgrammar", "outlines-core"))
    head = f"# The public MaskBench's runner\n\n{len(rows):,} schemas; {versions}; {options.limit} s a schema.\n\n"
    options.out.write_text(head + table(results), encoding="utf-8")


if __name__ == "__main__":
    main()
