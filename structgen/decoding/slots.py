"""A KV cache in which a token's slot is its position, row by row: going back costs nothing.

Every row writes where it stands, so rows of one batch may read one token, several or none. What lies in slots
beyond a row's newest token is stale and never seen: a query at position p sees slots up to p. The masks are ours,
four-dimensional, so a sliding window counts positions and not columns.

Rows lie side by side from place 0; when one leaves, the last one takes its place.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import Cache, CacheLayerMixin

from structgen.decoding.layers import NOTHING, empty_layer, layer_kinds
from structgen.decoding.multimodal import no_logits, read_prompt
from structgen.decoding.rows import Foreseen, Row
from structgen.decoding.transfer import sent

ATTENTION = {"full_attention", "sliding_attention", "chunked_attention", NOTHING}
"""Kinds of layers whose cache is keys and values by position."""

COUPLED = {"longrope", "dynamic"}
"""Rotary embeddings that look at the whole batch's longest row."""

GRAIN = 64
"""The slots are extended by multiples of this many."""

MOST_READ = 8192
"""Tokens of one forward, padding included, where that leaves a row at least."""

SHORT = 16
"""Rows with at most this many pending tokens are read together, padded to the longest; others by themselves."""


SPARE = {"cpu": 32, "cuda": 512}
"""Tokens of padding that cost less than a forward pass of their own, by kind of device."""


@dataclass(slots=True)
class Places:
    """Where one forward writes and what it sees.

    Attributes:
        rows: places of the rows, int64[rows] where they are not side by side.
        target: of the new tokens: (rows, slots) as slices, or as int64[rows, 1] and int64[rows, columns].
        seen: so many slots of the rows are given to the attention.
        least: how many rows and slots there must be, the last slot for padding.
    """

    rows: slice | Tensor
    target: tuple[slice, slice] | tuple[Tensor, Tensor]
    seen: int
    least: tuple[int, int]


class SlotLayer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """One layer's cache.

    Attributes:
        kept: keys and values, each [rows, heads, slots, dim]; empty before the first tokens.
    """

    is_compileable = True
    is_sliding = False  # a window lives in the mask

    def __init__(self, places: list[Places]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._places = places
        self.kept: list[Tensor] = []

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Room for the first rows."""
        self.dtype, self.device = key_states.dtype, key_states.device
        self.kept = [_room(None, like, self._places[0].least) for like in (key_states, value_states)]
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Writes the new tokens' keys and values, [rows, heads, columns, dim]; gives back all that may be seen."""
        places, new = self._places[0], (key_states, value_states)
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        elif self.kept[0].shape[0] < places.least[0] or self.kept[0].shape[2] < places.least[1]:
            self.kept = [_room(old, like, places.least) for old, like in zip(self.kept, new, strict=True)]
        return _put(self.kept[0], key_states, places), _put(self.kept[1], value_states, places)

    def move(self, place: int, to: int) -> None:
        """Copies a row to another place."""
        for room in self.kept:
            room[to] = room[place]

    def clear(self, place: int) -> None:
        """Forgets a row that has left: what it wrote may be no number, and no weight makes 0 of that."""
        for room in self.kept:
            room[place : place + 1] = 0

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Slots that are seen, and the first of them."""
        return self._places[0].seen, 0

    def get_seq_length(self) -> int:
        """Slots of the longest row: models ask whether there are any."""
        return self._places[0].seen if self.is_initialized else 0

    def get_max_length(self) -> int:
        """There is no bound."""
        return -1


def _room(old: Tensor | None, like: Tensor, least: tuple[int, int]) -> Tensor:
    """At least so many rows and slots, with the old content; zeros, so that nothing unseen is not a number."""
    rows, slots = least
    if old is not None:
        rows, slots = max(rows, old.shape[0]), max(slots, old.shape[2])
        slots = slots if slots == old.shape[2] else max(slots, old.shape[2] * 3 // 2)
    room = torch.zeros((rows, like.shape[1], slots, like.shape[3]), dtype=like.dtype, device=like.device)
    if old is not None:
        room[: old.shape[0], :, : old.shape[2]] = old
    return room


def _put(room: Tensor, new: Tensor, places: Places) -> Tensor:
    rows, slots = places.target
    room[rows, :, slots] = new if isinstance(slots, slice) else new.transpose(1, 2)
    return room[places.rows, :, : places.seen]


def takes_slots(module: PreTrainedModel) -> bool:
    """May the model's cache be ours? What its configuration says; a probe has the last word."""
    config = module.config.get_text_config(decoder=True)
    rope = getattr(config, "rope_parameters", None) or {}
    kinds = {rope.get("rope_type")} | {r.get("rope_type") for r in rope.values() if isinstance(r, dict)}
    return (
        not module.config.is_encoder_decoder
        and "position_ids" in inspect.signature(module.forward).parameters
        and not getattr(config, "alibi", False)
        and not kinds & COUPLED
        and getattr(config, "_attn_implementation", None) in (None, "sdpa", "eager")
        and {kind for kind, _ in layer_kinds(config)} <= ATTENTION
    )


class SlotForward:
    """Runs a causal model over rows that each stand where they stand.

    Equal prompts that come together, as for several samples, are read once.

    Args:
        module: a model that `takes_slots`.

    Attributes:
        count: forward passes so far.
    """

    foresees = True

    def __init__(self, module: PreTrainedModel) -> None:
        self.count = 0
        self._module = module
        self._device = module.device
        config = module.config.get_text_config(decoder=True)
        kinds = [kind for kind, _ in layer_kinds(config)]
        self._windows = {kind: window for kind, window in layer_kinds(config) if kind != NOTHING}
        self._float = getattr(config, "_attn_implementation", None) == "eager"
        self._places: list[Places] = [Places(slice(0), (slice(0), slice(0)), 0, (0, 0))]
        self._layers = [SlotLayer(self._places) for kind in kinds if kind != NOTHING]
        each = iter(self._layers)
        self._cache = Cache(layers=[empty_layer() if kind == NOTHING else next(each) for kind in kinds])
        accepted = inspect.signature(module.forward).parameters
        self._options = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}
        self._spare = SPARE.get(self._device.type, SPARE["cuda"])
        self._tells_prompts = "prompt_tokens" in accepted
        self._place: dict[Row, int] = {}

    def read(self, rows: Sequence[Row], foreseen: Foreseen | None = None) -> Tensor:
        """Reads what is pending. The logits after each row's last token: float[rows, width]."""
        if foreseen is not None:
            with foreseen.pending():
                return self._read(rows, foreseen)
        return self._read(rows, None)

    def _read(self, rows: Sequence[Row], foreseen: Foreseen | None) -> Tensor:
        for row in rows:
            if row not in self._place:
                self._admit(row)
        twins = {} if self._tells_prompts else _twins(rows)
        begun = [i for i in range(len(rows)) if i not in twins and _is_begun(rows[i])]
        alone = [i for i in range(len(rows)) if i not in twins and not _is_begun(rows[i])]
        groups = [[begun[i] for i in group] for group in _groups([rows[i] for i in begun], self._spare)]
        parts = [self._run([rows[i] for i in group], foreseen) for group in groups]
        parts += [self._begin(rows[i]) for i in alone]
        if len(parts) == 1 and not twins:
            return parts[0]
        for i, leader in twins.items():
            for layer in self._layers:
                layer.move(self._place[rows[leader]], self._place[rows[i]])
            rows[i].valid = len(rows[i].ids)
            rows[i].shift, rows[i].error = rows[leader].shift, rows[leader].error
        read = [i for group in groups for i in group] + alone
        order = [read.index(twins.get(i, i)) for i in range(len(rows))]
        return torch.cat(parts).index_select(0, sent(order, self._device))

    def _admit(self, row: Row) -> None:
        for layer in self._layers:
            layer.clear(len(self._place))
        self._place[row] = len(self._place)

    def release(self, row: Row) -> None:
        """The row is not read any more; its place is free."""
        place = self._place.pop(row, None)
        if place is None or place == len(self._place):
            return
        last = next(row for row, at in self._place.items() if at == len(self._place))
        for layer in self._layers:
            layer.move(len(self._place), place)
        self._place[last] = place

    def _begin(self, row: Row) -> Tensor:
        """Reads a prompt that is more than text, by the model's own way and cache: float[1, width]."""
        cache: Any = DynamicCache()
        self.count += 1
        logits = read_prompt(self._module, row, cache, self._options)
        row.valid = row.given
        if logits is None:
            return no_logits(self._module).unsqueeze(0)
        self._places[0] = self._where([row], [0], [0], row.given, row.given)
        for layer, theirs in zip(self._cache.layers, cache.layers, strict=False):  # the last ones may keep nothing
            if isinstance(layer, SlotLayer):
                layer.update(theirs.keys, theirs.values)
        return logits if row.valid == len(row.ids) else self._run([row], None)

    def _run(self, rows: Sequence[Row], foreseen: Foreseen | None) -> Tensor:
        width, seen = max(len(row.ids) - row.valid for row in rows), max(len(row.ids) for row in rows)
        starts = [row.valid for row in rows]
        pads = [width - len(row.ids) + row.valid for row in rows]
        ids = [[0] * pad + row.pending for row, pad in zip(rows, pads, strict=True)]
        spans = [[row.valid] * pad + list(range(row.valid, len(row.ids))) for row, pad in zip(rows, pads, strict=True)]
        inputs = sent([ids, spans], self._device)  # int64[2, rows, columns]: one copy to the device
        if foreseen is not None:
            self._fill_in(inputs[0], rows, foreseen)
        self._places[0] = self._where(rows, starts, pads, width, seen)
        for row in rows:
            row.valid = len(row.ids)
        positions = inputs[1]
        if any(row.shift for row in rows):
            positions = positions + sent([[row.shift] for row in rows], self._device)
        self.count += 1
        told = {"prompt_tokens": [row.given for row in rows]} if self._tells_prompts else {}
        output = self._module(
            input_ids=inputs[0],
            position_ids=positions,
            attention_mask=self._masks(inputs[1], seen),
            past_key_values=self._cache,
            use_cache=True,
            return_dict=True,
            **self._options,
            **told,
        )
        logits: Tensor = output.logits[:, -1]
        return logits

    def _where(self, rows: Sequence[Row], starts: list[int], pads: list[int], width: int, seen: int) -> Places:
        places = [self._place[row] for row in rows]
        least = len(self._place), -(-(seen + 1) // GRAIN) * GRAIN
        together = places == list(range(places[0], places[0] + len(places)))
        side_by_side = slice(places[0], places[0] + len(places))
        if together and not any(pads) and len(set(starts)) == 1:
            return Places(side_by_side, (side_by_side, slice(starts[0], seen)), seen, least)
        trash = -1  # the last slot, whatever their number: nobody sees it
        slots = [[trash] * pad + list(range(s, s + width - pad)) for s, pad in zip(starts, pads, strict=True)]
        target = sent([[place, *columns] for place, columns in zip(places, slots, strict=True)], self._device)
        return Places(side_by_side if together else target[:, 0], (target[:, :1], target[:, 1:]), seen, least)

    def _fill_in(self, ids: Tensor, rows: Sequence[Row], foreseen: Foreseen) -> None:
        """Puts the foreseen ids in the last column of ids, int64[rows, columns]."""
        at = [i for i, row in enumerate(rows) if row in foreseen.places]
        known = [foreseen.places[rows[i]] for i in at]
        if at:
            where = sent([at, known], self._device)
            ids[where[0], -1] = foreseen.ids[where[1]].clamp(min=0)

    def _masks(self, positions: Tensor, seen: int) -> Tensor | dict[str, Tensor]:
        """What each query sees, [rows, 1, columns, seen]; by kind of layer where there are several."""
        query = positions[:, None, :, None]
        slot = torch.arange(seen, device=positions.device)
        masks = {}
        for kind, window in self._windows.items():
            mask = slot <= query
            if kind == "sliding_attention" and window is not None:
                mask &= slot > query - window
            elif kind == "chunked_attention" and window is not None:
                mask &= slot // window == query // window
            masks[kind] = self._as_float(mask) if self._float else mask
        return masks if len(masks) > 1 else next(iter(masks.values()))

    def _as_float(self, mask: Tensor) -> Tensor:
        dtype = self._module.dtype
        return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, torch.finfo(dtype).min)


def _is_begun(row: Row) -> bool:
    """May the row be read as text from where it stands? A prompt with inputs is read by itself."""
    return row.inputs is None or row.valid > 0


def _twins(rows: Sequence[Row]) -> dict[int, int]:
    """Rows that start with what an earlier one starts with: they are read once, and copied."""
    first: dict[tuple[int, ...], int] = {}
    fresh = {i: (id(row.inputs), *row.ids) for i, row in enumerate(rows) if row.valid == 0}
    return {i: first[ids] for i, ids in fresh.items() if first.setdefault(ids, i) != i}


def _groups(rows: Sequence[Row], spare: int) -> list[list[int]]:
    """Indexes of rows that are read together: all with few pending tokens; of others as many as are not too much.

    Rows with one pending token are read by themselves where beside others they would cost more than `spare` tokens of
    padding.
    """
    pending = [len(row.ids) - row.valid for row in rows]
    short = [i for i, count in enumerate(pending) if count <= SHORT]
    padding = len(short) * max((pending[i] for i in short), default=0) - sum(pending[i] for i in short)
    groups = [short]
    if padding > spare:
        groups = [[i for i in short if pending[i] == 1], [i for i in short if pending[i] > 1]]
    long: list[list[int]] = []
    widest = 0
    for i in (i for i, count in enumerate(pending) if count > SHORT):
        widest = max(widest, pending[i])
        if not long or widest * (len(long[-1]) + 1) > MOST_READ:
            long.append([])
            widest = pending[i]
        long[-1].append(i)
    return [group for group in groups + long if group]
