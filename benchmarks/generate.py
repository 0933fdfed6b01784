"""Tokens per second of structgen's loop and of transformers' `generate`, free and with each engine's masks.

    python benchmarks/generate.py [--data FOLDER] [--rounds 5] [--batch 1 8] [--threads 1]

Same model, same prompt, greedy, one process; the contestants take turns, and the median of the rounds counts.
A round is a whole request: matchers or processors made anew, prefill, decoding, and for structgen the parsed
value. What an engine prepares once per tokenizer and schema is in the column "prepare", not in the rounds. The
rows of a batch have one prompt, which structgen reads once; its constrained run feeds forced text at once.
The unconstrained runs write as many tokens as structgen's constrained one, with no end token. In forced spans
llguidance allows only the tokenizer's own tokens, so a model that wants others writes other text with it.

Writes results/generate.json and results/generate.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
LAYOUT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}  # json.dumps' own
BASELINE = "transformers, unconstrained"

Rows = list[list[int]]


@dataclass(frozen=True)
class Case:
    """A model, its prompt, and the schema to fill."""

    name: str
    module: Any
    tokenizer: Any
    prompt: list[int]
    schema: dict[str, Any]


@dataclass
class Contestant:
    """One way to generate: `run(rows)` gives the new token ids of each row."""

    name: str
    run: Callable[[int], Rows]
    prepare_seconds: float = 0.0
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    tokens: int = 0
    texts: list[str] = field(default_factory=list)

    def measure(self, rows: int) -> None:
        began, cpu = time.perf_counter(), time.process_time()
        output = self.run(rows)
        self.seconds.append(time.perf_counter() - began)
        self.cpu_seconds.append(time.process_time() - cpu)
        self.tokens = sum(map(len, output))
        self.texts = [json.dumps(ids) for ids in output]


def structgen_way(case: Case, model: Any, schema: Any, limit: int) -> Callable[[int], Rows]:
    import structgen

    def run(rows: int) -> Rows:
        limits = structgen.Limits(max_new_tokens=limit)
        prompts = [case.prompt] * rows
        results = structgen.generate(model, prompts, schema=schema, limits=limits, details=True)
        return [list(result.token_ids) for result in results]

    return run


def transformers_way(case: Case, limit: int, processor: Callable[[], Any] | None) -> Callable[[int], Rows]:
    import torch

    def run(rows: int) -> Rows:
        ids = torch.tensor([case.prompt] * rows, device=case.module.device)
        output = case.module.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=limit,
            do_sample=False,
            pad_token_id=0,
            eos_token_id=None if processor is None else case.tokenizer.eos_token_id,
            logits_processor=None if processor is None else [processor()],
        )
        new: Rows = output[:, ids.shape[1] :].tolist()
        return [until_end(row, case.tokenizer.eos_token_id) if processor else row for row in new]

    return run


def until_end(ids: list[int], end: int) -> list[int]:
    """The ids before the end token: padding and the end are not counted as speed."""
    return ids[: ids.index(end)] if end in ids else ids


def llguidance_processor(case: Case, width: int) -> Callable[[], Any]:
    import llguidance
    import llguidance.hf
    import llguidance.torch
    from transformers import LogitsProcessor

    owner = llguidance.hf.from_tokenizer(case.tokenizer, n_vocab=width)
    grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(case.schema), overrides=LAYOUT)

    class Processor(LogitsProcessor):  # type: ignore[misc]
        """As its documentation shows it: consume the last token, fill the mask, apply it by its kernel."""

        def __init__(self) -> None:
            self.matchers: list[Any] = []

        def __call__(self, input_ids: Any, scores: Any) -> Any:
            if self.matchers:
                for row, matcher in enumerate(self.matchers):
                    if not matcher.is_stopped():
                        matcher.consume_token(int(input_ids[row, -1]))
            else:
                self.matchers = [llguidance.LLMatcher(owner, grammar) for _ in range(len(input_ids))]
                self.mask = llguidance.torch.allocate_token_bitmask(len(input_ids), owner.vocab_size)
            for row, matcher in enumerate(self.matchers):
                llguidance.torch.fill_next_token_bitmask(matcher, self.mask, row)
            llguidance.torch.apply_token_bitmask_inplace(scores, self.mask.to(scores.device))
            return scores

    return Processor


def xgrammar_processor(case: Case, width: int) -> Callable[[], Any]:
    import xgrammar

    info = xgrammar.TokenizerInfo.from_huggingface(case.tokenizer, vocab_size=width)
    compiler = xgrammar.GrammarCompiler(info)
    compiled = compiler.compile_json_schema(
        json.dumps(case.schema), any_whitespace=False, separators=(", ", ": ")
    )
    return lambda: xgrammar.contrib.hf.LogitsProcessor(compiled)


def contest(case: Case, rows: int, rounds: int) -> list[Contestant]:
    """Every contestant's median over the rounds, in turns, after one round that is not counted."""
    import structgen
    from structgen.constraints import JsonSchema

    width = case.module.get_output_embeddings().weight.shape[0]
    model, seconds = timed(lambda: structgen.Model.of(case.module, case.tokenizer))
    ours = structgen_way(case, model, JsonSchema(case.schema), 2048)
    first, first_seconds = timed(lambda: ours(1))
    limit = len(first[0])
    lark, lark_seconds = timed(lambda: llguidance_processor(case, width))
    xgr, xgr_seconds = timed(lambda: xgrammar_processor(case, width))
    again = timed(lambda: ours(1))[1]
    contestants = [
        Contestant(BASELINE, transformers_way(case, limit, None)),
        Contestant("structgen, unconstrained", structgen_way(case, model, None, limit), seconds),
        Contestant("structgen", ours, seconds + max(first_seconds - again, 0.0)),
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
    from transformers import LlamaConfig, LlamaForCausalLM

    if "demo" in names and (HERE.parent / "structgen" / "demo" / "model").is_dir():
        from structgen.demo import load_demo
        from structgen.demo.show import SENTENCES
        from structgen.demo.tasks import TASKS

        module, tokenizer = load_demo()
        sentences = dict(SENTENCES)
        prompt = tokenizer.encode(TASKS["invoice"].prompt(sentences["invoice"]))
        schema = TASKS["invoice"].model.model_json_schema()
        yield Case("demo model", module, tokenizer, prompt, {**schema, "additionalProperties": False})
    if "random" in names and (data / "llama3-tokenizer").is_dir():
        with llama3_tokenizer(data) as tokenizer:
            torch.manual_seed(0)
            config = LlamaConfig(
                vocab_size=128_256,
                hidden_size=256,
                intermediate_size=688,
                num_hidden_layers=4,
                num_attention_heads=4,
                max_position_embeddings=4096,
                eos_token_id=tokenizer.eos_token_id,
            )
            module = LlamaForCausalLM(config).eval()
            prompt = tokenizer.encode("List three products with their prices as JSON.")
            yield Case("random 4-layer Llama, 128k vocabulary", module, tokenizer, prompt, PRODUCTS)


@contextmanager
def llama3_tokenizer(data: Path) -> Iterator[Any]:
    from transformers import PreTrainedTokenizerFast

    with tempfile.TemporaryDirectory() as folder:
        for file in (data / "llama3-tokenizer").iterdir():
            if file.suffix == ".xz":
                (Path(folder) / file.stem).write_bytes(lzma.decompress(file.read_bytes()))
            else:
                shutil.copy(file, folder)
        yield PreTrainedTokenizerFast.from_pretrained(folder)


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
                    "price": {"type": "integer", "minimum": 1, "maximum": 99999},
                    "in_stock": {"type": "boolean"},
                },
            },
        },
        "currency": {"enum": ["EUR", "USD", "GBP"]},
        "complete": {"type": "boolean"},
    },
}
"""Bounded on purpose: a model with random weights would never end an open string."""


def summary(case: Case, rows: int, contestants: list[Contestant]) -> dict[str, Any]:
    base = contestants[0]
    reference = base.tokens / statistics.median(base.seconds)
    cpu_reference = statistics.median(base.cpu_seconds) / base.tokens
    own = next(c for c in contestants if c.name == "structgen")
    table = []
    for contestant in contestants:
        median = statistics.median(contestant.seconds)
        speed = contestant.tokens / median
        cpu = statistics.median(contestant.cpu_seconds) / contestant.tokens
        table.append(
            {
                "contestant": contestant.name,
                "tokens": contestant.tokens,
                "median_s": round(median, 4),
                "tokens_per_s": round(speed, 1),
                "ratio": round(speed / reference, 3),
                "cpu_ms_per_token": round(1e3 * cpu, 3),
                "cpu_ratio": round(cpu_reference / cpu, 3),
                "prepare_s": round(contestant.prepare_seconds, 3),
                "same_tokens": "yes" if contestant.texts == own.texts else "no",
            }
        )
    return {"case": case.name, "batch": rows, "rows": table}


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


INTRODUCTION = """# Tokens per second

{setting}

Ratio: tokens per second to those of transformers' own `generate` with no constraint. CPU ratio: the same by
the process's CPU time, which other work on the machine disturbs less. Same: the tokens are those of
structgen's constrained run. The rows of a batch have one prompt, which structgen reads once; its constrained run feeds
forced text without asking for each token.
"""

TABLE = """
## {case}, batch {batch}

| | tokens | median s | tokens/s | ratio | CPU ms/token | CPU ratio | prepare s | same |
|---|---|---|---|---|---|---|---|---|
"""

ROW = (
    "| {contestant} | {tokens} | {median_s:.3f} | {tokens_per_s:,.0f} | {ratio:.2f} | {cpu_ms_per_token:.2f} "
    "| {cpu_ratio:.2f} | {prepare_s:.2f} | {same_tokens} |\n"
)


def markdown(setting: dict[str, Any], results: list[dict[str, Any]]) -> str:
    text = INTRODUCTION.format(setting=", ".join(f"{key} {value}" for key, value in setting.items()))
    for result in results:
        text += TABLE.format(**result) + "".join(ROW.format(**row) for row in result["rows"])
    return text


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
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
