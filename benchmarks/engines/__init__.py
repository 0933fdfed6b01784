"""The engines that the benchmarks compare, behind one small face."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

MODULES = {
    "structgen": "structgen",
    "llguidance": "llguidance",
    "xgrammar": "xgrammar",
    "lmfe": "lmformatenforcer",
    "outlines_core": "outlines_core",
}
"""Each engine's name, which is that of its module here, and the module that it needs."""

NAMES = tuple(MODULES)


def installed() -> list[str]:
    """The engines that can run here."""
    return [name for name, module in MODULES.items() if find_spec(module)]


class Refused(Exception):
    """The engine says that it cannot do this schema."""


class Engine(Protocol):
    """One engine with its tokenizer built.

    What is timed: `compile`, `start` and the first `mask` together; then every `advance` with the `mask`
    after it. `prepare` and `allows` are not.
    """

    settings: str
    """What differs from the engine's defaults, for the report."""

    version: str

    lazy: bool
    """Whether anything is compiled or built on first use, so that a warm-up changes what is measured."""

    order: str | None
    """Of an object's members: "schema", or "any" when it is set to that; None where the engine has no such choice."""

    whitespace: str | None
    """Where white space may stand: "spaced", the layout of `json.dumps`, or "flexible"; None as for `order`."""

    def prepare(self, schema: dict[str, Any] | bool | str) -> Any:
        """The schema in the form that `compile` takes. A string is a grammar in Lark's syntax, where there are such."""

    def compile(self, prepared: Any) -> None:
        """Make the grammar, with nothing kept from an earlier one. Raises `Refused`."""

    def start(self) -> None:
        """Begin a new text under the compiled grammar."""

    def mask(self) -> None:
        """Compute the mask of the next token."""

    def allows(self, token: int) -> bool:
        """Whether the last mask has the token."""

    def advance(self, token: int) -> None:
        """Take an allowed token."""


def build(name: str, tokenizer: PreTrainedTokenizerBase) -> Engine:
    """The engine of that name for a Hugging Face tokenizer. Imports only that engine."""
    if name not in NAMES:
        raise ValueError(f"engine {name!r}: expected one of {', '.join(NAMES)}")
    engine: Engine = importlib.import_module(f"benchmarks.engines.{name}").build(tokenizer)
    return engine
