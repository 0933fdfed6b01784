"""Several guards as one; an error in a guard's own code names that guard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.callbacks import Calling
from structgen.errors import CallbackError, quoted
from structgen.guards.protocol import Guard, Veto
from structgen.vocabulary import Vocabulary

States = tuple[Any, ...]
"""The state of each guard."""


class GuardSet(Guard[States]):
    """Vetoes what any of the guards vetoes, from the earliest byte that one of them names.

    Its methods raise `CallbackError` where a guard raises what is no error of ours, or answers what it must not.
    """

    def __init__(self, guards: Sequence[Guard[Any]]) -> None:
        self._guards = [(guard, Calling("guard", guard)) for guard in guards]

    def start(self) -> States:
        states = []
        for guard, calling in self._guards:
            with calling:
                states.append(guard.start())
        return tuple(states)

    def feed(self, state: States, text: bytes) -> States | Veto:
        after, first = [], None
        for (guard, calling), own in zip(self._guards, state, strict=True):
            with calling:
                result = guard.feed(own, text)
            if isinstance(result, Veto) and (first is None or result.offset < first.offset):
                first = result
            after.append(result)
        return first or tuple(after)

    def finish(self, state: States) -> Veto | None:
        vetoes = list[Veto]()
        for (_, calling), veto in zip(self._guards, self._answers("finish", state), strict=True):
            if isinstance(veto, Veto):
                vetoes.append(veto)
            elif veto is not None:
                given = f"{calling.whose} gave {quoted(veto)}"
                raise CallbackError(f"{given} as what it has against an end: Veto or None")
        return min(vetoes, key=lambda veto: veto.offset, default=None)

    def begun(self, state: States) -> int:
        first: int = min(self._answers("begun", state))
        return first

    def suspects(self, state: States, vocabulary: Vocabulary) -> NDArray[np.int64] | None:
        each = list(self._answers("suspects", state, vocabulary))
        return None if any(suspects is None for suspects in each) else np.unique(np.concatenate(each))

    def _answers(self, method: str, state: States, *args: Any) -> Iterator[Any]:
        for (guard, calling), own in zip(self._guards, state, strict=True):
            with calling:
                answer = getattr(guard, method)(own, *args)
            yield answer
