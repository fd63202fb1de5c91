"""A look into a database ends, whatever its schema says."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from hermes.base.errors import InputError, TraceFormatError
from hermes.profiles.api import load
from hermes.profiles.read.peek_sqlite import looked_into, stored_columns
from hermes.store.cache import Cache

SOURCE = Path(__file__).resolve().parents[3] / "src" / "hermes"
_ENDLESS = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT {} FROM t"


def _summary(folder: Path) -> Path:
    path = folder / "cluster_analysis_output" / "cluster_analysis.db"
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as con:
        con.execute(f"CREATE VIEW ClusterStepTraceTime AS {_ENDLESS.format('count(*) AS step')}")
    return path


def _report(folder: Path) -> Path:
    path = folder / "report.sqlite"
    with closing(sqlite3.connect(path)) as con, con:
        con.execute("CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT)")
        con.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(a INT)")
        con.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?)", [(one,) for one in range(1_000)])
        con.execute(
            "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN globalPid AS (a + length(hex(zeroblob(400000000))))"
        )
    return path


@pytest.mark.parametrize("make", [_summary, _report])
def test_what_is_computed_is_not_read(make: Callable[[Path], Path], tmp_path: Path) -> None:
    made = make(tmp_path)
    began = time.process_time()
    with pytest.raises((InputError, TraceFormatError)):
        load([made], Cache(tmp_path / "cache"))
    assert time.process_time() - began < 10


def test_a_look_takes_no_more_than_its_file_can_need(tmp_path: Path) -> None:
    path = _summary(tmp_path)
    with looked_into(path) as con:
        assert stored_columns(con, "ClusterStepTraceTime") == []
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            con.execute("SELECT * FROM ClusterStepTraceTime").fetchall()


def test_no_other_module_opens_a_database_of_sqlite() -> None:
    opening = {path.name for path in SOURCE.rglob("*.py") if re.search(r"sqlite3?\.connect\(", path.read_text("utf-8"))}
    assert opening == {"peek_sqlite.py", "sqlite_database.py"}
