"""Kernels that compute and communicate: work, bytes, waiting of several ranks, and a range of one."""

from __future__ import annotations

import pytest

from hermes.knowledge.cost.tensors import tensors
from hermes.knowledge.fused_kernels import fused_flops, fused_kind, moved_bytes
from hermes.profiles.measure.communication.fused_kernels import FusedCalls, fused_operators


def _calls(rank: int, *lengths: int, rates: tuple[float | None, float | None] = (None, None)) -> FusedCalls:
    return FusedCalls(
        rank=rank, operator="MatmulAllReduce", lengths=lengths, flops=2 * 64 * 32 * 128, rates=rates,
        inputs="64,32;32,128", dtypes="DT_BF16;DT_BF16", outputs="64,128", output_dtypes="DT_BF16",
    )  # fmt: skip


def test_of_several_ranks_the_shortest_of_each_call_came_last() -> None:
    late, early = fused_operators([_calls(0, 100, 100, 90), _calls(1, 150, 160, 100)], {"tp": {0: (0, 1), 1: (0, 1)}})
    assert (late.wait_low_ns, late.last, early.wait_low_ns, early.wait_high_ns, early.last) == (0, 3, 120, 120, 0)
    assert early.ranks == (0, 1)


def test_of_one_rank_the_least_time_of_the_chip_bounds_the_waiting() -> None:
    (one,) = fused_operators([_calls(0, 1_000, 1_000, rates=(1e12, None))], {"tp": {0: (0, 1)}})
    assert (one.least_ns, one.wait_low_ns, one.wait_high_ns) == (2 * 524, 0, 2_000 - 2 * 524)


def test_of_one_rank_on_an_unknown_chip_nothing_bounds_it() -> None:
    (one,) = fused_operators([_calls(0, 1_000)], {})
    assert (one.least_ns, one.wait_high_ns) == (None, None)


def test_ranks_of_different_groups_do_not_meet() -> None:
    groups = {"tp": {0: (0, 1), 1: (0, 1), 2: (2, 3), 3: (2, 3)}}
    rows = fused_operators([_calls(rank, 100 + 50 * (rank > 1)) for rank in range(4)], groups)
    assert [row.wait_low_ns for row in rows] == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("operator", "inputs", "output", "flops", "sent"),
    [
        ("MatmulAllReduce", "64,32;32,128", "64,128", 2 * 64 * 32 * 128, 2 * 3 * 64 * 128 * 2 // 4),
        ("AllGatherMatmulV2", "16,32;32,128", "64,128", 2 * 64 * 32 * 128, 3 * 16 * 32 * 2),
        ("MatmulReduceScatter", "64,32;32,128", "16,128", 2 * 64 * 32 * 128, 3 * 16 * 128 * 2),
        ("MoeDistributeDispatch", "64,32;64,8", "512,32", None, 3 * 512 * 32 * 2 // 4),
    ],
)  # fmt: skip
def test_work_and_bytes_follow_from_the_shapes(
    operator: str, inputs: str, output: str, flops: int | None, sent: int
) -> None:
    kind = fused_kind(operator)
    assert kind is not None
    given, made = tensors(inputs, "DT_BF16;DT_BF16"), tensors(output, "DT_BF16")
    assert (fused_flops(kind, given, made), moved_bytes(kind, given, made, 4)) == (flops, sent)


def test_a_plain_product_is_none_of_these() -> None:
    assert fused_kind("MatMulV2") is None
