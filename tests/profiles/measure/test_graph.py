"""The edges of the dependency graph that a trace names itself."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from hermes.model.tables import TABLES, schema_of
from hermes.profiles.load import RankData, load
from hermes.profiles.measure.path.graph import Graph, build
from hermes.store.cache import Cache
from hermes_testing import draw


def of_file(path: Path, cache: Path) -> tuple[RankData, Graph]:
    rank = load([path], Cache(cache)).ranks[0]
    tables = (rank.table(name) for name in ("kernel", "comm_op", "host_op", "flow"))
    return rank, build("nvidia", *tables)


def named(rank: RankData, graph: Graph) -> list[tuple[tuple[str, int], tuple[str, int]]]:
    """The event edges as pairs of the first word of a kernel's name and its stream."""
    kernel = {row["kernel_id"]: row for row in rank.table("kernel").iter_rows(named=True)}
    tasks = [kernel[int(number)] for number in graph.tasks.kernel]
    word = [(task["name"].removeprefix("void ").split("<")[0].split("(")[0], task["stream"]) for task in tasks]
    return [(word[source], word[target]) for source, target in graph.events]


def test_the_edge_between_two_streams_of_a_tiny_trace_is_found(shared: Path, tmp_path: Path) -> None:
    rank, graph = of_file(shared / "kineto/event_sync_multi_stream.json.gz", tmp_path)
    assert named(rank, graph) == [(("ampere_sgemm_128x64_nn", 20), ("Memset ", 24))]


def test_the_edges_around_a_convolution_on_its_own_stream_are_found(shared: Path, tmp_path: Path) -> None:
    rank, graph = of_file(shared / "kineto/a100_alexnet_cuda_sync.json.gz", tmp_path)
    once = [
        (("at::native::", 7), ("fft2d_r2c_32x32", 20)),
        (("fft2d_r2c_32x32", 7), ("ampere_gcgemm_64x64_nt", 20)),
        (("fft2d_c2r_32x32", 20), ("at::native::elementwise_kernel", 7)),
    ]
    assert named(rank, graph) == once * 2


def arrow(record_ns: int, wait_ns: int) -> pl.DataFrame:
    row = {
        "rank": 0,
        "kind": "event",
        "flow_id": "1",
        "src_tid": 1,
        "src_ns": record_ns,
        "dst_tid": 2,
        "dst_ns": wait_ns,
    }
    return pl.DataFrame([row], schema=schema_of(TABLES["flow"]))


@pytest.mark.parametrize(("record", "source"), [(500, 0), (2_500, 1)])
def test_an_event_ties_the_last_task_before_its_record_to_the_first_behind_the_wait(record: int, source: int) -> None:
    tables = draw("""
        rank0.call       ABCD................
        rank0.compute@1  ..AAAABBBB..........
        rank0.compute@2  ..........DDDDDDDDDD
    """)
    graph = build("nvidia", tables["kernel"], tables["comm_op"], tables["host_op"], arrow(record, 2_800))
    assert graph.events == ((source, 2),)
