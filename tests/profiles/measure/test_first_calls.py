"""First calls of a program: long launches and allocations with the device free, in few of the steps."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from hermes.base.intervals import Intervals, union_of_intervals
from hermes.model.host_measures import FirstCalls
from hermes.model.step_measures import StepSplit
from hermes.profiles.measure.host.first_calls import first_calls

MS = 1_000_000


def step(number: int, start: int, length: int) -> StepSplit:
    return StepSplit(
        rank=0, step=number, window_kind="host", start_ns=start * MS, window_ns=length * MS, compute_ns=0, comm_ns=0,
        exposed_comm_ns=0, overlapped_comm_ns=0, copy_ns=0, copy_exposed_ns=0, free_ns=0, preparing_ns=None,
        host_ns=None,
    )  # fmt: skip


STEPS = [step(0, 0, 1_000), step(1, 1_000, 100), step(2, 1_100, 100)]


def busy(*parts: tuple[int, int]) -> Intervals:
    return union_of_intervals(
        np.array([a * MS for a, _ in parts], np.int64), np.array([b * MS for _, b in parts], np.int64)
    )


def found(*calls: tuple[str, int, int], work: Intervals | None = None) -> tuple[FirstCalls, ...]:
    rows = [{"name": name, "start_ns": start * MS, "dur_ns": length * MS} for name, start, length in calls]
    return first_calls(0, pl.DataFrame(rows), work if work is not None else busy((1_050, 1_060)), STEPS)


def test_a_long_launch_of_the_first_step_loads_code() -> None:
    (row,) = found(("cudaLaunchKernel", 100, 300), ("cudaLaunchKernel", 1_010, 0))
    assert (row.allocation, row.calls, row.free_ns) == (False, 1, 300 * MS)


def test_a_long_allocation_stands_apart_from_launches() -> None:
    rows = found(("cudaLaunchKernel", 100, 300), ("cudaFree", 500, 200))
    assert [(row.allocation, row.ns) for row in rows] == [(False, 300 * MS), (True, 200 * MS)]


@pytest.mark.parametrize(
    "call", [("cudaMemcpyAsync", 100, 300), ("cudaStreamSynchronize", 100, 300), ("cudaMalloc", 100, 20),
             ("cudaGraphLaunch", 100, 300)],
)  # fmt: skip
def test_a_copy_a_wait_and_an_allocation_of_some_milliseconds_are_none(call: tuple[str, int, int]) -> None:
    assert found(call) == ()


def test_a_launch_that_a_full_queue_holds_is_none() -> None:
    assert found(("cudaLaunchKernel", 100, 300), work=busy((100, 400))) == ()


def test_what_comes_in_each_step_is_no_first_call() -> None:
    assert found(*(("cudaLaunchKernel", start, 30) for start in (100, 1_010, 1_110))) == ()


def test_what_began_before_the_capture_counts_from_there() -> None:
    (row,) = found(("cudaDeviceGetStreamPriorityRange", -500, 600))
    assert (row.ns, row.free_ns) == (600 * MS, 100 * MS)
