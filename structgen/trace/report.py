"""A run as data that can be saved, read again and shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from structgen.errors import OptionError, excerpt, quoted
from structgen.trace.records import Cap, TracedToken, Undone


class FieldReport(BaseModel):
    """The certainty of one value, see `Field`."""

    probability: float
    entropy: float | None = None
    values: dict[str, float] = {}
    unknown: float = 0.0


class Usage(BaseModel):
    """The costs of a run, see `Stats`."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    forced: int = 0
    drafted: int = 0
    rollbacks: int = 0
    rolled_back: int = 0
    forwards: int = 0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0


class Report(BaseModel):
    """One run: the prompt, the text, and how it came about.

    Attributes:
        version: the version of the saved form.
        finish: why the text ended, see `Generation.finish`.
        error: why the run failed; empty if it did not.
        prompt: the text that the model read; empty if it is unknown.
        thinking: the model's thinking, or its plan, before the text; None if there was none.
        thinking_tokens, thinking_undone: as `tokens` and `undone`, for the thinking with its closing tag.
        tokens: the tokens of the text; empty without `details=True`.
        undone: texts that were rolled back, in the order of time.
        fields: the certainty of values by JSON pointer.
        json_schema: what the text had to satisfy; None for other constraints, and without one.
        parts: the pointer of a value -> the pointers of the schemas in `json_schema` that it was read against.
    """

    model_config = ConfigDict(ser_json_inf_nan="null")

    version: Literal[1] = 1
    text: str
    is_json: bool
    finish: str
    error: str = ""
    prompt: str = ""
    thinking: str | None = None
    thinking_tokens: list[TracedToken] = []
    thinking_undone: list[Undone] = []
    usage: Usage = Usage()
    tokens: list[TracedToken] = []
    undone: list[Undone] = []
    fields: dict[str, FieldReport] = {}
    caps: list[Cap] = []
    json_schema: Any = None
    parts: dict[str, list[str]] = {}

    @staticmethod
    def read(path: Path) -> Report:
        """Reads a saved report.

        Raises:
            OptionError: the file has no report.
        """
        try:
            return Report.model_validate_json(path.read_text(encoding="utf-8"))
        except ValidationError as error:
            first = error.errors()[0]
            place = "/".join(map(str, first["loc"]))
            raise OptionError(f"{quoted(str(path))} is not a saved trace: {place}: {excerpt(first['msg'])}") from error


def places_of_undone(undone: Sequence[Undone], count: int) -> dict[int, list[int]]:
    """Returns where in the final text each undone text began: the number of tokens before it -> indexes of `undone`.

    A later rollback may go further back than an earlier one: then the earlier one is shown where the later one began.

    Args:
        undone: texts that were rolled back, in the order of time.
        count: the number of tokens of the final text.
    """
    places: dict[int, list[int]] = {}
    least = count
    for index in range(len(undone) - 1, -1, -1):
        least = min(least, undone[index].tokens)
        places.setdefault(least, []).insert(0, index)
    return places
