"""What `gpu.py` checks before it times anything: every fast path against its plain twin, on the device."""

from __future__ import annotations

import gc
import json
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch

import structgen as sg
from benchmarks.gpu_model import ITEM, KEYS, SCHEMA, prompts
from benchmarks.gpu_race import in_a_line
from structgen.decoding.choosing.choice import Ask, DeviceChooser, HostChooser
from structgen.decoding.choosing.masking import apply_masks, apply_masks_plainly
from structgen.decoding.engine import Engine, decode
from structgen.decoding.loop import Execution
from structgen.decoding.request import CallOptions, prepare
from structgen.given_prompts import GivenPrompts
from structgen.masks.words import pack
from structgen.models.forward import forward_for, why_inexact
from structgen.models.slots import SlotForward
from structgen.models.static import CapturedGraph, StaticSteps, warm_up


@dataclass
class Check:
    """One claim: `run` gives nothing where it holds, else what is wrong."""

    name: str
    run: Callable[[], str | None]

    def outcome(self) -> str:
        """ "ok", or what is wrong; an error is that, too, and the next check runs."""
        try:
            wrong = self.run()
        except Exception as error:
            wrong = in_a_line(error)
        return "ok" if wrong is None else f"FAILED: {wrong}"


def checks(model: sg.Model, device: torch.device) -> Iterator[Check]:
    yield Check("rows with places of their own are exact", lambda: exact(model))
    yield Check("static steps are exact", lambda: exact_by_steps(model))
    yield Check("masks by the kernel and by torch are equal", lambda: same_masks(device))
    yield Check("device and host choose the same tokens", lambda: same_choice(model, device))
    yield Check("the overlapped loop says what the plain one says", lambda: same_order(model))
    yield Check("static steps change no text", lambda: same_by_steps(model))
    yield Check("a batch says what its rows say alone", lambda: same_alone(model))
    yield Check("fast-forward changes no text", lambda: same_text(model))
    yield Check("every value is of the schema", lambda: valid(model))
    yield Check("a repeated schema sends no masks again", lambda: sent_once(model, device))
    yield Check("threads that run at once say what each says alone", lambda: same_in_threads(model))
    if device.type == "cuda":
        yield Check("most forward passes are replays of a graph", lambda: replayed(model))
        yield Check("no synchronisation but the one copy of a step", lambda: no_sync(model))
        yield Check("runs leave no memory behind", lambda: same_memory(model))


def rounded_checks(model: sg.Model, device: torch.device) -> Iterator[Check]:
    """Those that hold in half precision, where two likely tokens are often equally likely."""
    yield Check("rows with places of their own are exact to rounding", lambda: exact(model))
    yield Check("static steps are exact to rounding", lambda: exact_by_steps(model))
    yield Check("device and host choose the same tokens", lambda: same_choice(model, device))
    yield Check("every value is of the schema", lambda: valid(model))
    if device.type == "cuda":
        yield Check("most forward passes are replays of a graph", lambda: replayed(model))
        yield Check("no synchronisation but the one copy of a step", lambda: no_sync(model))


def failing(model: sg.Model, device: torch.device) -> Check:
    """A step that cannot be captured; torch's allocator may not be in order behind one, so nothing else follows."""
    return Check("a capture that fails is told, and the loop goes on", lambda: goes_on(model, device))


def exact(model: sg.Model) -> str | None:
    chosen = forward_for(model.module, graphs=False)
    if not isinstance(chosen, SlotForward):
        return f"the probe chose {type(chosen).__name__}"
    return why_inexact(model.module, SlotForward(model.module)) or None


def exact_by_steps(model: sg.Model) -> str | None:
    """The probe several times over, so that its shapes are captured where they can be."""
    steps = StaticSteps(model.module)
    for number in range(6):
        if why_inexact(model.module, SlotForward(model.module, steps)):
            return f"logits differ in round {number} ({steps.replays} replays so far)"
    return None


def same_masks(device: torch.device) -> str | None:
    random = np.random.default_rng(0)
    for width, columns in ((31, 31), (257, 260), (5001, 5056), (128_256, 128_256), (151_669, 151_936)):
        table = random.integers(-(2**31), 2**31, (7, (width + 31) // 32)).astype(np.int32)
        numbers = torch.tensor([3, 0, 6, 3], dtype=torch.int32, device=device)
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            ours = torch.randn(4, columns, device=device).to(dtype)
            theirs, there = ours.clone(), torch.from_numpy(table).to(device)
            apply_masks(ours, there, numbers, width)
            apply_masks_plainly(theirs, there, numbers, width)
            if not torch.equal(ours, theirs):
                return f"they differ at width {width} of {columns}, {dtype}"
    return None


def same_choice(model: sg.Model, device: torch.device) -> str | None:
    random, width = np.random.default_rng(1), model.vocabulary.width
    host, there = HostChooser(model.vocabulary), DeviceChooser(model.vocabulary, device)
    ways = [sg.Sampling(), sg.Sampling(temperature=0.8, seed=1), sg.Sampling(temperature=1.0, top_p=0.9, seed=2)]
    ways += [sg.Sampling(temperature=0.8, top_k=9, repetition_penalty=1.3, presence_penalty=0.5, seed=3)]
    for share in (0.001, 0.2, 0.9):
        logits = torch.from_numpy(4 * random.standard_normal((len(ways), width), np.float32))
        words = [pack(np.flatnonzero(random.random(width) < share), width) for _ in ways]
        asks = [Ask(w, way, float(random.random()), [1, 2], [3, 3]) for w, way in zip(words, ways, strict=True)]
        ours, theirs = host.draw(logits, asks).tokens(), there.draw(logits.to(device), asks).tokens()
        if ours != theirs:
            return f"{ours} on the host, {theirs} on the device"
    return None


def texts(model: sg.Model, execution: Execution, rows: int = 8) -> list[str]:
    """What a batch says: of every other row with samples of its own, and a banned word."""
    ways = [sg.Sampling(temperature=0.9, seed=row) if row % 2 else sg.Sampling() for row in range(rows)]
    request = prepare(
        model, GivenPrompts.of(prompts(model, rows)), SCHEMA, CallOptions(sampling=ways, banned=["ee"], batch_size=5)
    )
    decode(model.module, model.vocabulary, request.sessions, rows=5, execution=execution)
    return [session.text() for session in request.sessions]


def apart(ours: list[str], theirs: list[str]) -> str | None:
    different = sum(a != b for a, b in zip(ours, theirs, strict=True))
    return f"{different} of {len(ours)} rows differ" if different else None


def same_order(model: sg.Model) -> str | None:
    plain = Execution(overlap=False, graphs=False)
    return apart(texts(model, replace(plain, overlap=True)), texts(model, plain))


def same_by_steps(model: sg.Model) -> str | None:
    plain = Execution(overlap=False, graphs=False)
    return apart(texts(model, replace(plain, graphs=True)), texts(model, plain))


def same_alone(model: sg.Model) -> str | None:
    together = [r.text for r in sg.generate(model, prompts(model, 8), schema=SCHEMA, details=True)]
    alone = [sg.generate(model, p, schema=SCHEMA, details=True).text for p in prompts(model, 8)]
    return apart(together, alone)


def same_text(model: sg.Model) -> str | None:
    """Of a schema that leaves no choice but among whole words."""
    item = ITEM | {"properties": {k: {"const": k} for k in KEYS}}
    schema = {"type": "array", "items": item, "minItems": 2, "maxItems": 2}
    fast, slow = (
        sg.generate(model, prompts(model, 1)[0], schema=schema, details=True, fast_forward=on) for on in (True, False)
    )
    if fast.text != slow.text:
        return "the texts differ"
    return None if fast.stats.forwards < slow.stats.forwards else "no forward was saved"


def same_in_threads(model: sg.Model) -> str | None:
    """Four at once, over caches and graphs of their own: captures take turns."""
    each = [[p] for p in prompts(model, 4)]
    alone = [sg.generate(model, p, schema=SCHEMA, details=True)[0].text for p in each]
    with ThreadPoolExecutor(len(each)) as pool:
        for _ in range(3):
            together = list(pool.map(lambda p: sg.generate(model, p, schema=SCHEMA, details=True)[0].text, each))
            if together != alone:
                return apart(together, alone)
    return None


def valid(model: sg.Model) -> str | None:
    import jsonschema

    way = sg.Sampling(temperature=1.0, seed=3)
    for value in sg.generate(model, prompts(model, 4), schema=SCHEMA, sampling=way):
        if not jsonschema.Draft202012Validator(SCHEMA).is_valid(value):
            return f"invalid: {json.dumps(value)[:80]}"
    return None


def sent_once(model: sg.Model, device: torch.device) -> str | None:
    """The masks of positions that were there before stay where they are."""
    chooser = DeviceChooser(model.vocabulary, device)
    matcher = sg.JsonSchema(SCHEMA).compile(model.vocabulary).matcher()
    logits, sent = torch.zeros((1, model.vocabulary.width), device=device), []
    for _ in range(3):
        chooser.draw(logits, [Ask(matcher.mask(), sg.Sampling())]).tokens()
        sent.append(chooser.rows.uploaded)
    return None if sent[0] == sent[-1] else f"rows sent so far, after each of three equal steps: {sent}"


def replayed(model: sg.Model) -> str | None:
    for _ in range(3):
        run = sg.generate(model, prompts(model, 8), schema=SCHEMA, details=True)[0]
    if run.stats.replayed >= 0.7 * run.stats.forwards:
        return None
    return f"{run.stats.replayed} of {run.stats.forwards}; {run.stats.why_eager or 'shapes were rare'}"


def no_sync(model: sg.Model) -> str | None:
    """torch's own debug mode raises where the host waits for the device; an event is what a step may wait for."""
    for execution in (Execution(overlap=True), Execution(overlap=False)):
        for record in (False, True):
            for _ in range(4):  # what is compiled and captured is, after these
                whole_run(model, execution, record=record, watched=False)
            try:
                whole_run(model, execution, record=record, watched=True)
            except RuntimeError as error:
                return f"{execution}, record={record}: {str(error).splitlines()[0]}, at {place_of(error)}"
    return None


def whole_run(model: sg.Model, execution: Execution, *, record: bool, watched: bool) -> None:
    """Four rows to their ends; behind the prefill, where it is watched, a wait for the device is an error."""
    request = prepare(model, GivenPrompts.of(prompts(model, 4)), SCHEMA)
    batch = Engine(model.module, model.vocabulary, execution=execution).submit(request.sessions, record=record)
    with batch:
        batch.step()
        if watched:
            torch.cuda.set_sync_debug_mode("error")
        try:
            while batch.step():
                pass
        finally:
            torch.cuda.set_sync_debug_mode("default")


def same_memory(model: sg.Model) -> str | None:
    held = []
    for _ in range(3):
        for _ in range(4):
            sg.generate(model, prompts(model, 8), schema=SCHEMA)
        gc.collect()
        torch.cuda.synchronize()
        held.append(torch.cuda.memory_allocated())
    return None if held[2] <= 1.01 * held[1] else f"bytes after each four runs: {held}"


def goes_on(model: sg.Model, device: torch.device) -> str | None:
    if device.type != "cuda":
        return None
    before = sg.generate(model, prompts(model, 2), schema=SCHEMA)
    numbers, stream = torch.ones(4, device=device), torch.cuda.current_stream()

    def waiting() -> torch.Tensor:
        return numbers * numbers.sum().item()

    captured = CapturedGraph(waiting, device, None, warm_up(waiting, device))
    if not captured.why_not.startswith("a capture failed"):
        return f"it was captured: {captured.why_not!r}"
    if torch.cuda.current_stream() != stream:
        return "the thread is on another stream"
    return None if sg.generate(model, prompts(model, 2), schema=SCHEMA) == before else "other values than before"


def place_of(error: Exception) -> str:
    """File and line where it was raised."""
    *_, last = traceback.extract_tb(error.__traceback__)
    return f"{last.filename}:{last.lineno}"
