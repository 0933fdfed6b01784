"""Finds the reader for a tokenizer object. No tokenizer library is imported: who passes an object has it."""

from __future__ import annotations

from typing import Any

from structgen.errors import VocabularyError
from structgen.vocabulary.ends import as_ids
from structgen.vocabulary.huggingface import FastSource
from structgen.vocabulary.pieces import SentencePieceSource
from structgen.vocabulary.slow import slow_source
from structgen.vocabulary.table import Source
from structgen.vocabulary.tiktokens import tekken_source, tiktoken_source


def source_of(tokenizer: Any) -> Source:
    """The reader of a tokenizer.

    Raises:
        VocabularyError: nothing that structgen knows.
    """
    if _is(tokenizer, "tokenizers", "Tokenizer"):
        return FastSource(tokenizer, frozenset(), [])
    if _is(tokenizer, "tiktoken", "Encoding"):
        return tiktoken_source(tokenizer)
    if _is(tokenizer, "sentencepiece", "SentencePieceProcessor"):
        return SentencePieceSource(tokenizer)
    if type(tokenizer).__module__.startswith("mistral_common."):
        return _mistral_source(tokenizer)
    if type(getattr(tokenizer, "tokenizer", None)).__module__.startswith("mistral_common."):
        return _mistral_source(tokenizer.tokenizer)
    if hasattr(tokenizer, "convert_ids_to_tokens"):
        return _transformers_source(tokenizer)
    kind = f"{type(tokenizer).__module__}.{type(tokenizer).__name__}"
    raise VocabularyError(
        f"{kind} is no tokenizer that structgen can read: expected one of transformers, tokenizers, "
        "tiktoken, sentencepiece or mistral-common; otherwise use Vocabulary.from_tokens(tokens, end_ids)"
    )


def _is(tokenizer: Any, package: str, name: str) -> bool:
    """True when the object's class, or one it is derived from, is `package.name`."""
    return any(base.__name__ == name and base.__module__.split(".")[0] == package for base in type(tokenizer).__mro__)


def _transformers_source(tokenizer: Any) -> Source:
    ends = as_ids(getattr(tokenizer, "eos_token_id", None), "the tokenizer's eos_token_id")
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return slow_source(tokenizer, ends)
    # A special token that is named in the configuration but not in the vocabulary has the id None.
    special = frozenset(i for i in tokenizer.all_special_ids if i is not None)
    return FastSource(backend, special, ends)


def _mistral_source(tokenizer: Any) -> Source:
    """mistral-common wraps twice: `MistralTokenizer.instruct_tokenizer.tokenizer` knows the tokens."""
    inner = getattr(tokenizer, "instruct_tokenizer", tokenizer)
    inner = getattr(inner, "tokenizer", inner)
    if _is(inner, "mistral_common", "Tekkenizer"):
        return tekken_source(inner)
    if _is(inner, "mistral_common", "SentencePieceTokenizer"):
        return SentencePieceSource(inner._model)
    raise VocabularyError(f"mistral-common's {type(inner).__name__} is neither tekken nor SentencePiece")
