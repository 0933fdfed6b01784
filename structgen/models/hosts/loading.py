"""Chooses the engine for a path."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from os import PathLike
from typing import Any

from transformers import AutoTokenizer

from structgen.arguments import require
from structgen.errors import OptionError, quoted
from structgen.models.hosts.host import Host
from structgen.models.hosts.onnx_genai import OnnxGenai, is_genai_folder
from structgen.vocabulary import Vocabulary


def load_host(path: str | PathLike[str], tokenizer: Any, device: str | None, options: Mapping[str, Any]) -> Host | None:
    """The model at a path, if another engine than transformers runs it; else None.

    Raises:
        OptionError: the engine is not installed or cannot load it, or an option is none of the engine's.
        VocabularyError: the tokenizer cannot be represented, or has no end token.
    """
    if os.fspath(path).endswith(".gguf"):
        return _gguf(path, tokenizer, device, options)
    if is_genai_folder(path):
        require(device is None, "device", device, "none: provider='cuda' has onnxruntime-genai run on the GPU")
        _check("a folder of onnxruntime-genai", OnnxGenai, options)
        return OnnxGenai(path, tokenizer=tokenizer, **options)
    return None


def _gguf(path: str | PathLike[str], tokenizer: Any, device: str | None, options: Mapping[str, Any]) -> Host:
    """A model run by llama.cpp, with the file's tokenizer or another one with equal tokens."""
    from structgen.models.hosts.llama_cpp import LlamaCpp

    require(os.path.isfile(path), "id_or_path", os.fspath(path), "a GGUF file that is there")
    require(device is None, "device", device, "none: n_gpu_layers=-1 puts a GGUF model on the GPU")
    _check("a GGUF file", LlamaCpp, options)
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


def _check(what: str, kind: type[Host], options: Mapping[str, Any]) -> None:
    """Refuses an option that the engine does not have."""
    known = inspect.signature(kind).parameters.keys() - {"path", "tokenizer"}
    for name in options.keys() - known:
        raise OptionError(f"{name}=: for {what} the options are {', '.join(sorted(known))}")
