"""Captures: what each named part of a finished text has written, and where."""

from __future__ import annotations

from typing import Any

import pytest
from lark import Lark

import structgen as sg
from structgen.parts.captures import captured
from structgen.testing import scripted
from tests.support.tables import cases

NUMBER = sg.Regex("[0-9]+")


def said(constraint: Any, text: str) -> list[tuple[str, str]]:
    """The captures of a text that a scripted model writes, each checked to stand at its place."""
    run = sg.generate(scripted(text), "p", schema=constraint, details=True)
    assert run.text == text
    for each in run.captures:
        assert run.text[each.start : each.end] == each.text
    return [(each.name, each.text) for each in run.captures]


@pytest.mark.parametrize(
    ("constraint", "text", "expected"),
    cases("parts/captures", "named_parts_are_captured", globals()),
    ids=lambda value: str(value)[:50],
)
def test_named_parts_are_captured_with_their_places(
    constraint: Any, text: str, expected: list[tuple[str, str]]
) -> None:
    assert said(constraint, text) == expected


EXPRESSIONS = cases("parts/captures", "EXPRESSIONS", globals())


@pytest.mark.parametrize("text", ["1", "1+2", "(1)", " 1 + (2+ -3 ) + 44 ", "((1+1)+(2))+-(3)", "+".join("7" * 60)])
def test_the_places_in_a_recursive_grammar_are_those_of_larks_tree(text: str) -> None:
    parser = Lark(EXPRESSIONS.format(c=""), parser="earley", propagate_positions=True)
    trees = parser.parse(text).iter_subtrees()
    wanted = sorted((tree.data, tree.meta.start_pos, tree.meta.end_pos) for tree in trees if tree.data != "start")
    found = captured(sg.Lark(EXPRESSIONS.format(c="[capture]")).plan(), text.encode())
    assert sorted((each.name, each.start, each.end) for each in found) == wanted


def test_special_tokens_have_no_characters() -> None:
    plan = sg.Sequence(sg.SpecialToken("<t>"), sg.Text(until=sg.SpecialToken("</t>"), name="in"), sg.Capture("b", "b"))
    found = captured(plan.plan(), b"\xff<t>\xff\xc3\xa9a\xff</t>\xffb")
    assert [(each.name, each.text, each.start, each.end) for each in found] == [("in", "éa", 0, 2), ("b", "b", 2, 3)]


def test_an_unfinished_text_has_no_captures_and_a_wrong_name_is_refused() -> None:
    plan = sg.Sequence(sg.Capture("a", "x"), "b").plan()
    assert captured(plan, b"a") == ()
    assert captured(plan, b"ab")[0].name == "x"
    for make in (lambda: sg.Capture("a", ""), lambda: sg.Text(name=3)):  # type: ignore[arg-type]
        with pytest.raises(sg.OptionError, match="name="):
            make()
    with pytest.raises(sg.OptionError, match="the option stop_capture= of a rule is not supported without suffix="):
        sg.Lark('start: a\na[stop_capture=x]: "b"').plan()
