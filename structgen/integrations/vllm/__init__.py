"""vLLM: structgen as a backend of its structured outputs.

    STRUCTGEN_VLLM=1 vllm serve ... --structured-outputs-config.backend outlines

vLLM has no registry of backends: if the variable is set, the plugin replaces the backend that vLLM calls "outlines".
`register` is an entry point of vLLM's plugins, which each of its processes runs; only those that compile or check a
constraint load the rest.
"""

from __future__ import annotations

import os
from typing import Any

SWITCH = "STRUCTGEN_VLLM"
"""The environment variable that lets structgen replace "outlines"."""


def register() -> None:
    """Replaces the backend "outlines" if the switch is set. It may be called again."""
    if os.environ.get(SWITCH, "") not in ("", "0"):
        from vllm.v1.structured_output import backend_outlines

        backend_outlines.OutlinesBackend = make_backend
        backend_outlines.validate_structured_output_request_outlines = validate


def make_backend(*arguments: Any, **options: Any) -> Any:
    """Returns a `VLLMBackend`.

    It is imported late: vLLM's workers need none.
    """
    from structgen.integrations.vllm.backend import VLLMBackend

    return VLLMBackend(*arguments, **options)


def validate(params: Any) -> None:
    """Refuses a request that cannot work, see `backend.validate`."""
    from structgen.integrations.vllm import backend

    backend.validate(params)
