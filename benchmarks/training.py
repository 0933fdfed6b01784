"""Rewards of a small model under GRPO of TRL: with masks and their probabilities, with masks alone, and without.

    python -m benchmarks training [--model smollm2] [--steps 60] [--seeds 0 1] [--write]

`examples/grpo.py` on its eight tickets, each step with two of them and four texts of each: a point for the right team.
The bundled model takes a second of CPU a step, SmolLM2 ten; of its thirty layers only the last ten learn.
The ways:

- `masks, p / m`: rollouts under a mask, and a loss with the probabilities that drew them;
- `masks, p`: the same rollouts, and TRL's own loss, which takes the model's probabilities;
- `no masks`: TRL's own rollouts. A text that is no ticket has no reward.

Each step's reward is a row of results/training.jsonl; steps that are there are not run again. `--write` writes
results/training.md and docs/images/training.svg.
"""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

import structgen as sg
from benchmarks.picture import FREE, OURS, PEER, Axis, Panel, percents, picture
from benchmarks.report import IMAGES, RESULTS, ROOT, bootstrap, parser, read_rows, setting, table, write, write_rows

RIGHT, PLAIN, NONE = "masks, p / m", "masks, p", "no masks"
LINES = {RIGHT: (OURS, ""), PLAIN: (PEER, "7 3"), NONE: (FREE, "2 3")}
LEARN = 10
"""The layers that learn, from the last."""
OPTIONS: dict[str, Any] = {
    "per_device_train_batch_size": 8, "num_generations": 4, "max_completion_length": 16,
    "disable_tqdm": True,
}  # fmt: skip
RATES = {"demo": 1e-3, "smollm2": 5e-5}
SPAN = 10
"""Steps of a mean of the table and of the picture."""
ROWS = RESULTS / "training.jsonl"


def trained(example: Any, model: str, way: str, seed: int, steps: int) -> list[float]:
    """The rewards of a run's steps."""
    torch.manual_seed(seed)
    loaded = sg.load(model)
    if model != "demo":
        loaded.module.requires_grad_(requires_grad=False)
        loaded.module.model.layers[-LEARN:].requires_grad_(requires_grad=True)
    kind = example.MaskedGRPOTrainer if way == RIGHT else example.GRPOTrainer
    rollout = None if way == NONE else example.rollouts
    with tempfile.TemporaryDirectory() as folder:
        return example.train(
            loaded, steps, kind, rollout, seed=seed, output_dir=folder, learning_rate=RATES[model], **OPTIONS
        )


def curve(rows: Sequence[dict[str, Any]], way: str) -> list[float]:
    """The mean reward of a way's seeds at each step."""
    runs: dict[int, list[float]] = {}
    for row in rows:
        if row["engine"] == way:
            runs.setdefault(row["seed"], []).append(row["reward"])
    return [float(np.mean(each)) for each in zip(*runs.values(), strict=False)]


def panel(rows: Sequence[dict[str, Any]]) -> Panel:
    """Each way's curve, as means of the last `SPAN` steps."""
    steps = max(row["step"] for row in rows) + 1
    x = Axis("step", 0, steps, {float(step): str(step) for step in range(0, steps + 1, 20)})
    y = percents("texts that name the right team", 170)
    plot = Panel("Reward under GRPO", f"means of {SPAN} steps, higher is better", x, y)
    for way, (colour, dashes) in LINES.items():
        values = curve(rows, way)
        points = [
            (step + 1, 100 * float(np.mean(values[max(0, step + 1 - SPAN) : step + 1]))) for step in range(len(values))
        ]
        plot.line(points[SPAN // 2 :], colour, dashes)
    return plot


def body(rows: Sequence[dict[str, Any]]) -> list[list[Any]]:
    """A line for each way: its reward in the first and in the last steps, with intervals over steps and seeds."""
    last = max(row["step"] for row in rows) + 1 - SPAN
    lines = []
    for way in LINES:
        mine = [row for row in rows if row["engine"] == way]
        spans = ([row for row in mine if row["step"] < SPAN], [row for row in mine if row["step"] >= last])
        found = [bootstrap([row["reward"] for row in span], np.mean) for span in spans]
        shown = [f"{mean:.2f} [{low:.2f}, {high:.2f}]" for mean, low, high in found]
        lines.append([way, len({row["seed"] for row in mine}), *shown])
    return lines


def main() -> None:
    given = parser(__doc__)
    given.add_argument("--model", default="demo", choices=[*RATES])
    given.add_argument("--steps", type=int, default=60)
    given.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    given.add_argument("--ways", nargs="+", default=[*LINES], choices=[*LINES])
    given.add_argument("--write", action="store_true")
    options = given.parse_args()
    torch.set_num_threads(1)
    spec = importlib.util.spec_from_file_location("grpo", ROOT / "examples" / "grpo.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    rows = read_rows(ROWS) if ROWS.exists() else []
    for seed in options.seeds:
        for way in options.ways:
            if any((row["engine"], row["seed"]) == (way, seed) for row in rows):
                continue
            began = time.process_time()
            rewards = trained(example, options.model, way, seed, options.steps)
            rows += [{"engine": way, "seed": seed, "step": step, "reward": each} for step, each in enumerate(rewards)]
            write_rows(ROWS, rows)
            print(f"{way}, seed {seed}: {time.process_time() - began:.0f} s of CPU", flush=True)
    head = ["", "seeds", f"reward of the first {SPAN} steps", f"of the last {SPAN}"]
    lines = [setting("torch", "trl", threads=1, model=options.model), "", *table(head, body(rows), text=4)]
    print("\n".join(lines))
    if options.write:
        write("training", lines)
        (IMAGES / "training.svg").write_text(picture([panel(rows)], legend=LINES), encoding="utf-8")
