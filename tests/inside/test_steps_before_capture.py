"""What the monitor tells a capture of the steps before it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hermes.inside.monitor.steps_before_capture import fault_ns, long_of, means_before_capture, spans_of
from hermes.inside.profile import captures as captures_module
from hermes.inside.profile.captures import Captures
from hermes.inside.wire.capture_levels import CaptureError
from hermes.inside.wire.control import Control, Request
from hermes.inside.wire.step_record import FIELDS, FLAGS, NULL, pack


def record(**values: int) -> bytes:
    row = dict.fromkeys(FIELDS, NULL) | {"flags": 0, "wall_ns": 10, "gc_ns": 2} | values
    return pack(*(row[name] for name in list(FIELDS)[:-1]))


def test_means_are_of_steps_that_nothing_else_made_different() -> None:
    odd = [
        record(wall_ns=10_000, flags=FLAGS[name]) for name in ("first", "profiled", "evaluation", "foreign_profiler")
    ]
    steps = [record(), record(wall_ns=20, gc_ns=4), record(wall_ns=12, flags=FLAGS["checkpoint"])]
    told = means_before_capture(b"".join([*odd, *steps]))
    assert {name: told[name] for name in ("steps", "step_ns", "gc_ns", "spread_ns")} == {
        "steps": 3, "step_ns": 14, "gc_ns": 2, "spread_ns": 2,
    }  # fmt: skip
    assert "data_ns" not in told
    assert "minor_faults" not in told


def test_steps_that_are_longer_evenly_are_told_evaluations_among_them_and_when_they_were() -> None:
    rows = [
        record(
            step=at, end_ns=1_000 * (at + 1), wall_ns=600 if at % 4 == 0 else 100, flags=FLAGS["evaluation"] * (at == 8)
        )
        for at in range(14)
    ]
    late = record(step=16, end_ns=17_000, wall_ns=700, flags=FLAGS["profiled"])
    found = long_of(b"".join(rows))
    assert found is not None
    assert (found.period, found.last, found.count) == (4, 12, 4)
    assert found.told()["long_share_ppm"] == round(1e6 * 2_000 / 3_400)
    assert spans_of(b"".join([*rows[10:], late]), found) == [(12_400, 13_000), (16_300, 17_000)]


def test_time_on_a_core_is_read_now_and_then_for_all_steps_since() -> None:
    told = means_before_capture(b"".join([record(cpu_ns=8, delay_ns=0), record(), record(cpu_ns=16, delay_ns=6)]))
    assert (told["cpu_ns"], told["delay_ns"]) == (8, 2)
    assert "delay_ns" not in means_before_capture(record())


def test_faults_that_are_read_now_and_then_are_shared_out_among_the_steps_between() -> None:
    rows = [
        record(minor_faults=9_000),
        record(),
        record(minor_faults=600),
        record(),
        record(),
        record(minor_faults=900),
    ]
    assert means_before_capture(b"".join(rows))["minor_faults"] == 300


def walls(*lengths: int) -> bytes:
    return b"".join(record(wall_ns=length) for length in lengths)


@pytest.mark.parametrize(
    ("lengths", "steps"),
    [
        # Quick steps and then slow ones; and back; twice; nothing but noise; one of ten is long; a stall; 15 %.
        ([10 + at % 3 for at in range(100)] + [40 + at % 5 for at in range(8)], 8),
        ([40 + at % 5 for at in range(100)] + [10 + at % 3 for at in range(20)], 20),
        (
            [10 + at % 3 for at in range(60)]
            + [20 + (at + 1) % 3 for at in range(60)]
            + [40 + at % 3 for at in range(30)],
            30,
        ),
        ([10 + (at * 7) % 5 for at in range(200)], 200),
        ([200 if at % 10 == 9 else 10 + at % 3 for at in range(200)], 200),
        ([10 + at % 3 for at in range(100)] + [900] + [10 + at % 3 for at in range(5)], 106),
        ([100 + at % 3 for at in range(100)] + [115 + at % 3 for at in range(100)], 200),
        # Too few to tell.
        ([10] * 50 + [40] * 4, 54),
        ([10], 1),
    ],
)
def test_only_steps_since_the_last_change_are_like_those_that_are_captured(lengths: list[int], steps: int) -> None:
    assert means_before_capture(walls(*lengths))["steps"] == steps


def test_memory_that_is_touched_once_is_in_no_step() -> None:
    rows = [record(minor_faults=count) for count in (20, 10, 60_000, 12)]
    assert means_before_capture(b"".join(rows))["minor_faults"] == 12
    # Two readings, one of them with room made for a capture.
    assert means_before_capture(b"".join(rows[1:]))["minor_faults"] == 12


@pytest.mark.parametrize("raw", [b"", b"\0" * 64, record(flags=FLAGS["profiled"]), record()[:-1]])
def test_nothing_is_told_where_no_step_is_whole(raw: bytes) -> None:
    assert means_before_capture(raw) == {}


def test_a_first_touch_of_memory_costs_something() -> None:
    assert 0 < fault_ns() < 10**6


@pytest.mark.live
@pytest.mark.parametrize("raises", [False, True])
def test_a_capture_is_told_of_the_steps_before_it_and_starts_without_where_they_cannot_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, raises: bool
) -> None:
    told: list[dict[str, int]] = []

    def none_here(_request: object, _rank: int, _modules: object, steps_before: dict[str, int], **_: object) -> None:
        told.append(steps_before)
        raise CaptureError("no profiler")

    def broken(_records: bytes) -> None:
        raise ValueError

    monkeypatch.setattr(captures_module, "choose", none_here)
    if raises:
        monkeypatch.setattr(captures_module, "means_before_capture", broken)
    control = Control.create(tmp_path / "control", {"job": "a"})
    number = control.claim(0)
    captures = Captures(control, number, 0, lambda _: None, lambda: walls(10, 10))
    control.ask(Request(
        action="profile", start_step=9, steps=2, level="light", reason="", out=str(tmp_path), deadline_ns=1 << 61,
        largest_bytes=1,
    ))  # fmt: skip
    for step in (3, 6, 8):
        captures.poll(step, 10)
        time.sleep(0.1)
    assert [one.get("step_ns") for one in told] == [None if raises else 10]
