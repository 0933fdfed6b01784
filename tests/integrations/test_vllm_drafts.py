"""Forced text as vLLM's speculative drafts: all of it is accepted, and the text stays what it is without drafts.

Covers `integrations.vllm.drafts`.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from structgen.demo import load_demo

pytest.importorskip("vllm.v1.structured_output.backend_types", reason="needs vLLM")

from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.outputs import DraftTokenIds
from vllm.v1.structured_output.backend_types import StructuredOutputOptions as Kind

from structgen.integrations.vllm.backend import NO_DRAFTS, VLLMBackend, VLLMGrammar
from structgen.integrations.vllm.drafts import ForcedDraftScheduler, NoDrafts
from tests.support.tables import cases

WIDTH, DRAFT = 2048, 8
SCHEMAS: list[Any] = cases("integrations/vllm_drafts", "SCHEMAS")
for schema in SCHEMAS[:1]:
    schema |= {"required": list(schema["properties"]), "additionalProperties": False}


@pytest.fixture(scope="module")
def tokenizer():
    return load_demo()[1]


def backend(tokenizer, *, drafts: bool) -> VLLMBackend:
    settings = SimpleNamespace(
        structured_outputs_config=SimpleNamespace(disable_any_whitespace=False),
        speculative_config=SimpleNamespace(method="custom_class", model=NO_DRAFTS) if drafts else None,
    )
    return VLLMBackend(settings, tokenizer, WIDTH)


def greedy(grammar: VLLMGrammar, logits: torch.Tensor, made: VLLMBackend) -> tuple[list[int], int, int]:
    """A small loop as vLLM's: a mask for each place of the draft and one more, the model's choice at each, and the
    draft up to the first that differs. Returns the tokens, the steps, and how many drafted tokens were not taken."""
    bitmask, tokens, steps, rejected = made.allocate_token_bitmask(DRAFT + 1), [], 0, 0
    while not grammar.is_terminated():
        draft, chosen = grammar.validate_tokens(grammar.forced(DRAFT)), []
        for place, token in enumerate([*draft, None]):
            grammar.fill_bitmask(bitmask, place)
            allowed = torch.from_numpy(np.unpackbits(bitmask[place].numpy().view(np.uint8), bitorder="little")[:WIDTH])
            chosen.append(int(logits[len(tokens) + place].masked_fill(allowed == 0, -torch.inf).argmax()))
            if token is not None:
                assert grammar.accept_tokens("r", [token])
        grammar.rollback(len(draft))
        taken = next((i for i, token in enumerate(draft) if chosen[i] != token), len(draft))
        rejected, steps = rejected + len(draft) - taken, steps + 1
        tokens += chosen[: taken + 1]
        assert grammar.accept_tokens("r", chosen[: taken + 1])
    return tokens, steps, rejected


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: str(schema)[:40])
def test_every_forced_token_is_accepted(tokenizer, schema):
    with_drafts, ends = backend(tokenizer, drafts=True), {tokenizer.eos_token_id}
    logits = torch.randn(400, WIDTH, generator=torch.Generator().manual_seed(2))
    grammar = with_drafts.compile_grammar(Kind.JSON, json.dumps(schema), ends)
    tokens, steps, rejected = greedy(grammar, logits, with_drafts)
    assert rejected == 0
    assert steps < len(tokens) / 2
    text = tokenizer.decode(tokens[:-1])
    assert tokenizer.encode(text, add_special_tokens=False)[:3] == tokens[:3]  # the tokenizer's own tokens
    json.loads(text)
    grammar.reset()
    assert grammar.forced(DRAFT) == tokens[: len(grammar.forced(DRAFT))] != []


def test_without_the_proposer_nothing_is_forced(tokenizer):
    grammar = backend(tokenizer, drafts=False).compile_grammar(Kind.JSON, json.dumps(SCHEMAS[0]), ())
    assert grammar.forced(DRAFT) == []


def test_the_scheduler_puts_in_the_forced_tokens(tokenizer, monkeypatch):
    """vLLM's own `update_draft_token_ids` gets them; a request without a constraint keeps what the proposer said."""
    grammar = backend(tokenizer, drafts=True).compile_grammar(Kind.JSON, json.dumps(SCHEMAS[0]), ())
    scheduler = ForcedDraftScheduler.__new__(ForcedDraftScheduler)
    scheduler.num_spec_tokens = 3
    scheduler.requests = {
        "a": SimpleNamespace(structured_output_request=SimpleNamespace(grammar=grammar)),
        "b": SimpleNamespace(structured_output_request=None),
    }
    given = []
    monkeypatch.setattr(Scheduler, "update_draft_token_ids", lambda self, drafts: given.append(drafts))
    proposed = NoDrafts(None).propose([[5], [6], [7]])
    scheduler.update_draft_token_ids(DraftTokenIds(["a", "b", "gone"], [proposed[0], [9], proposed[2]]))
    assert given[0].req_ids == ["a", "b", "gone"]
    assert given[0].draft_token_ids == [grammar.forced(3), [9], []]
    assert len(grammar.forced(3)) == 3
