"""What is worked out from the columns of a step log."""

from __future__ import annotations

import pytest

from hermes.inside.wire.step_record import NULL
from hermes.jobs.detect.read_step_logs import from_walls


@pytest.mark.parametrize(
    ("waits", "own", "work"),
    [
        ([100, 100], [30, 50], 80),
        # Every other wait was asked who worked in it: the rest is taken to be alike.
        ([100, 100, 100, 100], [40, NULL, 60, NULL], 200),
        ([100, 300], [NULL, NULL], 0),
        ([NULL, NULL], [NULL, NULL], 0),
        ([0, 0], [0, 0], 0),
        # Two clocks: the thread's may run a little ahead.
        ([100, 100], [101, 101], 200),
    ],
)
def test_work_in_loaders_is_a_part_of_the_waits_for_them(waits: list[int], own: list[int], work: float) -> None:
    assert from_walls([1000] * len(waits), data_ns=waits, data_cpu_ns=own).loader_work() == pytest.approx(work)
