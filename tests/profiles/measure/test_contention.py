"""The same work with and without the other kind beside it."""

from __future__ import annotations

import polars as pl
import pytest

from hermes.profiles.measure.communication.contention import comm_contention, compute_contention, merge_ranks
from hermes.profiles.measure.communication.wait_and_transfer import GroupInfo


def operations(*spans: tuple[int, int]) -> pl.DataFrame:
    """Operations of one rank: arrival of the last member and end."""
    rows = [{"start_ns": 0, "arrival_ns": begin, "dur_ns": end} for begin, end in spans]
    return pl.DataFrame(rows)


def kernels(count: int, start: int, dur: int, name: str = "MatMulV2", shapes: str = "8,8") -> list[dict[str, object]]:
    return [
        {"name": name, "type": name, "input_shapes": shapes, "start_ns": start + 20_000 * at, "dur_ns": dur}
        for at in range(count)
    ]


BUSY = operations((100_000, 400_000))


def test_a_kernel_that_is_slower_beside_transfers_is_measured_against_itself() -> None:
    rows = pl.DataFrame([*kernels(5, 0, 10_000), *kernels(6, 100_000, 13_000)])
    (row,) = compute_contention(BUSY, rows)
    assert (row.kind, row.name, row.detail) == ("compute", "MatMulV2", "8,8")
    assert (row.beside, row.alone, row.slowdown) == (6, 5, pytest.approx(1.3))
    assert row.loss_ns == 6 * 3_000


def test_other_shapes_are_other_work() -> None:
    rows = pl.DataFrame([*kernels(5, 0, 10_000), *kernels(6, 100_000, 13_000, shapes="9,9")])
    assert compute_contention(BUSY, rows) == ()


def test_fewer_than_five_samples_of_either_say_nothing() -> None:
    rows = pl.DataFrame([*kernels(4, 0, 10_000), *kernels(6, 100_000, 13_000)])
    assert compute_contention(BUSY, rows) == ()


def test_kernels_beside_mere_waiting_are_alone() -> None:
    # The operation has begun at 0, but its last member comes at 100 us.
    rows = pl.DataFrame([*kernels(5, 0, 10_000), *kernels(5, 500_000, 10_000)])
    assert compute_contention(BUSY, rows) == ()


def test_an_operation_beside_compute_is_measured_against_its_like() -> None:
    rows = pl.DataFrame(
        [
            {
                "op": "all_reduce", "group": "g", "bytes": 4_096, "split": True,
                "time_ns": 12_000 if beside else 10_000, "hidden_ns": 12_000 if beside else 0,
            }
            for beside in (True, False)
            for _ in range(5)
        ]
    )  # fmt: skip
    (row,) = comm_contention(rows, {"g": GroupInfo(label="dp", members=None, size=None)})
    assert (row.kind, row.name, row.detail) == ("communication", "all_reduce dp", "4096 bytes")
    assert (row.slowdown, row.loss_ns) == (pytest.approx(1.2), 10_000)


def test_ranks_are_merged_with_the_median_of_their_slowdowns() -> None:
    found = []
    for slower in (11_000, 12_000, 19_000):
        found += compute_contention(BUSY, pl.DataFrame([*kernels(5, 0, 10_000), *kernels(5, 100_000, slower)]))
    (row,) = merge_ranks(found)
    assert (row.beside, row.alone, row.slowdown, row.loss_ns) == (15, 15, pytest.approx(1.2), 5 * 12_000)
