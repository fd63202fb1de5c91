"""What the monitor tells a capture of the steps before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.capture.before import before, fault_ns, renewed
from hermes.capture.profile import Captures
from hermes.live.control import Control, Request
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


def test_time_on_a_core_is_read_now_and_then_for_all_steps_since() -> None:
    told = before(b"".join([record(cpu_ns=8, delay_ns=0), record(), record(cpu_ns=16, delay_ns=6)]))
    assert (told["cpu_ns"], told["delay_ns"]) == (8, 2)
    assert "delay_ns" not in before(record())


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


def walls(*lengths: int) -> bytes:
    return b"".join(record(wall_ns=length) for length in lengths)


def numbered(*lengths: int, first: int = 0) -> bytes:
    return b"".join(record(wall_ns=length, step=first + at) for at, length in enumerate(lengths))


QUICK, SLOW = [10, 11, 12] * 20, [40, 41, 42] * 20


@pytest.mark.parametrize(
    ("since", "steps", "length"),
    [
        # A change behind the acceptance; and so far back that no other record is left; and a cure.
        ([*QUICK, *SLOW], 60, 41),
        (SLOW, 60, 41),
        ([*SLOW, *QUICK], 60, 11),
        # Room makes steps quicker; as before; a stall; noise; too few to be sure.
        ([5, 6, 7] * 20, 60, 11),
        (QUICK, 60, 11),
        ([*QUICK, 90, *QUICK], 60, 11),
        ([18, 19, 20] * 20, 60, 11),
        (SLOW[:4], 60, 11),
        ([], 60, 11),
    ],
)
def test_a_change_between_acceptance_and_begin_counts_anew(since: list[int], steps: int, length: int) -> None:
    told = before(numbered(*QUICK))
    found = renewed(told, numbered(*QUICK[-9:], first=51) + numbered(*since, first=60), 59)
    assert (found["steps"], found["step_ns"], found["fault_ns"]) == (steps, length, told["fault_ns"])


@pytest.mark.parametrize(("since", "length"), [([*SLOW, *QUICK], 11), (QUICK, 41)])
def test_steps_that_are_quicker_from_the_acceptance_on_have_room_and_no_cure(since: list[int], length: int) -> None:
    assert renewed(before(numbered(*SLOW)), numbered(*since, first=60), 59)["step_ns"] == length


def test_what_was_not_told_at_acceptance_is_told_at_the_begin() -> None:
    found = renewed({}, numbered(*QUICK, first=1), 0)
    assert (found["steps"], found["step_ns"]) == (60, 11)
    assert renewed({}, b"", 0) == {}


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
    assert before(walls(*lengths))["steps"] == steps


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


def test_steps_are_counted_before_a_capture_makes_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    control = Control.create(tmp_path / "control", {"job": "a"})
    number = control.claim(0)
    captures = Captures(control, number, 0, done.append, lambda: done.append("counted") or b"")
    monkeypatch.setattr(captures, "_make_room", lambda: done.append("made room"))
    control.ask(Request(action="profile", start_step=9, steps=2, level="light", reason="", out=str(tmp_path)))
    captures.poll(3)
    assert done == ["counted", "made room"]
    # What counting raises is no reason to refuse.
    broken = Captures(control, number, 0, done.append, lambda: bytes({}["none"]))
    monkeypatch.setattr(broken, "_make_room", lambda: done.append("made room again"))
    broken._seen = 0
    broken.poll(4)
    assert done[2:] == ["made room again"]
