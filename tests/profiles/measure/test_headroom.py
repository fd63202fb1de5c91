"""What a device has left by step: its capacity less what was taken at the fullest moment."""

from __future__ import annotations

import polars as pl
import pytest

from hermes.knowledge.device_memory import memory_bytes
from hermes.model.tables import TABLES, empty
from hermes.profiles.measure.memory.headroom import Headroom, headroom

GB = 1_000_000_000
STEPS = pl.DataFrame({"step": [5, 6], "start_ns": [0, 100], "dur_ns": [100, 100]})


def curve(*samples: tuple[str, int, int]) -> pl.DataFrame:
    rows = [
        {"rank": 0, "component": component, "ts_ns": ts, "allocated_bytes": None, "reserved_bytes": held * GB,
         "device_id": None if component == "cpu" else 0}
        for component, ts, held in samples
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=empty(TABLES["memory"]).schema)


def left(memory: pl.DataFrame, steps: pl.DataFrame = STEPS, capacity: int = 64) -> list[tuple[int | None, int]]:
    found: list[Headroom] = list(headroom(0, memory, steps, capacity * GB, "chip"))
    return [(row.step, row.free_bytes // GB) for row in found]


def test_a_step_has_left_what_its_fullest_moment_leaves() -> None:
    assert left(curve(("PTA", 10, 20), ("PTA", 50, 60), ("PTA", 90, 30), ("PTA", 150, 40))) == [(5, 4), (6, 24)]


def test_what_was_held_when_a_step_began_counts_for_it() -> None:
    assert left(curve(("PTA", 10, 50))) == [(5, 14), (6, 14)]


def test_the_whole_process_holds_its_allocators() -> None:
    assert left(curve(("PTA", 10, 20), ("APP", 10, 30), ("cpu", 10, 90))) == [(5, 34), (6, 34)]


def test_without_steps_the_capture_is_one() -> None:
    assert left(curve(("PTA", 10, 20), ("PTA", 500, 21)), STEPS.clear()) == [(None, 43)]


def test_more_than_there_is_says_that_the_capacity_is_wrong() -> None:
    assert left(curve(("PTA", 10, 65))) == []


@pytest.mark.parametrize(
    ("name", "gibibytes"),
    [("Ascend910B3", 64), ("Ascend910B4", 32), ("Ascend910B4-1", 64), ("Ascend910_9392", 64), ("Ascend910B", None),
     ("Ascend910", None), ("", None), (None, None), ("NVIDIA H100 80GB HBM3", None)],
)  # fmt: skip
def test_only_the_full_name_of_a_chip_tells_its_memory(name: str | None, gibibytes: int | None) -> None:
    assert memory_bytes(name) == (gibibytes << 30 if gibibytes else None)
