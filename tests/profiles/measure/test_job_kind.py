"""Whether a job trains, and by which libraries, told by recorded names."""

from __future__ import annotations

import polars as pl
import pytest

from hermes.profiles.measure.structure.job_kind import libraries, trains


def names(*every: str) -> pl.Series:
    return pl.Series(every, dtype=pl.String)


@pytest.mark.parametrize(
    "call",
    ["autograd::engine::evaluate_function: MmBackward0", "Optimizer.step#AdamW.step", "aten::convolution_backward",
     "<built-in method run_backward of torch._C._EngineBase object at 0x7f>"],
)  # fmt: skip
def test_a_call_of_autograd_or_of_an_optimizer_tells_of_training(call: str) -> None:
    assert trains(names("aten::mm", call), names(), 0) is True


@pytest.mark.parametrize("kernel", ["_attn_bwd_dq", "aclnnNLLLossBackward_NLLLossGradAiCore_NLLLossGrad",
                                    "sm80_xmma_dgrad_implicit_gemm"])  # fmt: skip
def test_a_kernel_of_a_gradient_tells_of_training(kernel: str) -> None:
    assert trains(names(), names("gemm", kernel), 2) is True


def test_a_forward_pass_alone_is_inference() -> None:
    assert trains(names("aten::linear", "vllm::all_reduce"), names("gemm"), 3) is False
    assert trains(names(), names("gemm"), 500) is False


def test_a_capture_without_a_model_tells_nothing() -> None:
    assert trains(names("gloo:all_reduce"), names(), 0) is None


@pytest.mark.parametrize(
    ("call", "library"),
    [("DistributedDataParallel.forward", "ddp"), ("FSDP::all_gather", "fsdp"),
     ("[pl][profile]run_training", "lightning"), ("deepspeed/runtime/engine.py(1810): forward", "deepspeed"),
     ("megatron/core/optimizer/optimizer.py(1): step", "megatron"), ("vllm::all_reduce", "vllm"),
     ("/opt/sglang/python/sglang/srt/x.py(1): f", "sglang"), ("fbgemm::jagged", "torchrec"),
     ("Torch-Compiled Region: 0/1", "torch.compile"), ("transformers/trainer.py(3): train", "trainer")],
)  # fmt: skip
def test_a_library_is_told_by_a_name_of_its_own(call: str, library: str) -> None:
    assert library in libraries(names("aten::mm", call), names(), names())


def test_groups_named_as_megatron_names_them_tell_of_it() -> None:
    assert libraries(names(), names(), names("default_pg", "tp", "pp")) == ("megatron",)


def test_plain_pytorch_has_no_library() -> None:
    assert (
        libraries(names("aten::mm", "train.py(3): step"), names("ncclDevKernel_AllReduce"), names("default_pg")) == ()
    )
