"""Databases that are lent again: the next caller finds nothing of the one before, and gets its own limits."""

from __future__ import annotations

import contextlib
import gc
import re
from importlib.resources import files
from pathlib import Path

import duckdb
import pytest

from hermes.store import database


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> list[duckdb.DuckDBPyConnection]:
    """No database is idle at first, and none of an earlier test comes back meanwhile."""
    gc.collect()
    idle: list[duckdb.DuckDBPyConnection] = []
    monkeypatch.setattr(database, "_idle", idle)
    return idle


def borrowed(folder: Path, memory_bytes: int = 100_000_000) -> duckdb.DuckDBPyConnection:
    return database.lent(memory_bytes=memory_bytes, threads=2, spill=folder)


def setting(con: duckdb.DuckDBPyConnection, name: str) -> str:
    return str(con.execute(f"SELECT current_setting('{name}')").fetchall()[0][0])


def test_a_closed_connection_gives_its_database_to_the_next_caller(
    tmp_path: Path, alone: list[duckdb.DuckDBPyConnection]
) -> None:
    for _ in range(3):
        with contextlib.closing(borrowed(tmp_path)):
            assert alone == []
        gc.collect()
        assert len(alone) == 1


def test_two_that_are_open_have_a_database_each(tmp_path: Path) -> None:
    with contextlib.closing(borrowed(tmp_path)) as first, contextlib.closing(borrowed(tmp_path, 200_000_000)) as second:
        assert setting(first, "memory_limit") != setting(second, "memory_limit")


def test_nothing_of_the_caller_before_is_left(tmp_path: Path) -> None:
    with contextlib.closing(borrowed(tmp_path / "a's")) as con:
        con.execute("CREATE TEMP TABLE event AS SELECT 1 AS x")
        con.execute("CREATE TEMP VIEW seen AS FROM event")
        con.execute("SET preserve_insertion_order = false")
    del con
    with contextlib.closing(borrowed(tmp_path / "b", 200_000_000)) as con:
        assert con.execute("FROM duckdb_tables()").fetchall() == []
        assert con.execute("FROM duckdb_views() WHERE NOT internal").fetchall() == []
        assert setting(con, "preserve_insertion_order") == "True"
        assert setting(con, "temp_directory") == str(tmp_path / "b")
        assert setting(con, "memory_limit").startswith("190")


def test_a_database_that_has_spilled_is_lent_no_more(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with contextlib.closing(borrowed(tmp_path / "a", 30_000_000)) as con:
        con.execute("CREATE TEMP TABLE wide AS SELECT range AS x, hash(range)::VARCHAR AS y FROM range(2_000_000)")
        assert any((tmp_path / "a").iterdir())
    del con
    with contextlib.closing(borrowed(tmp_path / "b")) as con:
        assert setting(con, "temp_directory") == str(tmp_path / "b")
        assert con.execute("SELECT count(*) FROM range(10)").fetchall() == [(10,)]


def test_readers_make_temporary_tables_alone() -> None:
    made = [found for path in Path(str(files("hermes") / "profiles" / "read")).rglob("*.py")
            for found in re.findall(r"CREATE (?:OR REPLACE )?(\w+) ", path.read_text("utf-8"))]  # fmt: skip
    assert len(made) > 20
    assert set(made) == {"TEMP"}
