"""The picture of running jobs for a terminal: ranks, step times, splits, alarms, captures, findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class RankView:
    """One rank: its last step, times of its latest steps (ns), rates a second, and mean ns by what was waited for."""

    rank: int
    step: int
    walls_ns: tuple[int, ...]
    baseline_ns: int | None
    samples_per_s: float | None
    tokens_per_s: float | None
    mfu: float | None
    split: tuple[tuple[str, float], ...]
    memory_bytes: int | None
    score: float | None = None
    """Of its last step, in deviations above the mean, where the preset `ksigma` looks on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One job, what was said about it last, and its state: `baseline`, `watching` or `at risk`."""

    id: str
    ranks: tuple[RankView, ...]
    said: tuple[str, ...]
    state: str = ""


def sparkline(walls_ns: Sequence[int], width: int = _WIDTH) -> str:
    """The latest step times as bars, each the longest of an equal part of the steps, from 0 to the longest shown."""
    if not walls_ns:
        return ""
    count = min(width, len(walls_ns))
    edges = [len(walls_ns) * place // count for place in range(count + 1)]
    peaks = [max(walls_ns[first:end]) for first, end in pairwise(edges)]
    top = max(max(peaks), 1)
    return "".join(_BARS[min(peak * len(_BARS) // top, len(_BARS) - 1)] for peak in peaks)


def draw(jobs: Sequence[JobView]) -> RenderableType:
    """All jobs, one table each."""
    if not jobs:
        return Text("no job runs; start one with `hermes run -- python train.py`", style="dim")
    parts: list[RenderableType] = []
    for job in jobs:
        parts.append(_table(job))
        parts += [Text(f"  {_plain(line)}") for line in job.said]
    return Group(*parts)


def _table(job: JobView) -> Table:
    table = Table(
        title=Text(f"{_plain(job.id)}{': ' if job.state else ''}{job.state}"), title_justify="left", expand=False
    )
    scored = any(rank.score is not None for rank in job.ranks)
    scores = ("score",) if scored else ()
    for name in (
        "rank",
        "step",
        "ms",
        "baseline",
        *scores,
        "latest steps",
        "samples/s",
        "tokens/s",
        "MFU",
        "GB",
        "goes to",
    ):
        table.add_column(name, justify="left" if name in ("latest steps", "goes to") else "right")
    for rank in job.ranks:
        walls = sorted(rank.walls_ns)
        now = walls[len(walls) // 2] if walls else None
        table.add_row(
            str(rank.rank), str(rank.step), _ms(now), _ms(rank.baseline_ns),
            *(["-" if rank.score is None else f"{rank.score:.1f}"] if scored else []), sparkline(rank.walls_ns),
            _rate(rank.samples_per_s), _rate(rank.tokens_per_s),
            "-" if rank.mfu is None else f"{rank.mfu:.1%}",
            "-" if rank.memory_bytes is None else f"{rank.memory_bytes / 1e9:.2f}", _shares(rank),
        )  # fmt: skip
    return table


def _shares(rank: RankView) -> str:
    total = sum(rank.walls_ns) / len(rank.walls_ns) if rank.walls_ns else 0
    largest = sorted(rank.split, key=lambda part: -part[1])[:3]
    return ", ".join(f"{name} {ns / total:.0%}" for name, ns in largest if total and ns / total >= 0.01)


def _ms(value: int | None) -> str:
    return "-" if value is None else f"{value / 1e6:.2f}"


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _plain(text: str) -> str:
    return "".join(character if character.isprintable() else "�" for character in text)
