"""The tiny model that ships with the package, for `structgen demo`, examples and tests.

`structgen.load("demo")` loads it. `tasks` has the Pydantic models that it was trained to fill; `show` is the body of
`structgen demo`. Its training is outside of the package, in `training/`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

__all__ = ["load_demo"]


def load_demo() -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """The bundled model (float32, on the CPU, ready for inference) and its tokenizer.

    Reads the package's own files only; nothing is downloaded. The prompts it understands are in
    `structgen.demo.tasks`.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from structgen.models.known import DEMO, known_folder
    from structgen.models.quiet import quietly

    with known_folder(DEMO) as folder, quietly():
        model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
        tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        return model, tokenizer
