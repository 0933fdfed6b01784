"""Limits of single parts: at most so many tokens begin in each, and they are drawn with its temperature.

Covers `masks.budgets`.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

import structgen as sg
from structgen.endings.closing import Closing
from structgen.errors import OptionError
from structgen.masks import Matcher
from structgen.testing import scripted
from tests.support.tables import cases
from tests.support.thinning import times

WORDS = [b"ab", b"abc", b" the", b"the", b"\nx", b".\n", b'"}', b"12", b"A: ", "é".encode(), "é!".encode()]
VOCABULARY = sg.Vocabulary.from_tokens([bytes([byte]) for byte in range(256)] + WORDS + [None], [256 + len(WORDS)])
IDS = {VOCABULARY.token(i): i for i in range(256 + len(WORDS))}
LINE, FREE = sg.Text(until="\n", max_tokens=3), sg.Text(before="B", max_tokens=3)


def after(constraint: Any, tokens: list[bytes]) -> set[bytes]:
    """The tokens that may follow some tokens; the end is empty."""
    matcher = constraint.compile(VOCABULARY).matcher()
    for token in tokens:
        matcher.advance(IDS[token])
    return {VOCABULARY.token(i) for i in matcher.allowed_tokens()}


@pytest.mark.parametrize(
    ("constraint", "tokens", "allowed"), cases("constraints/part_limits", "only_the_shortest_end", globals())
)
def test_only_the_shortest_end_follows_when_it_needs_what_is_left(
    constraint: Any, tokens: list[bytes], allowed: set[bytes]
) -> None:
    assert after(constraint, tokens) == allowed


def test_within_the_budget_nothing_changes() -> None:
    free = sg.Sequence(sg.Text(before="B"), "Bz")
    for tokens in ([], [b"ab"], [b"ab", b"the"], [b"ab", b"B"]):
        assert after(sg.Sequence(FREE, "Bz"), tokens) == after(free, tokens)


@pytest.mark.parametrize("seed", range(4))
def test_walks_keep_every_budget_and_their_texts_are_those_without_it(seed: int) -> None:
    """Forks and rollbacks on the way: a matcher that goes back stands where one stands that never left."""
    draw, most = random.Random(seed), 4
    line = {"before": ["\n", ";"], "max_chars": 30}
    limited, free = (
        sg.Sequence("[", sg.Repeat(sg.Text(**line, **limit), 1, 3, ";"), "\n", sg.Regex("[0-9]{1,2}"))
        for limit in ({"max_tokens": most}, {})
    )
    grammar, plain = limited.compile(VOCABULARY), free.compile(VOCABULARY)
    for _ in range(15):
        matcher, tokens = grammar.matcher(), list[int]()
        while not matcher.finished:
            token = draw.choice([i for i in matcher.allowed_tokens() if i >= 256 or i in b"\n;[012\xc3\xa9!"])
            detour = matcher.fork()
            detour.advance(token)
            if not detour.finished:
                matcher.advance(token)
                matcher.rollback(1)
            matcher.advance(token)
            assert matcher.finished or matcher.position == detour.position
            tokens.append(token)
        again = plain.matcher()
        for token in tokens:
            again.advance(token)
        text, counts, place = matcher.text, [0], 0
        for token in map(VOCABULARY.token, tokens[:-1]):
            if text[place:][:1] == b";":
                counts.append(0)
            elif 0 < place < text.index(b"\n") and token != b"\xa9":
                counts[-1] += 1
            place += len(token)
        assert max(counts) <= most, text


SAID = sg.Sequence("A: ", sg.Text(stop="\n", max_tokens=5, name="a"), "B", sg.Text(max_tokens=4, name="b"))


def test_generate_batches_and_streams_end_parts_in_time_and_report_it() -> None:
    model, prompts = scripted("A: hello there\nBthis is a long text"), ["p", "pp"]
    run = sg.generate(model, "p", schema=SAID, details=True)
    assert (run.text, run.finish) == ("A: hell\nBo th", "complete")
    assert [(each.name, each.text) for each in run.captures] == [("a", "hell"), ("b", "o th")]
    assert [(cap.name, cap.limit, cap.offset) for cap in run.caps] == [("max_tokens", 5, 7), ("max_tokens", 4, 13)]
    assert [each.text for each in sg.generate(model, prompts, schema=SAID, details=True)] == [run.text] * 2
    assert "".join(event.text for event in sg.stream(model, "p", schema=SAID)) == run.text
    short = sg.generate(scripted("A: hi\nBy"), "p", schema=SAID, details=True)
    assert (short.text, short.caps) == ("A: hi\nBy", ())
    assert sg.generate(model, "p", schema=SAID, beams=2) == run.text


def test_the_temperature_holds_for_the_tokens_that_begin_in_the_part() -> None:
    """The last layer of a scripted model is nearly certain; a high temperature makes it draw anything."""
    model = scripted("A: hello|, wonderful world")
    cold, end = sg.Text(before="|", temperature=0, name="cold"), sg.Text(max_tokens=9, name="end")
    hot = sg.Sequence("A: ", cold, "|", sg.Text(max_tokens=9, temperature=1e4, name="end"))
    runs = [sg.generate(model, "p", schema=hot, details=True, sampling=sg.Sampling(seed=n)) for n in (1, 1, 2, 3)]
    assert [run.seed for run in runs] == [1, 1, 2, 3]
    assert runs[0].text == runs[1].text
    assert {run.captures[0].text for run in runs} == {"hello"}
    assert len({run.captures[1].text for run in runs}) == 3
    drawn = [sg.Sampling(temperature=1e4, seed=n) for n in range(3)]
    whole = sg.Sequence("A: ", cold, "|", end)
    texts = [sg.generate(model, "p", schema=whole, details=True, sampling=each).text for each in drawn]
    assert {text[:9] for text in texts} == {"A: hello|"}
    assert len(set(texts)) == 3


RULES = cases("constraints/part_limits", "RULES", globals())


def test_the_temperature_of_a_rule_holds_for_all_that_it_calls() -> None:
    """The rule around a token that has a temperature decides, the innermost one first."""
    grammar = sg.Lark(RULES).compile(VOCABULARY)
    assert grammar.budgets is not None
    names = {None: ".", 0.25: "w", 0.5: "h", 0: "c"}
    for text, wanted in (("A[1, 2] [abcabd[]] B", "wwwwww.hhcchcchhh..."), ("A[] <ab> B", "ww.hhhh...")):
        matcher, found = grammar.matcher(), ""
        for byte in text.encode():
            matcher.advance(byte)
            found += names[grammar.budgets.temperature(matcher.position)]
        assert found == wanted


WARM = sg.Sequence("A", sg.Text(temperature=0.5))


@pytest.mark.parametrize(
    ("act", "message"),
    cases("constraints/part_limits", "what_has_no_meaning_is_refused", globals()),
    ids=lambda value: value[:50] if isinstance(value, str) else None,
)
def test_what_has_no_meaning_is_refused(act: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        act()


def test_a_matcher_tells_where_a_limit_has_ended_a_part() -> None:
    matcher = Matcher(sg.Sequence(FREE, "B").compile(VOCABULARY))
    for token in (b"ab", b"the", b"ab"):
        matcher.advance(IDS[token])
    assert matcher.cuts() == [(3, 3)]
    assert matcher.forced_tokens() == [IDS[b"B"], VOCABULARY.end_ids[0]]


def test_what_is_known_to_end_a_text_ends_it_within_the_limits_of_its_parts() -> None:
    """The costs along random walks are those of ends that the matcher takes."""
    parts = [LINE, FREE, sg.Text(until=["</a>", "</b>"], max_tokens=6), sg.Regex("(abc|ab)+x")]
    for seed in range(times(60)):
        draw = random.Random(seed)
        grammar = sg.Sequence(draw.choice(parts), "A: ", draw.choice(parts), "B").compile(VOCABULARY)
        matcher, closing = grammar.matcher(), Closing.of(grammar)
        closing.cost(matcher.position)
        for _ in range(12):
            tokens = [token for token in matcher.allowed_tokens() if token not in VOCABULARY.end_ids]
            if not tokens:
                break
            token = draw.choice(tokens)
            matcher.advance(token)
            cost = closing.cost_behind(VOCABULARY.token(token), matcher.earlier(1), matcher.position)
            walk = matcher.fork()
            end = closing.ending(matcher.position)
            assert end is not None
            for byte in end:
                walk.advance(byte)
            assert walk.can_finish, (matcher.text, end)
            assert len(end) <= cost
