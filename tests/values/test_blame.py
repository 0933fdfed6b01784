"""Why a token was refused: the place, the keyword to blame, and what could have come.

Covers `blame` and `automaton.expected`.
"""

from __future__ import annotations

import itertools
import json
import lzma
import pickle
import time
from pathlib import Path
from typing import Any

import pytest

import structgen as sg
from structgen.automaton.expected import described
from structgen.errors import OptionError, TokenRejected
from tests.support.matching import byte_vocabulary
from tests.support.speed import at_usual_speed
from tests.support.tables import cases

ITEM = cases("values/blame", "ITEM")
ORDER = cases("values/blame", "ORDER", globals())


def behind(schema: Any, text: str, **options: Any) -> sg.Matcher:
    """A matcher behind a text."""
    matcher = sg.JsonSchema(schema, **options).compile(byte_vocabulary()).matcher()
    for byte in text.encode():
        matcher.advance(byte)
    return matcher


@pytest.mark.parametrize(("text", "byte", "pointer", "rule"), cases("values/blame", "the_keyword_to_blame"))
def test_the_keyword_to_blame_is_named_with_its_place(text: str, byte: str, pointer: str, rule: str) -> None:
    matcher = behind(ORDER, text)
    why = matcher.explain(ord(byte))
    assert why is not None
    assert (why.pointer, why.rule, why.offset) == (pointer, rule, 0)
    assert why.keyword == rule.rpartition("/")[2]
    assert matcher.text == text.encode()


LIMITED = {"type": "integer", "maximum": 500}


@pytest.mark.parametrize(
    ("schema", "text", "byte", "pointer", "rule"), cases("values/blame", "the_keyword_is_that_of_the_place", globals())
)
def test_the_keyword_is_that_of_the_place(schema: Any, text: str, byte: str, pointer: str, rule: str) -> None:
    """Also where two places have equal sets, in what `allOf` and references apply, and beside other alternatives."""
    why = behind(schema, text).explain(ord(byte))
    assert why is not None
    assert (why.pointer, why.rule) == (pointer, rule)


@pytest.mark.parametrize(("schema", "text", "rule"), cases("values/blame", "the_keyword_that_refuses_a_value"))
def test_the_keyword_that_refuses_a_value_is_named_in_every_draft(schema: Any, text: str, rule: str) -> None:
    """Draft 4's `exclusiveMinimum: true` was told as "minimum is 1"."""
    fault = sg.JsonSchema(schema).judge().fault(json.loads(text))
    assert fault is not None
    assert fault.rule == rule


def test_alternatives_that_the_members_before_have_ruled_out() -> None:
    """In another order of its members the text would do."""
    schema = {"anyOf": [{"properties": {"k": {"const": k}, "v": {"const": k}}, "required": ["k"]} for k in "xy"]}
    schema["anyOf"][0]["properties"] = dict(reversed(schema["anyOf"][0]["properties"].items()))  # type: ignore[call-overload]
    why = behind(schema, '{"k": "y", "v": "').explain(ord("x"))
    assert why is not None
    assert why.keyword == "const"
    why = behind(schema, '{"k": "').explain(ord("z"))
    assert why is not None
    assert why.keyword == "const"


def test_it_reads_as_a_sentence() -> None:
    why = behind(ORDER, '{"items": [{"qty": 50').explain(ord("1"))
    assert str(why) == "at /items/0/qty: maximum 500; expected `,`, `.`, `0` or `}`, at byte 0 of b'1'"


def test_options_are_blamed_and_jsons_own_grammar_is_not() -> None:
    names = {"properties": {"a": True, "b": True}, "type": "object"}
    assert behind(names, '{"b": 1, "a').explain(ord('"')).keyword == "order"  # type: ignore[union-attr]
    why = behind(names, "{").explain(ord(" "))
    assert why is not None
    assert (why.keyword, why.rule, why.argument) == ("whitespace", "", "spaced")
    assert "whitespace='spaced'" in str(why)
    why = behind(True, "[1").explain(ord("}"))
    assert why is not None
    assert (why.keyword, why.pointer) == ("", "/0")


def test_the_end_has_a_reason_too() -> None:
    vocabulary = byte_vocabulary()
    end = vocabulary.end_ids[0]
    why = behind({"type": "string", "pattern": "^a+b$"}, '"aa').explain(end)
    assert why is not None
    assert why.token == b""
    assert "`a`" in why.expected
    assert behind(True, '"aa"').explain(end) is None


def test_a_token_of_several_bytes_tells_how_far_it_fits() -> None:
    vocabulary = sg.Vocabulary.from_tokens([*[bytes([b]) for b in range(256)], b'": 501', None], [257])
    matcher = sg.JsonSchema(ITEM).compile(vocabulary).matcher()
    for byte in b'{"qty':
        matcher.advance(byte)
    why = matcher.explain(256)
    assert why is not None
    assert (why.offset, why.pointer, why.keyword, why.argument) == (5, "/qty", "maximum", 500)
    assert matcher.explain(ord('"')) is None


def test_other_constraints_tell_what_was_expected() -> None:
    matcher = sg.Regex("[0-5]{2}(kg|g)").compile(byte_vocabulary()).matcher()
    why = matcher.explain(ord("7"))
    assert why is not None
    assert (why.pointer, why.keyword, why.expected) == ("", "", "a digit 0 to 5")
    lark = sg.Lark('start: "a" ("b" | "c")').compile(byte_vocabulary()).matcher()
    lark.advance(ord("a"))
    assert lark.explain(ord("a")).expected == "`b` or `c`"  # type: ignore[union-attr]


@pytest.mark.parametrize("token", [-1, 10**9])
def test_what_is_no_token_is_refused(token: int) -> None:
    with pytest.raises(OptionError, match="token_id"):
        behind(True, "").explain(token)


def test_nearly_every_refusal_of_real_documents_has_a_keyword_to_blame(data_folder: Path) -> None:
    with lzma.open(data_folder / "maskbench-dev.jsonl.xz", "rt") as lines:
        entries = [json.loads(line) for line in itertools.islice(lines, 0, None, 190)]
    blamed = total = 0
    for entry in entries:
        for test in entry["tests"]:
            if test["valid"]:
                continue
            matcher = sg.JsonSchema(entry["schema"]).compile(byte_vocabulary()).matcher()
            for byte in json.dumps(test["data"], ensure_ascii=False).encode():
                try:
                    matcher.advance(byte)
                except TokenRejected:
                    why = matcher.explain(byte)
                    assert why is not None
                    total, blamed = total + 1, blamed + bool(why.keyword)
                    break
    assert total
    assert blamed > 0.9 * total


def test_words_for_bytes() -> None:
    assert described([*b"0123456789"], end=True) == "a digit or the end"
    assert described([*b"05"], end=False) == "`0` or `5`"
    assert described([*range(32, 256)], end=False) == 'any character or `"`'
    assert described([*b" \n,"], end=False) == "`,` or white space"
    assert described([], end=False).startswith("nothing")


def rejection(schema: Any, text: str, token: int) -> TokenRejected:
    """The error of a token that is refused behind a text."""
    with pytest.raises(TokenRejected) as raised:
        behind(schema, text).advance(token)
    return raised.value


def test_a_rejected_token_says_where_by_which_keyword_and_what_was_expected() -> None:
    error = rejection(ORDER, '{"items": [{"qty": 50', ord("1"))
    assert error.why is not None
    assert (error.why.pointer, error.why.keyword, error.why.offset) == ("/items/0/qty", "maximum", 0)
    told = "at /items/0/qty: maximum 500; expected `,`, `.`, `0` or `}`, at byte 0 of b'1'"
    assert str(error) == f"{error.message}; {told}"
    error.args = (f"prompt[3]: {error}",)
    assert str(error).count(told) == 1


def test_an_error_that_is_caught_has_worked_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("structgen.masks.grammar.refused_token", lambda *a, **k: asked.append(a))
    error = rejection(ORDER, "{", ord("}"))
    assert not asked
    assert error.message == str(error)
    assert (error.why, len(asked)) == (None, 1)


def test_what_is_refused_where_no_keyword_is_to_blame_still_has_a_message() -> None:
    matcher = behind({"type": "string"}, '"x"')
    matcher.advance(matcher.grammar.vocabulary.end_ids[0])
    with pytest.raises(TokenRejected, match=r"after the end of the text at byte 3$") as raised:
        matcher.advance(ord(" "))
    assert raised.value.why is None
    with pytest.raises(OptionError, match="the text has ended"):
        matcher.explain(ord(" "))
    with pytest.raises(TokenRejected, match=r"the logits have 260 rows$"):
        behind(True, "").advance(300)


def test_an_error_keeps_what_was_worked_out_on_its_way_to_another_process() -> None:
    error = rejection(ORDER, "{", ord("}"))
    twin = pickle.loads(pickle.dumps(error))
    assert (twin.why, str(twin)) == (error.why, str(error))
    assert twin.why is not None
    assert twin.why.keyword == "required"


def test_a_dead_end_says_what_the_text_still_needs() -> None:
    """The schema wants what no token of this vocabulary spells."""
    vocabulary = sg.Vocabulary.from_tokens([b'{"name": "', b"a", b'"}', None], end_ids=[3])
    schema = {"type": "object", "properties": {"name": {"type": "string", "pattern": "^ab$"}}, "required": ["name"]}
    matcher = sg.JsonSchema(schema).compile(vocabulary).matcher()
    for token in (0, 1):
        matcher.advance(token)
    with pytest.raises(sg.DeadEnd, match="no token of the vocabulary spells") as raised:
        matcher.mask()
    why = raised.value.why
    assert why is not None
    assert (why.pointer, why.expected, why.token) == ("/name", "`b`", b"")
    assert "at /name" in str(raised.value)


def test_the_search_for_a_keyword_ends() -> None:
    """A hundred keywords may be to blame, and each try writes a large schema again."""
    names = {f"name{i}": {"type": "string", "pattern": f"^a{{{i}}}b"} for i in range(300)}
    schema = {"properties": names, "required": [*names], "allOf": [{"required": [name]} for name in names]}
    began = time.thread_time()
    why = behind(schema, "{").explain(ord("}"))
    assert why is not None
    assert why.expected.startswith('`"`')
    assert at_usual_speed(time.thread_time() - began) < 20


@pytest.mark.parametrize(("text", "byte", "pointer", "keyword"), cases("values/blame", "json_within_a_composition"))
def test_json_within_a_composition_has_its_keywords_too(text: str, byte: str, pointer: str, keyword: str) -> None:
    constraint = sg.Sequence("Answer: ", sg.JsonSchema(ORDER), sg.Regex(r"[.!]"))
    matcher = constraint.compile(byte_vocabulary()).matcher()
    for each in text.encode():
        matcher.advance(each)
    why = matcher.explain(ord(byte))
    assert why is not None
    assert (why.pointer, why.keyword) == (pointer, keyword)
    end = matcher.explain(matcher.grammar.vocabulary.end_ids[0])
    assert end is not None
    assert end.expected == why.expected
