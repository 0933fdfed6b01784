"""The peers' logits processors for transformers' `generate`, in the layout of `json.dumps`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Factory = Callable[[], Any]
"""A fresh logits processor for one run."""

LAYOUT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


def llguidance_processor(tokenizer: Any, schema: Any) -> Factory:
    """As its documentation shows it: consume the last token, fill the mask, apply it by its kernel.

    Args:
        tokenizer: an `LLTokenizer`.
        schema: that is to be met.
    """
    import llguidance
    import llguidance.torch

    grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=LAYOUT)

    class Processor:
        def __init__(self) -> None:
            self.matchers: list[Any] = []

        def __call__(self, input_ids: Any, scores: Any) -> Any:
            if self.matchers:
                for matcher, token in zip(self.matchers, input_ids[:, -1].tolist(), strict=True):
                    if not matcher.is_stopped():
                        matcher.consume_token(token)
            else:
                self.matchers = [llguidance.LLMatcher(tokenizer, grammar) for _ in range(len(input_ids))]
                self.mask = llguidance.torch.allocate_token_bitmask(len(input_ids), tokenizer.vocab_size)
            for row, matcher in enumerate(self.matchers):
                llguidance.torch.fill_next_token_bitmask(matcher, self.mask, row)
            llguidance.torch.apply_token_bitmask_inplace(scores, self.mask.to(scores.device))
            return scores

    return Processor


def xgrammar_processor(info: Any, schema: Any) -> Factory:
    """Its own processor for transformers.

    Args:
        info: a `TokenizerInfo`.
        schema: that is to be met.
    """
    import xgrammar

    layout: dict[str, Any] = {"any_whitespace": False, "separators": (", ", ": ")}
    compiled = xgrammar.GrammarCompiler(info).compile_json_schema(json.dumps(schema), **layout)
    return lambda: xgrammar.contrib.hf.LogitsProcessor(compiled)
