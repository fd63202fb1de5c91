"""The boxes of a modelled pipeline are its schedule, in every format, and on clocks that are apart."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from tests.each import sampled
from tests.shared_jobs import FOUR, Jobs

from hermes.model.structure_measures import PipelineBox, StagePasses
from hermes.profiles.pipeline.analyze import outlined
from hermes.profiles.pipeline.stage_boxes import stage_boxes
from hermes_testing import Fault, Format, Job
from hermes_testing.program import one_f_one_b

DEEP = Job(ranks=4, steps=2, layers=4, pp=4, micro_batches=6)
FORMATS = ("ascend-text", "ascend-db", "kineto")
LETTER = {"forward": "F", "backward": "B"}


def of_stage(boxes: tuple[PipelineBox, ...], stage: int) -> list[PipelineBox]:
    return [box for box in boxes if box.stage == stage]


@pytest.mark.parametrize("form", sampled(FORMATS, "ascend-text"))
def test_the_passes_of_each_stage_are_those_of_its_schedule(form: Format, jobs: Jobs) -> None:
    report = jobs.report(DEEP, form)
    for stage in range(4):
        own = [box for box in of_stage(report.rows(PipelineBox), stage) if box.kind in LETTER]
        order = [(LETTER[box.kind], box.micro_batch) for box in own]
        assert order == list(one_f_one_b(stage, 4, 6))
        assert all(later.at_ns >= box.at_ns + box.dur_ns for box, later in pairwise(own))


@pytest.mark.parametrize("form", sampled(FORMATS, "ascend-text"))
def test_a_micro_batch_goes_down_the_stages_and_its_gradient_comes_back(form: Format, jobs: Jobs) -> None:
    boxes = jobs.report(DEEP, form).rows(PipelineBox)
    begin = {(box.kind, box.micro_batch, box.stage): box.at_ns for box in boxes if box.kind in LETTER}
    for number in range(6):
        assert sorted(range(4), key=lambda stage: begin["forward", number, stage]) == [0, 1, 2, 3]
        assert sorted(range(4), key=lambda stage: begin["backward", number, stage]) == [3, 2, 1, 0]


def test_the_wait_of_a_stage_is_that_of_its_transfers(jobs: Jobs) -> None:
    report = jobs.report(DEEP, "ascend-text")
    for row in report.rows(StagePasses):
        moves = [box for box in of_stage(report.rows(PipelineBox), row.stage) if box.kernels is None]
        assert row.waited_ns == sum(box.wait_ns or 0 for box in moves) > 0
        assert (row.forwards, row.backwards) == (6, 6)
    # While the pipeline fills, a stage waits the longer the deeper it lies.
    receives = [
        next(box for box in of_stage(report.rows(PipelineBox), stage) if box.kind == "receive") for stage in range(4)
    ]
    waits = [box.wait_ns or 0 for box in receives[1:]]
    assert waits == sorted(waits)
    assert waits[0] > 500_000


def test_clocks_that_are_apart_change_no_order(jobs: Jobs) -> None:
    plain, apart = replace(DEEP, hosts=2), replace(DEEP, hosts=2, faults=(Fault(kind="skewed_clocks"),))
    here, there = (jobs.report(job, "ascend-text").rows(PipelineBox) for job in (plain, apart))
    assert [(box.stage, box.kind, box.micro_batch) for box in there] == [
        (box.stage, box.kind, box.micro_batch) for box in here
    ]
    assert max(abs(one.at_ns - other.at_ns) for one, other in zip(here, there, strict=True)) < 100_000


def test_the_slow_stage_shows_in_its_passes(jobs: Jobs) -> None:
    slow = replace(DEEP, faults=(Fault(kind="pipeline_imbalance"),))
    times = [row.forward_ns or 0 for row in jobs.report(slow, "ascend-text").rows(StagePasses)]
    assert max(times) > 1.5 * sorted(times)[1]


def test_any_step_can_be_asked_for(jobs: Jobs) -> None:
    loaded = jobs.loaded(DEEP, "ascend-text")
    job = outlined(loaded)
    passes, boxes = stage_boxes(loaded, job, 11)
    assert {row.step for row in passes} == {box.step for box in boxes} == {11}
    assert stage_boxes(loaded, job, 99) == ((), ())


def test_a_job_without_stages_has_no_boxes(jobs: Jobs) -> None:
    report = jobs.report(FOUR, "ascend-db")
    assert (report.rows(StagePasses), report.rows(PipelineBox)) == ((), ())
