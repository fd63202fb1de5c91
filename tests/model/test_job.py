"""Which step stands for a rank, which for the job, and rows by kind and rank."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hermes.model.job import Job, JobMeasures, Rows
from hermes.model.step_measures import StepSplit
from hermes.model.typical_step import JobSteps, typical_step
from hermes.profiles.measure.steps.breakdown import step_splits
from hermes_testing import draw


def splits(drawing: str) -> tuple[StepSplit, ...]:
    tables = draw(drawing, scale_ns=1)
    return tuple(step_splits(tables["step"], tables["kernel"], tables["comm_op"]))


def test_the_typical_step_is_the_one_in_the_middle_by_its_window() -> None:
    found = typical_step(splits("rank0.step  [###][###][###]\nrank0.compute  A..A.BB...C...C"))
    assert found is not None
    assert (found.step, found.window_ns) == (0, 4)


def test_a_step_that_the_device_measured_stands_before_one_that_it_did_not() -> None:
    bare = splits("rank0.step  [###][###]")
    measured = splits("rank0.step  [#]\nrank0.compute  #.#")
    assert typical_step((*bare, *measured)) == measured[0]
    assert typical_step(bare) == bare[0]
    assert typical_step(()) is None


def test_the_slowest_rank_has_the_longest_typical_step() -> None:
    slow = splits("rank0.step  [###][###]\nrank0.compute  #..#.#..#.")
    fast = tuple(replace(one, rank=1, window_ns=one.window_ns - 1) for one in slow)
    assert JobSteps((*fast, *slow)).slowest == slow[0]


def test_of_equally_slow_ranks_the_lowest_is_named() -> None:
    rows = splits("rank0.step  [###]\nrank0.compute  #..#.")
    other = tuple(replace(one, rank=1) for one in rows)
    assert JobSteps((*other, *rows)).slowest == rows[0]


@dataclass(frozen=True)
class Count:
    rank: int
    value: int


@dataclass(frozen=True)
class Place:
    name: str


def test_rows_are_found_by_kind_and_by_rank() -> None:
    rows = [Count(0, 1), Count(1, 2), Count(0, 3)]
    measures = JobMeasures(Job(steps=JobSteps(())), rows)
    assert measures.rows(Count) == Rows(rows)
    assert measures.rows(Count).of(0) == (rows[0], rows[2])
    assert measures.rows(Count).of(7) == ()
    assert measures.rows(Place) == ()
    assert measures.rows(Place).only is None


def test_other_rows_take_the_place_of_those_of_their_kinds() -> None:
    measures = JobMeasures(Job(steps=JobSteps(())), [Count(0, 1), Count(1, 2), Place("a")])
    other = measures.with_rows([Count(2, 3)])
    assert (other.rows(Count), other.rows(Place)) == ((Count(2, 3),), (Place("a"),))
    assert other.job is measures.job
    assert len(measures.rows(Count)) == 2
