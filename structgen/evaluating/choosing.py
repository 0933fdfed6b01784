"""Which labelled rows to show a model as examples: chosen on some rows, and judged on others."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from random import Random
from statistics import fmean
from typing import Any

from structgen.arguments import require, require_count
from structgen.batch_jobs.inputs import read_inputs
from structgen.batch_jobs.rows import InputRow, Prompt
from structgen.evaluating.counts import Comparison
from structgen.evaluating.evaluation import Comparing, Evaluation, evaluate


@dataclass(frozen=True, slots=True)
class ChosenExamples:
    """Examples for `examples=`, and what they bring.

    Attributes:
        examples: pairs of a prompt and its right value; none where none were better than without.
        evaluation: with them, on rows of which none is an example and none was used to choose.
        comparison: how much better than without examples, on the same rows.
    """

    examples: list[tuple[str, Any]]
    evaluation: Evaluation
    comparison: Comparison


def choose_examples(
    model: Any,
    rows: Any,
    schema: Any,
    *,
    count: int = 3,
    tries: int = 8,
    seed: int = 0,
    expected: Any = "expected",
    prompt: Prompt = None,
    **options: Any,
) -> ChosenExamples:
    """Chooses labelled rows as examples of a prompt.

    A quarter of the rows may become examples. Sets of them are tried on another quarter, and the best one is judged on
    the other half, so what it seems to bring is no luck of the choice.

    Args:
        model, rows, schema, expected, prompt, options: as for `evaluate`. The rows are read into memory.
        count: how many examples.
        tries: how many sets are tried.
        seed: of the split and of the sets.

    Raises:
        OptionError: there are too few rows, or as `evaluate`.
    """
    require_count("count", count, 1)
    require_count("tries", tries, 1)
    comparing = Comparing(schema, expected, options.get("same"), options.get("group"))
    known = [row for row in read_inputs(rows, encoding=options.get("encoding")) if not row.error]
    pool, trial, test = ([row for row in known if _part(row, seed) in parts] for parts in ((0,), (1,), (2, 3)))
    enough = len(pool) >= count and bool(trial) and bool(test)
    require(enough, "rows", len(known), f"more rows: a quarter of them has to hold count={count} examples")

    def judged(on: list[InputRow], examples: list[tuple[str, Any]]) -> Evaluation:
        inputs = [{**row.fields, "id": row.id} for row in on]
        return evaluate(model, inputs, schema, expected=expected, prompt=prompt, examples=examples, **options)

    chance, best, most = Random(seed), list[tuple[str, Any]](), _score(judged(trial, []))
    for _ in range(tries):
        drawn = chance.sample(pool, count)
        examples = [(str(row.prompt(prompt)), comparing.gold({"input": row.fields})) for row in drawn]
        score = _score(judged(trial, examples))
        best, most = (examples, score) if score > most else (best, most)
    without = judged(test, [])
    evaluation = judged(test, best) if best else without
    return ChosenExamples(best, evaluation, without.compare(evaluation))


def _part(row: InputRow, seed: int) -> int:
    """The quarter of the rows that a row belongs to, whatever the other rows are."""
    return blake2b(f"{seed}/{row.id}".encode(errors="replace"), digest_size=8).digest()[0] % 4


def _score(evaluation: Evaluation) -> float:
    """The mean share of right places of the rows."""
    return fmean(fmean(case.right for case in row.cases) if row.cases else 0.0 for row in evaluation.rows)
