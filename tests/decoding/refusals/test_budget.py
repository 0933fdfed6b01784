"""A budget never truncates a constrained value: it is closed in time, and the result says what was cut short."""

from __future__ import annotations

import json
import lzma
import random
from itertools import islice
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch
from pydantic import BaseModel, model_validator

import structgen as sg
from structgen.decoding.prompts.prompt import Prompt
from structgen.decoding.refusals.budget import Budget, Steering, require_room
from structgen.decoding.refusals.caps import CapReader
from structgen.decoding.refusals.rules import Rules
from structgen.decoding.refusals.transcript import Transcript
from structgen.decoding.session import Session
from structgen.endings.closing import Closing, closing_tokens
from structgen.json_text.pointers import pointer_at
from structgen.masks import Grammar
from structgen.models.row import Row
from structgen.testing import scripted
from structgen.vocabulary import Vocabulary
from tests.support.matching import byte_vocabulary, rich_vocabulary, vocabulary_of
from tests.support.mixed_rows import WITHOUT_Z
from tests.support.tables import cases
from tests.support.thinning import diagonal, times
from tests.support.walking import random_schema, tokens_of

PERSON = cases("decoding/refusals/budget", "PERSON")
SHORTEST = '{"name": "", "n": 0}'
TREE = {"type": "array", "items": {"$ref": "#"}}
LAYOUTS = [sg.Whitespace.SPACED, sg.Whitespace.COMPACT, sg.Whitespace.FLEXIBLE, sg.Whitespace.INDENTED(2)]


def run(text: str, schema: Any, budget: int, **options: Any) -> Any:
    """A scripted model's generation within a budget, which it never exceeds."""
    limits = sg.Limits(budget, strict=options.pop("strict", False), max_digits=None)
    found = sg.generate(scripted(text), "x", schema=schema, limits=limits, details=True, **options)
    assert len(found.token_ids) <= budget
    return found


@pytest.mark.parametrize("budget", [len(SHORTEST), len(SHORTEST) + 1, len(SHORTEST) + 25])
def test_an_endless_string_is_closed_in_time(budget: int) -> None:
    found = run('{"name": "' + "x" * 100, PERSON, budget)
    assert found.text == SHORTEST.replace('""', '"' + "x" * (budget - len(SHORTEST)) + '"')
    assert found.finish == "closed_by_budget"
    assert found.caps[0] == sg.Cap("max_new_tokens", "/name", budget)


@pytest.mark.parametrize(("fast_forward", "whitespace"), diagonal([True, False], LAYOUTS))
@pytest.mark.parametrize(
    ("text", "pointer"),
    cases("decoding/refusals/budget", "whatever_runs_away_is_closed", globals()),
    ids=["string", "array", "nesting", "objects", "digits", "escape"],
)
def test_whatever_runs_away_is_closed(text: str, pointer: str, whitespace: Any, fast_forward: bool) -> None:
    if whitespace == sg.Whitespace.COMPACT:  # a script stops before what may not be said
        text = text.replace(": ", ":").replace(", ", ",")
    for budget in (44, 89):
        found = run(text, PERSON, budget, whitespace=whitespace, fast_forward=fast_forward)
        jsonschema.validate(found.value, PERSON)
        if len(text) > 50:
            assert found.finish == "closed_by_budget"
            assert any(cap.pointer.startswith(pointer) for cap in found.caps), found.caps


@pytest.mark.parametrize("budget", [2, 3, 17, 64])
def test_endless_nesting_in_a_recursive_schema(budget: int) -> None:
    found = run("[" * 100, TREE, budget)
    assert found.text == "[" * (budget // 2) + "]" * (budget // 2)
    assert found.finish == "closed_by_budget"


def test_unique_items_are_closed_with_another_item_where_the_shortest_came_already() -> None:
    unique = {"type": "array", "uniqueItems": True, "items": {"type": "integer"}, "minItems": 4}
    for budget in range(12, 40):
        found = run("[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12", unique, budget)
        jsonschema.validate(found.value, unique)


@pytest.mark.parametrize(
    ("constraint", "text", "whole"),
    cases("decoding/refusals/budget", "texts_that_are_no_json", globals()),
)
def test_texts_that_are_no_json(constraint: Any, text: str, whole: str) -> None:
    found = run(text, constraint, 8)
    assert found.text == whole
    assert found.finish == ("complete" if text == whole else "closed_by_budget")
    assert [cap.pointer for cap in found.caps] == ([] if text == whole else [""])


def test_a_budget_that_is_enough_changes_nothing() -> None:
    text = '{"name": "Ada", "tags": [1, 2], "n": 36}'
    found = run(text, PERSON, len(text))
    assert (found.text, found.finish, found.caps) == (text, "complete", ())


def test_a_budget_too_small_for_any_text_is_refused_before_the_first_forward() -> None:
    model = scripted("{")
    model.module.forward = None
    with pytest.raises(sg.OptionError, match=r"max_new_tokens=19: the shortest text known needs 20 tokens: '{"):
        sg.generate(model, "x", schema=PERSON, limits=sg.Limits(19))
    with pytest.raises(sg.OptionError, match="shortest text known needs 20"):
        sg.generate(model, ["x", "y"], schema=PERSON, limits=[sg.Limits(20), sg.Limits(19, strict=True)])


@pytest.mark.parametrize(
    "schema", [{"type": "array", "minItems": 10**9}, {"type": "string", "minLength": 40_000}], ids=str
)
def test_a_text_too_long_to_be_searched_for_is_refused_by_what_it_needs_at_least(schema: Any) -> None:
    grammar = sg.JsonSchema(schema).compile(byte_vocabulary())
    with pytest.raises(
        sg.OptionError, match=r"max_new_tokens=64: the shortest text (known )?needs (at least )?\d{4,} tokens"
    ):
        require_room(grammar, Budget(64, "max_new_tokens"))


def test_what_the_vocabulary_cannot_spell_is_refused_before_anything_runs() -> None:
    grammar = sg.Regex("(a|b)z").compile(WITHOUT_Z)
    with pytest.raises(sg.VocabularyError, match="do not spell 'az', the shortest text known"):
        require_room(grammar, Budget(512, "max_new_tokens"))


def test_strict_raises_as_it_did() -> None:
    with pytest.raises(sg.BudgetExhausted, match="max_new_tokens=30") as caught:
        run('{"name": "' + "x" * 99, PERSON, 30, strict=True)
    assert len(caught.value.text) == 30
    assert run(SHORTEST, PERSON, 30, strict=True).finish == "complete"


def test_the_context_is_a_budget_too() -> None:
    model = scripted('{"name": "' + "x" * 99, max_position_embeddings=40)
    found = sg.generate(model, "x" * 11, schema=PERSON, details=True)
    assert found.finish == "closed_by_budget"
    assert found.caps[0] == sg.Cap("context", "/name", 30)
    jsonschema.validate(found.value, PERSON)


def test_each_row_of_a_batch_is_closed_within_its_own_budget() -> None:
    texts = ['{"name": "' + "x" * 99, SHORTEST, '{"name": "' + "y" * 99]
    limits = [sg.Limits(25), sg.Limits(64), sg.Limits(33)]
    rows = sg.generate(scripted(texts), ["a", "bb", "ccc"], schema=PERSON, limits=limits, details=True)
    assert [row.finish for row in rows] == ["closed_by_budget", "complete", "closed_by_budget"]
    assert [len(row.token_ids) for row in rows] == [25, 20, 33]
    assert [row.caps[:1] for row in rows[1:]] == [(), (sg.Cap("max_new_tokens", "/name", 33),)]


def test_a_stream_tells_what_the_result_says_and_takes_nothing_back() -> None:
    with pytest.warns(sg.BudgetWarning, match="at /name, /n by max_new_tokens=40"):
        events = list(sg.stream(scripted('{"name": "' + "x" * 99), "x", schema=PERSON, limits=sg.Limits(40)))
    result = events[-1].result
    assert "".join(event.text for event in events) == result.text
    assert result.finish == "closed_by_budget"
    assert result.trace == ()
    assert result.stats.rollbacks == 0


def test_closing_takes_no_forward_beyond_one_for_each_token() -> None:
    found = run("[" * 100, TREE, 40, fast_forward=False)
    assert found.stats.forwards <= 40


@pytest.mark.parametrize("banned", ['""', "0}", '"n": 0'])
def test_guards_have_a_say_in_how_the_value_is_closed(banned: str) -> None:
    guard = sg.BannedWords([banned], scope="text")
    for budget in range(len(SHORTEST) + 1, len(SHORTEST) + 12):
        found = run('{"name": "' + "x" * 99, PERSON, budget, guards=[guard])
        assert banned not in found.text
        jsonschema.validate(found.value, PERSON)


class Even(BaseModel):
    """A model with a rule of its own."""

    name: str
    n: int

    @model_validator(mode="after")
    def _even(self) -> Even:
        if self.n % 2 != len(self.name) % 2:
            raise ValueError("n and the name's length must both be even or odd")
        return self


def test_a_validator_may_refuse_the_first_close() -> None:
    for budget in range(24, 30):
        found = run('{"name": "' + "x" * 99, Even, budget)
        assert found.value.n % 2 == len(found.value.name) % 2


@pytest.mark.parametrize(
    ("text", "pointer"),
    [
        (b"", ""), (b"[", ""), (b"[1", "/0"), (b"[1,", ""), (b"[1, 2", "/1"), (b'{"a', ""), (b'{"a": ', "/a"),
        (b'{"a": "x', "/a"), (b'{"a": "x"', ""), (b'{"a": [tr', "/a/0"), (b'{"a/b": {"c": 1', "/a~1b/c"), (b"12", ""),
    ],
)  # fmt: skip
def test_the_pointer_is_that_of_what_is_being_written(text: bytes, pointer: str) -> None:
    assert pointer_at(text) == pointer


def drive(grammar: Grammar, budget: int, draw: random.Random, cap_reader: CapReader | None = None) -> Session:
    """A row whose model draws any allowed token, each as likely as the others."""
    steering = Steering(grammar, "max_new_tokens", budget, cap_reader=cap_reader)
    limits, sampling = sg.Limits(budget), sg.Sampling(temperature=1.0)
    matcher = grammar.matcher()
    session = Session(
        Prompt([0]),
        grammar.vocabulary,
        matcher=matcher,
        sampling=sampling,
        limits=limits,
        rules=Rules(steering=steering),
    )
    logits = torch.zeros(1, grammar.vocabulary.width)
    while not session.done:
        ask = session.ask()
        if ask is not None:
            assert ask.words is not None
            session.accept(draw.choice(tokens_of(ask.words)), logits, 0, (0, 0))
    return session


def check_budgets(grammar: Grammar, schema: Any, draw: random.Random, more: tuple[int, ...] = (0, 1, 5, 20)) -> None:
    """At the least budget and a little above: a valid document, never too many tokens. Below it: nothing is said."""
    close = Closing.of(grammar).shortest
    assert close is not None
    if len(close) > 1:
        with pytest.raises(sg.OptionError, match=f"known needs {len(close)} tokens: "):
            require_room(grammar, Budget(len(close) - 1, "max_new_tokens"))
    validator = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    for budget in (max(len(close), 1) + extra for extra in more):
        assert require_room(grammar, Budget(budget, "max_new_tokens"))
        session = drive(grammar, budget, draw)
        assert session.error is None, (schema, budget, session.text(), session.error)
        assert len(session.tokens) <= budget
        errors = list(validator(schema).iter_errors(json.loads(session.text())))
        assert not errors, (schema, session.text(), errors[0].message)


PIECES = cases("decoding/refusals/budget", "PIECES", globals())
HARD: list[Any] = cases("decoding/refusals/budget", "HARD", globals())


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("schema", HARD, ids=lambda schema: next(iter(schema)))
def test_tokens_over_several_values_are_of_use_at_the_least_budget(schema: Any, order: Any) -> None:
    grammar = sg.JsonSchema(schema, order=order).compile(vocabulary_of(PIECES))
    for seed in range(times(3)):
        check_budgets(grammar, schema, random.Random(seed), (0, 1, 2, 5))


def test_what_a_guard_refuses_near_the_budget_is_its_veto_and_no_cap() -> None:
    guard = sg.BannedWords(["bad"], scope="text")
    for budget in (30, 40, 200):  # far from the budget it always was
        found = run('{"name": "bad", "n": 1}', PERSON, budget, guards=[guard])
        assert "bad" not in found.text
        assert {undone.reason for undone in found.trace} == {"banned word 'bad'"}


WAYS: list[dict[str, Any]] = [*({"whitespace": layout} for layout in LAYOUTS), {"order": "any"}]


@pytest.mark.parametrize("vocabulary", [byte_vocabulary(), rich_vocabulary()], ids=["bytes", "rich"])
def test_random_models_under_random_schemas_stay_within_the_budget(vocabulary: Vocabulary) -> None:
    """In all layouts and orders."""
    checked = 0
    for seed in range(times(60)):
        draw = random.Random(seed)
        schema = random_schema(draw)
        try:
            grammar = sg.JsonSchema(schema, **draw.choice(WAYS)).compile(vocabulary)
        except ValueError:
            continue
        print(f"seed {seed}: {schema}")
        check_budgets(grammar, schema, draw)
        checked += 1
    assert checked > times(45)


def check_maskbench(data_folder: Path, stride: int, vocabulary: Vocabulary) -> int:
    """The same for every `stride`-th schema of the dev split; how many were checked."""
    checked = 0
    with lzma.open(data_folder / "maskbench-dev.jsonl.xz", "rt") as lines:
        for number, line in enumerate(islice(lines, 5, None, stride)):
            row = json.loads(line)
            if '"format"' in line and '"oneOf"' in line:
                continue  # jsonschema knows few formats, and of two that it does not know both hold
            try:
                grammar = sg.JsonSchema(row["schema"]).compile(vocabulary)
            except sg.RequestError:
                continue
            print(row["id"])
            check_budgets(grammar, row["schema"], random.Random(number))
            checked += 1
    return checked


def test_real_schemas_at_tight_budgets(data_folder: Path) -> None:
    assert check_maskbench(data_folder, 95, byte_vocabulary()) > 25


@pytest.mark.slow
def test_many_real_schemas_at_tight_budgets(data_folder: Path) -> None:
    assert check_maskbench(data_folder, 10, rich_vocabulary()) > 250


@pytest.mark.slow
def test_real_schemas_at_tight_budgets_in_llama3s_tokens(data_folder: Path, llama: tuple[Any, Vocabulary]) -> None:
    assert check_maskbench(data_folder, 60, llama[1]) > 40


def test_far_from_the_edge_nothing_but_the_position_is_looked_at() -> None:
    """The cost of a position is found once, and the answer is the slow twin's."""
    grammar = sg.JsonSchema(PERSON).compile(byte_vocabulary())
    matcher = grammar.matcher()
    steering = Steering(grammar, "max_new_tokens", 10_000)
    text = Transcript(byte_vocabulary(), matcher, Row(()), readers=[steering])
    for byte in b'{"name": "' + b"x" * 50:
        text.take(byte, None)
        assert steering.exceeded(text) is None
        close = closing_tokens(matcher)
        assert close is not None
        assert matcher.place.cost is not None
        assert len(close) <= matcher.place.cost
    costs = [place.cost for place in grammar._places.values() if place.cost is not None]
    assert len(costs) <= 11
    assert max(costs) <= 20
