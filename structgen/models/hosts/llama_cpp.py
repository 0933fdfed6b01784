"""Models in GGUF files, run by llama.cpp through llama-cpp-python."""

from __future__ import annotations

import logging
import os
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from os import PathLike
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.arguments import require_count
from structgen.errors import OptionError, RunError, not_installed, quoted
from structgen.models.hosts.gguf_tokenizer import GgufFile, GgufTokenizer
from structgen.models.hosts.host import CONTEXT, Host, NewTokens
from structgen.vocabulary import Vocabulary

LATEST, FEWEST, DRAFTED = 31, 4, 12
"""Of `PassCosts`: the passes of a kind that are kept, the fewest that tell, and the most tokens of one that tells."""
PLAIN_TYPES = None, 0, 1, 30
"""Types of cached values that attention can read without flash attention: the default, float32, float16, bfloat16."""
UNKNOWN = 0.4
"""The price of a token before enough passes are known."""


class PassCosts:
    """How long passes take, by their tokens: on a CPU, quantised weights cost more to compute than to read."""

    def __init__(self) -> None:
        self._one: deque[float] = deque(maxlen=LATEST)
        self._more: deque[tuple[int, float]] = deque(maxlen=LATEST)

    def note(self, tokens: int, seconds: float) -> None:
        if tokens == 1:
            self._one.append(seconds)
        elif tokens <= DRAFTED:
            self._more.append((tokens, seconds))

    @property
    def price(self) -> float:
        """What each further token costs, as a share of a pass with one, see `Forward.price`."""
        if min(len(self._one), len(self._more)) < FEWEST:
            return UNKNOWN
        one = median(self._one)
        return min(max(median((seconds / one - 1) / (tokens - 1) for tokens, seconds in self._more), 0.0), 1.0)


class LlamaCpp(Host):
    """A model in a GGUF file, with the file's tokenizer and chat template.

    Args:
        n_ctx: tokens of a sequence; by default what the model was trained with, 4,096 at most.
        n_seq_max: sequences that are kept at once.
        n_threads: of a forward pass; by default as many as the machine has.
        n_gpu_layers: layers on the GPU, where llama-cpp-python was built for one; -1 is all.
        n_batch: tokens of one forward pass.
        flash_attn: flash attention, which rounds more. By default llama.cpp chooses on a GPU, and on a CPU it is off,
            since it makes passes of fewer than 64 tokens slower. `type_v` below 16 bits needs it, and turns it on.
        kv_unified: one cache for all sequences. By default each has its own, so that none makes another one slower;
            with `beams=` and long contexts one cache is faster, since what is common need not be copied.
        type_k, type_v: ggml's number of the cache's types: 0 is float32, 1 is float16, the default.

    Raises:
        OptionError: llama-cpp-python is not installed or cannot load the file, or an option is wrong.
        VocabularyError: no token ends a text.
    """

    kind = "llama.cpp"

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        n_ctx: int = 0,
        n_seq_max: int = 8,
        n_threads: int | None = None,
        n_gpu_layers: int = 0,
        n_batch: int = 512,
        flash_attn: bool | None = None,
        kv_unified: bool = False,
        type_k: int | None = None,
        type_v: int | None = None,
    ) -> None:
        for name, given, least in (
            ("n_ctx", n_ctx, 0),
            ("n_seq_max", n_seq_max, 1),
            ("n_threads", n_threads or os.cpu_count() or 1, 1),
            ("n_gpu_layers", n_gpu_layers, -1),
            ("n_batch", n_batch, 1),
        ):
            require_count(name, given, least)
        self._api = api = _api()
        settings = api.llama_model_default_params()
        settings.n_gpu_layers = 999 if n_gpu_layers < 0 else n_gpu_layers
        self._file = file = GgufFile.load(api, os.fspath(path), settings)
        model = file.model
        if api.llama_model_has_encoder(model):
            raise OptionError(f"{quoted(os.fspath(path))} has an encoder: only decoder-only models are supported")
        trained = api.llama_model_n_ctx_train(model)
        context = min(n_ctx or CONTEXT, trained) if trained > 0 else n_ctx or CONTEXT
        sizes = api.llama_context_default_params()
        sizes.n_ctx, sizes.n_seq_max, sizes.n_batch = context * n_seq_max, n_seq_max, n_batch
        sizes.kv_unified, sizes.swa_full, sizes.no_perf = kv_unified, True, True
        if flash_attn is None and n_gpu_layers == 0 and type_v in PLAIN_TYPES:
            flash_attn = False
        sizes.flash_attn_type = -1 if flash_attn is None else int(flash_attn)
        sizes.type_k = sizes.type_k if type_k is None else type_k
        sizes.type_v = sizes.type_v if type_v is None else type_v
        sizes.n_threads = sizes.n_threads_batch = n_threads or os.cpu_count() or 1
        self._context = api.llama_init_from_model(model, sizes)
        if not self._context:
            raise OptionError(f"no room for {n_seq_max} sequences of {context} tokens: lower n_ctx or n_seq_max")
        owned = ExitStack()  # the last is freed first, and all of it before the file
        weakref.finalize(self, owned.close)
        owned.callback(api.llama_free, self._context)
        self._costs = PassCosts()
        self._batch = api.llama_batch_init(n_batch, 0, 1)
        owned.callback(api.llama_batch_free, self._batch)
        self._n_batch, self._held = n_batch, [0] * n_seq_max
        self._memory = api.llama_get_memory(self._context)
        self.drafts = not (api.llama_model_is_recurrent(model) or api.llama_model_is_hybrid(model))
        tokenizer = GgufTokenizer(file)
        super().__init__(tokenizer, vocabulary_of(tokenizer), context=context, places=n_seq_max)

    @property
    def price(self) -> float:  # type: ignore[override]
        return self._costs.price

    def append(self, new: Mapping[int, NewTokens]) -> list[NDArray[np.float32]]:
        tokens = []  # place, position, id, index of the sequence, and the line of its logits (negative: none)
        asked: list[NDArray[np.float32]] = []
        for line, (place, row) in enumerate(new.items()):
            asked.append(np.empty((row.last, self.vocabulary.width), np.float32))
            first = len(row.ids) - row.last
            for index, token in enumerate(row.ids):
                tokens.append((place, self._held[place] + index, token, line, index - first))
        for start in range(0, len(tokens), self._n_batch):
            self._decode(tokens[start : start + self._n_batch], asked)
        for place, row in new.items():
            self._held[place] += len(row.ids)
        return asked

    def _decode(self, tokens: Sequence[tuple[int, int, int, int, int]], asked: list[NDArray[np.float32]]) -> None:
        """Runs one forward pass, and writes the logits that are asked for."""
        batch, api = self._batch, self._api
        batch.n_tokens = len(tokens)
        for i, (place, position, token, _, number) in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, position, 1
            batch.seq_id[i][0], batch.logits[i] = place, number >= 0
        begun = time.perf_counter()
        status = api.llama_decode(self._context, batch)
        if status != 0:
            raise RunError(f"llama_decode returned {status}: llama.cpp could not read {len(tokens)} tokens")
        api.llama_synchronize(self._context)
        self._costs.note(len(tokens), time.perf_counter() - begun)
        for i, (_, _, _, line, number) in enumerate(tokens):
            if number >= 0:
                logits = api.llama_get_logits_ith(self._context, i)
                asked[line][number] = np.ctypeslib.as_array(logits, (self.vocabulary.width,))

    def rewind(self, place: int, length: int) -> int:
        """See `Host`. Recurrent states cannot go back, so all of the sequence is forgotten."""
        if not self._api.llama_memory_seq_rm(self._memory, place, length, -1):
            self._api.llama_memory_seq_rm(self._memory, place, -1, -1)
            length = 0
        self._held[place] = length
        return length

    def copy(self, place: int, to: int) -> bool:
        self._api.llama_memory_seq_cp(self._memory, place, to, -1, -1)
        self._held[to] = self._held[place]
        return True


def _api() -> Any:
    """llama.cpp's functions, from llama-cpp-python."""
    try:
        from llama_cpp import llama_cpp
    except ImportError as error:
        raise not_installed("GGUF files need llama-cpp-python", "llama-cpp") from error
    log = logging.getLogger("llama-cpp-python")  # it reports every file's metadata as warnings
    if log.level == logging.NOTSET:
        log.setLevel(logging.CRITICAL)
    llama_cpp.llama_backend_init()
    return llama_cpp


def vocabulary_of(tokenizer: GgufTokenizer) -> Vocabulary:
    """The tokens as bytes; control, unknown and unused tokens are no text."""
    api = tokenizer.api
    hidden = api.LLAMA_TOKEN_ATTR_CONTROL | api.LLAMA_TOKEN_ATTR_UNKNOWN | api.LLAMA_TOKEN_ATTR_UNUSED
    ids = range(tokenizer.size)
    special = {token for token in ids if tokenizer.attributes(token) & hidden}
    tokens = [None if token in special else tokenizer.piece(token) or None for token in ids]
    names = {tokenizer.name(token): token for token in sorted(special, reverse=True)}  # the lowest of equal names wins
    names.pop("", None)
    return Vocabulary.from_tokens(tokens, tokenizer.end_ids, names=names)
