"""Runs one benchmark by its name; without a name, lists them."""

from __future__ import annotations

import importlib
import os
import sys

BENCHMARKS = {
    "evidence": "the parts that README and the comparison rest on, one after the other, with raw rows",
    "masks": "masks beside llguidance, xgrammar and lm-format-enforcer, over MaskBench's schemas",
    "grammars": "masks of grammars in Lark's notation beside llguidance",
    "host": "the host's part of a step when a device runs the forward pass",
    "quality": "right answers of real models, by task and by way",
    "reliability": "whether probabilities of labels are true, before and after sg.calibrate",
    "repairs": "whether values that a rule refused are right afterwards",
    "batches": "CPU time of a value by rows and by length of the prompt, beside transformers",
    "batch_engines": "the same in llama.cpp and vLLM",
    "load": "a server under concurrent streams, many schemas and bombs",
    "agents": "coding agents that edit a file by way of the server",
    "soak": "an engine kept full for hours: memory, and texts that stay those of prompts alone",
    "lists": "rows of long documents that come back, and lists that say so of themselves",
    "jobs": "jobs beside a loop over lists, and memory of 100,000 rows",
    "guards": "banned words: leaks, forward passes and cost beside other ways",
    "search": "texts with forced phrases by the number of beams, and the cost of a step",
    "canonical": "canonical tokens of each kind of tokenizer, judged by the tokenizer itself",
    "chat_cases": "turns of real models that the call formats read",
    "hosts": "whether every loop and engine writes the same text",
    "edges": "constraints that are easy to get wrong, in each mask engine",
    "training": "rewards of a small model under GRPO, with masks and without",
    "examples": "examples of other libraries' documentation, each with one line changed",
    "peers": "what the comparison says of outlines and guidance",
    "providers": "what of MaskBench OpenAI, Anthropic, Gemini and Mistral take",
    "gpu": "checks and times the loop on a device",
}


def main() -> int:
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in BENCHMARKS:
        listed = "\n".join(f"  {each:14} {what}" for each, what in BENCHMARKS.items())
        print(f"python -m benchmarks NAME [options]; NAME --help lists the options.\n\n{listed}")
        return int(name not in ("", "-h", "--help"))
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    sys.argv[:2] = [f"python -m benchmarks {name}"]
    return importlib.import_module(f"benchmarks.{name}").main() or 0


if __name__ == "__main__":
    sys.exit(main())
