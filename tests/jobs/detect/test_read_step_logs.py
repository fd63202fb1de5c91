"""Logs of others, periods, stragglers and causes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.base.errors import HermesError
from hermes.base.say import say
from hermes.inside.wire.step_record import FLAGS
from hermes.jobs.alarms_in_step_log import detect_in
from hermes.jobs.detect.alarm_findings import of_cause
from hermes.jobs.detect.causes import Spent, split, what_costs, why_slower
from hermes.jobs.detect.messages import UNTOLD_DEVICE
from hermes.jobs.detect.periodic_slow_steps import periodic
from hermes.jobs.detect.read_step_logs import Steps, from_walls, read_steps
from hermes.jobs.detect.straggler import straggler, untold

MS = 1_000_000


def test_a_log_of_torch_npu_is_read(tmp_path: Path) -> None:
    (tmp_path / "perf_pt_4711_3.log").write_text("[STEPTIME]:1000,1010\n[STEPTIME]:1010,1025\ngarbage\n")
    (steps,) = read_steps(tmp_path / "perf_pt_4711_3.log")
    assert steps.columns["wall_ns"].tolist() == [10 * MS, 15 * MS]
    assert (steps.rank, steps.damaged) == (3, 1)


def test_a_log_of_mindspore_and_its_rotated_part_are_read(tmp_path: Path) -> None:
    (tmp_path / "perf_ms_4711_0.log.1").write_text("STEPTIME:0,7\n")
    (tmp_path / "perf_ms_4711_0.log").write_text("STEPTIME:7,9\n")
    (steps,) = read_steps(tmp_path)
    assert steps.columns["wall_ns"].tolist() == [7 * MS, 2 * MS]


def test_lines_of_json_are_read(tmp_path: Path) -> None:
    lines = [
        {"wall_ms": 1.5, "tokens": 8},
        {"wall_ns": 7, "step": 4},
        {"loss": 1},
        {"wall_ns": 10**30},
        {"wall_ns": -1},
    ]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n[]\n{")
    (steps,) = read_steps(tmp_path / "log.jsonl")
    assert steps.columns["wall_ns"].tolist() == [1_500_000, 7]
    assert steps.columns["step"].tolist() == [0, 4]
    assert steps.damaged == 5


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300), st.sampled_from([b"", b"[STEPTIME]:1,2\n", b'{"wall_ns": 1}\n', b"HERMLOG1"]))
def test_junk_is_refused_or_counted(tmp_path: Path, junk: bytes, before: bytes) -> None:
    path = tmp_path / "perf_pt_1_0.log"
    path.write_bytes(before + junk)
    try:
        (steps,) = read_steps(path)
    except HermesError:
        return
    assert len(steps) >= 1


def test_a_folder_without_logs_is_told(tmp_path: Path) -> None:
    with pytest.raises(HermesError, match="no step logs"):
        read_steps(tmp_path)
    with pytest.raises(HermesError, match="this step log does not exist"):
        read_steps(tmp_path / "absent")


def test_even_spikes_have_a_period_and_uneven_ones_none() -> None:
    walls = np.full(1000, 10 * MS)
    walls[49::100] += 40 * MS
    found = periodic(from_walls(walls))
    assert found is not None
    assert (found.period, found.count, found.extra_ns) == (100, 10, 40 * MS)
    assert found.share == pytest.approx(400 / (10_000 + 400))
    walls = np.full(1000, 10 * MS)
    walls[np.random.default_rng(1).choice(1000, 20, replace=False)] += 40 * MS
    assert periodic(from_walls(walls)) is None


def counters(wall: int, *, rank: int = 0, count: int = 100, **each: int) -> Steps:
    columns = {name: np.full(count, value) for name, value in each.items()}
    return from_walls(np.full(count, wall), rank=rank, **columns)


def test_the_rank_that_works_while_the_others_wait_is_the_straggler() -> None:
    ranks = [counters(100 * MS, rank=rank, comm_ns=60 * MS) for rank in (0, 1, 3)]
    ranks.append(counters(100 * MS, rank=2, comm_ns=5 * MS))
    found = straggler(ranks)
    assert found is not None
    assert (found.rank, found.own_ns, found.others_ns, found.waited_ns) == (2, 95 * MS, 40 * MS, 55 * MS)


def test_ranks_that_all_work_alike_or_that_nobody_counted_have_no_straggler() -> None:
    assert straggler([counters(100 * MS, rank=rank, comm_ns=10 * MS) for rank in range(4)]) is None
    assert straggler([counters(100 * MS, rank=rank) for rank in range(4)]) is None
    assert straggler([counters(100 * MS, comm_ns=1)]) is None


def test_of_two_ranks_that_sleep_the_one_that_sleeps_longer_is_named_however_little_it_computes() -> None:
    ranks = [counters(62 * MS, rank=0, cpu_ns=9 * MS, delay_ns=0, comm_ns=40 * MS)]
    ranks.append(counters(62 * MS, rank=1, cpu_ns=2 * MS, delay_ns=0, comm_ns=1 * MS))
    found = straggler(ranks)
    assert found is not None
    assert (found.rank, found.own_ns, found.others_ns) == (1, 61 * MS, 22 * MS)


def test_ranks_that_are_late_in_turn_have_no_straggler() -> None:
    dice = np.random.default_rng(3)
    for seed in range(10):
        late = np.random.default_rng(seed).integers(0, 4, 60)
        own = [20 * MS + 30 * MS * (late == rank) + dice.normal(0, MS, 60) for rank in range(4)]
        walls = np.max(own, axis=0) + MS
        ranks = [from_walls(walls, rank=rank, comm_ns=(walls - one).astype(int)) for rank, one in enumerate(own)]
        assert straggler(ranks) is None


def test_where_collectives_are_not_timed_nobody_is_blamed_and_it_is_said_how_to_time_them() -> None:
    ranks = [counters(100 * MS, rank=rank, cpu_ns=(90 if rank == 2 else 20) * MS, delay_ns=0) for rank in range(4)]
    assert straggler(ranks) is None
    why = untold(ranks)
    assert why is not None
    assert "hermes run --collectives" in say(why)
    # Ranks that compute all the time wait for nobody, and where it is recorded it is told.
    assert untold([counters(100 * MS, rank=rank, cpu_ns=95 * MS, delay_ns=0) for rank in range(4)]) is None
    assert untold([counters(100 * MS, rank=rank, cpu_ns=20 * MS, delay_ns=0, comm_ns=MS) for rank in range(4)]) is None


def test_of_a_device_the_host_tells_no_straggler() -> None:
    ranks = [
        Steps(
            rank=rank, columns=counters(100 * MS, comm_ns=(1 + 60 * rank) * MS).columns, about={"device": "Ascend910"}
        )
        for rank in range(2)
    ]
    assert straggler(ranks) is None
    assert untold(ranks) == UNTOLD_DEVICE


@pytest.mark.parametrize(
    ("name", "each"),
    [
        ("data wait", {"data_ns": 30 * MS, "data_cpu_ns": 0}),
        ("data work", {"data_ns": 30 * MS, "data_cpu_ns": 30 * MS, "cpu_ns": 40 * MS}),
        ("garbage collection", {"gc_ns": 30 * MS, "cpu_ns": 40 * MS}),
        ("CPU contention", {"delay_ns": 30 * MS}),
        ("checkpoint", {"save_ns": 30 * MS}),
        ("host compute", {"cpu_ns": 40 * MS}),
        ("blocked", {}),
    ],
)
def test_what_grew_is_the_cause(name: str, each: dict[str, int]) -> None:
    normal = {"data_ns": 0, "data_cpu_ns": 0, "gc_ns": 0, "delay_ns": 0, "save_ns": 0, "cpu_ns": 10 * MS}
    cause = why_slower(counters(10 * MS, **normal), counters(40 * MS, **(normal | each)))
    assert cause is not None
    assert (cause.name, cause.cost_ns) == (name, 30 * MS)
    assert cause.name.remedy.identifier == f"remedy.{name}"
    assert of_cause(cause).about is cause.name.about


def test_nothing_measured_and_nothing_slower_have_no_cause() -> None:
    assert why_slower(counters(10), counters(20)) is None
    assert why_slower(counters(20, gc_ns=0), counters(10, gc_ns=0)) is None


def test_what_costs_all_the_time_is_told_without_a_change() -> None:
    normal = {"data_ns": 4 * MS, "data_cpu_ns": 0, "gc_ns": 2 * MS, "delay_ns": 0, "cpu_ns": 5 * MS}
    assert [cause.name for cause in what_costs([counters(10 * MS, **normal)])] == ["data wait", "garbage collection"]
    assert what_costs([counters(10 * MS)]) == ()


@pytest.mark.parametrize(
    ("each", "named"),
    [
        ({"process_cpu_ns": 9 * MS, "backward_ns": 2 * MS}, ["interpreter lock"]),
        # A pass backward, a collective and a graph that a framework runs compute in threads of their own.
        ({"process_cpu_ns": 9 * MS, "backward_ns": 8 * MS}, []),
        ({"process_cpu_ns": 9 * MS, "backward_ns": 2 * MS, "comm_ns": 6 * MS}, []),
        ({"process_cpu_ns": 9 * MS}, []),
        # Nobody else computes: what is waited for is no thread of the process.
        ({"process_cpu_ns": 2 * MS, "backward_ns": 2 * MS}, []),
    ],
)
def test_a_thread_that_computes_while_the_stepping_one_stands_still_holds_the_lock(
    each: dict[str, int], named: list[str]
) -> None:
    steps = counters(10 * MS, cpu_ns=1 * MS, delay_ns=0, **each)
    assert [cause.name for cause in what_costs([steps])] == named


def test_counters_read_now_and_then_are_spread_over_all_steps() -> None:
    from hermes.inside.wire.step_record import NULL

    delay = np.full(100, NULL)
    delay[9::10] = 40 * MS
    (cause,) = what_costs([from_walls(np.full(100, 10 * MS), delay_ns=delay)])
    assert (cause.name, cause.share) == ("CPU contention", pytest.approx(0.404, abs=0.01))


def test_the_whole_road_from_a_log_to_a_named_cause(tmp_path: Path) -> None:
    dice = np.random.default_rng(1)
    lines = []
    for step in range(600):
        wait = 0.5 if step < 400 else 6.0
        lines.append(
            {"step": step, "wall_ms": 10 + wait + dice.normal(0, 0.2), "data_ns": wait * MS, "data_cpu_ns": 0}
            | {"flags": FLAGS["first"] if step == 0 else 0}
        )
    (tmp_path / "log").write_text("\n".join(map(json.dumps, lines)))
    found = detect_in(tmp_path / "log", preset="robust", environment={})
    (one,) = found.alarms
    assert 400 <= one.alarm.step < 410
    assert one.cause is not None
    assert (one.cause.name, one.cause.share) == ("data wait", pytest.approx(1, abs=0.1))


def test_copies_to_the_device_are_a_part_of_their_own() -> None:
    columns = {"cpu_ns": [400] * 10, "delay_ns": [0] * 10, "data_ns": [100] * 10}
    plain = split(from_walls([1000] * 10, **columns))
    moved = split(from_walls([1000] * 10, **columns, transfer_ns=[600] * 10))
    assert plain is not None
    assert moved is not None
    assert Spent.COPIES not in plain
    assert (plain[Spent.BLOCKED], plain[Spent.HOST_COMPUTE]) == (500, 400)
    # A driver waits first, and computes or spins the rest.
    assert (moved[Spent.COPIES], moved[Spent.BLOCKED], moved[Spent.HOST_COMPUTE]) == (600, 0, 300)
    grown = why_slower(from_walls([1000] * 10, **columns, transfer_ns=[0] * 10),
                       from_walls([1600] * 10, **columns, transfer_ns=[590] * 10))  # fmt: skip
    assert grown is not None
    assert grown.name == "copies to the device"
