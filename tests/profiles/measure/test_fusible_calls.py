"""Calls in a row that the device's library has as one operator, as its vendor documents them."""

from __future__ import annotations

import re

import polars as pl
import pytest

from hermes.knowledge.fusible_operators import AFFINITIES, OPTIMIZERS, call_letter, kernel_letter
from hermes.profiles.measure.structure.fusible_calls import outermost

KNOWN = {
    "torch_npu.npu_fusion_attention": (
        "matmul softmax matmul", "matmul add mul masked_fill_ softmax dropout matmul", "bmm mul add softmax bmm",
        "matmul add mul add softmax dropout matmul",
    ),
    "torch_npu.npu_rotary_mul": ("chunk neg cat mul mul add", "slice neg cat add"),
    "torch_npu.npu_rms_norm": ("pow mean add rsqrt mul type_as", "pow mean rsqrt mul"),
    "torch_npu.npu_swiglu": (
        "slice silu mul", "chunk silu mul", "slice mul silu", "chunk mul silu", "slice sigmoid mul mul",
        "chunk sigmoid mul mul", "slice mul sigmoid mul", "chunk mul sigmoid mul", "slice mul mul sigmoid",
        "chunk mul mul sigmoid",
    ),
    "torch_npu.npu_geglu": ("slice gelu mul", "chunk gelu mul", "slice mul gelu", "chunk mul gelu"),
    "torch_npu.npu_group_norm_silu": ("group_norm silu",),
    "torch_npu.npu_scaled_masked_softmax": ("mul masked_fill_ softmax", "add softmax"),
    "clip_grad_norm_fused_": ("add reciprocal mul",),
    "torch.addmm with": ("mul mul add",),
    "torch_npu.npu_add_layer_norm": ("add layer_norm",),
    "torch_npu.npu_confusion_transpose": (
        "permute contiguous reshape", "permute reshape", "permute view", "transpose contiguous reshape",
        "transpose reshape", "transpose view", "reshape permute", "reshape contiguous transpose", "view permute",
        "view contiguous transpose",
    ),
    "torch_npu.npu_moe_token_permute": ("argsort argsort index_select",),
    "torch_npu.npu_moe_token_unpermute": ("index_select mul sum",),
    "torch.addmm, or": ("matmul add",),
    "torch_npu.fast_gelu": ("gelu",),
}  # fmt: skip


@pytest.mark.parametrize(
    ("calls", "instead"), [(calls, instead) for instead, rows in KNOWN.items() for calls in rows]
)  # fmt: skip
def test_each_sequence_of_the_vendor_is_known_by_its_calls(calls: str, instead: str) -> None:
    letters = "".join(call_letter(f"aten::{name}") for name in calls.split())
    assert "." not in letters
    found = next(one for one in AFFINITIES if re.search(one.pattern, letters))
    assert found.instead.startswith(instead)


def test_nine_optimizers_have_a_fused_form() -> None:
    assert len(OPTIMIZERS) == 9
    assert OPTIMIZERS["SGD"] == "torch_npu.optim.NpuFusedSGD"


def test_a_call_inside_another_is_not_outermost_and_threads_are_apart() -> None:
    rows = [("aten::linear", 1, 0, 100), ("aten::addmm", 1, 10, 80), ("aten::gelu", 1, 100, 10), ("aten::mm", 2, 5, 9),
            ("empty_tensor", 1, 0, 200)]  # fmt: skip
    calls = pl.DataFrame(rows, schema=["name", "tid", "start_ns", "dur_ns"], orient="row").with_columns(
        pl.lit(7).alias("pid")
    )
    assert outermost(calls)["name"].to_list() == ["aten::linear", "aten::gelu", "aten::mm"]


@pytest.mark.parametrize(
    ("name", "letter"),
    [("MatMulV2", "M"), ("BNTrainingUpdate", "B"), ("aten::relu_", "A"), ("Gelu", "A"), ("TransData", "t"),
     ("SomethingElse", "."), ("aten::cudnn_convolution", "C")],
)  # fmt: skip
def test_kernels_have_letters_by_their_operator(name: str, letter: str) -> None:
    assert kernel_letter(name) == letter
