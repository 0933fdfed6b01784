"""The peers' logits processors for transformers' `generate`, over the vocabulary of `gpu.py`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import structgen as sg

Factory = Callable[[], Any]
"""A fresh logits processor for one run."""


def llguidance_processor(model: sg.Model, schema: Any) -> Factory:
    """As its documentation shows it: consume the last token, fill the mask, apply it by its kernel."""
    import llguidance
    import llguidance.torch

    vocabulary = model.vocabulary

    class Tokenizer:
        def __init__(self) -> None:
            self.eos_token_id, self.bos_token_id = vocabulary.end_ids[0], None
            self.tokens = [vocabulary.token(i) or b"\xff<end>" for i in range(vocabulary.width)]
            self.special_token_ids = list(vocabulary.end_ids)

        def __call__(self, text: str) -> list[int]:
            return model.tokenizer.encode(text)

    owner = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Tokenizer()))
    layout = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=layout)

    class Processor:
        def __init__(self) -> None:
            self.matchers: list[Any] = []

        def __call__(self, input_ids: Any, scores: Any) -> Any:
            if self.matchers:
                for matcher, token in zip(self.matchers, input_ids[:, -1].tolist(), strict=True):
                    if not matcher.is_stopped():
                        matcher.consume_token(token)
            else:
                self.matchers = [llguidance.LLMatcher(owner, grammar) for _ in range(len(input_ids))]
                self.mask = llguidance.torch.allocate_token_bitmask(len(input_ids), owner.vocab_size)
            for row, matcher in enumerate(self.matchers):
                llguidance.torch.fill_next_token_bitmask(matcher, self.mask, row)
            llguidance.torch.apply_token_bitmask_inplace(scores, self.mask.to(scores.device))
            return scores

    return Processor


def xgrammar_processor(model: sg.Model, schema: Any) -> Factory:
    """Its own processor for transformers."""
    import xgrammar

    names = [model.vocabulary.token(i) for i in range(model.vocabulary.width)]
    info = xgrammar.TokenizerInfo(names, vocab_size=len(names), stop_token_ids=list(model.vocabulary.end_ids))
    layout = {"any_whitespace": False, "separators": (", ", ": ")}
    compiled = xgrammar.GrammarCompiler(info).compile_json_schema(json.dumps(schema), **layout)
    return lambda: xgrammar.contrib.hf.LogitsProcessor(compiled)


PEERS = {"llguidance": llguidance_processor, "xgrammar": xgrammar_processor}
