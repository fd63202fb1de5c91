"""CSV files as the readers take them: whole, whatever their size."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from hermes.profiles.read.csvfile import Csv, load, real, whole
from hermes.profiles.read.query import ns_sql
from hermes.profiles.read.table_sink import Sink


@pytest.mark.parametrize("rows", [10, 30_000, 200_000])
def test_a_file_of_any_size_is_read_to_its_end(rows: int, tmp_path: Path) -> None:
    path = tmp_path / "kernel_details.csv"
    lines = [f'{number},aclnnMatMul_{number % 97},{number * 0.25},"1,2;3,4"' for number in range(rows)]
    path.write_text("\n".join(["Step Id,Name,Duration(us),Input Shapes", *lines]) + "\n", "utf-8")
    sink = Sink(tmp_path / "out", 0)
    con = sink.connect()
    found = load(con, path, "detail", sink)
    assert found is not None
    assert sink.notes == []
    assert con.execute('SELECT count(*), max(CAST("Step Id" AS BIGINT)) FROM detail').fetchall() == [(rows, rows - 1)]
    con.close()


def _read(path: Path, text: str, cells: Callable[[Csv], Sequence[str]]) -> list[tuple[object, ...]]:
    """What SQL for some cells of a file with this text finds."""
    path.write_text(text, "utf-8")
    sink = Sink(path.parent / "out", 0)
    with contextlib.closing(sink.connect()) as con:
        found = load(con, path, "detail", sink)
        assert found is not None
        return con.execute(f"SELECT {', '.join(cells(found))} FROM detail").fetchall()


def test_cells_are_without_what_spreadsheets_and_profilers_put_around_them(tmp_path: Path) -> None:
    text = 'Code,Name,Na"me\n12\t, Add ,"""x"""\n,N/A,\t\n" N/A",a b,"\t7"\n'
    rows = _read(tmp_path / "kernel_details.csv", text, lambda file: list(map(file.pick, file.columns)))
    assert rows == [("12", "Add", "x"), (None, None, None), (None, "a b", "7")]


def test_numbers_are_read_with_what_stands_around_them(tmp_path: Path) -> None:
    text = "Task ID,aic_mac_ratio,Duration(us)\n12\t, 0.5 ,1.25\t\n N/A,,\n"
    rows = _read(
        tmp_path / "kernel_details.csv", text,
        lambda file: (
            whole(file.pick("Task ID")), real(file.pick("aic_mac_ratio")), ns_sql(file.pick("Duration(us)")),
        ),
    )  # fmt: skip
    assert rows == [(12, 0.5, 1250), (None, None, None)]
