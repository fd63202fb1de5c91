"""SQL over the tables of an input, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.base.errors import QueryError
from hermes.base.say import say
from hermes.model.tables import TABLES
from hermes.profiles.load import Loaded
from hermes.profiles.sql_query import database, query, table_sizes


def test_a_view_holds_the_rows_of_all_ranks(loaded: Loaded) -> None:
    rows = query(loaded, "select rank, count(*) as n from kernel group by 1 order by 1")
    assert rows["n"].to_list() == [rank.table("kernel").height for rank in loaded.ranks]


def test_every_table_can_be_asked_with_its_columns(loaded: Loaded) -> None:
    with database(loaded) as con:
        for name, table in TABLES.items():
            assert con.sql(f'select * from "{name}" limit 0').columns == list(table.names)


def test_times_come_back_to_the_nanosecond(loaded: Loaded) -> None:
    kernel = loaded.ranks[0].table("kernel")
    rows = query(loaded, "select max(start_ns) as t from kernel where rank = 0")
    assert rows["t"][0] == kernel["start_ns"].max()


def test_sizes_count_the_rows_of_all_ranks(loaded: Loaded) -> None:
    counted = {name: rows for name, rows, _ in table_sizes(loaded)}
    assert set(counted) == set(TABLES)
    assert counted["rank"] == 2


def test_a_wrong_query_says_what_is_wrong(loaded: Loaded) -> None:
    with pytest.raises(QueryError, match="nme") as refused:
        query(loaded, "select nme from kernel")
    assert "hermes schema" in say(refused.value.hint)


def test_a_pivot_and_a_table_in_memory_are_allowed(loaded: Loaded) -> None:
    assert query(loaded, "create temp table t as select 1 as x; select x + 1 as y from t")["y"].to_list() == [2]
    assert query(loaded, "pivot (select component, dur_ns from kernel) on component using sum(dur_ns)").height == 1


def test_an_empty_query_gives_no_rows(loaded: Loaded) -> None:
    assert query(loaded, "").height == 0


@pytest.mark.parametrize(
    "reader", ["read_text('{}')", "read_csv('{}')", "read_blob('{}')", "glob('{}')", "'{}'", "read_json('{}')"]
)
def test_no_other_file_can_be_read(reader: str, loaded: Loaded, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    with pytest.raises(QueryError):
        query(loaded, f"select * from {reader.format(secret)}")


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../../../../../../../../etc/passwd", "/proc/self/environ", "file:///etc/passwd"]
)
def test_files_of_the_system_cannot_be_read(path: str, loaded: Loaded) -> None:
    with pytest.raises(QueryError):
        query(loaded, f"select * from read_text('{path}')")


def test_the_way_up_from_an_allowed_folder_is_closed(loaded: Loaded) -> None:
    folder = str(loaded.ranks[0].folder).replace("'", "''")
    with pytest.raises(QueryError):
        query(loaded, f"select * from read_text('{folder}/../{'../' * 20}etc/passwd')")


@pytest.mark.parametrize("inside", [False, True], ids=["elsewhere", "in the cache"])
@pytest.mark.parametrize(
    "statement",
    [
        "copy (select 1) to '{}/x.csv'", "explain analyze copy (select 1) to '{}/x.csv'", "attach '{}/x.db'",
        "prepare p as copy (select 1) to '{}/x.csv'; execute p", "export database '{}/x'",
    ],
)  # fmt: skip
def test_nothing_can_be_written(statement: str, inside: bool, loaded: Loaded, tmp_path: Path) -> None:
    target = loaded.ranks[0].folder if inside else tmp_path / "target"
    target.mkdir(exist_ok=True)
    before = sorted(target.iterdir())
    with pytest.raises(QueryError):
        query(loaded, statement.format(str(target).replace("'", "''")))
    assert sorted(target.iterdir()) == before


@pytest.mark.parametrize(
    "setting", ["set enable_external_access = true", "reset allowed_directories", "install httpfs", "load json"]
)
def test_the_lock_cannot_be_opened(setting: str, loaded: Loaded) -> None:
    with pytest.raises(QueryError):
        query(loaded, f"{setting}; select 1")


def test_a_folder_with_quotes_in_its_name_can_be_asked(loaded: Loaded) -> None:
    assert "'" in str(loaded.ranks[0].folder)
    assert query(loaded, "select count(*) as n from rank")["n"].to_list() == [2]
