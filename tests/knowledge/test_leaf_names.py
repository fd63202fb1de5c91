"""Leaves by name: what calls are for, and what waits or belongs to the profiler."""

from __future__ import annotations

import pytest

from hermes.knowledge.blocking_calls import takes_host_memory
from hermes.knowledge.host_work import CHECKPOINT, host_reason
from hermes.knowledge.leaf_names import (
    calls_collective,
    leaf_of_call,
    leaf_of_event,
    leaf_of_operator,
    waits,
)
from hermes.knowledge.user_code import stands_before
from hermes.model.leaf import Leaf


def test_a_thread_that_sleeps_between_looks_writes_no_log() -> None:
    # tqdm's monitor wakes every ten seconds; its bar writes.
    assert leaf_of_event("tqdm/_monitor.py(60): run") is None
    assert host_reason("/x/site-packages/tqdm/_monitor.py(69): run") is None
    assert waits("threading.py(589): wait")
    assert leaf_of_event("tqdm/std.py(1181): __iter__") is Leaf.FILE_OR_NETWORK
    assert host_reason("/x/site-packages/tqdm/std.py(1181): __iter__") == CHECKPOINT


@pytest.mark.parametrize(
    "name",
    ["cudaProfilerStart", "cuProfilerStop", "hipProfilerStart", "Activity Buffer Request", "Buffer Flush",
     "torch/profiler/profiler.py(605): start", "torch/autograd/profiler.py(200): __exit__", "aclprofStart",
     "<built-in method _disable_profiler of PyCapsule object at 0x7f>"],
)  # fmt: skip
def test_the_profiler_s_own_calls_are_its_own_leaf(name: str) -> None:
    assert leaf_of_event(name) is Leaf.PROFILER


def test_a_mark_of_a_step_is_no_call_of_the_profiler() -> None:
    assert leaf_of_event("ProfilerStep#3") is None


@pytest.mark.parametrize(
    "name",
    ["void cudnn::bn_fw_inf_1C11_kernel_NCHW<float, float, true, 1>(float)", "MIOpenBatchNormFwdInferSpatialEst",
     "batch_norm_transform_input_channels_last_kernel", "BNInfer", "void vllm::rms_norm_kernel<c10::Half>"],
)  # fmt: skip
def test_norms_of_inference_are_norms(name: str) -> None:
    assert leaf_of_operator(name) is Leaf.NORM


@pytest.mark.parametrize(
    ("name", "leaf"),
    [("DropoutAddLayerNormFn", Leaf.NORM), ("flash_attn_with_dropout", Leaf.ATTENTION),
     ("aten::native_dropout", Leaf.RANDOM), ("aten::bernoulli_", Leaf.RANDOM),
     ("fused_dropout_kernel_vec", Leaf.RANDOM)],
)  # fmt: skip
def test_work_with_a_dropout_fused_into_it_is_that_work(name: str, leaf: Leaf) -> None:
    assert leaf_of_operator(name) is leaf


@pytest.mark.parametrize(
    ("call", "host"),
    [("cudaHostAlloc", True), ("cudaMallocHost", True), ("cudaFreeHost", True), ("hipHostMalloc", True),
     ("hipHostFree", True), ("cudaHostRegister", True), ("aclrtMallocHost", True), ("cudaMalloc", False),
     ("cudaFree", False), ("cuMemCreate", False), ("aclrtMalloc", False)],
)  # fmt: skip
def test_pinned_memory_is_the_host_s(call: str, host: bool) -> None:
    assert takes_host_memory(call) is host


def test_what_runs_inside_a_function_that_hermes_watches_is_that_function() -> None:
    for folder in ("", "/home/me/src/"):
        assert leaf_of_event(f"{folder}hermes/inside/error_guard.py(71): called") is None
        assert stands_before(f"{folder}hermes/inside/error_guard.py(71): called")
    assert leaf_of_event("hermes/inside/error_guard.py(45): entered") is Leaf.PROFILER


@pytest.mark.parametrize(
    "name",
    ["aclrtCreateStream", "cudaStreamCreateWithFlags", "hipModuleLoadData", "cuLibraryLoadData", "cuCtxCreate_v2"],
)
def test_what_a_job_makes_once_is_a_first_call(name: str) -> None:
    assert leaf_of_call(name) is Leaf.FIRST_CALL


@pytest.mark.parametrize("name", ["cudaLaunchKernel", "cudaSetDevice", "aclrtLaunchKernel", "cudaStreamIsCapturing"])
def test_other_calls_are_launches(name: str) -> None:
    assert leaf_of_call(name) is None


@pytest.mark.parametrize("name", ["all_reduce", "broadcast", "reduce_scatter_tensor", "barrier", "all_gather_object"])
def test_frames_of_collectives_are_known(name: str) -> None:
    assert calls_collective(f"torch/distributed/distributed_c10d.py(3155): {name}")


@pytest.mark.parametrize("name", ["get_world_size", "is_initialized", "_get_default_group"])
def test_other_frames_beside_them_are_none(name: str) -> None:
    assert not calls_collective(f"torch/distributed/distributed_c10d.py(817): {name}")
