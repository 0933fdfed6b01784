"""Word problems with a number as answer: templates, with the numbers drawn anew for each text."""

from __future__ import annotations

import random
from collections.abc import Callable

from quality_texts.case import Case

COUNT = 160
NAMES = "Ada Bruno Carla Deepa Emil Farid Greta Hugo Ines Jonas Kofi Lena Mateo Nadia Omar Petra".split()
SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}},
    "required": ["answer"],
    "additionalProperties": False,
}

Draw = Callable[[int, int], int]


def _problems(name: str, n: Draw) -> list[tuple[str, int]]:
    """One problem of each kind, with its answer."""
    a, b, c, d = n(3, 12), n(2, 9), n(13, 40), n(2, 6)
    return [
        (f"{name} buys {a} boxes of pencils with {b} pencils each, and gives {d} pencils away. How many are left?", a * b - d),
        (f"A train has {c} passengers. At the first stop {a} get off and {b} get on, at the second {d} get on. "
         f"How many passengers are in the train now?", c - a + b + d),
        (f"{name} reads {a} pages a day for {b} days and then {c} pages on Sunday. How many pages is that in all?", a * b + c),
        (f"Tickets cost {a} euros for adults and {d} euros for children. What do {b} adults and {a} children pay together?",
         a * b + a * d),
        (f"{name} has {c * 2} coins and gives half of them to a friend, then finds {b} more. How many coins does {name} have?", c + b),
        (f"A baker makes {a} trays of {b * 2} rolls and sells {a * b} of them. How many rolls are left?", a * b),
        (f"{name} is {a} years old. {name}'s mother is {d} times as old. How old will the mother be in {b} years?", a * d + b),
        (f"There are {c} red balls, {a} more blue balls than red ones, and {b} green balls. How many balls are there?", 2 * c + a + b),
        (f"A car uses {d} litres for 50 km. How many litres does it use for {b * 50} km?", d * b),
        (f"{name} earns {a} dollars an hour and works {b} hours on each of {d} days, and spends {a} dollars. "
         f"How many dollars are left?", a * b * d - a),
        (f"{a * d} sweets are shared equally by {d} children. Each child eats {min(2, a - 1)}. How many has each child left?",
         a - min(2, a - 1)),
        (f"A shop had {c + a * 2} shirts, sold {a} on Monday and {a} on Tuesday, and got {d * 10} new ones. How many has it now?",
         c + d * 10),
    ]  # fmt: skip


def cases() -> list[Case]:
    """The problems, kind after kind."""
    rng = random.Random("problems")
    made = []
    for i in range(COUNT):
        problems = _problems(rng.choice(NAMES), rng.randint)
        # Both halves have all kinds: every second case belongs to the other half.
        question, answer = problems[i // 2 % len(problems)]
        made.append(Case("problems", f"seed-{i}", question, SCHEMA, {"answer": answer}))
    return made
