"""Bandwidths, fits and dimensions of groups."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.profiles.measure.comm_rows import drawn, groups_of, together

from hermes.base.intervals import EMPTY
from hermes.model.tables import TABLES, schema_of
from hermes.profiles.measure.communication.group_ops import (
    RankPlace,
    group_kinds,
    group_ops,
    latency_fits,
    parallel_of,
)
from hermes.profiles.measure.communication.wait_and_transfer import GroupInfo, with_compute, with_tasks

TWO = """
    rank0.comm  ##########..########
    rank1.comm  ....######..########
"""
NO_TASK = pl.DataFrame(schema=schema_of(TABLES["comm_task"]))
NO_TRAFFIC = pl.DataFrame(
    schema={"group": pl.String, "op": pl.String, "transport": pl.String, "bytes": pl.Int64, "time_ns": pl.Int64}
)
HERE = {rank: RankPlace(host="node0", chip=None) for rank in (0, 1)}


def summed(text: str, *, size: int | None = None, places: dict[int, RankPlace] | None = None, **columns: object):  # type: ignore[no-untyped-def]
    made, groups = together(drawn(text, **columns), groups_of(text, size=size))
    rows = with_compute(with_tasks(made.rows, NO_TASK), EMPTY)
    return group_ops(rows, NO_TRAFFIC, groups, places or HERE, 4)


def test_bandwidth_is_over_the_transfer_and_never_over_the_wait() -> None:
    (row,) = summed(TWO, bytes=7_000)
    assert (row.operations, row.rows, row.wait_ns, row.transfer_ns) == (2, 4, 4_000, 28_000)
    # Two operations of 7 kB in 6 and 8 us; both ranks' buses carry 2 (2 - 1) / 2 of it.
    assert row.algorithm_gb_per_s == pytest.approx(1.0)
    assert row.bus_gb_per_s == pytest.approx(1.0)
    assert row.waste == pytest.approx(4 / 32)


@pytest.mark.parametrize(
    ("op", "factor"),
    [("all_reduce", 1.0), ("all_gather", 0.5), ("reduce_scatter", 0.5), ("all_to_all", 0.5), ("broadcast", 1.0)],
)
def test_the_bus_factor_is_that_of_the_operation(op: str, factor: float) -> None:
    (row,) = summed(TWO, bytes=7_000, op=op)
    assert row.algorithm_gb_per_s is not None
    assert row.bus_gb_per_s == pytest.approx(factor * row.algorithm_gb_per_s)


def test_without_all_members_there_is_no_bandwidth() -> None:
    (row,) = summed(TWO, size=8, bytes=7_000)
    assert (row.elapse_ns, row.split_rows, row.wait_ns, row.transfer_ns) == (32_000, 0, None, None)
    assert (row.algorithm_gb_per_s, row.bus_gb_per_s, row.waste) == (None, None, None)


def test_without_a_size_the_times_still_stand() -> None:
    (row,) = summed(TWO)
    assert (row.bytes, row.algorithm_gb_per_s, row.transfer_median_ns) == (None, None, 7_000)


def test_the_link_of_a_device_counts_only_where_all_members_share_a_host() -> None:
    fast = RankPlace(host="node0", chip="NVIDIA A100-SXM4-40GB")
    (row,) = summed(TWO, bytes=7_000, places={0: fast, 1: fast})
    assert (row.transport, row.link_limit_gb_per_s) == ("NVLINK", 300.0)
    assert row.of_link == pytest.approx(1 / 300)
    (apart,) = summed(TWO, bytes=7_000, places={0: fast, 1: RankPlace(host="node1", chip=fast.chip)})
    assert (apart.transport, apart.of_link) == (None, None)


def test_hosts_that_are_not_recorded_are_not_taken_for_one() -> None:
    unknown = RankPlace(host=None, chip="NVIDIA A100-SXM4-40GB")
    (row,) = summed(TWO, bytes=7_000, places={0: unknown, 1: unknown})
    assert row.of_link is None


def test_groups_of_one_kind_are_one_row_with_the_slowest_named() -> None:
    text = """
        rank0.comm:dpa@2  ######
        rank1.comm:dpa@2  ######
        rank2.comm:dpb@2  ####..
        rank3.comm:dpb@2  ####..
    """
    places = {rank: RankPlace(host="node0", chip=None) for rank in range(4)}
    groups = summed(text, bytes=12_000, places=places)
    assert [row.group for row in groups] == ["dpa", "dpb"]
    (kind,) = group_kinds(groups)
    assert (kind.kind, kind.groups, kind.ranks, kind.operations) == ("tp", 2, 4, 2)
    assert (kind.bus_gb_per_s, kind.least_bus_gb_per_s, kind.slowest) == (
        pytest.approx(3.0),
        pytest.approx(2.0),
        (0, 1),
    )


@pytest.mark.parametrize(
    ("label", "members", "ops", "found"),
    [
        ("tp", (0, 4), {"all_reduce"}, ("tp", "name")),
        ("TENSOR_MODEL_PARALLEL_GROUP", (0, 4), {"all_reduce"}, ("tp", "name")),
        ("default_group", (0, 1), {"all_reduce"}, ("world", "name")),
        ("EXPERT_MODEL_PARALLEL_GROUP", (0, 1), {"all_reduce"}, ("ep", "name")),
        ("17", (0, 4), {"send", "recv"}, ("pp", "inferred")),
        ("17", (0, 4), {"send_recv"}, ("pp", "inferred")),
        ("17", (0, 1), {"all_to_all"}, ("ep", "inferred")),
        ("17", tuple(range(8)), {"all_to_all", "all_reduce"}, ("world", "inferred")),
        ("17", (0, 1, 2, 3, 4, 5, 6, 7), {"all_reduce"}, ("world", "inferred")),
        ("17", (0, 1, 2, 3), {"all_reduce"}, ("tp", "inferred")),
        ("17", (0, 4), {"all_reduce"}, ("dp", "inferred")),
        ("17", None, {"all_reduce"}, (None, "unknown")),
    ],
)
def test_a_group_serves_what_its_name_says_or_its_operations_show(
    label: str, members: tuple[int, ...] | None, ops: set[str], found: tuple[str | None, str]
) -> None:
    info = GroupInfo(label=label, members=members, size=len(members) if members else None)
    assert parallel_of(info, ops, 8) == found


def timed(*operations: tuple[int, int]) -> pl.DataFrame:
    """Rows of one rank's all-reduces by size and time; the group is taken as complete."""
    return pl.DataFrame(
        [
            {
                "rank": 0, "comm_id": at, "op": "all_reduce", "group": "g", "manner": "all", "key": str(at),
                "bytes": size, "time_ns": time, "split": True,
            }
            for at, (size, time) in enumerate(operations)
        ]
    )  # fmt: skip


FOUR = {"g": GroupInfo(label="g", members=(0, 1, 2, 3), size=4)}
SIZES = (4_000, 64_000, 1_000_000, 4_000_000, 16_000_000)


@given(st.integers(1_000, 200_000), st.integers(1, 400))
def test_a_fit_gives_back_the_fixed_time_and_the_speed(fixed: int, speed: int) -> None:
    rows = timed(*((size, fixed + round(size / speed)) for size in SIZES for _ in range(3)))
    (fit,) = latency_fits(rows, FOUR)
    assert fit.fixed_ns == pytest.approx(fixed, rel=0.01, abs=5)
    assert fit.peak_bus_gb_per_s == pytest.approx(1.5 * speed, rel=0.02)
    assert (fit.operations, fit.sizes) == (15, 5)
    assert fit.fixed_total_ns == pytest.approx(15 * fit.fixed_ns, abs=15)


def test_stalled_operations_move_neither_part_of_a_fit() -> None:
    rows = timed(*((size, 20_000 + size // 100) for size in SIZES for _ in range(5)), (64_000, 10**9), (4_000, 10**9))
    (fit,) = latency_fits(rows, FOUR)
    assert fit.fixed_ns == pytest.approx(20_000, rel=0.01)
    assert fit.peak_bus_gb_per_s == pytest.approx(150, rel=0.01)


@pytest.mark.parametrize(
    "operations",
    [
        [(4_000, 100), (8_000_000, 90_000)] * 10,  # two sizes: a line through two points proves nothing
        [(size, size) for size in SIZES],  # five operations
        [(1_000_000, 10_000), (1_000_512, 10_005), (1_001_024, 10_010)] * 4,  # sizes that hardly differ
        [(4_000, 300), (64_000, 200), (1_000_000, 100)] * 4,  # the larger the faster
    ],
)
def test_what_the_samples_do_not_allow_is_not_fitted(operations: list[tuple[int, int]]) -> None:
    assert latency_fits(timed(*operations), FOUR) == ()


def test_groups_of_the_same_members_are_fitted_together() -> None:
    rows = timed(*((size, 20_000 + size // 100) for size in SIZES for _ in range(2)))
    rows = rows.with_columns(pl.when(pl.col("bytes") < 10**6).then(pl.lit("h")).otherwise("group").alias("group"))
    (fit,) = latency_fits(rows, FOUR | {"h": GroupInfo(label="world", members=(0, 1, 2, 3), size=4)})
    assert (fit.groups, fit.sizes) == (("g", "world"), 5)
