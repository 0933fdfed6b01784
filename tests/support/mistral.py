"""The tokenizers that mistral-common carries in its package."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest


@cache
def mistral(name: str) -> Any:
    """The tokenizer of a file there: tekken, or SentencePiece with byte fallback. Skips the test where it is absent."""
    module = pytest.importorskip("mistral_common.tokens.tokenizers.mistral", reason="mistral-common is absent")
    path = Path(pytest.importorskip("mistral_common").__file__).parent / "data" / name
    if not path.exists():
        pytest.skip(f"this release of mistral-common has no {name}")
    return module.MistralTokenizer.from_file(str(path))
