"""Idle stretches: the longest runs of one leaf in which a device had nothing to do."""

from __future__ import annotations

from dataclasses import replace

from tests.shared_jobs import TWO, Jobs

from hermes.model.leaf_time import IdleStretch, LeafTime
from hermes.profiles.measure.leaves.leaves_of_rank import LONGEST, idle_stretches
from hermes.profiles.measure.registry import RankTables
from hermes_testing import Fault

LATE = replace(TWO, faults=(Fault(kind="data_wait", ranks=(0,)),))


def test_all_idle_stretches_add_up_to_the_idle_leaves_of_their_rank(jobs: Jobs) -> None:
    report = jobs.report(LATE, "ascend-db")
    for data in jobs.loaded(LATE, "ascend-db").ranks:
        found: dict[str, int] = {}
        for row in idle_stretches(RankTables(data), 1_000_000):
            found[row.leaf] = found.get(row.leaf, 0) + row.ns
        told: dict[str, int] = {}
        for row in report.rows(LeafTime).of(data.rank):
            if row.leaf.part == "idle":
                told[row.leaf] = told.get(row.leaf, 0) + row.total_ns
        assert found == told


def test_the_longest_stretch_is_the_wait_for_a_batch_in_the_step_that_it_lies_in(jobs: Jobs) -> None:
    report = jobs.report(LATE, "ascend-db")
    own = report.rows(IdleStretch).of(0)
    first = own[0]
    assert (first.leaf, first.ns) == ("input_workers", max(row.ns for row in own))
    assert len(own) <= LONGEST
    steps = {split.step: split for split in report.steps if split.rank == 0}
    split = steps[first.step]
    assert split.start_ns <= first.start_ns < split.start_ns + split.window_ns
    assert [row.ns for row in own] == sorted((row.ns for row in own), reverse=True)
