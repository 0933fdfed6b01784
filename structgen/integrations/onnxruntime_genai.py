"""A constraint for loops over onnxruntime-genai's `Generator`.

    constraint = GeneratorConstraint(Person, "folder")
    while not generator.is_done():
        constraint.apply(generator)
        generator.generate_next_token()

`structgen.load("folder")` runs the same model in structgen's own loop, which also takes tokens back, closes values in
time and feeds forced text.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np

from structgen.errors import OptionError
from structgen.integrations.followed_rows import Canonical, FollowedRow, grammars_of, masks_of
from structgen.masks.words import bits_of
from structgen.models.hosts.onnx_genai import read_folder
from structgen.options import Whitespace


class GeneratorConstraint:
    """Allows each row of a generator only the tokens of its constraint. For one generator, greedy or sampled.

    Args:
        schema: what `structgen.generate` takes, or a list with one for each row of the generator's batch.
        folder: the folder of the model.
        tokenizer: the tokenizer, if it is not the folder's.
        whitespace, order, canonical: as for `structgen.generate`; the first token is free.

    Raises:
        RequestError: the schema or the folder cannot work.
    """

    def __init__(
        self, schema: Any, folder: str | PathLike[str], tokenizer: Any = None, *,
        whitespace: Whitespace = Whitespace.SPACED, order: str | Sequence[str] = "schema",
        canonical: Canonical = "off",
    ) -> None:  # fmt: skip
        vocabulary = read_folder(folder, tokenizer).vocabulary
        self._words, self._width = vocabulary.words, vocabulary.width
        self._rows = [FollowedRow(each, canonical) for each in grammars_of(schema, vocabulary, whitespace, order)]
        self._start: int | None = None

    def apply(self, generator: Any) -> None:
        """Sets the generator's logits of tokens that are not allowed to minus infinity.

        Call it after `append_tokens` of the prompts, and before each `generate_next_token`, also after `rewind_to`.

        Raises:
            OptionError: the number of rows, beams among them, is not the number of schemas.
            TokenRejected: a row has left its constraint.
            DeadEnd: no token of the vocabulary may follow.
        """
        logits = generator.get_logits()
        if len(logits) != len(self._rows):
            given = f"{len(self._rows)} schemas for {len(logits)} rows of the generator"
            raise OptionError(f"{given}: expected one for each row, and no beams")
        if self._start is None:
            self._start = generator.token_count()
        for index, row in enumerate(self._rows):
            row.go_to(generator.get_sequence(index)[self._start :].tolist())
        for line, row, words in zip(logits, self._rows, masks_of(self._rows, self._words), strict=True):
            if row.error is not None:
                raise row.error
            line[:, : self._width][:, ~bits_of(words, self._width)] = -np.inf
            line[:, self._width :] = -np.inf
        generator.set_logits(logits)
