"""The backend of vLLM's structured outputs, and the validation of its requests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from vllm.exceptions import VLLMValidationError
from vllm.v1.structured_output.backend_types import (
    StructuredOutputBackend,
    StructuredOutputGrammar,
    StructuredOutputOptions,
)
from vllm.v1.structured_output.request import get_structured_output_key

from structgen.errors import StructgenError, TokenRejected
from structgen.integrations.text_grammars import TextGrammars, constraint_of, fill_row
from structgen.masks import Grammar
from structgen.vocabulary.vocabulary import single_bytes


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

    def compile_grammar(
        self, request_type: StructuredOutputOptions, grammar_spec: str, stop_token_ids: Iterable[int] | None = None
    ) -> VLLMGrammar:
        """Returns the grammar of a request; raises ValueError if it cannot work."""
        return VLLMGrammar(self._grammars.grammar(request_type.name.lower(), grammar_spec, stop_token_ids or ()))

    def allocate_token_bitmask(self, max_num_seqs: int) -> Tensor:
        """Returns packed masks that allow all tokens: int32[max_num_seqs, words]."""
        return torch.full((max_num_seqs, (self.vocab_size + 31) // 32), -1, dtype=torch.int32)

    def destroy(self) -> None:
        """Does nothing: the backend holds nothing that must be freed."""


class VLLMGrammar(StructuredOutputGrammar):  # type: ignore[misc]
    """One request's walk through its grammar."""

    def __init__(self, grammar: Grammar) -> None:
        self._matcher = grammar.matcher()

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Takes tokens. Returns False if one is not allowed; tokens behind the end are padding."""
        return len(self._taken(tokens)) == len(tokens) or self._matcher.finished

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """Returns the tokens up to the first one that is not allowed, without taking them."""
        taken = self._taken(tokens)
        self._matcher.rollback(len(taken))
        return taken

    def _taken(self, tokens: list[int]) -> list[int]:
        for count, token in enumerate(tokens):
            try:
                self._matcher.advance(token)
            except TokenRejected:
                return tokens[:count]
        return tokens

    def rollback(self, num_tokens: int) -> None:
        """Takes the last tokens back."""
        self._matcher.rollback(num_tokens)

    def fill_bitmask(self, bitmask: Tensor, batch_index: int) -> None:
        """Writes the mask of the next token into a row, while other threads may write other rows."""
        fill_row(self._matcher, bitmask[batch_index].numpy())

    def is_terminated(self) -> bool:
        """Was an end token taken?"""
        return self._matcher.finished

    def reset(self) -> None:
        """Goes back to the start."""
        self._matcher = self._matcher.grammar.matcher()
