"""DSPy: an engine that answers in this process.

    dspy.configure(lm=dspy.LM("structgen", engine=StructgenEngine(sg.load("Qwen/Qwen3-0.6B"))))

It is DSPy's own client of OpenAI's interface over `structgen.transport`, and says that it can enforce a schema: so DSPy
sends one whenever an adapter has it, `dspy.JSONAdapter` for each signature without open dictionaries.
"""

from __future__ import annotations

from typing import Any

from dspy._vendor.lm15.transports import TransportResponse
from dspy.lm15 import OpenAIChatLM

from structgen.models.model import Model
from structgen.server.in_process import transport
from structgen.server.settings import Settings


class StructgenEngine(OpenAIChatLM):  # type: ignore[misc]
    """What `dspy.LM` takes as `engine=`.

    Args:
        model: what `structgen.load` gave.
        settings: the bounds of the server, as for `structgen.transport`.
    """

    supports_function_calling = True
    supports_response_schema = True
    supported_params = frozenset({"temperature", "max_tokens", "top_p", "seed", "stop", "logprobs", "response_format"})

    def __init__(self, model: Model, settings: Settings | None = None) -> None:
        super().__init__(api_key="-", transport=_Transport(transport(model, settings, timeout=None)))


class _Transport:
    """The transport of DSPy's clients over a client of HTTP."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def stream(self, request: Any) -> Any:
        sent = self._client.build_request(request.method, request.url, headers=request.headers, content=request.body)
        answer = self._client.send(sent, stream=True)
        return TransportResponse(
            status=answer.status_code,
            reason=answer.reason_phrase,
            headers=list(answer.headers.items()),
            http_version="1.1",
            chunks=answer.iter_bytes(),
            release=lambda consumed: answer.close(),
        )

    def close(self) -> None:
        self._client.close()
