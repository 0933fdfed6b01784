"""CPU time per finished value of a batch in other engines than torch: llama.cpp on a GGUF file, and vLLM.

    python benchmarks/batch_engines.py --engine llama.cpp [--model smollm2 | --model qwen --gguf FILE] [--write]
    python benchmarks/batch_engines.py --engine vllm [--model smollm2] [--write]

The texts and the schema are those of batches.py, with one schema for all rows and with a schema for each that nobody
has used before, whose compilation counts. llama.cpp: structgen decodes all rows at once; llama.cpp with its own grammar
takes text after text, as llama-cpp-python does. vLLM, where it is installed (its build for CPUs): with xgrammar, and
with structgen as back end, float32, one thread. One process, CPU time of all its threads. Nothing is remembered from
one batch to the next.

`--write` replaces the rows of the same engine, model and number of rows in results/batch-engines.json and the page
beside it. vLLM starts in one process only as often as it has back ends: take each number of rows in a run of its own.
"""

from __future__ import annotations

import argparse
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
from jsonschema import Draft202012Validator
from transformers import AutoTokenizer

import structgen as sg
from batches import LONGEST, own_schema
from gaps import forget
from generate import machine, parsed
from quality_texts import cases
from structgen.models.known import PACKAGED, converted_folder

RESULT = Path(__file__).resolve().parent / "results" / "batch-engines.json"
Way = Callable[[list[list[int]], list[dict[str, Any]]], list[str]]


@dataclass(frozen=True)
class Row:
    """What one way has taken for batches of so many rows: seconds of CPU a value, and how many texts were valid."""

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
            grammar = grammars.get(written) or LlamaGrammar.from_json_schema(written, verbose=False)
            grammars[written] = grammar
            done = peer.create_completion(
                prompt, max_tokens=LONGEST, temperature=0.0, repeat_penalty=1.0, grammar=grammar
            )
            said.append(done["choices"][0]["text"])
        return said

    def ours(prompts: list[list[int]], schemas: list[dict[str, Any]]) -> list[str]:
        forget(host)
        runs = sg.generate(host, prompts, schemas, limits=sg.Limits(LONGEST), details=True)
        return [run.text for run in runs]

    return {"llama.cpp, its own grammar": one_by_one, "structgen on llama.cpp": ours}


def vllm_ways(folder: Path, rows: int, backend: str) -> dict[str, Way]:
    from llvmlite.binding import ffi
    from vllm import LLM, SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    ffi._lib_fn_wrapper.get = lambda *_: None  # vLLM looks for kernels in all that is imported, and asks this one, too

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


def measured(
    ways: dict[str, Way], prompts: list[list[int]], schema: dict[str, Any], rows: int
) -> Iterator[tuple[Any, ...]]:
    """For each way and kind of schemas: its name, the kind, the texts, those that are valid, and the CPU seconds."""
    for name, way in ways.items():
        way([prompts[-1]] * rows, [schema] * rows)  # kernels, masks, grammars
        for number, kind in enumerate(("one schema", "own schemas")):
            seconds, valid = 0.0, 0
            for start in range(0, len(prompts), rows):
                some = prompts[start : start + rows]
                of_rows = [schema if number == 0 else own_schema(schema, start + row) for row in range(len(some))]
                began = time.process_time()
                said = way(some, of_rows)
                seconds += time.process_time() - began
                valid += sum(map(Draft202012Validator(schema).is_valid, map(_parsed, said)))
            yield name, kind, len(prompts), valid, seconds / len(prompts)


def _parsed(text: str) -> Any:
    try:
        return parsed(text)
    except ValueError:
        return None


def page(rows: Sequence[Row]) -> Iterator[str]:
    yield from ("# Batches in other engines", "", "Made by `benchmarks/batch_engines.py`, greedy, one thread.")
    for engine, model in dict.fromkeys((row.engine, row.model) for row in rows):
        those = [row for row in rows if (row.engine, row.model) == (engine, model)]
        first = next(row.way for row in those)
        base = {(row.rows, row.schemas): row.seconds for row in those if row.way == first}
        yield from ("", f"## {model} in {engine}", "", those[0].machine, "")
        yield from (
            f"| rows | schemas | | texts | valid | CPU s a value | by {first} |",
            "|---|---|---|---|---|---|---|",
        )
        for row in sorted(those, key=lambda row: (row.rows, row.schemas)):
            figures = f"{row.texts} | {row.valid} | {row.seconds:.2f} | {row.seconds / base[row.rows, row.schemas]:.2f}"
            yield f"| {row.rows} | {row.schemas} | {row.way} | {figures} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=["llama.cpp", "vllm"], required=True)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--gguf", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--backends", nargs="+", default=["xgrammar", "structgen"], help="of vLLM")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    file = options.gguf or PACKAGED[options.model].path()
    assert file is not None, PACKAGED[options.model].command
    folder = converted_folder(options.model, file)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    texts, found = cases("flat", final=False) + cases("flat", final=True), []
    setting = ", ".join(f"{key} {value}" for key, value in machine(1).items())
    for rows in options.rows:
        chats = [[{"role": "user", "content": case.prompt}] for case in texts[: max(8, rows)]]
        written = [tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True) for chat in chats]
        prompts = [list(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in written]
        makers: list[dict[str, Way]] = (
            [llama_cpp_ways(file, rows)]
            if options.engine == "llama.cpp"
            else [vllm_ways(folder, rows, backend) for backend in options.backends]
        )
        for ways in makers:
            for name, *figures in measured(ways, prompts, texts[0].schema, rows):
                kind, count, valid, seconds = figures
                row = Row(options.engine, options.model, name, kind, rows, count, valid, seconds, setting)
                print(row.rows, row.schemas, row.way, row.valid, f"{row.seconds:.3f}", flush=True)
                found.append(row)
    if options.write:
        known = [Row(**row) for row in json.loads(RESULT.read_text())] if RESULT.exists() else []
        made = {(row.engine, row.model, row.rows) for row in found}
        kept = [row for row in known if (row.engine, row.model, row.rows) not in made] + found
        RESULT.write_text(json.dumps([asdict(row) for row in kept], indent=1) + "\n")
        RESULT.with_suffix(".md").write_text("\n".join([*page(kept), ""]))


if __name__ == "__main__":
    main()
