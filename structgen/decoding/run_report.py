"""What a run tells at its beginning and its end, see `telemetry`: counts, times and reasons, no text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

from structgen.decoding.generation import Stats
from structgen.errors import StructgenError
from structgen.telemetry import Attribute, Operation


class Ended(Protocol):
    """A row that is over."""

    @property
    def texts(self) -> Sequence[Any]:
        """Its sessions, best first, each with its score."""

    @property
    def done(self) -> bool:
        """Did it come to its end?"""

    @property
    def error(self) -> StructgenError | None:
        """Why it has failed."""


def begun(model: Any, rows: int) -> Operation:
    """The operation of a run that begins.

    Args:
        rows: prompts; one text each.
    """
    name = getattr(model, "name_or_path", "") or type(model).__name__
    return Operation(
        "generate", {"gen_ai.operation.name": "generate_content", "gen_ai.request.model": name, "structgen.rows": rows}
    )


def end(operation: Operation, rows: Sequence[Ended], stats: Sequence[Stats]) -> None:
    """The run is over, or was left.

    Args:
        stats: of each row.
    """
    finishes = Counter(_finish(row) for row in rows)
    sessions = [row.texts[0][0] for row in rows if row.texts]
    known: dict[str, Attribute] = {
        "gen_ai.usage.input_tokens": sum(len(session.prompt) for session in sessions),
        "gen_ai.usage.output_tokens": sum(each.completion_tokens for each in stats),
        "gen_ai.response.finish_reasons": sorted(finishes),
        "structgen.forced_tokens": sum(each.fast_forwarded for each in stats),
        "structgen.drafted_tokens": sum(each.drafted for each in stats),
        "structgen.rollbacks": sum(each.rollbacks for each in stats),
        "structgen.rolled_back_tokens": sum(each.rolled_back for each in stats),
        "structgen.forwards": stats[0].forwards,
        "structgen.cut_short": finishes["closed_by_budget"],
        "structgen.failed": finishes["error"],
    }
    errors = [row.error for row in rows if row.error is not None]
    operation.end(known, errors[0] if len(errors) == len(rows) else None)


def _finish(row: Ended) -> str:
    if row.error is not None:
        return "error"
    finish = row.texts[0][0].finish if row.texts else None
    return str(finish) if row.done and finish else "left"
