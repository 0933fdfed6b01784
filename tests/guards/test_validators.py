"""A type's validators as a guard: the same verdicts as the type's, and masks that never let a refused value close.

Covers `lookahead` and `json_text.pointers`.
"""

from __future__ import annotations

import json
import random
from typing import Annotated, Any

import numpy as np
import pytest
from pydantic import AfterValidator, BaseModel, Field, TypeAdapter, ValidationError, model_validator

import structgen as sg
from structgen.demo import load_demo
from structgen.guards.lookahead import everything, holding
from structgen.testing import byte_vocabulary, scripted, veto_of
from structgen.vocabulary import Vocabulary
from tests.support.tables import cases


def even(n: int) -> int:
    if n % 2:
        raise ValueError("odd")
    return n


def no_vowel_first(text: str) -> str:
    assert text[:1] not in "aeiou", "a vowel"
    return text


Even = Annotated[int, Field(ge=0, le=99), AfterValidator(even)]
Name = Annotated[str, Field(max_length=4, pattern="^[a-e]*$"), AfterValidator(no_vowel_first)]


class Sum(BaseModel):
    name: Name
    parts: list[Even] = Field(max_length=3)
    total: int = Field(ge=0, le=300)

    @model_validator(mode="after")
    def adds_up(self) -> Sum:
        assert self.total >= sum(self.parts), "too little"
        return self


TEXTS = cases("guards/validators", "TEXTS", globals())


def is_valid(tp: Any, text: str) -> bool:
    try:
        TypeAdapter(tp).validate_json(text)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize(("tp", "text"), TEXTS)
def test_the_verdict_is_that_of_the_type_however_the_text_comes(tp, text):
    """In one piece and byte by byte; the veto is from the refused value's first byte."""
    veto = veto_of(sg.ValidatorGuard(tp), text)
    assert (veto is None) == is_valid(tp, text)
    if veto is not None:
        assert text[veto.offset] in '{["0123456789'


@pytest.mark.parametrize(("tp", "text"), TEXTS)
@pytest.mark.parametrize("vocabulary", [byte_vocabulary(), Vocabulary.from_tokenizer(load_demo()[1])])
def test_suspects_are_all_that_is_vetoed(vocabulary, tp, text):
    """At each byte of a text: no other token is vetoed, nor the end behind one."""
    guard = sg.ValidatorGuard(tp)
    state: Any = guard.start()
    for byte in text.encode():
        suspects = guard.suspects(state, vocabulary)
        among = set(range(vocabulary.width)) if suspects is None else set(suspects.tolist())
        for token in {*range(0, vocabulary.width, 7), *json_tokens(vocabulary)} - among:
            after = guard.feed(state, vocabulary.token(token))
            assert not isinstance(after, sg.Veto)
            assert guard.finish(after) is None
        state = guard.feed(state, bytes([byte]))
        if isinstance(state, sg.Veto):
            break


def json_tokens(vocabulary: Vocabulary) -> list[int]:
    """Tokens that may change where a JSON text stands."""
    return holding(vocabulary, b'"}],')[:200].tolist()


def test_tokens_that_hold_a_byte_are_found():
    vocabulary = Vocabulary.from_tokens([b"ab", b"", b"c", None, b"dec", b"x"], end_ids=[3], width=9)
    assert holding(vocabulary, b"ec").tolist() == [2, 4]


@pytest.mark.parametrize("tp", [Even, list[Even], Sum])
def test_random_tokens_under_the_masks_end_in_a_value_that_the_type_takes(tp):
    """Someone else's loop, which goes back where nothing is left."""
    vocabulary = byte_vocabulary()
    grammar = sg.JsonSchema(tp).compile(vocabulary)
    for seed in range(6):
        rng, matcher = random.Random(seed), grammar.matcher()
        watch = sg.GuardMask([sg.ValidatorGuard(tp)], vocabulary, grammar.matcher())
        said, stuck = list[int](), 0
        while not matcher.finished:
            try:
                words = watch.mask()
            except sg.DeadEnd:
                stuck += 1
                count = min(len(said), rng.randint(1, 12))
                watch.rollback(count)
                matcher.rollback(count)
                del said[len(said) - count :]
                assert stuck < 400
                continue
            allowed = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).tolist()
            token = rng.choice(allowed)
            watch.advance(token)
            matcher.advance(token)
            said.append(token)
        assert is_valid(tp, matcher.text.decode())


def test_in_generate_it_holds_values_of_another_schema_to_a_type():
    """The schema says less than the type: what the type refuses is taken back."""
    schema = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}, "maxItems": 2}
    run = sg.generate(scripted("[1, 3]"), "x", schema, guards=[sg.ValidatorGuard(list[Even])], details=True)
    assert is_valid(list[Even], json.dumps(run.value))
    assert "odd" in run.trace[0].reason


def test_a_type_without_validators_is_nothing_to_guard():
    with pytest.raises(sg.OptionError, match="nothing to guard"):
        sg.ValidatorGuard(list[int])


def test_a_whole_mask_refuses_the_tokens_that_complete_a_refused_value():
    """`}` and everything else behind an odd number; the digits that make it even may come."""
    vocabulary = byte_vocabulary()
    watch = sg.GuardMask([sg.ValidatorGuard(list[Even])], vocabulary)
    for byte in b"[2, 1":
        watch.advance(byte)
    left = np.unpackbits((watch.mask() & everything(vocabulary)).view(np.uint8), bitorder="little")
    assert bytes(i for i in range(256) if left[i]) == b"+-.0123456789Ee"
