"""One grammar, every host: the same weights say the same text, greedily, whichever loop or engine runs them.

    python -m benchmarks hosts --schemas 200

The demo model, in float32 on the CPU, with schemas of the maskbench development set. The text of our own loop (without
forced text, whose tokens a masked loop cannot know) is compared with that of transformers' `generate` with our logits
processor, of its `custom_generate`, of llama.cpp where llama-cpp-python and gguf are installed, and of
onnxruntime-genai, by our loop and by its own with our constraint.
"""

from __future__ import annotations

import itertools
import json
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema

import structgen as sg
from benchmarks.report import DATA, parser, read_rows, table
from structgen.demo import load_demo
from structgen.integrations.transformers import ConstraintLogitsProcessor, constrained_generate

PROMPT = "Extract the person: name, age, city.\nText: Ada Moreau, 36, lives in Lyon.\nJSON: "
TOKENS = 160
Say = Callable[[dict[str, Any]], str]


def schemas(count: int) -> Iterator[dict[str, Any]]:
    """Schemas for which our own loop comes to the end of a text within the budget, without closing it."""
    owner, limits, found = sg.Model.of(*load_demo()), sg.Limits(max_new_tokens=TOKENS), 0
    for row in read_rows(DATA / "maskbench-dev.jsonl.xz"):
        try:
            run = sg.generate(owner, PROMPT, row["schema"], limits=limits, fast_forward=False, details=True)
        except sg.errors.StructgenError:
            continue
        if run.error is None and run.finish in ("end", "complete"):
            found += 1
            yield row["schema"]
        if found == count:
            return


def hosts(folder: Path) -> dict[str, Say]:
    """What each host says of a schema; our own loop comes first."""
    model, tokenizer = load_demo()
    inputs = tokenizer([PROMPT], return_tensors="pt")
    start, limits = inputs["input_ids"].shape[1], sg.Limits(max_new_tokens=TOKENS)

    own = sg.Model.of(model, tokenizer)

    def ours(schema: dict[str, Any], loaded: sg.Model = own) -> str:
        return sg.generate(loaded, PROMPT, schema, limits=limits, fast_forward=False, details=True).text

    def generated(**arguments: Any) -> str:
        ids = model.generate(**inputs, max_new_tokens=TOKENS, **arguments)[0, start:]
        return tokenizer.decode(ids, skip_special_tokens=True)

    says: dict[str, Say] = {
        "structgen.generate": ours,
        "transformers, ConstraintLogitsProcessor": lambda schema: generated(
            logits_processor=[ConstraintLogitsProcessor(schema, model, tokenizer)]
        ),
        "transformers, custom_generate": lambda schema: generated(
            custom_generate=constrained_generate(schema, tokenizer, fast_forward=False)
        ),
    }
    if find_spec("llama_cpp") and find_spec("gguf"):
        from tests.support.gguf_files import write_gguf

        file = write_gguf(folder / "demo.gguf", model, tokenizer)
        host = sg.load(file, tokenizer=tokenizer, n_threads=1, type_k=0, type_v=0)
        says["llama.cpp, GGUF in float32"] = lambda schema: ours(schema, host)
    if find_spec("onnxruntime_genai") and find_spec("onnx_ir"):
        says |= _onnx_hosts(folder, ours)
    return says


def _onnx_hosts(folder: Path, ours: Callable[[dict[str, Any], sg.Model], str]) -> dict[str, Say]:
    """What onnxruntime-genai says, in our loop and in its own."""
    import onnxruntime_genai as og

    from structgen.integrations.onnxruntime_genai import GeneratorConstraint
    from tests.support.onnx_folders import write_onnx_folder

    model, tokenizer = load_demo()
    onnx = write_onnx_folder(folder, model, tokenizer)
    host, graph, ids = sg.load(onnx, intra_op_num_threads=1), og.Model(str(onnx)), tokenizer.encode(PROMPT)

    def kept_loop(schema: dict[str, Any]) -> str:
        params = og.GeneratorParams(graph)
        params.set_search_options(max_length=len(ids) + TOKENS)
        generator, constraint = og.Generator(graph, params), GeneratorConstraint(schema, onnx)
        generator.append_tokens(ids)
        while not generator.is_done():
            constraint.apply(generator)
            generator.generate_next_token()
        return tokenizer.decode(generator.get_sequence(0)[len(ids) :], skip_special_tokens=True)

    return {
        "onnxruntime-genai, float32": lambda schema: ours(schema, host),
        "onnxruntime-genai, `GeneratorConstraint`": kept_loop,
    }


def main() -> None:
    """Prints a table: how many texts are the same, and how many are invalid."""
    given = parser(__doc__)
    given.add_argument("--schemas", type=int, default=200)
    count = given.parse_args().schemas
    warnings.simplefilter("ignore")
    same, invalid, cut, total = Counter[str](), Counter[str](), Counter[str](), 0
    with tempfile.TemporaryDirectory() as folder:
        says = hosts(Path(folder))
        for schema in itertools.islice(schemas(count), count):
            texts = {name: say(schema) for name, say in says.items()}
            reference, total = texts["structgen.generate"], total + 1
            for name, text in texts.items():
                same[name] += text == reference
                try:
                    value = json.loads(text)
                except ValueError:
                    cut[name] += 1
                    continue
                kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
                invalid[name] += not kind(schema).is_valid(value)
    rows = [[name, total, same[name], cut[name], invalid[name]] for name in says]
    head = ["host", "schemas", "the same text as our own loop", f"cut by {TOKENS} tokens", "invalid"]
    print("\n".join(table(head, rows)))
