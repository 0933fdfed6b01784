"""The algebra of string sets, held against Python's sets and predicates.

Covers `minimise`.
"""

from __future__ import annotations

import gc
import itertools
import random
import re
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from structgen.automaton.writing.outline import outline_of
from structgen.errors import LimitExceeded
from structgen.kernels import twin
from structgen.regular import chardfa, minimise
from structgen.regular.chardfa import (
    CharDfa,
    beside,
    combine,
    complement,
    from_pattern,
    intersect,
    length,
    lengths,
    literals,
    numbered,
    union,
)
from structgen.values.sets.decimals import any_finite_dfa

STRINGS = ["".join(chars) for size in range(6) for chars in itertools.product("abé\U0001f600", repeat=size)]

words = st.lists(st.text("abé\U0001f600", max_size=5), max_size=8)
PATTERNS = ["a", "^a*$", "^[^b]+$", "b{2}", "é.$", "^(ab|é)*$", "^.{2,3}$", r"\b\u{1F600}"]
sets = (
    words.map(literals)
    | st.sampled_from(PATTERNS).map(from_pattern)
    | st.tuples(st.integers(0, 3), st.none() | st.integers(0, 5)).map(lambda ends: length(*ends))
)


def members(dfa: CharDfa) -> set[str]:
    return {text for text in STRINGS if dfa.matches(text)}


def same(left: CharDfa, right: CharDfa) -> bool:
    """Equal sets have equal minimal automata, array for array."""
    arrays = ((left.bounds, right.bounds), (left.classes, right.classes), (left.next, right.next))
    return left.final == right.final and all(np.array_equal(one, other) for one, other in arrays)


@given(words)
def test_literals_are_exactly_the_words(strings: list[str]) -> None:
    """Nothing more, nothing less; and the longest and shortest are known."""
    dfa = literals(strings)
    assert members(dfa) == set(strings)
    assert dfa.empty == (not strings)
    if strings:
        assert dfa.length_range() == (min(map(len, strings)), max(map(len, strings)))


@given(sets, sets)
def test_and_or_not_are_those_of_sets(left: CharDfa, right: CharDfa) -> None:
    """On all 1,365 strings of up to five characters over four of one to four bytes in UTF-8."""
    assert members(intersect(left, right)) == members(left) & members(right)
    assert members(union(left, right)) == members(left) | members(right)
    assert members(complement(left)) == set(STRINGS) - members(left)


@given(sets, sets)
def test_laws_hold_state_for_state(left: CharDfa, right: CharDfa) -> None:
    """De Morgan's law and double negation give the same automaton: results are minimal and canonical."""
    assert same(complement(complement(left)), union(left))
    assert same(complement(intersect(left, right)), union(complement(left), complement(right)))
    assert intersect(left, complement(left)).empty
    assert same(union(left, complement(left)), length())


@given(st.lists(sets, min_size=1, max_size=4))
def test_combine_says_which_sets_accept(parts: list[CharDfa]) -> None:
    """Bit i of the final mask is membership in set i, also where one set is in several places."""
    for each in (parts, [*parts, *parts[::-1]]):
        both = combine(each)
        for text in STRINGS:
            mask = both.final[both.state_after(text)]
            assert mask == sum(part.matches(text) << at for at, part in enumerate(each))


def test_combine_has_no_bound_on_the_number_of_sets() -> None:
    """A hundred sets have a hundred bits."""
    both = combine([literals([f"k{at}", "all"]) for at in range(100)])
    assert both.final[both.state_after("k99")] == 1 << 99
    assert both.final[both.state_after("all")] == (1 << 100) - 1


@given(st.lists(sets, min_size=1, max_size=9), st.integers(2, 4))
def test_sets_combined_in_groups_are_combined(parts: list[CharDfa], group: int) -> None:
    """State for state, final masks included: results are minimal."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chardfa, "_GROUP", group)
        grouped = combine(parts)
    assert same(grouped, combine(parts))
    assert grouped.final == combine(parts).final


@given(st.lists(st.tuples(st.integers(0, 7), st.none() | st.integers(-1, 9)), min_size=1, max_size=4))
def test_lengths_are_the_minimal_automaton_of_their_ranges(ranges: list[tuple[int, int | None]]) -> None:
    """The final mask behind each number of characters says which ranges hold it; no state could be left out."""
    dfa = lengths(ranges)
    for count in range(12):
        holding = [least <= count and (most is None or count <= most) for least, most in ranges]
        assert dfa.final[dfa.state_after("é" * count)] == sum(held << i for i, held in enumerate(holding))
    minimal = chardfa.tidied(dfa.bounds, dfa.classes, dfa.next, dfa.final)
    assert same(dfa, minimal)
    assert (dfa.final, dfa.bounds.tolist()) == (minimal.final, minimal.bounds.tolist())


@given(sets)
def test_length_range_is_exact(dfa: CharDfa) -> None:
    """The shortest member is found; where there is a longest one, none is longer."""
    if dfa.empty:
        with pytest.raises(ValueError, match="empty"):
            dfa.length_range()
        return
    least, most = dfa.length_range()
    assert intersect(dfa, length(0, least - 1)).empty if least else dfa.matches("")
    assert not intersect(dfa, length(least, least)).empty
    if most is None:
        assert not intersect(dfa, length(100)).empty
    else:
        assert not intersect(dfa, length(most, most)).empty
        assert intersect(dfa, length(most + 1)).empty


def test_surrogates_are_never_text() -> None:
    """Neither a complement nor a literal brings them back."""
    for dfa in (length(1, 1), complement(literals(["a"])), from_pattern("[^]"), literals(["\ud800", "a"])):
        assert not dfa.matches("\ud800")
        assert not dfa.matches("\udfff")
    assert length(1, 1).matches("\ud7ff")
    assert length(1, 1).matches("\ue000")


def test_contradictions_are_empty() -> None:
    """The empty set keeps a start state that is dead."""
    for dfa in (length(3, 2), intersect(literals(["a"]), literals(["b"])), literals([]), from_pattern("a^")):
        assert dfa.empty
        assert dfa.next.shape[0] == 2
        assert not dfa.matches("")


def test_large_enumerations_share_their_endings() -> None:
    """Five thousand words compile, and common suffixes are one state each."""
    strings = [f"item-{at:05}-suffix" for at in range(5000)]
    dfa = literals(strings)
    assert dfa.next.shape[0] < 40
    assert all(map(dfa.matches, strings))
    assert not dfa.matches("item-05000-suffix")


@given(st.lists(st.text("abcé\U0001f600", max_size=9), max_size=40))
def test_words_put_together_by_halves_are_the_same_automaton(strings: list[str]) -> None:
    whole = numbered(sorted(set(strings)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chardfa, "_BYTES_AT_ONCE", 300)
        halves = numbered(sorted(set(strings)))
    assert halves.final == whole.final
    for array in ("bounds", "classes", "next"):
        assert np.array_equal(getattr(halves, array), getattr(whole, array))


def test_long_words_take_the_memory_of_their_automaton() -> None:
    """A million letters of a hundred words took 1.4 GB."""
    words = [f"{i}-" + "x" * 10_000 for i in range(100)]
    assert len(literals(words).final) < 11_000
    with pytest.raises(LimitExceeded, match="a text of 3,000,000 characters takes more than 64 MB"):
        literals(["x" * 3_000_000, "b"])


def test_limits_name_themselves() -> None:
    """Too many states is an error, not a long wait."""
    with pytest.raises(LimitExceeded, match="50,000 automaton states"):
        length(0, 60_000)
    with pytest.raises(LimitExceeded, match="more than 50"):
        intersect(from_pattern("^(ab){1,40}$"), from_pattern("^[ab]{1,80}$"), limit=50)
    with pytest.raises(LimitExceeded, match="use smaller bounds"):
        from_pattern("^a{1,60000}$")


@pytest.mark.parametrize("pattern", ["^(a|b)*abb$", "x{0,9}y", "^(foo|bar|baz)+$"])
def test_kernels_equal_their_plain_twins(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled minimisation gives what the same text gives in plain Python."""
    dfa = from_pattern(pattern)
    final = np.array(dfa.final, np.int32)
    compiled = minimise.tidy(dfa.bounds, dfa.classes, dfa.next, final, 2)
    monkeypatch.setattr(minimise, "_tidy", twin(minimise._tidy))
    plain = minimise.tidy(dfa.bounds, dfa.classes, dfa.next, final, 2)
    assert all(np.array_equal(one, other) for one, other in zip(compiled, plain, strict=True))
    assert re.search(pattern, "aabb" if "abb" in pattern else "xxy" if "y" in pattern else "foobar")


def test_a_pattern_that_lists_many_texts_is_their_set() -> None:
    """With anchors inside or outside of the options, and without one it is a search again."""
    words = [f"w{i}é" for i in range(200)] + ["", "w"]
    listed = "|".join(words)
    for pattern in (f"^({listed})$", f"^(?:{listed})$", "|".join(f"^{word}$" for word in words)):
        dfa = from_pattern(pattern)
        assert all(map(dfa.matches, words))
        assert not any(map(dfa.matches, ("w200é", "w1", "w1éé", "xw1é")))
    assert from_pattern("|".join(words[:200])).matches("xw1éé")


def test_what_lifting_needs_is_found_once_per_automaton_and_goes_with_it():
    dfa = from_pattern.__wrapped__("^[a-z]*b{3}$")
    outline = outline_of(dfa, quoted=False, name=False)
    assert outline_of(dfa, quoted=False, name=False) is outline
    assert outline_of(dfa, quoted=True, name=True).classes_in(0x62, 0x62) == outline.classes_in(0x62, 0x62)
    gone = weakref.ref(outline)
    del dfa, outline
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("pattern", "everything"),
    [("", True), ("a*", True), ("^[^]*$", True), ("^\\s*$|.|^$", True), ("^.*$", False), ("[^]", False), ("^$", False)],
)
def test_an_automaton_knows_that_every_string_is_a_member(pattern, everything):
    assert from_pattern(pattern).everything is everything


def test_only_automata_with_free_text_have_exits():
    for quoted in (False, True):
        assert outline_of(from_pattern("^[^]*end$"), quoted=quoted, name=False).exits is not None
        assert outline_of(from_pattern("^[^]{9}end[^]*$"), quoted=quoted, name=False).exits is not None
        assert outline_of(from_pattern("^[^]{9}end$"), quoted=quoted, name=False).exits is None
    assert outline_of(any_finite_dfa(), quoted=False, name=False).exits is None


@pytest.mark.parametrize("seed", range(20))
def test_numbered_texts_are_literals_with_their_places_as_bits(seed):
    draw = random.Random(seed)
    drawn = ("".join(draw.choices("ab\u00e9\U0001f600", k=draw.randint(0, 4))) for _ in range(draw.randint(1, 40)))
    words = list(dict.fromkeys(drawn))
    sets = [length(), from_pattern("^a"), from_pattern("b$")]
    bits = [literals([word for i, word in enumerate(words, 1) if i >> k & 1]) for k in range(len(words).bit_length())]
    wanted, found = combine([*sets, *bits]), beside((combine(sets), numbered(words)), len(sets))
    for word in [*words, "x", "ab" * 3, "\u00e9b"]:
        assert found.final[found.state_after(word)] == wanted.final[wanted.state_after(word)]
    assert len(found.final) == len(wanted.final)
