"""What names of host calls tell, and what they do not."""

from __future__ import annotations

import pytest

from hermes.knowledge.host_work import COMPUTING, DISPATCH, GC, PATTERNS, REASONS, host_reason


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("aclopCompileAndExecute", "compilation"),
        ("opCompile", "compilation"),
        ("_compile.compile_inner (dynamo_timed)", "compilation"),
        ("CachingAutotuner.benchmark_all_configs (dynamo_timed)", "compilation"),
        ("entire_frame_compile", "compilation"),
        ("torch/_dynamo/convert_frame.py(880): compile_inner", "compilation"),
        ("/usr/lib/python3.11/site-packages/torch/_inductor/scheduler.py(2100): fuse_nodes", "compilation"),
        ("cuModuleLoadDataEx", "compilation"),
        ("Lazy Function Loading", "compilation"),
        ("cudaMalloc", "allocation"),
        ("hipFree", "allocation"),
        ("cudaHostAlloc", "allocation"),
        ("cuMemSetAccess", "allocation"),
        ("aclMallocMemInner", "allocation"),
        ("aclrtFreePhysical", "allocation"),
        ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "data loading"),
        ("torch/utils/data/dataloader.py(625): __next__", "data loading"),
        ("GetNext_InitDataSetQueue", "data loading"),
        ("torch/serialization.py(944): save", "checkpoint or logging"),
        ("torch/utils/tensorboard/writer.py(370): add_scalar", "checkpoint or logging"),
        ("logging/__init__.py(1477): info", "checkpoint or logging"),
        ("<built-in function print>", "checkpoint or logging"),
        ("gloo:all_reduce", "communication"),
        ("cudaStreamSynchronize", "synchronisation"),
        ("aclrtSynchronizeStreamWithTimeout", "synchronisation"),
        ("cudaMemcpy", "synchronisation"),
    ],
)
def test_a_name_tells_why_the_host_is_in_a_call(name: str, reason: str) -> None:
    assert host_reason(name) == reason


@pytest.mark.parametrize(
    "name",
    [
        "Torch-Compiled Region: 0/0",
        "TorchDynamo Cache Lookup",
        "## Call CompiledFxGraph fe3p354nzwxb6oufl3yqqnv5n7oj6ozrogyabdrellckb4pv7r4i ##",
        "torch/_dynamo/eval_frame.py(307): _fn",
        "torch/_inductor/utils.py(2030): run",
        "cudaMemcpyAsync",
        "cudaMemsetAsync",
        "aten::mm",
        "torch/optim/optimizer.py(350): wrapper",
    ],
)
def test_running_what_was_compiled_before_and_what_does_not_wait_has_no_reason_of_its_own(name: str) -> None:
    assert host_reason(name) is None


def test_every_reason_is_told_by_a_pattern_or_by_the_kind_of_call() -> None:
    assert (GC, *PATTERNS, COMPUTING, *DISPATCH) == REASONS
