"""What a stuck model says without end is closed at a cap, what the schema asks for is not, and the text goes on."""

from __future__ import annotations

import json
import random
import re
import warnings
from typing import Annotated, Any

import jsonschema
import pytest
from pydantic import AfterValidator, BaseModel

import structgen as sg
from structgen.constraints.basic import JsonSchema
from structgen.decoding.refusals.caps import STRING, CapReader
from structgen.decoding.refusals.transcript import Transcript
from structgen.decoding.session import Session
from structgen.models.row import Row
from structgen.testing import scripted
from structgen.vocabulary import Vocabulary
from tests.decoding.refusals.test_budget import drive
from tests.support.calling_models import scripted_chat
from tests.support.matching import byte_vocabulary, rich_vocabulary
from tests.support.tables import cases
from tests.support.thinning import diagonal, times

PERSON = cases("decoding/refusals/caps", "PERSON")
LAYOUTS = [sg.Whitespace.SPACED, sg.Whitespace.FLEXIBLE, sg.Whitespace.INDENTED(2)]


def run(text: str, schema: Any = PERSON, **options: Any) -> Any:
    """A scripted model's generation with these caps."""
    caps = {"max_new_tokens": 400} | {name: options.pop(name) for name in [*options] if name.startswith("max_")}
    return sg.generate(scripted(text), "x", schema=schema, limits=sg.Limits(**caps), details=True, **options)


@pytest.mark.parametrize(("fast_forward", "whitespace"), diagonal([True, False], LAYOUTS))
@pytest.mark.parametrize(
    ("text", "caps", "pointer", "wanted"),
    cases("decoding/refusals/caps", "a_value_is_closed", globals()),
    ids=lambda value: next(iter(value)) if isinstance(value, dict) and len(value) == 1 else None,
)
def test_a_value_is_closed_at_its_cap_and_the_text_goes_on(
    text: str, caps: dict[str, int], pointer: str, wanted: Any, whitespace: sg.Whitespace, fast_forward: bool
) -> None:
    if whitespace.kind == "indented":
        text = text.replace('", "', '",\n  "').replace('{"', '{\n  "', 1)
        text = text.replace("[", "[\n    ").replace(", ", ",\n    ")
    found = run(text, max_new_tokens=800, whitespace=whitespace, fast_forward=fast_forward, **caps)
    (name, limit) = next(iter(caps.items()))
    assert found.finish == "capped"
    jsonschema.validate(found.value, PERSON)
    if whitespace.kind != "indented" or pointer != "/tags":  # a script that stops at a blank goes no further
        assert found.caps[0] == sg.Cap(name, pointer, limit)
        assert {key: found.value[key] for key in wanted} == wanted


@pytest.mark.parametrize(
    ("schema", "text", "caps"), cases("decoding/refusals/caps", "what_the_schema_asks_for_wins", globals())
)
@pytest.mark.parametrize("fast_forward", [True, False])
def test_what_the_schema_asks_for_wins(schema: Any, text: str, caps: dict[str, int], fast_forward: bool) -> None:
    found = run(text, schema, fast_forward=fast_forward, **caps)
    assert found.text == text
    assert found.caps == ()


@pytest.mark.parametrize("text", ['{"n": 1}' + "\n " * 200, " " * 400, "\t" * 9 + '{"n": 1}' + "\t" * 9])
def test_white_space_around_a_flexible_value_ends(text: str) -> None:
    """A model that says nothing but blanks before the value, or behind it, comes to the layout's bound."""
    schema = {"type": "object", "properties": {"n": {"enum": [1]}}, "required": ["n"], "additionalProperties": False}
    result = run(text, JsonSchema(schema, whitespace=sg.Whitespace.FLEXIBLE))
    assert result.value == {"n": 1}
    assert result.finish in ("end", "complete")
    assert [len(blank) for blank in re.split(r"\S+(?:.*\S)?", result.text, flags=re.DOTALL)] == [
        min(20, len(text) - len(text.lstrip())),
        min(20, len(text) - len(text.rstrip())),
    ]


def test_what_comes_after_a_cut_is_marked() -> None:
    """A count behind a list that a cap has ended; and a strict call says so instead of a value."""
    schema = {"properties": {"rows": {"type": "array"}, "about": {"const": {"of": 1}}, "n": {"type": "integer"}}}
    schema |= {"required": ["rows", "about", "n"], "additionalProperties": False}
    text = json.dumps({"rows": [*range(23)], "about": {"of": 1}, "n": 23})
    cut = run(text, schema, max_items=5)
    assert (cut.value["rows"], cut.finish, cut.after_cuts) == ([*range(5)], "capped", ("/about/of", "/n"))
    whole = run(text, schema)
    assert (whole.value["n"], whole.finish, whole.after_cuts) == (23, "complete", ())
    with pytest.raises(sg.errors.BudgetExhausted, match="max_items=5 cuts the value short") as told:
        sg.generate(scripted(text), "x", schema, limits=sg.Limits(strict=True, max_items=5))
    assert told.value.text.startswith('{"rows": [0, 1, 2, 3, 4')


def test_a_cap_holds_as_soon_as_the_schema_lets_it() -> None:
    found = run('"' + "x" * 99, {"type": "string", "minLength": 30}, max_characters=7)
    assert found.text == '"' + "x" * 30 + '"'
    assert found.caps == (sg.Cap("max_characters", "", 7),)


def test_the_defaults_let_long_values_be() -> None:
    """And None lets all be."""
    value = {"name": "x" * 90 + " " * 90, "tags": [0] * 40, "n": 10**15 + 0.25}
    text = json.dumps(value)
    assert run(text).caps == ()
    assert run(text).value == value
    endless = run('{"name": "a", "n": ' + "1" * 399, max_digits=None)
    assert endless.finish == "closed_by_budget"
    with pytest.raises(sg.OptionError, match="max_items=0"):
        sg.Limits(max_items=0)


def test_text_that_is_no_json_has_no_caps() -> None:
    assert run("1" * 50, sg.Regex("[0-9]{50}"), max_digits=5).text == "1" * 50


def test_caps_and_the_budget_hold_together() -> None:
    schema = {**PERSON, "required": ["name", "tags", "n"]}
    for budget in range(46, 60, 3):
        limits = sg.Limits(budget, max_characters=9, max_items=3)
        text = '{"name": "' + "x" * 50
        found = sg.generate(scripted(text), "x", schema=schema, limits=limits, details=True)
        jsonschema.validate(found.value, schema)
        assert len(found.token_ids) <= budget
        assert found.caps[0] == sg.Cap("max_characters", "/name", 9)


def test_strict_limits_end_at_a_cap() -> None:
    limits = sg.Limits(60, strict=True, max_characters=9, max_digits=4)
    with pytest.raises(sg.errors.BudgetExhausted, match="max_characters=9 cuts the value short"):
        sg.generate(scripted('{"name": "' + "x" * 99), "x", schema=PERSON, limits=limits)


@pytest.mark.parametrize("seed", range(30))
def test_the_text_is_read_alike_in_any_pieces_and_behind_any_rollback(seed: int) -> None:
    """The slow twin: each prefix read anew, from its first byte."""
    draw = random.Random(seed)
    value = {"a b": ['x\\"y' * 3, ["é  \n\n\n", 1.5e-7, None], [[], [], []]], "c": [1, 1, 1, 1, {"d": True}]}
    value["long"] = ["x" * 30, 10**20, "  \n" * 7, [0] * 20, [*range(20)], [[[1] * 9] * 16] * 3]  # type: ignore[assignment]
    text = json.dumps(value, indent=draw.choice([None, 1])).encode()
    most = draw.choice([1, 3, 12])
    limits = sg.Limits(
        max_digits=2 + most,
        max_blanks=2 + most,
        max_repeated=most + most,
        max_items=3 + most,
        max_characters=4 + most,
    )
    pieces = sorted({text[at : at + size] for at in range(len(text)) for size in range(1, 5)})
    vocabulary, reader = Vocabulary.from_tokens([*pieces, None], [len(pieces)]), CapReader(limits)
    said = Transcript(vocabulary, None, Row(()), readers=[reader])
    for _ in range(300):
        if said.tokens and draw.random() < 0.3:
            said.cut(draw.randrange(len(said.tokens)))
        before = len(said.said)
        said.take(pieces.index(text[before : before + draw.randint(1, 4)] or text[-1:]), None)
        known = reader.after(reader.start(()), said.said[:before])[0] if before else reader.start(())
        state, wanted = reader.after(known, said.said)
        found = reader.read(said)
        assert (None if found is None else found.name) == wanted.name, (said.said[:before], said.said[before:])
        assert reader.in_string(said) == (state.kind == STRING)


def test_random_models_stay_below_every_cap() -> None:
    """With any tokens; and the text is a document of the schema."""
    schema = {
        "type": "object",
        "additionalProperties": {"type": "array", "items": {"type": ["string", "integer", "array"]}},
        "minProperties": 1,
    }
    caps = {"max_digits": 3, "max_items": 3, "max_characters": 6, "max_blanks": 2, "max_repeated": 3}
    for vocabulary in byte_vocabulary(), rich_vocabulary():
        grammar = JsonSchema(schema).compile(vocabulary)
        capped = 0
        for seed in range(times(40)):
            session: Session = drive(grammar, 120, random.Random(seed), CapReader(sg.Limits(**caps)))
            assert session.error is None, session.error
            jsonschema.validate(json.loads(session.text()), schema)
            capped += any(cap.name != "max_new_tokens" for cap in session.caps(is_json=True))
        assert capped > times(10)


def test_caps_hold_where_a_validator_sends_the_row_back() -> None:
    """Each way back that is left comes before a cap is let go."""
    seen: list[int] = []

    def refuse(n: int) -> int:
        seen.append(n)
        raise ValueError("never")

    class Refused(BaseModel):
        n: Annotated[int, AfterValidator(refuse)]

    limits = sg.Limits(60, max_digits=3, validations=200)
    with pytest.raises(sg.ValidationFailed):
        sg.generate(scripted('{"n": 12'), "x", schema=Refused, limits=limits, sampling=sg.Sampling(seed=0))
    assert len(set(seen)) > 190
    assert max(len(str(abs(n))) for n in seen) == 3


DIGITS, BLANKS = "1" * 300, " " * 300


@sg.tool
def pick(n: int = 0, s: str = "", many: list[int] = []) -> int:  # noqa: B006 - the schema's default
    """Picks."""
    return n


def capped_call(template: str, said: str) -> sg.Reply[Any]:
    model = scripted_chat(template, said)
    options: dict[str, Any] = {"choice": "required", "limits": sg.Limits(900), "details": True}
    return sg.call(model, "x", [pick], **options)


def test_caps_hold_wherever_a_value_stands() -> None:
    """Alone, in a composition, in a call, in a call key by key; free text and a pattern have none."""
    hermes = '<tool_call>\n{"name": "pick", "arguments": {%s}}\n</tool_call>'
    xml = "\n<function=pick>\n<parameter=%s>\n%s\n</parameter>\n</function>\n"
    integer, text = sg.JsonSchema(int), sg.JsonSchema(str)
    alone = run(DIGITS, int).text
    assert len(alone) == 20
    assert run(DIGITS + "!", sg.Sequence("", integer, "!")).text == alone + "!"
    assert run("n: " + DIGITS + "!", sg.Sequence(sg.Text(until=": "), integer, "!")).text == f"n: {alone}!"
    assert run('"' + BLANKS + '"!', sg.Sequence("", text, "!")).text == '"' + BLANKS[:128] + '"!'
    same = run("[" + "7, " * 200 + "!", sg.Sequence("", sg.JsonSchema(list[int]), "!"), max_repeated=40)
    assert json.loads(same.text[:-1])[:20] == [7] * 20
    assert [cap.name for cap in same.caps][:1] == ["max_repeated"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.BudgetWarning)
        for template, form in (("hermes", hermes), ("xml", xml)):
            number, blank = (
                (('"n": ' + DIGITS,), ('"s": "' + BLANKS,)) if form is hermes else (("n", DIGITS), ("s", BLANKS))
            )
            assert [call.cut for call in capped_call(template, form % number).calls] == ["max_digits=20"]
            assert [call.cut for call in capped_call(template, form % blank).calls] == ["max_blanks=128"]
    assert run(DIGITS + "!", sg.Sequence(sg.Regex(r"\d{250,}"), "!")).text == DIGITS + "!"
    assert run(DIGITS + BLANKS, sg.Sequence(sg.Text(), integer), max_blanks=9).text.startswith(DIGITS)


def test_caps_of_a_composition_go_back_with_the_row() -> None:
    """A value that a guard takes back is capped again; one behind it has caps of its own."""
    twice = sg.Sequence(sg.JsonSchema(int), ", ", sg.JsonSchema(int), ";")
    text = run(DIGITS + ", " + DIGITS + ";", twice, guards=[sg.BannedWords(["9"])], max_digits=20).text
    assert text == "1" * 20 + ", " + "1" * 20 + ";"
    seeded = [
        sg.generate(scripted("8" * 5 + ", " + "7" * 40 + ";"), "x", schema=twice, details=True, beams=beams,
                    limits=sg.Limits(120, max_digits=5), banned=["888888"])
        for beams in (1, 2)
    ]  # fmt: skip
    assert {each.text for each in seeded} == {"88888, 77777;"}
