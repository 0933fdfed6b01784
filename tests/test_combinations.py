"""Which options of a call go together: each pair works, or is refused in the words that the reference has.

The fast test is of the pairs in the reference's table, the slow one of all. `UPDATE_OUTPUTS=1` and `-m slow` write the
table.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, field_validator

import structgen as sg
from tests.support.tables import cases

pytestmark = pytest.mark.filterwarnings("ignore::structgen.BudgetWarning")

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "generate.md"
TABLE = re.compile(r"(?<=<!-- combinations -->\n).*?(?=<!-- /combinations -->)", re.DOTALL)
HEAD = "| options | the error says |\n| --- | --- |\n"
UPDATE = os.environ.get("UPDATE_OUTPUTS") == "1"
PROMPT = "Text: Ada Moreau, 36, lives in Lyon.\nJSON: "
LIMITS = sg.Limits(48)


class Person(BaseModel):
    name: str
    age: int
    city: str


class Checked(Person):
    @field_validator("age")
    @classmethod
    def adult(cls, age: int) -> int:
        assert age >= 18
        return age


class Quoted(BaseModel):
    name: Annotated[str, sg.Quote()]


def find_person(name: str, age: int) -> str:
    """Finds a person."""
    return "found"


def sampled(**options: Any) -> dict[str, Any]:
    return {"sampling": sg.Sampling(**options)}


WITH_SCHEMA = {"needs": Person}
"""Of an option that goes with a schema only: which one, if the other option brings none."""

OPTIONS: dict[str, dict[str, Any]] = cases("combinations", "OPTIONS", globals())


def joined(one: Any, two: Any) -> Any:
    """Two `Sampling` or two `Limits` in one: what the second one sets."""
    given = {each.name: getattr(two, each.name) for each in fields(two)}
    return replace(one, **{name: value for name, value in given.items() if value != getattr(type(two)(), name)})


def pairs() -> Iterator[tuple[str, str]]:
    """Those that can be asked for: a call has one schema."""
    for one, two in combinations(OPTIONS, 2):
        if not {"schema"} <= OPTIONS[one].keys() & OPTIONS[two].keys() and not one[:10] == two[:10] == "`canonical":
            yield one, two


@cache
def demo() -> Any:
    return sg.load("demo")


def refused(one: str, two: str) -> str:
    """Makes a call with both options. Returns the error's words; empty if it works."""
    first, second = OPTIONS[one], OPTIONS[two]
    options: dict[str, Any] = {"limits": LIMITS, **first, **second}
    for name in ("sampling", "limits") if first.keys() & second.keys() & {"sampling", "limits"} else ():
        if name in first and name in second:
            options[name] = joined(first[name], second[name])
    tools, stream, batch = options.pop("tools", ()), options.pop("stream", False), options.pop("batch", False)
    if "phrases" in options and {one, two} & {"`Sampling(exact=True)`"}:
        del options["beams"]  # either finds texts with phrases; both together are another pair
    needed = options.pop("needs", None)
    schema = options.pop("schema", None if tools else needed)
    prompt: Any = [{"role": "user", "content": PROMPT}] if tools else PROMPT
    asked = [prompt, prompt] if batch else prompt
    try:
        if stream:
            begin, what = (sg.stream_call, tools) if tools else (sg.stream, schema)
            runs: Any = begin(demo(), asked, what, **options)
            assert list(runs) or runs.result is not None
        elif tools:
            assert sg.call(demo(), asked, tools, schema=schema, **options)
        else:
            got = sg.generate(demo(), asked, schema, **options)
            assert isinstance(got, list) is batch
    except (sg.OptionError, sg.SchemaError) as error:
        return error.message
    return ""


def rows(words: dict[tuple[str, str], str]) -> str:
    return HEAD + "".join(f"| {one} and {two} | `{said}` |\n" for (one, two), said in words.items())


def listed() -> dict[tuple[str, str], str]:
    """The pairs of the reference's table, with the errors' words."""
    table = TABLE.search(PAGE.read_text(encoding="utf-8"))
    assert table is not None
    lines = table[0].removeprefix(HEAD).splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines]
    return {tuple(names.split(" and ")): said[1:-1] for names, said in cells}  # type: ignore[misc]


def test_pairs_that_the_reference_names_are_refused_in_its_words() -> None:
    assert len(listed()) > 20
    for pair, said in listed().items():
        assert refused(*pair) == said, pair


@pytest.mark.slow
def test_all_other_pairs_work() -> None:
    words = {pair: said for pair in pairs() if (said := refused(*pair))}
    source = PAGE.read_text(encoding="utf-8")
    if UPDATE:
        PAGE.write_text(TABLE.sub(lambda _: rows(words), source), encoding="utf-8")
    assert UPDATE or words == listed()
