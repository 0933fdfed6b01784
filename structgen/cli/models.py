"""The model that a command's first argument names."""

from __future__ import annotations

from pathlib import Path

from structgen import api

DEMO = "demo"


def load_model(name: str, device: str | None = None) -> api.Model:
    """Loads a model.

    Args:
        name: a folder, an id on the Hugging Face hub, or `demo` where no folder is called so.
    """
    if name == DEMO and not Path(DEMO).exists():
        from structgen.demo import load_demo

        return api.Model.of(*load_demo())
    return api.load(name, device=device)
