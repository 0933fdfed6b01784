"""A folder of onnxruntime-genai made of a small model of transformers: what its model builder writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel


def write_onnx_folder(folder: Path, model: PreTrainedModel, tokenizer: Any) -> Path:
    """Writes a graph in float32 for the CPU, a configuration and the tokenizer into a folder in `folder`."""
    weights, onnx = folder / "weights", folder / "onnx"
    model.save_pretrained(weights)
    tokenizer.save_pretrained(weights)
    builder = [sys.executable, "-m", "onnxruntime_genai.models.builder"]
    options = ["-i", weights, "-o", onnx, "-p", "fp32", "-e", "cpu", "-c", folder / "cache"]
    done = subprocess.run([*builder, *map(str, options)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return onnx
