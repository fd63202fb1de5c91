"""Databases of rocprofv3: the same job says the same as its Kineto trace."""

from __future__ import annotations

import contextlib
import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from hermes.base.errors import HermesError, InputError
from hermes.base.say import say
from hermes.model.report import Report
from hermes.model.step_measures import OperatorTop
from hermes.profiles.api import analyze, load
from hermes.profiles.read.discover import discover
from hermes.profiles.read.rocpd import RocpdReader
from hermes.store.cache import Cache
from hermes_testing import Fault, Job, generate
from hermes_testing.rocpd import write_rocpd

JOB = Job(ranks=2, steps=3, layers=2)


def _report(path: Path, cache: Path) -> Report:
    return analyze(load([path], Cache(cache)))


def _written(folder: Path, job: Job, **without: bool) -> tuple[Path, Path]:
    """The job's Kineto traces, and its databases."""
    kineto = generate(folder / "kineto", job, formats=["kineto"])
    (folder / "rocpd").mkdir()
    write_rocpd(folder / "rocpd", sorted(kineto.rglob("*.pt.trace.json")), **without)
    return kineto, folder / "rocpd"


def _table(con: sqlite3.Connection, what: str) -> str:
    """The stored table of that kind, quoted."""
    ((name,),) = con.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND substr(name, 1, ?) = ?",
        [len(f"rocpd_{what}_0"), f"rocpd_{what}_0"],
    ).fetchall()
    return f"`{name}`"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, Report]:
    """The job from its Kineto traces and from databases of rocprofv3."""
    folder = tmp_path_factory.mktemp("rocpd")
    kineto, rocpd = _written(folder, JOB)
    return _report(kineto, folder / "cache"), _report(rocpd, folder / "cache")


def test_steps_divide_as_in_the_trace_to_the_nanosecond(both: tuple[Report, Report]) -> None:
    def parts(report: Report) -> list[tuple[object, ...]]:
        return [
            (step.rank, step.step, step.window_ns, step.compute_ns, step.exposed_comm_ns, step.free_ns)
            for step in report.steps
        ]

    kineto, rocpd = map(parts, both)
    assert len(rocpd) == 6
    assert rocpd == kineto


def test_kernels_have_their_operator_shapes_and_launch(both: tuple[Report, Report]) -> None:
    kineto, rocpd = (
        {(row.name, row.count, row.total_ns) for row in one.rows(OperatorTop) if row.total_ns} for one in both
    )
    assert len(rocpd) > 3
    assert rocpd <= kineto


def test_rank_world_device_chip_and_host_are_what_the_database_says(tmp_path: Path) -> None:
    _, rocpd = _written(tmp_path, JOB)
    loaded = load([rocpd], Cache(tmp_path / "cache"))
    assert not [note for note in loaded.notes if note.level == "degraded"]
    for number, one in enumerate(loaded.ranks):
        assert one.table("rank", "rank", "format", "vendor", "chip", "device_id", "host", "world_size").rows() == [
            (number, "rocpd", "amd", "AMD Instinct MI300X", 0, "host-a", 2)
        ]
        # The system's numbers, and not those of the rows.
        assert one.table("host_op")["pid"].unique().to_list() == [9_400 + number]


def test_without_the_launchers_environment_the_rank_is_assumed_and_it_is_said(tmp_path: Path) -> None:
    _, rocpd = _written(tmp_path, JOB, environment=False)
    loaded = load([rocpd], Cache(tmp_path / "cache"))
    assert [one.rank for one in loaded.ranks] == [0, 1]
    assert any("no file names the rank of this capture" in say(note.message) for note in loaded.notes)


def test_a_fault_is_named_as_from_the_trace(tmp_path: Path) -> None:
    _, rocpd = _written(tmp_path, Job(ranks=1, steps=3, layers=2, faults=(Fault(kind="synchronisation_calls"),)))
    assert _report(rocpd, tmp_path / "cache").findings[0].code == "CPU003"


def test_without_calls_kernels_keep_their_times_and_the_loss_is_said(tmp_path: Path) -> None:
    kineto, rocpd = _written(tmp_path, Job(ranks=1, steps=3, layers=1), calls=False, operators=False)
    loaded, whole = (load([path], Cache(tmp_path / "cache")) for path in (rocpd, kineto))
    (note,) = [note for note in loaded.notes if note.level == "degraded"]
    assert (say(note.message), say(note.lost)) == ("no host call is in the trace", "causes on the host")
    assert "rocprofv3 --sys-trace" in say(note.hint)
    assert any("no operator of the framework" in say(note.message) for note in loaded.notes)
    sums = [one.ranks[0].table("kernel", "dur_ns")["dur_ns"].sum() for one in (loaded, whole)]
    assert sums[0] == sums[1]
    assert loaded.ranks[0].table("kernel")["launch_ns"].null_count() == loaded.ranks[0].table("kernel").height


def test_copies_have_direction_and_bytes(tmp_path: Path) -> None:
    kineto, rocpd = _written(tmp_path, Job(ranks=1, steps=2, layers=1))
    rows = [
        load([path], Cache(tmp_path / "cache")).ranks[0]
        .table("kernel", "direction", "bytes", "start_ns", "dur_ns", "stream", "correlation")
        .filter(pl.col("direction").is_in(["h2d", "d2h", "d2d"]))
        .with_columns(pl.col("start_ns") - pl.col("start_ns").min())
        for path in (rocpd, kineto)
    ]  # fmt: skip
    assert rows[0].height
    assert rows[0].rows() == rows[1].rows()


@pytest.fixture
def one(tmp_path: Path) -> Path:
    """A database of one process."""
    _, rocpd = _written(tmp_path, Job(ranks=1, steps=2, layers=1))
    (path,) = rocpd.iterdir()
    return path


def _changed(path: Path, *queries: str) -> None:
    """Run queries in which `{region}` is the table of regions, and so on."""
    names = ("region", "event", "kernel_dispatch", "memory_copy", "string", "sample", "track", "info_agent",
             "info_process", "info_kernel_symbol")  # fmt: skip
    with closing(sqlite3.connect(path)) as con, con:
        tables = {name: _table(con, name) for name in names}
        for query in queries:
            con.execute(query.format_map(tables))


def test_a_kernel_of_a_call_of_hsa_belongs_to_the_call_of_hip_around_it(one: Path, tmp_path: Path) -> None:
    def launches(cache: str) -> pl.DataFrame:
        rank = load([one], Cache(tmp_path / cache)).ranks[0]
        return rank.table("kernel", "start_ns", "launch_ns", "correlation")

    before = launches("before")
    event = "(SELECT event_id FROM {kernel_dispatch} WHERE id = 1)"
    stack = f"(SELECT stack_id FROM {{event}} WHERE id = {event})"
    _changed(
        one,
        "INSERT INTO {string} VALUES (9001, 'HSA_CORE_API'), (9002, 'hsa_signal_store_screlease')",
        "INSERT INTO {region} SELECT 90000, nid, pid, tid, start + 1, end - 1, 9002, 90000 FROM {region} "
        f"WHERE event_id IN (SELECT id FROM {{event}} WHERE stack_id = {stack})",
        f"INSERT INTO {{event}} SELECT 90000, 9001, 90000, stack_id, 0, '{{{{}}}}' FROM {{event}} WHERE id = {event}",
        f"UPDATE {{event}} SET stack_id = 90000, parent_stack_id = 90000 WHERE id = {event}",
    )
    assert launches("after").equals(before)
    rank = load([one], Cache(tmp_path / "after")).ranks[0]
    assert ("driver", "hsa_signal_store_screlease") in rank.table("host_op", "kind", "name").rows()


def test_marks_of_an_instant_other_libraries_peers_and_queues(one: Path, tmp_path: Path) -> None:
    _changed(
        one,
        "INSERT INTO {string} VALUES (9001, 'MARKER_CORE_API'), (9002, 'roctxMarkA'), (9003, 'RCCL_API'), "
        "(9004, 'ncclAllReduce'), (9005, 'MEMORY_COPY_DEVICE_TO_DEVICE')",
        'INSERT INTO {event} VALUES (90001, 9001, 0, 0, 0, \'{{"message": "here"}}\'), '
        "(90002, 9003, 0, 0, 0, '{{}}'), (90003, 9005, 0, 0, 0, '{{}}')",
        "INSERT INTO {track} SELECT 1, nid, pid, tid, 9002 FROM {region} LIMIT 1",
        "INSERT INTO {sample} SELECT 1, 1, start + 5, 90001 FROM {region} ORDER BY start LIMIT 1",
        "INSERT INTO {region} SELECT 90000, nid, pid, tid, start + 6, start + 9, 9004, 90002 FROM {region} "
        "ORDER BY start LIMIT 1",
        "INSERT INTO {info_agent} SELECT 3, nid, pid, type, 3, 3, 1, name, '', '', product_name, '' "
        "FROM {info_agent} WHERE id = 2",
        "INSERT INTO {memory_copy} SELECT 90000, nid, pid, tid, start, end, 9005, 3, 2, 77, 0, 90003 "
        "FROM {kernel_dispatch} LIMIT 1",
        "UPDATE {kernel_dispatch} SET stream_id = 0",
        "UPDATE {kernel_dispatch} SET queue_id = 17 WHERE id = 1",
    )
    rank = load([one], Cache(tmp_path / "cache")).ranks[0]
    assert {("mark", "here", None, 0), ("mark", "ncclAllReduce", "RCCL", 3)} <= set(
        rank.table("host_op", "kind", "name", "domain", "dur_ns").rows()
    )
    kernel = rank.table("kernel", "name", "direction", "bytes", "device_id", "stream")
    assert ("Memcpy PtoP", "p2p", 77, 0, 0) in kernel.rows()
    assert set(kernel.filter(pl.col("direction").is_null())["stream"]) == {16, 17}


def test_groups_of_a_kernel_are_its_items_by_the_size_of_a_group(one: Path, tmp_path: Path) -> None:
    _changed(
        one,
        "UPDATE {kernel_dispatch} SET grid_size_x = 130, grid_size_y = 2, grid_size_z = 1 WHERE id = 1",
        "UPDATE {kernel_dispatch} SET workgroup_size_x = 0 WHERE id = 2",
        "UPDATE {kernel_dispatch} SET grid_size_x = 1 << 62, grid_size_y = 1 << 62 WHERE id = 3",
    )
    blocks = load([one], Cache(tmp_path / "cache")).ranks[0].table("kernel", "start_ns", "blocks").sort("start_ns")
    assert 6 in blocks["blocks"]
    with closing(sqlite3.connect(one)) as con:
        starts = [
            row[0] for row in con.execute(f"SELECT start FROM {_table(con, 'kernel_dispatch')} WHERE id IN (2, 3)")
        ]
    assert blocks.filter(pl.col("start_ns").is_in(starts))["blocks"].null_count() == 2


def test_impossible_times_are_counted_and_the_rest_is_read(one: Path, tmp_path: Path) -> None:
    _changed(
        one,
        "UPDATE {kernel_dispatch} SET end = start - 1 WHERE id = 1",
        "UPDATE {kernel_dispatch} SET start = -9223372036854775807, end = 9223372036854775807 WHERE id = 2",
        "UPDATE {kernel_dispatch} SET end = start + 100000000000000 WHERE id = 3",
    )
    loaded = load([one], Cache(tmp_path / "cache"))
    (note,) = [note for note in loaded.notes if note.level == "degraded"]
    assert say(note.message).startswith("3 events")
    assert "rocpd_kernel_dispatch" in note.where


def test_numbers_that_several_rows_claim_do_not_multiply_rows(one: Path, tmp_path: Path) -> None:
    before = load([one], Cache(tmp_path / "cache")).ranks[0].table("kernel").height
    with closing(sqlite3.connect(one)) as con, con:
        for what in ("string", "event", "info_kernel_symbol", "info_agent"):
            name = _table(con, what)
            con.execute(f"CREATE TABLE copy AS SELECT * FROM {name} UNION ALL SELECT * FROM {name}")
            con.execute(f"DROP VIEW rocpd_{what}")
            con.execute(f"DROP TABLE {name}")
            con.execute(f"ALTER TABLE copy RENAME TO {name}")
    assert load([one], Cache(tmp_path / "other")).ranks[0].table("kernel").height == before


@pytest.mark.parametrize(
    "environment",
    ["[", "[" * 100_000, "[]", "7", '{"RANK": "9", "WORLD_SIZE": "2"}', '{"RANK": ["0"], "WORLD_SIZE": {}}', ""],
)
def test_an_environment_that_says_no_rank_says_none(one: Path, environment: str) -> None:
    with closing(sqlite3.connect(one)) as con, con:
        con.execute(f"UPDATE {_table(con, 'info_process')} SET environment = ?", [environment])
    (source,) = RocpdReader().claim([one])
    assert (source.rank, source.world) == (None, None)


def test_views_that_bear_the_plain_names_are_never_looked_at(one: Path, tmp_path: Path) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS pid, i AS start FROM n"
    with closing(sqlite3.connect(one)) as con, con:
        for name in ("rocpd_kernel_dispatch", "rocpd_memory_copy", "rocpd_string", "rocpd_event", "rocpd_region"):
            con.execute(f"DROP VIEW {name}")
            con.execute(f"CREATE VIEW {name} AS {endless}")
    assert load([one], Cache(tmp_path / "cache")).ranks[0].table("kernel").height


def test_a_database_with_views_alone_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    with closing(sqlite3.connect(path)) as con, con:
        con.execute("CREATE VIEW rocpd_kernel_dispatch AS SELECT 1 AS pid, 2 AS start, 3 AS end")
    with pytest.raises(InputError, match="rocprofv3") as refused:
        discover([path])
    assert "rocprofv3 --sys-trace" in say(refused.value.hint)


def test_a_damaged_database_is_read_or_refused_with_a_message(one: Path, tmp_path: Path) -> None:
    content = one.read_bytes()
    for number, place in enumerate(range(100, len(content), len(content) // 12)):
        broken = tmp_path / f"broken{number}" / one.name
        broken.parent.mkdir()
        broken.write_bytes(content[:place] + b"\xff" * 512 + content[place + 512 :])
        # Anything but an answer or an error of Hermes fails.
        with contextlib.suppress(HermesError):
            _report(broken, tmp_path / "cache")


def test_beside_captures_of_the_framework_it_is_not_read(tmp_path: Path) -> None:
    kineto, rocpd = _written(tmp_path, Job(ranks=1, steps=2, layers=1))
    loaded = load([kineto, rocpd], Cache(tmp_path / "cache"))
    assert [rank.format for rank in loaded.ranks] == ["kineto"]
    assert any("rocprofv3" in say(note.message) for note in loaded.notes)


def test_parts_of_a_merged_database_are_ranks(tmp_path: Path) -> None:
    _, rocpd = _written(tmp_path, JOB)
    apart = load([rocpd], Cache(tmp_path / "apart")).ranks
    first, second = sorted(rocpd.iterdir())
    with closing(sqlite3.connect(second)) as con:
        tables = con.execute(
            "SELECT name, sql FROM sqlite_master WHERE name LIKE 'rocpd%' AND type = 'table'"
        ).fetchall()
        with closing(sqlite3.connect(first)) as merged, merged:
            for name, sql in tables:
                merged.execute(sql)
                for row in con.execute(f"SELECT * FROM `{name}`"):
                    merged.execute(f"INSERT INTO `{name}` VALUES ({', '.join('?' * len(row))})", row)
    loaded = load([first], Cache(tmp_path / "cache"))
    assert [one.rank for one in loaded.ranks] == [0, 1]
    assert [one.table("kernel").height for one in loaded.ranks] == [one.table("kernel").height for one in apart]
