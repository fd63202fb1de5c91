"""What the monitor tells a capture of the steps before it."""

from __future__ import annotations

import pytest

from hermes.capture.before import before, fault_ns
from hermes.live.record import FIELDS, FLAGS, NULL, pack


def record(**values: int) -> bytes:
    row = dict.fromkeys(FIELDS, NULL) | {"flags": 0, "wall_ns": 10, "gc_ns": 2} | values
    return pack(*(row[name] for name in list(FIELDS)[:-1]))


def test_means_are_of_steps_that_nothing_else_made_different() -> None:
    odd = [
        record(wall_ns=10_000, flags=FLAGS[name]) for name in ("first", "profiled", "evaluation", "foreign_profiler")
    ]
    steps = [record(), record(wall_ns=20, gc_ns=4), record(wall_ns=12, flags=FLAGS["checkpoint"])]
    told = before(b"".join([*odd, *steps]))
    assert {name: told[name] for name in ("steps", "step_ns", "gc_ns", "spread_ns")} == {
        "steps": 3, "step_ns": 14, "gc_ns": 2, "spread_ns": 2,
    }  # fmt: skip
    assert "data_ns" not in told
    assert "minor_faults" not in told


def test_faults_that_are_read_now_and_then_are_shared_out_among_the_steps_between() -> None:
    rows = [
        record(minor_faults=9_000),
        record(),
        record(minor_faults=600),
        record(),
        record(),
        record(minor_faults=900),
    ]
    assert before(b"".join(rows))["minor_faults"] == 300


def test_memory_that_is_touched_once_is_in_no_step() -> None:
    rows = [record(minor_faults=count) for count in (20, 10, 60_000, 12)]
    assert before(b"".join(rows))["minor_faults"] == 12
    # Two readings, one of them with room made for a capture.
    assert before(b"".join(rows[1:]))["minor_faults"] == 12


@pytest.mark.parametrize("raw", [b"", b"\0" * 64, record(flags=FLAGS["profiled"]), record()[:-1]])
def test_nothing_is_told_where_no_step_is_whole(raw: bytes) -> None:
    assert before(raw) == {}


def test_a_first_touch_of_memory_costs_something() -> None:
    assert 0 < fault_ns() < 10**6
