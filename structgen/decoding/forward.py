"""The model's side of the loop: a left-padded batch, explicit positions and the KV cache."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from structgen.errors import OptionError


class Forward:
    """Runs a causal model over the rows of one batch.

    Rows are padded on the left, so that the last column is every row's newest token. Positions are given
    explicitly: models that count them from the mask or the cache get padded rows wrong.

    Args:
        module: a transformers causal language model.
        prompts: token ids of each row, none empty.
        room: tokens that may follow the longest prompt.

    Attributes:
        count: forward passes so far.
    """

    def __init__(self, module: PreTrainedModel, prompts: Sequence[Sequence[int]], room: int) -> None:
        accepted = inspect.signature(module.forward).parameters
        self.count = 0
        self._module = module
        self._device = module.device
        self._prompts = prompts
        self._positions = [len(prompt) - 1 for prompt in prompts]  # of each row's newest token
        self._columns = max(map(len, prompts))
        self._takes_positions = "position_ids" in accepted
        self._prefill_options = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}
        cache = cache_argument(module)
        self._recurrent = cache == "cache_params"  # no attention: the mask is for the prompt's columns only
        self._options = {"use_cache": True, "return_dict": True, cache: new_cache(module)}
        self._attention = self._padding(room)

    def prefill(self) -> Tensor:
        """Reads the prompts. The logits after each row's last token: float[rows, width]."""
        ids = [[0] * (self._columns - len(prompt)) + list(prompt) for prompt in self._prompts]
        spans = [[0] * (self._columns - len(prompt)) + list(range(len(prompt))) for prompt in self._prompts]
        return self._run(torch.tensor([ids, spans]), **self._prefill_options)

    def step(self, tokens: Sequence[int | None]) -> Tensor:
        """Reads one token per row, any for a row with None. The logits after it: float[rows, width]."""
        self._columns += 1
        self._positions = [p + (token is not None) for p, token in zip(self._positions, tokens, strict=True)]
        ids = [token or 0 for token in tokens]
        return self._run(torch.tensor([ids, self._positions]).unsqueeze(-1))

    def _run(self, inputs: Tensor, **options: int) -> Tensor:
        ids, positions = inputs.to(self._device)  # int64[2, rows, columns]: one copy to the device
        if self._takes_positions:
            options["position_ids"] = positions
        mask = None if self._attention is None else self._attention[:, : self._columns]
        if self._recurrent and self.count:
            mask = None
        self.count += 1
        output = self._module(input_ids=ids, attention_mask=mask, **options, **self._options)
        logits: Tensor = output.logits[:, -1]
        return logits

    def _padding(self, room: int) -> Tensor | None:
        """int64[rows, columns + room], 0 on padding; None without padding: the device need not check it."""
        pads = [self._columns - len(prompt) for prompt in self._prompts]
        if not any(pads):
            return None
        column = torch.arange(self._columns + room)
        return (column >= torch.tensor(pads).unsqueeze(1)).long().to(self._device)


def cache_argument(module: PreTrainedModel) -> str:
    """The name under which the model takes its cache.

    Raises:
        OptionError: it takes none that we know.
    """
    accepted = inspect.signature(module.forward).parameters
    for name in ("past_key_values", "cache_params"):
        if name in accepted:
            return name
    raise OptionError(f"{type(module).__name__} takes neither past_key_values nor cache_params: no cache")


def new_cache(module: PreTrainedModel) -> DynamicCache:
    """An empty cache with the layers that the model's configuration asks for: full, window, recurrent."""
    return DynamicCache(config=module.config)
