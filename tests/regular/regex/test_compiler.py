"""Patterns as automata, held against Python's `re` and the official suite."""

from __future__ import annotations

import itertools
import json
import lzma
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.regular.chardfa import CharDfa, from_pattern
from structgen.regular.regex import PatternUnsupported
from tests.support.tables import cases
from tests.support.thinning import times

STRINGS = ["".join(chars) for size in range(5) for chars in itertools.product("aB1- ", repeat=size)]

atoms = st.sampled_from(cases("regular/regex/compiler", "atoms"))
places = st.sampled_from(["^", "$", r"\b", r"\B"])
quantifiers = st.sampled_from(["*", "+", "?", "{2}", "{1,}", "{0,2}", "{1,3}", "*?", "+?", "{0}"])


def _extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return (
        st.lists(inner, min_size=1, max_size=4).map("".join)
        | st.lists(inner, min_size=2, max_size=3).map(lambda options: f"(?:{'|'.join(options)})")
        | st.tuples(inner, quantifiers).map(lambda pair: f"(?:{pair[0]}){pair[1]}")
        | st.tuples(atoms, quantifiers).map("".join)
    )


patterns = st.recursive(atoms | places, _extend, max_leaves=10)


@settings(max_examples=times(120))
@given(patterns | st.lists(patterns, min_size=2, max_size=2).map("|".join))
def test_every_short_string_agrees_with_re(pattern: str) -> None:
    """On 781 strings of up to four characters, search and full match are Python's, assertions anywhere."""
    oracle = re.compile(pattern.replace(r"\B", r"(?!\b)"), re.ASCII)  # before 3.14, \B fails on ""
    search, whole = from_pattern(pattern), from_pattern(pattern, anchored=True)
    for text in STRINGS:
        assert search.matches(text) == (oracle.search(text) is not None), (pattern, text)
        assert whole.matches(text) == (oracle.fullmatch(text) is not None), (pattern, text)


def invariants(dfa: CharDfa) -> None:
    """What the documentation of `CharDfa` promises of its arrays."""
    states = dfa.next.shape[0]
    assert dfa.bounds[0] == 0
    assert (dfa.bounds[1:] > dfa.bounds[:-1]).all()
    assert not dfa.next[0].any()
    assert not dfa.next[:, 0].any()
    assert len(dfa.final) == states
    assert dfa.classes[dfa.bounds.searchsorted(0xDABC, side="right") - 1] == 0
    if not dfa.empty:
        reached = {1}
        todo = [1]
        while todo:
            for target in set(dfa.next[todo.pop()].tolist()) - reached - {0}:
                reached.add(target)
                todo.append(target)
        assert reached == set(range(1, states))
        assert all(dfa.final[state] or dfa.next[state].any() for state in reached)


@given(patterns)
def test_automata_are_trimmed(pattern: str) -> None:
    """Every state is reachable and useful; the dead state, the dead column and the surrogates are dead."""
    invariants(from_pattern(pattern))


@pytest.mark.parametrize(("pattern", "yes", "no"), cases("regular/regex/compiler", "meanings"))
def test_meanings(pattern: str, yes: list[str], no: list[str]) -> None:
    """Anchors in alternations, word boundaries, leading look-aheads, properties, line ends."""
    dfa = from_pattern(pattern)
    assert [text for text in yes if not dfa.matches(text)] == []
    assert [text for text in no if dfa.matches(text)] == []


def test_large_bounds_cost_a_state_each() -> None:
    """A bound of two thousand compiles, to exactly as many lengths."""
    dfa = from_pattern("^[a-z]{1,2000}$")
    assert dfa.length_range() == (1, 2000)
    assert dfa.next.shape == (2002, 2)
    assert from_pattern("x{0,2000}y").next.shape[0] == 3


def test_compiled_patterns_are_shared() -> None:
    """The same pattern is the same object."""
    assert from_pattern("^shared$") is from_pattern("^shared$")
    assert from_pattern("^shared$", anchored=True).matches("shared")


@pytest.mark.parametrize("name", ["pattern.json", "optional/ecmascript-regex.json", "optional/non-bmp-regex.json"])
def test_the_official_suite(data_folder: Path, name: str) -> None:
    """Every test of a pattern in the official suite, as a value or as the only property's name, is right."""
    seen = 0
    path = data_folder / "json-schema-test-suite" / "tests" / "draft2020-12" / name
    for group in json.loads(path.read_text(encoding="utf-8")):
        schema = group["schema"]
        for test in group["tests"]:
            data = test["data"]
            if "pattern" in schema and isinstance(data, str):
                assert from_pattern(schema["pattern"]).matches(data) == test["valid"], test
                seen += 1
            elif schema.get("additionalProperties") is False and "patternProperties" in schema:
                (pattern,) = schema["patternProperties"]
                assert all(map(from_pattern(pattern).matches, data)) == test["valid"], test
                seen += 1
    assert seen


def maskbench_patterns(data_folder: Path) -> list[str]:
    found: set[str] = set()
    with lzma.open(data_folder / "maskbench-dev.jsonl.xz", "rt", encoding="utf-8") as rows:
        todo: list[Any] = [json.loads(row)["schema"] for row in rows]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            found.update(key for key in [value.get("pattern")] if isinstance(key, str))
            if isinstance(value.get("patternProperties"), dict):
                found.update(value["patternProperties"])
            todo.extend(value.values())
        elif isinstance(value, list):
            todo.extend(value)
    return sorted(found)


def walk(dfa: CharDfa, rng: random.Random) -> str:
    """A random member, or the beginning of one."""
    lows = dfa.bounds.tolist()
    highs = [*(low - 1 for low in lows[1:]), 0x10FFFF]
    state, text = 1, ""
    while len(text) < 40 and not (dfa.final[state] and rng.random() < 0.2):
        live = [at for at, kind in enumerate(dfa.classes.tolist()) if dfa.next[state, kind]]
        if not live:
            break
        at = rng.choice(live)
        text += chr(rng.randint(lows[at], min(highs[at], lows[at] + 100)))
        state = int(dfa.next[state, dfa.classes[at]])
    return text


# Where Python's `.`, `\s` or `$` is not ECMA-262's.
DIALECTS_DIFFER = re.compile("[\r\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]|\n$")


@pytest.mark.slow
def test_patterns_in_the_wild(data_folder: Path) -> None:
    """Every pattern of MaskBench compiles, and agrees with `re` where the dialects do."""
    rng = random.Random(7)
    compared = refused = 0
    for pattern in maskbench_patterns(data_folder):
        try:
            dfa = from_pattern(pattern)
        except PatternUnsupported:
            refused += 1
            continue
        invariants(dfa)
        oracle = re.compile(pattern, re.ASCII)
        for _ in range(8):
            text = walk(dfa, rng)
            at = rng.randint(0, len(text))
            for sample in (
                text,
                text[:at] + text[at + 1 :],
                text[:at] + rng.choice("a0 -_Z./@é") + text[at:],
            ):
                if len(sample) < 20 and not DIALECTS_DIFFER.search(sample):  # `re` backtracks without end
                    compared += 1
                    assert dfa.matches(sample) == (oracle.search(sample) is not None), (pattern, sample)
    assert compared > 5_000
    assert refused == 0
