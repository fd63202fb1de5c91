"""A kernel that computes and communicates is a collective: its waiting shrinks when the late rank is early."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from tests.shared_jobs import Jobs

from hermes.profiles.measure.path.build_event_graph import joined
from hermes.profiles.measure.path.event_graph import EventGraph, starts
from hermes.profiles.measure.path.fused_meetings import fused_meetings
from hermes.profiles.measure.path.graph import build
from hermes.profiles.measure.path.rank_nodes import RankDone, RankPart
from hermes.profiles.pipeline.analyze import outlined
from hermes.profiles.pipeline.load_replay_step import step_of
from hermes.profiles.whatif.changes import parse
from hermes.profiles.whatif.replay import predict
from hermes.profiles.whatif.step_event_graph import JobStep
from hermes_testing import Fault, Job

TP = {"tp": {0: (0, 1), 1: (0, 1)}}
# Two ranks; in hundreds of microseconds. M multiplies alone, A adds up over both ranks in the same kernel.
EARLY = [("MatMulV2", 0, 2), ("MatmulAllReduce", 2, 8), ("MatMulV2", 8, 9)]
LATE = [("MatMulV2", 0, 5), ("MatmulAllReduce", 5, 8), ("MatMulV2", 8, 9)]
_UNIT = 100_000


def kernels(rows: list[tuple[str, int, int]], step: int | None = 1) -> pl.DataFrame:
    made = [
        {"kernel_id": at, "name": kind, "type": kind, "component": "compute", "stream": 2, "start_ns": start * _UNIT,
         "dur_ns": (end - start) * _UNIT, "step": step}
        for at, (kind, start, end) in enumerate(rows)
    ]  # fmt: skip
    numbers = dict.fromkeys(("kernel_id", "stream", "start_ns", "dur_ns", "correlation", "launch_ns", "step"), pl.Int64)
    texts = dict.fromkeys(("name", "type", "component"), pl.String)
    return pl.DataFrame(made, schema={**numbers, **texts})


def graph_of(*ranks: pl.DataFrame) -> EventGraph:
    number, text = pl.Int64, pl.String
    comm = {"comm_id": number, "group": text, "library": text, "stream": number, "correlation": number,
            "launch_ns": number, "step": number, "start_ns": number, "dur_ns": number}  # fmt: skip
    host = {"kind": text, "name": text, "pid": number, "tid": number, "start_ns": number, "dur_ns": number,
            "self_ns": number, "correlation": number}  # fmt: skip
    flow = {"kind": text, "src_ns": number, "dst_ns": number, "src_pid": number, "src_tid": number,
            "dst_pid": number, "dst_tid": number, "correlation": number, "src_kernel": number,
            "dst_kernel": number}  # fmt: skip
    met = fused_meetings(dict(enumerate(ranks)), TP, {})
    parts = [
        RankPart(
            rank=rank,
            graph=build("ascend", rows, *(pl.DataFrame(schema=columns) for columns in (comm, host, flow))),
            arrivals={},
            start_ns=0,
            end_ns=9 * _UNIT,
            done=(RankDone(step=1, end_ns=0),),
            fused=frozenset(one[rank] for one in met if rank in one),
        )
        for rank, rows in enumerate(ranks)
    ]
    return joined(parts, fused=met)


def ends(graph: EventGraph, dur: np.ndarray) -> list[int]:
    finish = starts(graph, dur=dur) + dur
    return [int(finish[node]) // _UNIT for _, node in sorted(graph.sinks.items())]


def test_a_kernel_in_which_ranks_meet_comes_out_as_measured() -> None:
    graph = graph_of(kernels(EARLY), kernels(LATE))
    assert starts(graph).tolist() == graph.start.tolist()
    assert ends(graph, graph.dur) == [9, 9]


# The late rank's product takes 5, 3, 2, 1: then the other one's 2 is what both wait for.
@pytest.mark.parametrize(("product", "end"), [(5, 9), (3, 7), (2, 6), (1, 6), (7, 11)])
def test_it_ends_for_all_as_long_after_the_last_as_it_did(product: int, end: int) -> None:
    graph = graph_of(kernels(EARLY), kernels(LATE))
    dur = graph.dur.copy()
    dur[(graph.rank == 1) & (graph.task == 0)] = product * _UNIT
    assert ends(graph, dur) == [end, end]


def test_a_faster_rank_that_nobody_waited_for_changes_nothing() -> None:
    graph = graph_of(kernels(EARLY), kernels(LATE))
    dur = graph.dur.copy()
    dur[(graph.rank == 0) & (graph.task == 0)] = 0
    assert ends(graph, dur) == [9, 9]


def test_calls_that_do_not_meet_are_no_meeting() -> None:
    # Unequally many, in another step, of another group, or one is over before the other begins.
    apart = [("MatMulV2", 0, 9), ("MatmulAllReduce", 10, 12)]
    assert fused_meetings({0: kernels(EARLY), 1: kernels(LATE)}, TP, {}) == [{0: 1, 1: 1}]
    assert fused_meetings({0: kernels(EARLY), 1: kernels([*LATE, *LATE])}, TP, {}) == []
    assert fused_meetings({0: kernels(EARLY), 1: kernels(LATE, step=2)}, TP, {}) == []
    assert fused_meetings({0: kernels(EARLY), 1: kernels(LATE)}, {"tp": {0: (0, 2), 1: (1, 3)}}, {}) == []
    assert fused_meetings({0: kernels(EARLY), 1: kernels(apart)}, TP, {}) == []
    # On the common clock they do.
    assert fused_meetings({0: kernels(EARLY), 1: kernels(apart)}, TP, {1: -5 * _UNIT}) == [{0: 1, 1: 1}]


def test_parts_of_a_fused_kernel_on_other_units_are_no_calls_of_it() -> None:
    # Its transfers are recorded by its name, too: on one rank alone, so that nothing would meet if they counted.
    sent = kernels([*EARLY, ("MatmulAllReduce", 6, 7)])
    comm = pl.when(pl.col("kernel_id") == 3).then(pl.lit("comm")).otherwise("component")
    sent = sent.with_columns(comm.alias("component"))
    assert fused_meetings({0: sent, 1: kernels(LATE)}, TP, {}) == [{0: 1, 1: 1}]


def test_the_cure_of_a_rank_awaited_in_fused_kernels_gives_what_the_job_without_it_takes(jobs: Jobs) -> None:
    def step(job: Job) -> JobStep:
        loaded = jobs.loaded(job, "ascend-db")
        return step_of(loaded, outlined(loaded))

    job = Job(ranks=4, tp=2, steps=2, layers=4)
    slow, healthy = step(replace(job, faults=(Fault(kind="fused_comm_straggler"),))), step(replace(job, fused=True))
    won = (slow.end_ns - slow.begin_ns) - (healthy.end_ns - healthy.begin_ns)
    assert predict(slow, [parse("rank:0=median")]).low_ns == pytest.approx(won, rel=0.05)
