"""What no report may say: held against every real profile, and broken once each to see it told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from tests.shared_jobs import FOUR, TWO, Jobs

from hermes.model.leaf import Leaf
from hermes.model.leaf_time import JobLeaf
from hermes.model.report import Report
from hermes_testing import Fault, FaultKind, Format
from hermes_testing.invariants import contradictions

ASCEND = ["alexnet_text_level0", "alexnet_text_level2", "alexnet_db_level0", "alexnet_db_level2", "writer_2024"]
KINETO = [
    "a100_alexnet_cuda_sync", "a100_dlrm_control", "a100_rank0_of_16_blocking_copies", "b200_vllm_inference",
    "cpu_only_rank34", "event_sync_multi_stream", "h100_owlv2_pipeline", "h100_qwen1.5-0.5b", "h800_deepseek_train",
    "mi250_toy_empty_last_mark", "mi300_bert_small_inference", "mi300_qwen1.5-0.5b", "mi300_sglang_decode",
    "mtia_single_rank", "v100_dlrm_test", "v100_resnet50_first_calls", "v100_resnet50_num_workers_0",
    "v100_resnet50_num_workers_4",
]  # fmt: skip
REAL = [
    *(f"ascend/{name}" for name in ASCEND), *(f"kineto/{name}.json.gz" for name in KINETO),
    "kineto/v100_dlrm_8ranks.tar.gz",
]  # fmt: skip


@pytest.mark.parametrize("name", REAL)
def test_no_real_profile_is_told_what_cannot_be(name: str, jobs: Jobs) -> None:
    assert contradictions(jobs.real_report(name)) == ()


@pytest.mark.parametrize("form", ["ascend-db", "kineto"])
@pytest.mark.parametrize("kind", [None, "slow_rank_host", "data_wait", "slow_link"])
def test_no_modelled_job_is_told_what_cannot_be(kind: FaultKind | None, form: Format, jobs: Jobs) -> None:
    job = replace(FOUR, hosts=2 if kind == "slow_link" else 1, faults=(Fault(kind=kind),) if kind else ())
    assert contradictions(jobs.report(job, form)) == ()


KINDS: tuple[FaultKind, ...] = (
    "slow_rank_compute", "slow_rank_host", "data_wait", "gc_pause", "recompilation", "host_bound_dispatch",
    "synchronisation_calls", "small_packets", "frequency_drop", "exposed_all_reduce",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_no_job_with_two_faults_is_told_what_cannot_be(seed: int, jobs: Jobs) -> None:
    chance = Random(seed)
    faults = tuple(Fault(kind=kind, ranks=(chance.randrange(4),)) for kind in chance.sample(KINDS, 2))
    form: Format = "ascend-db" if seed % 2 else "kineto"
    assert contradictions(jobs.report(replace(FOUR, seed=seed, faults=faults), form)) == ()


Break = Callable[[Report], Report]


def _first(report: Report, **changed: object) -> Report:
    return replace(report, findings=(replace(report.findings[0], **changed), *report.findings[1:]))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (lambda one: _first(one, gain=replace(one.findings[0].gain, high_ns=2 * one.findings[0].cost_ns)), "and costs"),
        (lambda one: _first(one, cost_ns=10**12), "of a step of"),
        (
            lambda one: replace(one, steps=(replace(one.steps[0], free_ns=(one.steps[0].free_ns or 0) + 1),)),
            "the parts of step",
        ),
        (lambda one: replace(one, paths=(replace(one.paths[0], window_ns=1),)), "does not add up"),
        (
            lambda one: replace(one, verdict=replace(one.verdict, leaf=Leaf.RECURRENT)),
            "which takes no time",
        ),
        (
            lambda one: replace(one, measured=(*one.measured, one.rows(JobLeaf)[0])),
            "the tree has",
        ),
        (
            lambda one: replace(
                one,
                plan=replace(one.plan, actions=(replace(one.plan.actions[0], share_high=1.2), *one.plan.actions[1:])),
            ),
            "gives 120% of the step",
        ),
        (
            lambda one: replace(one, plan=replace(one.plan, actions=2 * one.plan.actions[:1])),
            "2 actions for one cause",
        ),
    ],
    ids=["gain", "cost", "step", "path", "headline", "tree", "share", "cause"],
)
def test_a_report_that_cannot_be_is_seen(broken: Break, said: str, jobs: Jobs) -> None:
    report = jobs.report(replace(TWO, faults=(Fault(kind="data_wait"),)), "kineto")
    assert contradictions(report) == ()
    assert said in contradictions(broken(report))[0]
