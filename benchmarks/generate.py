"""Time per finished value: structgen's loop beside transformers' `generate`, plain and with peers' logits processors.

    python benchmarks/generate.py [--data FOLDER] [--rounds 5] [--batch 1 8] [--threads 1] [--cases extraction story]

Same model, same prompts, greedy, one process; the contestants take turns, and the median of the rounds counts. A round
is a whole request: matchers or processors made anew, prefill, decoding, and for structgen the parsed value. What an
engine prepares once per tokenizer and schema is in the column "prepare", not in the rounds.

Two things make a request faster, and they are shown apart. *Fewer forward passes*: forced text is fed without asking
(structgen), and drafts read several tokens in one pass (structgen by default on a CPU; transformers by
`prompt_lookup_num_tokens`, one row only). *Cheaper passes*: the column "ms/forward". The ratios that are judged compare
like with like: both sides without drafts, or both with them. With drafts, llguidance's processor takes back what the
draft did not keep; xgrammar's own processor cannot.

An unconstrained run writes as many tokens as the tokenizer makes of the texts of structgen's constrained run, without
an end token: what the model really writes there is another text. "Canonical tokens" are those of the tokenizer for the
text: a model with random weights chooses other, shorter ones where nothing forces it, which costs those contestants
more forward passes than a trained model would need. "Valid": rows whose whole text the schema accepts.

Writes results/generate.json and results/generate.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from generate_cases import CASES, Case, cases
from processors import Factory, llguidance_lookup_processor, llguidance_processor, xgrammar_processor

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
LOOKUP_TOKENS = 8
"""Tokens of a draft of transformers' prompt lookup: as many as structgen drafts."""
LONGEST = 2048
"""Tokens that a constrained run may take; it ends by itself."""
FREE, FREE_LOOKUP = "transformers, no constraint", "transformers, no constraint, prompt lookup"
OURS, OURS_PLAIN = "structgen", "structgen, no drafts"

Run = Callable[[int], list[str]]
"""Generates for so many rows, and gives their texts."""


@dataclass
class Contestant:
    """One way to generate.

    Attributes:
        constrained: whether its texts are values.
        drafts: whether it reads drafts.
        seconds, cpu_seconds: of each counted round.
        forwards: forward passes of a round.
    """

    name: str
    run: Run
    constrained: bool
    drafts: bool = False
    prepare_seconds: float = 0.0
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    forwards: int = 0

    def warm_up(self, module: Any, rows: int) -> None:
        """A round that is not timed: its forward passes are counted."""
        handle = module.register_forward_pre_hook(self._count)
        try:
            self.texts = self.run(rows)
        finally:
            handle.remove()

    def measure(self, rows: int) -> None:
        """One timed round."""
        began, cpu = time.perf_counter(), time.process_time()
        self.run(rows)
        self.seconds.append(time.perf_counter() - began)
        self.cpu_seconds.append(time.process_time() - cpu)

    def _count(self, *_: Any) -> None:
        self.forwards += 1


def structgen_run(
    case: Case, model: Any, schema: Any, limits: list[int], *, drafts: bool = True, fast_forward: bool = True
) -> Run:
    """structgen as `generate` runs it; a constrained row ends with its parsed value."""
    import structgen
    from structgen.decoding.loop import Execution
    from structgen.decoding.request import CallOptions, prepare, raise_first_error
    from structgen.given_prompts import GivenPrompts

    def run(rows: int) -> list[str]:
        bounds = [structgen.Limits(max_new_tokens=limit) for limit in limits[:rows]]
        prompts = GivenPrompts.of(case.prompts[:rows])
        request = prepare(model, prompts, schema, CallOptions(limits=bounds, fast_forward=fast_forward))
        batch = replace(request, execution=Execution(drafts=drafts)).run(record=False)
        results = [request.result(row, batch) for row in range(rows)]
        raise_first_error([result.error for result in results])
        return [result.text for result in results]

    return run


def transformers_run(
    case: Case,
    limit: int,
    processor: Callable[[], Any] | None = None,
    *,
    lookup: int | None = None,
    cache: str | None = None,
) -> Run:
    """transformers' `generate`: free for `limit` tokens, or with a peer's masks to their end."""
    import torch

    def run(rows: int) -> list[str]:
        prompts = case.prompts[:rows]
        width = max(map(len, prompts))
        ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        end = case.tokenizer.eos_token_id
        output = case.module.generate(
            ids,
            attention_mask=mask,
            max_new_tokens=limit,
            do_sample=False,
            pad_token_id=0,
            eos_token_id=None if processor is None else end,
            logits_processor=None if processor is None else [processor()],
            prompt_lookup_num_tokens=lookup,
            cache_implementation=cache,
        )
        new = [row[: row.index(end)] if end in row else row for row in output[:, width:].tolist()]
        return [case.tokenizer.decode(row) for row in new]

    return run


def llguidance_peers(case: Case, width: int) -> tuple[Factory, Factory]:
    """Its processor, and that for prompt lookup."""
    import llguidance.hf

    tokenizer = llguidance.hf.from_tokenizer(case.tokenizer, n_vocab=width)
    return llguidance_processor(tokenizer, case.schema), llguidance_lookup_processor(tokenizer, case.schema)


def xgrammar_peer(case: Case, width: int) -> Factory:
    import xgrammar

    info = xgrammar.TokenizerInfo.from_huggingface(case.tokenizer, vocab_size=width)
    return xgrammar_processor(info, case.schema)


def contestants(case: Case, rows: int) -> Iterator[Contestant]:
    """Every way to generate for so many rows. transformers drafts for one row only."""
    import structgen
    from structgen.constraints.basic import JsonSchema

    width = case.module.get_output_embeddings().weight.shape[0]
    model, seconds = timed(lambda: structgen.Model.of(case.module, case.tokenizer))
    schema, unbounded = JsonSchema(case.schema), [LONGEST] * rows
    ours = structgen_run(case, model, schema, unbounded)
    texts, first_seconds = timed(lambda: ours(rows))
    lengths = [canonical_tokens(case, text) for text in texts]
    plain, longest = structgen_run(case, model, schema, unbounded, drafts=False), max(lengths)
    stepping = structgen_run(case, model, schema, unbounded, drafts=False, fast_forward=False)
    prepared = seconds + max(first_seconds - timed(lambda: ours(rows))[1], 0.0)
    (llguidance, llguidance_lookup), llguidance_seconds = timed(lambda: llguidance_peers(case, width))
    xgrammar, xgrammar_seconds = timed(lambda: xgrammar_peer(case, width))
    free, free_plain = (structgen_run(case, model, None, lengths, drafts=drafts) for drafts in (True, False))

    yield Contestant(FREE, transformers_run(case, longest), constrained=False)
    yield Contestant("structgen, no constraint, no drafts", free_plain, False, prepare_seconds=seconds)
    yield Contestant("structgen, forced text asked for, no drafts", stepping, True, prepare_seconds=prepared)
    yield Contestant(OURS_PLAIN, plain, True, prepare_seconds=prepared)
    yield Contestant(
        "transformers + llguidance", transformers_run(case, LONGEST, llguidance), True, False, llguidance_seconds
    )
    yield Contestant(
        "transformers + xgrammar", transformers_run(case, LONGEST, xgrammar), True, False, xgrammar_seconds
    )
    if rows == 1:
        yield Contestant(FREE_LOOKUP, transformers_run(case, longest, lookup=LOOKUP_TOKENS), False, True)
    yield Contestant("structgen, no constraint", free, False, True, seconds)
    yield Contestant(OURS, ours, True, True, prepared)
    if rows == 1:
        run = transformers_run(case, LONGEST, llguidance_lookup, lookup=LOOKUP_TOKENS)
        yield Contestant("transformers + llguidance, prompt lookup", run, True, True, llguidance_seconds)


def canonical_tokens(case: Case, text: str) -> int:
    """How many tokens the tokenizer makes of a text."""
    return len(case.tokenizer.encode(text, add_special_tokens=False))


def contest(case: Case, rows: int, rounds: int) -> list[Contestant]:
    """Every contestant's rounds, in turns, after one that is not counted."""
    racers = list(contestants(case, rows))
    for racer in racers:
        racer.warm_up(case.module, rows)
    for _ in range(rounds):
        for racer in racers:
            racer.measure(rows)
    return racers


def timed(step: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    result = step()
    return result, time.perf_counter() - began


def summary(case: Case, rows: int, racers: list[Contestant]) -> dict[str, Any]:
    """The figures of a value of each contestant, and the ratios that are judged."""
    from jsonschema import Draft202012Validator

    accepts = Draft202012Validator(case.schema).is_valid
    ours = next(racer for racer in racers if racer.name == OURS)
    base = statistics.median(racers[0].cpu_seconds)
    table = []
    for racer in racers:
        texts = racer.texts if racer.constrained else ours.texts
        cpu, tokens = statistics.median(racer.cpu_seconds), sum(canonical_tokens(case, text) for text in texts)
        table.append(
            {
                "contestant": racer.name,
                "drafts": racer.drafts,
                "ms": round(1e3 * statistics.median(racer.seconds) / rows, 2),
                "cpu_ms": round(1e3 * cpu / rows, 2),
                "ratio": round(cpu / base, 3),
                "tokens": tokens,
                "characters": sum(map(len, texts)),
                "forwards": racer.forwards,
                "forwards_per_token": round(racer.forwards * rows / tokens, 3),
                "ms_per_forward": round(1e3 * cpu / racer.forwards, 3),
                "prepare_s": round(racer.prepare_seconds, 3),
                "valid": sum(accepts(parsed(text)) for text in racer.texts) if racer.constrained else None,
            }
        )
    return {"case": case.name, "batch": rows, "rows": table, "judged": list(judged(table, rows))}


def judged(table: list[dict[str, Any]], rows: int) -> Iterator[dict[str, Any]]:
    """structgen's time per value by that of the others, like with like."""
    by_name = {row["contestant"]: row for row in table}
    for drafts, name, free in ((False, OURS_PLAIN, FREE), (True, OURS, FREE_LOOKUP)):
        ours = by_name[name]
        peers = [r for r in table if r["contestant"].startswith("transformers +") and r["drafts"] == drafts]
        whole = [peer for peer in peers if peer["valid"] == rows]
        others = [by_name[free]] if free in by_name else []
        for other in (*others, *sorted(whole, key=lambda peer: peer["cpu_ms"])[:1]):
            yield {
                "drafts": drafts,
                "by": other["contestant"],
                "ratio": round(ours["cpu_ms"] / other["cpu_ms"], 3),
                "forwards": round(ours["forwards"] / other["forwards"], 3),
            }


def parsed(text: str) -> Any:
    """The value of a JSON text; None, which no schema here accepts, for any other."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def machine(threads: int) -> dict[str, Any]:
    from report import machine as base

    names = ("structgen", "torch", "llguidance", "xgrammar")
    setting: dict[str, Any] = {**base(), "threads": threads, "load": round(os.getloadavg()[0], 1)}
    return setting | {name: installed(name) for name in names}


def installed(name: str) -> str:
    try:
        return version(name)
    except ModuleNotFoundError:
        return "from the source tree"


INTRODUCTION = """# Time per finished value

{setting}

"CPU ms": the process's CPU time for one value, the median of the rounds; "ratio": by that of transformers' `generate`
without a constraint, which writes as many tokens as the tokenizer makes of structgen's texts. "Forwards/token":
forward passes for each canonical token of a row. Processors cannot leave a forward pass out, so compare rows with
drafts with rows with drafts. transformers drafts for one row only. Valid: rows whose whole text the schema accepts.
"""

TABLE = """
## {case}, batch {batch}

{judgements}
| | drafts | ms | CPU ms | ratio | forwards | forwards/token | CPU ms/forward | characters | prepare s | valid |
|---|---|---|---|---|---|---|---|---|---|---|
"""

JUDGED = "- {kind} drafts, CPU time per value by that of {by}: **{ratio:.2f}** (forward passes: {forwards:.2f})\n"

ROW = (
    "| {contestant} | {shown_drafts} | {ms:,.1f} | {cpu_ms:,.1f} | {ratio:.2f} | {forwards} | {forwards_per_token:.2f} "
    "| {ms_per_forward:.2f} | {characters} | {prepare_s:.2f} | {shown_valid} |\n"
)


def markdown(setting: dict[str, Any], results: list[dict[str, Any]]) -> str:
    text = INTRODUCTION.format(setting=", ".join(f"{key} {value}" for key, value in setting.items()))
    for result in results:
        kinds = [JUDGED.format(kind="with" if each["drafts"] else "without", **each) for each in result["judged"]]
        text += TABLE.format(**result, judgements="".join(kinds))
        for row in result["rows"]:
            shown = {"shown_valid": "" if row["valid"] is None else row["valid"]}
            text += ROW.format(**row, **shown, shown_drafts="yes" if row["drafts"] else "")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.environ.get("STRUCTGEN_DATA", HERE.parent.parent / "shared" / "data")
    parser.add_argument("--data", type=Path, default=Path(default))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cases", nargs="+", choices=tuple(CASES), default=list(CASES))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import torch

    torch.set_num_threads(options.threads)
    setting = machine(options.threads)
    results = []
    for case in cases(options.data, options.cases):
        for rows in options.batch:
            results.append(summary(case, rows, contest(case, rows, options.rounds)))
            print(markdown(setting, results[-1:]), flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    whole = {"setting": setting, "results": results}
    (options.out / "generate.json").write_text(json.dumps(whole, indent=1) + "\n")
    (options.out / "generate.md").write_text(markdown(setting, results))


if __name__ == "__main__":
    main()
