"""The decode loop: prefill; then mask, choose, accept, forward."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from structgen.decoding.choice import Chooser
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
    chooser = Chooser([s.sampling for s in sessions], vocabulary, module.device, record=record)
    prefilled = began
    with torch.inference_mode(), evaluating(module):
        while not all(s.done for s in sessions):
            logits = forward.step([s.feed for s in sessions]) if forward.count else forward.prefill()
            if logits.shape[-1] < vocabulary.width:
                raise OptionError(_too_narrow(logits.shape[-1], vocabulary))
            masks = [s.mask() for s in sessions]  # on the host, while the device still runs the forward
            tokens = chooser.choose(logits, masks)  # the one copy from the device
            for session, token in zip(sessions, tokens, strict=True):
                session.accept(token)
            if forward.count == 1:
                prefilled = time.perf_counter()
    ended = time.perf_counter()
    stats = Stats(forward.count, sum(len(s.tokens) for s in sessions), prefilled - began, ended - prefilled)
    return Run(chooser.logprobs(), stats)


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


def _too_narrow(width: int, vocabulary: Vocabulary) -> str:
    return (
        f"the model's logits have {width} columns, the tokenizer's ids need {vocabulary.width}: "
        "load the tokenizer that belongs to the model, or resize its embeddings"
    )
