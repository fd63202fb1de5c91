"""The path of a step as a measure: parts by component and reason that add up to the window."""

from __future__ import annotations

import polars as pl

from hermes.model.path_measures import StepPath
from hermes.model.step_measures import StepSplit
from hermes.profiles.measure.path.step_path import RankRows, step_path
from hermes.profiles.measure.steps.breakdown import step_splits
from hermes_testing import draw


def drawn(text: str, names: dict[str, str] | None = None) -> tuple[RankRows, StepSplit]:
    """The rows of rank 0 and its first step; `names` gives letters of the host their real names."""
    tables = draw(text)
    host = tables["host_op"].with_columns(pl.col("name").replace(names or {}))
    rows = RankRows(
        rank=0,
        vendor="nvidia",
        kernel=tables["kernel"],
        comm_op=tables["comm_op"],
        host_op=host,
        flow=tables["flow"],
        gc=tables["gc"],
    )
    split = step_splits(tables["step"], tables["kernel"], tables["comm_op"])[0]
    return rows, split


def path(text: str, names: dict[str, str] | None = None) -> StepPath:
    """The path of the first step of rank 0."""
    rows, split = drawn(text, names)
    return step_path(lambda rank, first, last: rows, split, {}, {}, across=False)


def parts(found: StepPath) -> dict[str, int]:
    assert sum(part.ns for part in found.parts) == found.window_ns
    return {f"{part.component} {part.reason}".strip(): part.ns // 1_000 for part in found.parts}


def test_host_time_is_told_by_what_the_host_was_in() -> None:
    found = path(
        """
        rank0.step     [##################]
        rank0.host     .LLLL.OOOOO.........
        rank0.call     ........AA..........
        rank0.compute  ..........AAAAAAAAAA
        """,
        {"L": "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "O": "aten::mm"},
    )
    assert parts(found) == {
        "compute": 10, "host data loading": 4, "host operators": 2, "host launching": 2, "host outside any call": 2,
    }  # fmt: skip


def test_a_collection_counts_before_the_call_that_it_struck() -> None:
    found = path(
        """
        rank0.step     [########]
        rank0.host     OOOOOO....
        rank0.gc       .##.......
        rank0.call     ....AA....
        rank0.compute  ......AAAA
        """,
        {"O": "aten::mm"},
    )
    assert parts(found) == {"compute": 4, "host garbage collection": 2, "host operators": 2, "host launching": 2}


def test_the_longest_stretches_have_names_and_places() -> None:
    found = path(
        """
        rank0.step     [########]
        rank0.host@7   .OOOO.....
        rank0.call@7   ....AA....
        rank0.compute  ......AAAA
        """,
        {"O": "aten::mm"},
    )
    assert [(row.component, row.name, row.where, row.dur_ns) for row in found.stretches] == [
        ("host", "aten::mm", "thread 7", 6_000),
        ("compute", "A", "stream 1", 4_000),
    ]


def test_a_cpu_job_has_a_path_on_its_threads() -> None:
    found = path(
        """
        rank0.step  [########]
        rank0.host  OOOOOOGG..
        """,
        {"O": "aten::mm", "G": "gloo:all_reduce"},
    )
    assert parts(found) == {"host operators": 6, "host communication": 2, "host outside any call": 2}


def test_what_is_not_explained_has_its_share() -> None:
    found = path("""
        rank0.step     [########]
        rank0.compute  .....#####
    """)
    assert parts(found) == {"compute": 5, "unexplained": 5}
    assert found.unexplained_share == 0.5
