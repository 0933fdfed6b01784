"""What a model's own `generation_config` says of sampling, in the options of `Sampling`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from structgen.arguments import require
from structgen.errors import quoted

_LEFT_OUT = {
    "bad_words_ids": "banned=[...] takes texts",
    "begin_suppress_tokens": "the schema says how a text begins",
    "forced_eos_token_id": "the constraint, or Limits(max_new_tokens=...), says where a text ends",
    "guidance_scale": "it needs rows in pairs; here each row stands for itself",
    "length_penalty": "pass beams=sg.Beams(...)",
    "max_length": "pass limits=sg.Limits(max_new_tokens=...)",
    "max_new_tokens": "pass limits=sg.Limits(max_new_tokens=...)",
    "min_length": "the schema says how short a text may be",
    "min_new_tokens": "the schema says how short a text may be",
    "num_beams": "pass beams=...",
    "num_return_sequences": "see Sampling.several",
    "stop_strings": "pass limits=sg.Limits(stop=[...])",
}
"""Settings of a `GenerationConfig` that `Sampling.from_model` does not read, and what to do instead."""
_NO_SAMPLING = {
    "bos_token_id", "decoder_start_token_id", "dtype", "eos_token_id", "forced_bos_token_id", "pad_token_id",
    "cache_config", "cache_implementation", "max_cache_len", "use_cache", "compile_config", "disable_compile",
    "output_attentions", "output_hidden_states", "output_logits", "output_scores", "return_dict_in_generate",
    "is_assistant", "num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold",
    "assistant_lookbehind", "target_lookbehind", "prompt_lookup_num_tokens", "max_matching_ngram_size",
    "renormalize_logits", "remove_invalid_values", "token_healing", "early_stopping", "transformers_version",
}  # fmt: skip
"""Settings of a `GenerationConfig` that `Model` reads, or that change no text here."""


@dataclass(frozen=True, slots=True)
class Suppressed:
    """A logits processor: these tokens are chosen only where no other is allowed."""

    ids: tuple[int, ...]

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        others = scores.index_fill(-1, input_ids.new_tensor(self.ids), -math.inf)
        return others if bool((others > -math.inf).any()) else scores


def recommended(model: Any, names: Iterable[str]) -> dict[str, Any]:
    """The settings of a model's `generation_config`, as options of `Sampling`; warns of those that are left out.

    Args:
        names: the options that may be read.

    Raises:
        OptionError: the model has no `generation_config`.
    """
    config: Any = getattr(getattr(model, "module", model), "generation_config", None)
    allowed = "what structgen.load(...) returns, or a transformers model, with a generation_config"
    require(hasattr(config, "to_diff_dict"), "model", model, allowed)
    given = {name: value for name, value in config.to_diff_dict().items() if value is not None}
    read: dict[str, Any] = {"temperature": 1.0} if given.pop("do_sample", False) else {"temperature": 0.0}
    for name in names:
        value = given.pop(name, None)
        if value is not None and (name == "repetition_penalty" or read["temperature"]):
            read[name] = value
    if suppressed := tuple(given.pop("suppress_tokens", ())):
        read["processors"] = (Suppressed(suppressed),)
    left = sorted(name for name in given if name not in _NO_SAMPLING and not name.startswith("_"))
    if left:
        advice = [f"{name}={quoted(given[name])} ({_LEFT_OUT.get(name, 'nothing alike')})" for name in left]
        warnings.warn(f"Sampling.from_model leaves out {', '.join(advice)}", stacklevel=3)
    return read
