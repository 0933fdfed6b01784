"""The model that a command's first argument names."""

from __future__ import annotations

from pathlib import Path

from structgen import api

DEMO = "demo"


def is_demo(name: str) -> bool:
    """Is this the bundled model, and not a folder of that name?"""
    return name == DEMO and not Path(DEMO).exists()


def load_model(name: str, device: str | None = None) -> api.Model:
    """Loads a model.

    Args:
        name: a folder, an id on the Hugging Face hub, or `demo` where no folder is called so.
    """
    if is_demo(name):
        from structgen.demo import load_demo

        return api.Model.of(*load_demo())
    return api.load(name, device=device)
