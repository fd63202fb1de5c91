"""Real ranks on gloo: the one that sleeps while the others wait for it is named, and nobody where all are even."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from benchmarks.stragglers import named, train

from hermes.jobs.detect.job_alarms import replay
from hermes.jobs.detect.robust_detector import Robust

pytestmark = pytest.mark.live

RANKS, STEPS = 3, 120


def test_each_rank_that_sleeps_longer_is_named_and_no_other(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    ranks = train(sys.executable, tmp_path, "sleeps", STEPS, RANKS)
    right, wrong = named(replay(ranks, Robust), STEPS, RANKS)
    assert wrong == 0
    assert right >= 2
    # It slept: by what it computed nobody could have told it from those that waited.
    assert all(steps.of("comm_ns").min() >= 0 for steps in ranks)


def test_ranks_that_are_even_blame_nobody(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    ranks = train(sys.executable, tmp_path, "even", 2 * STEPS, RANKS)
    assert [notice for notice in replay(ranks, Robust) if notice.kind in ("straggler", "untold")] == []
