"""A profiler's own split of steps against the tasks of the capture: a contradiction is the first thing that is said."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hermes.base.say import say
from hermes.model.step_measures import AscendSplit
from hermes.profiles.load import load
from hermes.profiles.pipeline.analyze import analyze
from hermes.profiles.pipeline.profiler_step_split import contradictions
from hermes.store.cache import Cache

MS = 1_000_000
ROW = AscendSplit(
    rank=0, step=5, source="computed", compute_ns=27 * MS, exposed_comm_ns=10 * MS, overlapped_ns=0, comm_ns=10 * MS,
    free_ns=231 * MS, stage_ns=268 * MS, bubble_ns=0, preparing_ns=0,
)  # fmt: skip


def test_both_are_told_where_they_differ_by_more_than_a_twentieth_of_the_step() -> None:
    file = replace(ROW, source="reported", compute_ns=75 * MS, exposed_comm_ns=147 * MS, free_ns=70 * MS)
    (note,) = contradictions("here", [ROW], [file])
    assert say(note.message).startswith("step_trace_time contradicts the kernels")
    assert "75.0 ms and 147 ms" in say(note.message)
    assert "27.0 ms and 10.0 ms" in say(note.message)
    assert note.level == "degraded"


# Versions of the profiler end a step at its last task, or at the first one of the next step.
LONGER = replace(ROW, free_ns=631 * MS, stage_ns=668 * MS)


@pytest.mark.parametrize("file", [ROW, LONGER, replace(ROW, compute_ns=28 * MS), replace(ROW, step=6, compute_ns=0)])
def test_small_differences_and_other_steps_are_no_contradiction(file: AscendSplit) -> None:
    assert not contradictions("here", [ROW], [file])
    assert not contradictions("here", [], [file])


@pytest.fixture
def capture(shared: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "rank0_ascend_pt"
    shutil.copytree(shared / "ascend/alexnet_text_level2/rank0_ascend_pt", folder, copy_function=shutil.copyfile)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)
    return folder


def test_a_contradiction_of_a_real_capture_is_the_first_sentence_and_lowers_trust(capture: Path, store: Cache) -> None:
    sound = analyze(load([capture], store))
    assert not any("contradicts" in say(sentence) for sentence in sound.coverage.missing)
    file = capture / "ASCEND_PROFILER_OUTPUT/step_trace_time.csv"
    head, row = file.read_text().splitlines()[:2]
    cells = row.split(",")
    cells[head.split(",").index("Computing")] = "88000.5"
    file.write_text(f"{head}\n{','.join(cells)}\n")
    report = analyze(load([capture], store))
    assert say(report.coverage.missing[0]).startswith("step_trace_time contradicts the kernels")
    assert max(one.confidence for one in report.findings) < max(one.confidence for one in sound.findings)
