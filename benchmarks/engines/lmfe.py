"""lm-format-enforcer through its core: its module for transformers does not import on transformers 5.

What that module does with a tokenizer is done here in the same way, so the engine itself runs unchanged.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from lmformatenforcer import JsonSchemaParser
from lmformatenforcer.tokenenforcer import TokenEnforcer, TokenEnforcerTokenizerData

from benchmarks.engines import Refused

if TYPE_CHECKING:
    from lmformatenforcer.tokenlist import TokenList
    from transformers import PreTrainedTokenizerBase


def _tokenizer_data(tokenizer: PreTrainedTokenizerBase) -> TokenEnforcerTokenizerData:
    """Every token but the special ones as (id, text, starts a word). The text is what follows a `0`."""
    zero = tokenizer.encode("0")[-1]
    special = set(tokenizer.all_special_ids)
    tokens = []
    for token in range(len(tokenizer)):
        if token not in special:
            text = tokenizer.decode([zero, token])[1:]
            tokens.append((token, text, len(text) > len(tokenizer.decode([token]))))

    def decode(ids: list[int]) -> str:
        return tokenizer.decode(ids).rstrip("\ufffd")

    return TokenEnforcerTokenizerData(tokens, decode, tokenizer.eos_token_id, False, len(tokenizer))


class LMFormatEnforcer:
    lazy = False  # all of it is plain Python, and a pattern over a wide alphabet would take minutes
    order = whitespace = None
    settings = (
        "token lists, which are faster than its bit masks; "
        "its core classes, as its module for transformers does not import on transformers 5"
    )

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.version = version("lm-format-enforcer")
        self._data = _tokenizer_data(tokenizer)

    def prepare(self, schema: dict[str, Any] | bool) -> dict[str, Any] | bool:
        return schema

    def compile(self, prepared: dict[str, Any] | bool) -> None:
        try:
            self._enforcer = TokenEnforcer(self._data, JsonSchemaParser(prepared))
        except Exception as error:  # it has no error type of its own for this
            raise Refused(f"{type(error).__name__}: {error}") from error

    def start(self) -> None:
        self._tokens: list[int] = []

    def mask(self) -> None:
        # It takes the whole sequence each time: the advance happens in here.
        self._mask: TokenList = self._enforcer.get_allowed_tokens(self._tokens)

    def allows(self, token: int) -> bool:
        return bool(self._mask.is_token_allowed(token))

    def advance(self, token: int) -> None:
        self._tokens.append(token)


build = LMFormatEnforcer
