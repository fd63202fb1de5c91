"""Drawings become canonical tables."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.model.tables import TABLES, schema_of
from hermes_testing import DrawingError, draw

PICTURE = """
    rank0.step#5   [########]
    rank0.compute  AABB......
    rank0.comm     ..######..
    rank1.compute@7  #.#
"""


def test_a_run_of_one_letter_is_one_event_of_the_scale() -> None:
    kernel = draw(PICTURE, scale_ns=10)["kernel"].filter(component="compute", rank=0)
    assert kernel.select("name", "start_ns", "dur_ns").rows() == [("A", 0, 20), ("B", 20, 20)]


def test_brackets_count_as_cells_so_that_two_events_can_touch() -> None:
    step = draw("rank0.step#3  [##][#]")["step"]
    assert step.select("step", "start_ns", "dur_ns").rows() == [(3, 0, 4_000), (4, 4_000, 3_000)]


def test_communication_is_drawn_in_both_tables() -> None:
    tables = draw(PICTURE)
    expected = [(0, 2_000, 6_000, 5)]
    columns = ("rank", "start_ns", "dur_ns", "step")
    assert tables["comm_op"].select(columns).rows() == expected
    assert tables["kernel"].filter(component="comm").select(columns).rows() == expected


def test_a_row_outside_every_step_has_none() -> None:
    kernel = draw("rank0.step  ##\nrank0.compute  ..#")["kernel"]
    assert kernel["step"].to_list() == [None]


def test_the_stream_follows_the_at_sign() -> None:
    assert draw(PICTURE)["kernel"].filter(rank=1)["stream"].to_list() == [7, 7]


def test_operations_of_one_group_are_numbered_in_order() -> None:
    comm = draw("rank0.comm:tp  A.A\nrank0.comm:dp@9  .A.")["comm_op"]
    assert comm.select("group", "sequence").rows() == [("tp", 0), ("dp", 0), ("tp", 1)]


def test_a_group_lists_every_rank_that_took_part() -> None:
    group = draw("rank0.comm  #\nrank3.comm  #")["group"]
    assert group.filter(rank=3).select("member", "global_rank").rows() == [(0, 0), (1, 3)]


def test_host_calls_nest_and_give_their_own_time() -> None:
    host = draw("rank0.host  AAAA\nrank0.host  .BB.")["host_op"]
    assert host.select("name", "depth", "self_ns").rows() == [("A", 0, 2_000), ("B", 1, 2_000)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rank0.compute", "cannot read"),
        ("rank0.cmpute  ##", "no lane"),
        ("rank0.compute  #!#", "no cell"),
        ("rank0.compute  [##", "no cell"),
        ("rank0.compute  [AB]", "several events"),
        ("rank0.compute#4  ##", "takes no step"),
        ("rank0.step@4  ##", "takes no stream"),
        ("rank0.copy:tp  ##", "takes no group"),
        ("rank0.host  AA.\nrank0.host  .BB", "overlap"),
        ("", "empty"),
    ],
)
def test_a_drawing_that_cannot_be_read_is_refused_clearly(text: str, says: str) -> None:
    with pytest.raises(DrawingError, match=says):
        draw(text)


def test_a_cell_of_no_length_is_refused() -> None:
    with pytest.raises(DrawingError, match="0 ns"):
        draw("rank0.compute  #", scale_ns=0)


CELLS = st.text(alphabet="#AB.", min_size=1, max_size=30)
LANES = st.sampled_from(["step", "compute", "comm", "copy", "wait", "gc", "host", "python"])


@given(lines=st.lists(st.tuples(st.integers(0, 3), LANES, CELLS), min_size=1, max_size=6, unique_by=lambda x: x[:2]))
def test_every_drawing_is_valid_against_the_schema(lines: list[tuple[int, str, str]]) -> None:
    rows = [row for row in lines if row[1] != "python"]  # a Python call could cross a host call
    if not rows:
        return
    tables = draw("\n".join(f"rank{rank}.{lane}  {cells}" for rank, lane, cells in rows))
    assert set(tables) == set(TABLES)
    for name, table in TABLES.items():
        assert tables[name].schema == schema_of(table)
        for column in table.columns:
            assert column.null or not tables[name][column.name].null_count()


@given(cells=CELLS, scale=st.integers(1, 10_000))
def test_the_drawn_time_is_the_number_of_cells(cells: str, scale: int) -> None:
    kernel = draw(f"rank0.compute  {cells}", scale_ns=scale)["kernel"]
    assert kernel["dur_ns"].sum() == scale * (len(cells) - cells.count("."))
    ends = (kernel["start_ns"] + kernel["dur_ns"]).shift(1)
    assert kernel.filter(pl.col("start_ns") < ends).is_empty()
