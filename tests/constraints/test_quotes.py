"""`Quote` as an annotation and as a constraint, and what does not go together."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter

import structgen as sg
from structgen.constraints.basic import JsonSchema
from structgen.errors import OptionError, TokenRejected, UnsatisfiableSchema, UnsupportedSchema
from structgen.explanation import explain
from structgen.regular.quotes import MissingSource
from structgen.schema.python.types import from_type
from tests.support.matching import byte_vocabulary


class Person(BaseModel):
    name: Annotated[str, sg.Quote(whole="words", max_length=20)]
    nick: Annotated[str, Field(min_length=2, pattern="^[a-z]"), sg.Quote("ann and bob")] | None = None


def accepts(constraint: Any, value: Any) -> bool:
    matcher = constraint.compile(byte_vocabulary()).matcher()
    text = value if isinstance(constraint, sg.Quote) else json.dumps(value, ensure_ascii=False)
    for byte in text.encode():
        try:
            matcher.advance(byte)
        except TokenRejected:
            return False
    return bool(matcher.can_finish)


def test_an_annotation_is_a_keyword_of_the_schema() -> None:
    properties = from_type(Person)[0]["properties"]
    assert properties["name"] == {
        "maxLength": 20, "title": "Name", "type": "string", "x-quote": {"whole": "words"}
    }  # fmt: skip
    assert properties["nick"]["anyOf"][0]["x-quote"] == {"source": {"": "ann and bob"}}
    assert [rule.how for rule in explain(Person).rules if rule.keyword == "x-quote"] == ["masked"] * 2


def test_other_keywords_hold_beside_a_quote() -> None:
    schema = JsonSchema(Person, source="Ann Smith, 42, and Bob")
    for name, nick, fits in (
        ("Ann", None, True), ("Ann Smith", "ann", True), ("An", None, False), ("Ann, Smith", None, False),
        ("42", "a", False), ("Bob", "and", True), ("Ann Smith, 42, and Bob", None, False), ("Bob", "zob", False),
        ("", None, False), ("Bob", " a", False),
    ):  # fmt: skip
        assert accepts(schema, {"name": name, "nick": nick}) == fits, (name, nick)
    either = {"enum": ["Ann", "Eve"], "x-quote": {}}
    assert [accepts(JsonSchema(either, source="Ann"), each) for each in ("Ann", "Eve", "An")] == [True, False, False]


def test_a_quote_in_each_type_of_a_union_and_beside_listed_texts() -> None:
    """Which of the types it is shows behind the quote, or by it."""

    class Firm(BaseModel):
        name: Annotated[str, sg.Quote(whole="words")]
        staff: int

    class Author(BaseModel):
        name: Annotated[str, sg.Quote(whole="words")]
        works: list[Annotated[str, sg.Quote(whole="words")] | Literal["unknown", "Bob and"]]

    schema = JsonSchema(Firm | Author, source="Ann, and Bob")
    assert accepts(schema, {"name": "Ann", "staff": 2})
    assert accepts(schema, {"name": "Bob", "works": ["and Bob", "unknown", "Bob and", "Ann"]})
    assert not accepts(schema, {"name": "unknown", "works": []})
    assert not accepts(schema, {"name": "Ann", "works": ["unknow"]})


def test_a_quote_is_plain_text_as_a_constraint_and_as_a_part() -> None:
    assert accepts(sg.Quote("a\nb"), "a\nb")
    assert not accepts(sg.Quote("a\nb"), "b\n")
    whole = sg.Sequence("> ", sg.Quote("one two", whole="words"), "\n")
    matcher = whole.compile(byte_vocabulary()).matcher()
    for byte in b"> two\n":
        matcher.advance(byte)
    assert matcher.can_finish


def test_what_cannot_work_is_refused() -> None:
    quote = {"type": "string", "x-quote": {}}
    with pytest.raises(MissingSource, match=r"pass source=, or sg\.Quote\(text\)"):
        JsonSchema(quote).compile(byte_vocabulary())
    with pytest.raises(OptionError, match="no string of this one has"):
        JsonSchema({"type": "string"}, source="x").compile(byte_vocabulary())
    with pytest.raises(OptionError, match="there is nothing to quote"):
        sg.Quote(" ", whole="words").compile(byte_vocabulary())
    for empty in ("", {"a": ""}):
        with pytest.raises(OptionError, match=f"source={empty!r}: there is nothing to quote in it"):
            sg.Quote(empty).compile(byte_vocabulary())
        with pytest.raises(UnsatisfiableSchema, match=f"there is nothing to quote in source={empty!r}"):
            JsonSchema(quote, source=empty).compile(byte_vocabulary())
    with pytest.raises(TypeError, match=r"write Annotated\[str, Quote\(\)\]"):
        TypeAdapter(list[sg.Quote])
    with pytest.raises(OptionError, match="max_length=0"):
        sg.Quote(max_length=0)
    with pytest.raises(OptionError, match="spaces='no'"):
        sg.Quote(spaces="no")
    with pytest.raises(UnsupportedSchema, match="give it a member of its own"):
        accepts(JsonSchema({"anyOf": [quote, {"type": "string", "pattern": "^x"}]}, source="ab"), "a")
    short = {**quote, "maxLength": 3}
    with pytest.raises(UnsupportedSchema, match="give it a member of its own"):
        accepts(JsonSchema({"anyOf": [short, {"enum": ["x"]}]}, source="ab"), "a")
    with pytest.raises(UnsupportedSchema, match="a quote in two ways"):
        accepts(JsonSchema({"anyOf": [quote, short]}, source="ab"), "a")
    nullable = JsonSchema({"anyOf": [quote, {"type": "null"}]}, source=" ")
    words = {**quote, "x-quote": {"whole": "words"}}
    assert accepts(JsonSchema({"anyOf": [words, {"type": "null"}]}, source=" "), None)
    assert accepts(nullable, " ")
