"""Do the tests notice? Mutates structgen in some hundred places and tells the share of mutants that tests catch.

    python -m tests.support.mutation record hits.json [pytest's arguments]
    python -m tests.support.mutation judge hits.json [another run's hits.json ...]

All mutants are compiled into one program, each behind a switch: `a < b` becomes
`(a <= b if __mutant__(7) else a < b)`. `record` runs the tests with all switches off and writes which test comes to
which switch, and its CPU time. `judge` forks a process per mutant, turns its switch on and runs the tests that come to
it, short ones first, until one fails. With several files of hits, tests of a later file run only where those before let
a mutant live: so one run tells what a smaller suite loses. Functions that are compiled (kernels) are left as they are.
The sample is the same in each run over the same code: `SEED`, `NUMBER`.
"""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import importlib.util
import json
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

SEED = int(os.environ.get("MUTATION_SEED", "0"))
NUMBER = int(os.environ.get("MUTANTS", "200"))
BUDGET = 20.0
"""CPU seconds of tests per mutant and file of hits; what a mutant makes longer is ended at a multiple of it."""
PACKAGE = Path("structgen").resolve()
LEFT_OUT = ("kernel", "jit", "intrinsic", "overload", "cached_property")
"""A function under a decorator with one of these in its text is not mutated."""
FLIPPED: dict[type[ast.AST], type[Any]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add,
}  # fmt: skip


def mutated(node: ast.expr) -> ast.expr | None:
    """The expression with one thing wrong, or None where this has no way to be wrong."""
    match node:
        case ast.Compare(left, [operator], right) if type(operator) in FLIPPED:
            return ast.Compare(left, [FLIPPED[type(operator)]()], right)
        case ast.BoolOp(operator, values):
            return ast.BoolOp(FLIPPED[type(operator)](), values)
        case ast.BinOp(left, ast.Add() | ast.Sub() as operator, right):
            return ast.BinOp(left, FLIPPED[type(operator)](), right)
        case ast.UnaryOp(ast.Not(), operand):
            return operand
        case ast.Constant(bool(value)):
            return ast.Constant(not value)
        case ast.Constant(int(value)):
            return ast.Constant(value + 1)
    return None


class Switches(ast.NodeTransformer):
    """Puts a switch at each place of a module's functions that can be mutated and is `wanted`; counts them all."""

    def __init__(self, module: str, wanted: dict[str, int] | None) -> None:
        self.module, self.wanted, self.places, self.depth = module, wanted, list[str](), 0

    def switch(self, node: ast.AST, what: str) -> ast.expr | None:
        """The call that asks for the switch of this place; None where it is not wanted."""
        self.places.append(f"{self.module}:{node.lineno}:{node.col_offset} {what}")
        number = (self.wanted or {}).get(self.places[-1])
        name = ast.Name("__mutant__", ast.Load())
        return None if number is None else ast.Call(name, [ast.Constant(number)], [])

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return self.function(node)
        if self.depth and isinstance(node, ast.expr) and (other := mutated(node)) is not None:
            test = self.switch(node, f"{ast.unparse(node)[:60]} -> {ast.unparse(other)[:60]}")
            kept = self.generic_visit(node)
            return kept if test is None else ast.IfExp(test, other, kept)
        if self.depth and isinstance(node, ast.Return) and node.value is not None:
            test = self.switch(node, "return None")
            node.value = self.visit(node.value)
            if test is not None:
                node.value = ast.IfExp(test, ast.Constant(None), node.value)
            return node
        if self.depth and isinstance(node, (ast.If, ast.While, ast.IfExp)):
            test = self.switch(node, f"not {ast.unparse(node.test)[:60]}")
            self.generic_visit(node)
            if test is not None:
                node.test = ast.IfExp(test, ast.UnaryOp(ast.Not(), node.test), node.test)
            return node
        if self.depth and isinstance(node, (ast.Expr, ast.AugAssign)) and not is_docstring(node):
            test = self.switch(node, f"without {ast.unparse(node)[:60]}")
            self.generic_visit(node)
            return node if test is None else ast.If(ast.UnaryOp(ast.Not(), test), [node], [])
        if isinstance(node, (ast.pattern, ast.arguments, ast.JoinedStr, ast.Raise, ast.Assert)):
            return node
        return self.generic_visit(node)

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        """Its body alone; none of a kernel's."""
        if not any(word in ast.unparse(each) for each in node.decorator_list for word in LEFT_OUT):
            self.depth += 1
            body = [self.visit(each) for each in node.body]
            node.body = body
            self.depth -= 1
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node


def is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, (ast.Constant, ast.Yield, ast.Await))


class Loader(importlib.machinery.SourceFileLoader):
    """Compiles a module with its switches, and keeps no bytecode of it."""

    wanted: dict[str, int] = {}  # noqa: RUF012 - the same for all

    def get_code(self, fullname: str) -> CodeType:
        tree = ast.parse(Path(self.path).read_bytes())
        tree = Switches(fullname, self.wanted).visit(tree)
        return compile(ast.fix_missing_locations(tree), self.path, "exec", dont_inherit=True)


class Finder:
    """Finds modules of the package that have a place in the sample."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if not any(place.startswith(f"{name}:") for place in Loader.wanted):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin is not None and spec.origin.startswith(str(PACKAGE)):
            spec.loader = Loader(name, spec.origin)
        return spec


def sample() -> list[str]:
    """The places of the mutants."""
    places: list[str] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        if "kernels" not in parts:
            counted = Switches(".".join(parts).removesuffix(".__init__"), None)
            counted.visit(ast.parse(path.read_bytes()))
            places += counted.places
    print(f"{len(places)} places", file=sys.stderr)
    return random.Random(SEED).sample(places, min(NUMBER, len(places)))


class Recorder:
    """A plugin that knows which test comes to which switch, and what it costs; or lets some tests run only."""

    def __init__(self, only: set[str] | None = None) -> None:
        self.only, self.active, self.hits = only, -1, set[int]()
        self.tests: dict[str, tuple[float, list[int]]] = {}
        self.failed: set[str] = set()

    def __call__(self, number: int) -> bool:
        self.hits.add(number)
        return number == self.active

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self.only is not None:
            items[:] = [item for item in items if item.nodeid in self.only]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        self.hits, began = set(), time.process_time()
        result = yield
        self.tests[item.nodeid] = (round(time.process_time() - began, 3), sorted(self.hits))
        return result

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.add(report.nodeid)


def record(path: Path, arguments: list[str]) -> None:
    """Runs the tests and writes who comes where; what fails anyhow is left out."""
    recorder = Recorder()
    builtins.__mutant__ = recorder  # type: ignore[attr-defined]
    pytest.main([*arguments, "-q", "-p", "no:cacheprovider"], plugins=[recorder])
    passed = {name: told for name, told in recorder.tests.items() if name not in recorder.failed}
    path.write_text(json.dumps({"root": str(Path.cwd()), "tests": passed}))


def caught(number: int, root: str, tests: dict[str, float]) -> str:
    """How a process with this mutant ends that runs these tests: "" where none of them fails."""
    child = os.fork()
    if child == 0:
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        limit = int(time.process_time() + 5 * sum(tests.values()) + 30)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        signal.alarm(5 * limit)  # a mutant may wait for ever
        os.chdir(root)
        recorder = Recorder(set(tests))
        recorder.active = number
        builtins.__mutant__ = recorder  # type: ignore[attr-defined]
        files = sorted({name.partition("::")[0] for name in tests})
        code = pytest.main([*files, "-xq", "-m", "slow or not slow", "-p", "no:cacheprovider"], plugins=[recorder])
        os._exit(code)
    _, status = os.waitpid(child, 0)
    return "time or signal" if os.WIFSIGNALED(status) else {0: "", 1: "fails"}.get(os.WEXITSTATUS(status), "no import")


def covering(tests: dict[str, Any], number: int) -> dict[str, float]:
    """The tests that come to a switch, short ones first, as many as the budget allows."""
    found: dict[str, float] = {}
    for spent, name in sorted((spent, name) for name, (spent, hits) in tests.items() if number in hits):
        if found and sum(found.values()) + spent > BUDGET:
            break
        found[name] = spent
    return found


def judge(paths: list[str]) -> None:
    """Prints a line per mutant, and the share that each file's tests catch, together with those before."""
    builtins.__mutant__ = Recorder()  # type: ignore[attr-defined]
    import structgen.api, structgen.batch_jobs, structgen.calling, structgen.server.app  # noqa: E401, F401, I001 - once

    suites = [json.loads(Path(path).read_text()) for path in paths]
    counts = [0] * len(suites)
    for number, place in enumerate(Loader.wanted):
        done: set[str] = set()
        told = "LIVES"
        for index, suite in enumerate(suites):
            tests = {name: spent for name, spent in covering(suite["tests"], number).items() if name not in done}
            if tests and (how := caught(number, suite["root"], tests)):
                told = f"caught by {paths[index]}: {how}"
                counts[index] += 1
                break
            done |= tests.keys()
        print(f"{number:4} {told if done or told != 'LIVES' else 'NO TEST'}: {place}", flush=True)
    for index, path in enumerate(paths):
        print(f"{sum(counts[: index + 1])} of {len(Loader.wanted)} caught up to {path}")


def main() -> None:
    Loader.wanted = {place: number for number, place in enumerate(sample())}
    sys.meta_path.insert(0, Finder())  # type: ignore[arg-type]
    what, path, *more = sys.argv[1:]
    if what == "record":
        record(Path(path), more)
    else:
        judge([path, *more])


if __name__ == "__main__":
    main()
