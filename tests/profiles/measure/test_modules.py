"""Device time by module and range: forward by what encloses the launch, backward by the forward operator's number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
import pytest
from tests.shared_jobs import Jobs

from hermes.profiles.measure.structure.modules import ModuleTime, from_the_queue, launches, module_times

MAIN, AUTOGRAD, QUEUE = 1, 2, 3


def rows(schema: Mapping[str, Any], *given: tuple[object, ...]) -> pl.DataFrame:
    return pl.DataFrame(list(given), schema=schema, orient="row")


CALLS = {"kind": str, "name": str, "pid": int, "tid": int, "start_ns": int, "dur_ns": int}
NODES = {**CALLS, "sequence": int, "forward_tid": int}
ASKED = {"pid": int, "tid": int, "start_ns": int, "dur_ns": int}
NAMED = rows(
    CALLS,
    ("mark", "step body", 9, MAIN, 0, 1_000),
    ("python", "nn.Module: Net_0", 9, MAIN, 100, 500),
    ("python", "nn.Module: Linear_0", 9, MAIN, 150, 100),
    ("python", "nn.Module: Linear_1", 9, MAIN, 300, 100),
    ("python", "nn.Module: Linear_0", 9, MAIN, 420, 80),
)
NO_NODES = rows(NODES)


def times(asked: pl.DataFrame, nodes: pl.DataFrame = NO_NODES) -> dict[str, ModuleTime]:
    found = module_times(0, NAMED, asked, nodes, whole_ns=200)
    return {one.path: one for one in found}


def test_work_counts_for_all_that_enclose_its_launch_and_once_as_its_innermosts_own() -> None:
    found = times(rows(ASKED, (9, MAIN, 160, 40), (9, MAIN, 430, 60), (9, MAIN, 350, 10), (9, MAIN, 700, 5)))
    net = found["step body/Net_0"]
    linear = found["step body/Net_0/Linear_0"]
    assert (linear.calls, linear.host_ns, linear.device_ns, linear.own_device_ns) == (2, 180, 100, 100)
    assert (net.calls, net.device_ns, net.own_device_ns, net.kernels) == (1, 110, 0, 3)
    assert (found["step body"].kind, found["step body"].device_ns, found["step body"].own_device_ns) == (
        "range",
        115,
        5,
    )
    assert net.share == pytest.approx(0.55)
    assert net.backward_ns is None


def test_backward_work_counts_for_the_module_of_its_forward_operator() -> None:
    nodes = rows(
        NODES,
        ("op", "aten::linear", 9, MAIN, 155, 50, 7, None),
        ("op", "LinearBackward0", 9, AUTOGRAD, 2_000, 100, 7, MAIN),
        ("op", "SomeBackward0", 9, AUTOGRAD, 3_000, 100, 99, MAIN),
    )
    found = times(rows(ASKED, (9, MAIN, 160, 40), (9, AUTOGRAD, 2_010, 80), (9, AUTOGRAD, 3_010, 80)), nodes)
    linear = found["step body/Net_0/Linear_0"]
    assert (linear.device_ns, linear.backward_ns) == (120, 80)
    assert found["step body/Net_0"].backward_ns == 80


def test_a_launch_on_another_thread_belongs_to_nobody() -> None:
    assert times(rows(ASKED, (9, AUTOGRAD, 160, 40))) == {}


def test_work_is_joined_to_its_launch_by_arrow_else_by_number() -> None:
    work = rows(
        {"component": str, "start_ns": int, "dur_ns": int, "correlation": int, "stream": int},
        ("compute", 5_000, 10, 1, 4), ("compute", 6_000, 20, 2, 4), ("compute", 7_000, 30, None, 4),
    )  # fmt: skip
    arrows = rows(
        {"src_pid": int, "src_tid": int, "src_ns": int, "dst_tid": int, "dst_ns": int}, (9, MAIN, 160, 4, 5_000)
    )
    runtime = rows(
        {"pid": int, "tid": int, "start_ns": int, "correlation": int}, (9, QUEUE, 4_000, 1), (9, MAIN, 310, 2)
    )
    found = launches(work, runtime, arrows)
    assert sorted(found.rows()) == [(9, MAIN, 160, 10), (9, MAIN, 310, 20)]


def test_what_a_thread_took_from_a_queue_was_asked_for_where_it_was_put_there() -> None:
    taken = rows(CALLS, ("dequeue", "Dequeue@x", 9, QUEUE, 4_000, 100))
    put = rows(
        {"src_pid": int, "src_tid": int, "src_ns": int, "dst_tid": int, "dst_ns": int}, (9, MAIN, 160, QUEUE, 4_000)
    )
    asked = rows(ASKED, (9, QUEUE, 4_050, 10), (9, QUEUE, 9_000, 20))
    assert from_the_queue(asked, taken, put).rows() == [(9, MAIN, 160, 10), (9, QUEUE, 9_000, 20)]


def test_text_and_database_of_the_same_job_tell_the_same_modules(jobs: Jobs) -> None:
    text, database = (jobs.real_report(f"ascend/alexnet_{form}_level2") for form in ("text", "db"))
    of = [{row.path: row for row in report.rows(ModuleTime) if row.rank == 0} for report in (text, database)]
    assert of[0].keys() == of[1].keys()
    assert len(of[0]) > 20
    net = "DistributedDataParallel_0/AlexNet_0"
    assert of[0][net].kernels == of[1][net].kernels == 144
    assert of[0][net].device_ns == pytest.approx(of[1][net].device_ns, rel=0.02)
    assert 0.5 < of[0][net].backward_ns / of[0][net].device_ns < 0.7  # type: ignore[operator]
