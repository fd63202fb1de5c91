"""A file that no finding rests on may be damaged: coverage and confidence fall, and all else stays as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.model.finding import Loss
from hermes.model.report import Report
from hermes.profiles.api import analyze, load
from hermes.store.cache import Cache
from hermes_testing import Fault, Job, generate

_LATE = 1
"""The rank on which operators are compiled anew."""


def _said(report: Report) -> list[tuple[object, ...]]:
    def of(one: Loss) -> tuple[object, ...]:
        return one.code, one.ranks, one.blames, one.cost_ns, one.gain, one.explained_by, one.state

    return [of(one) for one in (*report.findings, *report.plan.minor)]


def _plan(report: Report) -> list[tuple[object, ...]]:
    return [(one.codes, one.gain, one.title, one.do) for one in report.plan.actions]


@pytest.mark.parametrize("kept", [0.5, 0.0], ids=["half", "empty"])
def test_memory_records_of_another_rank_explain_nothing_of_a_compilation(kept: float, tmp_path: Path) -> None:
    made = generate(
        tmp_path / "job",
        Job(ranks=4, steps=2, layers=2, seed=0, faults=(Fault(kind="recompilation", ranks=(_LATE,)),)),
        formats=["ascend-text"],
    )
    cache = Cache(tmp_path / "cache")
    whole = analyze(load([made], cache))
    explained = {one.code: one.explained_by for one in whole.findings}
    assert "CPU002" in explained["COM002"]

    records = sorted(made.rglob("memory_record.csv"))
    assert len(records) == 4
    other = records[_LATE + 1]
    content = other.read_bytes()
    other.write_bytes(content[: int(len(content) * kept)])
    damaged = analyze(load([made], cache))

    assert _said(damaged) == _said(whole)
    assert _plan(damaged) == _plan(whole)
    assert damaged.verdict.fault == whole.verdict.fault
    assert max(one.confidence for one in damaged.findings) < max(one.confidence for one in whole.findings)
