"""What tests share: nobody changes another's report, and nobody waits for another without end."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest
from tests.shared_jobs import TWO, Jobs

FIRST = (TWO, "ascend-text")


def test_a_report_that_a_test_changes_is_the_same_for_the_next_one(jobs: Jobs) -> None:
    first, second = jobs.report(*FIRST), jobs.report(*FIRST)
    assert first == second
    object.__setattr__(first, "title", "changed")
    assert first != second
    assert jobs.report(*FIRST) == second


def test_an_input_that_another_worker_never_finishes_is_named_with_its_lock(tmp_path: Path) -> None:
    own = Jobs(tmp_path / "jobs", patience_s=0.0)
    made = own.folder(*FIRST)
    (lock,) = (tmp_path / "jobs").glob("*.lock")
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(TimeoutError) as late:
            own.folder(*FIRST)
    assert str(lock) in str(late.value)
    assert str(made) in str(late.value)
    assert own.folder(*FIRST) == made
