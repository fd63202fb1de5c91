"""The step without its profiler: what it adds to calls is left out of gains, as far as it is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hermes.advise.bare import bare
from hermes.advise.noise import NoiseFloor, noise_floor, without_profiler
from hermes.advise.ranking import rank
from hermes.analyze.host_measures import Before
from hermes.analyze.measures import StepSplit
from hermes.diagnose.finding import Finding

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


@pytest.fixture
def claim(finding: Make) -> Callable[..., Finding]:
    """A finding that costs and claims `ms`, in so many recorded calls."""

    def make(ms: int, calls: float | None, code: str = "CPU009") -> Finding:
        made = finding(code, low=ms * MS, high=ms * MS)
        return replace(made, cost_ns=ms * MS, calls=calls)  # type: ignore[no-any-return]

    return make


def test_what_the_profiler_adds_is_shared_out_among_the_calls_that_it_records() -> None:
    found = bare([before()], [split(ms=11), split(ms=13)])
    assert found is not None
    assert (found.step_ns, found.captured_ns, found.each_ns) == (10 * MS, 12 * MS, 1_000.0)


@pytest.mark.parametrize(
    ("calls", "left_ms"),
    # 1 us a call of 4 ms: none, a quarter of it, nearly all; a tenth at least is left. Not counted: as the whole step.
    [(0.0, 4.0), (1_000.0, 3.0), (3_900.0, 0.4), (None, 4 * 10 / 12)],
)
def test_a_gain_loses_what_the_profiler_added_to_its_calls(claim: Make, calls: float | None, left_ms: float) -> None:
    found = bare([before()], [split()])
    assert found is not None
    gain = found.of(claim(4, calls))
    assert gain.low_ns == gain.high_ns == pytest.approx(left_ms * MS, abs=1)
    assert ("profiler" in gain.method) is (calls != 0.0)


def test_steps_that_differ_by_more_than_a_profiler_adds_keep_their_shares(claim: Make) -> None:
    found = bare([before(calls=100)], [split()])
    assert found is not None
    # 3 us of each call are the profiler's at most: of the rest each cost loses its part.
    assert (found.each_ns, found.alike) == (3_000.0, pytest.approx(10 / 11.7))
    assert found.of(claim(6, 50.0)).low_ns == pytest.approx(5 * MS, abs=1)
    assert found.of(claim(6, None)).low_ns == 5 * MS


@pytest.mark.parametrize(
    ("awaits", "calls", "cost_ms", "won_ms"),
    [
        (True, 100.0, 20, 8.0),  # 24 ms less the wait are 4, of which 2 are 3 us of each call at most
        (True, 20.0, 21, 8.75),  # 3 ms, and more by 3 us of each call than shrinks from 24 ms to 10: to 1.25
        (True, 100.0, 30, 10.0),  # another rank's wait, longer than this one's step: all of it, and no more
        (True, 766.0, 20, 6.0),  # all calls lie in the wait: the other 4 ms are the rank's own
        (False, 100.0, 20, 10 * (20 - 0.3) / 21.7),
        (True, 100.0, 11, 10 * (11 - 0.3) / 21.7),  # less than half of the step: nobody knows whose the rest is
    ],
)
def test_who_waits_for_another_rank_keeps_its_own_work(
    claim: Make, awaits: bool, calls: float, cost_ms: int, won_ms: float
) -> None:
    found = bare([before(calls=766)], [split(ms=24)])
    assert found is not None
    gain = found.of(replace(claim(cost_ms, calls), awaits=awaits))
    assert gain.low_ns == gain.high_ns == pytest.approx(won_ms * MS, rel=2e-3)


@pytest.mark.parametrize("calls", [500.0, None])
def test_what_a_capture_is_shorter_by_is_no_causes_more_than_anothers(claim: Make, calls: float | None) -> None:
    # 15 ms before, 12 captured: 6 of these are half of either.
    found = bare([before(ms=15)], [split()])
    assert found is not None
    assert (found.each_ns, found.of(claim(6, calls)).low_ns) == (0, 7.5 * MS)


def test_memory_that_was_new_before_and_not_in_the_capture_belongs_to_what_used_it(claim: Make) -> None:
    # 10 ms before, 2 of them page faults; 12 ms captured without any: 2 us for each of 2,000 calls.
    found = bare([before(minor_faults=1_000, fault_ns=2_000, captured_faults=0)], [split()])
    assert found is not None
    assert (found.fresh_ns, found.captured_fresh_ns, found.each_ns) == (2 * MS, 0, 2_000.0)
    # 6 ms less 0.2 of its calls, and as much more as steps without new memory lack.
    assert found.of(claim(6, 100.0)).low_ns == pytest.approx(5.8 * MS * 10 / 8, abs=1)


@pytest.mark.parametrize(("fresh", "left_ms"), [(0.0, 5.8), (0.5, 6.8), (1.0, 7.8)])
def test_operators_that_make_large_tensors_win_the_memory_of_these(claim: Make, fresh: float, left_ms: float) -> None:
    found = bare([before(minor_faults=1_000, fault_ns=2_000, captured_faults=0)], [split()])
    assert found is not None
    assert found.of(replace(claim(6, 100.0), fresh=fresh)).low_ns == pytest.approx(left_ms * MS, abs=1)


def test_memory_that_was_new_in_the_capture_is_taken_from_what_made_it(claim: Make) -> None:
    found = bare([before(minor_faults=0, fault_ns=1_000, captured_faults=1_000)], [split()])
    assert found is not None
    # 2 ms more, of which 1 is new memory; the other is 2,000 calls.
    assert found.of(replace(claim(6, 100.0), fresh=0.5)).low_ns == pytest.approx((6 - 0.05 - 0.5) * MS, abs=1)


def test_memory_that_only_the_profiler_made_new_is_left_out(claim: Make) -> None:
    found = bare([before(minor_faults=0, fault_ns=1_000, captured_faults=1_200)], [split()])
    assert found is not None
    assert (found.captured_fresh_ns, found.each_ns) == (1_200_000, 400.0)
    assert found.of(claim(5, 0.001)).low_ns == pytest.approx(4.5 * MS, abs=2)


def test_page_faults_of_unknown_cost_change_nothing(claim: Make) -> None:
    for told in ({"minor_faults": 900, "captured_faults": 5}, {"fault_ns": 900, "captured_faults": 5}):
        found = bare([before(**told)], [split()])
        assert found is not None
        assert (found.fresh_ns, found.captured_fresh_ns, found.each_ns) == (0, 0, 1_000.0)


def test_the_rank_with_the_longest_captured_steps_counts_and_others_are_silent() -> None:
    found = bare([before(0), before(1, ms=11)], [split(0), split(1, ms=14)])
    assert found is not None
    assert (found.rank, found.step_ns) == (1, 11 * MS)
    assert bare([], [split()]) is None
    assert bare([before(3)], [split()]) is None


def test_causes_with_few_calls_come_before_those_that_the_profiler_makes_large(
    claim: Make, replaying: Make, floor: NoiseFloor
) -> None:
    many, few = claim(5, 4_000.0), claim(4, 1.0, "CPU006")
    step = bare([before()], [split()])
    assert [one.code for one in rank([many, few], replaying({}), floor).findings] == ["CPU009", "CPU006"]
    assert [one.code for one in rank([many, few], replaying({}), floor, step).findings] == ["CPU006", "CPU009"]


def test_a_job_without_a_device_has_a_step_to_take_shares_of() -> None:
    found = noise_floor([split(0), split(1, ms=20), split(1, ms=30), split(1, ms=40)], ())
    assert found.step_ns == 30 * MS
    assert found.least_ns == 150_000


def test_the_noise_floor_is_that_of_steps_that_no_profiler_disturbed(floor: NoiseFloor) -> None:
    calm = without_profiler(replace(floor, least_ns=10, spread_ns=900, ns=900), 100, 4)
    # 1.4826 x 100 x 1.2533 / 2.
    assert (calm.ns, calm.spread_ns, calm.of) == (93, 93, "steps before the capture")
    assert without_profiler(replace(floor, least_ns=500), 100, 4).ns == 500
