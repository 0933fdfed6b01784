"""A language model with its tokenizer and vocabulary."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any, cast

import torch
from transformers import (
    PreTrainedModel,
)

from structgen.arguments import is_whole, require, require_count
from structgen.errors import OptionError, quoted
from structgen.models.hosts.host import Host
from structgen.models.prefixes import PrefixTree, prefixes_of
from structgen.models.quiet import expect_long_texts
from structgen.models.transfer import device_of
from structgen.vocabulary import Vocabulary
from structgen.vocabulary.table import declared_ends, declared_width

_Vocabularies = weakref.WeakKeyDictionary[Any, tuple[tuple[Any, ...], Vocabulary]]
_vocabularies: weakref.WeakKeyDictionary[Any, _Vocabularies] = weakref.WeakKeyDictionary()
"""By model and tokenizer, the vocabulary that was made of them, and what they declared then (see `_declared`)."""


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """What `load` gives: a model that generates, its tokenizer and the tokenizer's vocabulary.

    It does not see end tokens that are configured later, nor tokens that are added later: make a new one by
    `Model.of(model.module, model.tokenizer)`.

    Attributes:
        module: the transformers model, on any device and in any dtype; or a `Host`, which another engine runs.
        tokenizer: encodes prompts; only `encode` and, for chat messages, `apply_chat_template` are used.
        vocabulary: the tokenizer's tokens as bytes, and every id that ends the text.
        set_context: the `context` that the caller has set; None for that of the model.
        processor: transformers' processor, which reads images in chat messages; None without one.
    """

    module: PreTrainedModel | Host
    tokenizer: Any
    vocabulary: Vocabulary
    set_context: int | None = None
    processor: Any = None

    def __post_init__(self) -> None:
        expect_long_texts(self.tokenizer)

    @classmethod
    def of(
        cls, module: PreTrainedModel, tokenizer: Any, *, context: int | None = None, prefix_bytes: int | None = None
    ) -> Model:
        """Wraps a loaded model. The vocabulary is made once per model and tokenizer, until they change.

        Args:
            module: a transformers model, or a `PeftModel` around one: its layers have the adapters that are active.
            tokenizer: its tokenizer; or the processor of a model that reads images, which has a tokenizer.
            context: the longest sequence in tokens, instead of what the configuration says (see `context`).
            prefix_bytes: the most memory for the prefixes that the model has read, see `load`. It holds for the module,
                in whatever `Model`.

        Raises:
            OptionError: no model that generates text.
            VocabularyError: the tokenizer cannot be represented, or has no end token.
        """
        module = _unwrapped(module)
        _require_generative(module)
        processor = tokenizer if hasattr(tokenizer, "image_processor") else None
        tokenizer = tokenizer if processor is None else processor.tokenizer
        known, declared = _vocabularies.setdefault(module, _Vocabularies()), _declared(module, tokenizer)
        before, vocabulary = known.get(tokenizer, (None, None))
        if vocabulary is None or before != declared:
            vocabulary = Vocabulary.from_tokenizer(
                tokenizer, model_config=module.config, generation_config=module.generation_config
            )
            known[tokenizer] = declared, vocabulary
        require(context is None or is_whole(context, 1), "context", context, "a number of tokens")
        if prefix_bytes is not None:
            require_count("prefix_bytes", prefix_bytes, 0)
            prefixes_of(module).bound = prefix_bytes
        return cls(module, tokenizer, vocabulary, context, processor)

    @property
    def of_transformers(self) -> PreTrainedModel | None:
        """The module if transformers runs it; None for a `Host`, which reads text only."""
        return None if isinstance(self.module, Host) else self.module

    @property
    def prefixes(self) -> PrefixTree | None:
        """What is remembered of the prompts and answers that the model has read: how much (`tokens`, `nbytes`), the
        `bound`, which may be set, and `clear()`. None for a `Host`, which keeps what its sequences hold."""
        module = self.of_transformers
        return None if module is None else prefixes_of(module)

    @property
    def context(self) -> int | None:
        """The longest sequence that the model can read, in tokens; None where its configuration does not say it.

        Rotary embeddings that are scaled reach further than `max_position_embeddings`.
        """
        if self.set_context is not None:
            return self.set_context
        if isinstance(self.module, Host):
            return self.module.context
        config = self.module.config.get_text_config(decoder=True)
        for name in ("max_position_embeddings", "max_target_positions"):
            length = getattr(config, name, None)
            if isinstance(length, int) and length > 0:
                break
        else:
            return None
        # `yarn` counts from the original context, which `length` may contain already; `linear` and `dynamic` count from
        # `length`, except where each kind of layer has its own embeddings (Gemma 3), whose `length` has the factor.
        rope = getattr(config, "rope_parameters", None) or {}
        factor, kind = rope.get("factor") or 1, rope.get("rope_type")
        if kind == "yarn":
            return max(length, int((rope.get("original_max_position_embeddings") or length) * factor))
        return int(length * factor) if kind in ("linear", "dynamic") else length

    @property
    def start(self) -> list[int] | None:
        """The first ids for the decoder of an encoder-decoder model; None for a causal model.

        Raises:
            OptionError: neither configuration has them.
        """
        module = self.of_transformers
        if module is None or not module.config.is_encoder_decoder:
            return None
        first = _configured(module, "decoder_start_token_id", "bos_token_id")
        if first is None:
            raise OptionError(f"{type(module).__name__} has no decoder_start_token_id: set it in its configuration")
        forced = _configured(module, "forced_bos_token_id")
        return [first] if forced is None else [first, forced]

    @property
    def readable_ids(self) -> int:
        """How many token ids the model can read: the rows of its input embeddings."""
        module = self.of_transformers
        if module is None:
            return self.vocabulary.width
        embeddings: Any = module.get_input_embeddings()
        weight = embeddings.weight
        return int(weight.shape[0] if isinstance(weight, torch.Tensor) else embeddings.num_embeddings)

    def __repr__(self) -> str:
        kind, module = type(self.module).__name__, self.of_transformers
        if module is None:
            return f"Model({kind}, {self.vocabulary!r})"
        return f"Model({kind}, {module.dtype}, device={str(device_of(module))!r}, {self.vocabulary!r})"


def as_model(model: Any, tokenizer: Any = None) -> Model:
    """The `Model` itself, or one of a transformers model and its tokenizer, which a pipeline has both.

    Raises:
        OptionError: neither, or a `tokenizer` next to a `Model`, which has its own.
    """
    if isinstance(model, Model):
        if tokenizer is not None and tokenizer is not model.tokenizer and tokenizer is not model.processor:
            raise OptionError("tokenizer=: the model has its own already; pass model.module to use another")
        return model
    if type(model).__name__ == "Remote":
        raise OptionError(
            "an sg.Remote has no weights here, which this call needs: load it, or call generate or extract_many"
        )
    if any(kind.__name__ == "Pipeline" for kind in type(model).__mro__) and hasattr(model, "model"):
        model, tokenizer = model.model, model.tokenizer if tokenizer is None else tokenizer
    model = _unwrapped(model)
    if tokenizer is None:
        name = type(model).__name__
        raise OptionError(f"a bare {name} needs its tokenizer: pass tokenizer=, or use structgen.load(...)")
    return Model.of(model, tokenizer)


_INSIDE = {"OptimizedModule": "_orig_mod", "DataParallel": "module", "DistributedDataParallel": "module"}
"""How to get the model out of a wrapper, by the name of the wrapper's class or of a base."""


def _unwrapped(model: Any) -> PreTrainedModel:
    """The transformers model itself, or the one inside of a `PeftModel`, whose layers have the adapters.

    Raises:
        OptionError: neither; or an adapter that is no part of the layers.
    """
    if "PeftModel" in [kind.__name__ for kind in type(model).__mro__]:
        settings = model.active_peft_config
        if settings.is_prompt_learning or getattr(settings, "alora_invocation_tokens", None):
            raise OptionError(f"{settings.peft_type.value} is not part of the model's layers: structgen cannot read it")
        model = model.get_base_model()
    if not isinstance(model, PreTrainedModel):
        raise OptionError(_no_model(model))
    return model


def _no_model(model: Any) -> str:
    """The error's text for an object that is no model, with what to pass instead."""
    kinds = [kind.__name__ for kind in type(model).__mro__]
    inside = next((_INSIDE[kind] for kind in kinds if kind in _INSIDE), None)
    if inside is None:
        expected = "what structgen.load(...) returns, or a transformers model"
        return f"model={quoted(model)}, of the class {kinds[0]}: expected {expected}{_instead(model)}"
    message = f"model is a {kinds[0]}, which wraps a transformers model: pass model.{inside}"
    return f"{message}, which structgen reads uncompiled" if "OptimizedModule" in kinds else message


def _instead(model: Any) -> str:
    """What to call for a model's name, a remote model, a client of a server, or a model next to its tokenizer."""
    if isinstance(model, str):
        name = quoted(model)
        return f"; pass structgen.load({name}), or structgen.Remote(url, {name}) for a server with OpenAI's interface"
    if type(model).__name__ == "Remote":
        return "; a Remote is for generate, call, run, extract_many and evaluate"
    if type(model).__module__.partition(".")[0] in ("openai", "anthropic", "litellm"):
        return "; for a server with OpenAI's interface pass structgen.Remote(url, name)"
    if isinstance(model, tuple) and model and isinstance(model[0], PreTrainedModel):
        return "; pass structgen.Model.of(model, tokenizer)"
    return ""


def _declared(module: PreTrainedModel, tokenizer: Any) -> tuple[Any, ...]:
    """What a vocabulary depends on and a caller may change later: the logits' width, added tokens, end tokens."""
    ends = declared_ends(module.config, module.generation_config)
    size = len(tokenizer) if hasattr(tokenizer, "__len__") else None
    return declared_width(module.config), size, getattr(tokenizer, "eos_token_id", None), *ends


def _require_generative(module: PreTrainedModel) -> None:
    if module.can_generate():
        return
    name, head = type(module).__name__, cast(Any, module.get_output_embeddings)
    if head() is None and not hasattr(module, "lm_head"):
        raise OptionError(f"{name} has no language-model head: load the variant that generates text")
    kinds = "AutoModelForCausalLM or AutoModelForSeq2SeqLM"
    raise OptionError(f"{name} does not generate text: load a causal or encoder-decoder model, with {kinds}")


def _configured(module: PreTrainedModel, *names: str) -> int | None:
    """The first id that one of the model's configurations has under one of the names."""
    ids = (getattr(config, name, None) for name in names for config in (module.generation_config, module.config))
    return next((token_id for token_id in ids if isinstance(token_id, int)), None)
