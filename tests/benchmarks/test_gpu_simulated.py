"""What the device benchmark checks only where there is a device, on the simulated one."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch

import structgen as sg
from benchmarks import gpu_checks
from benchmarks.gpu_model import build
from tests.support.simulated_device import CUDA, simulated

SHORT = {"type": "array", "items": {"enum": ["kitchen", "garden"]}, "minItems": 4, "maxItems": 4}


@pytest.fixture
def device():
    def debug(mode: str) -> None:
        device.forbids = mode == "error"

    with simulated() as device, patch.object(torch.cuda, "set_sync_debug_mode", debug):
        yield device


@pytest.fixture
def model(device, monkeypatch) -> sg.Model:
    monkeypatch.setattr(gpu_checks, "SCHEMA", SHORT)
    model = build("tiny", torch.device("cpu"), torch.float32)
    device.to_device(model.module)
    return model


ON_A_DEVICE = ["replays of a graph", "no synchronisation", "static steps are exact"]


@pytest.mark.slow
@pytest.mark.parametrize("claim", ON_A_DEVICE)
def test_a_claim_about_devices_holds_on_the_simulated_one(claim, device, model):
    (check,) = (each for each in gpu_checks.checks(model, CUDA) if claim in each.name)
    assert check.outcome() == "ok"
    assert device.captures > 0


@pytest.mark.slow
def test_a_wait_in_a_step_is_found(device, model):
    """As the check would find one on a device: by the error that torch's debug mode raises."""
    model.module.lm_head.register_forward_hook(lambda module, given, logits: logits.sum().item() and None)
    (check,) = (each for each in gpu_checks.checks(model, CUDA) if "no synchronisation" in each.name)
    assert check.outcome().startswith("FAILED: HiddenWait")


@pytest.mark.slow
def test_a_capture_that_fails_is_told(device, model):
    assert gpu_checks.failing(model, CUDA).outcome() == "ok"
