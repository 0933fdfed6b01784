"""Masks of grammars in Lark's syntax, beside llguidance's in the same run: microseconds of CPU time.

    python benchmarks/languages.py --data DATA [--write]

Each grammar is read as it stands by both: Lark's syntax and llguidance's dialect of it have this much in common
(`?rule` shapes trees only, and is left out for llguidance). One mask and one step of the matcher per token of Llama 3's
tokenizer, through the Python interfaces, a text at a time. `first`: a new grammar, its automaton written as it goes.
`new`: a text that the grammar has not met, behind all the others. `again`: the same text once more.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llguidance
import llguidance.hf
import llguidance.numpy
from transformers import PreTrainedTokenizerFast

import structgen as sg
from report import machine
from tokenizer_files import unpacked

RESULTS = Path(__file__).parent / "results" / "languages.md"

ARITHMETIC = """
start: expr
?expr: expr "+" term | expr "-" term | term
?term: term "*" factor | term "/" factor | factor
?factor: NUMBER | NAME | "(" expr ")" | "-" factor
NUMBER: /[0-9]+(\\.[0-9]+)?/
NAME: /[A-Za-z_][A-Za-z_0-9]*/
%ignore / +/
"""

SQL = """
start: "select" columns "from" NAME where? order? limit?
columns: "*" | expr ("," expr)*
where: "where" condition
condition: condition "or" both | both
both: both "and" comparison | comparison
comparison: expr OPERATOR expr
order: "order" "by" expr ("," expr)* ("asc" | "desc")?
limit: "limit" INT
expr: expr "+" atom | expr "-" atom | atom
atom: INT | STRING | NAME | NAME "." NAME | NAME "(" expr ")" | "(" expr ")"
OPERATOR: "<=" | ">=" | "<>" | "=" | "<" | ">"
STRING: /'[^'\\n]*'/
INT: /[0-9]+/
NAME: /[A-Za-z_][A-Za-z_0-9]*/
%ignore /[ \\n]+/
"""

TEXTS = {
    "arithmetic": (ARITHMETIC, [
        "(alpha + 3.25) * -(beta - 12) / gamma_2", "1 + 2 * (3 - 4 / (5 + x)) - total_sum * 100", "a", "((((1))))",
        "-(-(price * 1.19)) + shipping / 2", "x*x + y*y - 2*x*y",
    ]),
    "sql": (SQL, [
        "select * from users where age >= 21 and name <> 'Bob' order by name desc limit 10",
        "select count(id), city from orders where total > 100 or (status) = 'open' limit 5",
        "select a.b, c + 1 from t order by a.b, c asc",
    ]),
}  # fmt: skip


def ours(tokenizer: Any) -> Callable[[str], Callable[[list[int]], list[float]]]:
    """Grammar to a function from tokens to microseconds, for structgen."""
    vocabulary = sg.Vocabulary.from_tokenizer(tokenizer)

    def make(grammar: str) -> Callable[[list[int]], list[float]]:
        compiled = sg.Lark(grammar).compile(vocabulary)

        def run(tokens: list[int]) -> list[float]:
            matcher, times = compiled.matcher(), []
            for token in tokens:
                begun = time.process_time_ns()
                matcher.mask()
                matcher.advance(token)
                times.append((time.process_time_ns() - begun) / 1000)
            assert matcher.can_finish
            return times

        return run

    return make


def theirs(tokenizer: Any) -> Callable[[str], Callable[[list[int]], list[float]]]:
    """The same for llguidance."""
    known = llguidance.hf.from_tokenizer(tokenizer)
    mask = llguidance.numpy.allocate_token_bitmask(1, known.vocab_size)

    def make(grammar: str) -> Callable[[list[int]], list[float]]:
        written = llguidance.LLMatcher.grammar_from_lark(re.sub(r"^\?", "", grammar, flags=re.MULTILINE))

        def run(tokens: list[int]) -> list[float]:
            matcher, times = llguidance.LLMatcher(known, written), []
            for token in tokens:
                begun = time.process_time_ns()
                llguidance.numpy.fill_next_token_bitmask(matcher, mask, 0)
                matcher.consume_token(token)
                times.append((time.process_time_ns() - begun) / 1000)
            assert matcher.is_accepting(), matcher.get_error()
            return times

        return run

    return make


def measure(make: Callable[[str], Any], grammar: str, texts: list[list[int]], runs: int) -> dict[str, list[float]]:
    """Times of every token, by how much of its texts a grammar has met."""
    times: dict[str, list[float]] = {"first": [], "new": [], "again": []}
    for _ in range(runs):
        for last in range(len(texts)):
            run = make(grammar)
            others = texts[last + 1 :] + texts[:last]
            times["first"] += run(others[0])
            for text in others[1:]:
                run(text)
            times["new"] += run(texts[last])
            times["again"] += run(texts[last])
    return times


def row(name: str, engine: str, kind: str, times: list[float]) -> str:
    """A line of the table, in microseconds."""
    ordered = sorted(times)
    p99 = ordered[int(0.99 * (len(ordered) - 1))]
    cells = [statistics.median(times), statistics.fmean(times), p99, ordered[-1]]
    return f"| {name} | {engine} | {kind} | " + " | ".join(f"{cell:,.1f}" for cell in cells) + " |"


def main() -> None:
    """Measures, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name} too")
    options = parser.parse_args()
    lines = ["| grammar | engine | | p50 | mean | p99 | worst |", "| --- | --- | --- | ---: | ---: | ---: | ---: |"]
    with unpacked(options.data / "llama3-tokenizer") as folder:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
        engines = {"structgen": ours(tokenizer), "llguidance": theirs(tokenizer)}
        for name, (grammar, texts) in TEXTS.items():
            encoded = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
            for engine, make in engines.items():
                measure(make, grammar, encoded, 1)  # compiles kernels
                for kind, times in measure(make, grammar, encoded, options.runs).items():
                    lines.append(row(name, engine, kind, times))
    about = machine() | {"llguidance": llguidance.__version__}
    text = "\n".join([*lines, "", ", ".join(f"{key} {value}" for key, value in about.items())]) + "\n"
    print(text)
    if options.write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
