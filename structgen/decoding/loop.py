"""The decode loop: prefill; then mask, choose, accept, forward."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from structgen.decoding.choice import chooser_for
from structgen.decoding.forward import Forward
from structgen.decoding.generation import Stats
from structgen.decoding.session import Session
from structgen.errors import OptionError
from structgen.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Run:
    """What a batch gave besides its sessions' state: log-probabilities by row, if recorded, and its cost."""

    logprobs: list[list[float]]
    stats: Stats


def decode(
    module: PreTrainedModel, vocabulary: Vocabulary, sessions: Sequence[Session], *, record: bool = False
) -> Run:
    """Runs every session to its end; a row's failure stays in its session.

    Args:
        module: a transformers causal language model.
        vocabulary: of its tokenizer; logits beyond its width are padding.
        sessions: the rows of one batch.
        record: keep the log-probabilities of the chosen tokens.

    Raises:
        OptionError: the logits are narrower than the vocabulary. No session has a token then.
    """
    began = time.perf_counter()
    forward = Forward(module, [s.prompt for s in sessions], room=max(s.budget for s in sessions))
    chooser = chooser_for([s.sampling for s in sessions], vocabulary, module.device)
    ledger = LogProbs(len(sessions)) if record else None
    prefilled = began
    with torch.inference_mode(), evaluating(module):
        while not all(s.done for s in sessions):
            logits = forward.step([s.feed for s in sessions]) if forward.count else forward.prefill()
            logits = without_padding(logits, vocabulary)
            masks = [s.mask() for s in sessions]  # on the host, while the device still runs the forward
            tokens = chooser.choose(logits, masks)  # the one copy from the device
            for session, token in zip(sessions, tokens, strict=True):
                session.accept(token)
            if ledger is not None:
                ledger.add(logits, tokens)
            if forward.count == 1:
                prefilled = time.perf_counter()
    ended = time.perf_counter()
    stats = Stats(forward.count, sum(len(s.tokens) for s in sessions), prefilled - began, ended - prefilled)
    return Run(ledger.rows() if ledger else [], stats)


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
        found = (
            f"the model's logits have {logits.shape[-1]} columns, the tokenizer's ids need {vocabulary.width}"
        )
        raise OptionError(f"{found}: load the tokenizer that belongs to the model, or resize its embeddings")
    return logits[:, : vocabulary.width]


class LogProbs:
    """The log-probabilities that the model gave to the chosen tokens, before masks and sampling options.

    They stay on the device until the run is over.
    """

    def __init__(self, rows: int) -> None:
        self._steps: list[Tensor] = []
        self._none: list[list[float]] = [[] for _ in range(rows)]

    def add(self, logits: Tensor, tokens: Sequence[int]) -> None:
        """One step's logits, float[rows, width], and the chosen ids; a negative id counts for nothing."""
        scores = logits.float()
        chosen = torch.tensor(tokens).clamp_(min=0).unsqueeze(1).to(scores.device, non_blocking=True)
        self._steps.append(scores.gather(1, chosen).squeeze(1) - scores.logsumexp(dim=-1))

    def rows(self) -> list[list[float]]:
        """Of each row, one number per step of the batch."""
        by_row: list[list[float]] = torch.stack(self._steps, dim=1).tolist() if self._steps else self._none
        return by_row
