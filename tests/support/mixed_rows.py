"""Rows of every kind, to be decoded in several ways that must say the same."""

from __future__ import annotations

import random
from dataclasses import replace

import torch
from pydantic import BaseModel, Field, field_validator
from transformers import LlamaConfig, LlamaForCausalLM

import structgen as sg
from structgen.constraints.basic import Regex
from structgen.decoding.ahead.forced import Spans
from structgen.decoding.engine import decode
from structgen.decoding.loop import Execution
from structgen.decoding.prompts.prompt import Prompt
from structgen.decoding.refusals.guarding import Guarding
from structgen.decoding.refusals.rules import Rules
from structgen.decoding.request import CallOptions, prepare
from structgen.decoding.session import Session
from structgen.decoding.ticket import Ticket
from structgen.given_prompts import GivenPrompts
from structgen.guards import BannedPattern
from structgen.testing import ByteTokenizer, byte_vocabulary
from structgen.vocabulary import Vocabulary
from tests.support.judges import seven
from tests.support.tables import cases

SIZES = {"hidden_size": 32, "num_hidden_layers": 2}
WITHOUT_Z = Vocabulary.from_tokens(
    [None if byte == ord("z") else bytes([byte]) for byte in range(256)] + [None], end_ids=[256], width=257
)
PATTERNS = cases("support/mixed_rows", "PATTERNS")
WAYS = [
    sg.Sampling(),
    sg.Sampling(temperature=1.0, seed=5),
    sg.Sampling(temperature=0.8, top_p=0.9, seed=6),
    sg.Sampling(temperature=1.5, typical_p=0.7, seed=7),
    sg.Sampling(repetition_penalty=1.4, frequency_penalty=0.2),
]


def llama() -> LlamaForCausalLM:
    torch.manual_seed(7)
    config = LlamaConfig(vocab_size=257, intermediate_size=64, num_attention_heads=4, **SIZES)
    module = LlamaForCausalLM(config).eval()
    with torch.no_grad():  # logits far enough apart that rounding decides no token
        for parameter in module.parameters():
            parameter.mul_(3.0) if parameter.dim() > 1 else None
    return module


def sessions(seed: int, count: int = 12) -> list[Session]:
    """Rows of every kind: forced text, dead ends, guards, plain text, small budgets, all ways of sampling."""
    rng, vocabulary = random.Random(seed), WITHOUT_Z
    made = []
    for _ in range(count):
        pattern, budget = rng.choice(PATTERNS), rng.choice([7, 30, 60])
        matcher = None if pattern is None else Regex(pattern).compile(vocabulary).matcher()
        guards = Guarding([BannedPattern("[aeiou][^aeiou]")], vocabulary) if rng.random() < 0.3 else None
        made.append(
            Session(
                Prompt([rng.randrange(256) for _ in range(rng.choice([1, 4, 20]))]), vocabulary, matcher=matcher,
                sampling=rng.choice(WAYS), limits=sg.Limits(budget, rollbacks=rng.choice([2, 50])),
                rules=Rules(guards),
                spans=Spans(vocabulary, ByteTokenizer()) if rng.random() < 0.5 else None,
            )
        )  # fmt: skip
    return made


def outcome(session: Session, batch: Ticket) -> tuple:
    said = [(u.tokens, u.text) for u in session.undone]
    chosen = [c if c is None else (round(c.logprob, 3), round(c.removed, 3)) for c in session.choices(batch.ledger)]
    error = type(session.error), str(session.error)
    return session.tokens, session.finish, error, session.costs()["fast_forwarded"], session.rollbacks, said, chosen


class Person(BaseModel):
    name: str = Field(max_length=6)
    age: int = Field(ge=0, le=99)
    tags: list[str] = Field(max_length=3)

    @field_validator("age")
    @classmethod
    def seven(cls, age: int) -> int:
        return seven(age)


def everything(seed: int, execution: Execution, *, fast_forward: bool) -> list[tuple]:
    """What comes of validators, budgets that close values, thinking, banned words, samples and stop strings."""
    model = sg.Model(llama(), ByteTokenizer(), byte_vocabulary())
    schemas = [
        Person,
        {"type": "array", "items": {"enum": ["a", "bc", "bd"]}, "minItems": 2},
        None,
        sg.Regex("[a-d]{2,9}x"),
    ]
    ways = [sg.Sampling(temperature=1.2, seed=seed), sg.Sampling(), sg.Sampling(temperature=0.9, top_p=0.8, seed=seed)]
    rows = range(9)
    options = {
        "sampling": [ways[row % 3] for row in rows],
        "limits": [
            sg.Limits(max_new_tokens=[70, 45][row % 2], stop=("e",) if schemas[row % 4] is None else ()) for row in rows
        ],
        "thinking": [sg.Thinking(max_tokens=12) if row % 3 == 1 else False for row in rows],
        "banned": ["ab"],
        "fast_forward": fast_forward,
        "batch_size": 4,
    }
    request = prepare(
        model,
        GivenPrompts.of([f"prompt {row}" for row in rows]),
        [schemas[row % 4] for row in rows],
        CallOptions(**options),
    )
    request = replace(request, execution=execution)
    batch = decode(model.module, model.vocabulary, request.sessions, rows=4, record=True, execution=execution)
    told = [request.result(row, batch) for row in rows]
    return [(r.text, r.finish, str(r.error), r.thinking, r.caps, r.stats.rollbacks) for r in told]
