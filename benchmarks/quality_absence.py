"""Facts that a text does not have: how many are invented, and how many of those that it has are lost?

    python benchmarks/quality_absence.py smollm2 --calibrate 40 --count 80

Half of the contacts of `quality_texts` have no email or no phone number. The first texts find thresholds, the others
count. Prints a table, and the curve of risk against coverage: the shares of values that are written, and of those that
are wrong, if the threshold rises.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # the corpus makes the texts

import structgen as sg  # noqa: E402
from quality_texts.extraction import SCHEMAS, _made, _object  # noqa: E402
from training.words import WordSource  # noqa: E402

MEMBERS = "email", "phone"
QUOTED = {"type": "string", "x-quote": {"whole": "words"}}
OPTIONAL = {"anyOf": [QUOTED, {"type": "null"}]}
QUOTES = _object(name=QUOTED, email=OPTIONAL, phone=OPTIONAL)
LIMITS = sg.Limits(200)

Example = tuple[str, dict[str, Any]]


def examples(count: int) -> list[Example]:
    """Texts with their right values."""
    words = WordSource(random.Random("absence"))
    return [_made(words, "contact") for _ in range(count)]


def asked(text: str) -> list[dict[str, str]]:
    content = f"Extract the contact from the text as JSON: {SCHEMAS['absent'][1]}.\nText: {text}"
    return [{"role": "user", "content": content}]


def row(name: str, runs: list[sg.Generation[Any]], truth: list[Example]) -> str:
    pairs = [
        (run.value[member], right[member]) for run, (_, right) in zip(runs, truth, strict=True) for member in MEMBERS
    ]
    absent, present = sum(right is None for _, right in pairs), sum(right is not None for _, right in pairs)
    invented = sum(right is None and value is not None for value, right in pairs)
    lost = sum(right is not None and value is None for value, right in pairs)
    exact = sum(right is not None and value == right for value, right in pairs)
    return f"| {name} | {invented} of {absent} | {lost} of {present} | {exact} of {present} |"


def curve(name: str, runs: list[sg.Generation[Any]], truth: list[Example]) -> str:
    """Values in the order of their certainty: the risk of the first fifth, the first two fifths, and so on."""
    scored = [
        (run.absences[f"/{member}"].probability, run.value[member] != right[member])
        for run, (_, right) in zip(runs, truth, strict=True) for member in MEMBERS if f"/{member}" in run.absences
    ]  # fmt: skip
    wrong = [each for _, each in sorted(scored)]
    shares = [wrong[: len(wrong) * part // 5] for part in range(1, 6)]
    return f"| {name} | " + " | ".join(f"{sum(each) / len(each):.0%}" for each in shares) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a known model, a folder or a GGUF file")
    parser.add_argument("--calibrate", type=int, default=40)
    parser.add_argument("--count", type=int, default=80)
    given = parser.parse_args()
    model = sg.load(given.model)
    known = examples(given.calibrate + given.count)
    first, rest = known[: given.calibrate], known[given.calibrate :]
    prompts = [asked(text) for text, _ in rest]
    print("| way | invented | lost | right |\n| --- | --- | --- | --- |")
    curves = []
    for name, schema in (("strings", SCHEMAS["absent"][2]), ("quotes", QUOTES)):
        sources: dict[str, Any] = {"source": [text for text, _ in rest]} if schema is QUOTES else {}
        fitted = sg.absence_thresholds(
            model, [(asked(text), right) for text, right in first], schema, limits=LIMITS,
            **({"source": [text for text, _ in first]} if sources else {}),
        )  # fmt: skip
        ways: dict[str, Any] = {"as the model likes": None, 'absent="ask"': "ask", "thresholds of examples": fitted}
        for way, absent in ways.items():
            runs = sg.generate(model, prompts, schema, absent=absent, details=True, limits=LIMITS, **sources)
            print(row(f"{name}, {way}", runs, rest), flush=True)
        never = sg.generate(model, prompts, schema, absent=2, details=True, limits=LIMITS, **sources)
        curves.append(curve(name, never, rest))
        print(fitted, file=sys.stderr)
    print("\n| risk at coverage | 20% | 40% | 60% | 80% | 100% |\n| --- | --- | --- | --- | --- | --- |")
    print("\n".join(curves))


if __name__ == "__main__":
    main()
