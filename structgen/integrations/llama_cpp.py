"""A constraint for the loop of llama-cpp-python.

    masks = ConstraintLogitsProcessor(Person, llama)
    llama.create_chat_completion(messages, logits_processor=LogitsProcessorList([masks]))

`structgen.load("model.gguf")` runs the same file in structgen's own loop, which also takes tokens back, closes values
in time and feeds forced text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from structgen.arguments import require
from structgen.errors import StructgenError
from structgen.integrations.followed_rows import FollowedRow, grammars_of, masks_of
from structgen.masks.words import bits_of
from structgen.models.hosts.gguf_tokenizer import GgufFile, GgufTokenizer
from structgen.models.hosts.llama_cpp import vocabulary_of
from structgen.options import Whitespace

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ConstraintLogitsProcessor:
    """A logits processor that allows only the tokens of a constraint, for one text after the other.

    Ids that are not those of the last call and one more are a new prompt.

    Args:
        schema: what `structgen.generate` takes.
        llama: the `llama_cpp.Llama`, without a draft model.
        whitespace, order: as for `structgen.generate`.

    Attributes:
        error: why the last text could not continue, as when another processor has raised a forbidden token. llama.cpp
            ignores exceptions of a processor, so the text then ends at once.

    Raises:
        RequestError: the schema or the model cannot work.
    """

    def __init__(
        self, schema: Any, llama: Any, *,
        whitespace: Whitespace = Whitespace.SPACED, order: str | Sequence[str] = "schema",
    ) -> None:  # fmt: skip
        import llama_cpp

        require(llama.draft_model is None, "llama", llama, "a Llama without a draft model, whose tokens come unmasked")
        require(
            not isinstance(schema, list), "schema", schema, "one schema: llama-cpp-python writes one text at a time"
        )
        vocabulary = vocabulary_of(GgufTokenizer(GgufFile(llama_cpp.llama_cpp, llama.model, llama)))
        (self._grammar,) = grammars_of(schema, vocabulary, whitespace, order)
        self._vocabulary, self._start = vocabulary, 0
        self._row, self._ids = FollowedRow(self._grammar), list[int]()
        self.error: StructgenError | None = None

    def __call__(self, input_ids: NDArray[np.intc], scores: NDArray[np.single]) -> NDArray[np.single]:
        """Returns the scores, with `-inf` for tokens that are not allowed.

        Args:
            input_ids: int32[tokens], the prompt and what was generated.
            scores: float32[width], in the order of the ids.
        """
        ids = input_ids.tolist()
        if not self._ids or ids[:-1] != self._ids:
            self._row, self._start = FollowedRow(self._grammar), len(ids)
        self._ids, row = ids, self._row
        row.go_to(ids[self._start :])
        allowed = bits_of(masks_of([row], self._vocabulary.words)[0], len(scores))
        self.error = row.error
        if row.error is not None:
            allowed[[*self._vocabulary.end_ids]] = True
        scores[~allowed] = -np.inf
        return scores
