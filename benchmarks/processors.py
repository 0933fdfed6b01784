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

    grammar = _llguidance_grammar(schema)

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


def llguidance_lookup_processor(tokenizer: Any, schema: Any) -> Factory:
    """The same for prompt lookup, which asks at each token of a draft and takes back what it does not keep; one row.

    A draft that the grammar refuses is refused by the mask before it: the masks behind it do not matter.
    """
    import llguidance
    import llguidance.torch

    grammar = _llguidance_grammar(schema)

    class Processor:
        def __init__(self) -> None:
            self.matcher = llguidance.LLMatcher(tokenizer, grammar)
            self.mask = llguidance.torch.allocate_token_bitmask(1, tokenizer.vocab_size)
            self.prompt_length = -1
            self.consumed: list[int] = []

        def __call__(self, input_ids: Any, scores: Any) -> Any:
            if self.prompt_length < 0:
                self.prompt_length = input_ids.shape[1]
            if not self._follow(input_ids[0, self.prompt_length :].tolist()):
                return scores
            llguidance.torch.fill_next_token_bitmask(self.matcher, self.mask, 0)
            llguidance.torch.apply_token_bitmask_inplace(scores, self.mask.to(scores.device))
            return scores

        def _follow(self, ids: list[int]) -> bool:
            """Have the matcher stand behind these ids; False where the grammar refuses one."""
            same = next((i for i, (a, b) in enumerate(zip(ids, self.consumed, strict=False)) if a != b), None)
            kept = min(len(ids), len(self.consumed)) if same is None else same
            if kept < len(self.consumed):
                self.matcher.rollback(len(self.consumed) - kept)
            taken = self.matcher.try_consume_tokens(ids[kept:])
            self.consumed = ids[: kept + taken]
            return kept + taken == len(ids)

    return Processor


def _llguidance_grammar(schema: Any) -> str:
    import llguidance

    return llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=LAYOUT)


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
