"""From logits and masks to one token per row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from structgen.decoding.choosing.device_masks import MaskRows, apply_masks
from structgen.decoding.choosing.logits_processors import processed
from structgen.decoding.choosing.masking import FEW, count, existing
from structgen.decoding.choosing.penalties import Penalties, penalise, penalties
from structgen.decoding.choosing.sampling import KEEP, NOTHING, UNDECIDED, Sampler, Scores, pick
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
    prompt: Sequence[int] = ()  # token ids before the row's own, for the penalty on repetition and processors
    tokens: Sequence[int] = ()  # the row's own, for all penalties and processors


class Drawn:
    """One step's choice, made on the host.

    Attributes:
        ids: the chosen tokens on the logits' device, int64[rows]; negative where there is none, or none yet.
        errors: of the rows whose processors failed: they have no token.
        by_host: rows that the host has decided though the logits are on a device: their `ids` are negative. Known
            behind `tokens`.
    """

    def __init__(self, ids: Tensor, errors: Mapping[int, CallbackError]) -> None:
        self.ids, self.errors = ids, errors
        self.by_host: list[int] = []

    @property
    def masks(self) -> Tensor | None:
        """The masks on the device, int32[rows, words]; None where they are on the host. Only until the next step."""
        return None

    def tokens(self) -> list[int]:
        """The chosen token of each row, or `NOTHING` where no allowed token has a finite logit. Waits for it."""
        tokens: list[int] = self.ids.tolist()
        return tokens


class HostChooser:
    """For logits in the host's memory: row by row in numpy, each in its cheapest way."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._existing = existing(vocabulary)

    def draw(self, logits: Tensor, asks: Sequence[Ask]) -> Drawn:
        """Applies each row's penalties and mask to its logits, which stay as they are, and draws its token.

        Args:
            logits: float[rows, width] of any dtype; columns beyond the vocabulary's are left out already.
        """
        scores = logits.float()
        if any(ask.sampling.penalises for ask in asks):
            scores = scores.clone()
            penalise(scores, *map(torch.from_numpy, _penalties(asks, scores.shape[1])))
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
        if count(words) <= FEW:  # the vocabulary's width is not touched again
            ids = ids_of(words)
            column = pick(scores[ids], sampling, uniform) if len(ids) else NOTHING
            return int(ids[column]) if column >= 0 else column
        if sampling.greedy:
            likeliest = pick(scores, sampling, uniform)
            if likeliest >= 0 and words[likeliest >> 5] >> np.uint32(likeliest & 31) & 1:
                return likeliest
        return pick(np.where(bits_of(words, len(scores)), scores, np.float32(-np.inf)), sampling, uniform)


def logits_error(
    logits: Tensor, words: Words | None, vocabulary: Vocabulary, said: str, step: int
) -> LogitsError | None:
    """The error of the first token whose logit is NaN or plus infinity; None where no logit is.

    Args:
        logits: float[width], of the model. They are copied to the host: ask only where no token could be chosen.
        words: the tokens that are looked at, uint32[words]; None looks at all.
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
    """For logits on an accelerator: all rows at once, by one copy up and one down; only the latter is waited for.

    Attributes:
        rows: the masks that are on the device.
    """

    def __init__(self, vocabulary: Vocabulary, device: torch.device) -> None:
        self._device, self._width = device, vocabulary.width
        self._precise = np.float32 if device.type == "mps" else np.float64  # which has no float64
        self.rows = MaskRows(vocabulary, device)
        self._sampler = Sampler([], KEEP)
        self._penalises = self._processes = False  # of the sampler's rows, is any penalised, or processed?
        self._sent: tuple[list[int], Tensor] = [], torch.empty(0)  # the last step's masks, by their rows

    def draw(self, logits: Tensor, asks: Sequence[Ask]) -> Drawn:
        rows = [ask.sampling for ask in asks]
        if rows != self._sampler.rows:  # mostly they are those of the last step
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
        return _DrawnOnDevice(ids, scores, asks, (self.rows.table, numbers), self._sampler, errors)

    def _send(self, asks: Sequence[Ask]) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Sends what is not on the device yet, all by one copy, and puts new masks in their rows.

        Returns:
            int32[rows], the mask of each; what the sampler draws with; the penalties.
        """
        numbers, new, words = self.rows.places([ask.words for ask in asks])
        masks = [] if numbers == self._sent[0] else [np.array(numbers, np.int32)]
        writing: list[NDArray[Any]] = [new, words] if len(new) else []
        points = np.array([ask.uniform for ask in asks], self._precise) if self._sampler.draws else None
        drawing = [] if points is None else [points, self._sampler.table]
        entries = _penalties(asks, self._width) if self._penalises else None
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
    """Has the processors of all rows change their scores; a row whose processors fail has none left."""
    errors = dict[int, CallbackError]()
    for row, ask in enumerate(asks):
        if ask.sampling.processors:
            try:
                scores[row] = processed(scores[row], ask.sampling, ask.prompt, ask.tokens)
            except CallbackError as error:
                errors[row] = error
                scores[row] = -torch.inf
    return errors


class _DrawnOnDevice(Drawn):
    """A choice that a device makes, perhaps still."""

    def __init__(
        self,
        ids: Tensor,
        scores: Tensor,
        asks: Sequence[Ask],
        masks: tuple[Tensor, Tensor],
        sampler: Sampler,
        errors: Mapping[int, CallbackError],
    ) -> None:
        super().__init__(ids, errors)
        self._scores, self._asks, self._masks, self._sampler = scores, asks, masks, sampler
        self._download = Download(ids)

    @property
    def masks(self) -> Tensor:
        table, numbers = self._masks
        return table.index_select(0, numbers.long())

    def tokens(self) -> list[int]:
        """See `Drawn`. What the device could not decide is picked here: the row's scores come to the host for it."""
        tokens: list[int] = self._download.numbers()
        self.by_host = [row for row, token in enumerate(tokens) if token == UNDECIDED]
        if self.by_host:
            self._sampler.widen()
        for row in self.by_host:
            ask = self._asks[row]
            tokens[row] = pick(self._scores[row].cpu().numpy(), ask.sampling, ask.uniform)
        return tokens


def _penalties(asks: Sequence[Ask], width: int) -> Penalties:
    return penalties([a.sampling for a in asks], [a.prompt for a in asks], [a.tokens for a in asks], width)


Chooser = HostChooser | DeviceChooser


def chooser_for(vocabulary: Vocabulary, device: torch.device) -> Chooser:
    return HostChooser(vocabulary) if device.type == "cpu" else DeviceChooser(vocabulary, device)
