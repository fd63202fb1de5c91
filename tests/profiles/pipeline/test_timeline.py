"""The timeline of an input: all ranks on one clock, cut to what is asked for, with what the analysis found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from hermes.base.errors import InputError
from hermes.model.step_measures import ClockOffset
from hermes.model.timeline import Lane
from hermes.profiles.load import Loaded, load
from hermes.profiles.pipeline.analyze import analyze
from hermes.profiles.timeline import Timeline, TimelineCut, timeline
from hermes.store.cache import Cache
from hermes_testing import Fault, Job, generate

ALL = TimelineCut()


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    root = tmp_path_factory.mktemp("timeline")
    skewed = Job(ranks=2, hosts=2, steps=3, layers=2, faults=(Fault(kind="skewed_clocks"),))
    folder = generate(root / "job", skewed, formats=["ascend-db"])
    return load([folder], Cache(root / "cache"))


def lanes(found: Timeline, rank: int, folder: str) -> dict[str, Lane]:
    return {lane.name: lane for lane in found.lanes if (lane.rank, lane.folder) == (rank, folder)}


def test_all_rows_of_all_ranks_are_there(job: Loaded) -> None:
    found = timeline(job, ALL)
    for rank in job.ranks:
        drawn = sum(lane.rows.height for lane in lanes(found, rank.rank, "host").values())
        assert drawn == rank.table("host_op", "name").height + rank.table("gc", "start_ns").height
        ops = sum(lane.rows.height for lane in lanes(found, rank.rank, "communication").values())
        assert ops == rank.table("comm_op", "name").height


def test_ranks_stand_on_one_clock(job: Loaded) -> None:
    found = timeline(job, ALL)
    end = pl.col("start_ns") + pl.col("dur_ns")
    ends = [
        max(lane.rows.select(end.max()).item() for lane in lanes(found, rank, "communication").values())
        for rank in (0, 1)
    ]
    own = [rank.table("comm_op").select(end.max()).item() for rank in job.ranks]
    assert abs(own[0] - own[1]) > 1_000_000 > abs(ends[0] - ends[1])


def test_launches_and_collectives_are_arrows_with_two_ends(job: Loaded) -> None:
    found = timeline(job, ALL)
    left = [n for lane in found.lanes if "leaves" in lane.rows.columns for n in lane.rows["leaves"].drop_nulls()]
    arrived = [n for lane in found.lanes if "arrives" in lane.rows.columns for n in lane.rows["arrives"].drop_nulls()]
    assert len(left) == len(set(left))
    assert len(set(arrived) & set(left)) > 100
    between = {n for n in arrived if n >= 1 << 60}
    assert between
    assert between <= set(left)


def test_the_critical_path_is_a_track_that_covers_the_window(job: Loaded) -> None:
    found = timeline(job, ALL)
    path = next(lane for lane in found.lanes if lane.name == "critical path" and lane.rank == 0).rows
    windows = lanes(found, 0, "analysis")["window"].rows
    covered = (windows["start_ns"] == path["start_ns"].min()) & (windows["dur_ns"] == path["dur_ns"].sum())
    assert covered.any()


def test_steps_ranks_and_windows_cut(job: Loaded) -> None:
    whole = timeline(job, ALL)
    step = timeline(job, TimelineCut(ranks=frozenset({1}), steps=frozenset({11})))
    assert {lane.rank for lane in step.lanes} == {1}
    assert sum(lane.rows.height for lane in step.lanes) < sum(lane.rows.height for lane in whole.lanes) / 3
    cut = timeline(job, TimelineCut(window_ns=(0, 2_000_000)))
    edge = cut.first_ns + 2_000_000
    assert all(start < edge for lane in cut.lanes for start in lane.rows["start_ns"])


def test_what_is_not_there_is_said(job: Loaded) -> None:
    with pytest.raises(InputError, match="none of these ranks"):
        timeline(job, TimelineCut(ranks=frozenset({9})))
    with pytest.raises(InputError, match="none of these steps"):
        timeline(job, TimelineCut(steps=frozenset({99})))
    with pytest.raises(InputError, match="the part of the capture that was asked for is empty"):
        timeline(job, TimelineCut(window_ns=(10**15, 10**15 + 1)))


@pytest.mark.parametrize(
    "name", ["ascend/alexnet_text_level2", "ascend/alexnet_text_level0", "kineto/h100_qwen1.5-0.5b.json.gz",
             "kineto/event_sync_multi_stream.json.gz", "kineto/cpu_only_rank34.json.gz"],
)  # fmt: skip
def test_real_profiles_have_a_timeline(name: str, real: Callable[[str], Loaded], tmp_path: Path) -> None:
    found = timeline(real(name), ALL)
    assert found.lanes
    assert all({"start_ns", "dur_ns", "name"} <= set(lane.rows.columns) for lane in found.lanes)
    assert all(lane.rows["name"].null_count() == 0 for lane in found.lanes)


def test_findings_are_a_track_of_their_own_at_their_moments(tmp_path: Path) -> None:
    slow = Job(ranks=2, steps=3, layers=1, faults=(Fault(kind="gc_pause", ranks=(1,)),))
    folder = generate(tmp_path / "job", slow, formats=["ascend-text"])
    loaded = load([folder], Cache(tmp_path / "cache"))
    rows = lanes(timeline(loaded, ALL), 1, "analysis")["findings"].rows
    (collecting,) = rows.filter(pl.col("name").str.starts_with("CPU006 ")).iter_rows(named=True)
    rank = loaded.ranks[1]
    offset = {clock.rank: clock.offset_ns for clock in analyze(loaded).rows(ClockOffset)}.get(1, 0)
    longest = rank.table("gc").sort("dur_ns", "start_ns", descending=[True, False]).row(0, named=True)
    assert (collecting["start_ns"], collecting["dur_ns"]) == (longest["start_ns"] + offset, longest["dur_ns"])
