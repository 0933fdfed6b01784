"""Rows with a cache each, for models whose cache cannot be shared by rows that stand at different places.

Encoder-decoder models, recurrent and hybrid ones, those that count positions by the cache. Going back removes
tokens from the cache where it can (attention), else restores a snapshot and reads on from there (recurrent states),
else reads all again.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel

from structgen.models.layers import NOTHING, StateLayer, arguments_of, cache_argument, layer_kinds, read_ids
from structgen.models.multimodal import encoded, no_logits, read_prompt
from structgen.models.recurrent import ONE_BY_ONE, ReadAhead, Snapshots
from structgen.models.row import Foreseen, Forward, Row
from structgen.models.transfer import device_of, upload_one

CROPPED = {"full_attention", "sliding_attention", "chunked_attention", NOTHING}
"""Kinds of layers that keep all keys and values in a cache without configuration, and can be shortened."""

AHEAD = 8
"""Tokens of a draft, behind those that are pending, that are read at hardly more than the price of one token."""

AGAIN = "one by row, read again"
"""The kind of a `SoloForward` that recomputes."""

STATES = "conv_states", "recurrent_states"
"""Where a recurrent layer keeps its states, by number."""


class Alone:
    """What is kept for one row.

    Attributes:
        length: tokens that the cache holds.
    """

    __slots__ = ("cache", "length", "snapshots")

    def __init__(self, cache: Any) -> None:
        self.cache, self.length = cache, 0
        self.snapshots = Snapshots[Any]()


def _merged(caches: Sequence[Any]) -> Any:
    """One cache of the rows' recurrent states, side by side."""
    whole = copy.copy(caches[0])
    whole.layers = [copy.copy(layer) for layer in caches[0].layers]
    for index, layer in enumerate(whole.layers):
        for name in STATES:
            parts = [getattr(cache.layers[index], name) for cache in caches]
            joined = {i: None if state is None else torch.cat([p[i] for p in parts]) for i, state in parts[0].items()}
            setattr(layer, name, joined)
    return whole


def _take_back(cache: Any, whole: Any, row: int) -> None:
    """Gives a row its states back, as copies: what they are cut from can go."""
    for mine, theirs in zip(cache.layers, whole.layers, strict=True):
        for name in STATES:
            states = {i: None if s is None else s[row : row + 1].clone() for i, s in getattr(theirs, name).items()}
            setattr(mine, name, states)


class SoloForward(Forward):
    """Runs any model that generates, one row at a time; rows of recurrent states take their steps together.

    Args:
        module: a causal or encoder-decoder model that takes a cache.
        recompute: go back by reading all again, whatever the cache says it can.
        at_once: how many tokens behind a state one forward pass reads.
    """

    why_eager = "the model's cache has no slots by row"
    kind = "one by row"

    def __init__(self, module: PreTrainedModel, *, recompute: bool = False, at_once: ReadAhead = ONE_BY_ONE) -> None:
        self.kind = AGAIN if recompute else self.kind
        self._module, self._recompute, self._at_once = module, recompute, at_once
        config = module.config.get_text_config(decoder=True)
        self._crops = {kind for kind, _ in layer_kinds(config)} <= CROPPED
        self._options = {"logits_to_keep": 1} if "logits_to_keep" in arguments_of(module) else {}
        self._alone: dict[Row, Alone] = {}

    def read(self, rows: Sequence[Row], foreseen: Foreseen | None = None) -> Tensor:
        assert foreseen is None
        logits = {row: self._read(row) for row in rows}
        while behind := [row for row in rows if self._alone[row].length < len(row.ids) and row.error is None]:
            logits |= zip(behind, self._step(behind), strict=True)
        for row in rows:
            row.valid = len(row.ids)
        return torch.stack([logits[row] for row in rows])

    def columns_for(self, rows: Sequence[Row]) -> int:
        """See `Forward`. 0 before the rows begin, and where the cache cannot be shortened behind a wrong draft."""
        if not self._crops or self._recompute or not all(row in self._alone and row.valid for row in rows):
            return 0
        return max(len(row.ids) - row.valid for row in rows) + AHEAD

    def read_drafted(self, rows: Sequence[Row], drafts: Sequence[Sequence[int]]) -> Tensor:
        """See `Forward`; each row is read by itself."""
        longest, parts = max(map(len, drafts)), []
        for row, draft in zip(rows, drafts, strict=True):
            alone = self._alone[row]
            if alone.length > row.valid:
                self._go_back(alone, row.valid)
            logits = self._run(alone, row, [*row.ids[alone.length :], *draft], last=1 + len(draft))
            row.valid = len(row.ids)
            parts.append(torch.cat([logits.new_zeros((longest - len(draft), logits.shape[1])), logits]))
        return torch.stack(parts)

    def fork(self, row: Row, twin: Row) -> None:
        twin.follow(row)
        alone, other = self._alone[row], Alone(copy.deepcopy(self._alone[row].cache))
        other.length, other.snapshots = alone.length, alone.snapshots.copy()
        self._alone[twin] = other

    def release(self, row: Row) -> None:
        self._alone.pop(row, None)
        row.encoded = None

    def _read(self, row: Row) -> Tensor:
        """Reads a row as far as that can be done at once: float[width]."""
        alone = self._alone.get(row)
        if alone is None:
            alone = self._alone[row] = Alone(self._new_cache())
        if alone.length > row.valid:
            self._go_back(alone, row.valid)
        first = torch.empty(0)
        if alone.length == 0 and row.inputs is not None:
            first = self._begin(row, alone)
        pending = len(row.ids) - alone.length
        if (
            row.error is None
            and pending
            and (self._crops or alone.length == 0 or self._at_once.columns(pending, 1) > 1)
        ):
            return self._run(alone, row, row.ids[alone.length :])[0]
        return first

    def _begin(self, row: Row, alone: Alone) -> Tensor:
        """Reads what is more than text: the prompt, or what the encoder gets. The logits after the prompt, if any."""
        if self._module.config.is_encoder_decoder:
            encoded(self._module, row)
            return torch.empty(0) if row.error is None else no_logits(self._module)
        self.count += 1
        logits = read_prompt(self._module, row, alone.cache, self._options)
        if logits is None:
            return no_logits(self._module)
        alone.length = row.given
        self._remember(alone)
        return logits[0]

    def _step(self, rows: Sequence[Row]) -> Sequence[Tensor]:
        """Reads one token of each row behind its state: float[width] for each."""
        each = [self._alone[row] for row in rows]
        states_only = all(type(layer) is StateLayer for layer in each[0].cache.layers)
        if len(rows) == 1 or "position_ids" in arguments_of(self._module) or not states_only:
            return [self._run(alone, row, [row.ids[alone.length]])[0] for row, alone in zip(rows, each, strict=True)]
        together = _merged([alone.cache for alone in each])
        pending = [[row.ids[alone.length]] for row, alone in zip(rows, each, strict=True)]
        ids = upload_one(pending, device_of(self._module))
        self.count += 1
        given = {"input_ids": ids, cache_argument(self._module) or "past_key_values": together}
        output = self._module(use_cache=True, return_dict=True, **given, **self._options)
        for number, alone in enumerate(each):
            _take_back(alone.cache, together, number)
            alone.length += 1
            self._remember(alone)
        return list(output.logits[:, -1])

    def _run(self, alone: Alone, row: Row, ids: Sequence[int], last: int = 1) -> Tensor:
        """Reads more of a row. The logits after each of the last ids: float[last, width]."""
        told: dict[str, Any] = dict.fromkeys(self._options, last)
        if self._module.config.is_encoder_decoder:
            told["encoder_outputs"] = encoded(self._module, row)
        if "prompt_tokens" in arguments_of(self._module):
            told["prompt_tokens"] = [row.given]
        self.count += 1
        logits = read_ids(self._module, ids, alone.length + row.shift, alone.cache, **told)
        alone.length += len(ids)
        self._remember(alone)
        return logits[-last:]

    def _remember(self, alone: Alone) -> None:
        """A snapshot, where the cache cannot be shortened and the last one is far."""
        if not self._crops and not self._recompute:
            alone.snapshots.add_if_due(alone.length, lambda: copy.deepcopy(alone.cache))

    def _go_back(self, alone: Alone, length: int) -> None:
        """The cache of at most the first `length` tokens."""
        if self._crops and not self._recompute and length:
            alone.cache.crop(length - alone.length)
            alone.length = length
            return
        last = alone.snapshots.back_to(length)
        alone.length, alone.cache = (0, self._new_cache()) if last is None else (last[0], copy.deepcopy(last[1]))

    def _new_cache(self) -> Any:
        config = None if self._crops else self._module.config
        if self._module.config.is_encoder_decoder:
            return EncoderDecoderCache(DynamicCache(config=config), DynamicCache())
        return DynamicCache(config=config)
