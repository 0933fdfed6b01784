"""From logits and masks to one token per row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from structgen.decoding.choosing.masking import FEW, MaskRows, apply_masks, count
from structgen.decoding.choosing.sampling import KEEP, NOTHING, UNDECIDED, Sampler, Scores, pick
from structgen.decoding.choosing.scores import Penalties, penalise, penalties, processed
from structgen.errors import CallbackError, LogitsError, quoted
from structgen.masks.words import Words, bits_of, ids_of
from structgen.models.transfer import Download, upload
from structgen.options import Sampling
from structgen.vocabulary import Vocabulary


class Ask(NamedTuple):
    """What one row wants of its logits."""

    words: Words | None  # the allowed tokens, uint32[words]; None allows every token that exists
    sampling: Sampling  # the row's options
    uniform: float = 0.0  # its next random number in [0, 1); 0 for greedy rows
    prompt: Sequence[int] = ()  # token ids before the row's own, for the repetition penalty and processors
    tokens: Sequence[int] = ()  # the row's own, for all penalties and processors
    counted: tuple[Sequence[int], Sequence[int]] | None = None  # those of both that penalties count; None for all


@dataclass(eq=False)
class Drawn:
    """One step's choice, made on the host.

    Attributes:
        ids: the chosen tokens on the logits' device, int64[rows]; negative if there is none, or none yet.
        errors: the errors of the rows whose processors failed. They have no token.
        by_host: the rows that the host has decided though the logits are on a device: their `ids` are negative. Known
            after `tokens`.
    """

    ids: Tensor
    errors: Mapping[int, CallbackError]
    by_host: list[int] = field(default_factory=list, init=False)

    @property
    def masks(self) -> Tensor | None:
        """The masks on the device, int32[rows, words]; None if they are on the host. Only until the next step."""
        return None

    def tokens(self) -> list[int]:
        """The chosen token of each row, or `NOTHING` if no allowed token has a finite logit. Waits for the device."""
        tokens: list[int] = self.ids.tolist()
        return tokens


class HostChooser:
    """Chooses from logits in the host's memory: row by row in numpy, each in the cheapest way."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        tokens = vocabulary.existing
        self._existing = None if count(tokens) == vocabulary.width else tokens

    def draw(self, logits: Tensor, asks: Sequence[Ask]) -> Drawn:
        """Draws each row's token, after its penalties and mask. The logits stay as they are.

        Args:
            logits: float[rows, width] of any dtype; columns beyond the vocabulary's are left out already.
        """
        scores = logits.float()
        for ask in asks:
            if (ask.prompt or ask.tokens) and ask.sampling.penalises:
                scores = scores.clone()
                penalise(scores, *map(torch.from_numpy, penalties_of(asks, scores.shape[1])))
                break
        errors = dict[int, CallbackError]()
        tokens = []
        for row, (own, ask) in enumerate(zip(scores.numpy(), asks, strict=True)):
            try:
                tokens.append(self._choose(own, ask))
            except CallbackError as error:
                errors[row] = error
                tokens.append(NOTHING)
        return Drawn(torch.tensor(tokens), errors)

    def _choose(self, scores: Scores, ask: Ask) -> int:
        words, sampling, uniform = self._existing if ask.words is None else ask.words, ask.sampling, ask.uniform
        if sampling.processors:
            masked = scores if words is None else np.where(bits_of(words, len(scores)), scores, np.float32(-np.inf))
            changed = processed(torch.from_numpy(masked), sampling, ask.prompt, ask.tokens)
            return pick(changed.numpy(), sampling, uniform)
        if words is None:
            return pick(scores, sampling, uniform)
        if count(words) <= FEW:
            ids = ids_of(words)
            column = pick(scores[ids], sampling, uniform) if len(ids) else NOTHING
            return int(ids[column]) if column >= 0 else column
        if sampling.temperature == 0:
            likeliest = pick(scores, sampling, uniform)
            if likeliest >= 0 and words[likeliest >> 5] >> np.uint32(likeliest & 31) & 1:
                return likeliest
        return pick(np.where(bits_of(words, len(scores)), scores, np.float32(-np.inf)), sampling, uniform)


def logits_error(
    logits: Tensor, words: Words | None, vocabulary: Vocabulary, said: str, step: int
) -> LogitsError | None:
    """The error of the first token whose logit is NaN or plus infinity; None if there is none.

    Args:
        logits: float[width], of the model. They are copied to the host.
        words: the tokens to check, uint32[words]; None checks all.
        said: the text so far, for the message.
    """
    scores = logits.float().cpu().numpy()
    broken = np.isnan(scores) | np.isposinf(scores)
    if words is not None:
        broken &= bits_of(words, len(scores))
    token = int(broken.argmax())
    if not broken[token]:
        return None
    kind = "not numbers" if np.isnan(scores[token]) else "infinite"
    where = f"after {quoted(said)}, at step {step} of its text,"
    which = f"{scores[token]} for token id {token} ({vocabulary.token(token)!r})"
    remedy = "float16 may overflow: load the model in bfloat16 or float32; else its weights may be damaged"
    return LogitsError(f"{where} the model's logits are {kind}: {which}; {remedy}", token, step)


class DeviceChooser:
    """Chooses from logits on an accelerator: all rows at once, with one copy to the device and one back.

    It waits only for the copy back.

    Attributes:
        rows: the masks on the device.
    """

    def __init__(self, vocabulary: Vocabulary, device: torch.device) -> None:
        self._device, self._width = device, vocabulary.width
        self._precise = np.float32 if device.type == "mps" else np.float64  # mps has no float64
        self.rows = MaskRows(vocabulary, device)
        self._sampler = Sampler([], KEEP)
        self._penalises = self._processes = False  # does any of the sampler's rows have penalties, or processors?
        self._sent: tuple[list[int], Tensor] = [], torch.empty(0)  # the last step's mask numbers

    def draw(self, logits: Tensor, asks: Sequence[Ask]) -> Drawn:
        rows = [ask.sampling for ask in asks]
        if rows != self._sampler.rows:  # mostly the rows are those of the last step
            self._sampler = Sampler(rows, self._sampler.keep)
            self._penalises = any(sampling.penalises for sampling in rows)
            self._processes = any(sampling.processors for sampling in rows)
        numbers, drawing, penalties = self._send(asks)
        scores = logits.to(torch.float32, copy=True)
        if penalties:
            penalise(scores, *penalties)
        apply_masks(scores, self.rows.table, numbers, self._width)
        errors = _process(scores, asks) if self._processes else {}
        ids = self._sampler.draw(scores, *drawing)
        return _DrawnOnDevice(ids, errors, scores, asks, self.rows.table, numbers, self._sampler)

    def _send(self, asks: Sequence[Ask]) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Sends what is not on the device yet in one copy, and writes new masks to their rows.

        Returns:
            int32[rows], the mask of each; the arguments of `Sampler.draw`; the penalties.
        """
        numbers, new, words = self.rows.places([ask.words for ask in asks])
        masks = [] if numbers == self._sent[0] else [np.array(numbers, np.int32)]
        writing: list[NDArray[Any]] = [new, words] if len(new) else []
        points = np.array([ask.uniform for ask in asks], self._precise) if self._sampler.draws else None
        drawing = [] if points is None else [points, self._sampler.table]
        entries = penalties_of(asks, self._width) if self._penalises else None
        penalties: list[NDArray[Any]] = [] if entries is None or not len(entries.rows) else list(entries)
        groups: list[list[NDArray[Any]]] = [masks, writing, drawing, penalties]
        parts = iter(upload([part for group in groups for part in group], self._device) if any(groups) else ())
        sent = [list(islice(parts, len(group))) for group in groups]
        if writing:
            self.rows.write(*sent[1])
        if masks:
            self._sent = numbers, sent[0][0]
        return self._sent[1], sent[2], sent[3]


def _process(scores: Tensor, asks: Sequence[Ask]) -> dict[int, CallbackError]:
    """Applies the processors of all rows to their scores. A row whose processors fail gets only `-inf`."""
    errors = dict[int, CallbackError]()
    for row, ask in enumerate(asks):
        if ask.sampling.processors:
            try:
                scores[row] = processed(scores[row], ask.sampling, ask.prompt, ask.tokens)
            except CallbackError as error:
                errors[row] = error
                scores[row] = -torch.inf
    return errors


@dataclass(eq=False)
class _DrawnOnDevice(Drawn):
    """A choice that a device is perhaps still making."""

    scores: Tensor
    asks: Sequence[Ask]
    table: Tensor  # of masks
    numbers: Tensor  # the table's row for each row of the scores
    sampler: Sampler

    def __post_init__(self) -> None:
        self._download = Download(self.ids)

    @property
    def masks(self) -> Tensor:
        return self.table.index_select(0, self.numbers.long())

    def tokens(self) -> list[int]:
        """See `Drawn`. What the device could not decide is picked on the host, from the row's scores."""
        tokens: list[int] = self._download.numbers()
        self.by_host = [row for row, token in enumerate(tokens) if token == UNDECIDED]
        if self.by_host:
            self.sampler.widen()
        for row in self.by_host:
            ask = self.asks[row]
            tokens[row] = pick(self.scores[row].cpu().numpy(), ask.sampling, ask.uniform)
        return tokens


def penalties_of(asks: Sequence[Ask], width: int) -> Penalties:
    """The penalties of each row, see `penalties`."""
    return penalties([a.sampling for a in asks], [a.counted or (a.prompt, a.tokens) for a in asks], width)


Chooser = HostChooser | DeviceChooser


def chooser_for(vocabulary: Vocabulary, device: torch.device) -> Chooser:
    return HostChooser(vocabulary) if device.type == "cpu" else DeviceChooser(vocabulary, device)
