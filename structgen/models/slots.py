"""The forward pass over slots: which rows are read together, and where each of them writes.

Rows lie side by side from place 0; when one leaves, the last one takes its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor
from transformers import PreTrainedModel

from structgen.models.attention import MASKED, attention_of
from structgen.models.grouping import MAX_READ, SHORT, beginnings, is_begun, portion, text_groups, twins_among
from structgen.models.layers import NOTHING, arguments_of, is_coupled, kinds_of
from structgen.models.multimodal import no_logits, prompt_groups, read_prompts
from structgen.models.prefixes import Remembered
from structgen.models.row import NOTHING as NO_BLOCK
from structgen.models.row import Foreseen, Forward, Row
from structgen.models.slot_cache import TRASH, SlotModel, SlotPlaces
from structgen.models.static import CHUNKS, StaticSteps, StepShape, planes, rounded, seen_bucket
from structgen.models.transfer import device_of, upload_one

ATTENTION = {"full_attention", "sliding_attention", "chunked_attention", NOTHING}
"""Kinds of layers whose cache is keys and values by position."""

GRAIN = 64
"""The number of slots is a multiple of this."""

WHOLE = 32_768
"""The most tokens of a row that are read at once without a mask."""

PART = 2048
"""The most tokens of a row that are read at once with a mask: it has a line for each, as long as all that is seen."""

DRAFTED = 256
"""The longest of several prompts that is read along with drafts: prompts of different lengths need a mask."""

SPARE = {"cpu": 32, "cuda": 512}
"""Tokens of padding that cost less than a forward pass of their own, by kind of device."""


def takes_slots(module: PreTrainedModel) -> bool:
    """Does the model's configuration allow a cache of our own? A probe has the last word."""
    config = module.config.get_text_config(decoder=True)
    return (
        not module.config.is_encoder_decoder
        and "position_ids" in arguments_of(module)
        and not getattr(config, "alibi", False)
        and not is_coupled(config)
        and attention_of(module) in MASKED
        and {kind for kind, _ in kinds_of(module)} <= ATTENTION
    )


class SlotForward(Forward):
    """Runs a causal model over rows of any lengths.

    Equal prompts that come together, as for several samples, are read once, and so is the common beginning of others.
    The beginning that a later prompt has in common with one that was read before is taken from `prefixes`.

    Args:
        module: a model that `takes_slots`.
        steps: over its slots, for reads of a few tokens; without them every read is of its own shape.
    """

    foresees = True
    kind = "slots"
    why_eager = "no static steps were asked for"

    def __init__(self, module: PreTrainedModel, steps: StaticSteps | None = None) -> None:
        self._module = module
        self._device = device_of(module)
        self._steps = steps
        self._model = SlotModel(module) if steps is None else steps.model
        if steps is not None:
            self.why_eager = steps.why_not
        self._spare = SPARE.get(self._device.type, SPARE["cuda"])
        self.reads_parts = not self._model.tells_prompts
        self._place: dict[Row, int] = {}

    def read(self, rows: Sequence[Row], foreseen: Foreseen | None = None) -> Tensor:
        with self, NO_BLOCK if foreseen is None else foreseen.pending():
            return self._read(rows, foreseen)

    def read_part(self, row: Row, most: int) -> int:
        """See `Forward`."""
        with self:
            self._admit([row])
            if row.valid == 0:
                self._recall(row)
            if len(row.ids) - row.valid <= most:
                return 0
            self._run_each([row], [()], None, most)
            return most

    def portion(self, pending: Sequence[int]) -> int:
        """See `Forward`. Long texts take a pass of their own."""
        return portion(pending, self._spare) if max(pending) <= SHORT else max(pending)

    def columns_for(self, rows: Sequence[Row]) -> int:
        """See `Forward`. 0 where some rows have much to read and others little, or several begin alike.

        Static steps take no drafts, nor does a model that gives one column of logits.
        """
        if self._steps is not None or "logits_to_keep" not in self._model.options:
            return 0
        pending = [len(row.ids) - row.valid for row in rows]
        longest = max(pending)
        fresh = [row for row in rows if row.valid == 0]
        if fresh and (not all(map(is_begun, fresh)) or twins_among(fresh) or (longest > DRAFTED and len(rows) > 1)):
            return 0
        if longest > SHORT and min(pending) <= SHORT:
            return 0
        columns = longest + self._spare // len(rows)
        if longest <= SHORT:
            columns = min((self._spare + sum(pending)) // len(rows), SHORT)
        return columns if columns >= longest and columns * len(rows) <= MAX_READ else 0

    def read_drafted(self, rows: Sequence[Row], drafts: Sequence[Sequence[int]]) -> Tensor:
        with self:
            self._admit(rows)
            if fresh := [row for row in rows if row.valid < row.given]:
                self._begin_known([row for row in fresh if row.valid == 0])
                self._run_parts(rows)
            logits = self._run_each(rows, drafts, None)
        for row in fresh:
            self._remember(row, min(row.valid, row.given))
        return logits

    def _read(self, rows: Sequence[Row], foreseen: Foreseen | None) -> Tensor:
        """Reads the rows group by group; a row that begins as another does is copied from that one."""
        self._admit(rows)
        new = [row for row in rows if row.valid < row.given]
        if not new and (len(rows) == 1 or len(text_groups(rows, self._spare)) == 1):
            return self._run(rows, foreseen)
        twins = {} if self._model.tells_prompts else twins_among(rows)
        leaders = [row for i, row in enumerate(rows) if i not in twins]
        if not self._model.tells_prompts:
            self._begin_known([row for row in leaders if row.valid == 0])
        begun, fresh = [row for row in leaders if is_begun(row)], [row for row in leaders if not is_begun(row)]
        text = [[begun[i] for i in group] for group in text_groups(begun, self._spare)]
        prompts = [[fresh[i] for i in group] for group in prompt_groups(fresh, self._spare)]
        parts = [self._run(group, foreseen) for group in text] + [self._begin_together(group) for group in prompts]
        for i, leader in twins.items():
            self._copy(rows[leader], rows[i])
            rows[i].valid = len(rows[i].ids)
            rows[i].shift, rows[i].error = rows[leader].shift, rows[leader].error
            rows[i].cached = rows[leader].cached
        for row in leaders:
            if row in new:
                self._remember(row, min(row.valid, row.given))
        line = {row: number for number, row in enumerate(row for group in text + prompts for row in group)}
        order = [line[rows[twins.get(i, i)]] for i in range(len(rows))]
        logits = parts[0] if len(parts) == 1 else torch.cat(parts)
        return logits if order == list(range(len(line))) else logits.index_select(0, upload_one(order, self._device))

    def _begin_known(self, rows: Sequence[Row]) -> None:
        """Takes the beginnings of new prompts that are remembered. Reads the common beginning of several once, where
        that saves more than a forward pass."""
        for row in rows:
            self._recall(row)
        for (leader, *others), length in beginnings(rows, self._spare):
            with leader.cut_to(length):
                self._run([leader], None)
            for row in others:
                self._copy(leader, row)
                row.valid = length

    def _recall(self, row: Row) -> None:
        """Takes the beginning of a new row's prompt that is remembered. Its last token is read in any case."""
        prefix = self.prefixes.lookup(row.ids[:-1]) if self.prefixes and row.inputs is None else Remembered()
        row.valid, row.cached = prefix.length, min(prefix.length, row.given)
        if prefix.length:
            self._model.put(self._place[row], prefix.pieces, self._least(len(row.ids)))

    def _remember(self, row: Row, length: int) -> None:
        """Remembers the first `length` ids of a row, which it has read. Images are not distinguished, so not theirs."""
        if self.prefixes and length and row.inputs is None and row.error is None and not self._model.tells_prompts:
            pieces = partial(self._model.pieces, self._place[row])
            self.prefixes.insert(row.ids[:length], pieces, self._model.token_bytes)

    def _copy(self, leader: Row, row: Row) -> None:
        for layer in self._model.layers:
            layer.move(self._place[leader], self._place[row])

    def fork(self, row: Row, twin: Row) -> None:
        """See `Forward`. What both have read already is not copied."""
        self._admit([twin])
        slots = slice(twin.follow(row), row.valid)
        for layer in self._model.layers:
            layer.reserve(len(self._place), 0)
            layer.move(self._place[row], self._place[twin], slots)

    def _admit(self, rows: Sequence[Row]) -> None:
        """Gives new rows the next places."""
        for row in rows:
            if row not in self._place:
                for layer in self._model.layers:
                    if layer.kept:
                        layer.clear(len(self._place))
                self._place[row] = len(self._place)

    def release(self, row: Row) -> None:
        """See `Forward`. What the row has read is remembered."""
        if row not in self._place:
            return
        self._remember(row, min(row.valid, len(row.ids)))
        place = self._place.pop(row)
        if place == len(self._place):
            return
        last = next(row for row, own in self._place.items() if own == len(self._place))
        for layer in self._model.layers:
            layer.move(len(self._place), place)
        self._place[last] = place

    def _begin_together(self, rows: Sequence[Row]) -> Tensor:
        """Reads prompts of one of the `prompt_groups`, by the model's own way and cache: float[rows, width]."""
        self.count += 1
        read = read_prompts(self._module, rows, self._model.options)
        if read is None and len(rows) > 1:
            return torch.cat([self._begin_together([row]) for row in rows])
        for row in rows:
            row.valid = row.given
        if read is None:
            return no_logits(self._module).unsqueeze(0)
        (logits, cache), width = read, max(row.given for row in rows)
        for number, row in enumerate(rows):
            self._model.adopt(cache, self._where([row], [0], [0], row.given, row.given), number, width - row.given)
        behind = [row for row in rows if row.pending]
        if not behind:
            return logits
        known = dict(zip(rows, logits, strict=True)) | dict(zip(behind, self._run(behind, None), strict=True))
        return torch.stack([known[row] for row in rows])

    def _run(self, rows: Sequence[Row], foreseen: Foreseen | None) -> Tensor:
        width = max([len(row.ids) - row.valid for row in rows])
        if width > PART:
            self._run_parts(rows)
        if self._steps is not None and self._steps.take(width):
            return self._run_static(self._steps, rows, foreseen, width)
        return self._run_each(rows, [()] * len(rows), foreseen)[:, 0]

    def _run_parts(self, rows: Sequence[Row]) -> None:
        """Reads all but the last part of each row that has too much pending to be read at once."""
        while long := [row for row in rows if len(row.ids) - row.valid > self._part(rows)]:
            self._run_each(long, [()] * len(long), None, self._part(rows))

    def _part(self, rows: Sequence[Row]) -> int:
        """The most tokens of each row that are read at once."""
        same = len({(row.valid, len(row.ids)) for row in rows}) == 1
        unmasked = same and rows[0].valid == 0 and not self._model.needs_masks(min(len(rows[0].ids), WHOLE))
        return WHOLE if unmasked else PART

    def _run_each(
        self, rows: Sequence[Row], drafts: Sequence[Sequence[int]], foreseen: Foreseen | None, part: int | None = None
    ) -> Tensor:
        """Reads what is pending, or this many tokens of it, and drafts: float[rows, 1 + longest draft, width]."""
        self.count += 1
        each = list[list[int]]()
        for row, draft in zip(rows, drafts, strict=True):
            each.append([*row.ids[row.valid :][:part], *draft])
        width, seen, starts, pads, ids, spans = max(map(len, each)), 0, [], [], [], []
        for row, own in zip(rows, each, strict=True):
            start, pad, end = row.valid, width - len(own), row.valid + len(own)
            starts.append(start)
            pads.append(pad)
            ids.append([0] * pad + own)
            spans.append([start] * pad + [*range(start, end)])
            seen = max(seen, end)
        inputs = upload_one([ids, spans], self._device)  # int64[2, rows, columns]: one copy to the device
        if foreseen is not None:
            self._fill_in(inputs[0], range(len(rows)), rows, foreseen)
        places, shifted = self._where(rows, starts, pads, width, seen), False
        for row in rows:
            row.valid = len(row.ids) if part is None else row.valid + part
            shifted = shifted or row.shift != 0
        positions = inputs[1]
        if shifted:
            positions = positions + upload_one([[row.shift] for row in rows], self._device)
        prompts = {"prompt_tokens": [row.given for row in rows]} if self._model.tells_prompts else {}
        last = 1 + max(map(len, drafts))
        return self._model(inputs[0], positions, inputs[1], places, last=last, **prompts)

    def _run_static(self, steps: StaticSteps, rows: Sequence[Row], foreseen: Foreseen | None, width: int) -> Tensor:
        """`_run` by a step of a rounded shape: rows by their places, or picked where few of many are read."""
        self.count += 1
        seen = max([len(row.ids) for row in rows])
        places = [self._place[row] for row in rows]
        picked = rounded(len(rows)) < rounded(max(places) + 1)
        lines = list(range(len(rows))) if picked else places
        shape = StepShape(rounded(max(lines) + 1), next(c for c in CHUNKS if c >= width), seen_bucket(seen), picked)
        step = steps.step(shape, max(places) + 1)
        step.inputs.copy_(upload_one(planes(rows, lines, places, shape), self._device))
        if foreseen is not None:
            self._fill_in(step.inputs[0], lines, rows, foreseen)
        for row in rows:
            row.valid = len(row.ids)
        replayed_before = steps.replays
        logits = steps.run(shape)  # the next run writes there
        self.replays += steps.replays - replayed_before
        self.why_eager = steps.why_not
        if lines == list(range(len(lines))):
            return logits[: len(lines)].clone()
        return logits.index_select(0, upload_one(lines, self._device))

    def _where(self, rows: Sequence[Row], starts: list[int], pads: list[int], width: int, seen: int) -> SlotPlaces:
        places = [self._place[row] for row in rows]
        least = self._least(seen)
        together = places == list(range(places[0], places[0] + len(places)))
        side_by_side = slice(places[0], places[0] + len(places))
        if together and not any(pads) and len(set(starts)) == 1:
            return SlotPlaces(side_by_side, (side_by_side, slice(starts[0], seen)), seen, least)
        slots = [[TRASH] * pad + list(range(s, s + width - pad)) for s, pad in zip(starts, pads, strict=True)]
        target = upload_one([[place, *columns] for place, columns in zip(places, slots, strict=True)], self._device)
        return SlotPlaces(side_by_side if together else target[:, 0], (target[:, :1], target[:, 1:]), seen, least)

    def _least(self, seen: int) -> tuple[int, int]:
        """How many rows and slots there must be where the longest row has `seen` tokens; the last is the trash slot."""
        return len(self._place), -(-(seen + 1) // GRAIN) * GRAIN

    def _fill_in(self, ids: Tensor, lines: Sequence[int], rows: Sequence[Row], foreseen: Foreseen) -> None:
        """Writes the foreseen ids into the last column of `ids`, int64[., columns]; `lines` are the rows' lines."""
        if len(lines) == len(foreseen.ids) and [foreseen.places.get(row) for row in rows] == list(lines):
            torch.clamp(foreseen.ids, min=0, out=ids[: len(lines), -1])  # all of them, in the same order
            return
        known = [(i, foreseen.places[row]) for i, row in zip(lines, rows, strict=True) if row in foreseen.places]
        if known:
            where = upload_one([list(side) for side in zip(*known, strict=True)], self._device)
            ids[where[0], -1] = foreseen.ids[where[1]].clamp(min=0)
