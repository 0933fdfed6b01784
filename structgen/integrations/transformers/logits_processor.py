"""A logits processor for the loop of transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import LogitsProcessor

from structgen.arguments import require
from structgen.decoding.choosing.masking import forbid
from structgen.errors import OptionError
from structgen.integrations.followed_rows import Canonical, FollowedRow, grammars_of, masks_of
from structgen.models.model import as_model
from structgen.options import Whitespace


class ConstraintLogitsProcessor(LogitsProcessor):
    """A logits processor that allows each row of `generate` only the tokens of its constraint.

    For one call of `generate`: greedy, sampled, with beams, several sequences, prompt lookup or an assistant. Each row
    follows its ids, so beams may change places. Pad prompts of different length on the left.

    Args:
        schema: what `structgen.generate` takes, or a list of them, one for each prompt of the batch.
        model: a transformers model with `tokenizer`, or what `structgen.load` gives.
        tokenizer: the tokenizer of a bare transformers model.
        whitespace, order, canonical: as for `structgen.generate`.

    Raises:
        RequestError: the schema or the model cannot work.
    """

    def __init__(
        self, schema: Any, model: Any, tokenizer: Any = None, *,
        whitespace: Whitespace = Whitespace.SPACED, order: str | Sequence[str] = "schema",
        canonical: Canonical = "off",
    ) -> None:  # fmt: skip
        vocabulary = as_model(model, tokenizer).vocabulary
        self._grammars = grammars_of(schema, vocabulary, whitespace, order)
        require(bool(self._grammars), "schema", schema, "a schema, or one for each prompt")
        self._words, self._width = vocabulary.words, vocabulary.width
        self._canonical: Canonical = canonical
        for grammar in self._grammars[:1]:
            FollowedRow(grammar, canonical)  # raises what is wrong with the option
        self._prompts = torch.empty(0)
        self._rows: list[FollowedRow] = []

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Returns the scores, with `-inf` for tokens that are not allowed.

        Args:
            input_ids: int64[rows, tokens], prompts and what was generated.
            scores: float[rows, width] after them.

        Raises:
            OptionError: the rows are not those of the call that the processor was made for.
            TokenRejected: a row has left its constraint: something after the processor raised the scores again.
            DeadEnd: no token of the vocabulary may follow.
        """
        if not self._rows:
            self._begin(input_ids)
        start = self._prompts.shape[1]
        if len(input_ids) != len(self._rows) or not torch.equal(input_ids[:, :start], self._prompts):
            raise OptionError("a ConstraintLogitsProcessor is for one call of generate: make another for the next")
        for row, ids in zip(self._rows, input_ids[:, start:].tolist(), strict=True):
            row.go_to(ids)
        words = masks_of(self._rows, self._words).view(np.int32)
        self._require_alive()
        masked = forbid(scores[:, : self._width], torch.from_numpy(words).to(scores.device))
        return pad(masked, (0, scores.shape[1] - self._width), value=-torch.inf)

    def _begin(self, input_ids: Tensor) -> None:
        """Makes the rows at the first call, when they are prompts, each repeated for its beams or sequences."""
        rows, schemas = len(input_ids), len(self._grammars)
        if rows % schemas:
            raise OptionError(f"{schemas} schemas for {rows} rows: expected one schema, or one for each prompt")
        self._prompts = input_ids.clone()
        self._rows = [
            FollowedRow(self._grammars[row * schemas // rows], self._canonical, prompt)
            for row, prompt in enumerate(input_ids.tolist())
        ]

    def _require_alive(self) -> None:
        """Raises the error of a row, unless another row of its prompt continues: then it is a beam that is over."""
        if any(row.error is not None for row in self._rows):
            prompts = [tuple(ids) for ids in self._prompts.tolist()]
            alive = {prompt for prompt, row in zip(prompts, self._rows, strict=True) if row.error is None}
            for prompt, row in zip(prompts, self._rows, strict=True):
                if row.error is not None and prompt not in alive:
                    raise row.error
