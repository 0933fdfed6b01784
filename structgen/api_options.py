"""The keyword arguments of `generate`, `stream` and `extract_many`, for type checkers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal

from typing_extensions import TypedDict

from structgen.guards import Guard
from structgen.options import Beams, Limits, Sampling, Thinking, Whitespace
from structgen.patience import CancelEvent
from structgen.phrases.kinds import Wanted


class StreamOptions(TypedDict, total=False):
    """The keyword arguments that every form of `stream` takes."""

    tokenizer: Any
    sampling: Sampling | Sequence[Sampling]
    limits: Limits | Sequence[Limits]
    whitespace: Whitespace
    order: str | Sequence[str]
    fast_forward: bool
    batch_size: int
    guards: Sequence[Guard[Any]] | Sequence[Sequence[Guard[Any]]]
    banned: Sequence[str] | Sequence[Sequence[str]]
    thinking: bool | Thinking | Sequence[bool | Thinking | None] | None
    beams: int | Beams
    canonical: bool | Literal["off", "prefer", "strict"]
    token_healing: bool | None
    phrases: Sequence[str | Wanted] | Sequence[Sequence[str | Wanted]]
    plan: Literal["free"] | None
    prompt_schema: bool
    source: Any
    absent: Literal["ask"] | float | Mapping[str, float] | None
    cancel: CancelEvent | None
    examples: Sequence[tuple[str, Any]]


class Options(StreamOptions, total=False):
    """The keyword arguments that every form of `generate` takes."""

    reask: int


class ExtractOptions(StreamOptions, total=False):
    """The keyword arguments that every form of `extract_many` takes."""

    out: str | PathLike[str] | None
    prompt: str | Callable[[Mapping[str, Any]], Any] | None
    chat: bool
    resume: bool
    progress: bool
    keep: bool | Sequence[str]
    columns: Sequence[str]
    several: int
    encoding: str | None
    max_failures: int | None
    on_entry: Callable[[dict[str, Any]], object] | None
    escape_formulas: bool
