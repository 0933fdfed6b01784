"""CPU time per finished value of a batch in other engines than torch: llama.cpp on a GGUF file, and vLLM.

    python -m benchmarks batch_engines --engine llama.cpp [--model smollm2 | --model qwen --gguf FILE] [--write]
    python -m benchmarks batch_engines --engine vllm [--model smollm2] [--write]

The texts and the schema are those of `batches`, with one schema for all rows and with a schema for each that nobody has
used before, whose compilation counts. llama.cpp: structgen decodes all rows at once; llama.cpp with its own grammar
takes text after text, as llama-cpp-python does. vLLM, where it is installed (its build for CPUs): with xgrammar, and
with structgen as back end, float32, one thread. One process, CPU time of all its threads. Nothing is remembered from
one batch to the next.

`--write` replaces the rows of the same engine, model and number of rows in results/batch-engines.json and the page
beside it. vLLM starts in one process only as often as it has back ends: take each number of rows in a run of its own.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "STRUCTGEN_VLLM": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
os.environ |= {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
os.environ |= {"VLLM_USE_V2_MODEL_RUNNER": "0"}

import torch
from transformers import AutoTokenizer

import structgen as sg
from benchmarks.batches import LONGEST, is_valid, own_schema
from benchmarks.quality_texts import cases
from benchmarks.report import RESULTS, parser, setting, table, write
from structgen.models.known import PACKAGED, converted_folder

SAVED = RESULTS / "batch-engines.json"
Way = Callable[[list[list[int]], list[dict[str, Any]]], list[str]]


@dataclass(frozen=True)
class Row:
    """What one way has taken for batches of so many rows: seconds of CPU per value, and how many texts were valid."""

    engine: str
    model: str
    way: str
    schemas: str
    rows: int
    texts: int
    valid: int
    seconds: float
    machine: str


def llama_cpp_ways(file: Path, rows: int) -> dict[str, Way]:
    from llama_cpp import Llama, LlamaGrammar

    peer = Llama(str(file), n_ctx=2048, n_threads=1, n_threads_batch=1, verbose=False)
    host = sg.load(file, n_threads=1, n_ctx=1024, n_seq_max=rows)
    grammars: dict[str, Any] = {}

    def one_by_one(prompts: list[list[int]], schemas: list[dict[str, Any]]) -> list[str]:
        said = []
        peer.reset()
        for prompt, schema in zip(prompts, schemas, strict=True):
            written = json.dumps(schema)
            if written not in grammars:
                grammars[written] = LlamaGrammar.from_json_schema(written, verbose=False)
            options = {"max_tokens": LONGEST, "temperature": 0.0, "repeat_penalty": 1.0}
            done = peer.create_completion(prompt, grammar=grammars[written], **options)
            said.append(done["choices"][0]["text"])
        return said

    def ours(prompts: list[list[int]], schemas: list[dict[str, Any]]) -> list[str]:
        host.module.free = dict.fromkeys(host.module.free, ())  # nothing of earlier prompts is remembered
        return [run.text for run in sg.generate(host, prompts, schemas, limits=sg.Limits(LONGEST), details=True)]

    return {"llama.cpp, its own grammar": one_by_one, "structgen on llama.cpp": ours}


def vllm_ways(folder: Path, rows: int, backend: str) -> dict[str, Way]:
    from vllm import LLM, SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    engine = LLM(
        str(folder), dtype="float32", max_model_len=1024, max_num_seqs=rows, enable_prefix_caching=False,
        structured_outputs_config={"backend": "xgrammar" if backend == "xgrammar" else "outlines"},
    )  # fmt: skip

    def way(prompts: list[list[int]], schemas: list[dict[str, Any]]) -> list[str]:
        given = [
            SamplingParams(temperature=0.0, max_tokens=LONGEST, structured_outputs=StructuredOutputsParams(json=schema))
            for schema in schemas
        ]
        done = engine.generate([{"prompt_token_ids": prompt} for prompt in prompts], given, use_tqdm=False)
        return [each.outputs[0].text for each in done]

    return {f"vLLM, {backend}": way}


def measured(way: Way, prompts: list[list[int]], schema: dict[str, Any], rows: int) -> Iterator[tuple[str, int, float]]:
    """For each kind of schemas: its name, how many texts are valid, and the CPU seconds per value."""
    way([prompts[-1]] * rows, [schema] * rows)  # masks and grammars
    for kind in ("one schema", "own schemas"):
        seconds, valid = 0.0, 0
        for start in range(0, len(prompts), rows):
            some = prompts[start : start + rows]
            own = kind == "own schemas"
            schemas = [own_schema(schema, start + row) if own else schema for row in range(len(some))]
            began = time.process_time()
            said = way(some, schemas)
            seconds += time.process_time() - began
            valid += sum(is_valid(schema, text) for text in said)
        yield kind, valid, seconds / len(prompts)


def page(rows: Sequence[Row]) -> Iterator[str]:
    yield from ("# Batches in other engines", "", "Made by `python -m benchmarks batch_engines`, greedy, one thread.")
    for engine, model in dict.fromkeys((row.engine, row.model) for row in rows):
        those = [row for row in rows if (row.engine, row.model) == (engine, model)]
        base = {(row.rows, row.schemas): row.seconds for row in those if row.way == those[0].way}
        yield from ("", f"## {model} in {engine}", "", those[0].machine, "")
        body = [
            [row.rows, row.schemas, row.way, row.texts, row.valid, f"{row.seconds:.2f}",
             f"{row.seconds / base[row.rows, row.schemas]:.2f}"]
            for row in sorted(those, key=lambda row: (row.rows, row.schemas))
        ]  # fmt: skip
        yield from table(["rows", "schemas", "", "texts", "valid", "CPU s per value", f"to {those[0].way}"], body)


def main() -> None:
    given = parser(__doc__)
    given.add_argument("--engine", choices=["llama.cpp", "vllm"], required=True)
    given.add_argument("--model", default="smollm2")
    given.add_argument("--gguf", type=Path)
    given.add_argument("--rows", type=int, nargs="+", default=[1, 8, 32])
    given.add_argument("--backends", nargs="+", default=["xgrammar", "structgen"], help="of vLLM")
    given.add_argument("--write", action="store_true")
    options = given.parse_args()
    torch.set_num_threads(1)
    file = options.gguf or PACKAGED[options.model].path()
    assert file is not None, PACKAGED[options.model].command
    folder = converted_folder(options.model, file)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    texts, found = cases("flat", final=False) + cases("flat", final=True), []
    for rows in options.rows:
        chats = [[{"role": "user", "content": case.prompt}] for case in texts[: max(8, rows)]]
        written = [tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True) for chat in chats]
        prompts = [list(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in written]
        makers: list[dict[str, Way]] = (
            [llama_cpp_ways(file, rows)]
            if options.engine == "llama.cpp"
            else [vllm_ways(folder, rows, backend) for backend in options.backends]
        )
        for name, way in ((name, way) for ways in makers for name, way in ways.items()):
            for kind, valid, seconds in measured(way, prompts, texts[0].schema, rows):
                names = options.engine, options.model, name, kind
                found.append(Row(*names, rows, len(prompts), valid, seconds, setting("torch", threads=1)))
                print(rows, name, kind, valid, f"{seconds:.3f}", flush=True)
    if options.write:
        known = [Row(**row) for row in json.loads(SAVED.read_text())] if SAVED.exists() else []
        made = {(row.engine, row.model, row.rows) for row in found}
        kept = [row for row in known if (row.engine, row.model, row.rows) not in made] + found
        SAVED.write_text(json.dumps([asdict(row) for row in kept], indent=1) + "\n")
        write("batch-engines", page(kept))
