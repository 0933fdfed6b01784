"""A `CharDfa` lifted to bytes takes its members and no other text: plain, quoted and as a name, counted or not.

Covers `char_kernels`, `char_escapes`, `outline`, `outline_kernels`, `text_loops` and `literals`, the trie that literals
are written in.
"""

from __future__ import annotations

import json
import random
from itertools import product

import numpy as np
import pytest

from structgen.automaton.bytewise import Bytewise
from structgen.automaton.machine import Automaton
from structgen.automaton.table_format import Int32, Int64
from structgen.automaton.writing.chars import Lifted
from structgen.automaton.writing.literals import after_text, write_literals, write_words
from structgen.automaton.writing.outline import outline_of
from structgen.automaton.writing.outline_kernels import MANY, MAX_DEPTH, SPARE, Uint8, write_outline
from structgen.automaton.writing.text_classes import TEXT_CLASSES
from structgen.automaton.writing.text_loops import BIT_OF, ODD_BIT
from structgen.regular.chardfa import CharDfa, from_pattern
from structgen.regular.chardfa_kernels import FAR, fewest_steps
from tests.automaton.test_step import takes
from tests.support.tables import cases
from tests.support.thinning import diagonal, thinned

PATTERNS = cases("automaton/writing/chars", "PATTERNS")
CHARACTERS = ["a", "b", "x", "é", "à", "😀", "\ud7ff", '"', "\\", "/", "\x00", "\x1f", "\n"]
TEXTS = ["", *map("".join, product(CHARACTERS, repeat=1)), *map("".join, product(CHARACTERS, repeat=2)), "abab", "ééb"]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("most", [None, 1])
def test_plain_text_is_taken_as_utf8(pattern: str, most: int | None) -> None:
    dfa, automaton = from_pattern(pattern), Automaton()
    start, walk = Lifted(automaton, dfa, lambda final: 0, quoted=False, maximum=most).start, Bytewise(automaton)
    for text in TEXTS:
        wanted = dfa.matches(text) and (most is None or len(text) <= most)
        assert takes(walk, start, text.encode()) == wanted, text


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("name", [False, True])
def test_quoted_text_is_taken_in_the_spellings_of_json(pattern: str, name: bool) -> None:
    """A value in any spelling, a name in that of `json.dumps` alone."""
    dfa, automaton = from_pattern(pattern), Automaton()
    close, walk = automaton.pop(), Bytewise(automaton)
    start = Lifted(automaton, dfa, lambda final: close, quoted=True, name=name).start
    for text in TEXTS:
        plain, ascii_only = (json.dumps(text, ensure_ascii=ascii_only)[1:] for ascii_only in (False, True))
        assert takes(walk, start, plain.encode()) == dfa.matches(text), text
        assert takes(walk, start, ascii_only.encode()) == (dfa.matches(text) and (not name or ascii_only == plain)), (
            text
        )
    assert not takes(walk, start, b'\n"')


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_state_has_a_way_out_whatever_stood_in_its_row_before(pattern: str) -> None:
    """Kernels leave what means nothing in a row as it was: no state is taken for one in the midst of an escape."""
    dfa, automaton = from_pattern(pattern), Automaton()
    automaton.tables.states[automaton.tables.n_states :] = 12345
    start, walk = Lifted(automaton, dfa, lambda final: 1, quoted=True).start, Bytewise(automaton)
    for character in CHARACTERS:
        takes(walk, start, json.dumps(character)[1:-1].encode())
    write_literals(automaton, automaton.tables.stub(), [(b"one", 1), (b"other", 1)])
    automaton.tables.states[automaton.tables.n_states :] = 12345
    written = range(2, automaton.tables.n_states)
    for state in written:
        out = automaton.way_out(state)
        assert out in written or out >= written.stop, state


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_shortest_ways_are_the_lengths_that_the_language_has(pattern: str) -> None:
    """And in the automaton, the way out of a text of one end spells one of them, where bytes are characters."""
    dfa = from_pattern(pattern)
    steps = fewest_steps(dfa.next, np.array(dfa.final) != 0)
    assert steps[0] == FAR
    assert steps[1] == dfa.length_range()[0]
    automaton = Automaton()
    lifted = Lifted(automaton, dfa, lambda final: automaton.pop(), quoted=True)
    text, behind = automaton.tables.literal(automaton.way_out(lifted.start))
    if automaton.way_out(lifted.start) != lifted.start:
        assert behind == automaton.pop()
        assert text.endswith(b'"')
        assert len(text) == steps[1] + 1
        assert dfa.matches(text[:-1].decode())


def kind_of(dfa: CharDfa, code: int) -> int:
    """The class of a character."""
    return int(dfa.classes[np.searchsorted(dfa.bounds, code, side="right") - 1])


def written_outline(dfa: CharDfa, wides: Int32, *, quoted: bool = False) -> tuple[Uint8, Int64]:
    """The depths and the exits of a `CharDfa`, before an outline chooses among them."""
    states, width = dfa.next.shape
    spare, spans = np.zeros((SPARE, max(states, width)), np.int64), np.empty((len(dfa.bounds) + 2, 3), np.int32)
    depths, exits = np.empty((len(TEXT_CLASSES), states - 1), np.uint8), np.zeros((states - 1, 2), np.int64)
    write_outline(dfa.bounds, dfa.classes, dfa.next, wides, quoted, spare, spans, depths, exits)
    return depths, exits


@pytest.mark.parametrize(("quoted", "pattern"), diagonal([False, True], PATTERNS))
def test_exits_are_the_buckets_of_the_characters_that_lead_elsewhere(pattern: str, quoted: bool) -> None:
    """Inside quotes, the quote, the backslash and control characters lead away from every state."""
    dfa = from_pattern(pattern)
    wides = outline_of(dfa, quoted=False, name=False).wides
    leads = written_outline(dfa, wides, quoted=quoted)[1] if wides.any() else []
    never = {*range(0x20), ord('"'), ord("\\")} if quoted else set()
    for q in range(1, len(leads) + 1):
        leaving = never | {code for code in range(128) if dfa.next[q, kind_of(dfa, code)] != q}
        wanted = int(ODD_BIT)
        for code in leaving:
            wanted |= int(BIT_OF[code])
        for code in [*range(0x80, 0x3100), *range(0x3100, 0xD800, 0x40), *range(0xE000, 0x110000, 0x400), 0x10FFFF]:
            if dfa.next[q, kind_of(dfa, code)] != q:
                wanted |= int(BIT_OF[chr(code).encode()[0]])
        assert int(leads[q - 1, 0]) == wanted


def test_an_outline_is_made_once_for_each_use_of_a_dfa() -> None:
    dfa = from_pattern("^[a-c]+$")
    assert outline_of(dfa, quoted=True, name=False) is outline_of(dfa, quoted=True, name=False)
    assert outline_of(dfa, quoted=True, name=False) is not outline_of(dfa, quoted=True, name=True)
    assert outline_of(dfa, quoted=False, name=False).classes_in(ord("a"), ord("c")) == {kind_of(dfa, ord("b"))}


def test_a_trie_of_literals_leads_each_to_its_target() -> None:
    for seed in range(30):
        draw = random.Random(seed)
        words = {bytes(draw.choices(b"ab\xc3", k=draw.randint(1, 6))) + b"." for _ in range(draw.randint(1, 60))}
        automaton = Automaton()
        targets = {
            word: automaton.tables.ranges(automaton.tables.stub(), (), miss=(3, i, 0)) for i, word in enumerate(words)
        }
        root = automaton.tables.stub()
        write_literals(automaton, root, targets.items())
        assert {word: after_text(automaton, root, word) for word in words} == targets
        walk = Bytewise(automaton)
        assert all(takes(walk, root, word) and not takes(walk, root, word[:-1]) for word in words)
        prefixes = {word[:n] for word in words for n in range(1, len(word))}
        assert automaton.tables.n_states == root + 1 + len(prefixes), "each prefix is one state"


def test_the_way_out_of_words_is_the_shortest_word() -> None:
    automaton = Automaton()
    end, root = automaton.pop(), automaton.tables.stub()
    write_words(automaton, root, [b"long way.", b"lo.", b"other."], end)
    state, text = automaton.way_out(root), b""
    while state != end:
        (low, _, state), *others = automaton.tables.edges_of(automaton.way_out(state))
        assert not others
        text += bytes([low])
    assert text == b"lo."


@pytest.mark.parametrize("seed", thinned(range(15), 3))
def test_alive_depths_are_the_shortest_ways_to_the_dead_state(seed: int) -> None:
    """Of random automata, long chains of states among them."""
    draw = random.Random(seed)
    starts = sorted({0, *draw.choices([0x20, 0x30, 0x3A, 0x41, 0x5B, 0x61, 0x7B, 0x80, 0x2028, 0xE000], k=6)})
    classes, states = [draw.randrange(1, 4) for _ in starts], draw.choice([3, 9, 150])
    nexts = np.zeros((states, 4), np.int32)
    for q in range(1, states):
        nexts[q, 1:] = draw.choices([0, min(q + 1, states - 1), q, draw.randrange(states)], [seed % 3, 60, 9, 9], k=3)
    dfa = CharDfa(np.array(starts, np.int32), np.array(classes, np.int32), nexts, (0,) * states)
    depths, _ = written_outline(dfa, np.zeros(0, np.int32))
    for k, ranges in enumerate(TEXT_CLASSES):
        lasts = [*(start - 1 for start in starts[1:]), 0x10FFFF]
        spans = list(zip(starts, lasts, classes, strict=True))
        used = {c for low, high, c in spans if any(low <= b and a <= high for a, b in ranges)}
        wanted: dict[int, float] = dict.fromkeys(range(1, states), float("inf")) | {0: -1.0}
        for _ in range(states):
            for q in range(1, states):
                wanted[q] = min([wanted[q], *(wanted[int(nexts[q, c])] + 1 for c in used)])
        told = [MAX_DEPTH if wanted[q] == float("inf") else min(int(wanted[q]), MANY) for q in range(1, states)]
        assert depths[k].tolist() == told, k
