"""Which waits of a rank bind, one drawing for each rule; and the spells in which a rank tells its time."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from hermes.profiles.measure.leaves import spells as spells_module
from hermes.profiles.measure.leaves.leaves_of_rank import tree
from hermes.profiles.measure.leaves.spells import RankSpells, is_sound, rank_spells
from hermes.profiles.measure.steps.step_window import Windows
from hermes_testing import draw

TABLES = ("host_op", "kernel", "comm_op", "flow", "step", "gc", "stack")


def bound(text: str, wait_cells: int) -> list[int]:
    """The collectives whose waits bind, in a drawing of which the first collective waits for rank 1."""
    tables = draw(text, scale_ns=10_000)
    waits = pl.DataFrame({"comm_id": [0], "split": [True], "wait_ns": [wait_cells * 10_000], "last": [1]})
    made = tree(**{name: tables[name] for name in TABLES}, waits=waits)
    return tables["comm_op"]["comm_id"][made.binding].to_list()


def test_a_wait_that_ends_while_nothing_is_computed_binds() -> None:
    assert bound(
        """
        rank0.step     [############]
        rank0.compute  ###...........
        rank0.comm     ..########....
        """, 5
    ) == [0]  # fmt: skip


def test_a_wait_whose_end_is_hidden_by_compute_does_not_bind() -> None:
    assert bound(
        """
        rank0.step     [############]
        rank0.compute  ....######....
        rank0.comm     ..########....
        """, 5
    ) == []  # fmt: skip


def test_a_wait_binds_where_the_next_task_was_launched_before_the_operation_ended() -> None:
    assert bound(
        """
        rank0.step     [############]
        rank0.call     A..B..........
        rank0.compute  .A........BBBB
        rank0.comm     ..########....
        """, 5
    ) == [0]  # fmt: skip


def test_a_rank_whose_own_host_was_late_after_the_operation_is_not_held_by_it() -> None:
    assert bound(
        """
        rank0.step     [############]
        rank0.host     ....XXXXXXXX..
        rank0.call     A...........B.
        rank0.compute  .A..........BB
        rank0.comm     ..########....
        """, 5
    ) == []  # fmt: skip


def test_a_host_that_waits_for_the_device_is_not_late() -> None:
    assert bound(
        """
        rank0.step     [############]
        rank0.call     A..........B..
        rank0.sync     ..########....
        rank0.compute  .A.........BBB
        rank0.comm     ..########....
        """, 5
    ) == [0]  # fmt: skip


def test_without_a_device_a_wait_binds_while_the_stepping_thread_is_in_it() -> None:
    for host, binds in (("AAAA............BBBB", [0]), ("AAAAAAAAAAAAAAAABBBB", [])):
        tables = draw(f"""
            rank0.step     [##################]
            rank0.host     {host}
            rank0.comm     ..############......
        """, scale_ns=50_000)  # fmt: skip
        operation = tables["comm_op"].with_columns(pl.lit("gloo").alias("library"))
        waits = pl.DataFrame({"comm_id": [0], "split": [True], "wait_ns": [450_000], "last": [1]})
        alone = {name: tables[name] for name in TABLES} | {"comm_op": operation, "kernel": tables["kernel"].clear()}
        assert tree(**alone, waits=waits).binding.tolist() == binds


@pytest.mark.parametrize("seed", range(20))
def test_spells_are_merged_beyond_the_most_sums_and_lose_no_time(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(seed)
    count, rows = dice.randint(1, 60), dice.randint(1, 5)
    start = np.arange(count, dtype=np.int64) * 100
    parts = pl.DataFrame(
        {
            "spell": np.repeat(np.arange(count), rows),
            "row": np.tile(np.arange(rows), count),
            "ns": [dice.randint(1, 100 // rows) for _ in range(count * rows)],
        }
    )
    windows = Windows(step=np.array([3]), start=start[:1], end=start[-1:] + 100)
    spells = Windows(step=np.zeros(count, dtype=np.int64), start=start, end=start + 100)
    monkeypatch.setattr(spells_module, "MOST_SUMS", 40)
    found = rank_spells(windows, spells, parts, pl.Series([5, 6]))
    assert found.sums["ns"].sum() == parts["ns"].sum()
    assert found.sums.height <= max(40, rows)
    assert found.starts["start_ns"][0] == 0
    assert found.sums["spell"].max() == found.starts.height - 1
    assert dict(found.sums.group_by("row").agg(pl.col("ns").sum()).iter_rows()) == dict(
        parts.group_by("row").agg(pl.col("ns").sum()).iter_rows()
    )


GOOD = RankSpells(
    steps=pl.DataFrame({"step": [1], "start_ns": [0], "end_ns": [100]}),
    starts=pl.DataFrame({"start_ns": [0, 50]}),
    sums=pl.DataFrame({"spell": [0, 1], "row": [1, 0], "ns": [50, 50]}),
    binding=pl.DataFrame(schema={"comm_id": pl.Int64}),
)


@pytest.mark.parametrize(
    "changed",
    [
        {"sums": GOOD.sums.with_columns(row=pl.lit(2))}, {"sums": GOOD.sums.with_columns(spell=pl.lit(-1))},
        {"sums": GOOD.sums.with_columns(ns=pl.lit(None, dtype=pl.Int64))}, {"sums": GOOD.sums.drop("ns")},
        {"sums": GOOD.sums.with_columns(ns=pl.lit("1"))}, {"starts": GOOD.starts.reverse()},
        {"starts": GOOD.starts.clear()}, {"steps": GOOD.steps.clear()},
        {"steps": GOOD.steps.with_columns(end_ns=pl.lit(0))}, {"binding": pl.DataFrame()},
    ],
)  # fmt: skip
def test_sums_of_another_machine_that_cannot_be_are_not_followed(changed: dict[str, pl.DataFrame]) -> None:
    assert is_sound(GOOD, 2)
    assert not is_sound(replace(GOOD, **changed), 2)
