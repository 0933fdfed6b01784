"""Reading several tokens at once after a recurrent state: which models do that exactly, and from how many on it pays.

One token is one step of the recurrence. Several are read by a scan that cuts them into chunks, pads the last one, and
starts from the state. In some models (Jamba, Mamba) the scan silently starts from nothing. So, once per model, the
states after a scan are compared with those after single steps, and with those of a scan after zeroed states. Logits
are not compared: their rounding might hide a scan that forgets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import isqrt
from typing import Generic, TypeVar

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from structgen.models.layers import BOTH, REFUSALS, STATES_ONLY, StateLayer, kinds_of, probe_ids, read_ids
from structgen.models.transfer import device_of

CHUNK = 64
"""Tokens of a chunk where the model has no `chunk_size`: those of the gated delta rule."""

PAID = 64
"""Tokens of a chunk that costs one row about as much as two steps, on a CPU."""

AGREEMENT = {torch.float64: 1e-4, torch.float32: 1e-3, torch.float16: 0.01, torch.bfloat16: 0.05}
"""The relative difference between states that is rounding."""

SNAPSHOT_EVERY = 8
"""Tokens between two snapshots of a recurrent state, and so the most that are read again."""

MAX_SNAPSHOTS = 4
"""The most snapshots of a row, next to the one of its prompt."""


@dataclass(frozen=True, slots=True)
class ReadAhead:
    """How many of the tokens that are pending after a state one forward pass reads.

    Attributes:
        chunk: tokens to which the model's scan pads its input; 0 where padding costs nothing; None for a model that has
            to read token by token.
    """

    chunk: int | None = None

    def columns(self, pending: int, rows: int) -> int:
        """How many tokens of each row one forward pass reads: all `pending` ones, or one."""
        if self.chunk is None or pending < 2 + self.chunk * isqrt(rows) // PAID:
            return 1
        return pending


ONE_BY_ONE = ReadAhead()

T = TypeVar("T")


@dataclass(slots=True)
class Kept(Generic[T]):
    """What is kept of one row: its state, and copies of earlier states to go back to.

    Attributes:
        length: tokens that were read into the state.
        snapshots: the state after the prompt and the last `MAX_SNAPSHOTS` others, each with its length.
    """

    state: T
    length: int = 0
    snapshots: list[tuple[int, T]] = field(default_factory=list)

    def add_snapshot_if_due(self, snapshot: Callable[[], T]) -> None:
        """Keeps a copy of the state, if the last copy is `SNAPSHOT_EVERY` tokens old."""
        if not self.snapshots or self.length >= self.snapshots[-1][0] + SNAPSHOT_EVERY:
            self.snapshots.append((self.length, snapshot()))
            if len(self.snapshots) > MAX_SNAPSHOTS + 1:
                del self.snapshots[1]

    def last_snapshot(self, length: int) -> tuple[int, T] | None:
        """The last copy after at most `length` tokens, with its length; later ones are forgotten."""
        while self.snapshots and self.snapshots[-1][0] > length:
            self.snapshots.pop()
        return self.snapshots[-1] if self.snapshots else None


def has_state_layers(module: PreTrainedModel) -> bool:
    """Has a causal model layers that keep recurrent states?"""
    kinds = {kind for kind, _ in kinds_of(module)}
    return not module.config.is_encoder_decoder and bool(kinds & (STATES_ONLY | BOTH))


@torch.inference_mode()
def at_once_behind_states(module: PreTrainedModel) -> ReadAhead:
    """Compares the model's states after tokens that are read at once with those after single steps.

    Args:
        module: a causal model that `has_state_layers`.
    """
    rest = probe_ids(module)[9:12]
    try:
        together, wiped = (_layers(module, [rest], wipe=wipe) for wipe in (False, True))
        true = _layers(module, [[i] for i in rest])
    except REFUSALS:
        return ONE_BY_ONE
    bound = AGREEMENT.get(module.dtype, 0.05)
    pairs = list(zip(_states(together), _states(true), strict=True))
    if not pairs or any((mine - its).norm() > bound * its.norm() for mine, its in pairs):
        return ONE_BY_ONE
    scanned = list(zip(_recurrent(together), _recurrent(wiped), strict=True))
    if any(torch.equal(mine, other) for mine, other in scanned):
        return ONE_BY_ONE
    sizes = [size for part in module.modules() if isinstance(size := getattr(part, "chunk_size", None), int)]
    return ReadAhead(max(sizes, default=CHUNK) if scanned and device_of(module).type == "cpu" else 0)


def _layers(module: PreTrainedModel, parts: Sequence[Sequence[int]], *, wipe: bool = False) -> list[StateLayer]:
    """The layers with states after eight ids and the parts were read, each by a forward pass of its own.

    Args:
        wipe: set the recurrent states after the beginning to zero.
    """
    cache, length = DynamicCache(config=module.config), 0
    layers = [layer for layer in cache.layers if isinstance(layer, StateLayer)]
    beginning = probe_ids(module)[:8]
    for ids in [beginning, *parts]:
        read_ids(module, ids, length, cache)
        length += len(ids)
        for state in _recurrent(layers) if wipe and ids is beginning else ():
            state.zero_()
    return layers


def _recurrent(layers: Sequence[StateLayer]) -> list[Tensor]:
    return [state for layer in layers for state in layer.recurrent_states.values() if state is not None]


def _states(layers: Sequence[StateLayer]) -> list[Tensor]:
    convolved = [state for layer in layers for state in layer.conv_states.values() if state is not None]
    return [state.float() for state in (*convolved, *_recurrent(layers))]
