"""Dead ends: a vocabulary that cannot spell what the grammar wants, so that only going back helps."""

from __future__ import annotations

import json
from typing import Annotated

import jsonschema
import pytest
import torch
from pydantic import AfterValidator
from transformers import LlamaConfig, LlamaForCausalLM, MambaConfig, MambaForCausalLM

import structgen as sg
from structgen.constraints.basic import JsonSchema, Regex
from structgen.decoding.ahead.forced import Spans
from structgen.decoding.engine import decode
from structgen.decoding.prompts.prompt import Prompt
from structgen.decoding.session import Session
from structgen.errors import DeadEnd
from structgen.options import Limits, Sampling
from structgen.testing import ByteTokenizer, ScriptedModel, byte_vocabulary, scripted
from structgen.vocabulary import Vocabulary
from tests.support.tables import cases
from tests.support.thinning import as_slow

WITHOUT_Z = Vocabulary.from_tokens(
    [None if byte == ord("z") else bytes([byte]) for byte in range(256)] + [None], end_ids=[256], width=257
)


def run(module, pattern, prompts=(b"x",), *, forward=True, limits=Limits(200), vocabulary=WITHOUT_Z, **options):  # noqa: B008
    grammar = (Regex(pattern) if isinstance(pattern, str) else pattern).compile(vocabulary)
    spans = Spans(vocabulary, ByteTokenizer()) if forward else None
    ways = options.get("sampling", [Sampling()] * len(prompts))
    sessions = [
        Session(Prompt(list(prompt)), vocabulary, matcher=grammar.matcher(), sampling=way, limits=limits, spans=spans)
        for prompt, way in zip(prompts, ways, strict=True)
    ]
    decode(module, vocabulary, sessions, rows=options.get("rows", 64))
    return sessions


@pytest.mark.parametrize("forward", [True, False], ids=["fast-forward", "stepping"])
@pytest.mark.parametrize(("pattern", "wanted", "text"), cases("decoding/refusals/row_refusals", "a_dead_end_is"))
def test_a_dead_end_is_left_by_the_nearest_way_that_is_left(pattern, wanted, text, forward):
    (session,) = run(ScriptedModel(wanted, WITHOUT_Z), pattern, forward=forward)
    assert (session.text(), session.error) == (text, None)
    assert session.rollbacks >= 1


def test_going_back_one_token_costs_no_forward_of_its_own():
    """The token is chosen again from logits that are there: only the one useless forward is spent."""
    straight = run_counting("bc", "bc")
    detour = run_counting("az|bc", "az")
    assert detour == straight + 1


def run_counting(pattern: str, wanted: str) -> int:
    grammar = Regex(pattern).compile(WITHOUT_Z)
    session = Session(Prompt([1]), WITHOUT_Z, matcher=grammar.matcher(), sampling=Sampling(), limits=Limits())
    return decode(ScriptedModel(wanted, WITHOUT_Z), WITHOUT_Z, [session]).stats(0).forwards


@pytest.mark.parametrize("pattern", ["az", "a(b|c)z", "z"])
def test_where_every_way_is_dead_the_error_says_so(pattern):
    (session,) = run(ScriptedModel("abz", WITHOUT_Z), pattern)
    assert isinstance(session.error, DeadEnd)
    assert session.finish == "error"


def test_a_spent_budget_of_rollbacks_is_a_dead_end_that_names_the_limit():
    """Twelve dead ends with a budget of eleven fail, with one of twelve they do not."""
    model, pattern = ScriptedModel("a" * 12, WITHOUT_Z), "(az|b){12}"
    (enough,) = run(model, pattern, limits=Limits(rollbacks=12))
    assert (enough.text(), enough.rollbacks) == ("b" * 12, 12)
    (less,) = run(model, pattern, limits=Limits(rollbacks=11))
    assert isinstance(less.error, DeadEnd)
    assert "rollbacks=11" in str(less.error)
    assert "after b'" in str(less.error)


def llama() -> LlamaForCausalLM:
    torch.manual_seed(2)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    return sharpened(LlamaForCausalLM(LlamaConfig(vocab_size=257, max_position_embeddings=256, **sizes)))


def mamba() -> MambaForCausalLM:
    torch.manual_seed(2)
    config = MambaConfig(vocab_size=257, hidden_size=32, num_hidden_layers=2, state_size=8)
    return sharpened(MambaForCausalLM(config))


def sharpened(module):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(3.0) if parameter.dim() > 1 else None
    return module.eval()


PATTERN = "([a-c]xyz|[d-fg-k][0-9]{1,3};){8}[.]"


@pytest.mark.parametrize(
    ("make", "n", "forward"),
    [(llama, 18, True), (mamba, 5, False), *map(as_slow, [(llama, 18, False), (llama, 64, True)])],
)
def test_a_batch_with_rollbacks_in_half_its_rows_says_what_each_row_says_alone(make, n, forward):
    """Greedy and sampled rows, few places for many prompts: row by row the text of the row alone."""
    module = make()
    prompts = [bytes([40 + i]) * (1 + i % 7) for i in range(n)]
    ways = [Sampling() if i % 2 else Sampling(temperature=0.8, seed=i) for i in range(n)]
    together = run(module, PATTERN, prompts, forward=forward, sampling=ways, rows=max(4, n // 4))
    assert all(session.error is None for session in together)
    assert sum(session.rollbacks > 0 for session in together) >= n // 2
    for i in range(0, n, 5):
        (alone,) = run(module, PATTERN, prompts[i : i + 1], forward=forward, sampling=ways[i : i + 1])
        assert alone.text() == together[i].text()
        assert alone.rollbacks == together[i].rollbacks


def test_unique_items_are_kept_unique_by_whatever_it_takes():
    """A model that wants the same letter again and again fills the array with others."""
    schema = {"type": "array", "items": {"type": "string", "pattern": "^[a-h]{1,2}$"}}
    schema |= {"uniqueItems": True, "minItems": 6, "maxItems": 6}
    model = ScriptedModel('["a", "a", "a", "a", "a", "a"]', byte_vocabulary())
    (session,) = run(model, JsonSchema(schema), vocabulary=byte_vocabulary())
    assert session.error is None
    assert len(set(json.loads(session.text()))) == 6


PAIR = {"type": "array", "prefixItems": [{"enum": ["a", "b"]}, {"enum": ["x", "y"]}], "minItems": 2, "items": False}
STUBBORN = cases("decoding/refusals/row_refusals", "STUBBORN", globals())


@pytest.mark.parametrize("name", STUBBORN)
@pytest.mark.parametrize("way", [Sampling(), Sampling(temperature=1.0, seed=1)], ids=["greedy", "sampled"])
def test_a_stubborn_model_says_what_is_valid_and_the_trace_says_why_it_went_back(name, way):
    """Keywords that are told late go through the policy of guards: what was taken back has its rule beside it."""
    schema, wanted, rule = STUBBORN[name]
    schema = {"type": "array", "minItems": 3, "maxItems": 3, **schema}
    model = ScriptedModel(wanted, byte_vocabulary())
    (session,) = run(model, JsonSchema(schema), vocabulary=byte_vocabulary(), sampling=[way])
    assert session.error is None
    jsonschema.validate(json.loads(session.text()), schema)
    assert all(rule in undone.reason for undone in session.undone)


def test_a_dead_end_of_unique_items_is_left_and_named():
    """Without escapes an item that was said is a dead end before its closing quote: the trace names the rule."""
    absent = (ord("z"), ord("\\"))
    tokens = [None if byte in absent else bytes([byte]) for byte in range(256)] + [None]
    vocabulary = Vocabulary.from_tokens(tokens, end_ids=[256], width=257)
    schema = {"type": "array", "items": {"type": "string", "pattern": "^[a-i]{2}$"}, "uniqueItems": True}
    schema |= {"minItems": 3, "maxItems": 3}
    (session,) = run(ScriptedModel('["ab", "ab", "ab"]', vocabulary), JsonSchema(schema), vocabulary=vocabulary)
    assert session.error is None
    jsonschema.validate(json.loads(session.text()), schema)
    assert session.undone
    assert all("uniqueItems" in undone.reason for undone in session.undone)


def no_bad(text: str) -> str:
    if "bad" in text:
        raise ValueError("no bad word")
    return text


Kept = Annotated[str, AfterValidator(no_bad)]
REFUSED = cases("decoding/refusals/row_refusals", "REFUSED", globals())


@pytest.mark.parametrize("spent", [0, 2])
@pytest.mark.parametrize("case", REFUSED)
def test_a_failed_row_has_the_text_that_was_accepted(case, spent):
    """Not the refused one: neither its text nor its tokens, in a batch whose other rows go on."""
    schema, wanted, options, accepted = REFUSED[case]
    limits = sg.Limits(60, rollbacks=spent, validations=spent)
    model = scripted([wanted, "ok"])
    failed, other = sg.generate(model, ["x", "y"], [schema, sg.Choice(["ok"])], limits=limits, details=True, **options)
    assert isinstance(failed.error, (DeadEnd, sg.ValidationFailed))
    assert failed.text == accepted
    assert bytes(failed.token_ids).decode() == accepted
    assert (other.text, other.error) == ("ok", None)
