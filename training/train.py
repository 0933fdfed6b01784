"""Trains the demo model from scratch: `python -m training.train --out training/out`.

One round is a pool of fresh examples, sorted into batches of similar length, so rows need little padding and no
packing masks. The loss is taken on the answers alone. Every round is drawn from its own seed: a run that was
stopped and resumed sees the same data as one that was not.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils.logging import disable_progress_bar

from training.calls import calls_example, schema_example
from training.corpus import Example, draw_example
from training.optimizer import build_optimizers
from training.tokenizer import CHAT_TEMPLATE, train_tokenizer
from training.words import WordSource

IGNORED = -100


DRILL, SHORT, EARLY = 6, 13, 20
"""The curriculum, in rounds: mostly copying drills and short examples, then short ones, then more drills than later."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The schedule; `warmup` is in rounds, `decay` the share of all rounds in which the rate falls to zero.

    The `second` stage goes on with a trained model: what it knows, calls of tools, and prompts that show a schema.
    """

    rounds: int
    pool: int
    batch_tokens: int
    seed: int
    warmup: float = 1.3
    decay: float = 0.6
    second: bool = False

    def rate(self, done: float) -> float:
        """The factor on the peak learning rates after `done` rounds."""
        return min(1.0, 0.01 + done / self.warmup, max(0.0, (self.rounds - done) / (self.decay * self.rounds)))

    def pool_of(self, index: int) -> list[Example]:
        """The examples of one round."""
        words = WordSource(random.Random(self.seed * 100_003 + index))
        if self.second:
            return [second_example(words) for _ in range(self.pool)]
        records = 0.6 if index < DRILL else 0.3 if index < EARLY else 0.12
        limit = 190 if index < DRILL else 280 if index < SHORT else 10_000
        drawn = (draw_example(words, records=records, full=words.rng.random() < 0.3) for _ in iter(int, 1))
        short = (one for one in drawn if len(one.prompt) + len(one.answer) <= limit)
        return [next(short) for _ in range(self.pool)]


def second_example(words: WordSource, *, full: bool = False) -> Example:
    """An example of the second stage."""
    draw = words.rng.random()
    if draw < 0.4:
        return draw_example(words, records=0 if full else 0.15, full=full or words.rng.random() < 0.4)
    return calls_example(words) if draw < 0.75 else schema_example(words)


Row = tuple[list[int], int]
"""Token ids and how many of them are the prompt's."""


def encode(tokenizer: PreTrainedTokenizerFast, examples: list[Example]) -> list[Row]:
    """Each example as ids with the beginning and the end token."""
    prompts = tokenizer([one.prompt for one in examples])["input_ids"]
    answers = tokenizer([one.answer for one in examples], add_special_tokens=False)["input_ids"]
    return [
        (prompt + answer + [tokenizer.eos_token_id], len(prompt))
        for prompt, answer in zip(prompts, answers, strict=True)
    ]


def batches(rows: list[Row], tokens: int, rng: random.Random) -> list[list[Row]]:
    """Rows of similar length in batches of at most `tokens` padded tokens, in random order."""
    result, current = list[list[Row]](), list[Row]()
    for row in sorted(rows, key=lambda row: len(row[0])):
        if current and len(row[0]) * (len(current) + 1) > tokens:
            result.append(current)
            current = []
        current.append(row)
    result.append(current)
    rng.shuffle(result)
    return result


def tensors(batch: list[Row], device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids [rows, width] and targets [rows, width - 1], `IGNORED` outside the answers."""
    width = max(len(ids) for ids, _ in batch)
    ids = torch.zeros(len(batch), width, dtype=torch.long)
    targets = torch.full((len(batch), width), IGNORED, dtype=torch.long)
    for row, (tokens, prompt) in enumerate(batch):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        targets[row, prompt : len(tokens)] = ids[row, prompt : len(tokens)]
    return ids.to(device), targets[:, 1:].to(device)


def answer_logits(
    model: LlamaForCausalLM, ids: torch.Tensor, targets: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits [n, vocabulary] and targets [n] at the n positions that predict an answer's token."""
    hidden = model.model(ids[:, :-1]).last_hidden_state
    wanted = targets != IGNORED
    return model.lm_head(hidden[wanted]), targets[wanted]


@torch.no_grad()
def measure(model: LlamaForCausalLM, rows: list[Row], device: str) -> tuple[float, float]:
    """Share of right answer tokens and of answers right in every token (which greedy decoding then writes)."""
    right, total, exact = 0, 0, 0
    for batch in batches(rows, 4096, random.Random(0)):
        ids, targets = tensors(batch, device)
        logits, wanted = answer_logits(model, ids, targets)
        hits = torch.ones_like(targets, dtype=torch.bool)
        hits[targets != IGNORED] = logits.argmax(-1) == wanted
        right, total = right + int((logits.argmax(-1) == wanted).sum()), total + len(wanted)
        exact += int(hits.all(-1).sum())
    return right / total, exact / len(rows)


def build_model(tokenizer: PreTrainedTokenizerFast, arguments: argparse.Namespace) -> LlamaForCausalLM:
    """A fresh model with tied embeddings."""
    torch.manual_seed(arguments.seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=arguments.hidden,
        intermediate_size=arguments.intermediate,
        num_hidden_layers=arguments.layers,
        num_attention_heads=arguments.heads,
        num_key_value_heads=arguments.heads,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(config)
    nn.Module.to(model, arguments.device)
    return model


def ship(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Writes the files that `from_pretrained` reads, weights in bfloat16."""
    copy = LlamaForCausalLM(model.config)
    nn.Module.to(copy, torch.bfloat16)
    copy.load_state_dict({name: value.to(torch.bfloat16) for name, value in model.state_dict().items()})
    copy.generation_config.max_length = None
    copy.save_pretrained(folder)
    tokenizer.save_pretrained(folder, save_jinja_files=False)
    settings = folder / "tokenizer_config.json"
    # Older releases of transformers do not know the class name that newer ones write.
    named = json.loads(settings.read_text()) | {"tokenizer_class": "PreTrainedTokenizerFast"}
    for passing in ("backend", "is_local", "local_files_only"):
        named.pop(passing, None)
    settings.write_text(json.dumps(named, indent=2) + "\n")
    (folder / "model.safetensors").chmod(0o644)


class TrainingRun:
    """One training run: its model, optimizers and place in the plan."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments, self.out = arguments, Path(arguments.out)
        self.plan = Schedule(arguments.rounds, arguments.pool, arguments.batch_tokens, arguments.seed)
        if arguments.start:
            self.plan = replace(self.plan, warmup=0.5, decay=0.8, second=True)
            self.tokenizer = PreTrainedTokenizerFast.from_pretrained(arguments.start)
            self.tokenizer.chat_template = CHAT_TEMPLATE
            self.model = LlamaForCausalLM.from_pretrained(arguments.start, dtype=torch.float32)
            nn.Module.to(self.model, arguments.device)
        else:
            words = WordSource(random.Random(arguments.seed))
            self.tokenizer = train_tokenizer((draw_example(words) for _ in range(20_000)), arguments.vocabulary)
            self.model = build_model(self.tokenizer, arguments)
        self.optimizers = build_optimizers(self.model, arguments.lr, arguments.matrix_lr)
        unseen = WordSource(random.Random(arguments.seed + 1), heldout=True)
        draw = second_example if arguments.start else partial(draw_example, records=0)
        self.heldout = encode(self.tokenizer, [draw(unseen, full=True) for _ in range(260)])
        self.first, self.seen, self.started = 0, 0, time.time()

    def resume(self) -> None:
        """Continues from the last checkpoint."""
        state: dict[str, Any] = torch.load(self.out / "state.pt", weights_only=False)
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.first, self.seen = state["round"], state["seen"]

    def train(self) -> None:
        """Runs the rounds that are left; a checkpoint and a line of figures after every `report` rounds."""
        losses = list[float]()
        begun = self.seen
        for index in range(self.first, self.plan.rounds):
            losses += [self.step(batch, done) for done, batch in self.round(index)]
            if (index + 1) % self.arguments.report == 0 or index + 1 == self.plan.rounds:
                speed = (self.seen - begun) / (time.time() - self.started)
                self.checkpoint(index + 1)
                tokens, exact = measure(self.model, self.heldout, self.arguments.device)
                print(
                    f"round {index + 1}/{self.plan.rounds} seen {self.seen / 1e6:.2f}M {speed:.0f} tokens/s "
                    f"loss {sum(losses) / len(losses):.4f} held-out: tokens {tokens:.4f} answers {exact:.3f}",
                    flush=True,
                )
                losses = []
        ship(self.model, self.tokenizer, self.out / "model")

    def round(self, index: int) -> Iterator[tuple[float, list[Row]]]:
        """The batches of one round, each with the rounds done before it."""
        rows = encode(self.tokenizer, self.plan.pool_of(index))
        parts = batches(rows, self.plan.batch_tokens, random.Random(index))
        for number, batch in enumerate(parts):
            yield index + number / len(parts), batch

    def step(self, batch: list[Row], done: float) -> float:
        """One update; the loss per answer token."""
        ids, targets = tensors(batch, self.arguments.device)
        self.seen += ids.numel()
        with torch.autocast(self.arguments.device, torch.bfloat16, enabled=self.arguments.device == "cuda"):
            logits, wanted = answer_logits(self.model, ids, targets)
            loss = torch.nn.functional.cross_entropy(logits.float(), wanted)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * self.plan.rate(done)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return loss.item()

    def checkpoint(self, done: int) -> None:
        """Saves what `resume` needs, and the model as it would ship."""
        state = {"model": self.model.state_dict(), "round": done, "seen": self.seen}
        torch.save(state | {"optimizers": [one.state_dict() for one in self.optimizers]}, self.out / "state.pt")
        ship(self.model, self.tokenizer, self.out / "model")


def parse() -> argparse.Namespace:
    """The command line; the defaults are the shipped model's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="training/out")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--vocabulary", type=int, default=2048)
    parser.add_argument("--hidden", type=int, default=192)
    parser.add_argument("--intermediate", type=int, default=512)
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=79)
    parser.add_argument("--pool", type=int, default=1024, help="examples per round")
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--lr", type=float, default=3e-3, help="of embeddings and norms")
    parser.add_argument("--matrix-lr", type=float, default=0.02, help="of the layers' matrices")
    parser.add_argument("--report", type=int, default=2, help="rounds between checkpoints")
    parser.add_argument("--start", help="folder of a trained model that the second stage goes on with")
    parser.add_argument("--resume", action="store_true")
    return parser.parse_args()


def main() -> None:
    """Entry point."""
    arguments = parse()
    torch.set_num_threads(arguments.threads)
    disable_progress_bar()  # type: ignore[no-untyped-call]
    Path(arguments.out).mkdir(parents=True, exist_ok=True)
    run = TrainingRun(arguments)
    if arguments.resume:
        run.resume()
    print(f"{run.model.num_parameters() / 1e6:.2f}M parameters, {len(run.tokenizer)} tokens", flush=True)
    run.train()


if __name__ == "__main__":
    main()
