"""The replay: what it predicts against jobs that were modelled with and without a cause, and against real profiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tests.shared_jobs import Jobs

from hermes.base.errors import InputError
from hermes.knowledge.host_work import REASONS
from hermes.profiles.load import Loaded
from hermes.profiles.measure.path.event_graph import starts
from hermes.profiles.pipeline.analyze import outlined
from hermes.profiles.pipeline.load_replay_step import step_of
from hermes.profiles.whatif.changes import StepState, parse
from hermes.profiles.whatif.replay import Prediction, predict, predictions, replay
from hermes.profiles.whatif.step_event_graph import JobStep
from hermes_testing import Fault, FaultKind, Job

FOUR = Job(ranks=4, steps=2, layers=4)
STAGES = Job(ranks=4, steps=3, layers=8, pp=2)
EIGHT = Job(ranks=8, steps=2, layers=4, tp=2, pp=2)


@pytest.fixture(scope="module")
def modelled(jobs: Jobs) -> Callable[..., JobStep]:
    """The step of a modelled job with a fault or without; each is made once."""

    @cache
    def make(job: Job, kind: FaultKind | None = None) -> JobStep:
        faults = (Fault(kind=kind),) if kind else ()
        return stepped(jobs.loaded(replace(job, faults=faults), "ascend-db"))

    return make


def stepped(loaded: Loaded) -> JobStep:
    return step_of(loaded, outlined(loaded))


def length(job: JobStep) -> int:
    return job.end_ns - job.begin_ns


@pytest.mark.parametrize("kind", [None, "slow_rank_host", "synchronisation_calls", "slow_link"])
@pytest.mark.parametrize("job", [FOUR, pytest.param(EIGHT, marks=pytest.mark.slow)], ids=["4 ranks", "8 ranks"])
def test_without_a_change_the_replay_is_what_was_measured(
    job: Job, kind: FaultKind | None, modelled: Callable[..., JobStep]
) -> None:
    graph = modelled(job, kind).graph
    assert starts(graph).tolist() == graph.start.tolist()
    assert predict(modelled(job, kind), []).low_ns == 0


@pytest.mark.parametrize(
    ("job", "kind", "spec"),
    [
        (FOUR, "slow_rank_compute", "rank:0=median"),
        (FOUR, "slow_rank_host", "rank:0=median"),
        (FOUR, "data_wait", "host:data-loading=0"),
        (FOUR, "gc_pause", "host:garbage-collection=0"),
        (FOUR, "recompilation", "host:compilation=0"),
        pytest.param(*(EIGHT, "slow_rank_compute", "rank:0=median"), marks=pytest.mark.slow),
        pytest.param(*(EIGHT, "slow_rank_host", "rank:0=median"), marks=pytest.mark.slow),
        pytest.param(*(EIGHT, "data_wait", "host:data-loading=0"), marks=pytest.mark.slow),
        pytest.param(*(EIGHT, "gc_pause", "host:garbage-collection=0"), marks=pytest.mark.slow),
        pytest.param(*(EIGHT, "recompilation", "host:compilation=0"), marks=pytest.mark.slow),
    ],
)
def test_what_a_cure_gives_is_what_the_job_without_the_cause_takes(
    job: Job, kind: FaultKind, spec: str, modelled: Callable[..., JobStep]
) -> None:
    slow, healthy = modelled(job, kind), modelled(job)
    won = length(slow) - length(healthy)
    found = predict(slow, [parse(spec)])
    # With stages, what remains also moves within them: a sixth is the worst seen.
    assert found.low_ns == pytest.approx(won, rel=0.02 if job is FOUR else 0.16)
    assert found.low_ns <= found.high_ns
    assert spec in {one.specs[0] for one in predictions(slow)}


def test_all_compute_of_a_rank_can_be_made_shorter(modelled: Callable[..., JobStep]) -> None:
    slow, healthy = modelled(FOUR, "slow_rank_compute"), modelled(FOUR)
    # The fault makes it 30 % longer.
    found = predict(slow, [parse(f"compute:0={1 / 1.3}")])
    assert found.low_ns == pytest.approx(length(slow) - length(healthy), rel=0.02)
    assert predict(slow, [parse("compute:1=0.5")]).low_ns == 0


def test_layers_take_their_gradients_along_and_leave_what_a_stage_has_once(modelled: Callable[..., JobStep]) -> None:
    job = modelled(FOUR)
    state = StepState.of(job)
    parse("layers:0=0.5").apply(job, state)
    changed = state.dur != job.graph.dur
    assert set(job.graph.rank[changed]) == {0}
    assert set(job.component[changed]) == {"compute", "comm"}
    reduced = (job.component == "comm") & (job.graph.rank == 0)
    sizes, counts = np.unique(job.bytes[changed & reduced], return_counts=True)
    assert (len(sizes), counts.tolist()) == (1, [2 * FOUR.layers])
    # The embedding and the norm are reduced once a step.
    assert len(set(job.bytes[reduced & ~changed])) == 2


def test_stages_that_are_evened_out_give_what_the_job_with_even_stages_does(modelled: Callable[..., JobStep]) -> None:
    even = modelled(STAGES)
    stages = {rank: int(even.graph.dur[(even.component == "compute") & (even.graph.rank == rank)].sum())
              for rank in range(4)}  # fmt: skip
    slow = modelled(STAGES, "pipeline_imbalance")
    own = {rank: int(slow.graph.dur[(slow.component == "compute") & (slow.graph.rank == rank)].sum())
           for rank in range(4)}  # fmt: skip
    found = predict(slow, [parse(f"layers:{rank}={stages[rank] / own[rank]:.4f}") for rank in range(4)])
    assert found.low_ns == pytest.approx(length(slow) - length(even), rel=0.35)


def test_a_transfer_that_stalls_gets_the_usual_length_and_no_other_changes(modelled: Callable[..., JobStep]) -> None:
    job = modelled(FOUR)
    like = np.flatnonzero((job.component == "comm") & (job.graph.rank == 0) & (job.type == "all_reduce"))
    usual = int(np.median(job.graph.dur[like]))
    dur = job.graph.dur.copy()
    dur[like[0]] = 20 * usual
    stalled = replace(job, graph=replace(job.graph, dur=dur))
    state = StepState.of(stalled)
    parse("comm:even").apply(stalled, state)
    assert state.dur[like[0]] == pytest.approx(usual, rel=0.05)
    assert np.array_equal(np.delete(state.dur, like[0]), np.delete(dur, like[0]))


def test_causes_together_are_replayed_together(modelled: Callable[..., JobStep]) -> None:
    slow = modelled(FOUR, "slow_rank_host")
    rank, graph = parse("rank:0=median"), parse("launch:graph")
    both = predict(slow, [rank, graph])
    assert both.low_ns < predict(slow, [rank]).low_ns + predict(slow, [graph]).low_ns
    assert both.low_ns >= max(predict(slow, [rank]).low_ns, predict(slow, [graph]).low_ns)
    assert both.specs == ("rank:0=median", "launch:graph")


def test_what_is_hidden_gives_nothing(modelled: Callable[..., JobStep]) -> None:
    healthy = modelled(FOUR)
    # The host runs ahead of the device by far.
    assert predict(healthy, [parse("host:python=0")]).low_ns == 0
    assert predict(healthy, [parse("op:*=1")]).low_ns == 0


def test_slower_is_a_loss(modelled: Callable[..., JobStep]) -> None:
    assert predict(modelled(FOUR), [parse("op:*=2")]).low_ns < 0


def test_predictions_are_ordered_by_gain_and_bounded(modelled: Callable[..., JobStep]) -> None:
    found = predictions(modelled(FOUR, "data_wait"))
    gains = [one.low_ns for one in found]
    assert gains == sorted(gains, reverse=True)
    assert all(0 < one.low_ns <= one.high_ns <= length(modelled(FOUR, "data_wait")) for one in found)
    # A host that never waited for the device would fetch the next batch beside it, and lose nothing to that.
    assert {one.specs[0] for one in found[:2]} == {"host:data-loading=0", "sync:none"}


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "op",
        "op:x",
        "op:x=y",
        "op:x=-1",
        "host:sleep=0",
        "rank:x=median",
        "rank:1=0",
        "sync:none=1",
        "f:g",
        "compute:1",
        "compute:x=0.5",
    ],
)
def test_what_is_no_change_is_refused_with_a_hint(spec: str) -> None:
    with pytest.raises(InputError) as refused:
        parse(spec)
    assert refused.value.hint


def test_a_glob_in_a_name_is_a_name(modelled: Callable[..., JobStep]) -> None:
    job = modelled(FOUR)
    specs = [one.specs[0] for one in predictions(job)]
    assert all(parse(spec).spec == spec for spec in specs)


def of(found: list[Prediction], spec: str) -> Prediction:
    return next(one for one in found if one.specs == (spec,))


def test_the_straggler_that_was_not_collected(real: Callable[[str], JobStep]) -> None:
    # Ranks 0 and 1 wait for it for 95.4 and 92.9 ms; what they then wait for is each other and rank 7.
    found = predictions(real("ascend/alexnet_text_level2"))
    assert found[0].specs == ("rank:5=median",)
    assert 70e6 < found[0].low_ns <= found[0].high_ns < 95.42e6
    assert predictions(real("ascend/alexnet_db_level2"))[0].specs == ("rank:4=median",)


def test_loading_data_in_the_main_process(real: Callable[[str], JobStep]) -> None:
    # The same training with workers: the median of its steps of usual length is 125.1 ms for 152.5.
    before, after = 152.5, 125.1
    found = of(predictions(real("kineto/v100_resnet50_num_workers_0.json.gz")), "host:data-loading=0")
    assert 1 / (1 - found.share) == pytest.approx(before / after, rel=0.1)


REAL = ("kineto/b200_vllm_inference.json.gz", "kineto/a100_dlrm_control.json.gz", "kineto/v100_dlrm_test.json.gz",
        "kineto/mi300_bert_small_inference.json.gz", "kineto/mi250_toy_empty_last_mark.json.gz",
        "kineto/h800_deepseek_train.json.gz", "kineto/v100_resnet50_num_workers_4.json.gz",
        "ascend/alexnet_text_level2", "ascend/writer_2024")  # fmt: skip
DEVICE = ("op:*=0.5", "comm:*=0.5", "comm:overlap", "copy:*=0")
HOST = ("host:*=0", "launch:graph", "sync:none", "host:data-loading=0", "host:launching=0")


@pytest.mark.parametrize("name", REAL)
def test_no_change_of_the_device_alters_what_the_host_does(name: str, real: Callable[[str], JobStep]) -> None:
    job = real(name)
    own = job.reason.sum(axis=1) > 0
    before = StepState.of(job)
    for spec in DEVICE:
        state = StepState.of(job)
        parse(spec).apply(job, state)
        assert (state.reason == job.reason).all(), spec
        assert (state.lag[own] == before.lag[own]).all(), spec


@pytest.mark.parametrize("name", REAL)
def test_no_change_of_the_host_shortens_a_task_or_gives_more_than_the_device_was_free(
    name: str, real: Callable[[str], JobStep]
) -> None:
    job = real(name)
    for spec in HOST:
        made = replay(job, [parse(spec)])
        assert made.dur.tolist() == job.graph.dur.tolist()
        assert made.prediction.low_ns <= made.prediction.high_ns <= job.free_ns < length(job)


def test_a_step_ends_with_its_last_task_though_its_mark_goes_on(real: Callable[[str], JobStep]) -> None:
    job = real("kineto/mi300_bert_small_inference.json.gz")
    assert length(job) == 3_944_909
    # Kernels fill 0.39 ms of it.
    assert predict(job, [parse("launch:graph")]).low_ns > 0.6 * length(job)


def test_what_no_call_covers_between_two_launches_is_launching(modelled: Callable[..., JobStep]) -> None:
    slow = modelled(FOUR, "slow_rank_host")
    state = StepState.of(slow)
    parse("launch:graph").apply(slow, state)
    outside = REASONS.index("outside any call")
    left = state.reason[slow.graph.rank[slow.graph.target] == 0, outside]
    assert left.sum() < 0.2 * slow.reason[slow.graph.rank[slow.graph.target] == 0, outside].sum()


def test_a_mark_in_which_nothing_ran_is_not_the_step(real: Callable[[str], JobStep]) -> None:
    assert length(real("kineto/mi250_toy_empty_last_mark.json.gz")) == 9_178_654


def test_a_faster_device_gives_nothing_where_every_step_waits_for_the_host(real: Callable[[str], JobStep]) -> None:
    faster = [parse("op:*convolution*=0.5")]
    assert predict(real("kineto/v100_resnet50_num_workers_0.json.gz"), faster).share < 0.01
    # Where the device is always busy, its products decide.
    assert predict(real("kineto/mi300_qwen1.5-0.5b.json.gz"), [parse("op:*Cijk*=0.5")]).share > 0.1


@pytest.mark.parametrize(
    "name", ["ascend/alexnet_text_level0", "ascend/alexnet_text_level2", "ascend/alexnet_db_level0",
             "ascend/alexnet_db_level2", "ascend/writer_2024", "kineto/h100_qwen1.5-0.5b.json.gz",
             "kineto/mi300_qwen1.5-0.5b.json.gz", "kineto/a100_alexnet_cuda_sync.json.gz",
             "kineto/event_sync_multi_stream.json.gz", "kineto/a100_dlrm_control.json.gz",
             "kineto/a100_rank0_of_16_blocking_copies.json.gz", "kineto/b200_vllm_inference.json.gz",
             "kineto/h100_owlv2_pipeline.json.gz", "kineto/h800_deepseek_train.json.gz",
             "kineto/mi250_toy_empty_last_mark.json.gz", "kineto/mi300_bert_small_inference.json.gz",
             "kineto/mi300_sglang_decode.json.gz", "kineto/mtia_single_rank.json.gz",
             "kineto/v100_dlrm_8ranks.tar.gz", "kineto/v100_dlrm_test.json.gz",
             "kineto/v100_resnet50_first_calls.json.gz", "kineto/v100_resnet50_num_workers_0.json.gz",
             "kineto/v100_resnet50_num_workers_4.json.gz"],
)  # fmt: skip
def test_real_steps_come_out_as_measured(name: str, real: Callable[[str], JobStep]) -> None:
    job = real(name)
    assert starts(job.graph).tolist() == job.graph.start.tolist()
    assert all(one.low_ns <= length(job) for one in predictions(job))


@pytest.fixture
def real(jobs: Jobs) -> Callable[[str], JobStep]:
    """The step of a real profile."""
    return lambda name: stepped(jobs.real(name))
