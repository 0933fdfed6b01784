"""The backend of vLLM's structured outputs, and the validation of its requests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor
from vllm.exceptions import VLLMValidationError
from vllm.v1.structured_output.backend_types import (
    StructuredOutputBackend,
    StructuredOutputGrammar,
    StructuredOutputOptions,
)
from vllm.v1.structured_output.request import get_structured_output_key

from structgen.decoding.ahead.forced import Spans
from structgen.errors import StructgenError
from structgen.integrations.text_grammars import TextGrammars, constraint_of, fill_row
from structgen.masks import Grammar, Matcher
from structgen.masks.words import pack
from structgen.vocabulary.vocabulary import single_bytes

NO_DRAFTS = "structgen.integrations.vllm.drafts.NoDrafts"


def validate(params: Any) -> None:
    """Refuses a request that cannot work before it reaches the engine.

    Raises:
        VLLMValidationError: the server answers it with status 400.
    """
    if params.structured_outputs is None:
        return
    kind, text = get_structured_output_key(params.structured_outputs)
    try:
        constraint_of(kind.name.lower(), text).compile(single_bytes())
    except (StructgenError, ValueError) as error:
        raise VLLMValidationError(f"structgen: {error}") from error


@dataclass
class VLLMBackend(StructuredOutputBackend):  # type: ignore[misc]
    """Compiles the constraints of requests, in vLLM's thread pool."""

    def __post_init__(self) -> None:
        compact = self.vllm_config.structured_outputs_config.disable_any_whitespace
        self._grammars = TextGrammars(self.tokenizer, self.vocab_size, compact=compact)
        speculative = self.vllm_config.speculative_config
        drafts = getattr(speculative, "method", None) == "custom_class" and speculative.model == NO_DRAFTS
        self._spans: WeakKeyDictionary[Grammar, Spans] | None = WeakKeyDictionary() if drafts else None

    def compile_grammar(
        self, request_type: StructuredOutputOptions, grammar_spec: str, stop_token_ids: Iterable[int] | None = None
    ) -> VLLMGrammar:
        """Returns the grammar of a request; raises ValueError if it cannot work."""
        matcher = self._grammars.matcher(request_type.name.lower(), grammar_spec, stop_token_ids or ())
        if self._spans is None:
            return VLLMGrammar(matcher)
        grammar = matcher.grammar
        return VLLMGrammar(matcher, self._spans.setdefault(grammar, Spans(grammar.vocabulary, self.tokenizer)))

    def allocate_token_bitmask(self, max_num_seqs: int) -> Tensor:
        """Returns packed masks that allow all tokens: int32[max_num_seqs, words]."""
        return torch.full((max_num_seqs, (self.vocab_size + 31) // 32), -1, dtype=torch.int32)

    def destroy(self) -> None:
        """Does nothing: the backend holds nothing that must be freed."""


class VLLMGrammar(StructuredOutputGrammar):  # type: ignore[misc]
    """One request's walk through its grammar.

    Args:
        matcher: at the start of a text.
        spans: the grammar's forced text, in the tokenizer's own tokens. Then a mask has only the forced token where
            there is one, so the model takes every token of `forced`.
    """

    def __init__(self, matcher: Matcher, spans: Spans | None = None) -> None:
        self._matcher, self._spans = matcher, spans

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Takes tokens. Returns False if one is not allowed; tokens after the end are padding."""
        return self._matcher.take(tokens) == len(tokens) or self._matcher.finished

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """Returns the tokens up to the first one that is not allowed, without taking them."""
        count = self._matcher.take(tokens)
        self._matcher.rollback(count)
        return tokens[:count]

    def forced(self, limit: int) -> list[int]:
        """Returns the tokens that must come next, at most `limit`; none without `spans`."""
        if self._spans is None or self._matcher.finished:
            return []
        return self.validate_tokens(self._spans.at(self._matcher, self._matcher.token_ids)[0][:limit])

    def rollback(self, num_tokens: int) -> None:
        """Takes the last tokens back."""
        self._matcher.rollback(num_tokens)

    def fill_bitmask(self, bitmask: Tensor, batch_index: int) -> None:
        """Writes the mask of the next token into a row, while other threads may write other rows."""
        row, forced = bitmask[batch_index].numpy(), self.forced(1)
        if forced:
            row[:] = pack(np.array(forced), 32 * len(row)).view(np.int32)
        else:
            fill_row(self._matcher, row)

    def is_terminated(self) -> bool:
        """Was an end token taken?"""
        return self._matcher.finished

    def reset(self) -> None:
        """Goes back to the start."""
        self._matcher.rollback(len(self._matcher.token_ids) + self._matcher.finished)
