"""From logits and masks to one token per row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from structgen.decoding.choosing.device_masks import MaskRows, apply_masks
from structgen.decoding.choosing.logits_processors import processed
from structgen.decoding.choosing.masking import FEW, Words, bits_of, count, existing, ids_of
from structgen.decoding.choosing.penalties import Penalties, penalise, penalties
from structgen.decoding.choosing.sampling import KEEP, NOTHING, UNDECIDED, Sampler, Scores, pick
from structgen.errors import CallbackError, LogitsError, quoted
from structgen.models.transfer import Download, upload
from structgen.options import Sampling
from structgen.vocabulary import Vocabulary


class Ask(NamedTuple):
    """What one row wants of its logits.

    Attributes:
        words: the allowed tokens, uint32[words]; None allows every token that exists.
        way: the row's sampling options.
        uniform: its next random number in [0, 1); 0 for greedy rows.
        prompt: token ids before the row's own, for the penalty on repetition and processors.
        tokens: the row's own, for all penalties and processors.
    """

    words: Words | None
    way: Sampling
    uniform: float = 0.0
    prompt: Sequence[int] = ()
    tokens: Sequence[int] = ()


class Drawn(Protocol):
    """One step's choice, which may still be on its way."""

    @property
    def ids(self) -> Tensor:
        """The chosen tokens on the logits' device, int64[rows]; negative where there is none, or none yet."""

    @property
    def by_host(self) -> Sequence[int]:
        """Rows that the host has decided, whose `ids` are negative. Known behind `tokens`."""

    @property
    def masks(self) -> Tensor | None:
        """The masks on the device, int32[rows, words]; None where they are on the host. Only until the next step."""

    @property
    def errors(self) -> Mapping[int, CallbackError]:
        """Of rows whose processors failed: they have no token."""

    def tokens(self) -> list[int]:
        """The chosen token of each row, or `NOTHING` where no allowed token has a finite logit. Waits for it."""


class Chooser(Protocol):
    """Applies each row's penalties and mask to its logits and draws its token."""

    def draw(self, logits: Tensor, asks: Sequence[Ask]) -> Drawn:
        """What each row takes of its logits, which stay as they are.

        Args:
            logits: float[rows, width] of any dtype; columns beyond the vocabulary's are left out already.
            asks: one per row.
        """


def chooser_for(vocabulary: Vocabulary, device: torch.device) -> Chooser:
    """The way for the device that the logits are on."""
    return HostChooser(vocabulary) if device.type == "cpu" else DeviceChooser(vocabulary, device)


class HostChooser:
    """For logits in the host's memory: row by row in numpy, each by its cheapest way."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._existing = existing(vocabulary)

    def draw(self, logits: Tensor, asks: Sequence[Ask]) -> Drawn:
        """See `Chooser`."""
        scores = logits.float()
        if any(ask.way.penalises for ask in asks):
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
        return _OnHost(tokens, errors)

    def _choose(self, scores: Scores, ask: Ask) -> int:
        words, way, uniform = self._existing if ask.words is None else ask.words, ask.way, ask.uniform
        if way.processors:
            masked = scores if words is None else np.where(bits_of(words, len(scores)), scores, np.float32(-np.inf))
            return pick(processed(torch.from_numpy(masked), way, ask.prompt, ask.tokens).numpy(), way, uniform)
        if words is None:
            return pick(scores, way, uniform)
        if count(words) <= FEW:  # the vocabulary's width is not touched again
            ids = ids_of(words)
            column = pick(scores[ids], way, uniform) if len(ids) else NOTHING
            return int(ids[column]) if column >= 0 else column
        if way.greedy:
            likeliest = pick(scores, way, uniform)
            if likeliest >= 0 and words[likeliest >> 5] >> np.uint32(likeliest & 31) & 1:
                return likeliest
        return pick(np.where(bits_of(words, len(scores)), scores, np.float32(-np.inf)), way, uniform)


def logits_error(
    logits: Tensor, words: Words | None, vocabulary: Vocabulary, said: str, step: int
) -> LogitsError | None:
    """The error of the first token whose logit is NaN or plus infinity; None where no logit is.

    Args:
        logits: float[width], of the model. They are copied to the host: ask only where no token could be chosen.
        words: the tokens that are looked at, uint32[words]; None looks at all.
        vocabulary: of the model.
        said: the text so far, for the message.
        step: how many tokens it has.
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


class _OnHost:
    """A choice that was made on the host."""

    by_host: Sequence[int] = ()
    masks = None

    def __init__(self, tokens: list[int], errors: Mapping[int, CallbackError]) -> None:
        self._tokens, self.errors = tokens, errors

    @property
    def ids(self) -> Tensor:
        """See `Drawn`."""
        return torch.tensor(self._tokens)

    def tokens(self) -> list[int]:
        """See `Drawn`."""
        return self._tokens


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
        """See `Chooser`."""
        self._take_ways([ask.way for ask in asks])
        numbers, drawing, penalties = self._send(asks)
        scores = logits.to(torch.float32, copy=True)
        if penalties:
            penalise(scores, *penalties)
        apply_masks(scores, self.rows.table, numbers, self._width)
        errors = _process(scores, asks) if self._processes else {}
        ids = self._sampler.draw(scores, *drawing)
        return _OnItsWay(ids, scores, asks, (self.rows.table, numbers), self._sampler, errors)

    def _take_ways(self, ways: list[Sampling]) -> None:
        """What follows from the rows' options; mostly they are those of the last step."""
        if ways != self._sampler.rows:
            self._sampler = Sampler(ways, self._sampler.keep)
            self._penalises = any(way.penalises for way in ways)
            self._processes = any(way.processors for way in ways)

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
        groups: list[list[NDArray[Any]]] = [masks, writing, drawing, self._penalties(asks)]
        parts = iter(upload([part for group in groups for part in group], self._device) if any(groups) else ())
        sent = [list(islice(parts, len(group))) for group in groups]
        if writing:
            self.rows.write(*sent[1])
        if masks:
            self._sent = numbers, sent[0][0]
        return self._sent[1], sent[2], sent[3]

    def _penalties(self, asks: Sequence[Ask]) -> list[NDArray[Any]]:
        found = _penalties(asks, self._width) if self._penalises else None
        return [] if found is None or not len(found.rows) else list(found)


def _process(scores: Tensor, asks: Sequence[Ask]) -> dict[int, CallbackError]:
    """Has the processors of all rows change their scores; a row whose processors fail has none left."""
    errors = dict[int, CallbackError]()
    for row, ask in enumerate(asks):
        if ask.way.processors:
            try:
                scores[row] = processed(scores[row], ask.way, ask.prompt, ask.tokens)
            except CallbackError as error:
                errors[row] = error
                scores[row] = -torch.inf
    return errors


class _OnItsWay:
    """A choice that a device makes."""

    def __init__(
        self,
        ids: Tensor,
        scores: Tensor,
        asks: Sequence[Ask],
        masks: tuple[Tensor, Tensor],
        sampler: Sampler,
        errors: Mapping[int, CallbackError],
    ) -> None:
        self.ids, self.errors = ids, errors
        self._sampler = sampler
        self.by_host: list[int] = []
        self._scores, self._asks, self._masks = scores, asks, masks
        self._coming = Download(ids)

    @property
    def masks(self) -> Tensor:
        """See `Drawn`."""
        table, numbers = self._masks
        return table.index_select(0, numbers.long())

    def tokens(self) -> list[int]:
        """See `Drawn`. What the device could not decide is picked here: the row's scores come to the host for it."""
        tokens: list[int] = self._coming.numbers()
        self.by_host = [row for row, token in enumerate(tokens) if token == UNDECIDED]
        if self.by_host:
            self._sampler.widen()
        for row in self.by_host:
            ask = self._asks[row]
            tokens[row] = pick(self._scores[row].cpu().numpy(), ask.way, ask.uniform)
        return tokens


def _penalties(asks: Sequence[Ask], width: int) -> Penalties:
    ways, prompts, texts = [a.way for a in asks], [a.prompt for a in asks], [a.tokens for a in asks]
    return penalties(ways, prompts, texts, width)
