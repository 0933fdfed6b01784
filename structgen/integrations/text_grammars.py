"""Compiles the constraints of requests, for the plugins of SGLang and vLLM."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.chat.structural import StructuralTag
from structgen.constraints.basic import Choice, Constraint, JsonSchema, Regex
from structgen.constraints.languages import grammar_of
from structgen.decoding.grammars import grammar_for
from structgen.errors import DeadEnd
from structgen.integrations.followed_rows import matcher_of
from structgen.masks import Matcher
from structgen.options import Whitespace
from structgen.vocabulary import Vocabulary

CANONICAL = "STRUCTGEN_CANONICAL"
"""The environment variable for canonical tokens in the plugins: "off", "prefer" or "strict"."""


def constraint_of(kind: str, text: str, whitespace: Whitespace = Whitespace.SPACED) -> Constraint:
    """Returns the constraint that a request asks for.

    Args:
        kind: "json" (the text of a schema), "json_object", "choice" (a JSON list of texts), "regex", "grammar" (in
            Lark's, llama.cpp's or xgrammar's notation) or "structural_tag" (JSON).

    Raises:
        RequestError, ValueError: it cannot work; the message says why.
    """
    if kind == "json":
        return JsonSchema(json.loads(text), whitespace=whitespace)
    if kind == "json_object":
        return JsonSchema({"type": "object"}, whitespace=whitespace)
    if kind == "choice":
        return Choice(json.loads(text))
    if kind == "regex":
        return Regex(text)
    if kind == "grammar":
        return grammar_of(text)
    if kind == "structural_tag":
        return StructuralTag(json.loads(text))
    raise ValueError(f"structgen takes no {kind}, only json, json_object, choice, regex, grammar and structural_tag")


class TextGrammars:
    """Compiles the constraints of a server's requests. Any thread may ask.

    Args:
        width: the number of columns of the logits.
        compact: write JSON without white space; otherwise as `json.dumps` does.

    Raises:
        OptionError: the variable `STRUCTGEN_CANONICAL` is none of "off", "prefer" and "strict".
    """

    def __init__(self, tokenizer: Any, width: int, *, compact: bool = False) -> None:
        self._tokenizer, self.width = tokenizer, width
        self._whitespace = Whitespace.COMPACT if compact else Whitespace.SPACED
        self._canonical: Any = os.environ.get(CANONICAL) or "off"
        self._vocabularies: dict[frozenset[int], Vocabulary] = {}
        self._lock = Lock()

    def matcher(self, kind: str, text: str, end_ids: Iterable[int]) -> Matcher:
        """Returns a matcher of a request's grammar. The prompt is not known, so a canonical text's first token is free.

        Args:
            end_ids: tokens that may end the text next to the tokenizer's own.

        Raises:
            RequestError, ValueError: the constraint cannot work; the message says why.
        """
        constraint = constraint_of(kind, text, self._whitespace)
        grammar = grammar_for(constraint, self._vocabulary(frozenset(end_ids)))
        return matcher_of(grammar, self._canonical)

    def _vocabulary(self, end_ids: frozenset[int]) -> Vocabulary:
        with self._lock:
            if end_ids not in self._vocabularies:  # by hand: two threads must not make the same vocabulary
                known = [token for token in end_ids if token < self.width]
                made = Vocabulary.from_tokenizer(self._tokenizer, width=self.width, end_ids=known)
                self._vocabularies[end_ids] = made
            return self._vocabularies[end_ids]


def fill_row(matcher: Matcher, row: NDArray[np.int32]) -> None:
    """Writes the mask of the next token.

    If no token is allowed, the mask has the end tokens, which the matcher refuses: only this request fails.
    """
    try:
        matcher.mask(row)  # type: ignore[arg-type]
    except DeadEnd:
        row[:] = matcher.grammar.vocabulary.end_words.view(np.int32)
