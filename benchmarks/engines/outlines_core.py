"""outlines-core: a schema becomes a regular expression, and that an index of tokens by state."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
import outlines_core
from outlines_core.json_schema import build_regex_from_schema

import structgen as sg
from benchmarks.engines import Refused

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class OutlinesCore:
    lazy = False  # an index of the warm-up's schema would take minutes, and nothing of it is kept
    order = whitespace = None
    settings = "bit masks by write_mask_into; defaults for white space (at most one blank) and depth of recursion (3)"

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.version = version("outlines-core")
        known = sg.engine.Vocabulary.from_tokenizer(tokenizer)  # only for the bytes of each token
        ids = dict[bytes, list[int]]()
        for token in range(known.width):
            if text := known.token(token):
                ids.setdefault(text, []).append(token)
        self._vocabulary = outlines_core.Vocabulary(tokenizer.eos_token_id, ids)
        self._words = np.zeros((len(tokenizer) + 31) // 32, np.uint32)

    def prepare(self, schema: dict[str, Any] | bool) -> str:
        return json.dumps(schema)

    def compile(self, prepared: str) -> None:
        try:
            self._index = outlines_core.Index(build_regex_from_schema(prepared), self._vocabulary)
        except Exception as error:  # it has no error type of its own for this
            raise Refused(f"{type(error).__name__}: {error}") from error

    def start(self) -> None:
        self._guide = outlines_core.Guide(self._index)

    def mask(self) -> None:
        self._guide.write_mask_into(self._words.ctypes.data, self._words.size, self._words.itemsize)

    def allows(self, token: int) -> bool:
        return bool(self._words[token >> 5] >> (token & 31) & 1)

    def advance(self, token: int) -> None:
        self._guide.advance(token, return_tokens=False)


build = OutlinesCore
