"""xgrammar, one thread, nothing kept between schemas."""

from __future__ import annotations

import inspect
import json
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import xgrammar

from benchmarks.engines import Refused

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class XGrammar:
    lazy = True
    order = whitespace = None
    settings = "any_whitespace=True, strict_mode=False, max_threads=1, no cache between schemas"

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.version = version("xgrammar")
        width = len(tokenizer)
        info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=width)
        options: dict[str, Any] = {"max_threads": 1, "cache_enabled": False}
        if "enable_dynamic_compilation" in inspect.signature(xgrammar.GrammarCompiler).parameters:  # from 0.2.9 on
            options["enable_dynamic_compilation"] = True
            self.settings += ", enable_dynamic_compilation=True"
        self._compiler = xgrammar.GrammarCompiler(info, **options)
        self._mask = xgrammar.allocate_token_bitmask(1, width)
        self._words = self._mask[0].numpy().view("uint32")

    def prepare(self, schema: dict[str, Any] | bool) -> str:
        return json.dumps(schema)

    def compile(self, prepared: str) -> None:
        try:
            self._grammar = self._compiler.compile_json_schema(prepared, any_whitespace=True, strict_mode=False)
        except (RuntimeError, ValueError) as error:
            raise Refused(str(error)) from error

    def start(self) -> None:
        self._matcher = xgrammar.GrammarMatcher(self._grammar)

    def mask(self) -> None:
        self._partial = self._matcher.fill_next_token_bitmask(self._mask)

    def allows(self, token: int) -> bool:
        # False from the fill means that no token is masked, and that the array need not be read.
        return not self._partial or bool(self._words[token >> 5] >> (token & 31) & 1)

    def advance(self, token: int) -> None:
        if not self._matcher.accept_token(token):
            raise RuntimeError(f"token {token} is in the mask, but accept_token refuses it")


build = XGrammar
