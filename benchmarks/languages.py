"""Masks of grammars in Lark's syntax, beside llguidance's in the same run: microseconds of CPU time.

    python benchmarks/languages.py --data DATA [--write]

Each grammar is read as it stands by both: Lark's syntax and llguidance's dialect of it have this much in common
(`?rule` shapes trees only, and is left out for llguidance). One mask and one step of the matcher per token of Llama 3's
tokenizer, through the Python interfaces, a text at a time. `first`: a new grammar, its automaton written as it goes.
`and compile`: the same, with the time to read the grammar shared out among the tokens of its text; no grammar is read
twice, for each has a comment of its own. `new`: a text that the grammar has not met, behind all the others. `again`:
the same text once more. Garbage is collected between grammars only, as in the other benchmarks.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import re
import statistics
import time
from collections.abc import Callable
from functools import partial
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

DSL = r"""
start: command+
command: "go" DIRECTION INT UNIT? ";" | "turn" SIDE ";" | "say" STRING ";" | "repeat" INT block
       | NAME ":=" sum ";" | "if" sum RELATION sum block ("else" block)?
block: "{" command+ "}"
?sum: sum "+" product | sum "-" product | product
?product: product "*" atom | atom
?atom: INT | NAME | NAME "(" (sum ("," sum)*)? ")" | "(" sum ")"
DIRECTION: "north" | "south" | "east" | "west"
SIDE: "left" | "right"
UNIT: "mm" | "cm"
RELATION: "<" | ">" | "="
STRING: /"[^"\n]*"/
INT: /[0-9]+/
NAME: /[a-z][a-z_0-9]*/
%ignore /[ \n]+/
"""

JSON = r"""
start: value
?value: object | array | STRING | NUMBER | "true" | "false" | "null"
array: "[" (value ("," value)*)? "]"
object: "{" (pair ("," pair)*)? "}"
pair: STRING ":" value
STRING: /"([^"\\\x00-\x1f]|\\["\\\/bfnrt]|\\u[0-9a-fA-F]{4})*"/
NUMBER: /-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/
%ignore /[ \t\n\r]+/
"""

PYTHON = r"""
start: statement (NEWLINE statement)*
statement: test ("=" test)? | "return" test | "import" dotted ("as" NAME)? | "del" power | "assert" test ("," test)?
dotted: NAME ("." NAME)*
?test: either ("if" either "else" test)? | "lambda" (NAME ("," NAME)*)? ":" test
?either: either "or" both | both
?both: both "and" negation | negation
?negation: "not" negation | comparison
?comparison: comparison COMPARED sum | comparison "in" sum | comparison "is" sum | sum
?sum: sum ADDED term | term
?term: term MULTIPLIED factor | factor
?factor: ADDED factor | power
?power: item ("**" factor)?
?item: item "(" (argument ("," argument)*)? ")" | item "[" test (":" test)? "]" | item "." NAME | atom
argument: test | NAME "=" test
?atom: NAME | NUMBER | STRING | "None" | "True" | "False" | "(" test ("," test)* ")" | "[" (test ("," test)*)? "]"
     | "{" (test ":" test ("," test ":" test)*)? "}"
COMPARED: "==" | "!=" | "<=" | ">=" | "<" | ">"
ADDED: "+" | "-"
MULTIPLIED: "*" | "/" | "%"
STRING: /'[^'\n\\]*'|"[^"\n\\]*"/
NUMBER: /[0-9]+(\.[0-9]+)?(e-?[0-9]+)?/
NAME: /[A-Za-z_][A-Za-z_0-9]*/
NEWLINE: /\n+/
%ignore / +/
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
    "dsl": (DSL, [
        'go north 3 cm; turn left; say "hello there"; x := (a + 1) * size(4, b);',
        'repeat 4 { go east 10; if x < limit { turn right; } else { say "done"; } }',
        "count := count + 1; repeat 3 { turn left; go south 2 mm; }",
    ]),
    "json": (JSON, [
        '{"name": "Ada Moreau", "age": 36, "tags": ["a", "b c"], "address": {"city": "Lyon", "zip": null}}',
        '[1, -2.5e3, true, {"x": [false, "caf\\u00e9"]}, []]',
        '{"items": [{"id": 17, "price": 3.99}, {"id": 18, "price": 0.5}], "total": 4.49}',
    ]),
    "python": (PYTHON, [
        "import numpy as np\nx = np.zeros((3, n + 1))\nx[0] = total if total > 0 else None\nreturn x.sum(axis=0)",
        "f = lambda a, b: a ** 2 + b ** 2\nassert f(3, 4) == 25, 'wrong'\nprint(f(1.5, y=[1, 2]))",
        "d = {'a': 1, 'b': not x and y in names}\ndel d['a']\nreturn d.get('b') is None or d == {}",
    ]),
}  # fmt: skip


Run = Callable[[list[int]], list[float]]
"""Tokens to the microseconds that each took."""


def timed(run: Callable[[], Any]) -> float:
    """Microseconds of CPU time."""
    begun = time.process_time_ns()
    run()
    return (time.process_time_ns() - begun) / 1000


def ours(tokenizer: Any) -> Callable[[str], Run]:
    """Grammar to a function from tokens to microseconds, for structgen."""
    vocabulary = sg.engine.Vocabulary.from_tokenizer(tokenizer)

    def make(grammar: str) -> Run:
        compiled = sg.Lark(grammar).compile(vocabulary)

        def run(tokens: list[int]) -> list[float]:
            matcher = compiled.matcher()

            def one(token: int) -> None:
                matcher.mask()
                matcher.advance(token)

            times = [timed(partial(one, token)) for token in tokens]
            assert matcher.can_finish
            return times

        return run

    return make


def theirs(tokenizer: Any) -> Callable[[str], Run]:
    """The same for llguidance."""
    known = llguidance.hf.from_tokenizer(tokenizer)
    mask = llguidance.numpy.allocate_token_bitmask(1, known.vocab_size)

    def make(grammar: str) -> Run:
        written = llguidance.LLMatcher.grammar_from_lark(re.sub(r"^\?", "", grammar, flags=re.MULTILINE))
        compiled = llguidance.LLMatcher(known, written)

        def run(tokens: list[int]) -> list[float]:
            matcher = compiled.deep_copy()

            def one(token: int) -> None:
                llguidance.numpy.fill_next_token_bitmask(matcher, mask, 0)
                matcher.consume_token(token)

            times = [timed(partial(one, token)) for token in tokens]
            assert matcher.is_accepting(), matcher.get_error()
            return times

        return run

    return make


def measure(make: Callable[[str], Run], grammar: str, texts: list[list[int]], runs: int) -> dict[str, list[float]]:
    """Times of every token, by how much of its texts a grammar has met."""
    times: dict[str, list[float]] = {"first": [], "and compile": [], "new": [], "again": []}
    made: list[Run] = []
    for _ in range(runs):
        for last in range(len(texts)):
            gc.collect()
            unread = f"// {next(_numbers)}\n{grammar}"
            compiling = timed(lambda unread=unread: made.append(make(unread)))
            run = made.pop()
            others = texts[last + 1 :] + texts[:last]
            times["first"] += (first := run(others[0]))
            times["and compile"] += [time + compiling / len(first) for time in first]
            for text in others[1:]:
                run(text)
            times["new"] += run(texts[last])
            times["again"] += run(texts[last])
    return times


_numbers = itertools.count()


def row(name: str, engine: str, kind: str, times: list[float], theirs: list[float]) -> str:
    """A line of the table, in microseconds, with the ratio of the mean to llguidance's (`theirs`)."""
    ordered = sorted(times)
    p99 = ordered[int(0.99 * (len(ordered) - 1))]
    cells = [statistics.median(times), statistics.fmean(times), p99, ordered[-1]]
    ratio = cells[1] / statistics.fmean(theirs)
    return f"| {name} | {engine} | {kind} | " + " | ".join(f"{cell:,.1f}" for cell in cells) + f" | {ratio:.2f} |"


def main() -> None:
    """Measures, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--grammar", choices=TEXTS, action="append", help="only these")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name} too")
    options = parser.parse_args()
    lines = ["| grammar | engine | | p50 | mean | p99 | worst | ratio of means |"]
    lines.append("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |")
    gc.disable()
    with unpacked(options.data / "llama3-tokenizer") as folder:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
        engines = {"structgen": ours(tokenizer), "llguidance": theirs(tokenizer)}
        for name, (grammar, texts) in TEXTS.items():
            if name not in (options.grammar or TEXTS):
                continue
            encoded = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
            for make in engines.values():
                measure(make, grammar, encoded, 1)  # compiles kernels
            gc.freeze()
            measured = {engine: measure(make, grammar, encoded, options.runs) for engine, make in engines.items()}
            lines += [
                row(name, engine, kind, times, measured["llguidance"][kind])
                for engine, kinds in measured.items()
                for kind, times in kinds.items()
            ]
    about = machine() | {"llguidance": llguidance.__version__}
    text = "\n".join([*lines, "", ", ".join(f"{key} {value}" for key, value in about.items())]) + "\n"
    print(text)
    if options.write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
