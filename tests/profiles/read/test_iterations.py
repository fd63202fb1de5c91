"""Timelines of iterations that msprof exported before CANN 7.0: the same job says the same as its export of today."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hermes.base.errors import HermesError
from hermes.base.say import say
from hermes.profiles.api import analyze, load
from hermes.profiles.load import RankData
from hermes.profiles.measure.steps.breakdown import rank_total
from hermes.profiles.read.discover import claimed, discover
from hermes.store.cache import Cache
from hermes.store.input_files import walk
from hermes_testing import Job, generate
from hermes_testing.iterations import write_iterations

JOB = Job(ranks=2, steps=3, layers=2, dp=2, level="Level1", task_queue=False)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[RankData], list[RankData], Path]:
    """The ranks by the export of today and by old timelines, and the folder of these."""
    folder = tmp_path_factory.mktemp("iterations")
    today = generate(folder / "today", JOB, formats=["ascend-text"])
    old = write_iterations(folder / "old", JOB)
    cache = Cache(folder / "cache")
    return list(load([today], cache).ranks), list(load([old], cache).ranks), old


def _old(folder: Path, **given: bool) -> Path:
    return write_iterations(folder / "old", JOB, **given)


def _timeline(folder: Path, number: int) -> Path:
    return sorted(folder.rglob(f"msprof_*_{number}.json"))[0]


def _changed(path: Path, change: Any) -> None:
    events = json.loads(path.read_text())
    path.write_text(json.dumps([one for one in map(change, events) if one is not None]))


def test_the_device_did_what_the_export_of_today_says(both: tuple[list[RankData], list[RankData], Path]) -> None:
    today, old, _ = both
    assert [one.rank for one in old] == [0, 1]
    for one, other in zip(today, old, strict=True):
        expected, found = (rank_total(rank.table("kernel"), rank.table("comm_op")) for rank in (one, other))
        assert expected is not None
        assert found is not None
        assert (found.compute_ns, found.comm_ns, found.exposed_comm_ns) == (
            expected.compute_ns, expected.comm_ns, expected.exposed_comm_ns,
        )  # fmt: skip
        assert other.table("kernel").height == one.table("kernel").height
        for table, columns in (
            ("comm_op", ["dur_ns", "op"]),
            ("comm_task", ["dur_ns", "task", "plane", "src_rank", "bytes", "transport"]),
            ("kernel", ["dur_ns", "stream", "component"]),
        ):
            rows = [rank.table(table, *columns).sort(columns).rows() for rank in (one, other)]
            if table == "kernel":
                # Which waits are of a collective only the export of today tells; see the next test.
                rows = [[row for row in side if row[2] in ("compute", "copy")] for side in rows]
            assert rows[0], table
            assert rows[0] == rows[1], table


def test_the_end_of_a_scope_is_the_operator(tmp_path: Path) -> None:
    folder = _old(tmp_path)
    names = ("Gradients/Default/conv5-Conv2d/gradBiasAdd-expand/BiasAddGrad-op155", "a/b", "MatMul-op3")

    def scoped(event: dict[str, Any]) -> dict[str, Any]:
        if event.get("name") != "aclnnAddmm_MatMulV2_MatMulV2":
            return event
        return event | {"name": names[int(float(event["ts"]) * 1000) % 3]}

    for path in folder.rglob("msprof_*.json"):
        _changed(path, scoped)
    kernel = load([folder], Cache(tmp_path / "cache")).ranks[0].table("kernel")
    types = dict(kernel.select("name", "type").filter(pl.col("name").is_in(names)).unique().rows())
    assert types == {names[0]: "BiasAddGrad", names[1]: None, names[2]: None}


def test_each_iteration_is_a_step_that_has_its_tasks(both: tuple[list[RankData], list[RankData], Path]) -> None:
    _, old, folder = both
    for one in old:
        assert one.table("step", "step", "name").rows() == [(n, f"Iteration {n}") for n in (1, 2, 3)]
        assert one.table("kernel")["step"].null_count() == 0
        events = json.loads(_timeline(folder / f"{one.root.parent.name}", 2).read_text())
        tasks = [event for event in events if event["ph"] == "X" and event["pid"] == 3 and "cat" not in event]
        assert one.table("kernel", "step").filter(pl.col("step") == 2).height == len(tasks)


def test_what_a_collective_moves_on_its_streams_is_its_own(both: tuple[list[RankData], list[RankData], Path]) -> None:
    _, old, _ = both
    for one in old:
        of_comm = one.table("comm_task")["stream"].unique().to_list()
        kernel = one.table("kernel", "stream", "component", "task_type").filter(pl.col("stream").is_in(of_comm))
        kernel = kernel.filter(~pl.col("task_type").str.starts_with("EVENT"))
        assert set(kernel["component"]) == {"comm"}
        assert set(kernel["task_type"]) <= {"SDMA", "Notify Wait", "Notify Record"}


def test_every_task_of_a_plane_has_its_operation_and_group(both: tuple[list[RankData], list[RankData], Path]) -> None:
    _, old, _ = both
    for one in old:
        assert one.table("comm_task").height
        assert one.table("comm_task").select("comm_id", "group").null_count().row(0) == (0, 0)
        assert one.table("comm_op")["group"].unique().to_list() == ["group 0"]


def test_calls_have_their_layer_and_one_that_all_timelines_have_counts_once(
    both: tuple[list[RankData], list[RankData], Path],
) -> None:
    _, old, _ = both
    for one in old:
        assert sorted(one.table("host_op", "kind", "name").rows()) == [
            *[("model", "GE@Infer")] * 3, *[("model", "ModelExecute")] * 3, ("runtime", "SetDevice"),
        ]  # fmt: skip


def test_device_host_and_the_moment_of_the_start_are_known(both: tuple[list[RankData], list[RankData], Path]) -> None:
    today, old, _ = both
    for one, other in zip(today, old, strict=True):
        (row,) = other.table("rank", "format", "vendor", "device_id", "host", "epoch_ns").rows()
        assert row[:4] == ("ascend-iterations", "ascend", other.rank, "host-a")
        first, expected = (rank.table("kernel")["start_ns"].min() for rank in (other, one))
        assert isinstance(first, int)
        assert first + row[4] == expected


def test_the_files_that_repeat_the_timelines_are_not_read_and_not_called_foreign(tmp_path: Path) -> None:
    old = _old(tmp_path)
    found, notes = discover(walk([old]))
    names = {path.name.split("_")[0] for one in found for path in one.source.files}
    assert names == {"msprof", "info.json.0", "info.json.1", "start"}
    assert [note for note in notes if "was not read" in say(note.message) or "were not read" in say(note.message)] == []
    loaded = load([old], Cache(tmp_path / "cache"))
    assert {row.state for row in loaded.files if row.name.startswith(("hccl", "task"))} == {"not needed"}
    assert analyze(loaded).steps


def test_an_older_summary_beside_them_is_called_by_its_name(tmp_path: Path) -> None:
    old = _old(tmp_path)
    summary = next(old.rglob("device_0")) / "summary"
    summary.mkdir()
    (summary / "op_summary_0_2_1.csv").write_text("Op Name\n")
    _, notes = discover(walk([old]))
    assert any("older msprof" in say(note.message) for note in notes)


def test_without_a_rank_in_the_files_the_devices_of_a_host_are_its_ranks(tmp_path: Path) -> None:
    old = _old(tmp_path, ranked=False)
    assert [(one.rank, one.assumed) for one in discover(walk([old]))[0]] == [(0, False), (1, False)]
    other = next(old.rglob("device_1"))
    twin = tmp_path / "old" / "PROF_000001_20230818142799999_ABCDEFGHIJKLMNOZ" / "device_1"
    shutil.copytree(other, twin)
    # Two hosts have the same device: nothing says which rank is which.
    assert {source.rank for source in claimed(walk([old]))} == {None}


def test_two_devices_in_one_folder_are_two_ranks(tmp_path: Path) -> None:
    old = _old(tmp_path)
    first, second = sorted(old.iterdir())
    shutil.move(second / "device_1", first / "device_1")
    assert [one.rank for one in discover(walk([old]))[0]] == [0, 1]


def test_iterations_of_two_models_are_steps_in_their_order(tmp_path: Path) -> None:
    old = _old(tmp_path)
    for path in sorted(old.rglob("msprof_0_2_*.json")):

        def later(event: dict[str, Any]) -> dict[str, Any]:
            return {**event, "ts": event["ts"] + 1_000_000} if "ts" in event else event

        other = path.with_name(path.name.replace("_2_", "_7_"))
        shutil.copy(path, other)
        _changed(other, later)
    (one, _) = load([old], Cache(tmp_path / "cache")).ranks
    assert one.table("step")["step"].to_list() == [1, 2, 3, 4, 5, 6]
    assert one.table("step")["start_ns"].is_sorted()
    assert one.table("kernel")["step"].n_unique() == 6


def test_without_an_event_for_the_iteration_it_lasts_from_first_task_to_last(tmp_path: Path) -> None:
    old = _old(tmp_path)
    before = load([old], Cache(tmp_path / "before")).ranks[0].table("step")
    _changed(_timeline(old, 2), lambda event: None if event.get("tid") == 10_036 else event)
    after = load([old], Cache(tmp_path / "after")).ranks[0].table("step")
    assert after["step"].to_list() == [1, 2, 3]
    # The generator leaves 3 us on either side.
    assert after["start_ns"][1] == before["start_ns"][1] + 3_000
    assert after["dur_ns"][1] == before["dur_ns"][1] - 6_000


def test_a_timeline_that_is_cut_off_or_no_trace_costs_that_iteration_alone(tmp_path: Path) -> None:
    old = _old(tmp_path)
    whole = load([old], Cache(tmp_path / "before")).ranks[0]
    _timeline(old, 3).write_bytes(b"hello")
    second = _timeline(old, 2)
    second.write_bytes(second.read_bytes()[: second.stat().st_size * 3 // 4])
    loaded = load([old], Cache(tmp_path / "after"))
    notes = [note for note in loaded.notes if note.level == "degraded"]
    assert {Path(note.where.split(",")[0]).name for note in notes} == {"msprof_0_2_2.json", "msprof_0_2_3.json"}
    assert all(note.lost for note in notes)
    kept = loaded.ranks[0].table("kernel")
    assert loaded.ranks[0].table("step")["step"].to_list() == [1, 2]
    first = whole.table("kernel").filter(pl.col("step") == 1)
    assert kept.filter(pl.col("step") == 1).drop("kernel_id").equals(first.drop("kernel_id"))


def test_where_no_timeline_can_be_read_the_rank_is_refused_by_name(tmp_path: Path) -> None:
    old = _old(tmp_path)
    for path in old.rglob("msprof_*.json"):
        path.write_bytes(b"hello")
    with pytest.raises(HermesError) as refused:
        load([old], Cache(tmp_path / "cache"))
    assert "msprof_" in refused.value.where
    assert refused.value.lost or refused.value.hint


@pytest.mark.parametrize("content", ["[]", "7", "{", '{"rank_id": "x", "hostname": 3}', "[" * 100_000])
def test_broken_small_files_leave_what_they_would_have_said_unknown(content: str, tmp_path: Path) -> None:
    old = _old(tmp_path)
    for path in [*old.rglob("info.json.?"), *old.rglob("start_info.?")]:
        path.write_text(content)
    ranks = load([old], Cache(tmp_path / "cache")).ranks
    assert [one.rank for one in ranks] == [0, 1]
    assert ranks[0].table("rank", "host", "epoch_ns").rows() == [(None, None)]
