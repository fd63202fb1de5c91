"""The steps of the job that a profile lies in: its log, what was captured, where it became slower."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.inside.wire.rundir import JOB_FILE
from hermes.inside.wire.step_record import FIELDS, FLAGS, NULL, pack
from hermes.inside.wire.steplog import LogWriter
from hermes.jobs.steps_around_profile import changes, logged, run_folder


def record(step: int, wall_ns: int, *, profiled: bool) -> bytes:
    values = dict.fromkeys(FIELDS, NULL) | {
        "index": step, "step": step, "end_ns": step * 10**9, "wall_ns": wall_ns, "samples": 64,
        "flags": FLAGS["profiled"] if profiled else 0, "data_ns": wall_ns // 2,
    }  # fmt: skip
    return pack(*[values[name] for name in FIELDS if name != "check"])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory of two ranks that became slower at step 400; steps 100 to 102 were captured."""
    (tmp_path / JOB_FILE).write_text("{}")
    for rank in (0, 1):
        log = LogWriter(tmp_path / f"steps-rank{rank}.log", {"rank": rank})
        for step in range(1, 701):
            noise = (step * 7919) % 100 * 10_000
            wall = (20_000_000 if step < 400 else 40_000_000) + noise + rank
            log.append(record(step, wall, profiled=100 <= step < 103))
    (tmp_path / "captures" / "one" / "rank0").mkdir(parents=True)
    return tmp_path


def test_a_capture_knows_the_job_that_it_lies_in(run: Path) -> None:
    log = logged([run / "captures" / "one" / "rank0"], {})
    assert log is not None
    assert (log.folder, log.ranks, log.steps, log.captured) == (run, 2, 700, ((100, 103),))
    assert {round(one.alarm.since, -1) for one in log.changes} == {400}
    # Both ranks slowed down at once: that is one change.
    assert [one.alarm.rank for one in log.changes] == [0]
    assert all(one.cause is not None for one in log.changes)


def test_points_hold_the_least_the_median_and_the_most_of_all_ranks(run: Path) -> None:
    log = logged([run], {})
    assert log is not None
    assert len(log.points) <= 600
    first, *_ = log.points
    # Two steps of two ranks share a point.
    walls = sorted(20_000_000 + (step * 7919) % 100 * 10_000 + rank for step in (1, 2) for rank in (0, 1))
    assert first == (1, walls[0], walls[1], walls[3])


def test_elsewhere_there_is_no_log(tmp_path: Path) -> None:
    assert run_folder([tmp_path]) is None
    assert logged([tmp_path], {}) is None
    (tmp_path / JOB_FILE).write_text("{}")
    (tmp_path / "steps-rank0.log").write_bytes(b"no log" * 100)
    assert logged([tmp_path], {}) is None


def test_a_profile_of_many_steps_tells_itself_where_it_became_slower() -> None:
    steps = [(step, (20_000_000 if step < 400 else 40_000_000) + (step * 7919) % 100 * 10_000) for step in range(700)]
    (found,) = changes({3: steps[::-1]}, {})
    assert (found.alarm.rank, round(found.alarm.since, -1)) == (3, 400)
    assert changes({3: steps[:300]}, {}) == ()
