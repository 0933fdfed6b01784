"""Masks that stay on the device, and the kernel that applies them, held to numpy.

Covers `triton_masks`.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from structgen.decoding.choosing.masking import (
    EVERYTHING,
    MaskRows,
    apply_masks,
    count,
    forbid,
    triton_is_there,
)
from structgen.masks.words import bits_of, ids_of, pack
from structgen.vocabulary import Vocabulary
from tests.support.releases import require_release
from tests.support.tables import cases
from tests.support.thinning import diagonal

CPU = torch.device("cpu")
WIDTH = 300
WORDS = (WIDTH + 31) // 32


def rows_for(kept: int) -> MaskRows:
    tokens = [bytes([i % 256, i // 256]) for i in range(WIDTH - 3)] + [None]
    vocabulary = Vocabulary.from_tokens(tokens, end_ids=[WIDTH - 3], width=WIDTH)
    return MaskRows(vocabulary, CPU, kept_bytes=4 * WORDS * kept)


def a_mask(rng: np.random.Generator, *, fixed: bool = True) -> np.ndarray:
    mask = pack(np.flatnonzero(rng.random(WIDTH) < 0.5), WIDTH)
    mask.flags.writeable = not fixed
    return mask


def place(rows: MaskRows, masks: list) -> np.ndarray:
    numbers, new, words = rows.places(masks)
    rows.write(torch.from_numpy(new), torch.from_numpy(words))
    return rows.table.numpy()[numbers].view(np.uint32)


@pytest.mark.parametrize("kept", [2, 5, 40, 1000])
def test_a_step_finds_its_masks_in_the_table_whatever_was_there_before(kept):
    """Two hundred steps of up to twelve rows: masks that come again, new ones, and some that may change."""
    rng, rows = np.random.default_rng(kept), rows_for(kept)
    known = [a_mask(rng) for _ in range(60)]
    for _ in range(200):
        masks = [known[i] for i in rng.integers(0, 60, rng.integers(1, 9))] + [None]
        masks += [a_mask(rng, fixed=False) for _ in range(rng.integers(0, 3))]
        found = place(rows, masks)
        for mask, row in zip(masks, found, strict=True):
            expected = pack(np.array([*range(WIDTH - 2)]), WIDTH) if mask is None else mask
            assert np.array_equal(row, expected)
    assert len(rows.table) <= max(64, kept, 13)


def test_a_position_that_comes_again_sends_nothing():
    rng, rows = np.random.default_rng(0), rows_for(40)
    masks = [a_mask(rng), a_mask(rng), None]
    place(rows, masks)
    assert rows.uploaded == 3
    for _ in range(5):
        numbers, new, words = rows.places([masks[1], None, masks[0], masks[1]])
        assert (len(new), len(words), numbers[1]) == (0, 0, EVERYTHING)
    assert rows.uploaded == 3


def test_a_mask_that_its_owner_may_change_is_sent_each_time():
    rng, rows = np.random.default_rng(0), rows_for(40)
    mask = a_mask(rng, fixed=False)
    for _ in range(3):
        assert np.array_equal(place(rows, [mask])[0], mask)
        mask[0] ^= np.uint32(5)


def test_the_rows_not_used_for_longest_go_first():
    rng, rows = np.random.default_rng(0), rows_for(4)  # three beside the one of everything
    first, second, third, fourth = (a_mask(rng) for _ in range(4))
    place(rows, [first, second, third])
    place(rows, [first])
    place(rows, [fourth])
    sent = rows.uploaded
    place(rows, [first, third, fourth])
    assert rows.uploaded == sent
    place(rows, [second])
    assert rows.uploaded == sent + 1


def by_numpy(scores: np.ndarray, table: np.ndarray, numbers: np.ndarray, width: int) -> np.ndarray:
    bits = np.unpackbits(table[numbers].view(np.uint8), axis=1, count=width, bitorder="little")
    left = np.full_like(scores, -np.inf)
    left[:, :width] = np.where(bits == 1, scores[:, :width], -np.inf)
    return left


@pytest.mark.parametrize(("width", "columns"), [(31, 31), (64, 64), (257, 260), (5001, 5056)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_torch_s_own_operations_mask_what_numpy_masks(width, columns, dtype):
    rng = np.random.default_rng(width)
    table = rng.integers(-(2**31), 2**31, (7, (width + 31) // 32)).astype(np.int32)
    numbers = np.array([3, 0, 6, 3], np.int32)
    scores = torch.randn(4, columns, generator=torch.Generator().manual_seed(1)).to(dtype)
    expected = by_numpy(scores.float().numpy(), table, numbers, width)
    apply_masks(scores, torch.from_numpy(table), torch.from_numpy(numbers), width)
    assert scores.dtype == dtype
    assert np.array_equal(scores.float().numpy(), expected)


INTERPRETED = cases("decoding/choosing/masking", "INTERPRETED", globals())


@pytest.mark.skipif(not triton_is_there(), reason="triton is not installed: its kernel runs where it is")
def test_the_triton_kernel_is_its_twin_under_triton_s_interpreter():
    """In a process of its own: whether kernels are interpreted is settled when they are first read.

    Widths that fill no block, rows that are parts of longer ones, rows that lie far apart.
    """
    require_release("triton", "3.3")  # the interpreter of 3.2 knows no truth values
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    run = subprocess.run(
        [sys.executable, "-c", INTERPRETED], capture_output=True, text=True, env=environment, timeout=300
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "15"


def assembler() -> str:
    """Where triton's ptxas is; empty where there is none."""
    if not triton_is_there():
        return ""
    try:
        from triton import knobs

        return str(knobs.nvidia.ptxas.path)
    except (ImportError, RuntimeError):  # an older release, or triton's wheel for this machine brings none
        return ""


ARGUMENTS = {"table": "*i32", "numbers": "*i32", "stride": "i32", "columns": "i32", "words": "i32", "width": "i32"}


@pytest.mark.skipif(not assembler(), reason="triton is not installed, or brings no ptxas here")
@pytest.mark.parametrize(("aligned", "scores"), diagonal([True, False], ["fp32", "bf16", "fp16"]))
@pytest.mark.parametrize("capability", [80, 90])
def test_the_triton_kernel_is_compiled_to_machine_code_without_a_device(
    capability, scores, aligned, tmp_path, monkeypatch
):
    """For A100 and H100, addresses and sizes that divide by 16 and others: as a launch would have it compiled.

    What it reads is the row's number and words, never a score; nothing is spilled. A warp's stores lie side by side.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from structgen.decoding.choosing.triton_masks import WORDS, kernel

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    signature = {"scores": f"*{scores}", **ARGUMENTS, "block": "constexpr"}
    specialized = [at for at, each in enumerate(kernel.params[:-1]) if not each.do_not_specialize]
    divisible = {(at,): [["tt.divisibility", 16]] for at in specialized} if aligned else {}
    source = ASTSource(fn=kernel, signature=signature, constexprs={"block": WORDS}, attrs=divisible)
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32))
    ptx = compiled.asm["ptx"]
    assert f".target sm_{capability}" in ptx
    assert compiled.asm["cubin"][:4] == b"\x7fELF"
    width = 32 if scores == "fp32" else 16
    assert ptx.count(f"st.global.b{width}") == ptx.count("st.global") > 0
    assert ".local" not in ptx
    assert "sizePerThread = [1, 1], threadsPerWarp = [1, 32]" in compiled.asm["ttgir"]
    if scores != "fp32":
        assert ptx.count("ld.global.b32") == ptx.count("ld.global") > 0


@pytest.mark.parametrize("width", [1, 31, 32, 33, 64, 257, 4096, 5001])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999, 1.0])
def test_packing_counting_and_unpacking_agree_with_the_set_of_ids(width, share):
    ids = np.flatnonzero(np.random.default_rng(width).random(width) < share)
    words = pack(ids, width)
    assert words.dtype == np.uint32
    assert len(words) == (width + 31) // 32
    kept = set(ids.tolist())
    assert count(words) == len(ids)
    assert ids_of(words).tolist() == ids.tolist()
    assert np.flatnonzero(bits_of(words, width)).tolist() == ids.tolist()
    assert all(bool(words[i >> 5] >> np.uint32(i & 31) & 1) == (i in kept) for i in range(width))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("width", [31, 257, 5001])
def test_forbidding_leaves_allowed_scores_and_only_those(width, dtype):
    rng = np.random.default_rng(width)
    allowed = rng.random((3, width)) < [[0.01], [0.5], [1.0]]
    words = np.stack([pack(np.flatnonzero(row), width) for row in allowed])
    scores = torch.randn(3, width, generator=torch.Generator().manual_seed(0)).to(dtype)
    masked = forbid(scores, torch.from_numpy(words.view(np.int32)))
    assert masked.dtype == dtype
    assert torch.equal(masked, scores.masked_fill(~torch.from_numpy(allowed), -torch.inf))


def test_existing_tokens_are_all_but_holes_and_padding_rows():
    tokens = [b"a", b"b", None, b"c"]
    assert count(Vocabulary.from_tokens(tokens, end_ids=[2]).existing) == len(tokens)
    padded = Vocabulary.from_tokens(tokens, end_ids=[2], width=40).existing
    assert ids_of(padded).tolist() == [0, 1, 2, 3]
