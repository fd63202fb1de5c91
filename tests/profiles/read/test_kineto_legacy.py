"""Traces of PyTorch's profiler before Kineto: lists of operators without categories, on `CPU functions`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import hermes
from hermes.model.leaf import Leaf
from hermes.profiles.load import load
from hermes.profiles.measure.leaves.leaves_of_rank import leaves
from hermes.profiles.measure.registry import RankTables
from hermes.store.cache import Cache
from hermes.store.rank_data import RankData

Event = dict[str, Any]


def _op(name: str, ts: float, dur: float, *kernels: tuple[str, float, float], first: int = 0) -> list[Event]:
    """An operator of the host, and what it ran on the device."""
    host = {"tid": 1, "pid": "CPU functions", "args": {}}
    device = {"tid": 0, "pid": "CUDA functions", "args": {}}
    found: list[Event] = [{"name": name, "ph": "X", "ts": ts, "dur": dur, **host}]
    for number, (kernel, start, length) in enumerate(kernels, start=first):
        arrow = {"id": number, "cat": "cpu_to_cuda"}
        found += [
            {"name": name, "ph": "s", "ts": ts, **arrow, **host},
            {"name": kernel, "ph": "f", "ts": start, **arrow, **device},
            {"name": kernel, "ph": "X", "ts": start, "dur": length, **device},
        ]
    return found


LINEAR = [
    *_op("aten::linear", 100, 60, ("aten::linear", 130, 45)),
    *_op("aten::addmm", 110, 40, ("aten::addmm", 135, 40), first=1),
    *_op("aten::relu", 400, 30, ("aten::relu", 425, 10), first=2),
    *_op("aten::randperm", 170, 200),
]


def _rank(folder: Path, events: list[Event], name: str = "trace.json") -> RankData:
    (folder / name).write_text(json.dumps(events), "utf-8")
    return load([folder], Cache(folder / "cache")).ranks[0]


def test_operators_and_what_the_device_did_are_read(tmp_path: Path) -> None:
    rank = _rank(tmp_path, LINEAR)
    assert rank.table("host_op")["name"].sort().to_list() == [
        "aten::addmm", "aten::linear", "aten::randperm", "aten::relu"
    ]  # fmt: skip
    # The time of a product is that of the operator inside: what holds another is no work of its own.
    kernel = rank.table("kernel", "name", "type", "start_ns", "dur_ns", "launch_ns").sort("start_ns")
    assert kernel.rows() == [
        ("aten::addmm", "aten::addmm", 135_000, 40_000, 110_000), ("aten::relu", "aten::relu", 425_000, 10_000, 400_000)
    ]  # fmt: skip


def test_an_operator_that_runs_on_the_device_does_not_compute_on_the_host(tmp_path: Path) -> None:
    rows = leaves(RankTables(_rank(tmp_path, LINEAR))).rows
    told = {
        leaf: sum(row.total_ns for row in rows if row.leaf is leaf)
        for leaf in (Leaf.MATRIX_PRODUCT, Leaf.HOST_OPERATOR)
    }
    assert told == {Leaf.MATRIX_PRODUCT: 40_000, Leaf.HOST_OPERATOR: 195_000}
    assert {row.what for row in rows if row.leaf is Leaf.HOST_OPERATOR} == {"aten::randperm"}


@pytest.mark.parametrize("name", ["aten::copy_", "copy_", "to"])
def test_a_copy_that_its_call_waits_for_is_a_copy_between_host_and_device(name: str, tmp_path: Path) -> None:
    events = [
        *LINEAR,
        *_op(name, 1_000, 900, (name, 1_050, 830), first=7),
        # A cast: the kernel takes little of its call, or runs after it.
        *_op(name, 2_000, 40, (name, 2_020, 5), first=8),
        *_op(name, 3_000, 40, (name, 3_030, 300), first=9),
    ]
    kernel = _rank(tmp_path, events).table("kernel", "name", "component", "start_ns").sort("start_ns")
    assert kernel.filter(pl.col("name") == name)["component"].to_list() == ["copy", "compute", "compute"]
    rows = hermes.analyze(str(tmp_path)).measures["LeafTime"]
    assert rows.filter(pl.col("leaf") == Leaf.EXPOSED_COPY)["total_ns"].sum() == 830_000


def test_a_trace_without_rows_of_the_device_is_one_of_the_host(tmp_path: Path) -> None:
    # PyTorch 1.8 and later draw arrows without an end.
    events = [event for event in LINEAR if event["pid"] == "CPU functions"]
    rank = _rank(tmp_path, events)
    assert rank.table("host_op").height == 4
    assert not rank.table("kernel").height


@pytest.mark.parametrize(
    "odd", [{"ph": "X", "pid": "CPU functions"}, {"ph": "s", "pid": "CPU functions", "id": "x"}, {}]
)
def test_odd_events_among_them_are_left_out(odd: Event, tmp_path: Path) -> None:
    assert _rank(tmp_path, [*LINEAR, odd]).table("kernel").height == 2


def test_two_ranks_show_their_straggler(tmp_path: Path) -> None:
    for rank, slow in enumerate((0, 900)):
        events: list[Event] = []
        for step in range(6):
            begin, last = 10_000.0 * step, 10_000.0 * step + 4_000
            late = 2_000 + slow
            events += _op("aten::mm", begin, 50, ("aten::mm", begin + 20, 1_000), first=3 * step)
            events += _op("aten::sort", begin + 60, late)
            events += _op(
                "nccl:all_reduce", begin + 80 + late, 40, ("nccl:all_reduce", begin + 100 + late, last - begin - late),
                first=3 * step + 1,
            )  # fmt: skip
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(events), "utf-8")
    rows = hermes.analyze(str(tmp_path)).measures["LeafTime"]
    waits = rows.filter(pl.col("leaf") == Leaf.WAIT)
    assert waits.select("rank", "awaited").unique().rows() == [(0, 1)]
    assert waits["total_ns"].sum() == pytest.approx(6 * 900_000, rel=0.1)
