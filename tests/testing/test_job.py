"""The modelled job: the same bytes each time, arithmetic that closes, causes that have their effects."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hermes.base.errors import InputError
from hermes_testing import KINDS, Fault, FaultKind, Job, Options, Result, generate, simulate, steps_of
from hermes_testing.generate import Format
from hermes_testing.job import groups_of
from hermes_testing.truth import merged, step_ns, total, truth_of, without

Written = Callable[[Format, Job, Options], Path]
SMALL = Job(ranks=2, steps=2, layers=2)
LAYOUTS = (
    SMALL,
    Job(ranks=1, steps=2, layers=2),
    Job(ranks=8, steps=2, layers=4, tp=2, pp=2),
    Job(ranks=4, steps=1, layers=4, pp=4, micro_batches=6),
    Job(ranks=4, steps=1, layers=2, ep=2),
    Job(ranks=8, steps=1, layers=2, hosts=4),
)


def _with(kind: FaultKind, job: Job | None = None, **more: object) -> Job:
    """A job in which the fault can be planted."""
    kinds = {
        "several hosts": {"hosts": 2},
        "several stages": {"pp": 2},
        "a tensor-parallel group": {"tp": 2, "fused": True},
    }
    needs = kinds.get(KINDS[kind].needs, {})
    if kind == "skewed_clocks":
        needs = {"hosts": 2}
    base = job or Job(ranks=4, steps=2, layers=4)
    return replace(base, **needs, faults=(Fault(kind=kind, **more),))  # type: ignore[arg-type]


def _digest(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("form", ["ascend-text", "ascend-db", "kineto"])
def test_the_same_job_writes_the_same_bytes(tmp_path: Path, form: Format) -> None:
    job = replace(SMALL, stacks=True, level="Level2", faults=(Fault(kind="gc_pause"),))
    one = generate(tmp_path / "one", job, formats=[form], options=Options(packed=True))
    two = generate(tmp_path / "two", job, formats=[form], options=Options(packed=True))
    assert _digest(one) == _digest(two)


def test_another_seed_writes_other_times() -> None:
    assert simulate(SMALL).profiles[0].tasks != simulate(replace(SMALL, seed=1)).profiles[0].tasks


@pytest.mark.parametrize("job", LAYOUTS, ids=str)
def test_the_parts_of_a_step_add_up_to_its_window(job: Job) -> None:
    for profile in simulate(job).profiles:
        for row in steps_of(profile):
            assert row.compute_ns + row.exposed_ns + row.free_ns == row.window_ns == row.stage_ns + row.bubble_ns
            assert row.comm_ns == row.exposed_ns + row.overlapped_ns
            assert min(row.compute_ns, row.exposed_ns, row.overlapped_ns, row.free_ns, row.preparing_ns) >= 0


@pytest.mark.parametrize("job", LAYOUTS, ids=str)
def test_nothing_happens_before_its_cause(job: Job) -> None:
    for profile in simulate(job).profiles:
        assert all(row.start_ns >= row.launch.node_ns >= row.launch.op_ns for row in profile.tasks)
        assert all(row.start_ns >= row.launch.node_ns for row in profile.comms)


@pytest.mark.parametrize("job", LAYOUTS, ids=str)
def test_a_stream_does_one_thing_at_a_time(job: Job) -> None:
    for profile in simulate(job).profiles:
        spans = [(task.start_ns, task.end_ns, task.stream) for task in profile.tasks]
        spans += [(comm.start_ns, comm.end_ns, comm.stream) for comm in profile.comms]
        free: dict[int, int] = {}
        for start, end, stream in sorted(spans):
            assert start >= free.get(stream, 0)
            free[stream] = end


@pytest.mark.parametrize("job", LAYOUTS, ids=str)
def test_host_calls_of_a_thread_nest(job: Job) -> None:
    for profile in simulate(replace(job, stacks=True, level="Level2")).profiles:
        stacks: dict[tuple[int, bool], list[int]] = {}
        for call in profile.calls:
            cann = call.kind in ("acl", "node", "hccl", "runtime")
            stack = stacks.setdefault((call.tid, cann), [])
            while stack and stack[-1] <= call.start_ns:
                stack.pop()
            assert not stack or call.end_ns <= stack[-1], call
            stack.append(call.end_ns)


def test_transfers_wait_for_the_last_member_and_end_together() -> None:
    result = simulate(replace(SMALL, faults=(Fault(kind="slow_rank_compute"),)))
    one, two = (profile.comms for profile in result.profiles)
    for left, right in zip(one, two, strict=True):
        last = max(left.start_ns, right.start_ns)
        assert all(task.start_ns >= last for task in left.transfers if task.link == "HCCS")
        assert abs(left.end_ns - right.end_ns) <= 3_000


def test_a_step_takes_as_long_as_a_real_one() -> None:
    assert 30_000_000 < step_ns(simulate(Job(steps=2)).profiles) < 120_000_000


def test_every_rank_is_in_one_group_of_each_kind() -> None:
    job = Job(ranks=16, tp=2, pp=2, ep=2)
    for name, size in (("tp", 2), ("pp", 2), ("dp", 4), ("exp", 2), ("default_group", 16)):
        members = [group.members for group in groups_of(job) if group.name == name]
        assert sorted(rank for ranks in members for rank in ranks) == list(range(16))
        assert {len(ranks) for ranks in members} == {size}


@pytest.mark.parametrize(
    ("layout", "says"),
    [
        ({"ranks": 8, "tp": 3}, "is not 8 ranks"),
        ({"ranks": 4, "ep": 3}, "does not divide dp"),
        ({"layers": 3, "pp": 2}, "does not divide 3 layers"),
        ({"hosts": 3}, "do not divide"),
        ({"ranks": 0}, "at least one"),
        ({"faults": (Fault(kind="retransmission"),)}, "needs several hosts"),
        ({"faults": (Fault(kind="pipeline_imbalance"),)}, "needs several stages"),
        ({"faults": (Fault(kind="skewed_clocks"),)}, "needs several hosts"),
        ({"faults": (Fault(kind="fused_comm_straggler"),)}, "needs a tensor-parallel group"),
        ({"faults": (Fault(kind="gc_pause", ranks=(99,)),)}, "out of range"),
        ({"faults": (Fault(kind="slow_link", ranks=(1,)),)}, "exactly two"),
        ({"faults": (Fault(kind="frequency_drop", amount=100),)}, "cannot fall"),
    ],
)
def test_an_impossible_job_is_refused(layout: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Job(**layout)  # type: ignore[arg-type]


COSTLY: tuple[FaultKind, ...] = tuple(kind for kind in KINDS if kind != "skewed_clocks")


@pytest.mark.parametrize("kind", COSTLY)
def test_a_planted_fault_makes_the_step_longer(kind: FaultKind) -> None:
    job = _with(kind)
    healthy = step_ns(simulate(replace(job, faults=())).profiles)
    assert step_ns(simulate(job).profiles) > healthy + 100_000


@pytest.mark.parametrize("kind", COSTLY)
def test_a_fault_of_one_step_leaves_the_steps_before_alone(kind: FaultKind) -> None:
    job = _with(kind, steps=(11,))
    faulty, healthy = simulate(job), simulate(replace(job, faults=()))
    for one, other in zip(faulty.profiles, healthy.profiles, strict=True):
        assert steps_of(one)[0] == steps_of(other)[0]


def _only(kind: FaultKind) -> tuple[Result, Result]:
    job = _with(kind)
    return simulate(job), simulate(replace(job, faults=()))


def test_a_slow_rank_computes_more_and_makes_the_others_wait() -> None:
    faulty, healthy = _only("slow_rank_compute")
    slow, other = (steps_of(profile)[0] for profile in faulty.profiles[:2])
    before = steps_of(healthy.profiles[0])[0]
    assert slow.compute_ns > before.compute_ns * 125 // 100
    assert other.exposed_ns > slow.exposed_ns + 1_000_000
    waits: dict[int, int] = {}
    for task in (task for comm in faulty.profiles[1].comms for task in comm.transfers):
        if task.name == "Notify_Wait":
            waits[task.dst] = waits.get(task.dst, 0) + task.end_ns - task.start_ns
    assert max(waits, key=waits.__getitem__) == 0


def test_the_injected_time_is_what_the_kernels_gained() -> None:
    faulty, healthy = _only("slow_rank_compute")
    gained = sum(
        steps_of(one)[index].compute_ns - steps_of(other)[index].compute_ns
        for one, other in zip(faulty.profiles, healthy.profiles, strict=True)
        for index in range(2)
    )
    assert sum(faulty.injected.values()) == gained


def test_a_slow_link_is_slow_between_its_ranks_only() -> None:
    faulty, _ = _only("slow_link")
    times: dict[tuple[int, int], int] = {}
    for profile in faulty.profiles:
        for task in (task for comm in profile.comms for task in comm.transfers if task.link == "HCCS"):
            pair = (min(task.src, task.dst), max(task.src, task.dst))
            times[pair] = times.get(pair, 0) + task.end_ns - task.start_ns
    assert times[0, 1] > 4 * max(time for pair, time in times.items() if pair != (0, 1))


def test_a_frequency_drop_shows_in_the_counter_and_in_the_kernels() -> None:
    faulty, _ = _only("frequency_drop")
    assert {mhz for _, mhz in faulty.profiles[0].frequency} == {1_206}
    assert {mhz for _, mhz in faulty.profiles[1].frequency} == {1_800}


def test_a_retransmission_is_recorded_as_a_retry() -> None:
    faulty, healthy = _only("retransmission")
    assert [sum(comm.retry for comm in profile.comms) for profile in faulty.profiles] == [2, 0, 0, 0]
    assert not any(comm.retry for profile in healthy.profiles for comm in profile.comms)


@pytest.mark.parametrize(
    ("kind", "name", "amount"),
    [
        ("recompilation", "opCompile", 12),
        ("synchronisation_calls", "aten::_local_scalar_dense", 64),
        ("ai_cpu_operators", "aten::nonzero", 6),
    ],
)
def test_a_fault_that_adds_calls_adds_so_many_each_step(kind: FaultKind, name: str, amount: int) -> None:
    faulty, healthy = _only(kind)
    counts = [sum(call.name == name for call in result.profiles[0].calls) for result in (faulty, healthy)]
    assert counts[0] - counts[1] == 2 * amount


def test_unaligned_sizes_are_no_multiple_of_512() -> None:
    faulty, healthy = _only("unaligned_sizes")
    sizes = [{comm.bytes % 512 for comm in result.profiles[0].comms if comm.bytes > 4} for result in (faulty, healthy)]
    assert sizes == [{4}, {0}]


def test_a_skewed_clock_shifts_times_and_nothing_else(tmp_path: Path) -> None:
    job = _with("skewed_clocks", SMALL)
    skewed, straight = simulate(job), simulate(replace(job, faults=()))
    assert [profile.clock_ns for profile in skewed.profiles] == [0, 3_700_000]
    assert skewed.profiles[1].tasks == straight.profiles[1].tasks


def test_the_cost_of_each_of_two_faults_is_measured_against_the_other_alone() -> None:
    job = replace(SMALL, faults=(Fault(kind="data_wait"), Fault(kind="gc_pause")))
    faults = truth_of(simulate(job))["faults"]
    assert isinstance(faults, list)
    costs = [fault["cost_ns_per_step"] for fault in faults]
    assert costs == [15_000_000, 20_000_000]


def test_the_truth_is_written_beside_the_profiles(written: Written) -> None:
    folder = written("ascend-text", SMALL, Options())
    truth = json.loads((folder / "truth.json").read_text())
    assert truth["schema"] == "hermes.truth/1"
    assert {(row["rank"], row["step"]) for row in truth["steps"]} == {
        (rank, step) for rank in (0, 1) for step in (10, 11)
    }


def test_several_formats_lie_in_folders_of_their_own(tmp_path: Path) -> None:
    folder = generate(tmp_path, SMALL, formats=["ascend-text", "kineto"])
    assert (folder / "kineto" / "rank1.pt.trace.json").exists()
    assert len(list((folder / "ascend-text").glob("*_ascend_pt"))) == 2


def test_twice_the_steps_and_ranks_are_four_times_the_work(tmp_path: Path) -> None:
    small = calls_of(lambda: generate(tmp_path / "small", SMALL, formats=["ascend-text"]))
    large = calls_of(lambda: generate(tmp_path / "large", replace(SMALL, ranks=4, steps=4), formats=["ascend-text"]))
    assert small > 10_000
    assert large < 4.2 * small


def calls_of(work: Callable[[], object]) -> int:
    """How many functions it calls, which a busy or a slow machine counts alike."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def test_contention_makes_kernels_longer_by_so_much_only_beside_transfers() -> None:
    job = Job(ranks=4, steps=1, layers=4, hosts=2)
    for alone, both in zip(simulate(job).profiles, simulate(replace(job, contention=30)).profiles, strict=True):
        usual = [task.end_ns - task.start_ns for task in alone.tasks if task.kind == "compute"]
        tasks = [task for task in both.tasks if task.kind == "compute"]
        longer = [(task.end_ns - task.start_ns) / ns for task, ns in zip(tasks, usual, strict=True)]
        comms = merged((comm.start_ns, comm.end_ns) for comm in both.comms)
        spans = [(task.start_ns, task.end_ns) for task in tasks]
        beside = [1 - total(without([span], comms)) / (span[1] - span[0]) for span in spans]
        for share in (0.0, 1.0):
            ratios = [ratio for ratio, part in zip(longer, beside, strict=True) if part == share]
            assert len(ratios) > 5
            assert ratios == pytest.approx([1 + 0.3 * share] * len(ratios), abs=0.01)
        # A kernel that runs already when a transfer begins.
        later = [ratio for ratio, part in zip(longer, beside, strict=True) if 0.5 < part < 1]
        assert later
        assert min(later) > 1.1


def test_the_order_in_which_streams_advance_changes_no_time_without_contention() -> None:
    job = Job(ranks=4, steps=2, layers=4, tp=2, hosts=2)
    usual, ordered = simulate(job), simulate(replace(job, contention=1))
    assert [len(profile.tasks) for profile in usual.profiles] == [len(profile.tasks) for profile in ordered.profiles]
    assert step_ns(usual.profiles) <= step_ns(ordered.profiles) <= 1.01 * step_ns(usual.profiles)
