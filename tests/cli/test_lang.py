"""Commands in Chinese, by option or by the locale: sentences are told, names and numbers stay."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import Hermes
from tests.precision.test_compare import network
from tests.shared_jobs import Jobs

from hermes.jobs.detect.alarm import Alarm, AlarmKind
from hermes.jobs.detect.alarm_findings import of_alarm
from hermes.jobs.detect.causes import Cause, Spent
from hermes.jobs.job_view import JobView, RankView
from hermes.jobs.messages import JobState
from hermes.report.running_jobs import draw
from hermes_testing import Fault, Job

ENGLISH = r"(?<![\w./:=(\-])[A-Za-z][a-z']+(?:[,;:]? [A-Za-z]?[a-z']+){3,}"
JOB = Job(ranks=2, steps=3, layers=1, faults=(Fault(kind="gc_pause", ranks=(1,)),))


def english(text: str) -> list[str]:
    return re.findall(ENGLISH, text)


def test_a_comparison_is_told_in_chinese(hermes: Hermes, jobs: Jobs) -> None:
    before, after = jobs.folder(Job(ranks=2, steps=3, layers=1), "ascend-db"), jobs.folder(JOB, "ascend-db")
    said = hermes("compare", str(before), str(after), "--lang", "zh").out
    assert "新出现" in said
    assert "未被掩盖的通信" in said
    assert english(said) == []


def test_the_work_list_of_operators_is_told_in_chinese(hermes: Hermes, jobs: Jobs) -> None:
    said = hermes("operators", str(jobs.folder(JOB, "ascend-db")), "--lang", "zh").out
    assert "受限于" in said
    assert english(said) == []


def test_two_recordings_are_compared_in_chinese(hermes: Hermes, tmp_path: Path) -> None:
    pair = network(tmp_path / "golden"), network(tmp_path / "target", mm1=lambda array: array * np.float32(1.01))
    said = hermes("precision", "compare", *map(str, pair), "--lang", "zh").out
    assert "两次运行从 aten.mm.default" in said
    assert english(said) == []


def test_the_locale_chooses_the_language(hermes: Hermes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text("import torch\nx = torch.ones(2).cuda()\n")
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert "能否迁移到昇腾 A2" in hermes("migrate", "scan", str(tmp_path)).out
    assert "Can it move to" in hermes("migrate", "scan", str(tmp_path), "--lang", "en").out


def test_a_running_job_is_shown_in_chinese() -> None:
    from rich.console import Console

    rank = RankView(
        rank=0, step=510, walls_ns=(10**7,) * 9, baseline_ns=10**7, samples_per_s=6400.0, tokens_per_s=None, mfu=None,
        split=((Spent.DATA_WAIT, 8e6),), memory_bytes=None,
    )  # fmt: skip
    alarm = Alarm(
        rank=0, kind=AlarmKind.SHIFT, step=520, since=500, before_ns=10**7, after_ns=2 * 10**7, score=9.0
    )  # fmt: skip
    slow = of_alarm(alarm, Cause(name=Spent.DATA_WAIT, rank=0, cost_ns=9_200_000, share=0.92), (0,)).message
    console = Console(width=130, record=True)
    console.print(draw([JobView(id="one", ranks=(rank,), said=(slow,), state=JobState.WATCHING)], "zh"))
    said = console.export_text()
    assert (
        "卡 0：自第 500 步起出现持续变慢，第 520 步察觉：每步 10.0 ms → 20.0 ms（+100%）；其中 92% 为等待输入数据"
        in said
    )
    assert "监视中" in said
    assert english(said) == []


def test_the_page_of_a_rule_and_a_case_are_told_in_chinese(hermes: Hermes) -> None:
    page = hermes("explain", "COM001", "--lang", "zh").out
    assert "## 何时不是问题" in page
    assert english(page) == []
    case = hermes("cases", "IO-01", "--lang", "zh").out
    assert "对策" in case
    assert english(case.partition("适用于")[0]) == []
    assert "IO-01" in hermes("cases", "加载", "--lang", "zh").out
