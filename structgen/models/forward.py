"""Chooses how the loop reads a model: the kind of its cache, which a numeric probe confirms."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial

import torch
from torch import Tensor
from transformers import PreTrainedModel

from structgen.errors import OptionError, excerpt, warn_caller
from structgen.memo import once_per_object
from structgen.models.attention import MASKED, attention_of
from structgen.models.evaluation_mode import why_uncompiled
from structgen.models.hosts.forward import HostForward
from structgen.models.hosts.host import Host
from structgen.models.hybrid import HybridForward, takes_states
from structgen.models.layers import KNOWS_STATES, REFUSALS, cache_argument, made_up_encoding, probe_ids
from structgen.models.multimodal import reads_both_ways
from structgen.models.prefixes import has_hooks, prefixes_of
from structgen.models.recurrent import ONE_BY_ONE, at_once_behind_states, has_state_layers
from structgen.models.row import Forward, Row
from structgen.models.slots import SlotForward, takes_slots
from structgen.models.solo import SoloForward
from structgen.models.static import borrow
from structgen.models.transfer import device_of, near
from structgen.models.uncached import WholeForward, at_once, batch_noise, looks_ahead

NOISE = 3
"""Reading in another way may change logits by this many times as much as another row in the batch does. Of 38 kinds of
models that `torch.ao.quantization.quantize_dynamic` had quantised, none was changed by more than 1.4 times as much."""


def forward_for(module: PreTrainedModel | Host, *, graphs: bool | None = None) -> Forward:
    """A new forward of the fastest kind that is exact for the model; the kind is found once per model.

    Args:
        graphs: whether reads of a few tokens are captured as CUDA graphs; by default they are on a CUDA device.

    Raises:
        OptionError: the model attends to later tokens, so no way to read it gives the logits that it was trained for.
    """
    if isinstance(module, Host):
        return HostForward(module)
    setting = attention_of(module), module.dtype, device_of(module)
    make, why_slow, noisy = _chosen(module, setting, why_uncompiled(module))
    static = make is SlotForward and (device_of(module).type == "cuda" if graphs is None else graphs)
    forward = borrow(module, partial(SlotForward, module)) if static else make(module)
    forward.why_slow = why_slow
    if not noisy and not has_hooks(module) and (prefixes := prefixes_of(module)).bound:
        forward.prefixes = prefixes
    return forward


@once_per_object
def _chosen(
    module: PreTrainedModel, setting: Hashable, uncompiled: str
) -> tuple[Callable[[PreTrainedModel], Forward], str, bool]:
    """The choice for a model; made once per setting, with a warning where it is slow."""
    make, why_slow, noisy = _choose(module)
    why_slow = "; ".join(filter(None, [why_slow, uncompiled]))
    if why_slow:
        warn_caller(f"{type(module).__name__} is read more slowly than it could be: {why_slow}")
    return make, why_slow, noisy


def _choose(module: PreTrainedModel) -> tuple[Callable[[PreTrainedModel], Forward], str, bool]:
    """What makes the fastest exact kind of forward, why no faster kind is exact (empty where none was expected), and
    whether the model is `noisy`."""
    attention = attention_of(module)
    takes_masks = attention in MASKED or module.config.is_encoder_decoder
    why = "" if takes_masks else f"its attention, {attention!r}, takes no masks by row and cannot be switched"
    if not KNOWS_STATES and cache_argument(module) is not None and has_state_layers(module):
        why = why or "with this release of transformers recurrent states cannot be told apart; 5.14 numbers them"
    if cache_argument(module) is None:
        why = "its forward pass gives no cache of transformers and takes none"
    for make in _ways(module) if cache_argument(module) is not None else ():
        forward = make(module)
        inexact = why_inexact(module, forward)
        if not inexact:
            return make, why and f"{why}: {forward.cost}", forward.noisy
        why = why or f"with its cache held as {forward.kind!r} {inexact}"
    if not reads_both_ways(module) and looks_ahead(module, _probe(module, probe_ids(module)[:8])):
        raise OptionError(_why_not(module))
    return WholeForward, why and f"{why}: {WholeForward.cost}", False


def _ways(module: PreTrainedModel) -> list[Callable[[PreTrainedModel], Forward]]:
    """The kinds of forward that the configuration of a model allows, the fastest first."""
    kinds: list[Callable[[PreTrainedModel], Forward]] = [SlotForward] if takes_slots(module) else []
    scans = [at_once_behind_states(module)] if KNOWS_STATES and has_state_layers(module) else []
    behind = dict.fromkeys([*scans, ONE_BY_ONE])
    kinds += [partial(HybridForward, at_once=at_once) for at_once in behind if takes_states(module)]
    kinds += [partial(SoloForward, at_once=at_once) for at_once in behind]
    return [*kinds, partial(SoloForward, singly=True)]


def _why_not(module: PreTrainedModel) -> str:
    """The error's text for a model that attends to later tokens, with the remedy."""
    attends = "attends to tokens after the one that it reads"
    why = f"with this release of transformers its decoder {attends} (UMT5 in 5.17 does)"
    todo = "load it with attn_implementation='eager', or upgrade transformers"
    if not module.config.is_encoder_decoder:
        why = f"it {attends}, as models do that fill in masked words"
        todo = "if it was trained to continue a text, set is_decoder=True in its configuration"
    return f"{type(module).__name__} cannot be decoded: {why}; {todo}"


def why_inexact(module: PreTrainedModel, forward: Forward) -> str:
    """The probe: reads two rows, rolls one back, and reads both on unevenly; and several tokens as if one by one.

    It may set `forward.noisy`.

    Returns:
        Why the logits are not those of an uncached forward pass; empty where they are, or where they differ by no more
        than a model that quantises what it computes differs from itself.
    """
    checked, probe = [], probe_ids(module)
    try:
        one, other = (_probe(module, ids) for ids in (probe[:8], probe[3:8]))
        with torch.inference_mode():
            forward.read([one, other])
            one.truncate(5)
            for of_one, of_other in ((probe[10:12], probe[:1]), (probe[12:13], probe[1:4])):
                one.ids += of_one
                other.ids += of_other
                checked.append((forward.read([one, other])[0], at_once(module, one)))
            checked.append(_several_and_one_by_one(module, forward))
    except (*REFUSALS, AssertionError) as error:  # whatever a model raises on a cache that is not for it
        return f"it raised {type(error).__name__}: {excerpt(error)}"
    if all(near(logits, expected) for logits, expected in checked):
        return ""
    noise = NOISE * batch_noise(module, _probe(module, probe[:8]))
    if all(near(logits, expected, noise) for logits, expected in checked):
        forward.noisy = True
        return ""
    largest = max(float((logits.float() - expected.float()).abs().max()) for logits, expected in checked)
    return f"its logits differ from those of an uncached forward pass, by {largest:.2g} at most"


def _several_and_one_by_one(module: PreTrainedModel, forward: Forward) -> tuple[Tensor, Tensor]:
    """The logits after three tokens after a cache, read at once and one by one: float[width] each.

    Not next to an uncached pass, by which a `testing.ScriptedModel` cannot know where its prompt ends.
    """
    probe = probe_ids(module)
    row = _probe(module, probe[:8])
    forward.read([row])
    row.ids += probe[6:9]
    together = logits = forward.read([row])[0]
    row.truncate(8)
    for token in probe[6:9]:
        row.ids.append(token)
        logits = forward.read([row])[0]
    return together, logits


def _probe(module: PreTrainedModel, ids: Sequence[int]) -> Row:
    """A row of text, with made-up encoder states where the encoder does not read text."""
    if reads_both_ways(module):
        row = Row(ids[:4], inputs={})
        row.ids += ids[4:]
        return row
    if not module.config.is_encoder_decoder:
        return Row(ids)
    if module.main_input_name == "input_ids":
        return Row(ids, probe_ids(module)[:5])
    row = Row(ids)
    row.encoded = made_up_encoding(module)
    return row
