"""Tables of the longest names: added up over ranks, exact, and in one order."""

from __future__ import annotations

import polars as pl
import pytest

from hermes.model.step_measures import KernelTop
from hermes.model.tables import TABLES, empty
from hermes.profiles.measure.steps.top_tables import top_calls, top_communication, top_kernels, top_operators
from hermes_testing import draw


def test_kernels_of_one_type_are_one_row() -> None:
    tables = draw("rank0.compute  AA.AAAA.B\nrank1.compute  A........", scale_ns=1)
    assert top_kernels(tables["kernel"])[0] == KernelTop(
        name="A", detail="cube", ranks=(0, 1), count=3, total_ns=7, share=7 / 8, min_ns=1, median_ns=2, max_ns=4
    )


def test_only_compute_and_copies_are_kernels() -> None:
    tables = draw("rank0.compute  A.....\nrank0.copy  .B....\nrank0.comm  ..C...\nrank0.wait  ...D..", scale_ns=1)
    assert {(row.name, row.detail) for row in top_kernels(tables["kernel"])} == {("A", "cube"), ("B", "copy")}


def test_a_kernel_without_type_and_unit_goes_by_its_name_and_component() -> None:
    rows = draw("rank0.compute  A", scale_ns=1)["kernel"].with_columns(
        type=pl.lit(None, dtype=pl.String), unit=pl.lit(None, dtype=pl.String)
    )
    (row,) = top_kernels(rows)
    assert (row.name, row.detail) == ("A", "compute")


def test_rows_of_equal_time_come_by_name() -> None:
    rows = draw("rank0.compute  C.A.B.DD", scale_ns=1)["kernel"]
    assert [row.name for row in top_kernels(rows)] == ["D", "A", "B", "C"]


def test_shares_of_a_table_add_up_to_one() -> None:
    rows = draw("rank0.compute  AAA.B.CC.DDDDDDD", scale_ns=1)["kernel"]
    assert sum(row.share for row in top_kernels(rows)) == pytest.approx(1)


def test_operators_count_the_time_of_their_own() -> None:
    host = draw("rank0.host  AAAA.A\nrank0.host  .BB...", scale_ns=1)["host_op"]
    found = {row.name: (row.count, row.total_ns, row.detail) for row in top_operators(host)}
    assert found == {"A": (2, 3, "host self time"), "B": (1, 2, "host self time")}


def test_python_frames_are_no_operators() -> None:
    assert top_operators(draw("rank0.python  AAAA", scale_ns=1)["host_op"]) == ()


def test_calls_of_the_runtime_count_with_all_that_runs_inside() -> None:
    host = draw("rank0.host  AAAA\nrank0.host  .BB.", scale_ns=1)["host_op"]
    rows = host.with_columns(kind=pl.col("name").replace_strict({"A": "acl", "B": "runtime"}))
    assert {(row.name, row.detail, row.total_ns) for row in top_calls(rows)} == {("A", "acl", 4), ("B", "runtime", 2)}


def test_framework_operators_are_no_calls_of_the_runtime() -> None:
    assert top_calls(draw("rank0.host  AAAA", scale_ns=1)["host_op"]) == ()


def test_collectives_are_told_by_operation_and_the_name_of_their_group() -> None:
    tables = draw("rank0.comm:tp  ##.##\nrank0.comm:dp@9  #....", scale_ns=1)
    rows = top_communication(tables["comm_op"], tables["group"])
    assert [(row.name, row.detail, row.count, row.total_ns) for row in rows] == [
        ("all_reduce", "tp", 2, 4),
        ("all_reduce", "dp", 1, 1),
    ]


def test_a_group_without_a_name_goes_by_its_key_and_none_is_said_so() -> None:
    tables = draw("rank0.comm:tp  ##.#", scale_ns=1)
    rows = tables["comm_op"].with_columns(group=pl.when(pl.col("comm_id") == 0).then("group"))
    found = top_communication(rows, empty(TABLES["group"]))
    assert [row.detail for row in found] == ["tp", "group not recorded"]


def test_the_median_of_nanoseconds_is_a_whole_number() -> None:
    (row,) = top_kernels(draw("rank0.compute  A.AA", scale_ns=1)["kernel"])
    assert row.median_ns == 2


def test_empty_tables_give_empty_tops() -> None:
    none = {name: empty(table) for name, table in TABLES.items()}
    assert top_kernels(none["kernel"]) == top_operators(none["host_op"]) == top_calls(none["host_op"]) == ()
    assert top_communication(none["comm_op"], none["group"]) == ()


def test_rows_of_no_length_have_no_share() -> None:
    rows = draw("rank0.compute  A", scale_ns=1)["kernel"].with_columns(dur_ns=pl.lit(0, dtype=pl.Int64))
    (row,) = top_kernels(rows)
    assert (row.total_ns, row.share) == (0, 0.0)
