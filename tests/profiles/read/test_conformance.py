"""Laws that every reader obeys, on the same modelled job written in every format, and on input that is broken."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.each import sampled

from hermes.base.errors import HermesError
from hermes.base.say import say
from hermes.model.tables import TABLES, schema_of
from hermes.profiles.load import Loaded, RankData, load
from hermes.profiles.measure.steps.breakdown import ascend_splits, rank_total
from hermes.profiles.read.discover import READERS, discover
from hermes.store.cache import Cache
from hermes.store.input_files import walk
from hermes_testing import Job, generate

FORMATS = ("ascend-text", "ascend-db", "kineto")
JOB = Job(ranks=4, steps=3, pp=2, dp=2, level="Level2", layers=4)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    generate(folder, JOB, formats=FORMATS)
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    return Cache(tmp_path_factory.mktemp("cache"))


@pytest.fixture(params=FORMATS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def loaded(made: Path, cache: Cache, form: str) -> Loaded:
    return load([made / form], cache)


def truth(made: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((made / "truth.json").read_text())
    return content


def ranks(loaded: Loaded) -> list[RankData]:
    return sorted(loaded.ranks, key=lambda one: one.rank)


def test_every_rank_is_found_by_what_the_files_say(loaded: Loaded) -> None:
    assert [one.rank for one in ranks(loaded)] == [0, 1, 2, 3]


def test_a_whole_input_has_no_degraded_note(loaded: Loaded) -> None:
    assert [note for note in loaded.notes if note.level == "degraded"] == []


def test_every_table_is_there_with_the_columns_and_types_of_the_schema(loaded: Loaded) -> None:
    for one in ranks(loaded):
        for name, table in TABLES.items():
            assert dict(one.table(name).schema) == schema_of(table), (one.rank, name)


def test_no_column_is_null_that_the_schema_says_never_is(loaded: Loaded) -> None:
    for one in ranks(loaded):
        for name, table in TABLES.items():
            nulls = one.table(name).null_count()
            assert not [column.name for column in table.columns if not column.null and nulls[column.name][0]], name


def test_every_row_bears_the_rank_of_its_capture(loaded: Loaded) -> None:
    for one in ranks(loaded):
        for name in TABLES:
            assert set(one.table(name)["rank"]) <= {one.rank}, name


def test_row_numbers_run_from_zero_without_gaps(loaded: Loaded) -> None:
    for one in ranks(loaded):
        for name, number in (("host_op", "op_id"), ("kernel", "kernel_id"), ("comm_op", "comm_id")):
            numbers = one.table(name)[number].sort().to_list()
            assert numbers == list(range(len(numbers))), name


def test_references_between_tables_lead_somewhere(loaded: Loaded) -> None:
    for one in ranks(loaded):
        for table, column, target in (
            ("pmu", "kernel_id", "kernel"),
            ("comm_task", "comm_id", "comm_op"),
            ("host_op", "stack_id", "stack"),
        ):
            assert set(one.table(table)[column].drop_nulls()) <= set(one.table(target)[column]), table
        for table in ("comm_op", "comm_task"):
            assert set(one.table(table)["group"].drop_nulls()) <= set(one.table("group")["group"]), table
        steps = set(one.table("step")["step"])
        for table in ("kernel", "comm_op", "host_op"):
            assert set(one.table(table)["step"].drop_nulls()) <= steps, table


def test_durations_and_self_times_are_not_negative(loaded: Loaded) -> None:
    for one in ranks(loaded):
        for name in ("step", "host_op", "kernel", "comm_op", "comm_task", "gc"):
            assert (one.table(name)["dur_ns"] >= 0).all(), name
        assert (one.table("host_op")["self_ns"] >= 0).all()


def test_components_kinds_and_directions_are_of_the_known_words(loaded: Loaded) -> None:
    for one in ranks(loaded):
        kernel = one.table("kernel")
        assert set(kernel["component"]) <= {"compute", "comm", "copy", "wait", "other"}
        units = {"cube", "vector", "mix", "ai_cpu", "dsa", "sm", "copy", "comm", "wait", "event", "other", None}
        assert set(kernel["unit"]) <= units
        assert set(kernel["direction"]) <= {"h2d", "d2h", "d2d", "h2h", "p2p", "set", None}
        kinds = {
            "step",
            "op",
            "python",
            "enqueue",
            "dequeue",
            "mark",
            "acl",
            "node",
            "model",
            "hccl",
            "runtime",
            "driver",
        }
        assert set(one.table("host_op")["kind"]) <= kinds


def test_the_steps_split_as_the_simulator_says(loaded: Loaded, made: Path) -> None:
    expected = {(row["rank"], row["step"]): row for row in truth(made)["steps"]}
    for one in ranks(loaded):
        for split in ascend_splits(one.table("step"), one.table("kernel"), one.table("comm_op")):
            row = expected[(split.rank, split.step or 0)]
            assert split.compute_ns == row["compute_ns"]
            assert split.comm_ns == row["comm_ns"]
            assert split.exposed_comm_ns == row["exposed_ns"]
            assert split.overlapped_ns == row["overlapped_ns"]
            assert split.free_ns == row["free_ns"]


def test_all_formats_give_the_same_device_work(made: Path, cache: Cache) -> None:
    totals = [
        [rank_total(one.table("kernel"), one.table("comm_op")) for one in ranks(load([made / form], cache))]
        for form in FORMATS
    ]
    assert totals[0] == totals[1]
    # Kineto keeps only what CUDA has: not the empty marks of Ascend's streams, so tasks may differ, times may not.
    for ascend, kineto in zip(totals[0], totals[2], strict=True):
        assert ascend is not None
        assert kineto is not None
        assert (ascend.compute_ns, ascend.comm_ns, ascend.exposed_comm_ns) == (
            kineto.compute_ns,
            kineto.comm_ns,
            kineto.exposed_comm_ns,
        )


def _relative(one: RankData, table: str, columns: list[str]) -> pl.DataFrame:
    """Rows with times counted from the first step, since formats count from different moments."""
    origin = one.table("step")["start_ns"].min()
    rows = one.table(table).with_columns(pl.col("start_ns") - pl.lit(origin))
    return rows.select(columns).sort(columns)


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("step", ["start_ns", "dur_ns", "step"]),
        ("comm_op", ["start_ns", "dur_ns", "op", "step", "bytes"]),
    ],
)
def test_all_formats_give_the_same_rows(made: Path, cache: Cache, table: str, columns: list[str]) -> None:
    per_format = [[_relative(one, table, columns) for one in ranks(load([made / form], cache))] for form in FORMATS]
    for others in per_format[1:]:
        for expected, actual in zip(per_format[0], others, strict=True):
            assert expected.equals(actual)


def test_all_formats_give_the_same_compute_kernels(made: Path, cache: Cache) -> None:
    columns = ["start_ns", "dur_ns", "step", "component"]
    per_format = [
        [
            _relative(one, "kernel", columns).filter(pl.col("component") == "compute")
            for one in ranks(load([made / form], cache))
        ]
        for form in FORMATS
    ]
    for others in per_format[1:]:
        for expected, actual in zip(per_format[0], others, strict=True):
            assert expected.equals(actual)


def test_both_ascend_exports_give_the_same_host_calls_and_tasks(made: Path, cache: Cache) -> None:
    text, database = (ranks(load([made / form], cache)) for form in FORMATS[:2])
    drop = {
        # The database has no names for these in its first schema, or keeps the host's own word.
        "kernel": ["task_type", "op_state", "bytes", "direction", "launch_ns"],
        "host_op": [],
        "comm_op": [],
        "comm_task": [],
        "comm_link": [],
        "comm_reported": [],
        "step_reported": [],
        "group": [],
    }
    for one, other in zip(text, database, strict=True):
        for name, columns in drop.items():
            left, right = (_plain(side.table(name), columns) for side in (one, other))
            assert left.equals(right), name


def _plain(rows: pl.DataFrame, without: list[str]) -> pl.DataFrame:
    rows = rows.drop(without)
    keys = [column for column in rows.columns if not column.endswith("_id") or column == "task_id"]
    return rows.select(keys).sort(keys)


def test_a_folder_with_both_exports_is_read_as_one_run(made: Path, cache: Cache, tmp_path: Path) -> None:
    both = tmp_path / "both"
    for form in FORMATS[:2]:
        for folder in (made / form).iterdir():
            shutil.copytree(folder, both / folder.name, dirs_exist_ok=True)
    loaded = load([both], cache)
    assert [one.rank for one in ranks(loaded)] == [0, 1, 2, 3]
    assert any("merged" in say(note.message) for note in loaded.notes)
    for one, text in zip(ranks(loaded), ranks(load([made / "ascend-text"], cache)), strict=True):
        assert one.table("rank")["format"][0] == "ascend-text+db"
        assert rank_total(one.table("kernel"), one.table("comm_op")) == rank_total(
            text.table("kernel"), text.table("comm_op")
        )
        assert one.table("counter").height == text.table("counter").height


def test_ranks_do_not_follow_the_order_of_folders(made: Path, cache: Cache, tmp_path: Path, form: str) -> None:
    moved = tmp_path / "moved"
    moved.mkdir()
    for number, source in enumerate(sorted((made / form).iterdir(), reverse=True)):
        target = moved / f"{number}_{source.name}"
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    whole, other = (ranks(load([folder], cache)) for folder in (made / form, moved))
    for one, two in zip(whole, other, strict=True):
        assert one.rank == two.rank
        assert one.table("kernel").equals(two.table("kernel"))


def test_reading_leaves_the_profile_as_it_was(made: Path, tmp_path: Path, form: str) -> None:
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in walk([made / form])}
    load([made / form], Cache(tmp_path))
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in walk([made / form])} == before


JUNK: dict[str, bytes] = {
    "empty": b"",
    "text": b"hello",
    "zeros": bytes(4096),
    "brace": b"{",
    "bracket": b"[",
    "number": b"42",
    "list of numbers": b"[1, 2, 3]",
    "object without events": b'{"schemaVersion": 1}',
    "no events": b'{"schemaVersion": 1, "traceEvents": []}',
    "half an event": b'[{"ph": "X", "name": "a", "ts": 1',
    "events that are no list": b'{"schemaVersion": 1, "traceEvents": 7}',
    "deep": b'[{"ph":"X","name":"a","ts":1,"args":' + b"[" * 100_000 + b"]" * 100_000 + b"}]",
    "gzip of nothing": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00",
    "half a gzip": b"\x1f\x8b\x08\x00\x00\x00",
    "not utf-8": b'[{"ph":"X","name":"\xff\xfe","ts":"1.0","dur":1,"pid":1,"tid":1}]',
    "sqlite magic alone": b"SQLite format 3\x00" + bytes(100),
}
NAMES = (
    "trace_view.json", "kernel_details.csv", "ascend_pytorch_profiler_0.db", "msprof_20250101.db", "a.pt.trace.json",
    "400_results.db", "b.json.gz", "profiler_info_0.json", "communication.json", "step_trace_time.csv",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("junk", sampled(JUNK, "empty", "half an event", "sqlite magic alone"))
def test_junk_ends_in_a_message_that_names_the_file_or_in_a_degraded_note(name: str, junk: str, tmp_path: Path) -> None:
    folder = (
        tmp_path / "in" / "ASCEND_PROFILER_OUTPUT" if "pt.trace" not in name and "gz" not in name else tmp_path / "in"
    )
    folder.mkdir(parents=True)
    (folder / name).write_bytes(JUNK[junk])
    said = _said(tmp_path)
    assert said
    assert any(str(tmp_path) in place or name in message for message, place in said)


def _said(tmp_path: Path) -> list[tuple[str, str]]:
    """Message and place of the error, or of each degraded note."""
    try:
        loaded = load([tmp_path / "in"], Cache(tmp_path / "cache"))
    except HermesError as error:
        return [(error.what, error.where)] if error.hint or error.lost else []
    return [(say(note.message), note.where) for note in loaded.notes if note.level == "degraded"]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_claiming_never_raises_on_junk(reader: Any, tmp_path: Path) -> None:
    for name in NAMES:
        for number, content in enumerate(JUNK.values()):
            folder = tmp_path / str(number)
            folder.mkdir(exist_ok=True)
            (folder / name).write_bytes(content)
    reader.claim(walk([tmp_path]))


def test_each_file_belongs_to_one_capture_only(made: Path, form: str) -> None:
    found, _ = discover(walk([made / form]), capture="")
    files = [path for one in found for path in one.source.files]
    assert len(files) == len(set(files))


def test_profiles_of_several_jobs_are_refused(made: Path) -> None:
    with pytest.raises(HermesError, match="profiles of several jobs") as refused:
        discover(walk([made / "ascend-text", made / "kineto"]))
    assert str(made) in refused.value.where
    assert refused.value.hint
