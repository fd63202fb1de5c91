"""Batch norm that asks all ranks: found by what nothing hides, whatever the number of layers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hermes.base.say import say
from hermes.model.job import Job, JobMeasures
from hermes.model.step_measures import StepSplit
from hermes.model.typical_step import JobSteps
from hermes.profiles.measure.communication.synchronised_norms import NormSync
from hermes.profiles.rules.communication.com004_small_collectives.synchronised_norms import synchronised_norms

Split = Callable[..., StepSplit]


@pytest.fixture
def measured(split: Split) -> Callable[[int], JobMeasures]:
    """A rank whose step of 1000 ns has so much exposed communication of norms."""

    def make(exposed: int) -> JobMeasures:
        norm = NormSync(rank=0, step=0, layers=53, collectives=106, comm_ns=400, exposed_ns=exposed)
        return JobMeasures(Job(steps=JobSteps([split(0, exposed=400)])), [norm])

    return make


def test_collectives_of_norms_that_nothing_hides_are_found(measured: Callable[[int], JobMeasures]) -> None:
    (finding,) = synchronised_norms.find(measured(120))
    assert (finding.code, finding.state, finding.cost_ns) == ("COM004", "preview", 120)
    assert "53 layers of batch norm" in say(finding.message)
    assert (finding.gain.low_ns, finding.gain.high_ns) == (0, 120)


def test_norms_within_the_noise_of_steps_are_no_finding(measured: Callable[[int], JobMeasures]) -> None:
    assert not list(synchronised_norms.find(measured(10)))


def test_a_job_without_such_layers_is_silent(split: Split) -> None:
    assert not list(synchronised_norms.find(JobMeasures(Job(steps=JobSteps([split(0, exposed=400)])), [])))
