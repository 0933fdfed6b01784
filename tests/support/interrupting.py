"""Interrupts wherever Python code of the package may be interrupted, as Ctrl-C or a signal does it."""

from __future__ import annotations

import ast
import gc
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeVar

import structgen
from structgen.automaton.machine import Automaton
from structgen.values import context

PACKAGE = Path(structgen.__file__).parent
T = TypeVar("T")

_CALLERS = {each.__code__ for each in (Automaton.expand, Automaton._resolve, Automaton._way_out, context._expand_at)}
"""What calls the functions that write states."""
_GIVEN = {"later": 0, "later_block": 1, "shared": 1, "returns": 0, "shorten": 1, "_inner": 0}
"""The methods that are given such a function, and which of their arguments it is."""


class Interrupts:
    """Raises KeyboardInterrupt in the n-th call of the package's own code, where Python looks for signals: before a
    function's first line, or behind what it has called (a function, or one in C, such as a kernel).
    A function that writes states is interrupted early when it is called first.

    Attributes:
        interrupted: the names of the functions that were writing states when an exception was raised.
    """

    def __init__(self) -> None:
        self.interrupted: set[str] = set()
        self._package: dict[CodeType, bool] = {}

    def run(self, action: Callable[[], T], at: int) -> T:
        """The result of `action`, which is interrupted at the place of number `at`, if it has so many.

        No garbage is collected meanwhile: what is raised in a callback of the collector, Python only prints.
        """
        left = at

        def profile(frame: FrameType, event: str, argument: Any) -> None:
            nonlocal left
            code = frame.f_code
            inside = self._package.get(code)
            if inside is None:
                inside = self._package[code] = _interruptible(code)
            if inside and event in ("call", "return", "c_return"):
                new = event == "call" and _is_writer(frame) and code.co_name not in self.interrupted
                left = min(left, 2) - 1 if new else left - 1
                if left == 0:
                    self._note(frame)
                    raise KeyboardInterrupt

        before, collects = sys.getprofile(), gc.isenabled()
        gc.disable()
        sys.setprofile(profile)
        try:
            return action()
        finally:
            sys.setprofile(before)
            if collects:
                gc.enable()

    def stubbornly(self, action: Callable[[], T], first: int, growth: float) -> T:
        """The result of `action`, which is interrupted again and again, each time later than the time before."""
        at = first
        while True:
            try:
                return self.run(action, at)
            except KeyboardInterrupt:
                at = int(at * growth) + 1

    def _note(self, frame: FrameType | None) -> None:
        while frame is not None and frame.f_back is not None:
            if _is_writer(frame):
                self.interrupted.add(frame.f_code.co_name)
            frame = frame.f_back


def _is_writer(frame: FrameType) -> bool:
    return frame.f_back is not None and frame.f_back.f_code in _CALLERS


def _interruptible(code: CodeType) -> bool:
    """Is this code of the package? Not of a generator: what is raised while one is thrown away, Python only prints."""
    return Path(code.co_filename).is_relative_to(PACKAGE) and not code.co_flags & inspect.CO_GENERATOR


def writers_of_states() -> set[str]:
    """The names of all functions in the package that are called to write states, told from its source."""
    found: set[str] = set()
    files = [file for folder in ("automaton", "values", "parts") for file in (PACKAGE / folder).rglob("*.py")]
    for node in (node for file in files for node in ast.walk(ast.parse(file.read_text()))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _GIVEN:
            found.add(_name_of(node.args[_GIVEN[node.func.attr]]))
    return found


def _name_of(argument: ast.expr) -> str:
    """The name of the function that an argument is."""
    if isinstance(argument, ast.Lambda):
        return "<lambda>"
    if isinstance(argument, ast.Call):  # partial(function, ...)
        return _name_of(argument.args[0])
    return argument.attr if isinstance(argument, ast.Attribute) else ast.unparse(argument)
