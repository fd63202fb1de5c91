"""The split of steps and the time tree speak of the same steps, and give each part of them the same time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from hermes.model.leaf import Part
from hermes.model.step_measures import StepSplit
from hermes.model.tables.unmarked_steps import WHOLE
from hermes.profiles.measure.leaves.call_trees import LEAVES
from hermes.profiles.measure.leaves.leaves_of_rank import RankLeaves, tree
from hermes.profiles.measure.steps.breakdown import step_splits
from hermes_testing import draw

Tables = Mapping[str, pl.DataFrame]


def splits(tables: Tables) -> tuple[StepSplit, ...]:
    return step_splits(tables["step"], tables["kernel"], tables["comm_op"], tables["host_op"].lazy())


def leaves(tables: Tables) -> RankLeaves:
    return tree(**{name: tables[name] for name in ("host_op", "kernel", "comm_op", "flow", "step", "gc", "stack")})


def spans(found: tuple[StepSplit, ...]) -> list[tuple[int, int]]:
    return [(split.start_ns, split.start_ns + split.window_ns) for split in found]


def windows(made: RankLeaves) -> list[tuple[int, int]]:
    return list(zip(made.windows.start.tolist(), made.windows.end.tolist(), strict=True))


def parts_of_leaves(made: RankLeaves) -> Counter[Part]:
    sums = Counter[Part]()
    for leaf, ns in made.parts.select("leaf", "ns").iter_rows():
        sums[LEAVES[leaf].part] += ns
    return sums


def parts_of_splits(found: tuple[StepSplit, ...]) -> Counter[Part]:
    sums = Counter[Part]()
    for split in found:
        if split.compute_ns is not None:
            sums["compute"] += split.compute_ns
            sums["communication"] += split.exposed_comm_ns or 0
            sums["copy"] += split.copy_exposed_ns or 0
            sums["idle"] += split.free_ns or 0
    return sums


def test_a_capture_without_marks_lasts_from_its_first_event_to_its_last_of_host_or_device() -> None:
    (one,) = splits(draw("""
        rank0.host     AAA.....BB..
        rank0.compute  ..##..##....
        rank0.copy     ..........#.
    """, scale_ns=1))  # fmt: skip
    assert (one.window_kind, one.step, one.start_ns, one.window_ns) == ("capture", None, 0, 11)
    assert (one.compute_ns, one.copy_exposed_ns, one.free_ns, one.preparing_ns, one.host_ns) == (4, 1, 6, 2, None)


def test_a_capture_of_a_host_alone_is_one_step_without_parts() -> None:
    (one,) = splits(draw("rank0.host  ..AA...BB.", scale_ns=1))
    assert (one.window_kind, one.step, one.start_ns, one.window_ns, one.compute_ns) == ("capture", None, 2, 7, None)


def test_a_task_with_an_impossible_length_does_not_lengthen_the_capture() -> None:
    tables = draw("rank0.compute@1  A...BB....\nrank0.compute@2  ......CC..", scale_ns=1)
    tables["kernel"] = tables["kernel"].with_columns(
        pl.when(pl.col("name") == "A").then(1_000).otherwise("dur_ns").alias("dur_ns")
    )
    assert spans(splits(tables)) == windows(leaves(tables)) == [(0, 8)]


def test_rows_of_the_host_that_are_no_calls_of_a_length_begin_no_step() -> None:
    tables = draw("rank0.host     A...B.......\nrank0.compute  .....####...", scale_ns=1)
    tables["host_op"] = tables["host_op"].with_columns(
        pl.when(pl.col("name") == "A").then(0).otherwise("dur_ns").alias("dur_ns")
    )
    assert spans(splits(tables)) == windows(leaves(tables)) == [(4, 9)]


def test_a_mark_that_a_reader_made_of_the_whole_capture_is_its_one_step() -> None:
    tables = draw("rank0.step  [########]\nrank0.host  .AA..BB...", scale_ns=1)
    tables["step"] = tables["step"].with_columns(pl.lit(WHOLE).alias("name"))
    (one,) = splits(tables)
    assert (one.window_kind, one.step, one.host_ns) == ("capture", 0, 10)
    assert spans((one,)) == windows(leaves(tables)) == [(0, 10)]
    tables["step"] = tables["step"].with_columns(pl.lit(0, dtype=pl.Int64).alias("dur_ns"))
    assert splits({**tables, "host_op": tables["host_op"].clear()}) == ()


def assert_one_step(found: tuple[StepSplit, ...], made: RankLeaves) -> None:
    """The splits tile the windows of the tree, and their parts sum to the leaves' sums by part."""
    assert spans(found) == windows(made)
    if any(split.compute_ns is not None for split in found):
        own = parts_of_leaves(made)
        own["idle"] += own.pop("outside", 0)
        assert +own == +parts_of_splits(found)


CELLS = st.text("#AB.", min_size=1, max_size=24)
LANES = st.lists(
    st.tuples(st.sampled_from(["compute", "comm", "comm:tp", "copy", "wait", "host", "python", "sync"]), CELLS),
    min_size=1, max_size=6,
)  # fmt: skip
MARKS = st.lists(st.tuples(st.integers(0, 3), st.integers(2, 9)), max_size=3).map(
    lambda parts: "".join("." * gap + "[" + "#" * (length - 2) + "]" for gap, length in parts)
)


@given(LANES, MARKS)
def test_split_and_tree_have_the_same_steps_and_the_same_parts(lanes: list[tuple[str, str]], marks: str) -> None:
    lines = [f"rank0.{lane}@{at}  {cells}" for at, (lane, cells) in enumerate(lanes)]
    tables = draw("\n".join([*lines, *([f"rank0.step#3  {marks}"] if marks else [])]), scale_ns=1_000)
    found, made = splits(tables), leaves(tables)
    assert_one_step(found, made)
