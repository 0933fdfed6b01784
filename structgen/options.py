"""What a user may set: frozen values, validated here and only here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from structgen.errors import OptionError


def _require(condition: bool, name: str, value: object, allowed: str) -> None:
    if not condition:
        raise OptionError(f"{name}={value!r}: expected {allowed}")


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is drawn from the masked logits.

    Attributes:
        temperature: 0 is greedy decoding (the default).
        top_k: keep the `top_k` likeliest tokens; 0 keeps all.
        top_p: keep the smallest set of tokens whose probabilities reach `top_p`, in (0, 1].
        min_p: drop tokens less likely than `min_p` times the likeliest one, in [0, 1).
        seed: the same seed gives the same result, whatever else is in the batch. None draws a fresh one.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None

    def __post_init__(self) -> None:
        finite = math.isfinite(self.temperature) and self.temperature >= 0
        _require(finite, "temperature", self.temperature, "a finite number of at least 0")
        _require(self.top_k >= 0, "top_k", self.top_k, "0 (all) or a positive count")
        _require(0 < self.top_p <= 1, "top_p", self.top_p, "a number in (0, 1]")
        _require(0 <= self.min_p < 1, "min_p", self.min_p, "a number in [0, 1)")

    @property
    def greedy(self) -> bool:
        """True when the likeliest allowed token is always taken."""
        return self.temperature == 0


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one request.

    Attributes:
        max_new_tokens: tokens that may be generated, the end token included.
    """

    max_new_tokens: int = 512

    def __post_init__(self) -> None:
        _require(self.max_new_tokens >= 1, "max_new_tokens", self.max_new_tokens, "at least 1")


@dataclass(frozen=True, slots=True)
class Whitespace:
    """Where white space may stand between JSON's tokens.

    `SPACED` is exactly what `json.dumps` writes by default, `COMPACT` has none, `INDENTED(n)` is exactly
    `json.dumps(indent=n)`, `FLEXIBLE` allows any run of up to `bound` blanks and newlines wherever JSON does.
    """

    kind: str = "spaced"
    indent: int = 0
    bound: int = 0

    SPACED: ClassVar[Whitespace]
    COMPACT: ClassVar[Whitespace]
    FLEXIBLE: ClassVar[Whitespace]

    def __post_init__(self) -> None:
        kinds = ("spaced", "compact", "flexible", "indented")
        _require(self.kind in kinds, "kind", self.kind, f"one of {', '.join(kinds)}")
        _require(self.indent >= 0, "indent", self.indent, "at least 0")
        _require(self.bound >= 0, "bound", self.bound, "at least 0")

    @staticmethod
    def INDENTED(indent: int) -> Whitespace:  # noqa: N802 - reads as one of the named choices
        """The layout of `json.dumps(value, indent=indent)`."""
        return Whitespace("indented", indent=indent)


Whitespace.SPACED = Whitespace("spaced")
Whitespace.COMPACT = Whitespace("compact")
Whitespace.FLEXIBLE = Whitespace("flexible", bound=20)
