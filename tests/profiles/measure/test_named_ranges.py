"""Named ranges by step and domain: what was launched in them, inner ranges included, each piece once."""

from __future__ import annotations

import polars as pl

from hermes.profiles.measure.structure.named_ranges import RangeOfStep, ranges

MAIN, AUTOGRAD = 1, 2
_NAMED = {"name": str, "domain": str, "pid": int, "tid": int, "start_ns": int, "dur_ns": int, "step": int}
_ASKED = {"pid": int, "tid": int, "start_ns": int, "dur_ns": int}
_NODES = {"kind": str, "name": str, **_ASKED, "sequence": int, "forward_tid": int}


def frame(schema: dict[str, type], *rows: tuple[object, ...]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=schema, orient="row")


def found(
    named: list[tuple[object, ...]], asked: list[tuple[object, ...]], nodes: list[tuple[object, ...]] | None = None
) -> list[tuple[int | None, str | None, str, int, int, int, int]]:
    rows = ranges(0, frame(_NAMED, *named), frame(_ASKED, *asked), frame(_NODES, *(nodes or [])))
    return [_told(row) for row in rows]


def _told(row: RangeOfStep) -> tuple[int | None, str | None, str, int, int, int, int]:
    return row.step, row.domain, row.name, row.calls, row.host_ns, row.device_ns, row.kernels


def test_a_range_is_summed_by_step_and_domain() -> None:
    named = [
        ("forward", None, 9, MAIN, 0, 100, 5), ("forward", None, 9, MAIN, 200, 90, 6),
        ("forward", "loader", 9, MAIN, 400, 50, 6),
    ]  # fmt: skip
    asked = [(9, MAIN, 10, 7), (9, MAIN, 20, 7), (9, MAIN, 210, 5), (9, MAIN, 410, 1), (9, MAIN, 900, 99)]
    assert found(named, asked) == [
        (5, None, "forward", 1, 100, 14, 2), (6, None, "forward", 1, 90, 5, 1), (6, "loader", "forward", 1, 50, 1, 1),
    ]  # fmt: skip


def test_a_range_counts_what_its_inner_ranges_launch_and_one_inside_its_own_kind_once() -> None:
    named = [("step", None, 9, MAIN, 0, 100, 5), ("mlp", None, 9, MAIN, 10, 50, 5), ("mlp", None, 9, MAIN, 20, 20, 5)]
    assert found(named, [(9, MAIN, 25, 4), (9, MAIN, 90, 3)]) == [
        (5, None, "step", 1, 100, 7, 2), (5, None, "mlp", 2, 50, 4, 1),
    ]  # fmt: skip


def test_the_backward_work_of_a_range_is_its_own() -> None:
    nodes = [("op", "aten::mm", 9, MAIN, 12, 5, 7, None), ("op", "MmBackward0", 9, AUTOGRAD, 500, 50, 7, MAIN)]
    assert found([("mlp", None, 9, MAIN, 10, 50, 5)], [(9, AUTOGRAD, 510, 8)], nodes) == [
        (5, None, "mlp", 1, 50, 8, 1),
    ]  # fmt: skip


def test_a_mark_without_a_length_is_a_call_of_no_time() -> None:
    assert found([("saved", None, 9, MAIN, 10, 0, None)], [(9, MAIN, 10, 8)]) == [(None, None, "saved", 1, 0, 0, 0)]
