"""llguidance through its Python interface for numpy."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import llguidance
import llguidance.hf
import llguidance.numpy

from benchmarks.engines import Refused

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# The layout of `json.dumps`, which is the documents', or any.
_LAYOUTS = {
    "spaced": {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "},
    "flexible": {"whitespace_flexible": True, "item_separator": ",", "key_separator": ":"},
}


class LLGuidance:
    lazy = True
    order = None
    whitespace = "spaced"
    settings = (
        "whitespace_flexible=false, separators ', ' and ': ' (with --whitespace flexible: true, ',' and ':'); "
        "the schema as a JSON string made beforehand"
    )

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.version = version("llguidance")
        self._tokenizer = llguidance.hf.from_tokenizer(tokenizer)
        self._mask = llguidance.numpy.allocate_token_bitmask(1, self._tokenizer.vocab_size)
        self._words = self._mask[0].view("uint32")

    def prepare(self, schema: dict[str, Any] | bool | str) -> str:
        if isinstance(schema, str):
            return str(llguidance.LLMatcher.grammar_from_lark(schema))
        layout = _LAYOUTS[self.whitespace]
        grammar: str = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=layout)
        return grammar

    def compile(self, prepared: str) -> None:
        self._grammar = llguidance.LLMatcher(self._tokenizer, prepared, log_level=0)
        if self._grammar.is_error():
            raise Refused(self._grammar.get_error())
        self._fresh = True

    def start(self) -> None:
        # A new matcher stands at its start already; `reset` is the cheapest way back there.
        if not self._fresh:
            self._grammar.reset()
        self._fresh = False

    def mask(self) -> None:
        llguidance.numpy.fill_next_token_bitmask(self._grammar, self._mask)

    def allows(self, token: int) -> bool:
        if self._grammar.is_error():
            raise RuntimeError(self._grammar.get_error())
        return bool(self._words[token >> 5] >> (token & 31) & 1)

    def advance(self, token: int) -> None:
        self._grammar.consume_token(token)


build = LLGuidance
