"""langextract: a provider that answers in this process.

    lx.extract(text, prompt_description=..., examples=..., model_id="structgen:Qwen/Qwen3-0.6B")

What follows `structgen:` is what `structgen.load` takes. The package registers it by the entry point
`langextract.providers`. It is langextract's provider for OpenAI over `structgen.transport`: examples or
`output_schema=` become a schema, which each answer follows.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import openai
from langextract.providers import router
from langextract.providers.openai import OpenAILanguageModel

from structgen.models.loading import load
from structgen.server.in_process import transport


@router.register(r"^structgen:", priority=20)
class StructgenLanguageModel(OpenAILanguageModel):  # type: ignore[misc]
    """What `lx.extract` makes of a `model_id`.

    Args:
        model_id: `structgen:` and a name for `structgen.load`.
        arguments: further ones of langextract's provider for OpenAI; `temperature` is 0 if it is not given.
    """

    def __init__(self, model_id: str, **arguments: Any) -> None:
        super().__init__("structgen", **{"temperature": 0.0, **arguments, "api_key": "-"})
        self._client = openai.OpenAI(api_key="-", http_client=_http(model_id.removeprefix("structgen:")))


@cache
def _http(name: str) -> Any:
    """The client of a model by its name, which is loaded once: `lx.extract` makes a provider for each call."""
    return transport(load(name))
