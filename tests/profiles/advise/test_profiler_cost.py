"""The step without its profiler: what it adds to calls is left out of gains, as far as it is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hermes.model.finding import Gain
from hermes.model.host_measures import Before
from hermes.model.plan import NoiseFloor, Unprofiled
from hermes.model.step_measures import StepSplit
from hermes.profiles.advise.noise import noise_floor, without_profiler
from hermes.profiles.advise.profiler_cost import unprofiled, unprofiled_gain

Make = Callable[..., Any]
MS = 1_000_000


def split(rank: int = 0, ms: int = 12) -> StepSplit:
    return StepSplit(
        rank=rank, step=0, window_kind="host", start_ns=0, window_ns=ms * MS, compute_ns=None, comm_ns=None,
        exposed_comm_ns=None, overlapped_comm_ns=None, copy_ns=None, copy_exposed_ns=None, free_ns=None,
        preparing_ns=None, host_ns=ms * MS,
    )  # fmt: skip


def before(rank: int = 0, ms: int = 10, calls: int = 2_000, **more: Any) -> Before:
    made = Before(
        rank=rank, steps=100, step_ns=ms * MS, gc_ns=None, data_ns=None, data_cpu_ns=None, save_ns=None,
        optimizer_ns=None, minor_faults=None, fault_ns=None, spread_ns=None, captured_faults=None, calls=calls,
    )  # fmt: skip
    return replace(made, **more)


def test_what_the_profiler_adds_is_shared_out_among_the_calls_that_it_records() -> None:
    found = unprofiled([before()], [split(ms=11), split(ms=13)])
    assert found is not None
    assert (found.step_ns, found.captured_ns, found.each_ns) == (10 * MS, 12 * MS, 1_000.0)


def test_a_profiler_adds_no_more_than_three_microseconds_to_a_call() -> None:
    found = unprofiled([before(calls=100)], [split()])
    assert found is not None
    assert found.each_ns == 3_000.0


def test_steps_before_that_only_waited_for_a_core_are_not_the_step_that_gains_are_meant_for() -> None:
    held_up = before(ms=60, delay_ns=45 * MS)
    assert unprofiled([held_up], [split(ms=12)]) is None
    assert unprofiled([replace(held_up, delay_ns=10 * MS)], [split(ms=12)]) is not None


def test_steps_that_were_held_up_spread_by_as_much_more() -> None:
    found = unprofiled([before(ms=60, spread_ns=10 * MS)], [split(ms=12)])
    assert found is not None
    assert found.captured_spread_ns == 2 * MS
    assert replace(found, captured_ns=90 * MS).captured_spread_ns == 10 * MS


@pytest.fixture
def step() -> Unprofiled:
    """10 ms before the capture, 12 in it."""
    found = unprofiled([before()], [split()])
    assert found is not None
    return found


def test_a_gain_is_what_the_capture_shows_or_less_as_the_whole_step_is(step: Unprofiled) -> None:
    gain = unprofiled_gain(step, Gain(low_ns=6 * MS, high_ns=6 * MS, method="all of it", basis="replayed"))
    assert (gain.low_ns, gain.high_ns) == (5 * MS, 6 * MS)
    assert gain.method.identifier == "gain.without_profiler"


def test_what_else_was_captured_leaves_no_room_for_more_than_the_profiler_did_not_add() -> None:
    # 20 ms captured, 12 of them lost; the profiler added 3 at most, in 1,000 calls. The other 17 are as 10 were before.
    found = unprofiled([before(ms=10, calls=1_000)], [split(ms=20)])
    assert found is not None
    gain = unprofiled_gain(found, Gain(low_ns=12 * MS, high_ns=12 * MS, method="all of it"))
    assert (gain.low_ns, gain.high_ns) == (6 * MS, round(10 * MS - 5 * MS * 10 / 17))
    more = unprofiled([before(ms=10, calls=2_000)], [split(ms=20)])
    assert more is not None
    gain = unprofiled_gain(more, Gain(low_ns=12 * MS, high_ns=12 * MS, method="all of it"))
    assert (gain.low_ns, gain.high_ns) == (6 * MS, round(10 * MS - 2 * MS * 10 / 14))


def test_no_gain_is_more_than_the_step(step: Unprofiled) -> None:
    gain = unprofiled_gain(step, Gain(low_ns=11 * MS, high_ns=12 * MS, method="all of it", before=True))
    assert (gain.low_ns, gain.high_ns) == (10 * MS, 10 * MS)


def test_what_was_counted_before_the_capture_is_not_corrected(step: Unprofiled) -> None:
    told = Gain(low_ns=6 * MS, high_ns=6 * MS, method="all of it", before=True)
    assert unprofiled_gain(step, told) == told


def test_steps_that_took_longer_before_the_capture_or_were_two_are_not_what_gains_are_of() -> None:
    assert unprofiled([before(ms=15)], [split()]) is None
    assert unprofiled([replace(before(ms=9), steps=2)], [split()]) is None
    # So unlike that the report says so.
    assert unprofiled([before(ms=60)], [split()]) is not None


def test_the_rank_with_the_longest_captured_steps_counts_and_others_are_silent() -> None:
    found = unprofiled([before(0), before(1, ms=11)], [split(0), split(1, ms=14)])
    assert found is not None
    assert (found.rank, found.step_ns) == (1, 11 * MS)
    assert unprofiled([], [split()]) is None
    assert unprofiled([before(3)], [split()]) is None


def test_a_job_without_a_device_has_a_step_to_take_shares_of() -> None:
    found = noise_floor([split(0), split(1, ms=20), split(1, ms=30), split(1, ms=40)], ())
    assert found.step_ns == 30 * MS
    assert found.least_ns == 150_000


def test_the_noise_floor_is_that_of_steps_that_no_profiler_disturbed(floor: NoiseFloor) -> None:
    calm = without_profiler(replace(floor, least_ns=10, spread_ns=900, ns=900), 100, 4)
    # 1.4826 x 100 x 1.2533 / 2.
    assert (calm.ns, calm.spread_ns, calm.of) == (93, 93, "steps before the capture")
    assert without_profiler(replace(floor, least_ns=500), 100, 4).ns == 500
