"""Builds, checks and times the whole decode loop on whatever device torch has, and prints a short table.

    python benchmarks/gpu.py [--model tiny|1b|8b] [--batch 1 8 64] [--device cuda] [--rounds 3]

Nothing is downloaded and no data is needed: random weights of a real configuration, and a vocabulary of 128,000
tokens made here. Without a device it runs a tiny model on the CPU, so that the script itself is tested everywhere.
Every check says "ok" or what is wrong; the exit status is 1 where one failed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import torch

import structgen as sg
from structgen.decoding.choice import Ask, DeviceChooser, HostChooser
from structgen.decoding.forward import forward_for, is_exact
from structgen.decoding.loop import Batch, evaluating
from structgen.decoding.masking import pack
from structgen.decoding.request import prepare
from structgen.decoding.slots import SlotForward

SIZES: dict[str, dict[str, int]] = {
    "tiny": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4},
    "1b": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32},
    "8b": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32},
}
WIDTHS = {"tiny": 4096, "1b": 128_256, "8b": 128_256}
KEYS = ("name", "category", "price", "currency", "in_stock", "warehouse", "supplier", "discontinued")
ITEM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "category": {"enum": ["kitchen", "garden", "office", "electronics"]},
        "price": {"type": "integer", "minimum": 1, "maximum": 99999},
        "currency": {"enum": ["EUR", "USD", "GBP"]},
        "in_stock": {"type": "boolean"},
        "warehouse": {"enum": ["north", "south"]},
        "supplier": {"type": "string", "maxLength": 12},
        "discontinued": {"type": "boolean"},
    },
    "required": list(KEYS),
    "additionalProperties": False,
}
SCHEMA = {"type": "array", "items": ITEM, "minItems": 3, "maxItems": 3}


class LongestMatch:
    """A tokenizer that always takes the longest token there is."""

    def __init__(self, tokens: list[bytes]) -> None:
        self._ids = {token: i for i, token in enumerate(tokens)}
        self._longest = max(map(len, tokens))

    def encode(self, text: str) -> list[int]:
        data, ids, at = text.encode(), [], 0
        while at < len(data):
            size = next(n for n in range(self._longest, 0, -1) if data[at : at + n] in self._ids)
            ids.append(self._ids[data[at : at + size]])
            at += size
        return ids


def tokens_of(width: int) -> list[bytes]:
    """All bytes, the pieces that JSON is made of, and as many words as there is room for."""
    pieces = ['{"', '": ', '": "', '", "', '"}', '"}, {"', "[{", "}]", "true", "false", ", ", ": "]
    pieces += [piece for key in KEYS for piece in (key, f'"{key}', f'{key}": ')]
    pieces += [value for values in ITEM["properties"].values() for value in values.get("enum", [])]
    known = dict.fromkeys([bytes([byte]) for byte in range(256)] + [piece.encode() for piece in pieces])
    random = np.random.default_rng(0)
    letters = np.frombuffer(b"etaoinshrdlucmfwypvbgkjqxz", np.uint8)
    while len(known) < width - 1:
        word = letters[random.integers(0, 26, random.integers(2, 9))].tobytes()
        known.setdefault(word)
        known.setdefault(b" " + word) if len(known) < width - 1 else None
    return list(known)


def build(size: str, device: torch.device) -> sg.Model:
    from transformers import LlamaConfig, LlamaForCausalLM

    width = WIDTHS[size]
    tokens = tokens_of(width)
    vocabulary = sg.Vocabulary.from_tokens([*tokens, None], end_ids=[width - 1], width=width)
    heads = {"num_key_value_heads": 4 if size == "tiny" else 8, "max_position_embeddings": 8192}
    config = LlamaConfig(vocab_size=width, eos_token_id=width - 1, **heads, **SIZES[size])
    torch.manual_seed(0)
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    with torch.device(device):
        module = LlamaForCausalLM._from_config(config, dtype=dtype)
    return sg.Model(module.eval(), LongestMatch(tokens), vocabulary)


@dataclass
class Check:
    """One claim: `run` gives nothing where it holds, else what is wrong."""

    name: str
    run: Callable[[], str | None]


def checks(model: sg.Model, device: torch.device) -> Iterator[Check]:
    yield Check("rows with places of their own are exact", lambda: exact(model))
    yield Check("device and host choose the same tokens", lambda: same_choice(model, device))
    yield Check("a batch says what its rows say alone", lambda: same_alone(model))
    yield Check("fast-forward changes no text", lambda: same_text(model))
    yield Check("every value is of the schema", lambda: valid(model))
    if device.type == "cuda":
        yield Check("one synchronisation per step", lambda: one_sync(model))


def exact(model: sg.Model) -> str | None:
    if not isinstance(forward_for(model.module), SlotForward):
        return f"the probe chose {type(forward_for(model.module)).__name__}"
    return None if is_exact(model.module, SlotForward(model.module)) else "logits differ"


def same_choice(model: sg.Model, device: torch.device) -> str | None:
    random, width = np.random.default_rng(1), model.vocabulary.width
    host, there = HostChooser(model.vocabulary), DeviceChooser(model.vocabulary, device)
    ways = [sg.Sampling(), sg.Sampling(temperature=0.8, seed=1), sg.Sampling(temperature=1.0, top_p=0.9, seed=2)]
    for share in (0.001, 0.2, 0.9):
        logits = torch.from_numpy(4 * random.standard_normal((3, width), np.float32))
        words = [pack(np.flatnonzero(random.random(width) < share), width) for _ in ways]
        asks = [Ask(w, way, float(random.random())) for w, way in zip(words, ways, strict=True)]
        ours, theirs = host.choose(logits, asks), there.choose(logits.to(device), asks)
        if ours != theirs:
            return f"{ours} on the host, {theirs} on the device"
    return None


def prompts(model: sg.Model, rows: int) -> list[list[int]]:
    return [model.tokenizer.encode("List three products as JSON. " * (1 + row % 5)) for row in range(rows)]


def same_alone(model: sg.Model) -> str | None:
    """Rounding may decide between two tokens that are equally likely: one row of eight may differ in half precision."""
    together = [r.text for r in sg.generate(model, prompts(model, 8), schema=SCHEMA, details=True)]
    alone = [sg.generate(model, p, schema=SCHEMA, details=True).text for p in prompts(model, 8)]
    different = sum(a != b for a, b in zip(together, alone, strict=True))
    return None if different <= (model.module.dtype != torch.float32) else f"{different} of 8 rows differ"


def same_text(model: sg.Model) -> str | None:
    """Of a schema that leaves no choice but among whole words."""
    schema = {
        "type": "array",
        "items": ITEM | {"properties": {k: {"const": k} for k in KEYS}},
        "minItems": 2,
        "maxItems": 2,
    }
    fast, slow = (
        sg.generate(model, prompts(model, 1)[0], schema=schema, details=True, fast_forward=on) for on in (True, False)
    )
    if fast.text != slow.text:
        return "the texts differ"
    return None if fast.stats.forwards < slow.stats.forwards else "no forward was saved"


def valid(model: sg.Model) -> str | None:
    import jsonschema

    way = sg.Sampling(temperature=1.0, seed=3)
    for value in sg.generate(model, prompts(model, 4), schema=SCHEMA, sampling=way):
        if not jsonschema.Draft202012Validator(SCHEMA).is_valid(value):
            return f"invalid: {json.dumps(value)[:80]}"
    return None


def one_sync(model: sg.Model) -> str | None:
    """torch's own debug mode counts what makes the host wait."""
    import warnings

    request = prepare(model, prompts(model, 4), SCHEMA, fast_forward=False)
    with evaluating(model.module), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        batch = Batch(model.module, model.vocabulary, request.sessions)
        for _ in range(4):
            batch.step()
        torch.cuda.set_sync_debug_mode("warn")
        seen.clear()
        for _ in range(10):
            batch.step()
        torch.cuda.set_sync_debug_mode("default")
    waits = [str(w.filename) + f":{w.lineno}" for w in seen if "synchroniz" in str(w.message)]
    return None if len(waits) <= 10 else f"{len(waits)} in 10 steps: {sorted(set(waits))}"


def contestants(model: sg.Model, rows: int, limit: int) -> Iterator[tuple[str, Callable[[], tuple[int, int]]]]:
    """Names and runs; a run gives tokens and characters."""

    def ours(schema: Any, **options: Any) -> tuple[int, int]:
        bounds = sg.Limits(max_new_tokens=limit if schema is None else 4096)
        found = sg.generate(model, prompts(model, rows), schema=schema, limits=bounds, details=True, **options)
        return sum(len(r.token_ids) for r in found), sum(len(r.text) for r in found)

    def theirs(processor: Callable[[], Any] | None) -> tuple[int, int]:
        longest = max(map(len, prompts(model, rows)))
        ids = [[0] * (longest - len(p)) + p for p in prompts(model, rows)]
        mask = [[0] * (longest - len(p)) + [1] * len(p) for p in prompts(model, rows)]
        output = model.module.generate(
            torch.tensor(ids, device=model.module.device),
            attention_mask=torch.tensor(mask, device=model.module.device),
            max_new_tokens=limit if processor is None else 4096,
            do_sample=False,
            pad_token_id=0,
            eos_token_id=None if processor is None else model.vocabulary.end_ids[0],
            logits_processor=None if processor is None else [processor()],
        )
        new = [
            row[: row.index(model.vocabulary.end_ids[0])] if model.vocabulary.end_ids[0] in row else row
            for row in output[:, longest:].tolist()
        ]
        return sum(map(len, new)), sum(len(model.vocabulary.decode(row)) for row in new)

    yield "transformers, unconstrained", lambda: theirs(None)
    yield "structgen, unconstrained", lambda: ours(None)
    yield "structgen, stepping", lambda: ours(SCHEMA, fast_forward=False)
    yield "structgen", lambda: ours(SCHEMA)
    processor = xgrammar_processor(model)
    if processor is not None:
        yield "transformers + xgrammar", lambda: theirs(processor)


def xgrammar_processor(model: sg.Model) -> Callable[[], Any] | None:
    try:
        import xgrammar
    except ImportError:
        return None
    names = [model.vocabulary.token(i) for i in range(model.vocabulary.width)]
    info = xgrammar.TokenizerInfo(names, vocab_size=len(names), stop_token_ids=list(model.vocabulary.end_ids))
    layout = {"any_whitespace": False, "separators": (", ", ": ")}
    compiled = xgrammar.GrammarCompiler(info).compile_json_schema(json.dumps(SCHEMA), **layout)
    return lambda: xgrammar.contrib.hf.LogitsProcessor(compiled)


def timed(run: Callable[[], tuple[int, int]], device: torch.device, rounds: int) -> tuple[float, int, int]:
    """Median seconds of a round, after one that is not counted; its tokens and characters."""
    seconds = []
    for number in range(rounds + 1):
        began = time.perf_counter()
        tokens, characters = run()
        if device.type == "cuda":
            torch.cuda.synchronize()
        if number:
            seconds.append(time.perf_counter() - began)
    return statistics.median(seconds), tokens, characters


def versions() -> str:
    found = []
    for name in ("torch", "transformers", "numba", "xgrammar"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"no {name}")
    return ", ".join(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    on_device = torch.cuda.is_available()
    parser.add_argument("--device", default="cuda" if on_device else "cpu")
    parser.add_argument("--model", choices=tuple(SIZES), default="1b" if on_device else "tiny")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 64] if on_device else [1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    device = torch.device(options.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(f"{options.model} on {name}; {versions()}", flush=True)
    began = time.perf_counter()
    model = build(options.model, device)
    sg.generate(model, prompts(model, 1)[0], schema=SCHEMA)
    print(f"built, and the first value, kernels compiled: {time.perf_counter() - began:.1f} s", flush=True)
    failed = 0
    for check in checks(model, device):
        wrong = check.run()
        failed += wrong is not None
        print(f"{check.name}: {wrong or 'ok'}", flush=True)
    print("\n| batch | | s | tokens | tokens/s | characters/s | ms/token of a row |\n|---|---|---|---|---|---|---|")
    limit = len(sg.generate(model, prompts(model, 1)[0], schema=SCHEMA, details=True, fast_forward=False).token_ids)
    for rows in options.batch:
        for who, run in contestants(model, rows, limit):
            seconds, tokens, characters = timed(run, device, options.rounds)
            speed = f"{seconds:.3f} | {tokens} | {tokens / seconds:,.0f} | {characters / seconds:,.0f}"
            print(f"| {rows} | {who} | {speed} | {1e3 * seconds * rows / tokens:.2f} |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
