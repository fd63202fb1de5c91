"""The picture of running jobs for a terminal: ranks, step times, splits, alarms, captures, findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 24
_WIDE = 120
"""Columns of a terminal from which on all stands in one table."""
_TOLD = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    """What one kind of collective of one group moved since the job began; `ns` is 0 where nobody timed it."""

    kind: str
    group: str
    calls: int
    size_bytes: int
    ns: int

    @property
    def gb_per_s(self) -> float:
        """Bytes by time, 10^9 a second."""
        return self.size_bytes / self.ns if self.ns else 0.0


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
    bandwidth: tuple[Bandwidth, ...] = ()
    """Of its collectives, where they are timed."""
    loss: float | None = None
    gradient_norm: float | None = None
    update_ratio: float | None = None
    """Of the last step that was looked at: what the optimizer changed of the parameters, by norm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One job, what was said about it last, and its state: `baseline`, `watching`, `at risk` or `no progress`.

    `stalled` says of the last since when no step has ended, and where the ranks stand; `alarms` counts those that were
    noticed here, `slow` is whether the last is not over.
    """

    id: str
    ranks: tuple[RankView, ...]
    said: tuple[str, ...]
    state: str = ""
    stalled: str | None = None
    alarms: int = 0
    slow: bool = False


def sparkline(walls_ns: Sequence[int], width: int = _WIDTH) -> str:
    """The latest step times as bars, each the longest of an equal part of the steps, from 0 to the longest shown."""
    if not walls_ns:
        return ""
    count = min(width, len(walls_ns))
    edges = [len(walls_ns) * place // count for place in range(count + 1)]
    peaks = [max(walls_ns[first:end]) for first, end in pairwise(edges)]
    top = max(max(peaks), 1)
    return "".join(_BARS[min(peak * len(_BARS) // top, len(_BARS) - 1)] for peak in peaks)


def draw(jobs: Sequence[JobView], tell: Callable[[str], str] = str) -> RenderableType:
    """All jobs, one table each, in the reader's language."""
    if not jobs:
        return Text(tell("no job runs; start one with `hermes run -- python train.py`"), style="dim")
    parts: list[RenderableType] = []
    for job in jobs:
        parts.append(_Ranks(job, tell))
        if job.stalled:
            parts.append(Text(f"  {tell(_plain(job.stalled))}", style="bold"))
        parts += [Text(f"  {tell(_plain(line))}") for line in bandwidth_lines(job)]
        parts += [Text(f"  {tell(_plain(line))}") for line in job.said]
    return Group(*parts)


def bandwidth_lines(job: JobView) -> list[str]:
    """The collectives that took the most time, each with the slowest and the fastest rank."""
    by_kind: dict[tuple[str, str], list[Bandwidth]] = {}
    for rank in job.ranks:
        for one in rank.bandwidth:
            if one.ns:
                by_kind.setdefault((one.kind, one.group), []).append(one)
    largest = sorted(by_kind.items(), key=lambda pair: -sum(one.ns for one in pair[1]))[:_TOLD]
    lines = []
    for (kind, group), found in largest:
        rates = sorted(one.gb_per_s for one in found)
        span = f"{rates[0]:.2f}" if len(rates) == 1 else f"{rates[0]:.2f} to {rates[-1]:.2f}"
        size = sum(one.size_bytes for one in found) / max(sum(one.calls for one in found), 1)
        lines.append(f"{kind}, group {group}: {span} GB/s, {size / 1e6:.2f} MB a call")
    return lines


class _Ranks:
    """The ranks of a job: one table where the terminal is wide, else what steps go to stands below it."""

    def __init__(self, job: JobView, tell: Callable[[str], str]) -> None:
        self._job = job
        self._tell = tell

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.max_width >= _WIDE
        yield _table(self._job, self._tell, wide=wide)
        if not wide:
            slowest = sorted(self._job.ranks, key=lambda rank: -max(rank.walls_ns, default=0))[:_TOLD]
            for rank in sorted(slowest, key=lambda rank: rank.rank):
                parts = _shares(rank, self._tell)
                yield Text(
                    f"  {self._tell(f'rank {rank.rank} goes to')} {parts or self._tell('nothing that is measured')}"
                )


def _table(job: JobView, tell: Callable[[str], str], *, wide: bool) -> Table:
    state = f": {tell(job.state)}" if job.state else ""
    table = Table(title=Text(f"{_plain(job.id)}{state}"), title_justify="left", expand=False)
    columns = {name: [cell(rank) for rank in job.ranks] for name, cell in _CELLS.items()}
    columns["latest steps"] = [sparkline(rank.walls_ns, _WIDTH if wide else _WIDTH // 2) for rank in job.ranks]
    if wide:
        columns["goes to"] = [_shares(rank, tell) for rank in job.ranks]
    # Where the terminal is narrow, what no rank has takes no room; a number is never cut.
    shown = [name for name, cells in columns.items() if wide or name not in _SPARE or set(cells) != {"-"}]
    optional = ("score", "loss", "gradients", "update")
    shown = [name for name in shown if name not in optional or set(columns[name]) != {"-"}]
    for name in shown:
        table.add_column(
            tell(name), justify="left" if name in ("latest steps", "goes to") else "right", no_wrap=name != "goes to"
        )
    for row in zip(*(columns[name] for name in shown), strict=True):
        table.add_row(*row)
    return table


def _middle(rank: RankView) -> int | None:
    walls = sorted(rank.walls_ns)
    return walls[len(walls) // 2] if walls else None


def _shares(rank: RankView, tell: Callable[[str], str]) -> str:
    total = sum(rank.walls_ns) / len(rank.walls_ns) if rank.walls_ns else 0
    largest = sorted(rank.split, key=lambda part: -part[1])[:3]
    return ", ".join(f"{tell(name)} {ns / total:.0%}" for name, ns in largest if total and ns / total >= 0.01)


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _ms(value: int | None) -> str:
    return "-" if value is None else f"{value / 1e6:.2f}"


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _plain(text: str) -> str:
    return "".join(character if character.isprintable() else "�" for character in text)


_SPARE = frozenset({"samples/s", "tokens/s", "MFU", "GB", "loss", "gradients", "update"})
_CELLS: Mapping[str, Callable[[RankView], str]] = {
    "rank": lambda rank: str(rank.rank),
    "step": lambda rank: str(rank.step),
    "ms": lambda rank: _ms(_middle(rank)),
    "baseline": lambda rank: _ms(rank.baseline_ns),
    "score": lambda rank: "-" if rank.score is None else f"{rank.score:.1f}",
    "latest steps": lambda _rank: "",
    "samples/s": lambda rank: _rate(rank.samples_per_s),
    "tokens/s": lambda rank: _rate(rank.tokens_per_s),
    "MFU": lambda rank: "-" if rank.mfu is None else f"{rank.mfu:.1%}",
    "GB": lambda rank: "-" if rank.memory_bytes is None else f"{rank.memory_bytes / 1e9:.2f}",
    "loss": lambda rank: _short(rank.loss),
    "gradients": lambda rank: _short(rank.gradient_norm),
    "update": lambda rank: _short(rank.update_ratio),
}
