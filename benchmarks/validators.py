"""How often a greedy row finds a value that a type's own validators accept, and what that takes.

    python benchmarks/validators.py [--data ../shared/data] [--write]

Twelve types have validators that no schema can hold (a prime, a check digit, the end behind the start). Three models
write each of them behind four prompts, with 32 and with 64 tokens: the demo model, `stories260k` of the data folder
where it is there, and a Llama of random weights. A value is solved where `generate` returns it. Numbers of forward
passes are the same in every run on one version of torch; times are not reported.

`--write` writes results/validators.md beside this file.
"""

from __future__ import annotations

import argparse
import datetime
import os
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import AfterValidator, BaseModel, Field, field_validator, model_validator
from transformers import LlamaConfig, LlamaForCausalLM

import structgen as sg

RESULT = Path(__file__).resolve().parent / "results" / "validators.md"
DEMO = Path(sg.__file__).parent / "demo" / "model"
PROMPTS = ("Tell me about Tim.", "The list is", "Once upon a time there was a", "Order 17 from Rome:")
BUDGETS = (32, 64)
COMMON = {"paris", "rome", "tim", "lily", "the", "once", ""}
WORDS = tuple(f"word{i}" for i in range(40))


def rule(holds: Any, message: str) -> AfterValidator:
    """A validator that refuses what does not hold."""

    def check(value: Any) -> Any:
        if not holds(value):
            raise ValueError(message)
        return value

    return AfterValidator(check)


Even = Annotated[int, Field(ge=0, le=999), rule(lambda n: n % 2 == 0, "an even number")]
Prime = Annotated[
    int, Field(ge=2, le=9999), rule(lambda n: all(n % d for d in range(2, int(n**0.5) + 1)), "a prime number")
]
NotCommon = Annotated[str, Field(max_length=10), rule(lambda text: text.lower() not in COMMON, "a rarer name")]


class Span(BaseModel):
    """The end comes behind the start."""

    start: Annotated[int, Field(ge=0, le=99)]
    end: Annotated[int, Field(ge=0, le=99)]

    @model_validator(mode="after")
    def ordered(self) -> Span:
        """Refuses an empty span."""
        if self.end <= self.start:
            raise ValueError("the end must come behind the start")
        return self


class Total(BaseModel):
    """Two numbers and their sum."""

    a: Annotated[int, Field(ge=0, le=20)]
    b: Annotated[int, Field(ge=0, le=20)]
    total: Annotated[int, Field(ge=0, le=40)]

    @model_validator(mode="after")
    def added(self) -> Total:
        """Refuses a wrong sum."""
        if self.a + self.b != self.total:
            raise ValueError("the total must be the sum")
        return self


class Tags(BaseModel):
    """Colours, each once."""

    tags: Annotated[list[Literal["red", "green", "blue", "grey"]], Field(min_length=2, max_length=4)]

    @field_validator("tags")
    @classmethod
    def different(cls, tags: list[str]) -> list[str]:
        """Refuses a colour that came before."""
        if len(set(tags)) != len(tags):
            raise ValueError("each colour may come once")
        return tags


class Person(BaseModel):
    """Two fields with a rule each."""

    name: NotCommon
    age: Even


class Code(BaseModel):
    """A code with a check digit."""

    code: Annotated[
        str, Field(pattern="^[A-Z]{2}[0-9]{3}$"), rule(lambda code: sum(map(int, code[2:])) % 10 == 0, "a check digit")
    ]


TYPES: dict[str, Any] = {
    "an even number": Even,
    "a multiple of 7": Annotated[int, Field(ge=0, le=9999), rule(lambda n: n % 7 == 0, "a multiple of 7")],
    "a prime number": Prime,
    "four letters, a capital first": Annotated[
        str, Field(max_length=12), rule(lambda text: len(text) >= 4 and text[0].isupper(), "four letters, a capital")
    ],
    "a vowel at the end": Annotated[str, Field(max_length=8), rule(lambda text: text[-1:] in set("aeiou"), "a vowel")],
    "a rarer name": NotCommon,
    "a span": Span,
    "a total": Total,
    "different tags": Tags,
    "a person": Person,
    "a code": Code,
    "one of forty words": Annotated[Literal[WORDS], rule(lambda word: word == "word23", "only one of them")],
}


def models(data: Path) -> dict[str, sg.Model]:
    """The models by name; those that are there."""
    demo = sg.load(str(DEMO))
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=demo.module.config.vocab_size, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, initializer_range=0.3,
    )  # fmt: skip
    named = {"demo": demo, "random weights": sg.Model.of(LlamaForCausalLM(config).eval(), demo.tokenizer)}
    return named | ({"stories260k": sg.load(str(data / "stories260k"))} if (data / "stories260k").is_dir() else {})


def measured(model: sg.Model, target: Any) -> tuple[int, int, int]:
    """Of all prompts and budgets: values solved, values asked for, forward passes of those that were solved."""
    solved = forwards = 0
    for budget in BUDGETS:
        for prompt in PROMPTS:
            try:
                run = sg.generate(model, prompt, schema=target, limits=sg.Limits(max_new_tokens=budget), details=True)
            except sg.errors.RunError:
                continue
            solved += 1
            forwards += run.stats.forwards
    return solved, len(BUDGETS) * len(PROMPTS), forwards


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("STRUCTGEN_DATA", "../shared/data")))
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    named = models(arguments.data)
    lines = [
        f"{datetime.date.today()}, torch {version('torch')}, transformers {version('transformers')}. Solved of asked "
        "for, and forward passes for each value that was solved.",
        "",
        f"| type | {' | '.join(named)} |",
        f"| --- |{' --- |' * len(named)}",
    ]
    totals = [0, 0, 0]
    for name, target in TYPES.items():
        cells = []
        for model in named.values():
            figures = measured(model, target)
            totals = [total + figure for total, figure in zip(totals, figures, strict=True)]
            solved, asked, forwards = figures
            cells.append(f"{solved}/{asked}, {forwards / solved:.1f}" if solved else f"0/{asked}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += [
        "",
        f"All: {totals[0]} of {totals[1]} solved, {totals[2] / max(totals[0], 1):.1f} forward passes for each.",
    ]
    print("\n".join(lines))
    if arguments.write:
        RESULT.write_text("# Values that validators accept\n\n" + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
