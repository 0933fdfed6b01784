"""The probability V that a text of the model is valid, estimated from the tries of adaptive rejection.

A try that begins with Z alive ends with a text with probability V / Z, whatever was known (see `refused_mass`). Give
each try a time, exponential with rate Z. Then the time until a row has its text is exponential with rate V, since
arrivals of rate Z of which a share V / Z counts are arrivals of rate V. So for n texts the sum S of all times has the
gamma law of shape n and rate V, and digamma(n) - log S has the mean log V. Only the Zs are data: the conditional mean
given the Zs has the same mean log V and a smaller variance, which comes from the Zs alone if each try ends with a text.

For an independent exponential E of rate 1, E / S exceeds s with probability phi(s) = prod Z / (Z + s). So the moments
of log S are those of a law whose density is known, and no random number is drawn.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

REACH, STEP = 48.0, 0.1
"""The grid of logarithms for the integral. The integrand is analytic, and falls off as exp(-reach)."""
AT_ONCE = 1 << 12
"""The number of different values of Z that are computed at once."""


class LogValidity(NamedTuple):
    """An estimate of the probability V that a text is valid."""

    estimate: float  # of log V; unbiased, unless it comes from weights
    error: float  # its standard error


def log_validity(tries: Counter[float], texts: int) -> LogValidity:
    """The estimate from all tries of some rows.

    Args:
        tries: the number of tries by their Z, which is above 0.
        texts: the number of tries that ended with a text, at least 1.
    """
    alive, counts = (np.array(list(part), np.float64) for part in (tries.keys(), tries.values()))
    logs = np.arange(-REACH, REACH, STEP) - math.log(float((counts / alive).sum()))
    survival, hazard = np.zeros_like(logs), np.zeros_like(logs)
    for first in range(0, len(alive), AT_ONCE):
        part, times = alive[first : first + AT_ONCE, None], counts[first : first + AT_ONCE, None]
        ratio = np.exp(logs) / part
        survival -= (times * np.log1p(ratio)).sum(axis=0)
        hazard += (times * (ratio / (1 + ratio))).sum(axis=0)
    density = np.exp(survival) * hazard
    density /= density.sum()
    mean = float((density * logs).sum())  # of log E - log S
    variance = float((density * (logs - mean) ** 2).sum())
    below = np.arange(1, texts, dtype=np.float64)
    spread = math.pi**2 / 3 - float((1 / below**2).sum()) - variance
    return LogValidity(min(mean + float((1 / below).sum()), 0.0), math.sqrt(max(spread, 0.0)))


def log_validity_of_weights(log_weights: Sequence[float], tries: int) -> LogValidity:
    """The estimate from tries that weigh: the logarithm of their mean weight.

    It converges to log V, but is biased, since the last try of a row always has a text.

    Args:
        tries: the number of tries, including those without a text, whose weight is 0.

    Returns:
        The error is infinite after a single try.
    """
    logs = np.array(log_weights)
    weights = np.exp(logs - logs.max())
    mean = float(weights.sum()) / tries
    spread = float(((weights - mean) ** 2).sum()) + (tries - len(weights)) * mean**2
    error = math.inf if tries == 1 else math.sqrt(spread / (tries - 1) / tries) / mean
    return LogValidity(min(math.log(mean) + float(logs.max()), 0.0), error)
