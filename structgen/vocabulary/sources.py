"""Finds the reader for a tokenizer object. No tokenizer library is imported: whoever passes an object has it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from structgen.errors import VocabularyError
from structgen.vocabulary.canonical import Encoder
from structgen.vocabulary.huggingface import declared_special, fast_source
from structgen.vocabulary.pieces import sentencepiece_source, slow_source
from structgen.vocabulary.table import TokenTable, VocabularySource, as_ids, table_source


def source_of(tokenizer: Any) -> VocabularySource:
    """What the reader for a tokenizer's library makes of it.

    Raises:
        VocabularyError: structgen does not know the library.
    """
    if _is(tokenizer, "tokenizers", "Tokenizer"):
        return fast_source(tokenizer, frozenset(), [])
    if _is(tokenizer, "tiktoken", "Encoding"):
        return _tiktoken_source(tokenizer)
    if _is(tokenizer, "sentencepiece", "SentencePieceProcessor"):
        return sentencepiece_source(tokenizer)
    if type(tokenizer).__module__.startswith("mistral_common."):
        return _mistral_source(tokenizer)
    if type(getattr(tokenizer, "tokenizer", None)).__module__.startswith("mistral_common."):
        return _mistral_source(tokenizer.tokenizer)
    if hasattr(tokenizer, "convert_ids_to_tokens"):
        return _transformers_source(tokenizer)
    kind = f"{type(tokenizer).__module__}.{type(tokenizer).__name__}"
    raise VocabularyError(
        f"{kind} is not a tokenizer that structgen can read: expected one of transformers, tokenizers, "
        "tiktoken, sentencepiece or mistral-common; otherwise use Vocabulary.from_tokens(tokens, end_ids)"
    )


def _is(tokenizer: Any, package: str, name: str) -> bool:
    """True when the object's class, or one it is derived from, is `package.name`."""
    return any(base.__name__ == name and base.__module__.split(".")[0] == package for base in type(tokenizer).__mro__)


def _transformers_source(tokenizer: Any) -> VocabularySource:
    ends = as_ids(getattr(tokenizer, "eos_token_id", None), "the tokenizer's eos_token_id")
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return slow_source(tokenizer, ends)
    special = declared_special(tokenizer, backend.get_added_tokens_decoder())
    return fast_source(backend, special, ends, str(getattr(tokenizer, "chat_template", "")))


def _mistral_source(tokenizer: Any) -> VocabularySource:
    """mistral-common wraps twice: `MistralTokenizer.instruct_tokenizer.tokenizer` knows the tokens."""
    inner = getattr(tokenizer, "instruct_tokenizer", tokenizer)
    inner = getattr(inner, "tokenizer", inner)
    if _is(inner, "mistral_common", "Tekkenizer"):
        return _tekken_source(inner)
    if _is(inner, "mistral_common", "SentencePieceTokenizer"):
        return sentencepiece_source(inner._model)
    raise VocabularyError(f"mistral-common's {type(inner).__name__} is neither tekken nor SentencePiece")


def _tiktoken_source(encoding: Any) -> VocabularySource:
    """The source of a `tiktoken.Encoding`. Its end is `<|endoftext|>`, if it has that token."""
    special = {text: encoding.encode_single_token(text) for text in encoding.special_tokens_set}
    names = {i: text for text, i in special.items()}
    table = TokenTable(_tiktoken_tokens(encoding, frozenset(names)), names)
    encode = partial(encoding.encode, allowed_special=encoding.special_tokens_set)
    ends = [i for text, i in special.items() if text == "<|endoftext|>"]
    return table_source(table, ends, Encoder(encode, _tiktoken_cuts(encoding)))


def _tekken_source(tokenizer: Any) -> VocabularySource:
    """The source of a mistral-common `Tekkenizer`: `num_special_tokens` special ids, then tiktoken's."""
    front: int = tokenizer.num_special_tokens
    text = _tiktoken_tokens(tokenizer._model, frozenset())
    special = {i: str(tokenizer.id_to_piece(i)) for i in range(front)}
    encode = partial(tokenizer.encode, bos=False, eos=False)
    encoder = Encoder(encode, _tiktoken_cuts(tokenizer._model))
    return table_source(TokenTable([*[None] * front, *text], special), [tokenizer.eos_id], encoder)


def _tiktoken_cuts(encoding: Any) -> Callable[[str], list[int]]:
    import regex  # tiktoken needs it, too

    return partial(_starts, regex.compile(encoding._pat_str))


def _starts(pattern: Any, text: str) -> list[int]:
    return [match.start() for match in pattern.finditer(text)]


def _tiktoken_tokens(encoding: Any, special: frozenset[int]) -> list[bytes | None]:
    """The bytes by id; None for special and unused ids."""
    bytes_of = encoding.decode_single_token_bytes
    tokens: list[bytes | None] = []
    for i in range(encoding.max_token_value + 1):
        try:
            tokens.append(None if i in special else bytes_of(i))
        except KeyError:
            tokens.append(None)
    return tokens
