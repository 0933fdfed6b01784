"""vLLM: structgen as a backend of its structured outputs.

    STRUCTGEN_VLLM=1 vllm serve ... --structured-outputs-config.backend outlines

vLLM has no registry of backends: the plugin takes the place of the one that vLLM calls "outlines", where the variable
is set. No file of vLLM's is edited. `register` is an entry point of vLLM's plugins, which each of its processes runs;
only those that compile or check a constraint load the rest.
"""

from __future__ import annotations

import os
from typing import Any

SWITCH = "STRUCTGEN_VLLM"
"""The environment variable that lets structgen take its place."""


def register() -> None:
    """Takes the place of the backend "outlines", where the switch is set. May be called again."""
    if os.environ.get(SWITCH, "") not in ("", "0"):
        from vllm.v1.structured_output import backend_outlines

        backend_outlines.OutlinesBackend = make_backend
        backend_outlines.validate_structured_output_request_outlines = validate


def make_backend(*arguments: Any, **options: Any) -> Any:
    """A `VLLMBackend`, as vLLM's manager makes one.

    It is imported only now: vLLM's workers, which need none, look through all that is imported for Triton's kernels,
    and stumble over a module of numba's.
    """
    from structgen.integrations.vllm.backend import VLLMBackend

    return VLLMBackend(*arguments, **options)


def validate(params: Any) -> None:
    """Refuses a request that cannot work before it reaches the engine. See `backend.validate`."""
    from structgen.integrations.vllm import backend

    backend.validate(params)
