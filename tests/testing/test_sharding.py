"""Modelled jobs whose parameters lie in parts: what is gathered and scattered when, and how it is written."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.shared_jobs import Jobs

from hermes.base.errors import InputError
from hermes_testing import Job, simulate
from hermes_testing.generate import Format
from hermes_testing.model import embedding_bytes, gradient_bytes
from hermes_testing.truth import step_ns

JOB = Job(ranks=2, steps=2, layers=3, sharded=2, links=20)
AHEAD = replace(JOB, prefetch=(1, 1))


def sent(job: Job) -> list[tuple[str, int, int]]:
    """Operation, size in layers and begin of each gather and scatter of the first step of a rank, by begin."""
    profile = simulate(job).profiles[0]
    layer = gradient_bytes(1)
    return [
        (comm.op, comm.bytes // layer if comm.bytes != embedding_bytes(1) else 0, comm.start_ns)
        for comm in profile.comms
        if comm.op != "all_reduce" and comm.launch.step == job.first_step
    ]


def test_each_unit_is_gathered_twice_and_scattered_once_and_the_root_once() -> None:
    assert [(op, layers) for op, layers, _ in sent(JOB)] == [
        ("all_gather", 0), ("all_gather", 2), ("all_gather", 1),
        ("all_gather", 1), ("reduce_scatter", 1), ("all_gather", 2), ("reduce_scatter", 2), ("reduce_scatter", 0),
    ]  # fmt: skip


def test_prefetch_launches_the_next_unit_before_this_one_is_computed() -> None:
    late, early = sent(JOB), sent(AHEAD)
    assert [(op, layers) for op, layers, _ in early] == [
        ("all_gather", 0), ("all_gather", 2), ("all_gather", 1),
        ("all_gather", 1), ("all_gather", 2), ("reduce_scatter", 1), ("reduce_scatter", 2), ("reduce_scatter", 0),
    ]  # fmt: skip
    assert early[1][2] < late[1][2]
    assert step_ns(simulate(AHEAD).profiles) < step_ns(simulate(JOB).profiles)


@pytest.mark.parametrize("form", ["ascend-db", "ascend-text", "kineto"])
def test_a_capture_holds_the_sizes(form: Format, jobs: Jobs) -> None:
    rows = [row for row in jobs.loaded(JOB, form).ranks[0].table("comm_op").iter_rows(named=True) if row["step"] == 10]
    found = {op: [row["bytes"] for row in rows if row["op"] == op] for op in ("all_gather", "reduce_scatter")}
    # HCCL counts one rank's part, NCCL the whole.
    part = 1 if form == "kineto" else JOB.ranks
    root, layer = embedding_bytes(1) // part, gradient_bytes(1) // part
    assert found["all_gather"] == [root, 2 * layer, layer, layer, 2 * layer]
    assert found["reduce_scatter"] == [layer, 2 * layer, root]


@pytest.mark.parametrize("job", [{"ranks": 1}, {"pp": 2, "layers": 4}, {"bucket_kb": 1}])
def test_what_cannot_be_sharded_is_refused(job: dict[str, int]) -> None:
    with pytest.raises(InputError, match="sharded layers need"):
        replace(JOB, **job)
