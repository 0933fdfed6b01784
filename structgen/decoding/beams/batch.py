"""The loop of beam search: all beams of all prompts in one forward pass, and forced text read along with them."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from structgen.decoding.beams.hypothesis import Hypothesis
from structgen.decoding.beams.offers import Offers
from structgen.decoding.beams.search import BeamSearch, Candidates
from structgen.decoding.choosing.masking import existing
from structgen.decoding.choosing.measure import Ledger
from structgen.decoding.generation import Stats
from structgen.decoding.loop import AUTOMATIC, ROWS, Execution, without_padding
from structgen.masks import find_masks
from structgen.models.attention import of_any_shape
from structgen.models.forward import Forward, Over, forward_for
from structgen.models.row import Row
from structgen.options import Beams
from structgen.vocabulary import Vocabulary


class ReadAlong:
    """Reads rows; where all beams of a search have forced text, that too, by the same forward pass.

    What the rows take is decided step by step as ever: as long as it is what was read along, the logits behind it are
    known. Every row is asked for at every step, so what a row has not taken is forgotten at once.

    Args:
        forward: with drafts, where it takes them.

    Attributes:
        forward: see above.
        saved: of each search, steps without a forward pass.
    """

    def __init__(self, forward: Forward) -> None:
        self.forward = forward
        self.saved: Counter[BeamSearch] = Counter()
        self._known: dict[Row, tuple[list[int], Tensor]] = {}  # ids, and the logits after the last ones of them

    def read(self, searches: Sequence[BeamSearch]) -> Tensor:
        """The logits after the last token of each row: float[rows, width]."""
        rows = [row for search in searches for row in search.rows]
        confirmed = {row: logits for row in rows if (logits := self._confirmed(row)) is not None}
        self._known = {row: self._known[row] for row in confirmed}
        if not confirmed:
            return self._read_now(rows, searches)
        self.saved.update(search for search in searches if confirmed.keys() >= set(search.rows))
        if left := [row for row in rows if row not in confirmed]:
            fresh = [search for search in searches if confirmed.keys().isdisjoint(search.rows)]
            confirmed |= zip(left, self._read_now(left, fresh), strict=True)
        return torch.stack([confirmed[row] for row in rows])

    def close(self) -> None:
        """Nothing is read any more: lets go of the model's cache."""
        self.forward = Over(self.forward)
        self._known.clear()

    def _confirmed(self, row: Row) -> Tensor | None:
        """The logits after a row's last token, where it is the next of those that were read along."""
        if row not in self._known:
            return None
        (ids, logits), length = self._known[row], len(row.ids)
        if row.valid != length - 1 or row.ids != ids[:length] or length <= len(ids) - len(logits):
            return None
        row.valid = length
        return logits[length - len(ids) - 1]

    def _read_now(self, rows: Sequence[Row], fresh: Sequence[BeamSearch]) -> Tensor:
        """Reads rows, and along with them what the beams of searches that were all read so far have to take next."""
        forward = self.forward.drafting
        if forward is None:
            return self.forward.read(rows)
        room = forward.columns_for(rows) - 1
        spans = {row: span for search in fresh for row, span in zip(search.rows, search.next_forced(room), strict=True)}
        drafts = [spans.get(row, ()) for row in rows]
        if not any(drafts):
            return forward.read(rows)
        behind = [
            logits[-1 - len(draft) :] for draft, logits in zip(drafts, forward.read_drafted(rows, drafts), strict=True)
        ]
        known = zip(rows, drafts, behind, strict=True)
        self._known |= {row: ([*row.ids, *draft], logits) for row, draft, logits in known if draft}
        return torch.stack([logits[0] for logits in behind])


class BeamBatch:
    """Searches on their way: some have rows, others wait until there are rows for all their beams.

    Args:
        module: a model of transformers, in evaluation mode.
        vocabulary: of its tokenizer; logits beyond its width are padding.
        roots: a text for each prompt, of which nothing has been said.
        options: of each search.
        rows: that are decoded at once; those of one search at least.
        record: measure every token.
        execution: how it runs; beams know no overlapped order.

    Attributes:
        searches: one for each prompt.
        ledger: what was measured; None where nothing was.
    """

    def __init__(
        self,
        module: PreTrainedModel,
        vocabulary: Vocabulary,
        roots: Sequence[Hypothesis],
        options: Beams,
        *,
        rows: int = ROWS,
        record: bool = False,
        execution: Execution = AUTOMATIC,
    ) -> None:
        self._began = self._prefilled = time.perf_counter()
        self._vocabulary, everything = vocabulary, existing(vocabulary)
        self._everything = np.full(vocabulary.words, 0xFFFFFFFF, np.uint32) if everything is None else everything
        self._most = max(2, 1 + len(vocabulary.end_ids)) * options.count
        self._at_once = max(1, rows // options.count)
        self.searches = [BeamSearch(root, options, self._most) for root in roots]
        self.ledger = Ledger() if record else None
        self._waiting = deque(search for search in self.searches if not search.done)
        self._active: list[BeamSearch] = []
        self._steps = 0
        self._counted = -1, 0  # after so many steps, so many tokens
        self._reading = ReadAlong(Over())
        if self._waiting:
            self._reading = ReadAlong(forward_for(module, graphs=execution.graphs))
            self._began = self._prefilled = time.perf_counter()  # finding the way is done once per model

    @torch.inference_mode()
    @of_any_shape()
    def step(self) -> bool:
        """One token more for every hypothesis. False when all searches are over.

        Raises:
            OptionError: the logits are narrower than the vocabulary. No hypothesis has a token then.
        """
        while self._waiting and len(self._active) < self._at_once:
            self._active.append(self._waiting.popleft())
        if not self._active:
            return False
        logits = self._reading.read(self._active)
        beams = [beam.text for search in self._active for beam in search.beams]
        find_masks([beam.matcher for beam in beams if beam.matcher is not None])  # while a device still runs
        offers = Offers(without_padding(logits, self._vocabulary), self._everything, self.ledger)
        masks = [beam.words() for beam in beams]
        likeliest, first = offers.likeliest(0, masks, self._most), 0
        for search in self._active:
            own = slice(first, first + len(search.beams))
            candidates = Candidates(search.beams, offers, first, masks[own], likeliest[own], self._most)
            search.step(candidates, self._reading.forward)
            first = own.stop
        offers.measure()
        self._leave()
        return bool(self._active or self._waiting)

    def _leave(self) -> None:
        """Searches that are over give their rows back."""
        for row in (row for search in self._active if search.done for row in search.rows):
            self._reading.forward.release(row)
        self._active = [search for search in self._active if not search.done]
        self._steps += 1
        if self._steps == 1:
            self._prefilled = time.perf_counter()

    def close(self) -> None:
        """Lets go of the model's cache, as `Batch.close` does."""
        self._reading.close()

    def stats(self, row: int) -> Stats:
        """What the batch cost so far, and what one prompt's search had of it."""
        search = self.searches[row]
        if self._counted[0] != self._steps:  # tokens come by steps
            self._counted = self._steps, sum(len(search.text.tokens) for search in self.searches)
        return Stats(
            forwards=self._reading.forward.count,
            tokens=self._counted[1],
            fast_forwarded=0,
            rollbacks=search.text.rollbacks,
            prefill_seconds=self._prefilled - self._began,
            decode_seconds=time.perf_counter() - self._prefilled,
            replayed=self._reading.forward.replays,
            why_eager=self._reading.forward.why_eager,
            cache=self._reading.forward.kind,
            why_slow=tuple(filter(None, [self._reading.forward.why_slow])),
            drafted=self._reading.saved[search],
        )
