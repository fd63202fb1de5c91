"""Real captures: the numbers that the profiler's own tool gives for them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from hermes.base.intervals import Intervals, union_of_intervals
from hermes.profiles.read.ascend.reader import AscendReader
from hermes.profiles.read.table_sink import Sink

# Compute, communication, exposed communication in ns.
SPLIT = {
    (0, 0): (8_843_910, 89_880_576, 85_881_122),
    (0, 1): (8_831_637, 93_993_858, 90_000_781),
    (2, 0): (8_900_456, 94_107_521, 90_080_699),
    (2, 1): (8_926_368, 100_357_525, 96_293_920),
}
EVERY = pytest.mark.parametrize(("level", "rank"), list(SPLIT))

Load = Callable[[int, int], Sink]


@pytest.fixture
def load(shared: Path, sink: Sink) -> Load:
    def loading(level: int, rank: int) -> Sink:
        files = [file for file in (shared / f"alexnet_db_level{level}").rglob("*") if file.is_file()]
        reader = AscendReader()
        (source,) = (source for source in reader.claim(files) if source.rank == rank)
        sink.rank = rank
        reader.read(source, rank, sink)
        return sink

    return loading


def union(rows: pl.DataFrame) -> Intervals:
    return union_of_intervals(rows["start_ns"].to_numpy(), (rows["start_ns"] + rows["dur_ns"]).to_numpy())


@EVERY
def test_the_split_of_the_device_time_is_exact(load: Load, level: int, rank: int) -> None:
    sink = load(level, rank)
    compute = union(sink.read("kernel").filter(pl.col("component") == "compute"))
    comm = union(sink.read("comm_op"))
    assert (compute.total, comm.total, (comm - compute).total) == SPLIT[level, rank]


@EVERY
def test_the_reported_split_equals_the_file_of_truth(load: Load, shared: Path, level: int, rank: int) -> None:
    truth = json.loads((shared.parent / "truth.json").read_text())["ascend"]
    (wanted,) = truth[f"ascend/alexnet_db_level{level}/rank{rank}_ascend_pt"]["steps"]
    (row,) = load(level, rank).read("step_reported").to_dicts()
    assert row["step"] == 50
    assert row["compute_ns"] == round(wanted["computing"] * 1000)
    assert row["exposed_comm_ns"] == round(wanted["communication_not_overlapped"] * 1000)
    assert row["preparing_ns"] == round(wanted["preparing"] * 1000)
    assert row["stage_ns"] == round(wanted["stage"] * 1000)


@pytest.mark.parametrize(("rank", "wait"), [(0, 89_666_013), (1, 95_931_157)])
def test_each_rank_waits_for_rank_4_most(load: Load, rank: int, wait: int) -> None:
    waits = load(2, rank).read("comm_task").filter(pl.col("task") == "notify_wait")
    worst = waits.group_by("peer_rank").agg(pl.col("dur_ns").sum()).sort("dur_ns").tail(1)
    assert worst.row(0) == (4, wait)


@EVERY
def test_every_kernel_of_the_step_is_owned_and_linked(load: Load, level: int, rank: int) -> None:
    kernels = load(level, rank).read("kernel").filter(~pl.col("task_type").str.starts_with("PROFILING"))
    assert kernels["step"].unique().to_list() == [50]
    assert kernels["launch_ns"].null_count() == 0
    # The two clocks of these captures differ by up to 25 us.
    late = (kernels["launch_ns"] - kernels["start_ns"]).max()
    assert isinstance(late, int)
    assert late < 30_000


def test_the_host_rows_have_every_layer(load: Load) -> None:
    kinds = dict(load(2, 0).read("host_op").group_by("kind").len().iter_rows())
    assert kinds == {
        "python": 1282,
        "op": 859,
        "step": 1,
        "enqueue": 159,
        "dequeue": 159,
        "acl": 512,
        "runtime": 426,
        "node": 191,
        "hccl": 4,
    }


def test_arrows_join_queue_autograd_and_launches(load: Load) -> None:
    flows = load(2, 0).read("flow")
    assert dict(flows.group_by("kind").len().iter_rows()) == {
        "queue": 159,
        "forward_backward": 27,
        "launch": 254,
    }
    assert (flows["src_ns"] <= flows["dst_ns"]).all()


def test_a_convolution_has_shapes_types_and_counters(load: Load) -> None:
    sink = load(2, 0)
    (conv,) = sink.read("kernel").filter(pl.col("name") == "Conv2D1").to_dicts()
    assert (conv["unit"], conv["type"], conv["component"]) == ("cube", "Conv2D", "compute")
    assert conv["input_shapes"] == "32,1,224,224,8;121,4,16,8;64"
    assert conv["input_dtypes"] == "FLOAT;FLOAT;FLOAT"
    counters = sink.read("pmu").filter(pl.col("kernel_id") == conv["kernel_id"])
    # Of 28 counters, 15 are zero for a kernel that ran on the cube unit alone.
    assert counters["name"].n_unique() == 13
    assert counters.filter(pl.col("name") == "aicore_time(us)")["value"].to_list() == pytest.approx(
        [310.660_76], abs=0.000_01
    )


def test_a_shell_over_a_mixed_kernel_is_not_counted_as_compute(load: Load) -> None:
    shells = load(2, 0).read("kernel").filter((pl.col("component") == "other") & (pl.col("unit") == "other"))
    assert shells.height == 13


def test_collectives_carry_payload_and_group(load: Load) -> None:
    ops = load(2, 0).read("comm_op")
    assert ops["op"].unique().to_list() == ["all_reduce"]
    assert ops["sequence"].to_list() == [0, 1, 2, 3]
    assert ops["bytes"].to_list() == [16_388_000, 67_125_248, 151_011_328, 9_878_784]
    assert ops["group"].unique().to_list() == ["11978775601474615865"]


def test_members_taken_for_global_ranks_are_told(load: Load) -> None:
    sink = load(2, 1)
    assert sink.read("group")["global_rank"].to_list() == list(range(8))
    assert [note.level for note in sink.notes] == ["info"]


def test_level0_says_nothing_of_group_members(load: Load) -> None:
    sink = load(0, 0)
    assert sink.read("group").is_empty()
    assert sink.notes == []
    assert sink.read("comm_task")["peer_rank"].null_count() == 296


def test_reported_communication_is_read_in_nanoseconds_and_bytes(load: Load) -> None:
    sink = load(2, 0)
    first = sink.read("comm_reported").row(0, named=True)
    assert (first["step"], first["elapse_ns"], first["kind"]) == (50, 80_450_247, "collective")
    traffic = sink.read("comm_traffic").filter(pl.col("name") == "hcom_allReduce__865_0_1")
    packets = traffic.filter((pl.col("transport") == "HCCS") & pl.col("packet_bytes").is_not_null())
    (total,) = traffic.filter((pl.col("transport") == "HCCS") & pl.col("packet_bytes").is_null()).to_dicts()
    assert total["bytes"] == packets["bytes"].sum() == 28_647_232
    assert sink.read("comm_link").height == 48


def test_the_rank_row_says_what_was_profiled(load: Load) -> None:
    row = load(2, 1).read("rank").row(0, named=True)
    assert (row["rank"], row["chip"], row["level"], row["device_id"]) == (1, "Ascend910B", "Level2", 1)
    assert (row["framework"], row["vendor"], row["epoch_ns"]) == ("pytorch", "ascend", 0)
