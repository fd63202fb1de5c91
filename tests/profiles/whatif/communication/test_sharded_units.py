"""The search of when sharded units are gathered and how large they are, on modelled jobs that are simulated again."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.each import each
from tests.profiles.whatif.communication.drawing import exchange
from tests.shared_jobs import Jobs

from hermes.knowledge.sharding_settings import unit_settings
from hermes.profiles.measure.path.event_graph import EventGraph
from hermes.profiles.pipeline.analyze import outlined
from hermes.profiles.pipeline.search_inputs import communication_plan, exchange_of
from hermes.profiles.whatif.communication.collectives_in_graph import Following
from hermes.profiles.whatif.communication.document import plan_document
from hermes.profiles.whatif.communication.search import SearchResult
from hermes.profiles.whatif.communication.sharded_units import Sharded, sharded, units_gathered_ahead
from hermes.profiles.whatif.communication.unit_document import memory
from hermes.profiles.whatif.communication.unit_search import unit_search
from hermes.profiles.whatif.messages import UNITS_MEMORY_NOT_KNOWN, UNITS_NO_MORE_MEMORY
from hermes.report.document_text import document_lines
from hermes_testing import Job, as_written, simulate
from hermes_testing.generate import Format
from hermes_testing.model import embedding_bytes, gradient_bytes
from hermes_testing.truth import step_ns

LATE = Job(ranks=2, steps=3, layers=4, sharded=1, links=20)
EARLY = replace(LATE, prefetch=(1, 1), links=100)
TINY = Job(ranks=2, steps=3, layers=4, sharded=1, prefetch=(1, 1), latency_us=4_000)
WITH_TENSORS = Job(ranks=4, steps=3, layers=3, sharded=1, tp=2, links=40)
LOW = {"forward": 0, "backward": 0, "merged": 1}


def found_in(job: Job, form: Format, jobs: Jobs) -> SearchResult:
    loaded = jobs.loaded(job, form)
    return communication_plan(loaded, outlined(loaded))


def step(job: Job, form: Format) -> int:
    return step_ns(simulate(as_written(job, [form])).profiles)


def after(job: Job, found: SearchResult, form: Format) -> int:
    """The step of the job with what was advised, as the simulator has it."""
    plan = found.units
    assert plan is not None, found.why
    now = (job.prefetch[0] + plan.earlier_forward, job.prefetch[1] + plan.earlier_backward)
    return step(replace(job, sharded=job.sharded * plan.merged, prefetch=now), form)


def passes(job: Job, form: Format, jobs: Jobs) -> list[Sharded]:
    loaded = jobs.loaded(job, form)
    given = exchange_of(loaded, outlined(loaded))
    return sharded(given.job.graph, given.operations, given.job.component)


@pytest.mark.parametrize("form", ["ascend-db", "ascend-text", "kineto"])
def test_late_gathers_are_launched_earlier(form: Format, jobs: Jobs) -> None:
    found = found_in(LATE, form, jobs)
    plan, before = found.units, step(LATE, form)
    assert plan is not None, found.why
    assert (plan.earlier_forward, plan.earlier_backward, plan.merged) == (1, 1, 1)
    gain = before - after(LATE, found, form)
    assert 0 < plan.low_ns <= gain <= plan.high_ns
    assert plan.high_ns - plan.low_ns <= before // 10
    assert plan.then.exposed_ns < plan.now.exposed_ns
    assert plan.now.held_bytes == embedding_bytes(1) + gradient_bytes(1)
    assert plan.then.held_bytes - plan.now.held_bytes == gradient_bytes(1)


def test_a_job_that_gathers_ahead_is_left_alone(jobs: Jobs) -> None:
    found = found_in(EARLY, "kineto", jobs)
    assert (found.plan, found.units, found.why) == (None, None, "no_unit_gain")


@pytest.mark.parametrize("form", ["ascend-db", "kineto"])
def test_units_that_pay_the_latency_too_often_are_merged(form: Format, jobs: Jobs) -> None:
    found = found_in(TINY, form, jobs)
    plan = found.units
    assert plan is not None, found.why
    assert plan.merged > 1
    assert plan.then.units < plan.now.units
    assert plan.fixed_ns == pytest.approx(4_000_000, rel=0.02)
    assert plan.low_ns <= step(TINY, form) - after(TINY, found, form) <= plan.high_ns


def test_compute_that_follows_a_sum_of_tensor_parallel_ranks_still_does(jobs: Jobs) -> None:
    # CUDA's traces tell of a gather that it came after the sum, and not of the compute that both hold up.
    found = found_in(WITH_TENSORS, "kineto", jobs)
    assert found.units is not None, found.why
    assert found.units.low_ns <= step(WITH_TENSORS, "kineto") - after(WITH_TENSORS, found, "kineto")


@each(range(4), str)
def test_no_advice_makes_a_step_longer(seed: int, jobs: Jobs) -> None:
    noisy = Job(
        ranks=2, steps=3, layers=3 + seed % 2, sharded=1 + seed % 2, prefetch=(seed // 2, seed % 2), noise=3 + seed,
        links=(40, 100)[seed % 2], latency_us=(0, 2_000)[seed // 2], seed=seed,
    )  # fmt: skip
    found = found_in(noisy, "ascend-db", jobs)
    assert found.plan is None
    assert found.why in ("", "no_unit_gain", "units_not_told")
    if found.units is not None:
        assert after(noisy, found, "ascend-db") < step(noisy, "ascend-db")


def test_units_are_found_by_how_they_are_used(jobs: Jobs) -> None:
    one = passes(replace(LATE, micro_batches=2, layers=2, steps=2), "ascend-db", jobs)
    assert len(one) == 4  # two steps, and two micro-batches in each
    assert {(len(each_.forward), len(each_.backward), each_.kept) for each_ in one} == {(3, 2, 1)}
    assert one[-1].bytes == (embedding_bytes(1), gradient_bytes(1), gradient_bytes(1))


def test_what_compute_needs_at_once_is_no_sum_of_gradients(jobs: Jobs) -> None:
    # Gathers are ahead, and compute waits for them all the same.
    loaded = jobs.loaded(replace(EARLY, links=50), "kineto")
    given = exchange_of(loaded, outlined(loaded))
    graph, component = given.job.graph, given.job.component
    scatters = [one for one in given.operations if one.op == "reduce_scatter"]
    pairs = []
    for one in scatters:
        for rank, node in one.transfer.items():
            later = (component == "compute") & (graph.rank == rank) & (graph.start >= graph.finish[node])
            pairs += [(int(np.flatnonzero(later)[0]), node)] if later.any() else []
    assert sharded(graph, given.operations, component)
    assert not sharded(with_edges(graph, pairs), given.operations, component)


def with_edges(graph: EventGraph, pairs: list[tuple[int, int]]) -> EventGraph:
    """The graph with a node behind another, for each pair."""
    target, pred = (np.array(column, dtype=np.int64) for column in zip(*pairs, strict=True))
    none = np.zeros(len(pairs), dtype=np.int64)
    every = np.concatenate([graph.target, target])
    order = np.argsort(every, kind="stable")
    return replace(
        graph, first=np.searchsorted(every[order], np.arange(len(graph.start) + 1)),
        pred=np.concatenate([graph.pred, pred])[order], lag=np.concatenate([graph.lag, none])[order],
        kind=np.concatenate([graph.kind, none])[order],
    )  # fmt: skip


def test_it_is_known_how_far_gathers_are_ahead(jobs: Jobs) -> None:
    for job, form in ((LATE, "kineto"), (EARLY, "kineto"), (TINY, "ascend-db")):
        loaded = jobs.loaded(job, form)  # type: ignore[arg-type]
        given = exchange_of(loaded, outlined(loaded))
        graph = given.job.graph
        one = sharded(graph, given.operations, given.job.component)[-1]
        assert units_gathered_ahead(graph, one, Following(graph, given.job.component), given.compute) == job.prefetch


def test_a_job_without_shards_has_no_units() -> None:
    text = """
        rank0.compute  AA...BB...CC...DD...
        rank0.comm     ..111..222..333..444
    """
    assert unit_search(exchange(text, [64] * 4)) is None


def test_the_document_says_what_to_do_why_and_what_it_holds(jobs: Jobs) -> None:
    document = plan_document(
        found_in(LATE, "ascend-db", jobs), [Path("job")], (), framework="pytorch", vendors=["ascend"]
    )  # fmt: skip
    text = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", document_lines(document, 200, "en")).split())
    assert "Launch the all-gathers of sharded units ahead of their use: by 1 in forward, by 1 in backward." in text
    assert "does not compute" in text
    assert "A rank holds 78.6 MB more of unsharded parameters at once: 288 MB instead of 210 MB." in text
    assert "set_modules_to_forward_prefetch(units[at + 1:at + 2])" in text
    assert document.facts["earlier_forward"] == 1


def test_memory_is_not_told_where_it_is_not_known(jobs: Jobs) -> None:
    plan = found_in(LATE, "ascend-db", jobs).units
    assert plan is not None
    assert memory(plan).identifier == "whatif.units.more_memory"
    assert memory(replace(plan, then=plan.now)) == UNITS_NO_MORE_MEMORY
    assert memory(replace(plan, now=replace(plan.now, held_bytes=None))) == UNITS_MEMORY_NOT_KNOWN


@each([LOW, LOW | {"forward": 1, "backward": 1}, {"forward": 2, "backward": 1, "merged": 4}], str)
def test_settings_are_python(asked: dict[str, int]) -> None:
    lines = [one.line for one in unit_settings(**asked)]
    assert bool(lines) == (asked != LOW)
    assert ast.parse("\n".join(lines))
    assert any("FullyShardedDataParallel(" in line for line in lines) == (max(asked.values()) == 1 and asked != LOW)
