"""Rows of models that have recurrent states, alone or next to keys and values, side by side in one forward pass.

Keys and values lie in slots, as for any row. The states of the rows that are read together stay where the model writes
them, as long as the rows are the same. When they change, each row's states are put aside, and those of the next rows
are laid together.

A state has no past, and padding would change it. So a prompt is read by its row alone. After it, each forward pass
reads as many tokens as all rows have to read, where the model's states allow that (`recurrent`), else one. Going back
restores a copy of an earlier state and reads on from there; the row's slots are still right.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from structgen.models.attention import MASKED, attention_of
from structgen.models.grouping import MAX_READ, twins_among
from structgen.models.layers import (
    BOTH,
    KNOWS_STATES,
    NOTHING,
    STATES_ONLY,
    StateLayer,
    arguments_of,
    kinds_of,
    read_ids,
)
from structgen.models.multimodal import no_logits, read_prompt
from structgen.models.prefixes import LEAST
from structgen.models.recurrent import ONE_BY_ONE, Kept, ReadAhead
from structgen.models.row import Foreseen, Row
from structgen.models.slot_cache import SlotLayer, SlotModel, SlotPlaces
from structgen.models.slots import SlotForward
from structgen.models.transfer import upload_one

SLOTS_ONLY = {"full_attention"}
"""Kinds of layers that keep keys and values of all that was read."""

States = list[Tensor | None]
"""The states of one row in all layers, [1, ...] each; None where a layer has no such state."""


Settings = list[dict[str, Any]]
"""The attributes of each layer with states, as transformers sets them when a layer reads its first tokens."""

LEAST_SHARE = 16
"""Where tokens after a state are read one by one, at least this many remembered tokens must be there for each."""


class SlotAndStateLayer(StateLayer, SlotLayer):  # type: ignore[misc]
    """A layer with slots and states; its states are those of the rows that are read."""

    is_compileable = False

    def __init__(self, places: Any) -> None:
        SlotLayer.__init__(self, places)
        StateLayer.__init__(self)  # type: ignore[no-untyped-call]

    def lazy_initialization(self, *args: Any, **options: Any) -> None:
        """Makes room for keys and values (positional arguments), or for states (keyword arguments)."""
        if args:
            SlotLayer.lazy_initialization(self, *args)
        else:
            StateLayer.lazy_initialization(self, **options)


class HybridModel(SlotModel):
    """A `SlotModel` some of whose layers keep states."""

    def __init__(self, module: PreTrainedModel) -> None:
        super().__init__(module)
        self.recurrent = [layer for layer in self._cache.layers if isinstance(layer, StateLayer)]
        self.settings: Settings = []

    def adopt_states(self, cache: Any) -> States:
        """The states that a row left in a cache of its own. The first time, our layers are set up like that cache's."""
        pairs = zip(self._cache.layers, cache.layers, strict=True)  # older releases give layers without states one, too
        theirs = [other for ours, other in pairs if isinstance(ours, StateLayer)]
        if not self.settings:
            self.set_up([{name: copy.copy(getattr(layer, name)) for name in vars(StateLayer())} for layer in theirs])
        return [states[i] for states, i in _cells(theirs)]

    def set_up(self, settings: Settings) -> None:
        """Sets our layers up like those of a cache that has states."""
        self.settings = settings
        for layer, its in zip(self.recurrent, settings, strict=True):
            for name, value in its.items():
                setattr(layer, name, copy.copy(value))

    def _layer(self, kind: str) -> Any:
        if kind in STATES_ONLY:
            return StateLayer()
        return SlotAndStateLayer(self._places) if kind in BOTH else super()._layer(kind)

    def _masks(self, slots: Tensor, places: SlotPlaces) -> dict[str, Any] | None:
        """By kind of layer; layers with states need no mask."""
        if not self.layers:
            return None
        mask = torch.arange(places.seen, device=slots.device) <= slots[:, None, :, None]
        mask = self._added(mask) if self._float else mask
        return dict.fromkeys(SLOTS_ONLY | BOTH, mask) | dict.fromkeys(STATES_ONLY)


def _cells(layers: Sequence[Any]) -> list[tuple[dict[int, Tensor | None], int]]:
    """The dict and the key of each state, in the same order for layers of the same kinds."""
    each = [states for layer in layers for states in (layer.conv_states, layer.recurrent_states)]
    return [(states, i) for states in each for i in sorted(states)]


def _first(snapshot: tuple[int, States]) -> int:
    return snapshot[0]


def takes_states(module: PreTrainedModel) -> bool:
    """Does the model's configuration allow slots and states of our own? A probe has the last word."""
    kinds = {kind for kind, _ in kinds_of(module)}
    return (
        KNOWS_STATES
        and not module.config.is_encoder_decoder
        and ("position_ids" in arguments_of(module) or not kinds & (SLOTS_ONLY | BOTH))
        and attention_of(module) in MASKED
        and bool(kinds & (STATES_ONLY | BOTH))
        and kinds <= SLOTS_ONLY | BOTH | STATES_ONLY | {NOTHING}
    )


class HybridForward(SlotForward):
    """Runs a causal model with recurrent states over rows of any lengths.

    Args:
        module: a model that `takes_states`.
        at_once: how many tokens after a state one forward pass reads.
    """

    foresees = False
    kind = "slots and states"
    cost = "tokens behind a state are read one by one"
    why_eager = "the model has recurrent states"

    def __init__(self, module: PreTrainedModel, *, at_once: ReadAhead = ONE_BY_ONE) -> None:
        super().__init__(module)
        self.reads_parts = at_once.chunk is not None
        self._at_once = at_once
        self._model: HybridModel = HybridModel(module)
        self._kept: dict[Row, Kept[States]] = {}
        self._loaded: list[Row] = []

    def _read(self, rows: Sequence[Row], foreseen: Foreseen | None) -> Tensor:
        logits: dict[Row, Tensor] = {}
        self._admit(rows)
        for row in rows:
            if row not in self._kept:
                self._kept[row] = Kept[States]([])
            if self._kept[row].length > row.valid:
                self._go_back(row)
        twins = twins_among(rows)
        leaders = [row for i, row in enumerate(rows) if i not in twins]
        new = [row for row in leaders if row.valid < row.given]
        for row in [row for row in leaders if self._kept[row].length == 0]:
            self._recall(row)
            if self._kept[row].length == 0:
                logits[row] = self._begin(row)[0]
        while behind := [row for row in leaders if self._kept[row].length < len(row.ids) and row.error is None]:
            logits |= zip(behind, self._step(behind), strict=True)
        for row in new:
            del self._kept[row].snapshots[:-1]  # those within the prompt
        for i, leader in twins.items():
            self._copy(rows[leader], rows[i])
            logits[rows[i]] = logits[rows[leader]]
        for row in rows:
            row.valid = len(row.ids)
        for row in new:
            if row.valid >= row.given:
                self._remember(row, row.given)
        return torch.stack([logits[row] for row in rows])

    def remembers(self, row: Row) -> int:
        """See `Forward`. There must be a state after it."""
        if self.prefixes is None or row.inputs is not None:
            return 0
        return self.prefixes.lookup(row.ids[:-1], stated=True).length

    def read_part(self, row: Row, most: int) -> int:
        """See `Forward`."""
        end = most + (row.valid or self.remembers(row))
        if len(row.ids) <= end:
            return 0
        with self, row.cut_to(end):
            self._read([row], None)
        return most

    def portion(self, pending: Sequence[int]) -> int:
        """See `Forward`. What a row has pending beyond the others takes a pass more, or one for each token."""
        least, most, rows = min(pending), max(pending), len(pending)
        longer = sum(count > least for count in pending)
        passes = 2 if self._at_once.columns(most - least, longer) > 1 else 1 + most - least
        whole = sum(pending) / (passes * self._spare + sum(pending))
        return least if least * rows / (self._spare + least * rows) >= whole else most

    def columns_for(self, rows: Sequence[Row]) -> int:
        """See `Forward`. 0: a state cannot go back after a wrong draft."""
        return 0

    def fork(self, row: Row, twin: Row) -> None:
        super().fork(row, twin)
        self._follow(row, twin)

    def release(self, row: Row) -> None:
        self._put_aside([row])
        super().release(row)
        self._kept.pop(row, None)

    def _recall(self, row: Row) -> None:
        """Takes the beginning of a new row's prompt that is remembered, up to the last state after it.

        Where the prompt branches off from others later, it is read up to there first: the next one finds a state.
        """
        row.cached = 0
        if self.prefixes is None or row.inputs is not None:
            return
        prefix = self.prefixes.lookup(row.ids[:-1], stated=True)
        if prefix.length and self._pays(row, prefix.length):
            states, settings = prefix.state
            if not self._model.settings:
                self._model.set_up(settings)
            self._model.put(self._place[row], prefix.pieces, self._least(len(row.ids)))
            self._put_aside([row])
            self._kept[row] = Kept(states, prefix.length, [(prefix.length, states)])
            row.cached = min(prefix.length, row.given)
        if prefix.known >= self._kept[row].length + LEAST and self._pays(row, prefix.known):
            with row.cut_to(prefix.known):
                if self._kept[row].length == 0:
                    self._begin(row)
                while self._kept[row].length < prefix.known:
                    self._step([row])
                self._remember(row, prefix.known)

    def _pays(self, row: Row, length: int) -> bool:
        """Is it cheaper to read a prompt from a state on than at once?"""
        return self._at_once.chunk is not None or (len(row.ids) - length) * LEAST_SHARE <= length

    def _remember(self, row: Row, length: int) -> None:
        """Remembers what a row has read, up to the last snapshot of at most `length` ids."""
        at, states = max((each for each in self._kept[row].snapshots if each[0] <= length), default=(0, []), key=_first)
        if self.prefixes is not None and at and row.inputs is None and row.error is None:
            size = sum(state.nbytes for state in states if state is not None)
            pieces, kept = partial(self._model.pieces, self._place[row]), (states, self._model.settings)
            self.prefixes.insert(row.ids[:at], pieces, self._model.token_bytes, kept, size)

    def _begin(self, row: Row) -> Tensor:
        """Reads a prompt by the model's own cache, which is taken over: float[1, width]."""
        cache: Any = DynamicCache(config=self._module.config)
        self.count += 1
        length = row.given if row.inputs is not None else len(row.ids)
        if row.inputs is not None:
            logits = read_prompt(self._module, row, cache, self._model.options)
        else:
            logits = read_ids(self._module, row.ids, 0, cache, **self._model.options)[-1:]
        if logits is None:
            return no_logits(self._module).unsqueeze(0)
        self._put_aside([row])
        states = self._model.adopt_states(cache)
        self._kept[row] = Kept(states, length, [(length, states)])
        self._model.adopt(cache, self._where([row], [0], [0], length, length))
        return logits

    def _copy(self, leader: Row, row: Row) -> None:
        """Copies the leader, which has just read its prompt, to a row with the same prompt."""
        super()._copy(leader, row)
        self._follow(leader, row)
        row.shift, row.error, row.cached = leader.shift, leader.error, leader.cached

    def _follow(self, leader: Row, row: Row) -> None:
        """Gives a row the states of another one. Copies are never written to, so rows may share them."""
        self._put_aside([leader, row])
        kept = self._kept[leader]
        self._kept[row] = replace(kept, snapshots=kept.snapshots.copy())

    def _step(self, rows: list[Row]) -> Tensor:
        """Reads as many tokens of each row as all of them have to read, or one: float[rows, width]."""
        self._load(rows)
        starts = [self._kept[row].length for row in rows]
        pending = min(len(row.ids) - start for row, start in zip(rows, starts, strict=True))
        columns = self._at_once.columns(min(pending, MAX_READ // len(rows)), len(rows))
        slots = [list(range(start, start + columns)) for start in starts]
        ids = [row.ids[start : start + columns] for row, start in zip(rows, starts, strict=True)]
        shifted = [[slot + row.shift for slot in its] for row, its in zip(rows, slots, strict=True)]
        inputs = upload_one([ids, shifted, slots], self._device)
        self.count += 1
        places = self._where(rows, starts, [0] * len(rows), columns, max(starts) + columns)
        logits = self._model(inputs[0], inputs[1], inputs[2], places)[:, 0]
        for line, row in enumerate(rows):
            self._kept[row].length += columns
            self._kept[row].add_snapshot_if_due(partial(self._states, line))
        return logits

    def _load(self, rows: list[Row]) -> None:
        """Lays the rows' states side by side, in their order."""
        if rows == self._loaded:
            return
        self._put_aside(self._loaded)
        for number, (states, i) in enumerate(_cells(self._model.recurrent)):
            parts = [part for row in rows if (part := self._kept[row].state[number]) is not None]
            states[i] = torch.cat(parts) if parts else None
        self._loaded = list(rows)

    def _put_aside(self, rows: Sequence[Row]) -> None:
        """Copies the loaded rows' states to each, where one of these rows is loaded."""
        if any(row in self._loaded for row in rows):
            for line, row in enumerate(self._loaded):
                self._kept[row].state = self._states(line)
            self._loaded = []

    def _states(self, line: int) -> States:
        """A copy of one row's states among those that are loaded."""
        loaded = [states[i] for states, i in _cells(self._model.recurrent)]
        return [None if state is None else state[line : line + 1].clone() for state in loaded]

    def _go_back(self, row: Row) -> None:
        """Restores the states after at most the first `row.valid` ids."""
        self._put_aside([row])
        kept = self._kept[row]
        kept.length, kept.state = kept.last_snapshot(row.valid) or (0, [])
