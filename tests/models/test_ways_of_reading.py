"""How each architecture is read, and what that costs: whoever loses a cache in silence is seen here."""

from __future__ import annotations

import warnings

import pytest
import torch

import structgen as sg
from structgen.cli.doctor import _PARTS, diagnose
from structgen.models.forward import forward_for
from structgen.models.row import Row
from structgen.testing import ByteTokenizer, byte_vocabulary, scripted
from tests.support import architectures
from tests.support.architectures import make
from tests.support.releases import require_release

FACTS = dict.fromkeys(architectures.SLOTTED | architectures.MORE_SLOTTED, ("slots", 8))
FACTS |= dict.fromkeys(architectures.HYBRID, ("slots and states", 9))
FACTS |= dict.fromkeys(architectures.ALONE, ("one by row", 16))
FACTS |= dict.fromkeys(architectures.WHOLE, ("none", 16))
FACTS |= {"mamba": ("slots and states", 21), "jamba": ("slots and states", 21), "mamba2": ("slots and states", 11)}
FACTS |= {"deepseek-v3.2": ("one by row", 40)}
"""By architecture, the way in which rows are read, and the forward passes of `read_some`."""

OF_EACH_WAY = ["llama", "gemma3", "qwen3-next", "mamba", "t5", "switch", "bloom", "rwkv", "minimax"]


@torch.inference_mode()
def read_some(forward, source: list[int] | None) -> int:
    """The forward passes of two prompts, four steps of one token, forced text of three tokens, and going back twice."""
    rows = [Row(list(range(2, 10)), source), Row(list(range(5, 10)), source)]
    forward.read(rows)
    for new in ([11], [12], [13], [14], [15, 16, 17]):
        for row in rows:
            row.ids += new
        forward.read(rows)
    for length in (2, 1):
        for row in rows:
            row.truncate(len(row.ids) - length)
            row.ids.append(20 + length)
        forward.read(rows)
    return int(forward.count)


@pytest.mark.parametrize(
    "name", [*OF_EACH_WAY, *(pytest.param(n, marks=pytest.mark.slow) for n in FACTS if n not in OF_EACH_WAY)]
)
def test_each_architecture_is_read_in_its_way_with_its_forward_passes(name):
    if name in architectures.HYBRID | dict.fromkeys(["deepseek-v3", "gemma3n", "xlstm"]):
        require_release("transformers", "5.14")
    module = make(name)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", sg.PerformanceWarning)
        forward = forward_for(module)
    source = [3, 4, 5] if module.config.is_encoder_decoder else None
    assert (forward.kind, read_some(forward, source)) == FACTS[name]
    assert bool(forward.why_slow) == (forward.kind == "none") == any(w.category is sg.PerformanceWarning for w in told)


def test_a_batch_of_the_demo_takes_few_forward_passes():
    """480 where the cache is lost."""
    person = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}
    person |= {"required": ["name", "age"], "additionalProperties": False}
    prompts = [f"Person {n}" for n in range(32)]
    stats = sg.generate(sg.load("demo"), prompts, person, details=True)[0].stats
    assert (stats.cache, stats.why_slow) == ("slots", ())
    assert stats.forwards <= 11


def test_doctor_examines_a_model_of_bytes():
    """Whose template writes no calls, as text or as ids."""
    found = {finding.part: finding for finding in diagnose(scripted("true"), {"type": "boolean"})}
    assert "fault" not in {finding.state for finding in found.values()}
    assert "the template renders no calls" in found["tool format"].told


def test_doctor_notes_a_model_that_is_read_whole():
    model = sg.Model(make("rwkv"), ByteTokenizer(), byte_vocabulary())
    (state, told), *_ = _PARTS["cache"](model, {"type": "boolean"})
    assert state == "note"
    assert "none: its forward pass gives no cache of transformers" in told
