"""The engines of the public MaskBench by its runner's interface, over the schemas that are here.

    python benchmarks/public_maskbench/run.py --engine structgen --engine llguidance

As in the public runner, `compile_grammar` is the time to the first mask, and `compute_mask` with `commit_token` the
time of a token; a schema passes if it compiles and each document is accepted or refused as it should be (whether a text
may end is not asked). Times are CPU time of the calling thread, so that it does not matter what else runs. Each engine
runs in a process of its own; a schema that takes longer than the limit counts as a timeout.

Results are kept schema by schema: the same command goes on where it was stopped. The schemas come in an order of which
each beginning is spread evenly over them all.
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
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from importlib.metadata import distributions, version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from maskbench import DATA, ROOT, read_rows  # noqa: E402
from tokenizer_files import unpacked  # noqa: E402

ENGINES = ("llguidance", "structgen", "structgen-any", "grid", "xgrammar", "xgrammar-compliant", "outlines")
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

        known = sg.engine.Vocabulary.from_tokenizer(self.tokenizer)
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


class _Grid(Engine):
    def init(self) -> None:
        from grid.models.hf_adapter import HFTokenizerAdapter
        from grid.trie.build import build_trie

        self._adapter = HFTokenizerAdapter(self.tokenizer)
        self._trie = build_trie(self._adapter)

    def compile_grammar(self, schema: Any) -> None:
        from grid.errors import LALRConflictError

        try:
            self._guide = self._guided(schema)
        except LALRConflictError:  # what its own second try is for
            self._guide = self._guided(schema, unify_string_values=True)

    def _guided(self, schema: Any, **options: bool) -> Any:
        from grid.grammar.projection import RoleProjection
        from grid.guide import GridGuide
        from grid.jsonschema import compile_json_schema_grammar
        from grid.lalr.reserve import ReserveTable
        from grid.serving.artifact_store import load_or_build_scanner, load_or_compile_tables

        grammar, _ = compile_json_schema_grammar(schema, **options)
        tables = load_or_compile_tables(RoleProjection.full(grammar).build(), frozenset())
        dfa = load_or_build_scanner(grammar)
        reserve = ReserveTable(tables=tables, dfa=dfa, adapter=self._adapter, lexicons=None)
        return GridGuide(tables=tables, dfa=dfa, trie=self._trie, adapter=self._adapter, reserve=reserve)

    def reset(self) -> None:
        from grid.models.vllm_structured import GridGrammarSession

        self._session = GridGrammarSession(self._guide)
        self._bits = np.zeros((1, (self._guide.vocab_size + 31) // 32), np.int32)

    def compute_mask(self) -> None:
        self._session.fill_bitmask(self._bits, 0)

    def commit_token(self, token: int) -> bool:
        allowed = bool(self._bits.view(np.uint32)[0, token >> 5] >> np.uint32(token & 31) & 1)
        return allowed and bool(self._session.accept_tokens("", [token]))


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
    return {"outlines": _Outlines, "grid": _Grid}[name]() if name in ("outlines", "grid") else _Peer(name)


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
    """The status of a schema, as the public runner writes it. Times are in nanoseconds."""
    result: dict[str, Any] = {"id": row["id"], "masks": []}
    signal.signal(signal.SIGPROF, _late)
    signal.setitimer(signal.ITIMER_PROF, limit)
    start = time.thread_time_ns()
    try:
        _engine.compile_grammar(row["schema"])
        result["first"] = time.thread_time_ns() - start
        for test in row["tests"]:
            _engine.reset()
            text = json.dumps(test["data"], ensure_ascii=False)
            accepted = True
            for token in _engine.tokenizer.encode(text, add_special_tokens=False):
                begin = time.thread_time_ns()
                _engine.compute_mask()
                accepted = _engine.commit_token(token)
                result["masks"].append(time.thread_time_ns() - begin)
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
        signal.setitimer(signal.ITIMER_PROF, 0)
    gc.collect()
    return result


def spread(rows: list[dict[str, Any]], within: int = 64) -> list[dict[str, Any]]:
    """All rows in another order: of the numbers 0 to 63 modulo 64 first 0, then 32, then 16 and 48, ..."""
    bits = within.bit_length() - 1
    offsets = sorted(range(within), key=lambda n: int(f"{n:0{bits}b}"[::-1], 2))
    return [row for offset in offsets for row in rows[offset::within]]


def measured(name: str, rows: list[dict[str, Any]], folder: Path, limit: int, until: float, file: Path) -> None:
    """Appends an engine's results to a file. A schema that ends the process is a crash, one that the limit cannot
    stop as a timeout; a new process goes on.

    Args:
        until: no schema is begun after this time, in seconds since the epoch.
    """
    done = len(file.read_text().splitlines()) if file.exists() else 0
    with file.open("a") as out:
        while done < len(rows) and time.time() < until:
            with ProcessPoolExecutor(1, get_context("spawn"), _start, (name, str(folder))) as pool:
                pool.submit(int).result(timeout=600)  # raises where the engine cannot be made
                killed = False
                while done < len(rows) and time.time() < until and not killed:
                    try:
                        result = pool.submit(one, rows[done], limit).result(timeout=5 * limit)
                    except (TimeoutError, BrokenExecutor) as error:
                        wrong, killed = "timeout" if isinstance(error, TimeoutError) else "crash", True
                        result = {"id": rows[done]["id"], "masks": [], "wrong": wrong}
                        for process in (pool._processes or {}).values():
                            process.kill()
                    out.write(json.dumps(result) + "\n")
                    out.flush()
                    done += 1


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
        masks = np.array([time for row in rows for time in row["masks"]] or [np.nan]) / 1e3
        first = np.array([row["first"] for row in rows if "first" in row] or [np.nan]) / 1e3
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
    parser.add_argument("--limit", type=int, default=20, help="seconds of CPU time for a schema")
    parser.add_argument("--minutes", type=float, default=600.0, help="for each engine")
    parser.add_argument("--work", type=Path, default=Path("public-maskbench"), help="a folder for results so far")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "public-maskbench.md")
    options = parser.parse_args()
    options.work.mkdir(exist_ok=True)
    rows = spread(read_rows(DATA / "maskbench-dev.jsonl.xz"))
    with unpacked(DATA / "llama3-tokenizer") as folder:
        for name in options.engine or ENGINES:
            until = time.time() + 60 * options.minutes
            measured(name, rows, folder, options.limit, until, options.work / f"{name}.jsonl")
    files = [file for name in ENGINES if (file := options.work / f"{name}.jsonl").exists()]
    results = {file.stem: [json.loads(line) for line in file.read_text().splitlines()] for file in files}
    names = ("structgen", "llguidance", "xgrammar", "outlines-core", "grid-guardrail")
    installed = {each.name.replace("_", "-") for each in distributions()}
    versions = ", ".join(f"{each} {version(each)}" for each in names if each in installed)
    head = f"# The public MaskBench's runner\n\n{len(rows):,} schemas; {versions}; {options.limit} s a schema.\n\n"
    options.out.write_text(head + table(results), encoding="utf-8")


if __name__ == "__main__":
    main()
