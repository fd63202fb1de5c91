"""Gains as ranges: as wide as cures of their kind were from their replays, within what the loss costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hermes.base.say import say
from hermes.model.fault import Fault
from hermes.model.finding import Gain, Loss
from hermes.model.job import Job
from hermes.model.leaf import Leaf
from hermes.model.plan import NoiseFloor
from hermes.model.typical_step import JobSteps
from hermes.profiles.advise.bound_gains import CostCertainty, GainBound, ranged, with_ranges, within_leaf, within_step
from hermes.profiles.tree.gain_spread import spread_of

REPLAYED = Gain(low_ns=1_000, high_ns=3_000, method="replay", basis="replayed")


@pytest.mark.parametrize("spec", ["op:MatMul=0.5", "host:data-loading=0", "launch:graph", "sync:none", "rank:5=median",
                                  "comm:*=0.5", "copy:*=0", "compute:5=0.8", "layers:5=0.8"])  # fmt: skip
def test_no_range_is_a_point_and_none_is_wider_than_two(spec: str) -> None:
    found = ranged(REPLAYED, [spec], most_ns=10_000)
    assert found.low_ns < 1_000 < found.high_ns
    assert found.high_ns / found.low_ns <= 2


def test_a_range_ends_at_what_the_loss_costs_at_most() -> None:
    found = ranged(REPLAYED, ["host:data-loading=0"], most_ns=1_100)
    assert found.low_ns < found.high_ns == 1_100


def test_what_is_expected_is_the_replay_itself() -> None:
    assert ranged(REPLAYED, ["sync:none"], most_ns=10_000).expected_ns == 1_000


def test_a_bound_stays_a_bound() -> None:
    bound = Gain(low_ns=0, high_ns=3_000, method="bound")
    assert ranged(bound, [], most_ns=3_000) == bound


def test_time_of_the_host_that_was_counted_is_no_point_either_and_a_range_of_its_own_stays() -> None:
    counted = Gain(low_ns=1_000, high_ns=1_000, method="the host's own time", basis="replayed")
    found = ranged(counted, [], most_ns=1_050)
    assert (found.low_ns, found.expected_ns, found.high_ns) == (750, 1_000, 1_050)
    wide = Gain(low_ns=500, high_ns=1_000, method="the host's own time", basis="replayed")
    assert ranged(wide, [], most_ns=1_050) == wide


def test_of_several_changes_the_least_known_counts() -> None:
    both = spread_of(["op:MatMul=0.5", "sync:none"])
    assert (both.least, both.most) == (spread_of(["sync:none"]).least, spread_of(["sync:none"]).most)


def known(noise: int, *, host: int = 100_000) -> CostCertainty:
    floor = NoiseFloor(ns=noise, step_ns=100_000, spread_ns=noise, of="steps", unexplained_ns=0, least_ns=0)
    return CostCertainty(floor=floor, room=GainBound(step_ns=100_000, host_ns=host))


def test_a_cost_is_known_as_well_as_it_is_counted_and_as_steps_are_alike() -> None:
    assert known(0).most_ns(10_000, ["compute:5=0.8"]) == 10_500
    assert known(1_000).most_ns(10_000, ["compute:5=0.8"]) == pytest.approx(11_878, abs=1)


def test_nothing_costs_more_than_the_step_and_nothing_of_a_host_more_than_its_device_is_free() -> None:
    assert known(0).most_ns(99_000, ["compute:5=0.8"]) == 100_000
    assert known(0, host=10_200).most_ns(10_000, ["host:data-loading=0"]) == 10_200
    # Whatever was counted, the step cannot become shorter than the busiest device works.
    assert known(0, host=9_000).most_ns(10_000, ["host:data-loading=0"]) == 9_000


def test_of_launches_a_count_does_not_see_what_a_slow_host_does_between_them() -> None:
    assert known(0).most_ns(10_000, ["launch:graph"]) == 15_000


ROOM = GainBound(step_ns=100_000, host_ns=60_000, waits_ns=20_000)


def lost(cost: int, low: int, *specs: str, fault: Fault = Fault.SYNCHRONISING_CALL) -> Loss:
    """A loss whose replayed gain is `low`."""
    gain = Gain(low_ns=low, high_ns=max(low, cost), method="replay", basis="replayed")
    return Loss(message="t", ranks=(0,), cost_ns=cost, share=0.1, gain=gain, confidence=0.9, replay=specs, fault=fault)


@pytest.mark.parametrize(
    ("loss", "gain"),
    [
        (lost(10_000, 8_000, "sync:none"), 10_000),
        (lost(10_000, 13_000, "sync:none"), 13_000),
        (lost(10_000, 40_000, "sync:none"), 15_000),
        (lost(50_000, 70_000, "sync:none"), 60_000),
        (lost(10_000, 13_000, "compute:5=0.8"), 10_000),
        (lost(10_000, 30_000, "rank:5=median", fault=Fault.STRAGGLER), 20_000),
    ],
)
def test_a_cost_stays_what_was_measured_and_a_replay_may_give_what_waited_for_it(loss: Loss, gain: int) -> None:
    found = within_step(loss, ROOM)
    assert (found.cost_ns, found.share, found.gain.high_ns) == (loss.cost_ns, loss.share, gain)


def test_a_replay_that_gives_more_than_the_cost_says_why() -> None:
    certain = CostCertainty(floor=known(0).floor, room=ROOM)
    found = with_ranges([lost(10_000, ns, "sync:none") for ns in (13_000, 10_400, 9_000)], certain)
    assert ["work that waited for this" in say(one.gain.method) for one in found] == [True, False, False]


@pytest.mark.parametrize(
    ("spec", "gain"), [("launch:graph", 40_000), ("host:dispatch=0", 10_000)], ids=["launches", "one reason"]
)
def test_only_a_replay_of_faster_launches_may_give_more_than_the_leaves_that_it_explains(spec: str, gain: int) -> None:
    job = Job(steps=JobSteps(()), spent={0: {Leaf.DISPATCH: 10_000}}, lengths={0: 100_000})
    made = within_step(replace(lost(10_000, 40_000, spec, fault=Fault.DISPATCH), about=Leaf.DISPATCH), ROOM)
    certain = CostCertainty(floor=known(0).floor, room=ROOM)
    (found,) = with_ranges([within_leaf(job, made)], certain)
    assert found.cost_ns == 10_000
    assert found.gain.low_ns <= gain <= found.gain.high_ns <= 1.3 * gain


def test_faster_launches_give_at_most_the_time_in_which_no_device_works() -> None:
    job = Job(steps=JobSteps(()), spent={0: {Leaf.DISPATCH: 10_000}}, lengths={0: 100_000})
    made = replace(lost(10_000, 90_000, "launch:graph", fault=Fault.DISPATCH), about=Leaf.DISPATCH)
    assert within_leaf(job, within_step(made, ROOM)).gain.high_ns == ROOM.host_ns
