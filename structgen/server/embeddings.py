"""Embeddings by the model that writes: the mean of its last hidden states, for `/v1/embeddings`.

A model that is made for embeddings gives better ones, so each answer says in `structgen.embedding` what these are.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field, StrictInt, StrictStr
from torch.nn.functional import normalize

from structgen.decoding.prompts.prompt import read_prompt
from structgen.given_prompts import GivenPrompts
from structgen.models.evaluation_mode import evaluating
from structgen.models.model import Model
from structgen.models.transfer import device_of
from structgen.server.asking import prompts_of
from structgen.server.problems import Problem
from structgen.server.settings import Settings
from structgen.server.wire import AnyRequest

MARK = "mean of last hidden states"
Vector = np.ndarray[Any, np.dtype[np.float32]]


class EmbeddingsRequest(AnyRequest):
    """`/v1/embeddings`."""

    input: StrictStr | Annotated[list[StrictStr] | list[StrictInt] | list[list[StrictInt]], Field(min_length=1)]
    encoding_format: Literal["float", "base64"] = "float"


def embedded_ids(model: Model, request: EmbeddingsRequest, settings: Settings) -> list[list[int]]:
    """Returns the tokens of each input, as the model reads prompts.

    Raises:
        Problem, RequestError: the model gives no hidden states, or cannot read an input.
    """
    module = model.of_transformers
    if module is None or module.config.is_encoder_decoder or module.base_model is module:
        message = (
            "no hidden states can be had of this model: ask an embedding model, with vllm or sentence-transformers"
        )
        raise Problem(404, message, "not_supported")
    return [[*read_prompt(model, prompt).read] for prompt in GivenPrompts.of(prompts_of(request.input)).each]


def embedding(model: Model, ids: Sequence[int]) -> Vector:
    """Returns the mean of the states after the last layer and its norm, scaled to length 1. Shape: (width,)."""
    module: Any = model.module
    with torch.inference_mode(), evaluating(module):
        read = torch.tensor([[*ids]], device=device_of(module))
        states = module.base_model(input_ids=read, use_cache=False).last_hidden_state
        mean: Vector = normalize(states[0].float().mean(0), dim=0).cpu().numpy()
    return mean


def embeddings_body(
    request: EmbeddingsRequest, ids: Sequence[Sequence[int]], found: Sequence[Vector]
) -> dict[str, Any]:
    """Returns the answer to a request."""
    as_base64 = request.encoding_format == "base64"
    each = [b64encode(one.astype("<f4").tobytes()).decode() if as_base64 else one.tolist() for one in found]
    data = [{"object": "embedding", "index": index, "embedding": one} for index, one in enumerate(each)]
    tokens = sum(map(len, ids))
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": request.model, "usage": usage, "structgen": {"embedding": MARK}}
