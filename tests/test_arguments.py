"""Every argument of every public name, given everything: it is taken, or refused by its name; nothing falls through.

A row is an argument, how it is given, and which of `VALUES` it takes, by their names there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel, field_validator

import structgen as sg
from structgen.testing import byte_vocabulary, scripted
from structgen.vocabulary import Vocabulary

VALUES: dict[str, Any] = {
    "none": None, "true": True, "three": 3, "minus": -1, "zero": 0, "half": 2.5, "nan": math.nan, "infinite": math.inf,
    "huge": 10**30, "beyond floats": 10**400, "beyond text": 10**5000,
    "empty": "", "text": "x", "bytes": b"x", "list": [], "numbers": [3],
    "texts": ["x"], "nones": [None], "tuple": (), "dict": {}, "schema": {"a": 1}, "set": {1, 2}, "object": object(),
    "type": int, "array": np.array([1, 2]), "function": lambda: 0, "surrogate": "a\ud800", "surrogates": ["\udc00"],
}  # fmt: skip
VOCABULARY = byte_vocabulary()
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
BIG = {"huge", "beyond floats", "beyond text"}
NUMBERS = {"three", "zero", "half", "huge"}
PENALTIES = {"three", "zero", "half", "minus"}
COUNTS = {"three"}
LISTS = {"none", "list", "tuple"}
CAPS = {"none", "three", *BIG}
PARTS = {"empty", "text", "texts", "dict", "schema", "type", "function"}
TOKENS = [b"a", b"b", None, None]


class Even(BaseModel):
    """A type with something to guard."""

    n: int

    @field_validator("n")
    @classmethod
    def even(cls, n: int) -> int:
        assert n % 2 == 0
        return n


def matcher() -> sg.Matcher:
    return sg.Regex("abc").compile(VOCABULARY).matcher()


def options(make: Callable[..., Any], **fields: set[str]) -> list[tuple[str, Callable[[Any], Any], set[str]]]:
    """A row for each keyword argument of `make`."""
    return [(name, lambda value, name=name: make(**{name: value}), fine) for name, fine in fields.items()]


def generated(**given: Any) -> Any:
    return sg.generate(scripted('{"a": 1}'), "x", **{"schema": SCHEMA, **given})


def compiled(make: Callable[..., Any]) -> Callable[..., Any]:
    return lambda **given: make(**given).compile(VOCABULARY)


ROWS: list[tuple[str, Callable[[Any], Any], set[str]]] = [
    *options(
        sg.Sampling, temperature=NUMBERS, top_k={"three", "zero"}, top_p=set(), min_p={"zero"}, typical_p=set(),
        repetition_penalty={"three", "half"}, frequency_penalty=PENALTIES, presence_penalty=PENALTIES,
        processors={"list", "tuple"},
        seed={"none", "three", "zero", "huge", "beyond floats"},
    ),
    ("count", lambda value: sg.Sampling(temperature=1).several(value), COUNTS),
    *options(
        sg.Limits, max_new_tokens=COUNTS | {"none"}, rollbacks={"three", "zero"}, stop={"list", "texts", "tuple"},
        validations={"three", "zero"}, strict={"true"}, max_digits=CAPS, max_blanks=CAPS, max_repeated=CAPS,
        max_items=CAPS, max_characters=CAPS,
    ),
    *options(sg.Thinking, opening={"none", "text"}, closing={"none", "text"}, max_tokens=COUNTS, answer_share={"zero"}),
    *options(lambda **given: sg.Beams(**{"count": 2, **given}), count=COUNTS, early_stopping={"true"}),
    *options(lambda **given: sg.Beams(2, **given), length_penalty=NUMBERS | {"minus"}),
    *options(sg.Whitespace, kind=set(), indent={"zero"}, bound={"zero"}),
    ("indent", sg.Whitespace.INDENTED, {"three", "zero"}),
    *options(
        generated, tokenizer={"none"}, sampling={"none"}, limits={"none"}, whitespace={"none"}, order=LISTS,
        fast_forward={"none", "true"}, batch_size={"none", "three", *BIG}, guards=LISTS, banned=LISTS | {"texts"},
        beams={"none", *COUNTS}, details={"none", "true"},
    ),
    *options(
        lambda **given: sg.generate(scripted('{"a": 1}'), ["x", "y"], SCHEMA, **given),
        sampling={"none"}, limits={"none"}, guards=LISTS, banned=LISTS | {"texts"},
    ),
    *options(
        lambda **given: sg.stream(scripted('{"a": 1}'), "x", SCHEMA, **given),
        beams={"none", *COUNTS}, thinking={"none", "true", "nones"}, order=LISTS, batch_size={"none", "three", *BIG},
        banned=LISTS | {"texts"},
    ),
    ("model", lambda value: sg.generate(value, "x"), set()),
    ("prompt", lambda value: sg.generate(scripted("x"), value), {"text", "texts", "numbers", "array", "list", "tuple"}),
    ("schema", lambda value: generated(schema=value), {"none", "true", "dict", "schema", "type", "function"}),
    *options(
        compiled(lambda **given: sg.JsonSchema(int, **given)), order={"list", "tuple"}, whitespace=set(),
        closed={"none", "true"}, format=set(), registry={"none"},
    ),
    *options(
        compiled(lambda **given: sg.JsonSchema(SCHEMA, **given)), order={"list", "tuple"}, whitespace=set(),
        closed={"none"}, format=set(), registry={"none"},
    ),
    *options(lambda **given: sg.explain(SCHEMA, **given), closed={"none"}, format=set(), registry={"none"}),
    *options(compiled(sg.Regex), pattern={"empty", "text"}),
    *options(compiled(sg.Choice), options={"texts"}),
    *options(
        compiled(sg.Text), until={"list", "tuple", "text", "texts"}, before={"list", "tuple", "text", "texts"},
        max_chars={"none", "three", "zero"}, min_chars={"three", "zero"},
    ),
    *options(lambda **given: sg.Repeat("a", **given), min={"three", "zero"}, max={"none", "three", "zero"}),
    ("", lambda value: sg.Repeat("a", separator=value).compile(VOCABULARY), PARTS),
    *[
        ("", lambda value, make=make: make(value).compile(VOCABULARY), PARTS)
        for make in (sg.Repeat, sg.Sequence, sg.Union)
    ],
    ("SpecialToken", sg.SpecialToken, {"text"}),
    *options(
        compiled(lambda **given: sg.Lark(**{"grammar": 'start: "a"', **given})),
        grammar=set(), import_paths={"list", "tuple", "texts", "surrogates"},
    ),
    *options(lambda **given: sg.Lark('start: "a"', **given), start={"text"}),
    ("expected an object with start", sg.Machine, set()),
    *[
        ("vocabulary", constraint.compile, set())
        for constraint in (sg.JsonSchema({}), sg.Regex("a"), sg.Text(), sg.Lark('start: "a"'), sg.SpecialToken("a"))
    ],
    *options(
        lambda **given: sg.BannedWords(**{"words": ["a"], **given}), words={"texts"}, ignore_case={"true"},
        whole_word={"true"}, normalised={"true"}, any_space={"true"}, scope=set(), across_prompt={"true"},
    ),
    *options(lambda **given: sg.BannedPattern("a", **given), scope=set(), across_prompt={"true"}),
    ("attern", sg.BannedPattern, {"text"}),
    *options(lambda **given: sg.GuardMask(**{"guards": [sg.BannedWords(["a"])], "vocabulary": VOCABULARY, **given}),
             guards=set(), vocabulary=set(), matcher={"none"}),
    ("Veto(offset)", lambda value: sg.Veto(value, "x"), {"three", "zero", *BIG}),
    ("Veto(reason)", lambda value: sg.Veto(0, value), {"empty", "text", "surrogate"}),
    ("tokens", lambda value: Vocabulary.from_tokens(value, [0]), {"nones"}),
    ("tokens[1]", lambda value: Vocabulary.from_tokens([b"a", value], [0]), {"none", "bytes"}),
    ("end", lambda value: Vocabulary.from_tokens(TOKENS, value), {"numbers", "set", "array"}),
    ("end", lambda value: Vocabulary.from_tokens(TOKENS, [value]), {"three", "zero"}),
    ("", lambda value: Vocabulary.from_tokens(TOKENS, [3], width=value), {"none"}),
    ("names", lambda value: Vocabulary.from_tokens(TOKENS, [3], names=value), {"none", "dict"}),
    ("names", lambda value: Vocabulary.from_tokens(TOKENS, [3], names={"</a>": value}), {"three"}),
    ("tokenizer", Vocabulary.from_tokenizer, set()),
    ("token", lambda value: matcher().advance(value), set()),
    ("rollback", lambda value: matcher().rollback(value), {"zero"}),
    ("out", lambda value: matcher().mask(value), {"none"}),
    ("", lambda value: sg.fill_masks(value, np.zeros((1, 9), np.uint32)), {"list", "tuple"}),
    ("out", lambda value: sg.fill_masks([matcher()], value), set()),
    ("id_or_path", lambda value: sg.load(value), set()),
]  # fmt: skip
OFFLINE = {"text"}
"""An id that the hub may have."""


@pytest.mark.parametrize(("name", "call", "fine"), ROWS, ids=[f"{i}-{row[0]}" for i, row in enumerate(ROWS)])
def test_a_value_is_taken_or_refused_by_its_name(name, call, fine):
    for kind, value in VALUES.items():
        if kind in fine:
            call(value)
        elif name != "id_or_path" or kind not in OFFLINE:
            with pytest.raises(sg.RequestError if name != "token" else sg.StructgenError) as found:
                call(value)
            assert name in str(found.value), kind


def test_types_have_validators_or_nothing_to_guard():
    sg.ValidatorGuard(Even)
    for value in VALUES.values():
        with pytest.raises(sg.RequestError):
            sg.ValidatorGuard(value)


def test_an_order_names_members_of_some_object():
    """Lists apply to every object that declares the names; one that none declares is a mistake."""
    nested = {"properties": {"a": {"properties": {"b": {}, "c": {}}}}, "$defs": {"x": {"properties": {"d": {}}}}}
    sg.JsonSchema(nested, order=["c", "d", "a"]).compile(VOCABULARY)
    with pytest.raises(sg.OptionError, match=r"order: no object of the schema declares 'dd'; it declares 'd'"):
        sg.JsonSchema(nested, order=["c", "dd"]).compile(VOCABULARY)
    with pytest.raises(sg.OptionError, match="declares 'm'; it declares none"):
        sg.generate(scripted("1"), "x", int, order=["m"])
    sg.JsonSchema(Even, order=["n"]).compile(VOCABULARY)


def test_an_option_that_does_nothing_is_refused():
    for make in (lambda: sg.Whitespace("spaced", indent=2), lambda: sg.Whitespace("indented", bound=2)):
        with pytest.raises(sg.OptionError, match=r"=2: expected 0: only kind="):
            make()


def test_a_mask_is_written_into_arrays_of_its_size_alone():
    words = matcher().mask()
    for dtype in (np.uint32, np.int32):
        out = np.zeros(len(words), dtype)
        assert matcher().mask(out) is out
        assert np.array_equal(out.view(np.uint32), words)
    for wrong in (np.zeros(len(words), np.float32), np.zeros(len(words) + 1, np.uint32), [0] * len(words)):
        with pytest.raises(sg.OptionError, match="out="):
            matcher().mask(wrong)
    with pytest.raises(sg.OptionError, match="out="):
        sg.fill_masks([matcher()], np.zeros((1, len(words) - 1), np.uint32))


def test_a_token_is_a_row_of_the_logits():
    """Another number is an `IndexError`, as of any sequence; what is no number is told by its name."""
    for kind, value in VALUES.items():
        if kind not in ("three", "zero"):
            with pytest.raises((IndexError, sg.OptionError)):
                VOCABULARY.token(value)
            with pytest.raises((IndexError, sg.OptionError)):
                VOCABULARY.decode([value])
    for value in (None, 3, object()):
        with pytest.raises(sg.OptionError, match="token_ids="):
            VOCABULARY.decode(value)
