"""What `host.py` measures: steps of the loop with stand-ins for what only a device has."""

from __future__ import annotations

import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

import structgen as sg
from benchmarks.gpu_model import ITEM, WIDTHS, LongestMatch, prompts, tokens_of
from structgen.decoding import loop
from structgen.decoding.choosing import choice
from structgen.decoding.choosing.choice import Ask, DeviceChooser, Drawn
from structgen.decoding.choosing.masking import MaskRows
from structgen.decoding.choosing.sampling import Sampler
from structgen.decoding.engine import Engine
from structgen.decoding.loop import Batch, Execution
from structgen.decoding.request import CallOptions, Request, prepare
from structgen.decoding.session import Session
from structgen.given_prompts import GivenPrompts
from structgen.masks import batch as mask_batch
from structgen.masks.words import Words
from structgen.models.slots import SlotForward
from structgen.models.static import StaticSteps, StepShape

COLUMNS = 8
"""Of the logits, as far as the choice looks at them."""
WARM_UPS = 6
"""Steps that are not counted: the prompt's, and the first ones, which make room."""

SECTIONS: dict[str, tuple[tuple[Any, str], ...]] = {
    "accept": ((Session, "accept"),),
    "find masks": ((loop, "find_masks"),),
    "ask": ((Session, "ask"),),
    "rows of masks": ((MaskRows, "places"),),
    "transfer": ((choice, "upload"), (MaskRows, "write")),
    "draw": ((DeviceChooser, "draw"), (Sampler, "draw")),
    "read ahead": ((Batch, "_read_ahead"), (SlotForward, "read")),
    "leave": ((Batch, "_leave"),),
}
"""Parts of a step, each without what is in another."""


def _structure(row: int) -> dict[str, Any]:
    return {"type": "array", "items": ITEM, "minItems": 6, "maxItems": 6}


def _own(row: int) -> dict[str, Any]:
    item = ITEM | {"properties": {f"{key}_{row}": each for key, each in ITEM["properties"].items()}}
    return {"type": "array", "items": item | {"required": list(item["properties"])}, "minItems": 6, "maxItems": 6}


def _strings(row: int) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string"}, "minItems": 400}


def _bounded(row: int) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string", "maxLength": 4000}, "minItems": 400}


OF_EACH = 16
SOME: dict[int, tuple[Words, list[int]]] = {}
"""So many allowed tokens of each mask: to look at a whole mask again would empty the caches of the processor."""

GREEDY = sg.Sampling()
TOP_P = sg.Sampling(temperature=1.0, top_p=0.9, seed=0)
TOP_P_AND_K = sg.Sampling(temperature=1.0, top_p=0.9, top_k=50, seed=0)


@dataclass(frozen=True)
class Workload:
    """What the rows are asked for.

    Attributes:
        schema: of a row, by its number; None without a constraint.
        sampling: of all rows.
        each_its_own: every row has a schema of its own.
    """

    schema: Callable[[int], dict[str, Any]] | None
    sampling: sg.Sampling = GREEDY
    each_its_own: bool = False


UNCONSTRAINED = "free text"
WORKLOADS = {
    UNCONSTRAINED: Workload(None),
    "structure": Workload(_structure),
    "structure, each row its own": Workload(_own, each_its_own=True),
    "free strings": Workload(_strings),
    "bounded strings": Workload(_bounded),
    "free text, top-p": Workload(None, TOP_P),
    "structure, top-p": Workload(_structure, TOP_P),
    "structure, top-p and top-k": Workload(_structure, TOP_P_AND_K),
}
"""Greedy where nothing else is said."""


@dataclass
class Clock:
    """CPU time of this thread in nanoseconds; what is not to be counted is taken out.

    Attributes:
        by_section: of each section, without the sections within it.
    """

    left_out: int = 0
    by_section: Counter[str] = field(default_factory=Counter)
    _open: list[tuple[str, int]] = field(default_factory=list)
    _since: int = 0

    def now(self) -> int:
        return time.thread_time_ns() - self.left_out

    @contextmanager
    def aside(self) -> Iterator[None]:
        began = time.thread_time_ns()
        yield
        self.left_out += time.thread_time_ns() - began

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, its time a section's."""

        def inside(*args: Any, **kwargs: Any) -> Any:
            before, began = self._since, self.now()
            if self._open:
                self.by_section[self._open[-1][0]] += began - before
            self._open.append((name, began))
            self._since = began
            try:
                return function(*args, **kwargs)
            finally:
                ended = self.now()
                self.by_section[name] += ended - self._since
                self._open.pop()
                self._since = ended

        return inside


class Oracle(DeviceChooser):
    """Chooses as on a device, and is told each row's token: a random one of those that its mask allows."""

    def __init__(self, vocabulary: sg.engine.Vocabulary, device: torch.device, clock: Clock) -> None:
        super().__init__(vocabulary, device)
        self._clock, self._random, self._ids = clock, random.Random(0), vocabulary.end_ids[0]

    def draw(self, logits: Tensor, asks: Sequence[Ask]) -> Drawn:
        """See `Chooser`."""
        drawn = super().draw(logits, asks)
        with self._clock.aside():
            drawn._download.found = [self._token(ask) for ask in asks]
        return drawn

    def _token(self, ask: Ask) -> int:
        if ask.words is None:
            return self._random.randrange(self._ids)
        known = SOME.get(id(ask.words))
        if known is None or known[0] is not ask.words:
            known = SOME[id(ask.words)] = ask.words, self._some(ask.words)
        return self._random.choice(known[1])

    def _some(self, words: Words) -> list[int]:
        at = np.flatnonzero(words).tolist()
        found = [(word, int(words[word])) for word in self._random.choices(at, k=OF_EACH)]
        return [32 * word + self._random.choice([bit for bit in range(32) if bits >> bit & 1]) for word, bits in found]


class Coming:
    """In place of the copy of the chosen ids to the host."""

    def __init__(self, ids: Tensor) -> None:
        self.found: list[int] = []

    def numbers(self) -> list[int]:
        """See `Download`."""
        return self.found


class NoPass(StaticSteps):
    """Static steps that run nothing: what stands in the graph on a device."""

    def __init__(self, module: PreTrainedModel) -> None:
        super().__init__(module)
        self._logits = torch.zeros((256, COLUMNS), device=module.device)

    def run(self, shape: StepShape) -> Tensor:
        """See `StaticSteps`."""
        return self._logits[: shape.rows]


def models(size: str) -> tuple[sg.Model, sg.Model]:
    """A model of next to nothing with a real vocabulary, in the host's memory and on the "meta" device."""
    width = WIDTHS[size]
    tokens = tokens_of(width)
    vocabulary = sg.engine.Vocabulary.from_tokens([*tokens, None], end_ids=[width - 1], width=width)
    shape = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    config = LlamaConfig(vocab_size=width, max_position_embeddings=8192, **shape)
    module, tokenizer = LlamaForCausalLM(config).eval(), LongestMatch(tokens)
    module.lm_head = torch.nn.Linear(8, COLUMNS, bias=False)
    elsewhere = deepcopy(module).to("meta")
    elsewhere.get_input_embeddings()._hf_hook = SimpleNamespace(execution_device="meta")  # the loop asks where to read
    return sg.Model(module, tokenizer, vocabulary), sg.Model(elsewhere, tokenizer, vocabulary)


@contextmanager
def without_a_device(clock: Clock) -> Iterator[None]:
    """The loop as it would run on one."""
    with ExitStack() as stack:
        for owner, name, value in (
            (loop, "forward_for", lambda module, **_: SlotForward(module, NoPass(module))),
            (loop, "chooser_for", lambda vocabulary, device: Oracle(vocabulary, device, clock)),
            (loop, "without_padding", lambda logits, vocabulary: logits[:, :COLUMNS]),
            (choice, "Download", Coming),
            (choice, "apply_masks", lambda scores, *_: scores.add_(0)),  # one kernel on a device
            (mask_batch, "THREADS", 1),
        ):
            stack.enter_context(patch.object(owner, name, value))
        yield


def request_of(model: sg.Model, workload: str, rows: int) -> Request:
    asked = WORKLOADS[workload]
    schemas = [None if asked.schema is None else asked.schema(row) for row in range(rows)]
    given = schemas if asked.each_its_own else schemas[0]
    options = CallOptions(sampling=asked.sampling, limits=sg.Limits(max_new_tokens=4096), fast_forward=False)
    return prepare(model, GivenPrompts.of(prompts(model, rows)), given, options)


def steps_of(model: sg.Model, workload: str, rows: int, steps: int, clock: Clock) -> list[int]:
    """Nanoseconds of each step behind the first ones."""
    found, request = [], request_of(model, workload, rows)
    with without_a_device(clock):
        batch = Engine(model.module, model.vocabulary, execution=Execution(overlap=True)).submit(request.sessions)
        for _ in range(WARM_UPS):
            batch.step()
        clock.by_section.clear()
        for _ in range(steps):
            began = clock.now()
            batch.step()
            found.append(clock.now() - began)
        for session in request.sessions:
            assert session.error is None, session.error
        batch.cancel()
    return found


class Launches(TorchDispatchMode):
    """Counts the operations on the device that are no views."""

    def __init__(self) -> None:
        super().__init__()
        self.counted: Counter[str] = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = function(*args, **(kwargs or {}))
        is_view = any(r.alias_info is not None and not r.alias_info.is_write for r in function._schema.returns)
        tensors = [t for t in torch.utils._pytree.tree_leaves((args, kwargs, result)) if isinstance(t, Tensor)]
        name = function._schema.name.removeprefix("aten::")
        if not is_view and any(t.is_meta for t in tensors) and not name.startswith(("empty", "new_empty")):
            self.counted[name] += 1
        return result


@contextmanager
def by_section(clock: Clock) -> Iterator[None]:
    with ExitStack() as stack:
        for name, owners in SECTIONS.items():
            for owner, attribute in owners:
                stack.enter_context(patch.object(owner, attribute, clock.timed(name, getattr(owner, attribute))))
        yield


def measured(pair: tuple[sg.Model, sg.Model], workload: str, rows: int, steps: int, rounds: int) -> dict[str, Any]:
    """Microseconds of a step, and what it launches."""
    model, elsewhere = pair
    first, *others = ([us / 1e3 for us in steps_of(model, workload, rows, steps, Clock())] for _ in range(rounds + 1))
    best = min(others, key=statistics.median)
    split = [_split(model, workload, rows, steps) for _ in range(2)]
    with Launches() as launches:
        steps_of(elsewhere, workload, rows, 0, Clock())
        launches.counted.clear()
        steps_of(elsewhere, workload, rows, steps, Clock())
    return {
        "median": statistics.median(best),
        "p99": float(np.percentile(best, 99)),
        "first": statistics.median(first),
        "first_p99": float(np.percentile(first, 99)),
        "launches": launches.counted.total() / (WARM_UPS + steps),
        "sections": min(split, key=lambda each: sum(each.values())),
    }


def _split(model: sg.Model, workload: str, rows: int, steps: int) -> dict[str, float]:
    """Microseconds of a step by section; the clock's own are in them."""
    clock = Clock()
    with by_section(clock):
        total = sum(steps_of(model, workload, rows, steps, clock))
    found = {name: clock.by_section[name] for name in SECTIONS}
    found["else"] = total - sum(found.values())
    return {name: spent / steps / 1e3 for name, spent in found.items()}
