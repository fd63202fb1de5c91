"""Faults of fusion, cores and fused communication are each named first, and alone of their kind."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hermes.base.say import say
from hermes.model.fault import Fault as Wrong
from hermes.model.finding import Loss
from hermes.model.leaf import Leaf
from hermes.model.report import Report
from hermes.profiles.api import analyze, load
from hermes.store.cache import Cache
from hermes_testing import Fault, FaultKind, Job, generate

_ALONE = Job(ranks=1, steps=2, seed=0)
_FOUR = Job(ranks=4, tp=4, steps=2, seed=0)
SEQUENCES, WRONG_CORE, SLOW, INSIDE = "CMP002", "CMP001", "CMP011", "COM002"
PREVIEWS = {SEQUENCES, WRONG_CORE, INSIDE}
PLANTED: tuple[tuple[FaultKind, Job, str, str], ...] = (
    ("unfused_conv_bn_relu", _ALONE, SEQUENCES, "Convolution, batch norm and activation run as"),
    ("unfused_linear_bias_gelu", _ALONE, SEQUENCES, "Product, bias and activation run as"),
    ("vector_on_cube", _ALONE, WRONG_CORE, "of the step is vector work on cores of the matrix unit"),
    ("fused_comm_straggler", _FOUR, SLOW, "Rank 0 takes "),
)
_PREVIEW_OF: dict[FaultKind, str] = {"fused_comm_straggler": INSIDE}
"""The slow device is the cause; what the others wait in is told apart, below."""


def _report(job: Job, folder: Path) -> Report:
    made = generate(folder / "job", job, formats=["ascend-text"])
    return analyze(load([made], Cache(folder / "cache")))


def _previews(report: Report) -> list[Loss]:
    """What the finders of fused sequences, of cores and of fused kernels find, which are previews."""
    return [one for one in report.findings if one.code in PREVIEWS and one.state == "preview"]


@pytest.mark.parametrize(("kind", "job", "code", "title"), PLANTED, ids=[row[0] for row in PLANTED])
def test_a_planted_fault_is_named_first_and_alone(
    kind: FaultKind, job: Job, code: str, title: str, tmp_path: Path
) -> None:
    report = _report(replace(job, faults=(Fault(kind=kind),)), tmp_path)
    assert report.findings[0].code == code
    assert title in say(report.findings[0].message)
    assert [one.code for one in _previews(report)] == [_PREVIEW_OF.get(kind, code)]


@pytest.mark.parametrize("job", [_ALONE, replace(_FOUR, fused=True)], ids=["alone", "fused"])
def test_a_healthy_job_has_none_of_them(job: Job, tmp_path: Path) -> None:
    assert _previews(_report(job, tmp_path)) == []


def test_the_straggler_s_cost_is_what_the_truth_says(tmp_path: Path) -> None:
    report = _report(replace(_FOUR, faults=(Fault(kind="fused_comm_straggler"),)), tmp_path)
    truth = json.loads((tmp_path / "job" / "truth.json").read_text("utf-8"))["faults"][0]["cost_ns_per_step"]
    assert report.findings[0].cost_ns == pytest.approx(truth, rel=0.2)
    (inside,) = (one for one in report.findings if one.code == INSIDE)
    assert inside.cost_ns == pytest.approx(truth, rel=0.2)
    assert say(inside.message).startswith("3 of 4 ranks wait for rank 0 inside MatmulAllReduce")


def test_ranks_that_wait_inside_fused_kernels_are_not_called_slow(tmp_path: Path) -> None:
    # Two groups: those of the other have the same kernels, which wait for nobody.
    job = Job(ranks=4, tp=2, steps=2, seed=0, faults=(Fault(kind="fused_comm_straggler"),))
    blamed = [one.blames for one in _report(job, tmp_path).findings if one.code == "CMP011"]
    assert blamed == [("rank 0",)]


@pytest.mark.parametrize("tp", [2, 4, 8])
def test_the_slow_device_is_told_first_however_wide_the_groups_are(tp: int, tmp_path: Path) -> None:
    job = Job(ranks=8, tp=tp, steps=2, layers=2, seed=0, faults=(Fault(kind="fused_comm_straggler"),))
    report = _report(job, tmp_path)
    first = report.findings[0]
    assert (first.code, first.blames) == ("CMP011", ("rank 0",))
    assert (report.verdict.fault, report.verdict.leaf) == (Wrong.SLOW_DEVICE, Leaf.MATRIX_PRODUCT)
    # It costs the same in every layout: no waiting of others is in it.
    assert first.cost_ns == pytest.approx(8_700_000, rel=0.05)
    exposed = [one for one in report.findings if one.code == "COM001"]
    assert [one.explained_by for one in exposed] == [("CMP011",)] * len(exposed)
    # A rank of the slow one's group is late too, because it waits in their kernels: it computes no longer.
    said = [say(one.message) for one in report.plan.minor if one.code == "COM002"]
    assert [title for title in said if "computes longer" in title] == []
    assert bool(said) == (tp < 8)


def test_a_rank_that_is_slow_before_fused_kernels_is_told_first_where_other_groups_wait_for_it_too(
    tmp_path: Path,
) -> None:
    fault = Fault(kind="fused_comm_straggler")
    report = _report(Job(ranks=8, tp=4, steps=2, layers=4, seed=0, faults=(fault,)), tmp_path)
    first = report.findings[0]
    assert (first.code, first.blames) == ("CMP011", ("rank 0",))
    assert first.gain.low_ns > 0.7 * first.cost_ns
    # Hiding communication leaves the waiting as it is, and what the slow rank explains has little left to give.
    others = [one for one in report.findings if one.code in ("COM001", "COM002") and one.state == "stable"]
    assert others
    assert all(2 * one.gain.high_ns < first.gain.low_ns for one in others)
    assert all(one.explained_by for one in others if one.code == "COM002")
