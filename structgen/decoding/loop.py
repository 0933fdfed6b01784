"""The decode loop: read, mask, choose, accept."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from transformers import PreTrainedModel

from structgen.decoding.choice import Ask, chooser_for
from structgen.decoding.forward import forward_for
from structgen.decoding.generation import Stats
from structgen.decoding.measure import Ledger
from structgen.decoding.session import Session
from structgen.errors import OptionError
from structgen.vocabulary import Vocabulary

ROWS = 64
"""Rows that are decoded at once, unless said otherwise."""


def decode(
    module: PreTrainedModel,
    vocabulary: Vocabulary,
    sessions: Sequence[Session],
    *,
    rows: int = ROWS,
    record: bool = False,
) -> Batch:
    """Runs every session to its end; a row's failure stays in its session. See `Batch`."""
    with evaluating(module):
        batch = Batch(module, vocabulary, sessions, rows=rows, record=record)
        while batch.step():
            pass
    return batch


class Batch:
    """Sessions on their way: some are in rows, others wait for a row to become free.

    Args:
        module: a model of transformers, in evaluation mode.
        vocabulary: of its tokenizer; logits beyond its width are padding.
        sessions: what is to be done.
        rows: how many sessions are decoded at once.
        record: measure every choice.

    Attributes:
        ledger: what was measured; None where nothing was.
    """

    def __init__(
        self,
        module: PreTrainedModel,
        vocabulary: Vocabulary,
        sessions: Sequence[Session],
        *,
        rows: int = ROWS,
        record: bool = False,
    ) -> None:
        self._began = self._prefilled = time.perf_counter()
        self._vocabulary, self._sessions, self._rows = vocabulary, sessions, rows
        self._waiting = deque(s for s in sessions if not s.done)
        self._active: list[Session] = []
        self._steps = 0
        self.ledger = Ledger(vocabulary) if record else None
        if self._waiting:
            self._forward = forward_for(module)
            self._began = self._prefilled = time.perf_counter()  # finding the way is done once per model
            self._chooser = chooser_for(vocabulary, module.device)

    @torch.inference_mode()
    def step(self) -> bool:
        """One token more for every row, and what is sure to follow it. False when all sessions are done.

        Prefill, step, fast-forward and reading again after a rollback are one and the same: each row's pending
        tokens are read.

        Raises:
            OptionError: the logits are narrower than the vocabulary. No session has a token then.
        """
        while self._waiting and len(self._active) < self._rows:
            self._active.append(self._waiting.popleft())
        if not self._active:
            return False
        logits = without_padding(self._forward.read([s.row for s in self._active]), self._vocabulary)
        asked = [s.ask() for s in self._active]  # on the host, while the device still runs the forward
        choosing = [(session, ask) for session, ask in zip(self._active, asked, strict=True) if ask is not None]
        if choosing:
            sessions, asks = zip(*choosing, strict=True)
            self._choose(sessions, asks, self._of_those_choosing(logits, asked))
            self._choose_again()
        for session in [s for s in self._active if s.done]:
            self._leave(session)
        self._steps += 1
        if self._steps == 1:
            self._prefilled = time.perf_counter()
        return bool(self._active or self._waiting)

    def _leave(self, session: Session) -> None:
        """The last row takes the place of the one that leaves, here as in the cache."""
        self._active[self._active.index(session)] = self._active[-1]
        self._active.pop()
        self._forward.release(session.row)
        session.leave()

    def _choose(self, sessions: Sequence[Session], asks: Sequence[Ask], logits: Tensor) -> None:
        tokens = self._chooser.choose(logits, asks)  # the one copy from the device
        step = 0 if self.ledger is None else self.ledger.add(logits, asks, tokens)
        for row, (session, token) in enumerate(zip(sessions, tokens, strict=True)):
            session.accept(token, logits, row, (step, row))

    def _choose_again(self) -> None:
        """Rows whose last token was taken back choose another from the same logits; no forward is needed."""
        while back := [s for s in self._active if s.sent_back and not s.done]:
            asked = [(session, ask) for session in back if (ask := session.ask()) is not None]
            if asked:
                sessions, asks = zip(*asked, strict=True)
                self._choose(sessions, asks, torch.stack([s.recalled for s in sessions]))

    def _of_those_choosing(self, logits: Tensor, asked: Sequence[Ask | None]) -> Tensor:
        """The logits of the rows that choose: of this step, or those that a row went back to."""
        rows = [(row, s) for row, (s, ask) in enumerate(zip(self._active, asked, strict=True)) if ask is not None]
        if len(rows) == len(asked) and all(s.recalled is None for _, s in rows):
            return logits
        return torch.stack([logits[row] if s.recalled is None else s.recalled for row, s in rows])

    def stats(self, session: Session) -> Stats:
        """What the batch cost so far, and what this session had of it."""
        return Stats(
            forwards=self._forward.count if self._steps else 0,
            tokens=sum(len(s.tokens) for s in self._sessions),
            fast_forwarded=session.forced,
            rollbacks=session.rollbacks,
            prefill_seconds=self._prefilled - self._began,
            decode_seconds=time.perf_counter() - self._prefilled,
        )


@contextmanager
def evaluating(module: PreTrainedModel) -> Iterator[None]:
    """The model without dropout; afterwards each of its parts is in the mode it was in."""
    training = [part for part in module.modules() if part.training] if module.training else []
    try:
        for part in training:
            part.training = False
        yield
    finally:
        for part in training:
            part.training = True


def without_padding(logits: Tensor, vocabulary: Vocabulary) -> Tensor:
    """The logits of the vocabulary's ids: float[rows, vocabulary.width].

    Raises:
        OptionError: the logits are narrower.
    """
    if logits.shape[-1] < vocabulary.width:
        found = f"the model's logits have {logits.shape[-1]} columns, the tokenizer's ids need {vocabulary.width}"
        raise OptionError(f"{found}: load the tokenizer that belongs to the model, or resize its embeddings")
    return logits[:, : vocabulary.width]
