"""Guards of the caller's own, asked so that what they do wrong is told as theirs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.callbacks import Calling
from structgen.errors import CallbackError, quoted
from structgen.guards.protocol import Guard, Veto
from structgen.vocabulary import Vocabulary


class Asked(Guard[Any]):
    """A guard with all its answers; what it raises is a `CallbackError`.

    Args:
        guard: that is asked.
    """

    def __init__(self, guard: Guard[Any]) -> None:
        self._guard, self._calling = guard, Calling("guard", guard)

    def start(self) -> Any:
        """See `Guard`."""
        with self._calling:
            return self._guard.start()

    def feed(self, state: Any, text: bytes) -> Any | Veto:
        """See `Guard`."""
        with self._calling:
            return self._guard.feed(state, text)

    def finish(self, state: Any) -> Veto | None:
        """See `Guard`.

        Raises:
            CallbackError: also where it gives neither a veto nor None.
        """
        with self._calling:
            found: Any = self._guard.finish(state)
        if found is not None and not isinstance(found, Veto):
            raise CallbackError(
                f"{self._calling.whose} gave {quoted(found)} as what it has against an end: Veto or None"
            )
        return found

    def begun(self, state: Any) -> int:
        """See `Guard`."""
        with self._calling:
            return self._guard.begun(state)

    def suspects(self, state: Any, vocabulary: Vocabulary) -> NDArray[np.int64] | None:
        """See `Guard`."""
        with self._calling:
            return self._guard.suspects(state, vocabulary)
