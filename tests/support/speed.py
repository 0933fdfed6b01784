"""CPU times on slow and on busy machines."""

from __future__ import annotations

from time import thread_time

from structgen.kernels import COMPILED

_LOOP = 500_000
_USUAL = 0.025
"""CPU seconds that `_spent` takes on a core of usual speed: an estimate, 50 ns a round."""


def at_usual_speed(seconds: float) -> float:
    """CPU seconds measured here, as a core of usual speed would need them.

    Machines differ by more than twice, and one machine does so by what runs beside the test: the same loop is timed
    here, right after what was measured. A machine that is faster than the usual one counts as usual. With plain
    kernels nothing is bounded: they take no time.
    """
    return COMPILED * seconds / max(1.0, min(_spent() for _ in range(3)) / _USUAL)


def _spent() -> float:
    """CPU seconds of a plain loop."""
    began = thread_time()
    sum(number * number for number in range(_LOOP))
    return thread_time() - began
