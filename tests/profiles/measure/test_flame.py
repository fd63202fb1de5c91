"""Calls merged by their way down: what is merged, what is cut, and whom a call belongs to."""

from __future__ import annotations

import polars as pl
import pytest

from hermes.profiles.measure.path.flame import Frame, flame

WHOLE = (0, 1_000_000)
NAMES = ("name", "start_ns", "dur_ns", "depth")
SCHEMA = {
    "name": pl.String, "start_ns": pl.Int64, "dur_ns": pl.Int64, "depth": pl.Int64, "kind": pl.String,
    "pid": pl.Int64, "tid": pl.Int64, "stack_id": pl.Int64,
}  # fmt: skip


def calls(*rows: tuple[str, int, int, int], **more: object) -> pl.DataFrame:
    """Calls as name, start, duration and depth; of one thread, operators without a stack."""
    own = {"kind": "op", "pid": 1, "tid": 7, "stack_id": None, **more}
    return pl.DataFrame([dict(zip(NAMES, row, strict=True)) | own for row in rows], schema=SCHEMA)


def told(frames: tuple[Frame, ...]) -> dict[str, tuple[int, int]]:
    """Calls and time by the way down to each frame."""
    ways: list[str] = []
    for frame in frames:
        ways.append(f"{ways[frame.parent]} > {frame.name}" if frame.parent >= 0 else frame.name)
    return {way: (frame.calls, frame.total_ns) for way, frame in zip(ways, frames, strict=True)}


TWICE = calls(
    ("forward", 0, 400_000, 0), ("mm", 0, 100_000, 1), ("add", 150_000, 50_000, 1),
    ("forward", 500_000, 300_000, 0), ("mm", 550_000, 200_000, 1), ("copy", 600_000, 90_000, 2),
)  # fmt: skip


def test_calls_of_one_name_below_one_caller_are_one_frame() -> None:
    assert told(flame(TWICE, {}, WHOLE)) == {
        "process 1, thread 7": (0, 700_000),
        "process 1, thread 7 > forward": (2, 700_000),
        "process 1, thread 7 > forward > mm": (2, 300_000),
        "process 1, thread 7 > forward > mm > copy": (1, 90_000),
        "process 1, thread 7 > forward > add": (1, 50_000),
    }


def test_the_longest_call_tells_where_to_look() -> None:
    assert [one.longest_ns for one in flame(TWICE, {}, WHOLE) if one.name == "mm"] == [550_000]


def test_only_what_lies_in_the_window_counts() -> None:
    found = told(flame(TWICE, {}, (600_000, 700_000)))
    assert found["process 1, thread 7 > forward > mm"] == (1, 100_000)
    assert "process 1, thread 7 > forward > add" not in found


def test_a_range_opened_inside_a_call_and_longer_than_it_belongs_above_both() -> None:
    """A profiler's step begins inside the call that opens it."""
    rows = calls(
        ("run", 0, 900_000, 0), ("open", 100_000, 10_000, 1), ("step", 105_000, 700_000, 2), ("mm", 200_000, 50_000, 3)
    )
    assert told(flame(rows, {}, WHOLE)) == {
        "process 1, thread 7": (0, 900_000),
        "process 1, thread 7 > run": (1, 900_000),
        "process 1, thread 7 > run > step": (1, 700_000),
        "process 1, thread 7 > run > step > mm": (1, 50_000),
        "process 1, thread 7 > run > open": (1, 10_000),
    }


def test_threads_are_kept_apart() -> None:
    rows = pl.concat([calls(("mm", 0, 300_000, 0)), calls(("mm", 0, 200_000, 0), tid=8)])
    assert {way.partition(" > ")[0] for way in told(flame(rows, {}, WHOLE))} == {
        "process 1, thread 7", "process 1, thread 8",
    }  # fmt: skip


def test_a_recorded_stack_stands_above_the_outermost_call() -> None:
    rows = calls(("mm", 0, 300_000, 0), ("copy", 0, 100_000, 1), stack_id=3)
    stacks = {3: "model.py(9): forward\ntrain.py(4): step"}
    assert list(told(flame(rows, stacks, WHOLE))) == [
        "process 1, thread 7",
        "process 1, thread 7 > train.py(4): step",
        "process 1, thread 7 > train.py(4): step > model.py(9): forward",
        "process 1, thread 7 > train.py(4): step > model.py(9): forward > mm",
        "process 1, thread 7 > train.py(4): step > model.py(9): forward > mm > copy",
    ]


def test_calls_of_the_runtime_are_left_out_whose_depths_are_their_own() -> None:
    rows = pl.concat([calls(("mm", 0, 300_000, 0)), calls(("launch", 10, 200_000, 0), kind="runtime")])
    assert [one.name for one in flame(rows, {}, WHOLE)] == ["process 1, thread 7", "mm"]


@pytest.mark.parametrize("most", [1, 2, 3])
def test_of_many_frames_the_longest_are_shown_with_their_callers(most: int) -> None:
    names = [one.name for one in flame(TWICE, {}, WHOLE, most=most)]
    assert names == ["process 1, thread 7", "forward", "mm"][:most]


def test_without_calls_there_is_nothing() -> None:
    assert flame(calls(), {}, WHOLE) == ()
