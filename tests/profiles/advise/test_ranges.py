"""Gains as ranges: as wide as cures of their kind were from their replays, within what the loss costs."""

from __future__ import annotations

import pytest

from hermes.model.finding import Gain
from hermes.profiles.advise.ranges import ranged, spread_of

REPLAYED = Gain(low_ns=1_000, high_ns=3_000, method="replay", replayed=True)


@pytest.mark.parametrize("spec", ["op:MatMul=0.5", "host:data-loading=0", "launch:graph", "sync:none", "rank:5=median",
                                  "comm:*=0.5", "copy:*=0", "compute:5=0.8"])  # fmt: skip
def test_no_range_is_a_point_and_none_of_a_sure_kind_is_wider_than_two(spec: str) -> None:
    found = ranged(REPLAYED, [spec], cost_ns=10_000)
    assert found.low_ns < 1_000 < found.high_ns
    assert found.high_ns / found.low_ns < (2 if spec.startswith(("op", "host", "compute", "rank")) else 3)


def test_a_range_ends_at_the_cost() -> None:
    found = ranged(REPLAYED, ["host:data-loading=0"], cost_ns=1_100)
    assert found.low_ns < found.high_ns == 1_100


def test_what_is_expected_is_the_replay_itself() -> None:
    assert ranged(REPLAYED, ["sync:none"], cost_ns=10_000).expected_ns == 1_000


def test_a_bound_stays_a_bound() -> None:
    bound = Gain(low_ns=0, high_ns=3_000, method="bound")
    assert ranged(bound, [], cost_ns=3_000) == bound


def test_of_several_changes_the_least_known_counts() -> None:
    both = spread_of(["op:MatMul=0.5", "sync:none"])
    assert (both.least, both.most) == (spread_of(["sync:none"]).least, spread_of(["sync:none"]).most)
