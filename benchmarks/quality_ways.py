"""The ways of `python -m benchmarks quality` to have a model answer: free text, peers' masks, and structgen's.

All of them read the same prompt ids, greedily, one text at a time, on one thread.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.processors import llguidance_processor, xgrammar_processor
from benchmarks.quality_texts import Case

MAX_TOKENS = {"problems": 320, "labels": 48}
"""The most tokens of an answer, by task."""
MAX_TOKENS_ELSEWHERE = 200


@dataclass(frozen=True)
class Answer:
    """What one way has made of one text: its text, and what that has cost."""

    text: str
    cpu: float
    forwards: int
    tokens: int
    error: str = ""


def limit_of(case: Case) -> int:
    return MAX_TOKENS.get(case.task, MAX_TOKENS_ELSEWHERE)


class Models:
    """One model, loaded by each engine when a way first asks for it.

    Args:
        file: its GGUF file.
        folder: the same weights in transformers' form, float32.
    """

    def __init__(self, file: Path, folder: Path) -> None:
        self.file, self.folder = file, folder
        self._prepared: dict[tuple[str, str], Any] = {}

    @cached_property
    def torch(self) -> Any:
        import torch

        import structgen

        torch.set_num_threads(1)
        return structgen.load(str(self.folder), dtype=torch.float32)

    def host(self, way: str) -> Any:
        """llama.cpp under our loop; each way has its own, since it keeps the prompt that it has read last."""
        import structgen

        if ("host", way) not in self._prepared:
            self._prepared["host", way] = structgen.load(self.file, n_threads=1, n_ctx=2048)
        return self._prepared["host", way]

    def llama(self, way: str) -> Any:
        """llama-cpp-python, likewise."""
        from llama_cpp import Llama

        if ("llama", way) not in self._prepared:
            made = Llama(str(self.file), n_ctx=2048, n_threads=1, n_threads_batch=1, verbose=False)
            self._prepared["llama", way] = made
        return self._prepared["llama", way]

    @cached_property
    def tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self.folder)

    def ids(self, case: Case) -> list[int]:
        """The prompt, as the model's chat template writes it."""
        turns = [{"role": "user", "content": case.prompt}]
        text = self.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def prepared(self, way: str, case: Case, make: Callable[[], Any]) -> Any:
        """What a way prepares once a schema, such as a compiled grammar: not counted in its time."""
        key = way, json.dumps(case.schema)
        if key not in self._prepared:
            self._prepared[key] = make()
        return self._prepared[key]


Way = Callable[[Models, Case], Answer]


def _measured(count: Callable[[], int], run: Callable[[], tuple[str, int]]) -> Answer:
    """Runs a way. `count` gives the forward passes so far."""
    before, start = count(), time.process_time()
    text, tokens = run()
    return Answer(text, time.process_time() - start, count() - before, tokens)


def transformers(*, lookup: int | None = None, processor: str = "") -> Way:
    """transformers' `generate`, free or with a peer's masks."""

    def make(models: Models, case: Case) -> Any:
        width = models.torch.module.get_output_embeddings().weight.shape[0]
        if processor == "xgrammar":
            import xgrammar

            info = xgrammar.TokenizerInfo.from_huggingface(models.tokenizer, vocab_size=width)
            return xgrammar_processor(info, case.schema)
        import llguidance.hf

        return llguidance_processor(llguidance.hf.from_tokenizer(models.tokenizer, n_vocab=width), case.schema)

    def way(models: Models, case: Case) -> Answer:
        import torch

        module, counted = models.torch.module, [0]
        ids = models.ids(case)
        options: dict[str, Any] = {"prompt_lookup_num_tokens": lookup} if lookup else {}
        if processor:
            options["logits_processor"] = [models.prepared(processor, case, lambda: make(models, case))()]

        def run() -> tuple[str, int]:
            given = torch.tensor([ids])
            with torch.inference_mode():
                output = module.generate(
                    given, attention_mask=torch.ones_like(given), max_new_tokens=limit_of(case), do_sample=False,
                    temperature=None, top_p=None, top_k=None, repetition_penalty=1.0, **options,
                )[0, len(ids) :]  # fmt: skip
            return models.tokenizer.decode(output, skip_special_tokens=True), len(output)

        handle = module.register_forward_pre_hook(lambda *_: counted.__setitem__(0, counted[0] + 1))
        try:
            return _measured(lambda: counted[0], run)
        finally:
            handle.remove()

    return way


def llama_cpp(*, grammar: bool) -> Way:
    """llama-cpp-python's `create_completion`, free or with llama.cpp's own grammar of the schema."""

    def way(models: Models, case: Case) -> Answer:
        from llama_cpp import LlamaGrammar

        llama, ids, counted = models.llama(str(grammar)), models.ids(case), [0]
        options: dict[str, Any] = {}
        if grammar:
            options["grammar"] = models.prepared(
                "llama.cpp", case, lambda: LlamaGrammar.from_json_schema(json.dumps(case.schema), verbose=False)
            )
        decode = llama._ctx.decode

        def counting(batch: Any) -> None:
            counted[0] += 1
            decode(batch)

        def run() -> tuple[str, int]:
            done = llama.create_completion(
                ids, max_tokens=limit_of(case), temperature=0.0, repeat_penalty=1.0, **options
            )
            return done["choices"][0]["text"], done["usage"]["completion_tokens"]

        llama._ctx.decode = counting
        try:
            return _measured(lambda: counted[0], run)
        finally:
            llama._ctx.decode = decode

    return way


def outlines() -> Way:
    """outlines' generator on the same transformers model."""

    def make(models: Models, case: Case) -> Any:
        import outlines as peer

        model = models.prepared("outlines model", replace(case, schema={}), lambda: peer.from_transformers(
            models.torch.module, models.tokenizer))  # fmt: skip
        return peer.Generator(model, peer.types.JsonSchema(json.dumps(case.schema)))

    def way(models: Models, case: Case) -> Answer:
        module, counted = models.torch.module, [0]
        generator = models.prepared("outlines", case, lambda: make(models, case))
        text = models.tokenizer.decode(models.ids(case))

        def run() -> tuple[str, int]:
            said = generator(
                text, max_new_tokens=limit_of(case), do_sample=False, temperature=None, top_p=None, top_k=None
            )
            return said, len(models.tokenizer(said)["input_ids"])

        handle = module.register_forward_pre_hook(lambda *_: counted.__setitem__(0, counted[0] + 1))
        try:
            return _measured(lambda: counted[0], run)
        finally:
            handle.remove()

    return way


def structgen(
    *, engine: str = "torch", drafts: bool = True, schema_shown: bool = False, free: bool = False, **options: Any
) -> Way:
    """`generate` with these options, without measuring every choice."""
    name = f"{drafts} {schema_shown} {free} {options}"

    def way(models: Models, case: Case) -> Answer:
        import structgen as sg
        from structgen.decoding.call_options import CallOptions
        from structgen.decoding.loop import Execution
        from structgen.decoding.request import prepare
        from structgen.given_prompts import GivenPrompts
        from structgen.rendering import schema_text

        model, used = models.torch if engine == "torch" else models.host(name), []

        def run() -> tuple[str, int]:
            prompts = GivenPrompts.of([{"role": "user", "content": case.prompt}])
            if schema_shown:
                prompts = prompts.mapped(lambda prompt: prompt.with_schema(schema_text(case.schema)))
            limits = sg.Limits(max_new_tokens=limit_of(case), max_plan_tokens=limit_of(case))
            given = CallOptions(limits=limits, **options)
            request = prepare(model, prompts, None if free else case.schema, given)
            if not drafts:
                request = replace(request, execution=Execution(drafts=False))
            (result,) = request.results(record=False)
            if result.error is not None:
                raise result.error
            used.append(result.stats)
            return result.text, result.stats.completion_tokens

        return _measured(lambda: sum(stats.forwards for stats in used), run)

    return way


def ways() -> dict[str, Way]:
    """All ways that can run here, by name; the first of them are the main ones."""
    import structgen as sg

    drawn = sg.Sampling(temperature=1.0, seed=0)
    thinking = sg.Thinking(opening="<think>\n", closing="</think>\n\n", max_tokens=256)
    made = {
        "transformers, free": transformers(),
        "transformers, free, look-up": transformers(lookup=8),
        "transformers + xgrammar": transformers(processor="xgrammar"),
        "transformers + llguidance": transformers(processor="llguidance"),
        "structgen": structgen(),
        "structgen, prompt_schema": structgen(schema_shown=True),
        "structgen, canonical": structgen(canonical=True),
        "structgen, any order": structgen(order="any"),
        "structgen, no drafts": structgen(drafts=False),
        "structgen, thinking": structgen(thinking=thinking),
        "structgen, plan": structgen(plan="free"),
        "structgen, free": structgen(free=True),
        "structgen, sampled": structgen(sampling=drawn),
        "structgen, exact": structgen(sampling=replace(drawn, exact="prefer")),
        "llama.cpp, free": llama_cpp(grammar=False),
        "llama.cpp, json_schema": llama_cpp(grammar=True),
        "structgen on llama.cpp": structgen(engine="host"),
        "structgen on llama.cpp, prompt_schema": structgen(engine="host", schema_shown=True),
        "structgen on llama.cpp, plan": structgen(engine="host", plan="free"),
        "structgen on llama.cpp, any order": structgen(engine="host", order="any"),
        "structgen on llama.cpp, no drafts": structgen(engine="host", drafts=False),
        "structgen on llama.cpp, thinking": structgen(engine="host", thinking=thinking),
        "structgen on llama.cpp, compact": structgen(engine="host", whitespace=sg.Whitespace.COMPACT),
        "structgen on llama.cpp, flexible": structgen(engine="host", whitespace=sg.Whitespace.FLEXIBLE),
        "structgen on llama.cpp, indented": structgen(engine="host", whitespace=sg.Whitespace.INDENTED(2)),
        "outlines": outlines(),
    }
    missing = {"llama.cpp": "llama_cpp", "outlines": "outlines", "xgrammar": "xgrammar", "llguidance": "llguidance"}
    for name, module in missing.items():
        if find_spec(module) is None:
            made = {way: run for way, run in made.items() if name not in way}
    return made
