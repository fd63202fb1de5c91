"""The search of the best size of buckets, on steps that are drawn and on modelled jobs that are simulated again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.profiles.whatif.communication.drawing import exchange
from tests.shared_jobs import Jobs

from hermes.profiles.pipeline.analyze import outlined
from hermes.profiles.pipeline.search_inputs import communication_plan
from hermes.profiles.whatif.communication.search import Exchange, Search, search
from hermes_testing import Job, as_written, simulate
from hermes_testing.generate import Format
from hermes_testing.truth import step_ns

MS = 1_000_000
# The norm, of next to nothing, tells what a collective takes whatever its size.
ONE_LARGE = """
    rank0.compute  IFFFFFFFAAAABBBBCCCCDDDD................
    rank0.comm     .1......................2222222222222222
    rank1.compute  IFFFFFFFAAAABBBBCCCCDDDD................
    rank1.comm     .1......................2222222222222222
"""
MANY_SMALL = """
    rank0.compute  FFFFAABBCCDD.......................
    rank0.comm     ......1111111111222222222233333333334444444444
    rank1.compute  FFFFAABBCCDD.......................
    rank1.comm     ......1111111111222222222233333333334444444444
"""
GRADIENTS = dict.fromkeys("ABCD", 64)


def large() -> Exchange:
    return exchange(ONE_LARGE, [0, 256], GRADIENTS)


def test_a_bucket_that_waits_for_all_gradients_is_split() -> None:
    found = search(large())
    assert found.plan is not None
    assert (found.plan.now.buckets, found.plan.then.buckets) == (1, 4)
    # Each takes 1 ms whatever its size, and 3.75 ms for its bytes: from 12 ms on, 19 ms in all.
    assert found.plan.now.tail_ns == 16 * MS
    assert found.plan.then.tail_ns == pytest.approx(7 * MS, abs=MS // 10)
    assert found.plan.low_ns <= 9 * MS <= found.plan.high_ns
    assert found.plan.now.begins_ns - found.plan.then.begins_ns == 12 * MS


def test_as_it_is_a_step_is_replayed_as_measured() -> None:
    tried = Search(large())
    assert tried._now_ns == pytest.approx(tried._job.end_ns, abs=MS // 10)


def test_without_gradients_a_single_bucket_says_nothing() -> None:
    assert search(exchange(ONE_LARGE, [0, 256])).why == "nothing_sent"


def test_one_size_does_not_tell_latency_from_bandwidth() -> None:
    found = search(exchange(MANY_SMALL, [64] * 4, GRADIENTS))
    assert (found.plan, found.why) == (None, "one_size")


def test_small_collectives_that_take_as_long_as_large_ones_are_joined() -> None:
    text = """
        rank0.compute  FFFFABCD.............................
        rank0.comm     .....11111112222222233333333344444444
        rank1.compute  FFFFABCD.............................
        rank1.comm     .....11111112222222233333333344444444
    """
    found = search(exchange(text, [1, 8, 16, 8], {"A": 1, "B": 8, "C": 16, "D": 8}))
    assert found.plan is not None
    assert found.plan.then.buckets < found.plan.now.buckets == 4
    assert found.plan.low_ns > 0
    assert found.plan.fixed_ns == pytest.approx(7 * MS, rel=0.1)


def test_what_the_next_kernel_needs_is_left_alone() -> None:
    # A sum of tensor-parallel ranks: each kernel waits for the one before.
    text = """
        rank0.compute  AA...BB...CC...DD...
        rank0.comm     ..111..222..333..444
        rank1.compute  AA...BB...CC...DD...
        rank1.comm     ..111..222..333..444
    """
    assert search(_tied(exchange(text, [64] * 4))).why == "nothing_sent"


def _tied(loose: Exchange) -> Exchange:
    """The same with each kernel behind the collective before it."""
    graph = loose.job.graph
    edges = list(zip(graph.target.tolist(), graph.pred.tolist(), graph.lag.tolist(), graph.kind.tolist(), strict=True))
    for one, nodes in zip(loose.operations, (1, 2, 3), strict=False):
        for rank, node in one.transfer.items():
            edges.append((int(loose.compute[rank].node[nodes]), node, 0, 0))
    edges.sort()
    target, pred, lag, kind = (np.array(column, dtype=np.int64) for column in zip(*edges, strict=True))
    first = np.searchsorted(target, np.arange(len(graph.start) + 1))
    return replace(loose, job=replace(loose.job, graph=replace(graph, first=first, pred=pred, lag=lag, kind=kind)))


@pytest.mark.parametrize("form", ["ascend-db", "ascend-text", "kineto"])
def test_the_size_that_is_advised_gives_what_was_predicted(form: Format, jobs: Jobs) -> None:
    job = Job(ranks=4, steps=3, layers=4, bucket_kb=600 * 1_024, links=60)
    loaded = jobs.loaded(job, form)
    found = communication_plan(loaded, outlined(loaded))
    assert found.plan is not None
    before = step_ns(simulate(as_written(job, [form])).profiles)
    after = step_ns(simulate(as_written(replace(job, bucket_kb=found.plan.cap_mb * 1_024), [form])).profiles)
    assert after < before
    assert found.plan.low_ns <= before - after <= found.plan.high_ns
    assert found.plan.high_ns - found.plan.low_ns <= before // 10
    assert found.plan.told


def test_buckets_that_are_hidden_are_left_alone(jobs: Jobs) -> None:
    loaded = jobs.loaded(Job(ranks=4, steps=3, layers=4, bucket_kb=25 * 1_024), "ascend-db")
    found = communication_plan(loaded, outlined(loaded))
    assert (found.plan, found.why) == (None, "no_gain")
