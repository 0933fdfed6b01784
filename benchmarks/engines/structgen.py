"""structgen through its own interface for engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import structgen as sg
from benchmarks.engines import Refused
from structgen.errors import DeadEnd, RequestError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Structgen:
    lazy = True
    settings = "defaults"
    order, whitespace = "schema", "spaced"

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.version = sg.__version__
        self._vocabulary = sg.engine.Vocabulary.from_tokenizer(tokenizer)
        self._nothing = np.zeros(self._vocabulary.words, np.uint32)
        self._vocabulary.trie  # noqa: B018 - built on first use, and part of the start-up

    def prepare(self, schema: dict[str, Any] | bool | str) -> dict[str, Any] | bool | str:
        return schema

    def compile(self, prepared: dict[str, Any] | bool | str) -> None:
        try:
            if isinstance(prepared, str):
                self._grammar = sg.Lark(prepared).compile(self._vocabulary)
            else:
                layout = sg.Whitespace.FLEXIBLE if self.whitespace == "flexible" else sg.Whitespace.SPACED
                constraint = sg.JsonSchema(prepared, order=self.order, whitespace=layout)
                self._grammar = constraint.compile(self._vocabulary)
        except RequestError as error:
            raise Refused(f"{type(error).__name__}: {error}") from error

    def start(self) -> None:
        self._matcher = self._grammar.matcher()

    def mask(self) -> None:
        try:
            self._mask = self._matcher.mask()
        except DeadEnd:  # nothing at all may follow
            self._mask = self._nothing

    def allows(self, token: int) -> bool:
        return bool(self._mask[token >> 5] >> (token & 31) & 1)

    def advance(self, token: int) -> None:
        self._matcher.advance(token)


build = Structgen
