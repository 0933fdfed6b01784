"""The grammar backend, against the real classes of SGLang; its plugin, by SGLang's own loader."""

from __future__ import annotations

import json
import re
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import structgen as sg
from structgen.demo import load_demo

pytest.importorskip("sglang.srt.constrained.base_grammar_backend", reason="needs SGLang")

from sglang.srt.arg_groups.choices import GRAMMAR_BACKEND_CHOICES
from sglang.srt.constrained.base_grammar_backend import (
    GRAMMAR_BACKEND_REGISTRY,
    BaseGrammarObject,
    GrammarRow,
    InvalidGrammarObject,
)

from structgen.integrations.sglang import register
from tests.support.tables import cases

WIDTH = 2100  # more columns than tokens
SCHEMA = {"type": "object", "properties": {"city": {"enum": ["Lyon", "Oslo"]}}, "required": ["city"]}
SCHEMA["additionalProperties"] = False


@pytest.fixture(scope="module")
def tokenizer():
    return load_demo()[1]


@pytest.fixture(scope="module")
def backend(tokenizer):
    register()
    register()  # each process does, and some twice
    assert GRAMMAR_BACKEND_CHOICES.count("structgen") == 1
    settings = SimpleNamespace(constrained_json_disable_any_whitespace=False)
    return GRAMMAR_BACKEND_REGISTRY["structgen"](settings, tokenizer, WIDTH, {tokenizer.eos_token_id})


def compiled(backend, kind: str, text: str) -> BaseGrammarObject:
    """As the scheduler gets it: from the pool, then by `copy`."""
    value, known = backend.get_cached_or_future_value((kind, text), require_reasoning=False)
    if not known:
        backend.set_cache((kind, text), value.result())
        value, known = backend.get_cached_or_future_value((kind, text), require_reasoning=False)
    assert known
    return value


def greedy(grammar: BaseGrammarObject, logits: torch.Tensor, tokenizer) -> str:
    """What a server's loop says of logits that are always the same."""
    tokens: list[int] = []
    while not grammar.is_terminated():
        mask = grammar.allocate_vocab_mask(WIDTH, 3, "cpu")
        grammar.fill_vocab_mask_batched([GrammarRow(1, grammar)], mask)
        batch = torch.stack([logits] * 3)
        grammar.apply_vocab_mask(batch, grammar.move_vocab_mask(mask, "cpu"))
        assert torch.equal(batch[0], logits)  # a row that nothing constrains
        tokens.append(int(batch[1].argmax()))
        grammar.accept_token(tokens[-1])
    return tokenizer.decode(tokens[:-1])


LOGITS = torch.randn(WIDTH, generator=torch.Generator().manual_seed(4))


def test_requests_of_every_kind_say_what_is_valid(backend, tokenizer):
    text = greedy(compiled(backend, "json", json.dumps(SCHEMA)), LOGITS, tokenizer)
    assert json.loads(text)["city"] in ("Lyon", "Oslo")
    assert greedy(compiled(backend, "regex", "[a-c]{4}x"), LOGITS, tokenizer)[4] == "x"
    assert greedy(compiled(backend, "ebnf", 'start: "ab" "c"'), LOGITS, tokenizer) == "abc"


TOOLS = {
    "triggers": ["<call:"],
    "structures": [{"begin": "<call:go>", "schema": SCHEMA, "end": "</call>"}],
    "type": "structural_tag",
}


def test_a_structural_tag_leaves_text_free_and_calls_valid(backend, tokenizer):
    walk = compiled(backend, "structural_tag", json.dumps(TOOLS))
    text = 'Let me see. <call:go>{"city": "Lyon"}</call> Done.'
    for token in tokenizer.encode(text, add_special_tokens=False):
        walk.accept_token(token)
    walk = compiled(backend, "structural_tag", json.dumps(TOOLS))
    for token in tokenizer.encode('<call:go>{"city": "', add_special_tokens=False):
        walk.accept_token(token)
    with pytest.raises(ValueError, match="not allowed by the grammar"):
        walk.accept_token(tokenizer.encode("R", add_special_tokens=False)[-1])


@pytest.mark.parametrize("kind", ["json", "structural_tag"])
def test_thinking_is_free_and_the_answer_after_it_is_not(backend, tokenizer, kind):
    """With `--reasoning-parser`; SGLang's own wrapper, and drafts across the end of the thinking."""
    settings = SimpleNamespace(constrained_json_disable_any_whitespace=False, reasoning_parser="qwen3")
    made = GRAMMAR_BACKEND_REGISTRY["structgen"](settings, tokenizer, WIDTH, {tokenizer.eos_token_id})
    value = json.dumps(SCHEMA if kind == "json" else {"format": {"type": "json_schema", "json_schema": SCHEMA}})
    future, _ = made.get_cached_or_future_value((kind, value), require_reasoning=True)
    walk = future.result().copy()
    walk.maybe_init_reasoning(True)
    for token in tokenizer.encode("Which city? Rome </think>", add_special_tokens=False):
        mask = walk.allocate_vocab_mask(WIDTH, 1, "cpu")
        walk.fill_vocab_mask(mask, 0)
        assert (mask == -1).all()  # the thinking is free
        walk.accept_token(token)
    walk.fill_vocab_mask(mask, 0)
    answer = tokenizer.encode('{"city": "Oslo"}', add_special_tokens=False)
    assert int(mask[0, answer[0] // 32]) >> answer[0] % 32 & 1
    assert not (mask == -1).all()
    for token in [*answer, tokenizer.eos_token_id]:
        walk.accept_token(token)
    assert walk.is_terminated()
    walk.rollback(3)
    assert not walk.is_terminated()
    logits = torch.zeros(1, WIDTH)
    walk.apply_vocab_mask(logits, walk.move_vocab_mask(mask, "cpu"))
    assert torch.isinf(logits).sum() > WIDTH // 2


def test_any_json_is_json(backend):
    walk = compiled(backend, "json", "$$ANY$$")
    mask = walk.allocate_vocab_mask(WIDTH, 1, "cpu")
    walk.fill_vocab_mask(mask, 0)
    vocabulary = sg.Vocabulary.from_tokenizer(load_demo()[1], width=WIDTH)
    expected = sg.JsonSchema(True).compile(vocabulary).matcher().mask()
    assert np.array_equal(mask[0].numpy().view(np.uint32), expected)


def test_drafts_are_taken_back(backend, tokenizer):
    walk = compiled(backend, "json", json.dumps(SCHEMA))
    before, after = (walk.allocate_vocab_mask(WIDTH, 1, "cpu") for _ in range(2))
    walk.fill_vocab_mask(before, 0)
    drafts = tokenizer.encode('{"city": "Oslo"}', add_special_tokens=False)
    for token in [*drafts, tokenizer.eos_token_id]:
        walk.accept_token(token)
    assert walk.is_terminated()
    walk.rollback(len(drafts) + 1)
    assert not walk.is_terminated()
    walk.fill_vocab_mask(after, 0)
    assert torch.equal(before, after)


def test_requests_do_not_share_where_they_stand(backend, tokenizer):
    one, other = (compiled(backend, "regex", "ab") for _ in range(2))
    one.accept_token(tokenizer.encode("a", add_special_tokens=False)[-1])
    assert greedy(other, LOGITS, tokenizer) == "ab"


def test_a_wrong_token_is_the_error_that_sglang_expects(backend):
    with pytest.raises(ValueError, match="not allowed by the grammar"):
        compiled(backend, "regex", "ab").accept_token(load_demo()[1].encode("z", add_special_tokens=False)[-1])


@pytest.mark.parametrize(("kind", "text", "message"), cases("integrations/sglang", "what_cannot_work_is"))
def test_what_cannot_work_is_an_invalid_grammar_that_says_why(backend, kind, text, message):
    future, _ = backend.get_cached_or_future_value((kind, text), require_reasoning=False)
    grammar = future.result()
    assert isinstance(grammar, InvalidGrammarObject)
    assert grammar.error_message
    assert re.search(message, grammar.error_message), grammar.error_message


def test_a_request_that_cannot_go_on_ends_with_an_error():
    vocabulary = sg.Vocabulary.from_tokens([b"a", None], end_ids=[1])
    from structgen.integrations.sglang import SGLangGrammar

    walk = SGLangGrammar(sg.Regex("ab").compile(vocabulary).matcher())
    walk.accept_token(0)
    mask = walk.allocate_vocab_mask(2, 1, "cpu")
    walk.fill_vocab_mask(mask, 0)
    assert mask[0].item() == 0b10
    with pytest.raises(ValueError, match="the text is not complete"):
        walk.accept_token(1)


def test_the_plugin_is_an_entry_point():
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no TOML reader")
    project = tomllib.loads((Path(sg.__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    value = project["entry-points"]["sglang.srt.plugins"]["structgen"]
    assert EntryPoint("structgen", value, "sglang.srt.plugins").load() is register


def test_canonical_masks_by_the_environment(backend, tokenizer, monkeypatch):
    monkeypatch.setenv("STRUCTGEN_CANONICAL", "prefer")
    settings = SimpleNamespace(constrained_json_disable_any_whitespace=False)
    made = GRAMMAR_BACKEND_REGISTRY["structgen"](settings, tokenizer, WIDTH, {tokenizer.eos_token_id})
    vocabulary = sg.Vocabulary.from_tokenizer(tokenizer, width=WIDTH, end_ids=[tokenizer.eos_token_id])
    walk, expected = compiled(made, "json", json.dumps(SCHEMA)), sg.JsonSchema(SCHEMA).compile(vocabulary)
    matcher = sg.CanonicalMatcher(expected)
    for token in tokenizer.encode('{"city": "Oslo"}', add_special_tokens=False):
        mask = walk.allocate_vocab_mask(WIDTH, 1, "cpu")
        walk.fill_vocab_mask(mask, 0)
        assert np.array_equal(mask[0].numpy().view(np.uint32), matcher.mask())
        walk.accept_token(token)
        matcher.advance(token)
    monkeypatch.setenv("STRUCTGEN_CANONICAL", "always")
    made = GRAMMAR_BACKEND_REGISTRY["structgen"](settings, tokenizer, WIDTH, {tokenizer.eos_token_id})
    future, _ = made.get_cached_or_future_value(("regex", "a"), require_reasoning=False)
    assert "canonical" in future.result().error_message
