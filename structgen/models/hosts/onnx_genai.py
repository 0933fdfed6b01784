"""Models in ONNX folders, run by onnxruntime-genai."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from transformers import AutoTokenizer

from structgen.arguments import require, require_count
from structgen.errors import OptionError, RunError, excerpt, not_installed, quoted
from structgen.models.hosts.host import CONTEXT, Host, NewTokens
from structgen.vocabulary import Vocabulary
from structgen.vocabulary.table import as_ids

FILE = "genai_config.json"
"""The file that makes a folder one of onnxruntime-genai's."""

_OTHER_INPUTS = "encoder", "vision", "speech", "embedding"
"""Parts of a model that read more than text."""


class GenaiFolder(NamedTuple):
    """What a folder has besides the graph.

    Attributes:
        context: the longest sequence that the model can read, in tokens.
        vocabulary: its tokens as bytes, as wide as the logits.
    """

    context: int
    tokenizer: Any
    vocabulary: Vocabulary


def is_genai_folder(path: str | PathLike[str]) -> bool:
    """Is it a folder for onnxruntime-genai?"""
    return os.path.isfile(os.path.join(path, FILE))


def read_folder(path: str | PathLike[str], tokenizer: Any = None) -> GenaiFolder:
    """Reads a folder's configuration and, by transformers, its tokenizer.

    Args:
        tokenizer: another tokenizer than the folder's, or its id or path.

    Raises:
        OptionError: it is no such folder, the model reads more than text, or there is no tokenizer.
        VocabularyError: the tokenizer cannot be represented, or has no end token.
    """
    name = quoted(os.fspath(path))
    try:
        model = json.loads(Path(path, FILE).read_text(encoding="utf-8"))["model"]
        context, width, ends = int(model["context_length"]), int(model["vocab_size"]), model.get("eos_token_id")
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise OptionError(f"{name} has no {FILE} of onnxruntime-genai: {excerpt(error)}") from error
    other = next((part for part in _OTHER_INPUTS if part in model), None)
    if other is not None:
        raise OptionError(f"{name} has a part {other!r}: only decoder-only models are supported")
    if tokenizer is None or isinstance(tokenizer, (str, PathLike)):
        try:
            tokenizer = AutoTokenizer.from_pretrained(path if tokenizer is None else tokenizer)
        except (OSError, ValueError, LookupError, AttributeError) as error:
            raise OptionError(f"{name}: transformers cannot load its tokenizer: {excerpt(error)}") from error
    end_ids = as_ids(ends, f"eos_token_id of {FILE}")
    return GenaiFolder(context, tokenizer, Vocabulary.from_tokenizer(tokenizer, width=width, end_ids=end_ids))


class OnnxGenai(Host):
    """A model in a folder that onnxruntime-genai's model builder wrote.

    Each sequence has its own generator, so rows are read one after the other.

    Args:
        tokenizer: see `read_folder`.
        max_length: tokens of a sequence, for which a generator takes memory at once; by default what the model was
            trained with, 4,096 at most.
        max_sequences: sequences that are kept at once.
        intra_op_num_threads: of a forward pass; by default what the folder or onnxruntime says.
        provider: onnxruntime-genai's name of what runs the graph, as "cpu" or "cuda"; by default what the folder says.

    Raises:
        OptionError: onnxruntime-genai is not installed or cannot load the folder, or an option is wrong.
        VocabularyError: the tokenizer cannot be represented, or has no end token.
    """

    kind = "onnxruntime-genai"

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        tokenizer: Any = None,
        max_length: int | None = None,
        max_sequences: int = 8,
        intra_op_num_threads: int | None = None,
        provider: str | None = None,
    ) -> None:
        require_count("max_sequences", max_sequences, 1)
        if max_length is not None:
            require_count("max_length", max_length, 2)
        if intra_op_num_threads is not None:
            require_count("intra_op_num_threads", intra_op_num_threads, 1)
        named = provider is None or (isinstance(provider, str) and bool(provider))
        require(named, "provider", provider, "a name of onnxruntime-genai's, as 'cpu' or 'cuda'")
        self._api = _api()
        folder = read_folder(path, tokenizer)
        self._model = self._loaded(os.fspath(path), intra_op_num_threads, provider)
        self._generators: list[Any] = [None] * max_sequences
        context = min(max_length or CONTEXT, folder.context)
        super().__init__(folder.tokenizer, folder.vocabulary, context=context, places=max_sequences)
        try:
            self.drafts = self._tells_every_position()
        except RunError as error:
            raise OptionError(f"{quoted(os.fspath(path))} cannot be run: {error}") from error

    def _loaded(self, path: str, threads: int | None, provider: str | None) -> Any:
        try:
            config = self._api.Config(path)
            if threads is not None:
                options = {"session_options": {"intra_op_num_threads": threads}}
                config.overlay(json.dumps({"model": {"decoder": options}}))
            if provider is not None:
                config.clear_providers()
            if provider not in (None, "cpu"):
                config.append_provider(provider)
            return self._api.Model(config)
        except RuntimeError as error:
            raise OptionError(f"onnxruntime-genai cannot load {quoted(path)}: {excerpt(error)}") from error

    def _tells_every_position(self) -> bool:
        """Can it go back, and give the logits of all tokens that were read together?"""
        place = next(iter(self.free))
        self.append({place: NewTokens([self.vocabulary.end_ids[0]] * 2)})
        every = self._generators[place].get_output("logits").shape[1] == 2
        chunks = self._api.GeneratorParams(self._model).get_search_options()["chunk_size"]
        return self.rewind(place, 1) == 1 and every and not chunks

    def append(self, new: Mapping[int, NewTokens]) -> list[NDArray[np.float32]]:
        try:
            return [self._append(place, tokens) for place, tokens in new.items()]
        except RuntimeError as error:
            raise RunError(f"onnxruntime-genai: {excerpt(error)}") from error

    def _append(self, place: int, tokens: NewTokens) -> NDArray[np.float32]:
        generator = self._generators[place]
        if generator is None:
            generator = self._generators[place] = self._generator()
        generator.append_tokens(np.array(tokens.ids, np.int32))
        if tokens.last == 1:
            last: NDArray[np.float32] = generator.get_logits()[0]
            return last
        logits: NDArray[np.float32] = generator.get_output("logits")[0, -tokens.last :].astype(np.float32)
        return logits

    def _generator(self) -> Any:
        params = self._api.GeneratorParams(self._model)
        params.set_search_options(max_length=self.context, batch_size=1, num_beams=1)
        return self._api.Generator(self._model, params)

    def rewind(self, place: int, length: int) -> int:
        """See `Host`. A generator that cannot go back is replaced by a new one."""
        generator = self._generators[place]
        if generator is None:
            return 0
        try:
            generator.rewind_to(length)
        except RuntimeError:
            self._generators[place], length = None, 0
        return length


def _api() -> Any:
    """onnxruntime-genai's package."""
    try:
        import onnxruntime_genai
    except ImportError as error:
        raise not_installed(f"a {FILE} needs onnxruntime-genai", "onnxruntime-genai") from error
    return onnxruntime_genai
