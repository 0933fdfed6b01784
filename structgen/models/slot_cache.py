"""A model over a KV cache in which a token's slot is its position in its row, so that going back costs nothing.

Each row writes to its own next slots, so rows of one batch may read one token, several or none. Slots beyond a row's
newest token are stale and never seen: a query at position p sees slots up to p. The masks are ours, of four dimensions,
so a sliding window counts positions and not columns.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import Cache, CacheLayerMixin

from structgen.models.attention import Experts, attention_of
from structgen.models.layers import NOTHING, arguments_of, cache_option, empty_layer, kinds_of
from structgen.models.prefixes import Pieces

WINDOWED = {"sliding_attention", "chunked_attention"}
"""Kinds of layers that see only a part of what was read."""

TRASH = -1
"""The slot that padding is written to: the last one, as an index. No query sees it."""


@dataclass(slots=True)
class SlotPlaces:
    """Where one forward pass writes and what it sees.

    Attributes:
        rows: places of the rows, int64[rows] where they are not side by side.
        target: (rows, slots) of the new tokens, as slices, or as int64[rows, 1] and int64[rows, columns].
        seen: how many slots of each row are given to the attention.
        least: how many rows and slots there must be, the last slot for padding.
        copies: the same places on other devices, for layers that lie there; for one forward pass.
    """

    rows: slice | Tensor
    target: tuple[slice, slice] | tuple[Tensor, Tensor]
    seen: int
    least: tuple[int, int]
    copies: dict[torch.device, SlotPlaces] = field(default_factory=dict)

    def on(self, device: torch.device) -> SlotPlaces:
        """The places with their numbers on a layer's device."""
        lines, slots = self.target
        if isinstance(lines, slice) or isinstance(slots, slice) or lines.device == device:
            return self
        if device not in self.copies:  # by hand: a cached method is a cycle, which would hold the tensors for a while
            rows = self.rows if isinstance(self.rows, slice) else self.rows.to(device, non_blocking=True)
            target = lines.to(device, non_blocking=True), slots.to(device, non_blocking=True)
            self.copies[device] = replace(self, rows=rows, target=target, copies={})
        return self.copies[device]

    @property
    def start(self) -> int:
        """How many slots were filled before; for rows that are not alike, how many are filled afterwards."""
        return self.target[1].start if isinstance(self.target[1], slice) else self.seen


class SlotLayer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """One layer's cache.

    Attributes:
        kept: keys and values, each [rows, heads, slots, dim]; empty before the first tokens.
        generation: how often these tensors were replaced by new ones.
    """

    is_compileable = False  # True would forbid reading a prompt without a mask
    is_sliding = False  # windows are in our masks

    def __init__(self, places: list[SlotPlaces]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._places = places
        self.kept: list[Tensor] = []
        self.generation = 0

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Makes tensors like these with the room of the present places, which `reserve` replaces by larger ones."""
        self.dtype, self.device, (rows, slots) = key_states.dtype, key_states.device, self._places[0].least
        keys = key_states.new_zeros((rows, key_states.shape[1], slots, key_states.shape[3]))
        self.kept = [keys, value_states.new_zeros((rows, value_states.shape[1], slots, value_states.shape[3]))]
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Writes the new tokens' keys and values, [rows, heads, columns, dim]; returns all that may be seen."""
        places = self._places[0]
        rows, slots = places.target
        if not isinstance(slots, slice):
            places = places.on(key_states.device)
            rows, slots = places.target
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        if self.kept[0].shape[0] < places.least[0] or self.kept[0].shape[2] < places.least[1]:
            self.reserve(*places.least)
        keys, values = self.kept
        alike = isinstance(slots, slice)
        keys[rows, :, slots] = key_states if alike else key_states.transpose(1, 2)
        values[rows, :, slots] = value_states if alike else value_states.transpose(1, 2)
        return keys[places.rows, :, : places.seen], values[places.rows, :, : places.seen]

    def reserve(self, rows: int, slots: int) -> None:
        """Makes room for this many rows and slots, in a layer that is initialised."""
        if self.kept[0].shape[0] < rows or self.kept[0].shape[2] < slots:
            self.kept = [_grown(old, rows, slots) for old in self.kept]
            self.generation += 1

    def move(self, place: int, to: int, slots: slice = slice(None)) -> None:
        """Copies a row, or some slots of it, to another place."""
        for room in self.kept:
            room[to, :, slots] = room[place, :, slots]

    def put(self, place: int, slots: slice, pieces: Sequence[Tensor]) -> None:
        """Writes keys and values, [heads, slots, dim] each, into some slots of a row."""
        for room, piece in zip(self.kept, pieces, strict=True):
            room[place, :, slots] = piece

    def clear(self, place: int) -> None:
        """Zeroes a place that a row has left: attention weights of 0 would not hide a not-a-number in it."""
        for room in self.kept:
            room[place : place + 1] = 0

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """How many slots are seen, and the first of them."""
        return self._places[0].seen, 0

    def get_seq_length(self) -> int:
        """How many slots were filled before; models ask whether there are any."""
        return self._places[0].start if self.is_initialized else 0

    def get_max_length(self) -> int:
        """There is no bound."""
        return -1

    get_max_cache_shape = get_max_length  # as older releases of transformers call it


def _grown(old: Tensor, rows: int, slots: int) -> Tensor:
    """A tensor of at least these rows and slots: the old content, and zeros, since unseen slots must be numbers."""
    rows, slots = max(rows, old.shape[0]), max(slots, old.shape[2])
    if slots > old.shape[2]:
        slots = max(slots, old.shape[2] * 3 // 2)
    grown = old.new_zeros((rows, old.shape[1], slots, old.shape[3]))
    grown[: old.shape[0], :, : old.shape[2]] = old
    return grown


class SlotModel:
    """A causal model as a function of tensors, with the cache that it writes.

    It does not keep the model alive: whoever runs it does.

    Args:
        module: a model that `takes_slots`.

    Attributes:
        layers: those that keep keys and values.
        tells_prompts: the model wants to know which of a row's ids are its prompt.
    """

    def __init__(self, module: PreTrainedModel) -> None:
        kinds, accepted = kinds_of(module), arguments_of(module)
        self._module = weakref.ref(module)
        self._dtype = module.dtype
        self._windows = {kind: window if kind in WINDOWED else None for kind, window in kinds if kind != NOTHING}
        self._float = attention_of(module) == "eager"
        self._experts = Experts(module)
        self._places: list[SlotPlaces] = [SlotPlaces(slice(0), (slice(0), slice(0)), 0, (0, 0))]
        self._cache = Cache(layers=[self._layer(kind) for kind, _ in kinds])
        self.layers = [layer for layer in self._cache.layers if isinstance(layer, SlotLayer)]
        self._cache_option = cache_option(module, self._cache)
        self._takes_positions = "position_ids" in accepted
        self.options = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}
        self.tells_prompts = "prompt_tokens" in accepted

    @property
    def nbytes(self) -> int:
        """Bytes of the cache."""
        return sum(room.nbytes for layer in self.layers for room in layer.kept)

    def __call__(
        self, ids: Tensor, positions: Tensor, slots: Tensor, places: SlotPlaces, *, last: int = 1, **options: Any
    ) -> Tensor:
        """The logits after each of the last columns: float[rows, last, width].

        Args:
            ids: int64[rows, columns].
            positions: of the ids in the model's own counting, int64[rows, columns].
            slots: the last slot that each id sees, int64[rows, columns]; its own, except for padding.
            places: where their keys and values go.
            options: further arguments of the model.
        """
        module: Any = self._module()
        self._places[0] = places
        places.copies.clear()  # a static step's places are tensors whose numbers change
        options |= dict.fromkeys(self.options, last)
        if self._takes_positions:
            options["position_ids"] = positions
        with self._experts.reading(ids.shape[1]):
            output = module(
                input_ids=ids,
                attention_mask=self._masks(slots, places),
                use_cache=True,
                return_dict=True,
                **self._cache_option,
                **options,
            )
        logits: Tensor = output.logits[:, -last:]
        return logits

    def adopt(self, cache: Cache, places: SlotPlaces, row: int = 0, pad: int = 0) -> None:
        """Copies the keys and values of one row from a cache of transformers, from the row's first slot on.

        Args:
            pad: how many of the row's first keys are padding's.
        """
        self._places[0] = places
        kept: Any = cache.layers
        for layer, theirs in zip(self._cache.layers, kept, strict=False):  # the last ones may keep nothing
            if isinstance(layer, SlotLayer):
                layer.update(theirs.keys[row : row + 1, :, pad:], theirs.values[row : row + 1, :, pad:])

    @property
    def token_bytes(self) -> int:
        """Bytes of one token's keys and values; 0 before the first tokens."""
        rooms = [room for layer in self.layers for room in layer.kept]
        return sum(room.element_size() * room.shape[1] * room.shape[3] for room in rooms)

    def pieces(self, place: int, slots: slice) -> Pieces:
        """Copies of the keys and values in some slots of a row."""
        return [room[place, :, slots].clone() for layer in self.layers for room in layer.kept]

    def put(self, place: int, parts: Sequence[Pieces], least: tuple[int, int]) -> None:
        """Writes pieces into the first slots of a row.

        Args:
            least: how many rows and slots there must be.
        """
        for number, layer in enumerate(self.layers):
            start = 0
            for part in parts:
                pieces = part[2 * number : 2 * number + 2]
                if not layer.is_initialized:
                    layer.lazy_initialization(*(piece[None] for piece in pieces))
                layer.reserve(*least)
                layer.put(place, slice(start, start + pieces[0].shape[1]), pieces)
                start += pieces[0].shape[1]

    def _layer(self, kind: str) -> Any:
        return empty_layer() if kind == NOTHING else SlotLayer(self._places)

    def needs_masks(self, seen: int) -> bool:
        """Does some layer need a mask where the first `seen` tokens of rows are read at once?"""
        return not all(self._is_causal(window, seen) for window in self._windows.values())

    def _is_causal(self, window: int | None, seen: int) -> bool:
        """Is torch's own causal mask right, without one of ours: no window is shorter, and it is torch's attention?"""
        return not self._float and (window is None or seen < window)

    def _masks(self, slots: Tensor, places: SlotPlaces) -> Any:
        """What each query sees, [rows, 1, columns, seen], of one row where all are alike; by kind of layer where
        there are several. None where rows are read from their beginning and torch's causal mask is right."""
        seen, target = places.seen, places.target[1]
        alike = isinstance(target, slice)  # all rows read the same slots, without padding
        begins = isinstance(target, slice) and target.start == 0
        query = (slots[:1] if alike else slots)[:, None, :, None]
        slot = torch.arange(seen, device=slots.device)
        masks: dict[str, Tensor | None] = {}
        for kind, window in self._windows.items():
            if begins and self._is_causal(window, seen):
                masks[kind] = None
                continue
            mask = slot <= query
            if window is not None and kind == "sliding_attention":
                mask &= slot > query - window
            elif window is not None:
                mask &= slot // window == query // window
            masks[kind] = self._added(mask) if self._float else mask
        return masks if len(masks) > 1 else next(iter(masks.values()))

    def _added(self, mask: Tensor) -> Tensor:
        """A mask of booleans as the numbers that eager attention adds."""
        zeros = torch.zeros(mask.shape, dtype=self._dtype, device=mask.device)
        return zeros.masked_fill(~mask, torch.finfo(self._dtype).min)
