"""The tree of what was tried: nothing twice, nothing lost, and each text with its own probability."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.decoding.refusals.retry_tree import Refusal, RetryTree
from structgen.errors import DeadEnd, RunError
from tests.support.thinning import times

END = 9
Tree = dict[tuple[int, ...], dict[int, float]]


@st.composite
def models(draw: st.DrawFn) -> Tree:
    """Of each beginning of a text, the probabilities of what may follow; a text is over with `END`."""
    tree: Tree = {}
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        begun = waiting.pop()
        tokens = draw(st.lists(st.integers(0, 3), max_size=0 if len(begun) > 3 else 3, unique=True))
        tokens = [*tokens, END] if not tokens or draw(st.booleans()) else tokens
        weights = [draw(st.sampled_from([1e-12, 0.01, 0.3, 1.0, 50.0])) for _ in tokens]
        tree[begun] = {token: weight / sum(weights) for token, weight in zip(tokens, weights, strict=True)}
        waiting += [(*begun, token) for token in tokens if token != END]
    return tree


def texts(tree: Tree) -> dict[tuple[int, ...], float]:
    """Every text of a model with its probability."""
    found = {}
    for begun, follows in tree.items():
        if END in follows:
            chance = 1.0
            for at, token in enumerate((*begun, END)):
                chance *= tree[begun[:at]][token]
            found[(*begun, END)] = chance
    return found


def say(
    tree: Tree, retries: RetryTree, begun: list[int], rng: random.Random | None
) -> tuple[list[int], list[float | None]]:
    """A text that goes on from some tokens, and the chances that would be measured of it."""
    tokens, chances = list(begun), [0.5] * len(begun)  # of what is in the tree already they are not looked at
    while tokens[-1:] != [END]:
        tried = retries.tried(tokens) if len(tokens) == len(begun) else []
        allowed = {t: p for t, p in tree[tuple(tokens)].items() if t not in tried}
        mass = sum(allowed.values())
        likeliest = max(allowed, key=allowed.__getitem__)
        token = likeliest if rng is None else rng.choices(list(allowed), list(allowed.values()))[0]
        chances.append(None if len(tree[tuple(tokens)]) == 1 else allowed[token] / mass)
        tokens.append(token)
    return tokens, chances


def all_said(tree: Tree, rng: random.Random | None, *, start: int = 0) -> list[tuple[int, ...]]:
    """Every text is refused until none is left."""
    retries, said = RetryTree(None if rng is None else rng.random), []
    tokens, chances = say(tree, retries, [], rng)
    stay = tokens[:start]
    refusal = Refusal(tuple(stay), [len(stay)], "", RunError())
    while True:
        said.append(tuple(tokens))
        retries.add(tokens, [None] * len(tokens), chances)
        while (place := next(retries.places(refusal), None)) is not None:
            if place.tokens and place.tokens[-1] == END:
                pytest.fail("a refused text is a place to go on from")
            if set(tree[tuple(place.tokens)]) - set(retries.tried(place.tokens)):
                break
            place.close()
        if place is None:
            return said
        tokens, chances = say(tree, retries, place.tokens, rng)


@pytest.mark.slow
@given(tree=models(), seed=st.none() | st.integers(0, 99))
@settings(deadline=None, max_examples=times(200))
def test_every_text_is_said_once_and_none_twice(tree, seed):
    """However unlikely: a good text that shares its beginning with refused ones is always found."""
    said = all_said(tree, None if seed is None else random.Random(seed))
    assert sorted(said) == sorted(texts(tree))


@given(tree=models(), start=st.integers(0, 3))
@settings(deadline=None, max_examples=times(100))
def test_what_stays_is_in_every_text(tree, start):
    """Behind some tokens that stay, exactly the texts that begin with them are said."""
    said = all_said(tree, None, start=start)
    assert sorted(said) == sorted(text for text in texts(tree) if text[:start] == said[0][:start])


def test_a_sampled_row_says_what_is_left_with_its_own_probability():
    """The second text is distributed as the model's texts that are not the first one."""
    tree: Tree = {(): {0: 0.7, 1: 0.3}, (0,): {0: 0.6, END: 0.4}, (0, 0): {END: 1.0}, (1,): {0: 0.5, END: 0.5}}
    tree[1, 0] = {END: 1.0}
    rng, counted, runs = random.Random(3), Counter(), 6000
    for _ in range(runs):
        retries = RetryTree(rng.random)
        tokens, chances = [0, 0, END], [0.7, 0.6, None]
        retries.add(tokens, [None] * 3, chances)
        place = next(retries.places(Refusal((), [0], "", RunError())))
        counted[tuple(say(tree, retries, place.tokens, rng)[0])] += 1
    for text, chance in texts(tree).items():
        expected = 0 if text == (0, 0, END) else chance / (1 - 0.42)
        assert counted[text] / runs == pytest.approx(expected, abs=0.03)


def test_a_greedy_row_goes_where_most_is_left():
    retries = RetryTree()
    retries.add([1, 2, 3], [None] * 3, [0.9, 0.4, 0.99])
    where = []
    for place in retries.places(Refusal((1, 2, 3), [2, 0], "", RunError())):
        where.append(place.tokens)
        place.close()
    assert where == [[1, 2], [1], []]  # the nearest first; behind [] the node behind [1] has 0.54, [] itself 0.1


def test_bans_belong_to_their_prefix():
    retries = RetryTree()
    retries.add([1, 2, 7], [None] * 3, [0.5, 0.5, 0.5])
    retries.add([1, 2, 6], [None] * 3, [0.5, 0.5, 0.5])
    assert retries.tried([1, 2]) == [7, 6]
    assert retries.tried([1]) == [2]
    assert retries.tried([2, 2]) == []


def test_what_is_said_again_keeps_its_measures():
    retries = RetryTree()
    retries.add([1, 2, 3], [(0, 0), None, (1, 0)], [0.5, None, 0.2])
    place = next(retries.places(Refusal((1, 2, 3), [2], "", RunError())))
    assert [node.entry for _, node in place.path] == [(0, 0), None]


def test_texts_that_are_given_come_first_and_once() -> None:
    tree = RetryTree(None, 9)
    tree.add((1, 2, 3), [0, 1, 2], [0.5, 0.5, 0.5])
    refusal = Refusal((1, 2, 3), [0], "why", lambda: DeadEnd("no"), None, [(1, 7, 8)])
    assert next(iter(tree.places(refusal))).tokens == [1, 7, 8]
    assert next(iter(tree.places(refusal))).tokens != [1, 7, 8]
