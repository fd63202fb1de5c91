"""From the files of a modelled job to its findings: the planted fault's rule fires, and none fires without a fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.each import sampled
from tests.shared_jobs import FOUR, Jobs

from hermes.base.say import say
from hermes.model.fault import Fault as Wrong
from hermes.model.finding import Loss
from hermes.model.report import Report
from hermes.model.step_measures import ClockOffset
from hermes.profiles.load import load
from hermes.profiles.pipeline.analyze import analyze
from hermes.store.cache import Cache
from hermes_testing import Fault, FaultKind, Format, Job, generate

FAMILIES = ("CMP", "COM", "PAR")
Reports = Callable[..., Report]


@pytest.fixture
def report(jobs: Jobs) -> Reports:
    """The report of a modelled job of a format, with a fault or without."""

    def make(form: Format, kind: FaultKind | None = None, **layout: int) -> Report:
        return jobs.report(replace(FOUR, faults=(Fault(kind=kind),) if kind else (), **layout), form)

    return make


def ours(report: Report) -> dict[str, Loss]:
    """The findings of these families by code; of a rule the dearest."""
    own = [one for one in report.findings if one.code.startswith(FAMILIES)]
    return {one.code: one for one in sorted(own, key=lambda one: one.cost_ns)}


def of_fault(report: Report, fault: Wrong) -> Loss:
    return next(one for one in report.findings if one.fault is fault)


TEXT: tuple[tuple[FaultKind, str, tuple[str, ...], dict[str, int]], ...] = (
    ("slow_rank_compute", "CMP011", ("rank 0",), {}),
    ("frequency_drop", "CMP011", ("rank 0",), {}),
    ("ai_cpu_operators", "CMP003", ("NonZero",), {}),
    ("slow_link", "COM008", ("HCCS link 0-1",), {}),
    ("unaligned_sizes", "COM005", (), {}),
    ("retransmission", "COM008", ("rank 0 ROCE",), {"hosts": 2}),
    ("exposed_all_reduce", "COM001", (), {}),
    ("uneven_batches", "PAR003", ("rank 0",), {}),
    ("pipeline_imbalance", "PAR001", ("stage 1",), {"pp": 2, "micro_batches": 4}),
)


@pytest.mark.parametrize(("kind", "code", "blames", "layout"), TEXT, ids=[row[0] for row in TEXT])
def test_the_rule_of_a_planted_fault_fires_and_blames_what_was_planted(
    kind: FaultKind, code: str, blames: tuple[str, ...], layout: dict[str, int], report: Reports
) -> None:
    finding = ours(report("ascend-text", kind, **layout))[code]
    assert finding.blames == blames
    assert finding.cost_ns > 0


@pytest.mark.parametrize("kind", sampled(["slow_rank_compute", "slow_link", "ai_cpu_operators"], "slow_link"))
def test_databases_lead_to_the_same_findings_as_texts(kind: FaultKind, report: Reports) -> None:
    text, database = (ours(report(form, kind)) for form in ("ascend-text", "ascend-db"))
    assert {code: (one.blames, one.cost_ns) for code, one in database.items()} == {
        code: (one.blames, one.cost_ns) for code, one in text.items()
    }


@pytest.mark.parametrize(
    ("kind", "code"),
    [("slow_rank_compute", "CMP011"), ("frequency_drop", "CMP011"), ("uneven_batches", "PAR003"),
     ("exposed_all_reduce", "COM001")],
)  # fmt: skip
def test_what_kineto_records_of_a_fault_is_enough_for_its_rule(kind: FaultKind, code: str, report: Reports) -> None:
    assert code in ours(report("kineto", kind))


@pytest.mark.parametrize("form", sampled(["ascend-db", "kineto"], "ascend-db"))
def test_small_packets_are_found_where_they_cost_more_than_the_noise(form: Format, report: Reports) -> None:
    # Of four ranks they do not.
    finding = ours(report(form, "small_packets", ranks=8, steps=2))["COM004"]
    assert finding.blames == ("all_reduce of default_group, dp",)
    assert finding.cost_ns > 0


@pytest.mark.parametrize(("kind", "cause"), [("slow_rank_compute", "computes longer"), ("slow_rank_host", "host")])
def test_a_slow_rank_that_was_collected_is_told_by_compute_or_host(
    kind: FaultKind, cause: str, report: Reports
) -> None:
    finding = ours(report("ascend-text", kind))["COM002"]
    assert finding.blames == ("rank 0",)
    assert cause in say(finding.message)
    assert not any("Collect" in say(action.do) for action in finding.actions)


def test_a_low_clock_is_part_of_the_slow_device_and_that_of_the_waiting(report: Reports) -> None:
    given = report("ascend-text", "frequency_drop")
    clock, device = (of_fault(given, fault) for fault in (Wrong.LOW_CLOCK, Wrong.SLOW_DEVICE))
    assert (clock.code, clock.blames, clock.apart) == ("CMP011", ("rank 0",), False)
    assert (device.code, device.apart) == ("CMP011", False)
    assert device.causes == (clock.key,)


@pytest.mark.parametrize(("ranks", "hosts"), sampled([(8, 1), (32, 4)], (8, 1)))
def test_a_job_without_a_fault_has_no_finding(ranks: int, hosts: int, report: Reports) -> None:
    # Of fewer layers, the last gradients and the optimizer are a larger part of the step, and no noise.
    assert ours(report("ascend-db", ranks=ranks, hosts=hosts, steps=2, layers=8)) == {}


def test_clocks_that_are_off_cost_nothing(report: Reports) -> None:
    skewed, healthy = (report("ascend-text", kind, hosts=2) for kind in ("skewed_clocks", None))
    assert {code: one.cost_ns for code, one in ours(skewed).items()} == {
        code: one.cost_ns for code, one in ours(healthy).items()
    }
    assert any(abs(clock.offset_ns) > 3_000_000 for clock in skewed.rows(ClockOffset))


def test_a_healthy_plan_with_a_pipeline_only_has_the_costs_of_the_plan(report: Reports) -> None:
    assert set(ours(report("ascend-text", None, pp=2, micro_batches=4, layers=8))) <= {"COM001", "PAR001"}


def test_a_straggler_that_was_not_collected_is_the_first_cause_of_several_steps(tmp_path: Path) -> None:
    fault = Fault(kind="slow_rank_compute", ranks=(3,))
    job = generate(tmp_path / "job", Job(ranks=4, steps=4, layers=4, faults=(fault,)), formats=["ascend-text"])
    truth = json.loads((job / "truth.json").read_text("utf-8"))
    found = analyze(load(sorted(job.glob("*_ascend_pt"))[:3], Cache(tmp_path / "cache")))
    first = found.findings[0]
    assert (first.code, first.blames) == ("COM002", ("rank 3",))
    assert "waiting for rank 3, which was not collected" in say(found.verdict.message)
    lost = [one["ns"] for one in truth["faults"][0]["injected"]]
    assert first.gain.low_ns <= sum(lost) / len(lost) <= first.gain.high_ns
