"""The loop of beam search: the beams of all prompts in one forward pass, with forced text read along."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from structgen.decoding.beams.candidates import BeamCandidates, StepLogits, depth
from structgen.decoding.beams.hypothesis import Hypothesis
from structgen.decoding.beams.search import BeamSearch
from structgen.decoding.choosing.choice import Ask
from structgen.decoding.choosing.masking import existing
from structgen.decoding.choosing.measure import Ledger
from structgen.decoding.drafts import DraftReader
from structgen.decoding.loop import AUTOMATIC, ROWS, Execution, without_padding
from structgen.decoding.run import Run
from structgen.masks import find_masks
from structgen.models.forward import forward_for
from structgen.models.hosts.host import Host
from structgen.models.row import Over, Row
from structgen.options import Beams
from structgen.vocabulary import Vocabulary


class BeamBatch(Run[BeamSearch]):
    """A run of beam searches. Each waits until there are rows for all its beams.

    Args:
        roots: an empty text for each prompt.
        rows: the number of rows decoded at once, but at least those of one search: one for each beam, two with phrases.
        record: measure every choice.
        execution: only `graphs` counts.
    """

    def __init__(
        self,
        module: PreTrainedModel | Host,
        vocabulary: Vocabulary,
        roots: Sequence[Hypothesis],
        options: Beams,
        *,
        rows: int = ROWS,
        record: bool = False,
        execution: Execution = AUTOMATIC,
    ) -> None:
        self._vocabulary, self._everything = vocabulary, existing(vocabulary)
        self._limit = max(2, 1 + len(vocabulary.end_ids)) * options.count
        searches = [BeamSearch(root, options, self._limit) for root in roots]
        waiting = [search for search in searches if not search.done]
        forward = forward_for(module, graphs=execution.graphs) if waiting else Over()
        super().__init__(
            searches,
            waiting,
            forward,
            model=module,
            at_once=max(1, rows // (options.count * (2 if any(root.phrases for root in roots) else 1))),
            ledger=Ledger(traced=True) if record else None,
        )
        self._reader = DraftReader()

    def _advance(self) -> None:
        for search in self._active:
            search.end_if_late()
        self._leave_done()
        if not self._active:
            return
        logits = self._read()
        beams = [beam.text for search in self._active for beam in search.beams]
        find_masks([beam.matcher for beam in beams if beam.matcher is not None])  # while a device still runs
        step = StepLogits(without_padding(logits, self._vocabulary), self._everything, self.ledger)
        if any(beam.sampling.reads_text for beam in beams):
            prompts = [search.prompt for search in self._active for _ in search.beams]
            each = zip(prompts, beams, strict=True)
            asks = [Ask(None, b.sampling, 0.0, prompt, b.tokens, b.counted(prompt)) for prompt, b in each]
            step.process(asks)
        masks = [beam.words() for beam in beams]
        proposed = [beam.proposals(words) for beam, words in zip(beams, masks, strict=True)]
        deepest = max(depth(beam, self._limit) for beam in beams)
        likeliest, first = step.likeliest(0, masks, deepest, proposed), 0
        for search in self._active:
            own = slice(first, first + len(search.beams))
            candidates = BeamCandidates(search.beams, step, first, masks[own], likeliest[own], self._limit)
            search.step(candidates, self._forward)
            first = own.stop
        step.measure()
        self._leave_done()

    def _leave_done(self) -> None:
        for row in (row for search in self._active if search.done for row in search.rows):
            self._forward.release(row)
        self._active = [search for search in self._active if not search.done]

    def _read(self) -> Tensor:
        """The logits after the last token of each row: float[rows, width].

        The forced text of searches all of whose beams have some is read in the same forward pass. The beams choose step
        by step as ever. As long as they choose the forced text, the logits behind it are known.
        """
        rows = [row for search in self._active for row in search.rows]
        known = self._reader.confirm(rows)
        if not known:
            return self._read_now(rows, self._active)
        self._drafted.update(search for search in self._active if known.keys() >= set(search.rows))
        if left := [row for row in rows if row not in known]:
            fresh = [search for search in self._active if known.keys().isdisjoint(search.rows)]
            known |= zip(left, self._read_now(left, fresh), strict=True)
        return torch.stack([known[row] for row in rows])

    def _read_now(self, rows: Sequence[Row], fresh: Sequence[BeamSearch]) -> Tensor:
        """Reads rows, with the forced text of the `fresh` searches, all of whose rows are among them."""
        room = self._forward.columns_for(rows) - 1
        spans = {row: span for search in fresh for row, span in zip(search.rows, search.next_forced(room), strict=True)}
        drafts = [spans.get(row, ()) for row in rows]
        return self._reader.read(self._forward, rows, drafts) if any(drafts) else self._forward.read(rows)

    def close(self) -> None:
        """Also frees the logits that were read along."""
        super().close()
        self._reader = DraftReader()
