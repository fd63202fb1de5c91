"""New memory that deterministic mode fills."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.profiles.rules.rows import only, silent

from hermes.profiles.measure.memory.new_memory_fills import NewMemoryFills
from hermes.profiles.rules.environment.env006_filled_memory import filled_memory

Make = Callable[..., Any]


def fills(host_ns: int, device_ns: int | None = None) -> NewMemoryFills:
    return NewMemoryFills(rank=0, step=0, fills=9, host_ns=host_ns, device_ns=device_ns)


def test_without_a_device_the_calls_cost_at_most_their_time(measures: Make, blind: Make) -> None:
    finding = only(filled_memory, measures([blind()], fills(120)))
    assert (finding.message["share"], finding.cost_ns, finding.gain.low_ns, finding.gain.high_ns) == (0.12, 120, 0, 120)
    assert finding.actions[0].fit.frameworks == ("pytorch",)


def test_with_a_device_the_kernels_that_they_launch_count(measures: Make, split: Make) -> None:
    assert only(filled_memory, measures([split()], fills(900, device_ns=50))).cost_ns == 50
    assert silent(filled_memory, measures([split()], fills(900)))


def test_fills_below_the_noise_are_no_finding(measures: Make, blind: Make) -> None:
    assert silent(filled_memory, measures([blind()], fills(9)))
