"""The picture of running jobs: what is known is shown, what is not is a dash, and no name steers the terminal."""

from __future__ import annotations

import io

from rich.console import Console

from hermes.jobs.detect.causes import Spent
from hermes.jobs.job_view import JobView, RankView
from hermes.jobs.messages import JobState
from hermes.report.running_jobs import draw, sparkline


def picture(*jobs: JobView) -> str:
    out = io.StringIO()
    Console(file=out, width=160, force_terminal=False).print(draw(jobs))
    return out.getvalue()


def rank(**changes: object) -> RankView:
    known = {
        "rank": 3, "step": 4711, "walls_ns": (10_000_000,) * 40, "baseline_ns": 8_000_000, "samples_per_s": 3200.0,
        "tokens_per_s": None, "mfu": 0.42,
        "split": ((Spent.DATA_WAIT, 4e6), (Spent.HOST_COMPUTE, 5e6), (Spent.BLOCKED, 1e3)),
        "memory_bytes": 2_500_000_000,
    }  # fmt: skip
    return RankView(**(known | changes))  # type: ignore[arg-type]


def test_a_rank_shows_what_is_known_of_it() -> None:
    text = picture(JobView(id="train-1-2", ranks=(rank(),), said=("rank 3 is slower",)))
    for part in ("train-1-2", "4711", "10.00", "8.00", "3,200", "42.0%", "2.50", "rank 3 is slower"):
        assert part in text
    assert "work on the host 50%, waiting for input 40%" in text
    assert "lock" not in text


def test_what_is_not_measured_is_a_dash() -> None:
    unknown = rank(samples_per_s=None, mfu=None, memory_bytes=None, baseline_ns=None, split=(), walls_ns=())
    assert picture(JobView(id="a", ranks=(unknown,), said=())).count(" - ") >= 6


def test_no_job_says_how_to_start_one() -> None:
    assert "hermes run" in picture()


def test_control_characters_of_a_job_do_not_reach_the_terminal() -> None:
    text = picture(JobView(id="a\x1b[2Jb", ranks=(), said=("[red]\x07x",)))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[red]" in text


def test_a_sparkline_keeps_single_slow_steps() -> None:
    assert sparkline([]) == ""
    assert sparkline([1, 1, 1, 8]) == "▂▂▂█"
    walls = [10] * 1000
    walls[500] = 80
    assert len(sparkline(walls)) == 24
    assert sparkline(walls).count("█") == 1


def test_a_narrow_terminal_cuts_no_number() -> None:
    console = Console(width=80, file=io.StringIO(), record=True)
    shown = rank(rank=3, step=123_456, mfu=None, tokens_per_s=None, score=12.3)
    console.print(draw((JobView(id="train-1-2", ranks=(shown,), said=(), state=JobState.WATCHING),)))
    text = console.export_text()
    assert "…" not in text
    assert "123456" in text
    assert "12.3" in text
    assert "MFU" not in text
    assert "  rank 3 goes to " in text
    assert max(map(len, text.splitlines())) <= 80
