"""SGLang: structgen as its grammar backend.

    python -m sglang.launch_server --model-path ... --grammar-backend structgen

`register` is an entry point of SGLang's plugins: it is enough to install structgen next to SGLang.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partialmethod
from typing import Any

import torch
from sglang.srt.arg_groups.choices import GRAMMAR_BACKEND_CHOICES, add_grammar_backend_choices
from sglang.srt.constrained.base_grammar_backend import (
    BaseGrammarBackend,
    BaseGrammarObject,
    InvalidGrammarObject,
    register_grammar_backend,
)
from torch import Tensor

from structgen.decoding.choosing.masking import apply_masks
from structgen.errors import StructgenError
from structgen.integrations.text_grammars import TextGrammars, fill_row
from structgen.masks import Matcher

NAME = "structgen"
ANY_JSON = "$$ANY$$"
"""SGLang's word for any JSON."""


def register() -> None:
    """Makes the backend known to SGLang; each of its processes calls it."""
    if NAME not in GRAMMAR_BACKEND_CHOICES:
        add_grammar_backend_choices([NAME])
    register_grammar_backend(NAME, _create)


def _create(server_args: Any, tokenizer: Any, vocab_size: int, eos_token_ids: Iterable[int] | None) -> Any:
    """The backend; with a reasoning parser inside SGLang's own, which leaves the thinking free."""
    compact = bool(getattr(server_args, "constrained_json_disable_any_whitespace", False))
    backend = SGLangBackend(TextGrammars(tokenizer, vocab_size, compact=compact), eos_token_ids or ())
    name = getattr(server_args, "reasoning_parser", None)
    if not name:
        return backend
    from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarBackend
    from sglang.srt.parser.reasoning_parser import ReasoningParser

    parser = ReasoningParser(model_type=name, stream_reasoning=False, tokenizer=tokenizer)
    strict = bool(getattr(server_args, "enable_strict_thinking", False))
    return ReasonerGrammarBackend(backend, parser, tokenizer, enable_strict_thinking=strict)


class SGLangBackend(BaseGrammarBackend):  # type: ignore[misc]
    """Compiles the constraints of requests, in SGLang's thread pool.

    Args:
        end_ids: tokens that end a text next to the tokenizer's own.
    """

    def __init__(self, grammars: TextGrammars, end_ids: Iterable[int]) -> None:
        super().__init__()
        self._grammars, self._end_ids = grammars, tuple(end_ids)

    def _compiled(self, kind: str, key_string: str) -> BaseGrammarObject:
        try:
            return SGLangGrammar(self._grammars.matcher(kind, key_string, self._end_ids))
        except (StructgenError, ValueError) as error:
            return InvalidGrammarObject(str(error))

    def dispatch_json(self, key_string: str) -> BaseGrammarObject:
        """Compiles a JSON Schema."""
        return self._compiled("json", "true" if key_string == ANY_JSON else key_string)

    dispatch_regex = partialmethod(_compiled, "regex")
    dispatch_ebnf = partialmethod(_compiled, "grammar")
    dispatch_structural_tag = partialmethod(_compiled, "structural_tag")

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> Tensor:
        """Returns packed masks on the host that allow all tokens: int32[batch_size, words]."""
        return torch.full((batch_size, (self._grammars.width + 31) // 32), -1, dtype=torch.int32)

    @staticmethod
    def move_vocab_mask(vocab_mask: Tensor, device: Any) -> Tensor:
        """Returns the masks on the device."""
        return vocab_mask.to(device, non_blocking=True)

    @staticmethod
    def apply_vocab_mask(logits: Tensor, vocab_mask: Tensor) -> None:
        """Writes `-inf` where a token is not allowed, and in columns beyond the masks."""
        rows = torch.arange(len(logits), dtype=torch.int32, device=logits.device)
        apply_masks(logits, vocab_mask, rows, min(logits.shape[1], 32 * vocab_mask.shape[1]))


class SGLangGrammar(BaseGrammarObject):  # type: ignore[misc]
    """One request's walk through its grammar."""

    def __init__(self, matcher: Matcher) -> None:
        super().__init__()
        self._matcher = matcher

    def accept_token(self, token: int) -> None:
        """Takes a token; raises ValueError if it is not allowed."""
        if self.finished or self._matcher.finished:
            return
        try:
            self._matcher.advance(token)
        except StructgenError as error:
            raise ValueError(str(error)) from error

    def rollback(self, k: int) -> None:
        """Takes the last `k` tokens back."""
        self._matcher.rollback(k)
        self.finished = False

    def is_terminated(self) -> bool:
        """Was an end token taken?"""
        return self._matcher.finished

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> Tensor:
        """Returns packed masks on the host that allow all tokens: int32[batch_size, words]."""
        return torch.full((batch_size, self._matcher.grammar.vocabulary.words), -1, dtype=torch.int32)

    def fill_vocab_mask(self, vocab_mask: Tensor, idx: int) -> None:
        """Writes the mask of the next token into a row."""
        fill_row(self._matcher, vocab_mask[idx].numpy())

    @staticmethod
    def reset_vocab_mask(vocab_mask: Tensor) -> None:
        """Allows all tokens in all rows."""
        vocab_mask.fill_(-1)

    move_vocab_mask = staticmethod(SGLangBackend.move_vocab_mask)
    apply_vocab_mask = staticmethod(SGLangBackend.apply_vocab_mask)

    def copy(self) -> SGLangGrammar:
        """Returns a new walk from the start."""
        twin = self._matcher.fork()
        twin.rollback(len(twin.token_ids) + twin.finished)
        return SGLangGrammar(twin)
