"""Hermes' first answer on each recorded profile, from the first time it was analysed: never changed afterwards.

A profile that is added later gets a line of its own, and `COMMITS` the commit that first analysed it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hermes.model.leaf import Leaf

Wrong = Literal["", "rank", "leaf"]
"""The wrong part of an answer; empty for a right answer."""


@dataclass(frozen=True, slots=True)
class First:
    """Leaf and rank of the first answer, its wrong part, and whether the report was free of faults."""

    leaf: Leaf | None
    rank: int | None
    wrong: Wrong
    clean: bool


COMMITS: Mapping[str, int] = {"9a9258c": 45}
"""The commits that saw profiles first, and how many."""
FIRST: Mapping[str, First] = {
    "alexnet_text_level2": First(Leaf.WAIT, 0, "rank", clean=True),
    "alexnet_db_level2": First(Leaf.WAIT, 1, "rank", clean=True),
    "alexnet_text_level0": First(Leaf.COMMUNICATION, 0, "", clean=True),
    "alexnet_db_level0": First(Leaf.COMMUNICATION, 1, "", clean=True),
    "writer_2024": First(Leaf.COMPILING, 0, "", clean=True),
    "a100_alexnet_cuda_sync": First(Leaf.FIRST_CALL, 0, "", clean=True),
    "a100_dlrm_control": First(Leaf.COMMUNICATION, 3, "", clean=True),
    "a100_rank0_of_16_blocking_copies": First(Leaf.BLOCKING_COPY, 0, "", clean=True),
    "b200_vllm_inference": First(Leaf.DISPATCH, 0, "", clean=True),
    "cpu_only_rank34": First(Leaf.NOT_RECORDED, 34, "leaf", clean=False),
    "event_sync_multi_stream": First(Leaf.NOT_RECORDED, 0, "", clean=True),
    "h100_owlv2_pipeline": First(Leaf.INPUT_HERE, 0, "", clean=True),
    "h100_qwen1.5-0.5b": First(Leaf.ELEMENTWISE, 0, "", clean=True),
    "mi300_qwen1.5-0.5b": First(Leaf.ELEMENTWISE, 0, "", clean=True),
    "h800_deepseek_train": First(Leaf.MATRIX_PRODUCT, 0, "", clean=True),
    "mi250_toy_empty_last_mark": First(Leaf.FIRST_CALL, 0, "", clean=True),
    "mi300_bert_small_inference": First(Leaf.DISPATCH, 0, "", clean=True),
    "mi300_sglang_decode": First(Leaf.BLOCKING_COPY, 0, "", clean=True),
    "mtia_single_rank": First(Leaf.HOST_OPERATOR, 0, "leaf", clean=True),
    "v100_dlrm_8ranks": First(Leaf.DISPATCH, 1, "rank", clean=True),
    "v100_dlrm_test": First(Leaf.MATRIX_PRODUCT, 1, "leaf", clean=True),
    "v100_resnet50_first_calls": First(Leaf.FIRST_CALL, 0, "", clean=True),
    "v100_resnet50_num_workers_0": First(Leaf.INPUT_HERE, 0, "", clean=True),
    "v100_resnet50_num_workers_4": First(Leaf.DISPATCH, 0, "", clean=True),
    "a1_rawprof": First(Leaf.LONG_LAUNCH, 0, "leaf", clean=False),
    "a3_kernels_small": First(Leaf.NOT_RECORDED, 0, "", clean=True),
    "a4_cluster_mpa": First(Leaf.NOT_RECORDED, 0, "rank", clean=True),
    "b1_prodigy_item": First(Leaf.SYNCHRONISATION, 0, "", clean=True),
    "b1_vllm_9404": First(Leaf.DISPATCH, 0, "", clean=True),
    "b2x_group_name_crash": First(Leaf.COMMUNICATION, 5, "", clean=True),
    "b3_rocm_overflow": First(Leaf.MATRIX_PRODUCT, 0, "leaf", clean=True),
    "b3_rocm_overflow_clean": First(Leaf.MATRIX_PRODUCT, 0, "leaf", clean=True),
    "b4_jit_compile": First(Leaf.COMPILING, 0, "", clean=False),
    "b4_kineto_ts0": First(Leaf.SILENT, 0, "leaf", clean=True),
    "b7_moe_imbalance": First(Leaf.TRANSFER, 0, "", clean=True),
    "b8_vllm_bubble": First(Leaf.NOT_RECORDED, 0, "", clean=True),
    "r1_torchrec_resnet18": First(Leaf.HOST_OPERATOR, 0, "", clean=True),
    "r2_torchrec_sleep_rank2": First(Leaf.NOT_RECORDED, 2, "", clean=True),
    "r4_torchrec_alloc_retry": First(Leaf.ALLOCATOR, 3, "", clean=False),
    "r6_torchrec_first": First(Leaf.NOT_RECORDED, 2, "", clean=True),
    "r6_torchrec_second": First(Leaf.ALLOCATOR, 2, "", clean=False),
    "r9_rtx3060_trace06": First(Leaf.MATRIX_PRODUCT, 0, "", clean=True),
    "r10_dlprof_w_relu": First(None, None, "leaf", clean=False),
    "r12_cpu_laptop": First(Leaf.MATRIX_PRODUCT, 0, "", clean=True),
    "r14_cuda_guide_cpu_only": First(Leaf.RANDOM, 0, "", clean=True),
}
