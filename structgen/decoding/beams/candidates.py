"""The candidates of a step of beam search: which tokens each beam offers, and what a beam becomes with one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from structgen.decoding.beams.hypothesis import Hypothesis
from structgen.decoding.beams.policy import Banks, Candidate, FinishingCosts, Taken
from structgen.decoding.choosing.choice import Ask, penalties_of
from structgen.decoding.choosing.masking import forbid
from structgen.decoding.choosing.measure import Entry, Ledger
from structgen.decoding.choosing.scores import penalise, processed
from structgen.errors import CallbackError
from structgen.masks.words import Words, pack
from structgen.models.transfer import Download, upload, upload_one
from structgen.options import Sampling

UNSAMPLED = Sampling()

Hypotheses = list[Taken[Hypothesis]]
"""The hypotheses of a step."""

PATIENCE = 64
"""Tokens of a beam that are refused one by one in a step, since they leave no room for its phrases."""

LikelyToken = tuple[int, float]
"""A next token, and its log-probability."""


def depth(beam: Hypothesis, limit: int) -> int:
    """The number of a beam's most likely tokens that are copied from the device, so that `limit` of them are taken."""
    return limit if beam.phrases is None else limit + PATIENCE


class StepLogits:
    """The logits of one step.

    A token's score is its log-probability among all tokens: a mask selects the candidates, and changes no score.
    Penalties and processors do, see `process`.

    Args:
        logits: float[rows, width], without columns beyond the vocabulary's.
        everything: the mask of all tokens that exist.
        ledger: where the tokens that are taken are measured; None if they are not.
    """

    def __init__(self, logits: Tensor, everything: Words, ledger: Ledger | None) -> None:
        self._logits, self._everything, self._ledger = logits.float(), everything, ledger
        self._processed: Tensor | None = None
        self._broken, self._errors = set[int](), dict[int, CallbackError]()
        self._taken: list[tuple[int, Words | None, int]] = []

    def process(self, asks: Sequence[Ask]) -> None:
        """Lets each row's penalties and processors change its scores.

        As in beam search of transformers, they get log-probabilities before any mask, and what they make of them is not
        normalised again.
        """
        scores = self._processed = self._logits.log_softmax(dim=-1)
        entries = penalties_of(asks, scores.shape[1])
        if len(entries.rows):
            penalise(scores, *upload(list(entries), scores.device))
        for row, ask in enumerate(asks):
            if ask.sampling.processors:
                try:
                    scores[row] = processed(scores[row], ask.sampling, ask.prompt, ask.tokens)
                except CallbackError as error:
                    self._errors[row] = error

    def likeliest(
        self, first: int, masks: Sequence[Words | None], limit: int, proposed: Sequence[NDArray[np.int64]] = ()
    ) -> list[list[LikelyToken]]:
        """The likeliest allowed tokens of some rows and the likeliest proposed ones, best first, in one copy from the
        device.

        Args:
            masks: of row `first` and those after it; None allows every token.
            limit: the most tokens of a row, and the most proposed ones.
            proposed: further allowed tokens of each row; may be empty.
        """
        these = slice(first, first + len(masks))
        scores = (self._logits if self._processed is None else self._processed)[these]
        width = min(limit, scores.shape[1])
        top = forbid(scores, self._on_device(masks)).topk(width)
        total = self._logits[these].logsumexp(dim=-1, keepdim=True)
        parts = [total, top.values, top.indices.float()]
        if longest := max(map(len, proposed), default=0):
            ids = np.full((len(proposed), longest), -1)
            for line, each in zip(ids, proposed, strict=True):
                line[: len(each)] = each
            columns = upload([ids], scores.device)[0]
            best = scores.gather(1, columns.clamp(0)).masked_fill(columns < 0, -math.inf).topk(min(limit, longest))
            parts += [best.values, columns.gather(1, best.indices).float()]
        rows = Download(torch.cat(parts, dim=1)).numbers()
        self._broken |= {first + i for i, row in enumerate(rows) if math.isnan(row[0]) or row[0] == math.inf}
        ranked = []
        for number, row in enumerate(rows):
            by_token = dict(zip(row[1 + width : 1 + 2 * width], row[1 : 1 + width], strict=True))
            if longest and len(proposed[number]):
                half = 1 + 2 * width + min(limit, longest)
                by_token.update(zip(row[half:], row[1 + 2 * width : half], strict=True))
            ranked.append(_ranked(row[0] if self._processed is None else 0.0, by_token))
        return ranked

    def above(self, row: int, ids: NDArray[np.int64], token: int | None) -> int:
        """The number of tokens that are likelier than another one, or that are possible at all."""
        scores = (self._logits if self._processed is None else self._processed)[row]
        among = scores[upload_one(ids.tolist(), scores.device)]
        return int((among > (-math.inf if token is None else scores[token])).sum())

    def require_numbers(self, row: int, text: Hypothesis) -> None:
        """Raises the text's error if a processor has failed, or the probabilities of its row are not numbers."""
        if row in self._errors:
            raise self._errors[row]
        if row in self._broken:
            error = text.logits_error(self._logits[row], None)
            assert error is not None, "the sum of finite logits is finite"
            raise error

    @property
    def entry(self) -> Entry:
        """Where the next token that is taken is to be measured."""
        return 0 if self._ledger is None else self._ledger.steps, len(self._taken)

    def take(self, row: int, words: Words | None, token: int) -> None:
        """Notes a token that was taken. Of those that were tried and refused there may be thousands."""
        self._taken.append((row, words, token))

    def measure(self) -> None:
        """Measures all tokens that were taken."""
        if self._ledger is None or not self._taken:
            return
        rows, masks, tokens = zip(*self._taken, strict=True)
        logits = self._logits.index_select(0, upload_one(list(rows), self._logits.device))
        asks = [Ask(words, UNSAMPLED) for words in masks]
        self._ledger.add(logits, asks, tokens, None if logits.device.type == "cpu" else self._on_device(masks))

    def _on_device(self, masks: Sequence[Words | None]) -> Tensor:
        """Packed: int32[masks, words]."""
        packed = np.array([self._everything if words is None else words for words in masks])
        return upload([packed.view(np.int32)], self._logits.device)[0]


def _ranked(total: float, scores: Mapping[float, float]) -> list[LikelyToken]:
    """The possible tokens, best first; of equal scores the lowest token first, as in greedy decoding."""
    ranked = sorted((-score, int(token)) for token, score in scores.items() if abs(score) < math.inf)
    return [(token, -negative - total) for negative, token in ranked]


@dataclass
class BeamCandidates:
    """The candidates of one step of one search.

    Attributes:
        beams: the search's; one that refuses a token is replaced by its successor, which knows the refusal.
        first: the index of the search's first row among those of the step.
        masks: of each beam.
        most likely: tokens of each beam, best first, see `depth`.
        limit: the most candidates of a beam.
        lacking: complete texts that were refused since they lack a phrase.
        losing: the number of texts that were refused since they began or ended a value, and lost a phrase by it.
    """

    beams: Hypotheses
    logits: StepLogits
    first: int
    masks: list[Words | None]
    likeliest: Sequence[list[LikelyToken]]
    limit: int

    def __post_init__(self) -> None:
        self.lacking: Hypotheses = []
        self.losing = 0
        self._taken: list[set[int]] = [set() for _ in self.beams]
        self._gone: list[set[int]] = [set() for _ in self.beams]  # refused since `likeliest` was asked for
        self._likeliest: list[list[LikelyToken] | None] = list(self.likeliest)
        each = zip(self.beams, self.masks, strict=True)
        self._proposed = [set(beam.text.proposals(words).tolist()) for beam, words in each]

    def of(self, number: int) -> Banks:
        """The candidates of a beam, in one bank. See `select`."""
        beam = self.beams[number]
        return {0: (Candidate(token, beam.score + log, beam.score + log) for token, log in self._left(number))}

    def with_phrases(self, number: int, costs: FinishingCosts, unbegun: int) -> Banks:
        """The candidates of a beam that have started a phrase. Their bank is minus the number of phrases that they owe.

        Args:
            unbegun: the bytes that are owed if no phrase is started.
        """
        beam, left = self.beams[number], self._left(number)
        banks: dict[int, list[Candidate]] = {}
        for (token, log), owed in zip(left, beam.text.owed_with([token for token, _ in left]), strict=True):
            if owed.size < unbegun:
                score = beam.score + log
                banks.setdefault(-owed.phrases, []).append(Candidate(token, score, score + costs.of(owed.size)))
        return {bank: iter(sorted(each, key=lambda one: -one.rank)) for bank, each in banks.items()}

    def learn(self, costs: FinishingCosts) -> None:
        """Tells the costs of phrases what each beam would have to pay for continuing with its own."""
        for number, beam in enumerate(self.beams):
            if owed := 0 if beam.text.done else beam.text.owed:
                ways = [each for each in self._listed(number) if each[0] in self._proposed[number]]
                behind = [each.size for each in beam.text.owed_with([token for token, _ in ways])]
                costs.learn(owed, zip((log for _, log in ways), behind, strict=True))

    def _left(self, number: int) -> list[LikelyToken]:
        """The tokens of a beam that were not taken, best first."""
        beam = self.beams[number].text
        self.logits.require_numbers(self.first + number, beam)
        if self._likeliest[number] is None:
            words = self.masks[number] = beam.words()
            proposed = beam.proposals(words)
            self._gone[number], self._proposed[number] = set(), set(proposed.tolist())
            (self._likeliest[number],) = self.logits.likeliest(
                self.first + number, [words], depth(beam, self.limit), [proposed]
            )
        return [] if beam.done else self._listed(number)

    def _listed(self, number: int) -> list[LikelyToken]:
        """The `limit` likeliest tokens and the `limit` likeliest that are proposed, without those taken or refused."""
        listed, proposed = list[LikelyToken](), self._proposed[number]
        left, proposals = self.limit, min(self.limit, len(proposed))
        for each in self._likeliest[number] or ():
            if each[0] in self._gone[number]:
                continue
            if not left and not proposals:
                break
            if left or each[0] in proposed:
                left, proposals = max(left - 1, 0), proposals - (each[0] in proposed and proposals > 0)
                if each[0] not in self._taken[number]:
                    listed.append(each)
        return listed

    def judge(self, number: int, token: int) -> Hypothesis | None:
        """What a beam becomes with a token, see `select`."""
        beam, gone = self.beams[number].text, self._gone[number]
        if beam.refuses(token):
            gone.add(token)
            self.losing += beam.loses_phrase
            if len(gone) == PATIENCE:
                self._refuse_all(number)
            return None
        text = beam.taking(token, self.logits.entry)
        if text.error is None and not text.sent_back:
            words = self.masks[number]
            if gone and words is not None:
                words = words & ~pack(np.array(sorted(gone)), 32 * len(words))
            self.logits.take(self.first + number, words, token)
            self._taken[number].add(token)
            return text
        if text.error is not None:
            beam.blame(text.error)
        else:
            if text.lacks_phrase:
                log = dict(self._likeliest[number] or ()).get(token, -math.inf)
                self.lacking.append(Taken(number, self.beams[number].score + log, text))
            self.losing += text.loses_phrase
            self.beams[number] = replace(self.beams[number], text=text)
        self._likeliest[number] = None
        return None

    def _refuse_all(self, number: int) -> None:
        """After this many tokens that leave a beam no room for its phrases, all others are refused at once.

        Those that would be tried before the best of the rest count as tried.
        """
        beam = self.beams[number].text
        leaving = beam.refuse_all(beam.words())
        self._likeliest[number] = None
        left = self._left(number)
        if len(leaving):
            self.losing += self.logits.above(self.first + number, leaving, left[0][0] if left else None)
