"""Captures: what each named part of a finished text has written, and where."""

from __future__ import annotations

from typing import Any

import pytest
from lark import Lark

import structgen as sg
from structgen.parts.captures import captured
from structgen.testing import scripted

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
    [
        (sg.Sequence("é: ", sg.Capture(NUMBER, "n"), "; ", sg.Text(until=".", name="why")), "é: 42; ü is so.",
         [("n", "42"), ("why", "ü is so.")]),
        (sg.Sequence(sg.Capture(sg.Union("a", sg.Capture({"type": "integer"}, "in")), "out"), "!"), "12!",
         [("out", "12"), ("in", "12")]),
        (sg.Sequence("[", sg.Repeat(sg.Capture(NUMBER, "n"), 0, None, ","), "]"), "[1,22,3]",
         [("n", "1"), ("n", "22"), ("n", "3")]),
        (sg.Sequence(sg.Repeat(sg.Capture("ab", "x"), 2, 2), sg.Repeat(sg.Capture("ab", "y"), 0, 3)), "ababab",
         [("x", "ab"), ("x", "ab"), ("y", "ab")]),
        (sg.Sequence(sg.Capture(sg.Regex("[a-z]*"), "first"), sg.Regex("[a-z]*")), "abc", [("first", "abc")]),
        (sg.Sequence(sg.Capture({"type": "object", "properties": {"a": {"type": "integer"}}}, "json"), " end"),
         '{"a": 12} end', [("json", '{"a": 12}')]),
        (sg.Lark('start: "Name: " name "; " age\nname[capture]: /[A-Za-z ]+/\nage[capture="years"]: /[0-9]+/'),
         "Name: Ada Lo; 36", [("name", "Ada Lo"), ("years", "36")]),
        (sg.Lark('start: text "!"\ntext[capture, suffix="ab"]: /a*b?/'), "aab!", [("text", "a")]),
        (sg.Lark('start: text "."\ntext[capture, suffix=/[!?]+-/, stop_capture="end"]: /[^.]*/'), "oh!?-.",
         [("text", "oh"), ("end", "!?-")]),
        (sg.Lark('start: text "."\ntext[suffix="!", stop_capture=e]: /[^.]*/'), "oh!.", [("e", "!")]),
        (sg.Sequence(sg.Text(stop=";", until="!", name="x"), sg.Text(stop=";", until="!", name="x")), "a;b!",
         [("x", "a"), ("x", "b!")]),
        (sg.Sequence(sg.Text(stop=["ab", "b"], name="x"), sg.Text(stop="\n", name="y")), "aaab-\n",
         [("x", "aa"), ("y", "-")]),
        (sg.Lark('start: v+\nv[capture]: "<" %json {"type": "integer"} ">" | %lark { start: "a" start "b" | "c" }'),
         "<1>aacbb<22>", [("v", "<1>"), ("v", "aacbb"), ("v", "<22>")]),
        (sg.Sequence("none"), "none", []),
    ],
    ids=lambda value: str(value)[:50],
)  # fmt: skip
def test_named_parts_are_captured_with_their_places(
    constraint: Any, text: str, expected: list[tuple[str, str]]
) -> None:
    assert said(constraint, text) == expected


EXPRESSIONS = """
    start: expr
    expr{c}: expr "+" term | term
    term{c}: NUMBER | "(" expr ")" | "-" term
    NUMBER: /[0-9]+/
    %ignore " "
"""


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
