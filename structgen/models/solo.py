"""Rows with a cache each, for models whose cache cannot be shared by rows of different lengths.

Encoder-decoder models, those that count positions by the cache, and with older releases of transformers those with
recurrent states. Going back removes tokens from the cache where it can (attention), else it restores a snapshot and
reads on from there (recurrent states).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel

from structgen.models.layers import NOTHING, arguments_of, is_coupled, kinds_of, read_ids
from structgen.models.multimodal import encoded, no_logits, read_prompt
from structgen.models.recurrent import ONE_BY_ONE, Kept, ReadAhead
from structgen.models.row import AHEAD, Foreseen, Forward, Row

CROPPED = {"full_attention", "sliding_attention", "chunked_attention", NOTHING}
"""Kinds of layers that keep all keys and values where the cache has no configuration, so that it can be shortened."""


class SoloForward(Forward):
    """Runs any model that generates, one row at a time.

    Args:
        module: a causal or encoder-decoder model that takes a cache.
        singly: read tokens after a cache one by one.
        at_once: how many tokens after a state one forward pass reads.
    """

    why_eager = "the model's cache has no slots by row"
    kind = "one by row"
    cost = "each row of a batch takes forward passes of its own"

    def __init__(self, module: PreTrainedModel, *, singly: bool = False, at_once: ReadAhead = ONE_BY_ONE) -> None:
        self._module, self._singly, self._at_once = module, singly, at_once
        if singly:
            self.cost += ", and tokens behind the first ones are read one by one"
        config = module.config.get_text_config(decoder=True)
        kinds = [kind for kind, _ in kinds_of(module)]
        self._crops = set(kinds) <= CROPPED
        self._layers = [number for number, kind in enumerate(kinds) if kind != NOTHING]
        self._options = {"logits_to_keep": 1} if "logits_to_keep" in arguments_of(module) else {}
        self._kept: dict[Row, Kept[Any]] = {}
        alone = self._crops and not singly and not is_coupled(config)
        self._remembers = alone or module.config.is_encoder_decoder

    def read(self, rows: Sequence[Row], foreseen: Foreseen | None = None) -> Tensor:
        assert foreseen is None
        with self:
            logits = [self._read(row) for row in rows]
        for row in rows:
            row.valid = len(row.ids)
        return torch.stack(logits)

    def columns_for(self, rows: Sequence[Row]) -> int:
        """See `Forward`. 0 before the rows begin, and where the cache cannot be shortened after a wrong draft."""
        if not self._crops or self._singly or not all(row in self._kept and row.valid for row in rows):
            return 0
        return max(len(row.ids) - row.valid for row in rows) + AHEAD

    def read_drafted(self, rows: Sequence[Row], drafts: Sequence[Sequence[int]]) -> Tensor:
        """See `Forward`; each row is read by itself."""
        longest, parts = max(map(len, drafts)), []
        for row, draft in zip(rows, drafts, strict=True):
            kept = self._kept[row]
            if kept.length > row.valid:
                self._go_back(kept, row.valid)
            with self:
                logits = self._run(kept, row, [*row.ids[kept.length :], *draft], last=1 + len(draft))
            row.valid = len(row.ids)
            parts.append(torch.cat([logits.new_zeros((longest - len(draft), logits.shape[1])), logits]))
        return torch.stack(parts)

    def fork(self, row: Row, twin: Row) -> None:
        twin.follow(row)
        kept = self._kept[row]
        self._kept[twin] = Kept(copy.deepcopy(kept.state), kept.length, kept.snapshots.copy())

    def release(self, row: Row) -> None:
        """See `Forward`. What the row has read is remembered."""
        if row in self._kept:
            self._remember(row, min(row.valid, len(row.ids)))
        self._kept.pop(row, None)
        row.encoded = None

    def _read(self, row: Row) -> Tensor:
        """Reads what is pending of a row, at once where the cache allows that: float[width]."""
        kept = self._kept.get(row)
        if kept is None:
            kept = self._kept[row] = Kept[Any](self._new_cache())
            self._recall(row, kept)
        is_new = kept.length == row.valid and row.valid < row.given
        if kept.length > row.valid:
            self._go_back(kept, row.valid)
        logits = self._begin(row, kept) if kept.length == 0 and row.inputs is not None else torch.empty(0)
        while row.error is None and (pending := len(row.ids) - kept.length):
            together = kept.length == 0 or (self._crops and not self._singly)
            columns = pending if together else self._at_once.columns(pending, 1)
            logits = self._run(kept, row, row.ids[kept.length : kept.length + columns])[0]
        if is_new:
            self._remember(row, row.given)
        return logits

    def _recall(self, row: Row, kept: Kept[Any]) -> None:
        """Takes the beginning of a new row's prompt that is remembered, or what the encoder made of all of it."""
        row.cached = 0
        if self.prefixes is None or not self._remembers or row.inputs is not None:
            return
        if self._module.config.is_encoder_decoder:
            prefix = self.prefixes.lookup(row.source or (), stated=True)
            if row.encoded is None and row.source and prefix.length == len(row.source):
                row.encoded, row.cached = prefix.state, prefix.length
            return
        prefix = self.prefixes.lookup(row.ids[:-1])  # the last token is read in any case
        row.valid = kept.length = prefix.length
        row.cached = min(prefix.length, row.given)
        whole = [torch.cat(parts, dim=1).unsqueeze(0) for parts in zip(*prefix.pieces, strict=True)]
        for number, layer in enumerate(self._layers if whole else ()):
            kept.state.update(*whole[2 * number : 2 * number + 2], layer)

    def _remember(self, row: Row, length: int) -> None:
        """Remembers the first `length` ids of a row, which it has read; or its encoder's output."""
        if self.prefixes is None or not self._remembers or row.inputs is not None or row.error is not None:
            return
        if self._module.config.is_encoder_decoder:
            if row.source and row.encoded is not None:
                size = sum(value.nbytes for value in row.encoded.values() if isinstance(value, Tensor))
                self.prefixes.insert(row.source, lambda slots: [], 0, row.encoded, size)
            return
        kept = [(number, layer) for number, layer in enumerate(self._kept[row].state.layers) if layer.is_initialized]
        rooms = [room for _, layer in kept for room in (layer.keys, layer.values)]
        if [number for number, _ in kept] == self._layers and all(room.dim() == 4 for room in rooms):
            size = sum(room.element_size() * room.shape[1] * room.shape[3] for room in rooms)
            self.prefixes.insert(row.ids[:length], lambda slots: [room[0, :, slots].clone() for room in rooms], size)

    def _begin(self, row: Row, kept: Kept[Any]) -> Tensor:
        """Reads a prompt with inputs, or has the encoder read it. The logits after the prompt, if any."""
        if self._module.config.is_encoder_decoder:
            encoded(self._module, row)
            return torch.empty(0) if row.error is None else no_logits(self._module)
        self.count += 1
        logits = read_prompt(self._module, row, kept.state, self._options)
        if logits is None:
            return no_logits(self._module)
        kept.length = row.given
        self._take_snapshot(kept)
        return logits[0]

    def _run(self, kept: Kept[Any], row: Row, ids: Sequence[int], last: int = 1) -> Tensor:
        """Reads ids after what the row's cache holds. The logits after the last of them: float[last, width]."""
        options: dict[str, Any] = dict.fromkeys(self._options, last)
        if self._module.config.is_encoder_decoder:
            options["encoder_outputs"] = encoded(self._module, row)
        if "prompt_tokens" in arguments_of(self._module):
            options["prompt_tokens"] = [row.given]
        self.count += 1
        logits = read_ids(self._module, ids, kept.length + row.shift, kept.state, **options)
        kept.length += len(ids)
        self._take_snapshot(kept)
        return logits[-last:]

    def _take_snapshot(self, kept: Kept[Any]) -> None:
        """Adds a snapshot, where the cache cannot be shortened and the last snapshot is old."""
        if not self._crops:
            kept.add_snapshot_if_due(lambda: copy.deepcopy(kept.state))

    def _go_back(self, kept: Kept[Any], length: int) -> None:
        """Restores the cache of at most the first `length` tokens."""
        if self._crops and length:
            kept.state.crop(length - kept.length)
            kept.length = length
            return
        last = kept.last_snapshot(length)
        kept.length, kept.state = (0, self._new_cache()) if last is None else (last[0], copy.deepcopy(last[1]))

    def _new_cache(self) -> Any:
        config = None if self._crops else self._module.config
        if self._module.config.is_encoder_decoder:
            return EncoderDecoderCache(DynamicCache(config=config), DynamicCache())
        return DynamicCache(config=config)
