"""What is known of a run, as data that can be saved, read again and shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from structgen.errors import OptionError, excerpt, quoted
from structgen.trace.records import Cap, TracedToken, Undone


class FieldReport(BaseModel):
    """How sure the model was of one value, see `Field`."""

    probability: float
    entropy: float | None = None
    values: dict[str, float] = {}


class Usage(BaseModel):
    """What a run cost, see `Stats`."""

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
    """One run: what was asked, what was said, and how.

    Attributes:
        version: of the saved form.
        finish: why it ended, see `Generation.finish`.
        error: why it failed; empty where it did not.
        prompt: what the model read; empty where that is not known.
        thinking: what it thought before; None where it did not.
        thinking_tokens, thinking_undone: of the thinking, as `tokens` and `undone`; what it ends with is among them.
        tokens: of the text; empty where no details were asked for.
        undone: what was said and taken back, in the order in which it was.
        fields: by JSON pointer.
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

    @staticmethod
    def read(path: Path) -> Report:
        """A saved report.

        Raises:
            OptionError: the file is none.
        """
        try:
            return Report.model_validate_json(path.read_text(encoding="utf-8"))
        except ValidationError as error:
            first = error.errors()[0]
            place = "/".join(map(str, first["loc"]))
            raise OptionError(f"{quoted(str(path))} is no saved trace: {place}: {excerpt(first['msg'])}") from error


def places_of_undone(undone: Sequence[Undone], count: int) -> dict[int, list[int]]:
    """Where in the final text each undone text began: by the number of tokens before it, indexes into `undone`.

    A later rollback that went further back has taken away the tokens on which an earlier one stood, so the earlier
    one stands where the later one went.

    Args:
        undone: in the order in which it was.
    """
    places: dict[int, list[int]] = {}
    least = count
    for index in range(len(undone) - 1, -1, -1):
        least = min(least, undone[index].tokens)
        places.setdefault(least, []).insert(0, index)
    return places
