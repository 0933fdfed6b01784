"""Muon for the matrices of the layers, AdamW for everything else.

Muon (Keller Jordan, 2024): the momentum of a matrix is replaced by its nearest orthogonal matrix, found by five
steps of a quintic Newton-Schulz iteration. Here in the gradient's own dtype, since bfloat16 is slow on most CPUs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonalize(matrix: torch.Tensor, steps: int = 5) -> torch.Tensor:
    """The matrix [rows, columns] with its singular values moved to about 1."""
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    result: torch.Tensor = wide / (wide.norm() + 1e-7)
    a, b, c = COEFFICIENTS
    for _ in range(steps):
        gram = result @ result.T
        result = a * result + (b * gram + c * gram @ gram) @ result
    return result if matrix.shape[0] <= matrix.shape[1] else result.T


class Muon(torch.optim.Optimizer):
    """Momentum with orthogonal updates, for parameters [rows, columns]."""

    def __init__(self, params: Iterable[nn.Parameter], lr: float, momentum: float = 0.95, decay: float = 0.01) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "decay": decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One update of every parameter that has a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)

    def _update(self, parameter: nn.Parameter, grad: torch.Tensor, group: dict[str, Any]) -> None:
        lr, momentum = group["lr"], group["momentum"]
        buffer = self.state[parameter].setdefault("buffer", torch.zeros_like(parameter))
        buffer.lerp_(grad, 1 - momentum)
        update = orthogonalize(torch.lerp(grad, buffer, momentum))
        scale = max(1.0, parameter.shape[0] / parameter.shape[1]) ** 0.5
        parameter.mul_(1 - lr * group["decay"]).add_(update, alpha=-lr * scale)


def build_optimizers(model: nn.Module, lr: float, matrix_lr: float) -> list[torch.optim.Optimizer]:
    """AdamW over embeddings and norms, Muon over the layers' matrices; each group remembers its `peak`."""
    matrices, others = list[nn.Parameter](), list[nn.Parameter]()
    for name, parameter in model.named_parameters():
        (matrices if parameter.ndim == 2 and ".layers." in name else others).append(parameter)
    adam = torch.optim.AdamW(others, lr=lr, betas=(0.9, 0.98), weight_decay=0.0, fused=True)
    optimizers = [adam, Muon(matrices, lr=matrix_lr)]
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["peak"] = group["lr"]
    return optimizers
