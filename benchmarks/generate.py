"""Time per character of structgen's loop and of transformers' `generate`, free and with each engine's masks.

    python benchmarks/generate.py [--data FOLDER] [--rounds 5] [--batch 1 8] [--threads 1]

Same model, same prompts, greedy, one process; the contestants take turns, and the median of the rounds counts. A round
is a whole request: matchers or processors made anew, prefill, decoding, and for structgen the parsed value. What an
engine prepares once per tokenizer and schema is in the column "prepare", not in the rounds. Each row of a batch has a
prompt of its own.

What counts is wall time per character of text: engines that leave a model different tokens get texts of different
lengths from it. The unconstrained runs write as many tokens as the tokenizer makes of the texts of structgen's
constrained run, without an end token, and count as having written those characters: what a model with random weights
really writes there is another text. "Valid" counts the rows whose whole text the schema accepts.

Writes results/generate.json and results/generate.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from processors import Factory, llguidance_processor, xgrammar_processor
from tokenizer_files import unpacked

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
BASELINE, OURS = "transformers, unconstrained", "structgen"
BOUND, PEER_BOUND = 1.0, 0.7
"""What structgen's time per character may be, by that of the unconstrained `generate` and by the best peer's."""


@dataclass(frozen=True)
class Case:
    """A model, the prompts of up to eight rows, and the schema to fill."""

    name: str
    module: Any
    tokenizer: Any
    prompts: list[list[int]]
    schema: dict[str, Any]


@dataclass
class Contestant:
    """One way to generate: `run(rows)` gives the text of each row."""

    name: str
    run: Callable[[int], list[str]]
    prepare_seconds: float = 0.0
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def measure(self, rows: int) -> None:
        began, cpu = time.perf_counter(), time.process_time()
        self.texts = self.run(rows)
        self.seconds.append(time.perf_counter() - began)
        self.cpu_seconds.append(time.process_time() - cpu)


def structgen_way(case: Case, model: Any, schema: Any, limits: list[int]) -> Callable[[int], list[str]]:
    import structgen

    def run(rows: int) -> list[str]:
        bounds = [structgen.Limits(max_new_tokens=limit) for limit in limits[:rows]]
        values = structgen.generate(model, case.prompts[:rows], schema=schema, limits=bounds)
        return values if schema is None else [json.dumps(value, ensure_ascii=False) for value in values]

    return run


def transformers_way(case: Case, limit: int, processor: Callable[[], Any] | None) -> Callable[[int], list[str]]:
    import torch

    def run(rows: int) -> list[str]:
        prompts = case.prompts[:rows]
        width = max(map(len, prompts))
        ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        output = case.module.generate(
            ids,
            attention_mask=mask,
            max_new_tokens=limit,
            do_sample=False,
            pad_token_id=0,
            eos_token_id=None if processor is None else case.tokenizer.eos_token_id,
            logits_processor=None if processor is None else [processor()],
        )
        new = [until_end(row, case.tokenizer.eos_token_id) for row in output[:, width:].tolist()]
        return [case.tokenizer.decode(row) for row in new]

    return run


def until_end(ids: list[int], end: int) -> list[int]:
    """The ids before the end token and the padding behind it."""
    return ids[: ids.index(end)] if end in ids else ids


def llguidance_peer(case: Case, width: int) -> Factory:
    import llguidance.hf

    return llguidance_processor(llguidance.hf.from_tokenizer(case.tokenizer, n_vocab=width), case.schema)


def xgrammar_peer(case: Case, width: int) -> Factory:
    import xgrammar

    info = xgrammar.TokenizerInfo.from_huggingface(case.tokenizer, vocab_size=width)
    return xgrammar_processor(info, case.schema)


def contest(case: Case, rows: int, rounds: int) -> list[Contestant]:
    """Every contestant's rounds, in turns, after one that is not counted."""
    import structgen
    from structgen.constraints import JsonSchema

    width = case.module.get_output_embeddings().weight.shape[0]
    model, seconds = timed(lambda: structgen.Model.of(case.module, case.tokenizer))
    ours = structgen_way(case, model, JsonSchema(case.schema), [2048] * rows)
    texts, first_seconds = timed(lambda: ours(rows))
    lengths = [len(case.tokenizer.encode(text, add_special_tokens=False)) for text in texts]
    lark, lark_seconds = timed(lambda: llguidance_peer(case, width))
    xgr, xgr_seconds = timed(lambda: xgrammar_peer(case, width))
    again = timed(lambda: ours(rows))[1]
    free = structgen_way(case, model, None, lengths)
    contestants = [
        Contestant(BASELINE, transformers_way(case, max(lengths), None)),
        Contestant("structgen, unconstrained", free, seconds),
        Contestant(OURS, ours, seconds + max(first_seconds - again, 0.0)),
        Contestant("transformers + llguidance", transformers_way(case, 2048, lark), lark_seconds),
        Contestant("transformers + xgrammar", transformers_way(case, 2048, xgr), xgr_seconds),
    ]
    for number in range(rounds + 1):
        for contestant in contestants:
            contestant.measure(rows)
            if number == 0:
                contestant.seconds.clear()
                contestant.cpu_seconds.clear()
    return contestants


def timed(step: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    result = step()
    return result, time.perf_counter() - began


def cases(data: Path, names: list[str]) -> Iterator[Case]:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    if "demo" in names and (HERE.parent / "structgen" / "demo" / "model").is_dir():
        from structgen.demo import load_demo
        from structgen.demo.show import SENTENCES
        from structgen.demo.tasks import TASKS

        module, tokenizer = load_demo()
        sentence = dict(SENTENCES)["invoice"]
        texts = [TASKS["invoice"].prompt(sentence.replace("7730", f"773{n}")) for n in range(8)]
        prompts = [tokenizer.encode(text) for text in texts]
        schema = TASKS["invoice"].model.model_json_schema()
        yield Case("demo model", module, tokenizer, prompts, {**schema, "additionalProperties": False})
    if "random" in names and (data / "llama3-tokenizer").is_dir():
        with unpacked(data / "llama3-tokenizer") as folder:
            tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
            torch.manual_seed(0)
            config = LlamaConfig(
                vocab_size=128_256,
                hidden_size=256,
                intermediate_size=688,
                num_hidden_layers=8,
                num_attention_heads=4,
                max_position_embeddings=4096,
                eos_token_id=tokenizer.eos_token_id,
            )
            module = LlamaForCausalLM(config).eval()
            texts = [f"List three products of shop {n} with their prices as JSON." for n in range(8)]
            prompts = [tokenizer.encode(text) for text in texts]
            yield Case("random 8-layer Llama, 128k vocabulary", module, tokenizer, prompts, PRODUCTS)


PRODUCTS = {
    "type": "object",
    "additionalProperties": False,
    "required": ["products", "currency", "complete"],
    "properties": {
        "products": {
            "type": "array",
            "minItems": 3,
            "maxItems": 3,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["name", "category", "price", "in_stock"],
                "properties": {
                    "name": {"type": "string", "maxLength": 24},
                    "category": {"enum": ["kitchen", "garden", "office", "electronics"]},
                    "price": {"enum": [9, 19, 49, 99, 199, 499, 999]},
                    "in_stock": {"type": "boolean"},
                },
            },
        },
        "currency": {"enum": ["EUR", "USD", "GBP"]},
        "complete": {"type": "boolean"},
    },
}
"""Bounded on purpose: a model with random weights would never end an open string, or the zeros of 12.000."""


def summary(case: Case, rows: int, contestants: list[Contestant]) -> dict[str, Any]:
    """Times per character, and their ratios to the unconstrained `generate` of transformers."""
    from jsonschema import Draft202012Validator

    ours = next(c for c in contestants if c.name == OURS)
    accepts = Draft202012Validator(case.schema).is_valid
    table: list[dict[str, Any]] = []
    for contestant in contestants:
        free = contestant.name.endswith("unconstrained")
        characters = sum(map(len, ours.texts if free else contestant.texts))
        wall = statistics.median(contestant.seconds) / characters
        cpu = statistics.median(contestant.cpu_seconds) / characters
        base = table[0] if table else {"us_per_character": 1e6 * wall, "cpu_us_per_character": 1e6 * cpu}
        table.append(
            {
                "contestant": contestant.name,
                "characters": characters,
                "median_s": round(statistics.median(contestant.seconds), 4),
                "us_per_character": round(1e6 * wall, 1),
                "ratio": round(1e6 * wall / base["us_per_character"], 3),
                "cpu_us_per_character": round(1e6 * cpu, 1),
                "cpu_ratio": round(1e6 * cpu / base["cpu_us_per_character"], 3),
                "prepare_s": round(contestant.prepare_seconds, 3),
                "valid": None if free else sum(accepts(parsed(text)) for text in contestant.texts),
            }
        )
    peers = [row for row in table if row["valid"] == rows and row["contestant"] != OURS]
    own = next(row for row in table if row["contestant"] == OURS)
    best = min((row["us_per_character"] for row in peers), default=None)
    to_peer = None if best is None else round(own["us_per_character"] / best, 3)
    return {"case": case.name, "batch": rows, "rows": table, "to_free": own["ratio"], "to_peer": to_peer}


def parsed(text: str) -> Any:
    """The value of a JSON text; None, which no schema here accepts, for any other."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def machine(threads: int) -> dict[str, Any]:
    from report import machine as base

    names = ("structgen", "torch", "llguidance", "xgrammar")
    found: dict[str, Any] = {**base(), "threads": threads, "load": round(os.getloadavg()[0], 1)}
    return found | {name: installed(name) for name in names}


def installed(name: str) -> str:
    try:
        return version(name)
    except ModuleNotFoundError:
        return "from the source tree"


INTRODUCTION = """# Time per character

{setting}

Ratio: wall time per character by that of transformers' own `generate` with no constraint, which writes as many tokens
as the tokenizer makes of structgen's texts. CPU ratio: the same by the process's CPU time, which other work on the
machine disturbs less. Valid: rows whose whole text the schema accepts. structgen runs as it does by default: forced
text is fed without asking, and what may be copied from the prompt is read along as a draft; processors cannot do that.
"""

TABLE = """
## {case}, batch {batch}

Against unconstrained `generate`: {to_free} (at most {bound}). Against the best peer: {to_peer} (at most {peer_bound}).

| | characters | median s | us/character | ratio | CPU us/character | CPU ratio | prepare s | valid |
|---|---|---|---|---|---|---|---|---|
"""

ROW = (
    "| {contestant} | {characters} | {median_s:.3f} | {us_per_character:,.0f} | {ratio:.2f} "
    "| {cpu_us_per_character:,.0f} | {cpu_ratio:.2f} | {prepare_s:.2f} | {shown_valid} |\n"
)


def markdown(setting: dict[str, Any], results: list[dict[str, Any]]) -> str:
    text = INTRODUCTION.format(setting=", ".join(f"{key} {value}" for key, value in setting.items()))
    for result in results:
        text += TABLE.format(**result, bound=BOUND, peer_bound=PEER_BOUND)
        for row in result["rows"]:
            text += ROW.format(**row, shown_valid="" if row["valid"] is None else row["valid"])
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.environ.get("STRUCTGEN_DATA", HERE.parent.parent / "shared" / "data")
    parser.add_argument("--data", type=Path, default=Path(default))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--models", nargs="+", choices=("demo", "random"), default=["demo", "random"])
    options = parser.parse_args()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import torch

    torch.set_num_threads(options.threads)
    setting = machine(options.threads)
    results = []
    for case in cases(options.data, options.models):
        for rows in options.batch:
            results.append(summary(case, rows, contest(case, rows, options.rounds)))
            print(markdown(setting, results[-1:]), flush=True)
    RESULTS.mkdir(exist_ok=True)
    found = {"setting": setting, "results": results}
    (RESULTS / "generate.json").write_text(json.dumps(found, indent=1) + "\n")
    (RESULTS / "generate.md").write_text(markdown(setting, results))


if __name__ == "__main__":
    main()
