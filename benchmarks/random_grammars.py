"""Random small grammars against Lark's Earley parser: every text of up to four letters out of three.

Each grammar is read as GBNF, by characters as Lark does with `lexer="dynamic_complete"`, and in Lark's notation, by
tokens as with `lexer="dynamic"`. Grammars that Lark itself has a table of LALR(1) for are read by that in the second
way. Disagreements are printed; the tests run a hundred of these grammars.

    python benchmarks/random_grammars.py --count 2000
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import structgen as sg
from tests.constraints.test_grammars import random_grammar, verdicts, verdicts_of_lark


def disagreements(seed: int) -> list[str]:
    """The texts of one grammar on which the parsers disagree, with how it was read."""
    lark, gbnf = random_grammar(seed)
    found = []
    for lexer, constraint in (
        ("dynamic_complete", sg.constraints.GBNF(gbnf, start="start")),
        ("dynamic", sg.Lark(f"{lark}\n%llguidance {{}}\n")),
    ):
        wanted = verdicts_of_lark(lark, lexer)
        ours = verdicts(constraint, list(wanted))
        found += [f"{lexer}: {text!r} Lark {wanted[text]}" for text in wanted if wanted[text] != ours[text]]
        COUNTS["texts"] += len(wanted)
        COUNTS["in the language"] += sum(wanted.values())
    return found


COUNTS = Counter[str]()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    given = parser.parse_args()
    for seed in range(given.first, given.first + given.count):
        try:
            found = disagreements(seed)
        except sg.errors.LimitExceeded as error:
            COUNTS["refused"] += 1
            print(seed, "LimitExceeded", str(error)[:100])
            continue
        COUNTS["grammars"] += 1
        if found:
            COUNTS["with a disagreement"] += 1
            print(f"{seed}: {len(found)} texts, {found[0]}\n{random_grammar(seed)[0]}", flush=True)
    print(dict(COUNTS))


if __name__ == "__main__":
    main()
