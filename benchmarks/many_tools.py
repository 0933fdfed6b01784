"""Many tools in one request: what a mask costs beside a request with one tool. Milliseconds of CPU time.

    python benchmarks/many_tools.py [--tools 100 500] [--write]

Tools and calls are those of the Berkeley function-calling leaderboard, in three formats: JSON between tags (Qwen3), key
by key as XML (Qwen3-Coder) and key by key in a syntax of its own (Gemma 4), each with a real vocabulary. Each mask of a
call is computed. Beside each stands what the same answers cost where the tools that they call are the only ones.

- `first mask`: reading the tools' schemas, compiling, and the mask before the first token
- `first call`: the masks behind it, in a grammar that has seen no text
- `later calls`: in one grammar with all tools, one call after the other, each of a tool that was not called before
- `again`: the same calls once more
- `three in one answer`: answers with three calls each, in one grammar with all tools
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerFast

from report import machine
from structgen.chat import CallFormat, call_format
from structgen.chat.call_format import WrittenCall
from structgen.chat.calls_constraint import TurnRules, turn
from structgen.errors import StructgenError
from structgen.masks import Grammar
from structgen.tools import Tool
from structgen.vocabulary import Vocabulary
from tests.support.chat_templates import DATA, control_tokens, templates
from tests.support.gold_calls import gold_call, requests
from tokenizer_files import unpacked

RESULTS = Path(__file__).parent / "results" / "many-tools.md"
FORMATS = {
    "Qwen-Qwen3-0.6B": "qwen2-tokenizer",
    "Qwen3-Coder": "qwen2-tokenizer",
    "google-gemma-4-31B-it": "gemma-4-tokenizer",
}
"""Chat templates, and the tokenizer for each."""
FIRST_CALLS, LATER_CALLS = 20, 60

Example = tuple[Tool[..., Any], WrittenCall]


class Made(NamedTuple):
    """A grammar, and the milliseconds until its first mask."""

    grammar: Grammar
    first_mask: float


class Setting:
    """One format with a vocabulary, and the tools that it can write, each with a call."""

    def __init__(self, template: str, tokenizer: str) -> None:
        self.format: CallFormat = call_format(templates()[template])
        with unpacked(DATA / "tokenizers" / tokenizer) as folder:
            made: Any = PreTrainedTokenizerFast
            self._tokenizer = made.from_pretrained(folder)
        tokens = [token for token in control_tokens(self.format) if token not in self._tokenizer.get_vocab()]
        self._tokenizer.add_special_tokens({"additional_special_tokens": tokens})
        self._vocabulary = Vocabulary.from_tokenizer(self._tokenizer)
        self.examples = self._examples()

    def _examples(self) -> list[Example]:
        examples: dict[str, Example] = {}
        for row in requests():
            tools = {tool.name: tool for tool in map(Tool.of, row["tools"])}
            for name, given in (item for gold in row["gold"] for item in gold.items()):
                call = gold_call(tools[name], given, 0) if name in tools and name not in examples else None
                if call is not None and self._writes(tools[name]):
                    examples[name] = tools[name], call
        return list(examples.values())

    def _writes(self, tool: Tool[..., Any]) -> bool:
        try:
            turn(self.format, TurnRules((tool,), text=False), self._vocabulary)
        except StructgenError:
            return False
        return True

    def made(self, tools: Sequence[Tool[..., Any]]) -> Made:
        """A new grammar for a turn with at least one call."""
        rules = TurnRules(tuple(tools), min_calls=1, text=False)
        turn.cache_clear()  # type: ignore[attr-defined]
        begun = time.thread_time_ns()
        grammar = turn(self.format, rules, self._vocabulary).compile(self._vocabulary)
        grammar.matcher().mask()
        return Made(grammar, (time.thread_time_ns() - begun) / 1e6)

    def masks(self, grammar: Grammar, *calls: WrittenCall) -> list[float]:
        """The milliseconds for each mask of an answer, but for the first one."""
        ids: list[int] = self._tokenizer.encode(self.format.render(calls), add_special_tokens=False)
        matcher, times = grammar.matcher(), []
        matcher.mask()
        for token in ids:
            matcher.advance(token)
            begun = time.thread_time_ns()
            matcher.mask()
            times.append((time.thread_time_ns() - begun) / 1e6)
        return times


def measured(setting: Setting, count: int) -> dict[str, list[tuple[float, float]]]:
    """For each column pairs of milliseconds: with one tool, and with `count` of them."""
    examples = random.Random(1).sample(setting.examples, count)
    tools = [tool for tool, _ in examples]
    columns: dict[str, list[tuple[float, float]]] = {}

    def note(column: str, one: list[float], many: list[float]) -> None:
        columns.setdefault(column, []).extend(zip(one, many, strict=True))

    for tool, call in examples[:FIRST_CALLS]:
        one, many = setting.made([tool]), setting.made(tools)
        note("first mask", [one.first_mask], [many.first_mask])
        note("first call", setting.masks(one.grammar, call), setting.masks(many.grammar, call))
        gc.collect()
    everything = setting.made(tools).grammar
    alone = [setting.made([tool]).grammar for tool, _ in examples[:LATER_CALLS]]
    for column in ("later calls", "again"):
        for grammar, (_, call) in zip(alone, examples, strict=False):
            note(column, setting.masks(grammar, call), setting.masks(everything, call))
    everything = setting.made(tools).grammar
    for start in range(0, min(LATER_CALLS, count) - 2, 3) if setting.format.between is not None else ():
        three = examples[start : start + 3]
        small = setting.made([tool for tool, _ in three]).grammar
        calls = [call for _, call in three]
        note("three in one answer", setting.masks(small, *calls), setting.masks(everything, *calls))
    return columns


def rows(name: str, count: int, columns: dict[str, list[tuple[float, float]]]) -> list[list[str]]:
    """The lines of a setting: means, their ratio, and the worst."""
    lines = []
    for column, pairs in columns.items():
        one, many = zip(*pairs, strict=True)
        means = statistics.mean(one), statistics.mean(many)
        figures = (
            *(f"{mean:.3f}" for mean in means),
            f"{means[1] / means[0]:.2f}",
            f"{max(one):.2f}",
            f"{max(many):.2f}",
        )
        lines.append([name, f"{count}", column, f"{len(pairs)}", *figures])
    return lines


HEAD = [
    "format",
    "tools",
    "masks",
    "how many",
    "called only: mean",
    "all: mean",
    "ratio",
    "called only: worst",
    "all: worst",
]


def markdown(lines: list[list[str]]) -> str:
    """The report."""
    here = machine()
    return "\n".join([
        "# Many tools",
        "",
        "Tools and gold calls of the Berkeley function-calling leaderboard; milliseconds of thread CPU time for each "
        "mask. `benchmarks/many_tools.py` says what the masks of each line are.",
        "",
        f"{here['cpu']}; {here['system']}; Python {here['python']}, numpy {here['numpy']}; {here['date']}.",
        "",
        "| " + " | ".join(HEAD) + " |",
        "| --- | ---: | --- |" + " ---: |" * (len(HEAD) - 3),
        *("| " + " | ".join(line) + " |" for line in lines),
        "",
    ])  # fmt: skip


def main(argv: list[str] | None = None) -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--tools", type=int, nargs="+", default=[100, 500], help="how many tools a request has, 3 or more"
    )
    parser.add_argument("--write", action="store_true", help="write the results")
    options = parser.parse_args(argv)
    lines = []
    gc.collect()
    gc.disable()
    for template, tokenizer in FORMATS.items():
        setting = Setting(template, tokenizer)
        measured(setting, 3)  # the kernels are compiled
        setting.masks(setting.made([tool for tool, _ in setting.examples]).grammar, setting.examples[0][1])
        for count in options.tools:
            lines += rows(template, count, measured(setting, count))
    text = markdown(lines)
    print(text)
    if options.write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
