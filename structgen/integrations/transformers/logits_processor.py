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
from structgen.decoding.grammars import grammar_for
from structgen.decoding.prompts.targets import targets_of
from structgen.errors import OptionError
from structgen.integrations.followed_rows import FollowedRow
from structgen.masks import find_masks
from structgen.models.model import as_model
from structgen.options import Whitespace


class ConstraintLogitsProcessor(LogitsProcessor):
    """A logits processor that leaves each row of `generate` the tokens which its constraint allows.

    For one call of `generate`: greedy, sampled, with beams, several sequences, prompt lookup or an assistant. Rows are
    told apart by their ids, so beams may change places. Prompts of different length are padded on the left.

    Args:
        schema: what `structgen.generate` takes, or a list of them, one for each prompt of the batch.
        model: a transformers model with `tokenizer`, or what `structgen.load` gives.
        tokenizer: of a bare transformers model.
        whitespace, order: as for `structgen.generate`.

    Raises:
        RequestError: the schema or the model cannot work.
    """

    def __init__(
        self, schema: Any, model: Any, tokenizer: Any = None, *,
        whitespace: Whitespace = Whitespace.SPACED, order: str | Sequence[str] = "schema",
    ) -> None:  # fmt: skip
        vocabulary = as_model(model, tokenizer).vocabulary
        targets = targets_of(schema if isinstance(schema, list) else [schema], whitespace, order)
        require(bool(targets), "schema", schema, "a schema, or one for each prompt")
        constraints = [target.constraint for target in targets]
        self._grammars = [None if given is None else grammar_for(given, vocabulary) for given in constraints]
        self._words, self._width = vocabulary.words, vocabulary.width
        self._prompts = torch.empty(0)
        self._rows: list[FollowedRow] = []

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """The scores, with `-inf` where a token is not allowed.

        Args:
            input_ids: int64[rows, tokens], prompts and what was generated.
            scores: float[rows, width] behind them.

        Raises:
            OptionError: the rows are not those of the call that the processor was made for.
            TokenRejected: a row has left its constraint: something behind the processor put its scores up again.
            DeadEnd: no token of the vocabulary goes on.
        """
        if not self._rows:
            self._begin(input_ids)
        start = self._prompts.shape[1]
        if len(input_ids) != len(self._rows) or not torch.equal(input_ids[:, :start], self._prompts):
            raise OptionError("a ConstraintLogitsProcessor is for one call of generate: make another for the next")
        for row, ids in zip(self._rows, input_ids[:, start:].tolist(), strict=True):
            row.go_to(ids)
        find_masks([row.matcher for row in self._rows if row.asks and row.matcher is not None])
        words = np.stack([row.words(self._words) for row in self._rows]).view(np.int32)
        self._require_alive()
        masked = forbid(scores[:, : self._width], torch.from_numpy(words).to(scores.device))
        return pad(masked, (0, scores.shape[1] - self._width), value=-torch.inf)

    def _begin(self, input_ids: Tensor) -> None:
        """The first call: the rows are prompts, each as often as there are beams or sequences of it."""
        rows, schemas = len(input_ids), len(self._grammars)
        if rows % schemas:
            raise OptionError(f"{schemas} schemas for {rows} rows: expected one schema, or one for each prompt")
        self._prompts = input_ids.clone()
        self._rows = [FollowedRow(self._grammars[row * schemas // rows]) for row in range(rows)]

    def _require_alive(self) -> None:
        """A beam for which nothing was left goes on with scores of `-inf`, beside others of its prompt."""
        prompts = [tuple(ids) for ids in self._prompts.tolist()] if any(row.error for row in self._rows) else []
        alive = {prompt for prompt, row in zip(prompts, self._rows, strict=False) if row.error is None}
        for prompt, row in zip(prompts, self._rows, strict=False):
            if row.error is not None and prompt not in alive:
                raise row.error
