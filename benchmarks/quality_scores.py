"""How right an answer is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jsonschema

from benchmarks.quality_texts import Case

NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
BOXED = re.compile(r"\\boxed\{[^{}]*?(-?\d[\d,]*(?:\.\d+)?)[^{}]*\}")
"""How models that learned from mathematics mark a result: `\\boxed{18} years old in 6 years`."""
MISSING = object()


@dataclass(frozen=True)
class Score:
    """One answer, judged.

    Attributes:
        valid: a JSON object that meets the schema was found in the text.
        fields, right: members of the right answer, and how many of them the answer has right.
        whole: all of it is right, and nothing was added.
        invented: values where the text has none.
        lost: members that the text has, and the answer has not, or null.
    """

    valid: bool
    fields: int
    right: int
    whole: bool
    invented: int
    lost: int


def score(case: Case, text: str, *, free: bool) -> Score:
    """Judges an answer.

    Args:
        free: the text may hold the answer anywhere: the first JSON object in it counts, else the only label that it
            names, or the number in its last box, or its last number, as a caller would read it.
    """
    value = _first_object(text) if free else _parsed(text)
    valid = value is not MISSING and jsonschema.Draft202012Validator(case.schema).is_valid(value)
    if free and not valid:
        value = _read(case, text, value)
    if case.task == "calls":
        return _call_score(case.gold, value, valid=valid)
    expected, given = dict(_leaves(case.gold)), dict(_leaves(value)) if value is not MISSING else {}
    right = sum(path in given and _same(each, given[path]) for path, each in expected.items())
    more = sum(path not in expected for path in given)
    invented = sum(each is None and given.get(path) is not None for path, each in expected.items()) + more
    lost = sum(each is not None and given.get(path) is None for path, each in expected.items())
    return Score(valid, len(expected), right, right == len(expected) and not more, invented, lost)


def _call_score(gold: Any, value: Any, *, valid: bool) -> Score:
    """The right function, and each of its arguments among the allowed ones; an empty text allows it to be absent."""
    name, allowed = next(iter(gold.items()))
    arguments = value.get("arguments") if isinstance(value, dict) else None
    named = isinstance(value, dict) and value.get("name") == name
    given = arguments if isinstance(arguments, dict) and named else {}
    needed = {key: values for key, values in allowed.items() if key in given or "" not in values}
    right = sum(key in given and any(_same(each, given[key]) for each in values) for key, values in needed.items())
    invented = sum(key not in allowed for key in given) + (name == "no_tool" and not named)
    lost = sum(key not in given for key in needed)
    return Score(valid, 1 + len(needed), named + right, named and right == len(needed) and not invented, invented, lost)


def _same(expected: Any, given: Any) -> bool:
    """Equal, apart from upper and lower case and white space of texts, and numbers and booleans written as texts."""
    if isinstance(given, str) and not isinstance(expected, (str, type(None))):
        try:
            given = json.loads(given.strip().lower())
        except ValueError:
            return False
    if isinstance(expected, str) and isinstance(given, str):
        return " ".join(expected.casefold().split()) == " ".join(given.casefold().split())
    if isinstance(expected, (list, tuple)) and isinstance(given, (list, tuple)):
        return len(expected) == len(given) and all(map(_same, expected, given))
    if isinstance(expected, bool) or isinstance(given, bool):
        return expected is given
    return bool(expected == given)


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, (dict, list)):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(each, f"{path}/{key}")
    else:
        yield path, value


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return MISSING


def _first_object(text: str) -> Any:
    decoder = json.JSONDecoder()
    for match in re.finditer(r"\{", text):
        try:
            return decoder.raw_decode(text, match.start())[0]
        except ValueError:
            continue
    return MISSING


def _read(case: Case, text: str, value: Any) -> Any:
    """The answer in a text without a valid object: the one label it names, or its last number."""
    if case.task == "problems":
        numbers = BOXED.findall(text) or NUMBER.findall(text)
        return {"answer": float(numbers[-1].replace(",", ""))} if numbers else value
    if case.task == "labels":
        named = {label for label in case.schema["properties"]["label"]["enum"] if label in text.lower()}
        return {"label": named.pop()} if len(named) == 1 else value
    return value
