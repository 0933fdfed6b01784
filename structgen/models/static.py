"""The forward pass of a few tokens over tensors that stay in place, so that a CUDA graph can hold it.

A step's shape is rounded up: rows and attended slots to a bucket, tokens per row to a chunk. The surplus is padding,
which sees one slot and writes to the trash slot. So there are few shapes, and each becomes a graph once it has come
often enough. On other devices the same function runs without a graph.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from structgen.models.prefixes import has_hooks, weights_key
from structgen.models.row import Row
from structgen.models.slot_cache import TRASH, SlotModel, SlotPlaces
from structgen.models.transfer import device_of, near

B = TypeVar("B")

CHUNKS = 1, 2, 4, 8, 16
"""The possible numbers of tokens that each row reads."""

LEAST_SEEN = 128
"""Attended slots are rounded up to this times a power of two, or to the middle between two of these."""

CAPTURE_AFTER = 3
"""A shape is captured when it has come this often."""

MAX_CAPTURED = 96
"""The most graphs of one model; further shapes run without one."""

MAX_KEPT = 4 << 30
"""The most bytes of a cache that stays with a model between two runs; a larger one is freed with its graphs."""

IDS, POSITIONS, SLOTS, WRITTEN, ROWS = range(5)
"""The planes of a step's inputs: ids, their positions in the model's counting, the last slot that they see, the slot
that they write, and the row of the cache, the same in all columns."""

WARM_UPS = 2
"""Runs before a capture, on the stream of captures, in which everything lazy is set up."""

_alone = threading.Lock()
"""Held during a capture. To begin another one torch would wait for the whole device, which CUDA refuses while a stream
is being captured, and both captures would be lost."""

_failed: list[torch.cuda.CUDAGraph] = []
"""Graphs whose capture failed. They are kept, because torch's allocator still asks each whether it is capturing."""


class StepShape(NamedTuple):
    """What must be equal for a step to be run again.

    Attributes:
        rows: of the inputs.
        columns: tokens of each row.
        seen: slots that are attended.
        picked: the cache's rows are picked by number; otherwise they are its first ones.
    """

    rows: int
    columns: int
    seen: int
    picked: bool


def rounded(count: int, least: int = 1) -> int:
    """The smallest of `least` times 1, 2, 4, 8, ... that is at least `count`."""
    while least < count:
        least *= 2
    return least


def seen_bucket(slots: int) -> int:
    """The number of attended slots where `slots` are in use."""
    whole = rounded(slots, LEAST_SEEN)
    between = whole // 4 * 3
    return between if LEAST_SEEN < whole and slots <= between else whole


def planes(rows: Sequence[Row], lines: Sequence[int], places: Sequence[int], shape: StepShape) -> NDArray[np.int64]:
    """A step's inputs: int64[5, shape.rows, shape.columns]. Padding reads id 0 at slot 0 and writes to the trash.

    Args:
        rows: each with at least one pending token, and at most as many as there are columns.
        lines: each row's line in the inputs.
        places: each row's place in the cache.
    """
    inputs = np.zeros((5, shape.rows, shape.columns), np.int64)
    inputs[WRITTEN] = TRASH
    if not shape.picked:
        inputs[ROWS] = np.arange(shape.rows)[:, None]
    if shape.columns == 1:  # most steps: all rows at once
        ids, valid = [row.ids[-1] for row in rows], [row.valid for row in rows]
        positions = [row.valid + row.shift for row in rows]
        inputs[:, lines, 0] = np.array([ids, positions, valid, valid, places])  # in the order of the planes
        return inputs
    for i, row, place in zip(lines, rows, places, strict=True):
        slots, new = np.arange(row.valid, len(row.ids)), slice(row.valid - len(row.ids), None)
        inputs[IDS, i, new], inputs[POSITIONS, i, new] = row.pending, slots + row.shift
        inputs[SLOTS, i, new] = inputs[WRITTEN, i, new] = slots
        inputs[ROWS, i] = place
    return inputs


def cannot_capture(module: PreTrainedModel) -> str:
    """Why no forward pass of a model can be captured, as far as its parts show; empty where one may be."""
    if device_of(module).type != "cuda":
        return "the model is not on a CUDA device"
    if len({parameter.device for parameter in module.parameters()}) > 1:
        return "the model's parts are on several devices"
    if any(hasattr(part, "_hf_hook") for part in module.modules()):
        return "accelerate moves the model's parts while it runs"
    if has_hooks(module):
        return "a replay would not run the hooks on the model's parts"
    return ""


@cache
def side_stream(device: torch.device) -> torch.cuda.Stream:
    """The one stream of a device's warm-ups and captures. Graphs share memory only on the same stream, and what
    libraries keep by stream, such as cuBLAS's workspace, exists before a capture."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def warm_up(run: Callable[[], Tensor], device: torch.device) -> Tensor:
    """Runs a step as often as it needs before a capture, and returns its logits."""
    current, side = torch.cuda.current_stream(device), side_stream(device)
    side.wait_stream(current)
    with torch.cuda.stream(side):
        for _ in range(WARM_UPS):
            logits = run()
    current.wait_stream(side)
    logits.record_stream(current)
    return logits


class CapturedGraph:
    """The graph of a step that was warmed up.

    Args:
        run: the step, over tensors that stay in place; it gives the logits.
        pool: memory shared with graphs that are never replayed at the same time; None for a new one.
        expected: the step's logits for its present inputs.

    Attributes:
        why_not: why it could not be captured, or cannot be relied on; empty where it can.
    """

    def __init__(self, run: Callable[[], Tensor], device: torch.device, pool: Any, expected: Tensor) -> None:
        self.pool, self.why_not = pool, ""
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(device), _alone:
            self._capture(run, side_stream(device))
        if not self.why_not and not near(self.replay(), expected):
            self.why_not = "a replay gave other logits than the step that was captured"

    def _capture(self, run: Callable[[], Tensor], stream: torch.cuda.Stream) -> None:
        current = torch.cuda.current_stream()
        try:  # other threads may allocate and wait meanwhile: that is no error of this capture
            with torch.cuda.graph(self._graph, pool=self.pool, stream=stream, capture_error_mode="thread_local"):
                self._logits = run()
        except RuntimeError as error:  # whatever the reason is
            why = error.__context__ or error  # the error at the capture's end does not name the reason
            self.why_not = f"a capture failed: {str(why).strip().splitlines()[0]}"
            _failed.append(self._graph)
            torch.cuda.set_stream(current)  # torch leaves a thread on the stream whose capture has failed
        else:
            self.pool = self._graph.pool()

    def replay(self) -> Tensor:
        """Runs the graph. The logits are valid until the next replay of any graph of the pool."""
        self._graph.replay()
        return self._logits


class StaticStep:
    """One forward pass of one shape.

    Args:
        model: its cache has room for the shape.

    Attributes:
        inputs: int64[5, rows, columns], the planes; to be filled before a run.
        runs: how often it ran without a graph.
        graph: the step as a graph, once it was captured.
    """

    def __init__(self, model: SlotModel, shape: StepShape, device: torch.device) -> None:
        self._model, self.runs = model, 0
        self.graph: CapturedGraph | None = None
        self.inputs = torch.zeros((5, shape.rows, shape.columns), dtype=torch.int64, device=device)
        rows = self.inputs[ROWS, :, 0]
        target = rows.unsqueeze(1), self.inputs[WRITTEN]
        given = rows if shape.picked else slice(0, shape.rows)
        self._places = SlotPlaces(given, target, shape.seen, least=(0, 0))

    def run(self) -> Tensor:
        """The logits after the last column, float[rows, width], valid until the next run of any step."""
        inputs = self.inputs
        return self._model(inputs[IDS], inputs[POSITIONS], inputs[SLOTS], self._places)[:, 0]


class StaticSteps:
    """All steps over one model's slots.

    Args:
        module: a model that `takes_slots`.

    Attributes:
        replays: runs that were replays of a graph.
        why_not: why no further step will be captured; empty where steps may be.
    """

    def __init__(self, module: PreTrainedModel) -> None:
        self.model = SlotModel(module)
        self.replays = 0
        self.why_not = cannot_capture(module)
        self._device = device_of(module)
        self._steps: dict[StepShape, StaticStep] = {}
        self._pool: Any = None
        self._generation = 0

    def take(self, width: int) -> bool:
        """May rows with at most `width` pending tokens be read by a step? Not before the cache is started."""
        return width <= CHUNKS[-1] and self.model.layers[0].is_initialized and not self.model.tells_prompts

    def step(self, shape: StepShape, rows: int) -> StaticStep:
        """The step of a shape. The cache grows where it must, and graphs over the old one are dropped then.

        Args:
            rows: that the cache must have: of picked rows, more than the shape has.
        """
        for layer in self.model.layers:
            layer.reserve(rounded(rows), shape.seen + 1)
        if self.model.layers[0].generation != self._generation:
            self._forget()
        if shape not in self._steps:
            self._steps[shape] = StaticStep(self.model, shape, self._device)
        return self._steps[shape]

    def run(self, shape: StepShape) -> Tensor:
        """Runs the step whose inputs were filled: float[rows, width], valid until the next run."""
        step = self._steps[shape]
        if step.graph is not None:
            self.replays += 1
            return step.graph.replay()
        step.runs += 1
        captured = sum(each.graph is not None for each in self._steps.values())
        if self.why_not or step.runs < CAPTURE_AFTER or captured >= MAX_CAPTURED:
            return step.run()
        logits = warm_up(step.run, self._device)
        graph = CapturedGraph(step.run, self._device, self._pool, logits)
        self._pool, self.why_not = graph.pool, graph.why_not
        step.graph = None if self.why_not else graph
        return logits

    def _forget(self) -> None:
        for step in self._steps.values():
            step.runs, step.graph = 0, None
        self._pool, self._generation = None, self.model.layers[0].generation


_idle: weakref.WeakKeyDictionary[PreTrainedModel, tuple[Hashable, list[StaticSteps]]] = weakref.WeakKeyDictionary()


def borrow(module: PreTrainedModel, borrower: Callable[[StaticSteps], B]) -> B:
    """Makes an object that uses steps, and takes the steps back, with their graphs, when the object is freed.

    Args:
        module: a model that `takes_slots`.
        borrower: makes the object; nothing else uses its steps meanwhile.
    """
    weights = weights_key(module), cannot_capture(module)
    known = _idle.get(module)
    if known is None or known[0] != weights:
        known = _idle[module] = weights, []
    try:
        steps = known[1].pop()
    except IndexError:
        steps = StaticSteps(module)
    made = borrower(steps)
    weakref.finalize(made, _give_back, known[1], steps).atexit = False
    return made


def _give_back(idle: list[StaticSteps], steps: StaticSteps) -> None:
    """Keeps one set of steps for the next borrower, if its cache is not too large; it is held as long as the model."""
    if not idle and steps.model.nbytes <= MAX_KEPT:
        idle.append(steps)
