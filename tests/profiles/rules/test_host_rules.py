"""Rules of the host, the environment and memory: each fires beyond its limit and stays silent; a step is 1,000 ns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from hermes.base.say import say
from hermes.knowledge.vendor_cures import BETWEEN_GRAPHS, KEEP_PINNED_MEMORY, PINNED_AND_FEW
from hermes.model.compute_measures import Losses, OperatorCost
from hermes.model.finding import Loss
from hermes.model.host_measures import CoreLoad, HostEvents, QueueDepth, SettingValues, Shapes
from hermes.model.job import JobMeasures
from hermes.model.leaf import Leaf
from hermes.model.memory_measures import MemoryGrowth, MemoryPeak, Recompute
from hermes.model.step_measures import StepSplit
from hermes.profiles.measure.memory.headroom import Headroom
from hermes.profiles.rules.environment import env001_slow_setting as env001
from hermes.profiles.rules.environment import env002_profiler_overhead as env002
from hermes.profiles.rules.host import cpu002_recompilation as cpu002
from hermes.profiles.rules.host import cpu004_slow_dispatch as cpu004
from hermes.profiles.rules.host import cpu006_garbage_collection as cpu006
from hermes.profiles.rules.host import cpu008_full_cores as cpu008
from hermes.profiles.rules.host.cpu003_host_waits import reading_tensors_back as cpu003
from hermes.profiles.rules.host.cpu003_host_waits import synchronisation as cpu005
from hermes.profiles.rules.host.cpu012_threads import threads_started_each_step as cpu012
from hermes.profiles.rules.lab import cpu014_computing_on_host as cpu014
from hermes.profiles.rules.memory import mem002_allocation_in_step as mem002
from hermes.profiles.rules.memory import mem004_leak as mem004
from hermes.profiles.rules.memory import mem005_recomputation as mem005
from hermes.profiles.rules.processor import cpu009_small_operators as cpu009
from hermes.profiles.rules.rule import Finder
from hermes.profiles.rules.run_rules import find_all
from hermes.profiles.whatif.changes import parse

Make = Callable[..., Any]


def found(rule: Finder, measures: JobMeasures) -> Loss:
    (finding,) = rule.find(measures)
    return finding


def silent(rule: Finder, measures: JobMeasures) -> bool:
    return not list(rule.find(measures))


def setting(name: str, values: Mapping[str | None, tuple[int, ...]], source: str = "environment") -> SettingValues:
    return SettingValues(source=source, name=name, values=tuple(values.items()), absent=())


def test_every_cure_that_can_be_replayed_is_a_change_that_there_is(
    measures: Make, split: Make, event: Make, idle: Make, fetches: Make, held: Make
) -> None:
    kinds = ("compilation", "garbage collection", "allocation", "checkpoint or logging")
    leaves = ("dispatch", "compiling", "garbage_collection", "allocator", "file_or_network", "input_workers")
    found_ = find_all(
        measures(
            [split(free=900)],
            *(event(what, 300) for what in kinds),
            fetches("workers", 300),
            *idle(**dict.fromkeys(leaves, 300)),
            held("aten::item", 300),
            held("cudaStreamSynchronize", 300),
        )
    )
    replayed = {one.code: [parse(spec).spec for spec in one.replay] for one in found_ if one.replay}
    assert replayed.keys() >= {"CPU002", "CPU003", "CPU004", "CPU006", "IO001", "IO006", "MEM002"}


# Kinds of calls ----------------------------------------------------------------------------------------------------

KINDS = pytest.mark.parametrize(
    ("rule", "what", "limit"),
    [
        (cpu002.recompilation, "compilation", 10),
        (cpu006.garbage_collection, "garbage collection", 10),
        (mem002.allocation_in_step, "allocation", 20),
        (cpu014.computing_on_host, "computing", 100),
    ],
    ids=["CPU002", "CPU006", "MEM002", "CPU014"],
)


@pytest.mark.parametrize(
    ("name", "said"), [("cudaHostAlloc", "pinned memory of the host"), ("cudaMalloc", "device memory")]
)
def test_memory_that_is_taken_is_said_to_be_the_host_s_or_the_device_s(
    name: str, said: str, measures: Make, split: Make, event: Make
) -> None:
    row = replace(event("allocation", 21), names=((name, 1, 20), ("cudaFree", 1, 1)))
    made = measures([split()], row)
    finding = found(mem002.allocation_in_step, made)
    assert f"freeing {said} leaves" in say(finding.message)
    assert (finding.actions[0] is KEEP_PINNED_MEMORY) is (name == "cudaHostAlloc")


@KINDS
def test_calls_beyond_the_limit_are_found(
    rule: Finder, what: str, limit: int, measures: Make, split: Make, event: Make
) -> None:
    made = measures([split()], event(what, limit + 1))
    finding = found(rule, made)
    assert (finding.code, finding.cost_ns) == (rule.code, limit + 1)
    assert finding.replay == (f"host:{what.replace(' ', '-')}=0",)


@KINDS
def test_calls_at_the_limit_are_no_finding(
    rule: Finder, what: str, limit: int, measures: Make, split: Make, event: Make
) -> None:
    assert silent(rule, measures([split()], event(what, limit)))


@KINDS
def test_calls_behind_which_the_device_works_are_no_finding(
    rule: Finder, what: str, limit: int, measures: Make, split: Make, event: Make
) -> None:
    row = event(what, 900, device_free_ns=limit)
    assert silent(rule, measures([split()], row))


@KINDS
def test_what_was_not_recorded_is_no_finding(
    rule: Finder, what: str, limit: int, measures: Make, split: Make, event: Make
) -> None:
    row = replace(event(what, 900), ns=None, calls=None, device_free_ns=None, steps_hit=None, longest_ns=None)
    assert silent(rule, measures([split()], row))


@KINDS
def test_calls_in_one_of_many_steps_cost_their_part_of_each(
    rule: Finder, what: str, limit: int, measures: Make, split: Make, event: Make
) -> None:
    row = event(what, 100 * limit, steps=10)
    steps = [split(step=number) for number in range(10)]
    assert found(rule, measures(steps, row)).cost_ns == 10 * limit


@pytest.mark.parametrize(
    ("rule", "what"), [(cpu002.recompilation, "compilation"), (cpu006.garbage_collection, "garbage collection")]
)
def test_without_a_device_the_time_of_the_calls_counts(
    rule: Finder, what: str, measures: Make, blind: Make, event: Make
) -> None:
    finding = found(rule, measures([blind()], event(what, 300, device_free_ns=None)))
    assert (finding.cost_ns, finding.replay) == (300, ())
    assert "takes 30% of the step" in say(finding.message)
    assert finding.gain.expected_ns == 300


def test_compilation_is_named_after_dynamo_or_aclop(measures: Make, split: Make, event: Make) -> None:
    def cure(name: str) -> str:
        row = event("compilation", 300, names=((name, 1, 300),))
        return say(found(cpu002.recompilation, measures([split()], row)).actions[0].do)

    assert "jit_compile=False" in cure("aclopCompileAndExecute")
    assert "mark_dynamic" in cure("_compile.compile_inner (dynamo_timed)")


@pytest.mark.parametrize(("new", "told"), [(30, True), (0, False), (None, False)])
def test_new_shapes_are_named_as_what_compiles(
    new: int | None, told: bool, measures: Make, split: Make, event: Make
) -> None:
    shapes = Shapes(rank=0, known=0, dynamic=0, kernels=100, distinct=100, new=new)
    finding = found(cpu002.recompilation, measures([split()], event("compilation", 300), shapes))
    assert ("new_shapes" in finding.fault) is told
    assert any("buckets" in say(one.title) for one in finding.actions) is told


# Synchronisation ---------------------------------------------------------------------------------------------------

READ = "aten::_local_scalar_dense"


def test_the_lines_that_read_back_are_blamed_those_first_that_cost_most(
    measures: Make, split: Make, held: Make, sync: Make
) -> None:
    finding = found(
        cpu003.tensor_to_host,
        measures(
            [split()],
            held("aten::item", 300),
            sync(READ, 10, 20, "a.py(1): f"),
            sync(READ, 60, 200, "b.py(2): g"),
            sync("", 500, 0, "c.py(3): h"),
        ),
    )
    assert finding.blames == ("b.py(2): g", "a.py(1): f")
    assert "device free in and after 1 waits of b.py(2): g" in {say(one.what) for one in finding.evidence}


def test_other_waits_for_the_device_are_found_with_their_line(
    measures: Make, split: Make, held: Make, sync: Make
) -> None:
    finding = found(
        cpu005.synchronisation,
        measures(
            [split()],
            held("cudaStreamSynchronize", 90),
            sync("aten::copy_", 30, 60, "main.py(350): train"),
            sync(READ, 700, 0, "other.py(1): f"),
        ),
    )
    assert (finding.cost_ns, finding.blames) == (90, ("main.py(350): train",))


def test_without_a_device_nothing_is_told_of_waits_for_it(measures: Make, blind: Make, held: Make) -> None:
    one = measures([blind()], held("aten::item", 500), held("synchronize", 500))
    assert silent(cpu003.tensor_to_host, one)
    assert silent(cpu005.synchronisation, one)


def test_parts_of_a_leaf_without_a_name_are_shared_out_like_those_with_one(
    measures: Make, split: Make, held: Make
) -> None:
    one = measures([split()], held("cudaStreamSynchronize", 300), held("aten::item", 100), held("", 80))
    assert found(cpu005.synchronisation, one).cost_ns == 360
    assert found(cpu003.tensor_to_host, one).cost_ns == 120


def test_waits_in_which_the_device_works_are_no_finding(measures: Make, split: Make, held: Make, sync: Make) -> None:
    worked = sync("", 50, 0, wait_ns=900, comm_ns=850)
    assert silent(cpu005.synchronisation, measures([split()], held("cudaStreamSynchronize", 50), worked))


def test_reading_back_is_no_other_wait(measures: Make, split: Make, held: Make) -> None:
    assert silent(cpu005.synchronisation, measures([split()], held("aten::item", 900)))


# Dispatch ----------------------------------------------------------------------------------------------------------


def test_handing_over_work_is_found_by_the_free_time_that_it_leaves(
    measures: Make, split: Make, idle: Make, dispatch: Make
) -> None:
    parts = idle(dispatch=85, long_launch=20, python=200, input_workers=500)
    depth = QueueDepth(rank=0, step=0, device_id=0, tasks=9, mean=0.1, median=0, most=2, empty=0.9, full=0.0, curve=())
    finding = found(cpu004.slow_dispatch, measures([split(free=605)], *parts, dispatch(), depth))
    assert (finding.cost_ns, finding.fault, finding.replay) == (105, "dispatch", ("launch:graph",))
    told = {say(one.what): one.value for one in finding.evidence}
    assert told["device idle: dispatch of small operators"] == 85
    assert (told["median kernel time"], told["time in which the device's queue was empty"]) == (4, 0.9)


def test_tasks_that_come_from_a_graph_are_not_advised_to_be_one(
    measures: Make, split: Make, idle: Make, dispatch: Make
) -> None:
    made = measures([split(free=900)], dispatch(small=90, graphed=80), *idle(dispatch=600))
    finding = found(cpu004.slow_dispatch, made)
    assert (finding.fault, finding.replay) == ("dispatch", ())
    assert finding.actions == BETWEEN_GRAPHS


def test_a_copy_of_pageable_memory_that_waits_is_told_as_what_it_is(
    measures: Make, split: Make, held: Make, sync: Make
) -> None:
    copy = sync("aten::copy_", 600, names=("cudaMemcpyAsync", "cudaStreamSynchronize"))
    finding = found(
        cpu005.synchronisation, measures([split()], held("cudaStreamSynchronize", 600), copy, sync("", 100))
    )
    assert finding.fault == "copies_from_pageable_memory"
    assert finding.actions[0] is PINNED_AND_FEW


@pytest.mark.parametrize("leaves", [{"dispatch": 100}, {"input_here": 900}, {"compiling": 900}, {}])
def test_other_idle_leaves_are_no_dispatch(leaves: dict[str, int], measures: Make, split: Make, idle: Make) -> None:
    assert silent(cpu004.slow_dispatch, measures([split(free=900)], *idle(**leaves)))


def test_kernels_shorter_than_their_launch_are_named(measures: Make, split: Make, idle: Make, dispatch: Make) -> None:
    def job(small: int) -> Loss:
        return found(cpu004.slow_dispatch, measures([split()], *idle(dispatch=300), dispatch(small=small)))

    assert say(job(51).message).endswith("most kernels are shorter than a launch")
    assert (job(51).fault, job(50).fault) == ("short_kernels", "dispatch")


def test_a_graph_is_advised_by_what_captures_one_and_no_setting_is(
    measures: Make, split: Make, idle: Make, dispatch: Make
) -> None:
    def cures(vendor: str) -> str:
        made = measures([split()], *idle(dispatch=300), dispatch(), vendors={0: vendor})  # fmt: skip
        return " ".join(say(one.do) for one in found(cpu004.slow_dispatch, made).actions)

    assert "torch.npu.make_graphed_callables" in cures("ascend")
    assert "torch.cuda.make_graphed_callables" in cures("nvidia")
    assert "export" not in cures("ascend") + cures("nvidia")


def operators(calls: int, median: int = 500, ns: int = 0, name: str = "aten::add", shapes: str = "8,8") -> OperatorCost:
    none = Losses(frequency_ns=None, blocks_ns=None, pipe_ns=None, layout_ns=0)
    return OperatorCost(
        kind="elementwise", operator=name, shapes=shapes, dtypes="", chip=None, ranks=(0,), calls=calls,
        kernels=calls, ns=ns, share=0.0, median_ns=median, flops=None, bytes=None, precision="", tflops=None,
        gb_per_s=None, limit=None, roof_share=None, bound=None, losses=none, aligned=None, note="",
    )  # fmt: skip


@pytest.fixture
def on_a_cpu(measures: Make, blind: Make, host_step: Make) -> Callable[..., JobMeasures]:
    """A step of 10 ms, without a device by default, 6 ms of it in operators and Python, with these operators."""

    def make(*rows: OperatorCost, step: StepSplit | None = None) -> JobMeasures:
        host = host_step({"operators": 5_000_000, "python": 1_000_000, "data loading": 4_000_000})
        made: JobMeasures = measures([step or blind(host=10_000_000)], host, *rows)
        return made

    return make


def test_the_time_between_small_operators_of_a_job_without_a_device_is_found(on_a_cpu: Make) -> None:
    finding = found(cpu009.small_operators, on_a_cpu(operators(900), operators(20, 100_000, 2_000_000, "aten::mm")))
    assert (finding.cost_ns, finding.blames) == (6_000_000 - 2_000_000, ("aten::add",))
    assert (finding.gain.low_ns, finding.gain.high_ns) == (0, finding.cost_ns)


def test_a_small_call_is_charged_with_30_us_at_most(on_a_cpu: Make) -> None:
    assert found(cpu009.small_operators, on_a_cpu(operators(110))).cost_ns == 110 * 30_000
    assert silent(cpu009.small_operators, on_a_cpu(operators(100)))


def test_large_operators_are_worth_their_calls(on_a_cpu: Make, split: Make) -> None:
    assert silent(cpu009.small_operators, on_a_cpu(operators(900, median=10_000)))
    assert silent(cpu009.small_operators, on_a_cpu(operators(900), operators(20, 100_000, 4_000_000)))
    assert silent(cpu009.small_operators, on_a_cpu(operators(900), operators(901, 10_000, 0)))
    assert silent(cpu009.small_operators, on_a_cpu(operators(900), step=split(window=10_000_000)))


def cores(usage: float) -> CoreLoad:
    return CoreLoad(rank=0, cores=64, usage=usage, busiest=1.0)


def test_full_cores_count_only_with_a_loss_that_they_explain(measures: Make, split: Make, idle: Make) -> None:
    lost = idle(dispatch=300, other_work_on_cores=300)
    assert found(cpu008.full_cores, measures([split()], *lost, cores(0.95))).cost_ns == 300
    assert silent(cpu008.full_cores, measures([split()], *lost, cores(0.9)))
    assert silent(cpu008.full_cores, measures([split()], cores(0.99)))
    assert silent(cpu008.full_cores, measures([split()], *lost))


# Environment -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "harmless"),
    [
        ("ASCEND_LAUNCH_BLOCKING", "1", "0"),
        ("CUDA_LAUNCH_BLOCKING", "1", "0"),
        ("TASK_QUEUE_ENABLE", "0", "1"),
        ("ASCEND_GLOBAL_LOG_LEVEL", "0", "3"),
        ("TORCH_DISTRIBUTED_DEBUG", "DETAIL", "OFF"),
    ],
)
def test_a_setting_that_slows_launches_counts_only_where_dispatch_costs(
    name: str, value: str, harmless: str, measures: Make, split: Make, idle: Make
) -> None:
    def with_value(given: str | None, lost: int) -> JobMeasures:
        made: JobMeasures = measures([split()], *idle(dispatch=lost), setting(name, {given: (0,)}))
        return made

    finding = found(env001.slow_setting, with_value(value, 300))
    assert (finding.layer, finding.cost_ns, finding.gain.low_ns) == ("environment", 300, 0)
    assert finding.blames == (f"{name}={value}",)
    assert all(silent(env001.slow_setting, with_value(given, 300)) for given in (harmless, None))
    assert silent(env001.slow_setting, with_value(value, 100))


def test_a_task_queue_seen_to_be_off_counts_without_its_variable(
    measures: Make, split: Make, idle: Make, dispatch: Make
) -> None:
    assert (
        found(
            env001.slow_setting,
            measures(
                [split()],
                *idle(dispatch=300),
                dispatch(task_queue="off", task_queue_source="calls of AscendCL, and none from a queue"),
            ),
        ).fault
        == "task_queue_off"
    )


def test_an_allocator_without_its_cache_counts_by_calls_for_memory(
    measures: Make, split: Make, idle: Make, event: Make
) -> None:
    known = setting("PYTORCH_NO_CUDA_MEMORY_CACHING", {"1": (0,)})
    assert (
        found(env001.slow_setting, measures([split()], known, event("allocation", 300))).fault
        == "caching_allocator_off"
    )
    assert silent(env001.slow_setting, measures([split()], *idle(dispatch=300), known))


def test_a_profiler_with_stacks_is_a_doubt_of_a_slow_host(measures: Make, split: Make, idle: Make) -> None:
    def job(lost: int, **options: str) -> JobMeasures:
        known = tuple(setting(name, {value: (0,)}, "profiler") for name, value in options.items())
        made: JobMeasures = measures([split()], *idle(dispatch=lost), *known)
        return made

    finding = found(env002.profiler_overhead, job(300, with_stack="true", profile_memory="1"))
    assert finding.blames == ("with_stack", "profile_memory")
    assert (finding.cost_ns, finding.gain.high_ns) == (300, 0)
    assert finding.confidence < 0.5
    assert silent(env002.profiler_overhead, job(100, with_stack="true"))
    assert silent(env002.profiler_overhead, job(300, with_stack="false", profile_memory="1"))


VERSIONS = {"8.0": (0, 1), "7.0": (2, 3)}


def test_ranks_with_another_version_that_work_longer_are_found(measures: Make, split: Make) -> None:
    steps = [split(rank, exposed=200 if rank < 2 else 0) for rank in range(4)]
    finding = found(env001.slow_setting, measures(steps, setting("cann", VERSIONS, "version")))
    assert (finding.ranks, finding.cost_ns, finding.blames[0]) == ((2, 3), 200, "cann=7.0")


@pytest.mark.parametrize(
    ("waits", "source"),
    [((200, 200, 200, 200), "version"), ((200, 0, 0, 10), "version"), ((200, 200, 0, 0), "profiler")],
    ids=["all alike", "slow ranks on both sides", "a setting of the profiler"],
)
def test_a_difference_that_divides_no_slow_from_fast_ranks_is_no_finding(
    waits: tuple[int, ...], source: str, measures: Make, split: Make
) -> None:
    steps = [split(rank, exposed=wait) for rank, wait in enumerate(waits)]
    assert silent(env001.slow_setting, measures(steps, setting("cann", VERSIONS, source)))


# Memory ------------------------------------------------------------------------------------------------------------


def peak(component: str = "PTA", fragmentation: float | None = None, allocated: int = 1_000) -> MemoryPeak:
    return MemoryPeak(
        rank=0, component=component, device_id=0, samples=9, allocated_bytes=allocated, allocated_at_ns=0,
        allocated_step=0, reserved_bytes=2_000, active_bytes=None, fragmentation=fragmentation,
    )  # fmt: skip


def test_memory_in_pieces_is_why_more_is_asked_for(measures: Make, split: Make, event: Make) -> None:
    def of(*pieces: float, asking: tuple[HostEvents, ...] = (event("allocation", 100),)) -> JobMeasures:
        peaks = tuple(replace(peak(fragmentation=part), rank=rank) for rank, part in enumerate(pieces))
        made: JobMeasures = measures([split(0), split(1)], *asking, *peaks)
        return made

    finding = found(mem002.allocation_in_step, of(0.4))
    assert (finding.fault, finding.cost_ns, finding.blames[-1]) == ("fragmentation", 100, "PTA")
    assert finding.explains == {Leaf.ALLOCATOR}
    assert "expandable" in say(finding.actions[0].do)
    assert found(mem002.allocation_in_step, of(0.2)).fault == "allocator_calls"
    assert found(mem002.allocation_in_step, of(0.1, 0.4)).fault == "allocator_calls"
    assert silent(mem002.allocation_in_step, of(0.4, asking=()))


def growth(slope: float, r2: float = 0.99) -> MemoryGrowth:
    return MemoryGrowth(rank=0, component="PTA", device_id=0, steps=5, bytes_per_step=slope, r2=r2)


def test_memory_that_grows_along_a_line_is_found_without_a_cost(measures: Make, split: Make) -> None:
    finding = found(mem004.leak, measures([split()], growth(3_000_000), peak(allocated=100_000_000)))
    assert (finding.cost_ns, finding.gain.high_ns, finding.share) == (0, 0, 0.0)
    assert "3.0 MB each step" in say(finding.message)


def room(free: int) -> Headroom:
    return Headroom(rank=0, device_id=0, step=0, capacity_bytes=64_000_000_000, told="capture",
                    held_bytes=64_000_000_000 - free, free_bytes=free, share=free / 64_000_000_000)  # fmt: skip


def test_memory_that_grows_says_in_how_many_steps_the_device_is_full(measures: Make, split: Make) -> None:
    rooms = room(1_500_000_000), room(9_000_000_000)
    given = measures([split()], growth(3_000_000), peak(allocated=100_000_000), *rooms)
    told = {say(one.what): one.value for one in found(mem004.leak, given).evidence}
    assert (told["free memory of the device"], told["steps until device memory is full, at this growth"]) == (
        1_500_000_000,
        500,
    )


def test_less_recomputation_says_what_the_device_has_left_for_it(measures: Make, split: Make) -> None:
    given = measures([split()], recompute(250), room(1_500_000_000))
    assert "1.5 of 64 GB left" in say(found(mem005.recomputation, given).actions[0].risk)


@pytest.mark.parametrize("row", [growth(100_000), growth(3_000_000, r2=0.5), growth(-3_000_000)])
def test_memory_that_hardly_grows_waves_or_shrinks_is_no_finding(
    row: MemoryGrowth, measures: Make, split: Make
) -> None:
    assert silent(mem004.leak, measures([split()], row, peak(allocated=100_000_000)))


def recompute(device_ns: int | None, host_ns: int = 0) -> Recompute:
    return Recompute(rank=0, step=0, ops=9, host_ns=host_ns, device_ns=device_ns, compute_ns=1_000)


def test_recomputation_is_found_by_the_time_of_its_kernels(measures: Make, split: Make, blind: Make) -> None:
    assert found(mem005.recomputation, measures([split()], recompute(250))).cost_ns == 250
    assert silent(mem005.recomputation, measures([split()], recompute(50)))
    assert silent(mem005.recomputation, measures([split()], recompute(None, host_ns=900)))
    # Nothing runs beside the host: it wins all of it.
    alone = found(mem005.recomputation, measures([blind()], recompute(None, host_ns=300)))
    assert (alone.cost_ns, alone.gain.expected_ns) == (300, 300)


def test_recomputation_on_a_device_of_unknown_room_is_a_preview(measures: Make, split: Make, blind: Make) -> None:
    assert found(mem005.recomputation, measures([split()], recompute(250))).state == "preview"
    assert found(mem005.recomputation, measures([blind()], recompute(None, host_ns=300))).state == "stable"


# Threads and processes that are started anew -------------------------------------------------------------------------

STARTING = "starting of threads and processes"


def test_starting_threads_in_each_step_costs_its_own_time_without_a_device(
    measures: Make, blind: Make, event: Make
) -> None:
    row = event(STARTING, 400, recorded=60)
    finding = found(cpu012.starts_each_step, measures([blind()], row))
    assert (finding.cost_ns, finding.gain.low_ns, finding.gain.high_ns) == (400, 200, 400)
    assert "takes 40% of the step" in say(finding.message)


def test_starting_threads_behind_which_the_device_works_is_no_finding(measures: Make, split: Make, event: Make) -> None:
    row = event(STARTING, 400, device_free_ns=40)
    assert silent(cpu012.starts_each_step, measures([split()], row))


def test_a_pool_that_is_made_once_in_many_steps_is_no_finding(measures: Make, blind: Make, event: Make) -> None:
    rows = [blind(step=step) for step in range(10)]
    hit = event(STARTING, 4_000, steps=10, steps_hit=4)
    assert silent(cpu012.starts_each_step, measures(rows, hit))
    often = replace(hit, steps_hit=5)
    assert found(cpu012.starts_each_step, measures(rows, often)).cost_ns == 400
