"""The cheapest way out is as short as the shortest one that trying every byte finds, and it is a way out.

Covers `frame_search`.
"""

from __future__ import annotations

import json
import random
import time
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest

from structgen.automaton.machine import Automaton
from structgen.automaton.table_format import DONE, TARGET
from structgen.constraints.basic import Choice, JsonSchema, Regex
from structgen.constraints.languages import GBNF, Lark
from structgen.endings.closing import UNKNOWN, Closing
from structgen.endings.fewest_bytes import Distances
from structgen.endings.frame_search import Exit, FrameSearch, NoWayOut
from structgen.errors import OptionError
from structgen.masks import Grammar, Matcher
from structgen.options import Whitespace
from structgen.values.name_frames import NameWriter
from tests.constraints.test_grammars import random_grammar
from tests.support.matching import byte_vocabulary
from tests.support.speed import at_usual_speed
from tests.support.tables import cases
from tests.support.thinning import diagonal, times
from tests.support.walking import random_schema, tokens_of

MAX_BYTES = 9
MAX_POSITIONS = 4_000


def brute_force(grammar: Grammar, position: int, most: int = MAX_POSITIONS) -> int | None:
    """The fewest bytes to an end, by trying all bytes level by level; None where that goes too far."""
    level, seen = [position], {position}
    for length in range(MAX_BYTES + 1):
        if any(grammar.may_end(at) for at in level):
            return length
        after = (grammar.advance(at, byte) for at in level for byte in range(256))
        level = [at for at in after if at >= 0 and at not in seen and not seen.add(at)]
        if len(seen) > most:
            return None
    return None


def distance(grammar: Grammar, position: int) -> bytes:
    """The cheapest end behind a position, which the grammar takes."""
    text = Distances(grammar.automaton).end(position).text.read()
    at = position
    for byte in text:
        at = grammar.advance(at, byte)
        assert at >= 0, text
    assert grammar.may_end(at), text
    return text


def told(exit_: Exit) -> tuple[Any, ...]:
    return exit_.text.read(), *exit_[1:]


NESTED = {"type": "object", "properties": {"n": {"$ref": "#"}, "v": {"type": "null"}}, "required": ["n"]}
SCHEMAS: dict[str, Any] = cases("endings/fewest_bytes", "SCHEMAS")
LAYOUTS = [Whitespace.SPACED, Whitespace.COMPACT, Whitespace("flexible", bound=2), Whitespace.INDENTED(1)]


@pytest.mark.parametrize(("whitespace", "name"), diagonal(LAYOUTS, SCHEMAS))
def test_no_shorter_way_exists_than_the_one_found(name: str, whitespace: Whitespace) -> None:
    """From the start and from places on random walks."""
    grammar = JsonSchema(SCHEMAS[name], whitespace=whitespace).compile(byte_vocabulary())
    compared = 0
    for seed in range(4):
        draw, matcher = random.Random(seed), grammar.matcher()
        for _ in range(12):
            wanted = brute_force(grammar, matcher.position)
            if wanted is not None:
                compared += 1
                assert len(distance(grammar, matcher.position)) == wanted, matcher.text
            choices = [token for token in tokens_of(matcher.mask()) if token < 128]
            if not choices:
                break
            matcher.advance(draw.choice(choices))
    assert compared > 3 or name in ("required", "lockstep")


@pytest.mark.parametrize(
    ("constraint", "length"),
    [(Regex("(ab|c){3,}x?"), 3), (Regex("a{50}|b{60}"), 50), (Choice(["yes", "no", "maybe"]), 2), (Regex("é|xxx"), 2)],
)
def test_texts_that_are_no_json(constraint: Any, length: int) -> None:
    grammar = constraint.compile(byte_vocabulary())
    assert len(distance(grammar, grammar.start)) == length


@pytest.mark.parametrize("order", ["schema", "any"])
def test_many_members_in_any_order_cost_no_more_than_in_the_schemas(order: str) -> None:
    """A search through the orders of 40 members would never end."""
    names = [f"k{i:02}" for i in range(40)]
    schema = {"type": "object", "properties": {name: {"type": "integer"} for name in names}, "required": names}
    grammar = JsonSchema(schema, order=order).compile(byte_vocabulary())
    assert len(distance(grammar, grammar.start)) == 40 * len('"k00": 0, ') - len(", ") + len("{}")


def test_long_bounds_are_counted_not_walked() -> None:
    grammar = JsonSchema({"type": "string", "minLength": 100_000}).compile(byte_vocabulary())
    assert len(distance(grammar, grammar.start)) == 100_002


def test_bytes_that_a_state_would_take_itself_do_not_lead_out_of_it() -> None:
    """A refused name cannot be closed; a number is not over before a digit."""
    schema = {"type": "object", "minProperties": 1, "properties": {"a": False}, "additionalProperties": {"const": 1}}
    grammar = JsonSchema(schema).compile(byte_vocabulary())
    at = grammar.start
    for byte in b'{"a':
        at = grammar.advance(at, byte)
    assert distance(grammar, at)[:1] != b'"'


def test_a_way_past_a_test_is_doubted() -> None:
    for schema, doubted in ({"uniqueItems": True, "type": "array", "minItems": 2}, True), ({"type": "array"}, False):
        grammar = JsonSchema(schema).compile(byte_vocabulary())
        assert Distances(grammar.automaton).end(grammar.start).doubted is doubted


@pytest.mark.parametrize("least", [0, 3])
def test_longer_strings_are_not_tried_where_a_shorter_one_ends_alike(
    least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kind of the object depends on the name, so that a first exit of the name is not enough."""
    visits: list[FrameSearch] = []
    visit = FrameSearch._visit
    name = {"type": "string", "minLength": least, "maxLength": 400, "pattern": "^[a-z0-9-]*[a-z][a-z0-9-]*$"}
    rest = {"base": {"enum": ["core22", "core24"]}}
    kinds = [{"properties": {"name": name, "kind": {"const": each}, **rest}, "required": ["name", "kind", "base"]}
             for each in ("abcdefghijklm", "bx", "cy")]  # fmt: skip
    kinds.append({"properties": {"name": {"const": "x"}, "other": {"type": "integer"}}, "required": ["name", "other"]})

    def ended(begun: bytes) -> tuple[bytes, int]:
        matcher = JsonSchema({"type": "object", "anyOf": kinds}).compile(byte_vocabulary()).matcher()
        for byte in begun:
            matcher.advance(byte)
        visits.clear()
        return distance(matcher.grammar, matcher.position), len(visits)

    monkeypatch.setattr(FrameSearch, "_visit", lambda self, *given: visits.append(self) or visit(self, *given))  # type: ignore
    texts = b"", b'{"name": "ab'
    found = [ended(text) for text in texts]
    monkeypatch.setattr(FrameSearch, "_is_covered", lambda *given: False)
    for (end, count), (same, more) in zip(found, map(ended, texts), strict=True):
        assert (end, count < 0.7 * more) == (same, True)


def test_random_schemas_have_an_end_from_everywhere() -> None:
    """Found, and taken by the grammar, where no test stands on the way."""
    found = 0
    for seed in range(times(60)):
        draw = random.Random(seed)
        schema = random_schema(draw)
        try:
            grammar = JsonSchema(schema, order=draw.choice(["schema", "any"])).compile(byte_vocabulary())
        except ValueError:
            continue
        matcher, distances = grammar.matcher(), Distances(grammar.automaton)
        for _ in range(15):
            try:
                way = distances.end(matcher.position)
            except NoWayOut as why:
                raise AssertionError(f"seed {seed} after {matcher.text!r}: {why}; {schema}") from why
            if not way.doubted:
                found += 1
                distance(grammar, matcher.position)
            choices = [token for token in tokens_of(matcher.mask()) if token < 128]
            if not choices:
                break
            matcher.advance(draw.choice(choices))
    assert found > times(300)


@pytest.mark.parametrize("begun", [b'"', b'"\\', b'"\\u', b'"\\u0', b'"\\ud8', b'"\\ud83d', b'"\\ud83d\\ude'])
def test_escapes_that_were_begun_are_ended_without_trying_all(begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are a million pairs of surrogates, and 60 more characters to come behind each."""
    monkeypatch.setattr("structgen.endings.frame_search.MAX_NODES", 2_000)
    grammar = JsonSchema({"type": "string", "pattern": "^[^/]{60}x$"}).compile(byte_vocabulary())
    at = grammar.start
    for byte in begun:
        at = grammar.advance(at, byte)
    text = distance(grammar, at)
    assert len(json.loads(begun + text)) == 61


NAMED: list[Any] = cases("endings/fewest_bytes", "NAMED")


@pytest.mark.parametrize("schema", NAMED)
def test_short_cuts_find_ways_as_short_as_a_search_without_them(schema: Any) -> None:
    """Along random walks, into escapes too; what was learned on the way is used."""
    grammar, plain = (JsonSchema(schema).compile(byte_vocabulary()) for _ in range(2))
    known = Distances(grammar.automaton)
    for seed in range(6):
        draw, matcher, twin = random.Random(seed), grammar.matcher(), plain.matcher()
        for _ in range(20):
            apart = Distances(plain.automaton)
            there = (twin.position & (1 << 24) - 1, twin.position >> 44, 0)
            FrameSearch(apart.known, there, None, short_cuts=False).run()
            assert known.leave(matcher.position).text.size == apart.known.first[there].text.size, matcher.text
            token = draw.choice([token for token in tokens_of(matcher.mask()) if token < 256])
            matcher.advance(token)
            twin.advance(token)
            if matcher.position == DONE:
                break


BOUNDED: list[Any] = cases("endings/fewest_bytes", "BOUNDED")


@pytest.mark.parametrize("schema", BOUNDED, ids=str)
def test_a_way_out_that_counts_nothing_is_that_of_every_count(schema: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slow twin: each position's way by a search of its own."""
    grammar, draw = JsonSchema(schema).compile(byte_vocabulary()), random.Random(1)
    ways, reused = Distances(grammar.automaton), 0
    for _ in range(12):
        position = grammar.start
        while position & TARGET != DONE and not (grammar.may_end(position) and draw.random() < 0.3):
            allowed = tokens_of(grammar.mask(position)[0])
            position = grammar.advance(position, draw.choice([token for token in allowed if token < 256]))
            if position < 0:  # the name must be asked for whether it is new
                break
            before = len(ways.known.first)
            found = ways.end(position)
            reused += before == len(ways.known.first)
            with monkeypatch.context() as patch:
                patch.setattr(Distances, "_needs_no_room", lambda *_: False)
                assert told(found) == told(Distances(grammar.automaton).end(position))
    assert reused
    assert ways._uncounted


def test_exits_that_an_earlier_one_serves_as_well_as_are_not_taken_again():
    """A value of any kind has hundreds of exits in a search; each item behind it would go on with all of them."""
    grammar = JsonSchema({"type": "array", "contains": {"const": 5}, "minContains": 10**9}).compile(byte_vocabulary())
    began = time.thread_time()
    with pytest.raises(NoWayOut) as raised:
        Distances(grammar.automaton).end(grammar.start)
    assert at_usual_speed(time.thread_time() - began) < 8  # it takes 1.6 on an idle machine; all exits took 15
    assert raised.value.least > 1000


@pytest.mark.parametrize("order", ["schema", "any"])
def test_an_end_is_found_behind_a_name_far_longer_than_one_that_came(order: Any) -> None:
    """A name's frame reads `a` a second time, which is refused behind it; the next name is 60 characters long."""
    schema = {"type": "object", "properties": {"a": {"const": 1}}, "patternProperties": {"^.{60,}$": {"const": 2}}}
    grammar = JsonSchema({**schema, "additionalProperties": False, "minProperties": 2}, order=order).compile(
        byte_vocabulary()
    )
    matcher, distances = Matcher(grammar), Distances(grammar.automaton)
    for byte in b'{"a": 1, "':
        matcher.advance(byte)
    end = distances.end(matcher.position).text.read()
    assert len(end) == len('": 2}') + 60
    for byte in end:
        matcher.advance(byte)
    assert matcher.can_finish


def pairs(count: int) -> dict[str, Any]:
    """Objects in which each `a` owes a `b`."""
    return {"type": "object", "dependentRequired": {f"a{i}": [f"b{i}"] for i in range(count)}}


@pytest.mark.parametrize("whitespace", [Whitespace.SPACED, Whitespace.FLEXIBLE], ids=["spaced", "flexible"])
def test_what_names_owe_at_least_leaves_no_shorter_end_out(
    whitespace: Whitespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of a frame: ends found by all exits, and those without the ones that must cost more."""
    monkeypatch.setattr(NameWriter, "many_names", 2)
    schema = {**pairs(4), "minProperties": 1}
    text = b'{"a1": 1, "b1": 1, "a0": 0, "a12": "b", "b0": 0, "a2": 2, "b2": {}}'
    found = []
    for bounded in (True, False):
        if not bounded:
            monkeypatch.setattr(Automaton, "least_behind", lambda self, ret, outcome: 0)
        grammar = JsonSchema(schema, order="any", whitespace=whitespace).compile(byte_vocabulary())
        matcher, distances = Matcher(grammar), Distances(grammar.automaton)
        ends = []
        for byte in text:
            matcher.advance(byte)
            end = distances.end(matcher.position).text.read()
            ends.append(len(end))
            fork = matcher.fork()
            for last in end:
                fork.advance(last)
            assert fork.can_finish
        found.append(ends)
    assert found[0] == found[1]


def test_a_search_that_takes_too_long_gives_up_and_leaves_less_time_to_others() -> None:
    schema = {"type": "array", "items": {"enum": [f"v{i}" for i in range(20)]}, "uniqueItems": True, "minItems": 20}
    automaton = JsonSchema(schema).automaton()
    distances = Distances(automaton)
    distances.known.seconds = 0.1
    with pytest.raises(NoWayOut) as given_up:
        distances.end(automaton.start)
    assert given_up.value.least is not None
    assert distances.known.seconds == 0.05


def test_an_enum_of_many_objects_has_an_end() -> None:
    """Each object is an exit of its own, which was compared with all others."""
    schema = {"enum": [{"a": i, "b": f"t{i}", "c": [i, {"d": i}]} for i in range(300)]}
    grammar = JsonSchema(schema).compile(byte_vocabulary())
    assert Closing.of(grammar).cost(grammar.start) == len('{"a": 0, "b": "t0", "c": [0, {"d": 0}]}')


def test_a_hundred_names_that_owe_another_cost_seconds_at_most() -> None:
    """The end from within a name was looked for behind each of two hundred: 16 s for one byte."""
    grammar = JsonSchema(pairs(100)).compile(byte_vocabulary())
    distances, matcher, began = Distances(grammar.automaton), Matcher(grammar), time.thread_time()
    for byte in b'{"a0": 0, "b0": 1, "a1": 2, "':
        matcher.advance(byte)
        end = distances.end(matcher.position).text.read()
    assert end == b'b1": 0}'
    assert at_usual_speed(time.thread_time() - began) < 8


def nested(depth: int, kind: Any) -> dict[str, Any]:
    """Values whose shortest text doubles with each of `depth` definitions; the last is `0`."""
    places = {f"a{i}": kind({"$ref": f"#/$defs/a{i + 1}"}) for i in range(depth)}
    return {"$defs": {**places, f"a{depth}": {"const": 0}}, "$ref": "#/$defs/a0"}


DOUBLING: dict[str, Any] = cases("endings/fewest_bytes", "DOUBLING", globals())


@pytest.mark.parametrize("kind", DOUBLING)
@pytest.mark.parametrize("depth", [3, 60])
def test_ends_of_more_bytes_than_memory_are_lengths(kind: str, depth: int) -> None:
    """Eight of 40 levels took a server 3 GB: each level's end was two copies of the next one's."""
    grammar = JsonSchema(nested(depth, DOUBLING[kind])).compile(byte_vocabulary())
    tracemalloc.start()
    closing = Closing.of(grammar)
    cost, ending = closing.cost(grammar.start), closing.ending(grammar.start)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20
    if depth == 3:
        assert ending is not None
        assert len(ending) == cost
        assert len(distance(grammar, grammar.start)) == cost
    else:
        assert ending is None
        assert UNKNOWN > cost >= min(2**depth, UNKNOWN - 1)
        assert closing.least > 2**depth


def test_long_strings_are_not_written_out() -> None:
    schema = {"type": "array", "items": {"type": "string", "minLength": 400_000}, "minItems": 3}
    grammar = JsonSchema({"type": "array", "prefixItems": [schema] * 3, "minItems": 3}).compile(byte_vocabulary())
    tracemalloc.start()
    end = Distances(grammar.automaton).end(grammar.start).text
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20
    assert end.size == 3 * (3 * (400_000 + 2) + len("[, , ]")) + len("[, , ]")
    assert end.first(5) == b'[["aa'
    assert end.after(end.size - 5).read() == b'aa"]]'


AMBIGUOUS = 'start: "a" start "a" | "x"+ start? "x"+'


@pytest.mark.parametrize("seed", [0, 1])
def test_no_shorter_way_exists_in_a_grammar(seed: int) -> None:
    """Bounds of the lexemes that follow lead the search: in random grammars, which may be ambiguous."""
    grammars, compared = [Lark(AMBIGUOUS).compile(byte_vocabulary())], 0
    for each in range(seed, 16, 2):
        with suppress(OptionError):  # it has no text
            grammars.append(GBNF(random_grammar(each)[1], start="start").compile(byte_vocabulary()))
    for grammar in grammars:
        draw, matcher = random.Random(seed), grammar.matcher()
        for _ in range(6):
            wanted = brute_force(grammar, matcher.position, 500)
            if wanted is not None:
                compared += 1
                assert len(distance(grammar, matcher.position)) == wanted, (grammar, matcher.text)
            choices = [token for token in tokens_of(matcher.mask()) if token < 128]
            if not choices:
                break
            matcher.advance(draw.choice(choices))
    assert compared > 30


@pytest.mark.parametrize(
    ("begun", "end"), [("a" * 60, "xx" + "a" * 60), ("ax" * 3 + "x" * 20, "axaxa"), ("[" * 700, "")]
)
def test_ends_of_ambiguous_and_of_deep_texts_take_few_states(begun: str, end: str) -> None:
    """Without bounds, all words of as many letters were tried; and each frame took a frame of Python."""
    rules = AMBIGUOUS if begun[0] == "a" else 'start: "[" start* "]"'
    grammar = Lark(rules).compile(byte_vocabulary())
    matcher = grammar.matcher()
    for byte in begun.encode():
        matcher.advance(byte)
    assert len(distance(grammar, matcher.position)) == len(end or begun)
    assert grammar.automaton.tables.n_states < 2_000
