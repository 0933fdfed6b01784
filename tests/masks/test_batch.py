"""Masks of a batch on several threads: every row is what one thread alone finds, whoever else is at work."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from structgen.constraints.basic import JsonSchema, Regex
from structgen.errors import DeadEnd
from structgen.masks import Matcher, batch, fill_masks, find_masks, places
from structgen.vocabulary import Vocabulary
from tests.support.matching import END, rich_vocabulary

VOCABULARY = rich_vocabulary()


@pytest.fixture(autouse=True)
def threads(monkeypatch):
    """Four threads, whatever the machine has, and all of them for a few grammars."""
    monkeypatch.setattr(batch, "THREADS", 4)
    monkeypatch.setattr(batch, "ALONE", 0.0)
    monkeypatch.setattr(batch, "WORTH_A_THREAD", 2)
    batch._pool.cache_clear()
    yield
    batch._pool().shutdown()
    batch._pool.cache_clear()


def constraints(count: int) -> list:
    """Different grammars that grow as they are walked: keys, patterns, counts, unions."""
    made: list = []
    for i in range(count):
        properties = {f"key_{i}_{j}": {"type": ["string", "integer", "null"]} for j in range(1 + i % 5)}
        item = {"type": "object", "properties": properties, "required": list(properties)[:1]}
        made.append(JsonSchema({"type": "array", "items": item, "minItems": i % 3, "uniqueItems": i % 4 == 0}))
        made.append(Regex(f"([a-{'cdefgh'[i % 6]}]{{1,{3 + i}}}[0-9]{{{1 + i % 4}}},)*x{i}"))
    return made


def wander(matcher: Matcher, seed: int, steps: int) -> list[bytes]:
    """A random walk under the masks: every mask on the way."""
    rng, seen = random.Random(seed), []
    for _ in range(steps):
        words = matcher.mask()
        seen.append(words.tobytes())
        allowed = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))
        token = int(rng.choice(allowed))
        if token == END:
            break
        matcher.advance(token)
    return seen


def together(grammars: list, seeds: list[int], steps: int) -> list[list[bytes]]:
    """The same walks in lockstep, their masks filled as batches."""
    walks = [grammar.matcher() for grammar in grammars]
    chance, seen = [random.Random(seed) for seed in seeds], [list[bytes]() for _ in walks]
    running = list(range(len(walks)))
    out = np.empty((len(walks), VOCABULARY.words), np.uint32)
    for _ in range(steps):
        fill_masks([walks[i] for i in running], out)
        for row, i in enumerate(list(running)):
            seen[i].append(out[row].tobytes())
            allowed = np.flatnonzero(np.unpackbits(out[row].view(np.uint8), bitorder="little"))
            token = int(chance[i].choice(allowed))
            if token == END:
                running.remove(i)
            else:
                walks[i].advance(token)
    return seen


def test_a_batch_of_many_grammars_has_the_masks_that_one_thread_finds():
    made = constraints(12)
    rows = [i % len(made) for i in range(40)]  # some grammars have one row, some two
    alone = [wander(made[i].compile(VOCABULARY).matcher(), seed, 25) for seed, i in enumerate(rows)]
    grammars = [constraint.compile(VOCABULARY) for constraint in made]
    assert together([grammars[i] for i in rows], list(range(40)), 25) == alone


@pytest.mark.parametrize("cached", [None, 1])
def test_batches_in_many_threads_share_grammars_that_grow_and_forget(cached, monkeypatch):
    """Six callers, each with batches over the same grammars, started together; also with room for few masks only."""
    if cached is not None:
        monkeypatch.setattr(places, "CACHE_BYTES", cached)
    made = constraints(8)
    rows = [i % len(made) for i in range(24)]
    seeds = [list(range(100 * caller, 100 * caller + 24)) for caller in range(6)]
    expected = [
        [wander(made[i].compile(VOCABULARY).matcher(), seed, 15) for seed, i in zip(each, rows, strict=True)]
        for each in seeds
    ]
    grammars = [constraint.compile(VOCABULARY) for constraint in made]
    start = threading.Barrier(6)

    def caller(number: int) -> list[list[bytes]]:
        start.wait()
        return together([grammars[i] for i in rows], seeds[number], 15)

    with ThreadPoolExecutor(6) as callers:
        assert list(callers.map(caller, range(6))) == expected


def test_a_known_mask_is_given_while_another_thread_holds_the_grammar():
    grammar = Regex("ab|cd").compile(VOCABULARY)
    matcher, out = grammar.matcher(), np.empty((1, VOCABULARY.words), np.uint32)
    expected = matcher.mask()
    with grammar.lock, ThreadPoolExecutor(1) as other:
        other.submit(fill_masks, [matcher], out).result(timeout=60)
    assert np.array_equal(out[0], expected)


def test_a_dead_end_is_raised_for_its_row_and_the_masks_of_the_others_are_found():
    """No colon in the vocabulary: an object can be begun and not gone on with."""
    tokens: list[bytes | None] = [None if byte == 0x3A else bytes([byte]) for byte in range(256)]
    vocabulary = Vocabulary.from_tokens([*tokens, None], [END])
    schema = {"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False}
    walks = [JsonSchema(schema).compile(vocabulary).matcher()]
    for byte in b'{"a"':
        walks[0].advance(byte)
    walks += [Regex(f"{letter}+").compile(vocabulary).matcher() for letter in "abcdefg"]
    find_masks(walks)
    assert all(walk.grammar.known(walk.position) is not None for walk in walks[1:])
    with pytest.raises(DeadEnd, match="spells"):
        fill_masks(walks, np.empty((len(walks), vocabulary.words), np.uint32))


def test_what_goes_wrong_on_another_thread_is_raised(monkeypatch):
    walks = [Regex(f"{letter}+").compile(VOCABULARY).matcher() for letter in "abcdefgh"]

    def broken(self, place):
        raise RuntimeError("broken")

    monkeypatch.setattr(places.MatcherPlaces, "fill_place", broken)
    with pytest.raises(RuntimeError, match="broken"):
        find_masks(walks)


def test_a_walk_of_the_trie_leaves_python_s_lock_to_other_threads():
    """Python never takes the lock away here: whoever runs Python during a mask was given it by the kernel."""
    words = [f"{a}{b}{c}".encode() for a in "abcdefghij" for b in "klmnopqrstuvwxyz" for c in range(250)]
    pieces: list[bytes | None] = [bytes([byte]) for byte in range(256)]
    grammar = Regex("(.{1,4}[a-y][^b])*").compile(Vocabulary.from_tokens([*pieces, None, *words], [END]))
    matcher, stop, ticks = grammar.matcher(), threading.Event(), list[float]()

    def tick() -> None:
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0)

    matcher.mask()
    other = threading.Thread(target=tick)
    before = sys.getswitchinterval()
    sys.setswitchinterval(100)
    try:
        other.start()
        given = 0
        for _ in range(200):
            matcher.place.filled = None
            began = time.perf_counter()
            matcher.mask()
            given += bool(ticks) and ticks[-1] > began
    finally:
        sys.setswitchinterval(before)
        stop.set()
        other.join()
    assert given > 0


def test_rows_at_equal_positions_are_computed_once(monkeypatch):
    """Sixteen rows of one grammar, in step: as many masks are computed as for one row."""
    grammar = JsonSchema({"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]})
    compiled, computed = grammar.compile(VOCABULARY), []
    fill = places.MatcherPlaces.fill_place
    monkeypatch.setattr(
        places.MatcherPlaces, "fill_place", lambda self, p: computed.append(p.position) or fill(self, p)
    )
    matchers = [compiled.matcher() for _ in range(16)]
    out = np.empty((16, VOCABULARY.words), np.uint32)
    for byte in b'{"key':
        fill_masks(matchers, out)
        assert (out == out[0]).all()
        for matcher in matchers:
            matcher.advance(byte)
    assert len(computed) == len(set(computed)) == 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where processes fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    """As servers and data loaders fork; it is ended after a while if it waits for threads that are not there."""
    first, second = ([each.compile(VOCABULARY) for each in constraints(4)] for _ in range(2))
    find_masks([grammar.matcher() for grammar in first])
    assert batch._pool.cache_info().currsize == 1
    process = os.fork()
    if process == 0:
        signal.alarm(60)
        find_masks([grammar.matcher() for grammar in second])
        found = all(grammar.known(grammar.start) is not None for grammar in second)
        os._exit(0 if found else 1)
    assert os.waitpid(process, 0)[1] == 0


def test_masks_that_are_found_soon_wake_no_other_thread(monkeypatch):
    monkeypatch.setattr(batch, "ALONE", 60.0)
    monkeypatch.setattr(ThreadPoolExecutor, "submit", lambda *_: pytest.fail("another thread was asked"))
    matchers = [constraint.compile(VOCABULARY).matcher() for constraint in constraints(8)]
    find_masks(matchers)
    unknown = [matcher for matcher in matchers if matcher.grammar.known(matcher.position) is None]
    assert len(unknown) < 2 * batch.WORTH_A_THREAD
