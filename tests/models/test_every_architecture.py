"""Every architecture of transformers that generates text: greedy, ours is that of its `generate` under the same mask.

Twice: as it comes, and where a guard takes back a token in the middle. Random weights, tiny sizes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LogitsProcessor, LogitsProcessorList
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

import structgen as sg
from structgen.models.forward import forward_for
from structgen.testing import ByteTokenizer, byte_vocabulary
from tests.support.tiny_configurations import IDS, WAYS, WIDTH, make

VOCABULARY = byte_vocabulary(width=WIDTH)
SCHEMA = sg.Regex(r"\{[a-f]{3,6}:( [0-9]{2,4},){1,2} [A-Z]{2,4}\}")
GRAMMAR = SCHEMA.compile(VOCABULARY)
PROMPTS = [b"a prompt of text", b"short", b"and another one, longer than all others of them"]
AT = 4
"""Where a token is taken back."""


class Masked(LogitsProcessor):
    """The grammar's mask, and one token less behind one text."""

    def __init__(self, given: int, text: bytes = b"") -> None:
        self._given, self._text = given, text

    def __call__(self, ids, scores):
        matcher, said = GRAMMAR.matcher(), ids[0, self._given :].tolist()
        for token in said:
            matcher.advance(token)
        allowed = np.unpackbits(matcher.mask().view(np.uint8), bitorder="little")[:WIDTH].astype(bool)
        if self._text and said == list(self._text[:-1]):
            allowed[self._text[-1]] = False
        return scores[:, :WIDTH].masked_fill(~torch.from_numpy(allowed), -torch.inf)


class Refused(sg.Guard):
    """Vetoes a text that begins like this, from the last byte of that on, as soon as there are three more."""

    def __init__(self, text: bytes) -> None:
        self._text = text

    def start(self):
        return b""

    def feed(self, state, new):
        said = state + new
        if len(said) >= len(self._text) + 3 and said.startswith(self._text):
            return sg.Veto(len(self._text) - 1, "not this")
        return said


def theirs(module, prompt: bytes, text: bytes = b"") -> bytes:
    """What transformers' `generate` says."""
    given = 1 if module.config.is_encoder_decoder else len(prompt)
    masked = LogitsProcessorList([Masked(given, text)])
    ids = torch.tensor([list(prompt)])
    options = {"max_new_tokens": 96, "do_sample": False, "num_beams": 1, "eos_token_id": 256, "pad_token_id": 0}
    said = module.generate(ids, attention_mask=torch.ones_like(ids), logits_processor=masked, **options)
    return bytes(i for i in said[0, given:].tolist() if i not in (0, 256))


def loaded(name: str, *, encoder_decoder: bool) -> sg.Model:
    module = make(name, encoder_decoder=encoder_decoder)
    for config in (module.config, module.generation_config):
        config.eos_token_id, config.forced_bos_token_id, config.forced_eos_token_id = 256, None, None
        config.decoder_start_token_id = IDS["decoder_start_token_id"]
    return sg.Model(module, ByteTokenizer(), VOCABULARY)


CASES = [(name, way, half) for half, ways in WAYS.items() for way, names in ways.items() for name in names.split()]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "way", "half"), CASES, ids=[f"{half}-{name}" for name, _, half in CASES])
def test_greedy_text_is_that_of_transformers_generate(name, way, half):
    if name not in CONFIG_MAPPING:
        pytest.skip(f"this release of transformers has no {name}")
    model = loaded(name, encoder_decoder=half == "encoder-decoder")
    assert type(forward_for(model.module)).__name__ == way
    expected = [theirs(model.module, prompt) for prompt in PROMPTS]
    prompts, limits = [list(prompt) for prompt in PROMPTS], sg.Limits(max_new_tokens=96)
    found = sg.generate(model, prompts, SCHEMA, limits=limits, details=True)
    assert [run.text.encode() for run in found] == expected
    refused = expected[0][: AT + 1]
    guards = [[Refused(refused)], [], []]
    found = sg.generate(model, prompts, SCHEMA, limits=limits, guards=guards, details=True)
    assert found[0].stats.rollbacks >= 1
    assert found[0].text.encode() == theirs(model.module, PROMPTS[0], refused)
    assert [run.text.encode() for run in found[1:]] == expected[1:]


def test_the_table_in_the_documentation_has_every_architecture_in_its_place():
    text = (Path(__file__).parents[2] / "docs" / "project" / "architectures.md").read_text()
    table = [line.split("|")[2:4] for line in text.split("## Which way each")[1].splitlines() if line.startswith("| ")]
    assert [len(cells) for cells in table[2:]] == [2] * 4
    for cells, way in zip(table[2:], ["SlotForward", "HybridForward", "SoloForward", "WholeForward"], strict=True):
        for cell, half in zip(cells, ["causal", "encoder-decoder"], strict=True):
            assert sorted(cell.replace(",", " ").split()) == sorted(WAYS[half].get(way, "").split())
