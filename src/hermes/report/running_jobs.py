"""Draws the running jobs of this machine on a terminal, in the reader's language."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text as Line

from hermes.base.message import Rank, Word, message, sentence
from hermes.base.sanitize_text import harmless_line
from hermes.base.say import say
from hermes.jobs.api import JobView, RankView, bandwidth_lines

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 24
_WIDE = 120
"""The terminal width in columns from which all values of a rank stand in one table."""
_TOLD = 4
_ABSENT = "-"


class JobColumn(Word):
    """A column of the table of ranks that shows a running job."""

    RANK = "rank"
    STEP = "step"
    MS = "ms"
    BASELINE = "baseline"
    SCORE = "score"
    LATEST = "latest steps"
    SAMPLES = "samples/s"
    TOKENS = "tokens/s"
    MFU = "MFU"
    MEMORY = "GB"
    LOSS = "loss"
    GRADIENTS = "gradients"
    UPDATE = "update"
    SPENT = "goes to"


NO_JOB = sentence("jobs.no_job")
"""Says that no job is running."""

NOTHING_MEASURED = sentence("jobs.nothing_measured")
"""Says that no counter records the steps of a rank."""


@message("jobs.rank_goes_to")
def rank_goes_to(*, rank: Rank) -> None:
    """Introduces the list of what a rank's step time goes to."""


def sparkline(walls_ns: Sequence[int], width: int = _WIDTH) -> str:
    """The latest step times as bars, each the longest of an equal part of the steps, from 0 to the longest shown."""
    if not walls_ns:
        return ""
    count = min(width, len(walls_ns))
    edges = [len(walls_ns) * place // count for place in range(count + 1)]
    peaks = [max(walls_ns[first:end]) for first, end in pairwise(edges)]
    top = max(max(peaks), 1)
    return "".join(_BARS[min(peak * len(_BARS) // top, len(_BARS) - 1)] for peak in peaks)


def draw(jobs: Sequence[JobView], language: str = "en") -> RenderableType:
    """All running jobs, one table for each job."""
    if not jobs:
        return Line(say(NO_JOB, language), style="dim")
    parts: list[RenderableType] = []
    for job in jobs:
        parts.append(_Ranks(job, language))
        if job.stalled:
            parts.append(Line(f"  {harmless_line(say(job.stalled, language))}", style="bold"))
        parts += [Line(f"  {harmless_line(say(line, language))}") for line in (*bandwidth_lines(job), *job.said)]
    return Group(*parts)


class _Ranks:
    """The ranks of a job: one table on a wide terminal; on a narrow one, where step time goes stands below."""

    def __init__(self, job: JobView, language: str) -> None:
        self._job = job
        self._language = language

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.max_width >= _WIDE
        yield _table(self._job, self._language, wide=wide)
        if not wide:
            slowest = sorted(self._job.ranks, key=lambda rank: -max(rank.walls_ns, default=0))[:_TOLD]
            for rank in sorted(slowest, key=lambda rank: rank.rank):
                parts = _shares(rank, self._language) or say(NOTHING_MEASURED, self._language)
                yield Line(f"  {say(rank_goes_to(rank=rank.rank), self._language)} {parts}")


def _table(job: JobView, language: str, *, wide: bool) -> Table:
    state = f": {say(job.state.message, language)}" if job.state else ""
    table = Table(title=Line(f"{harmless_line(job.id)}{state}"), title_justify="left", expand=False)
    columns = {column: [cell(rank) for rank in job.ranks] for column, cell in _CELLS.items()}
    columns[JobColumn.LATEST] = [sparkline(rank.walls_ns, _WIDTH if wide else _WIDTH // 2) for rank in job.ranks]
    if wide:
        columns[JobColumn.SPENT] = [_shares(rank, language) for rank in job.ranks]
    # On a narrow terminal a column without values takes no room; a number is never cut.
    hidden = _OPTIONAL if wide else _OPTIONAL | _SPARE
    for column, cells in columns.items():
        if column in hidden and {*cells} == {_ABSENT}:
            continue
        table.add_column(
            say(column.message, language), justify="left" if column in _LEFT else "right",
            no_wrap=column is not JobColumn.SPENT,
        )  # fmt: skip
    shown = [cells for column, cells in columns.items() if column not in hidden or {*cells} != {_ABSENT}]
    for row in zip(*shown, strict=True):
        table.add_row(*row)
    return table


def _middle(rank: RankView) -> int | None:
    walls = sorted(rank.walls_ns)
    return walls[len(walls) // 2] if walls else None


def _shares(rank: RankView, language: str) -> str:
    total = sum(rank.walls_ns) / len(rank.walls_ns) if rank.walls_ns else 0
    largest = sorted(rank.split, key=lambda part: -part[1])[:3]
    told = [(say(spent.message, language), ns / total) for spent, ns in largest if total and ns / total >= 0.01]
    return ", ".join(f"{name} {share:.0%}" for name, share in told)


def _short(value: float | None) -> str:
    return _ABSENT if value is None else f"{value:.4g}"


def _ms(value: int | None) -> str:
    return _ABSENT if value is None else f"{value / 1e6:.2f}"


def _rate(value: float | None) -> str:
    return _ABSENT if value is None else f"{value:,.0f}"


_OPTIONAL = frozenset({JobColumn.SCORE, JobColumn.LOSS, JobColumn.GRADIENTS, JobColumn.UPDATE})
_SPARE = frozenset({JobColumn.SAMPLES, JobColumn.TOKENS, JobColumn.MFU, JobColumn.MEMORY})
_LEFT = frozenset({JobColumn.LATEST, JobColumn.SPENT})
_CELLS: Mapping[JobColumn, Callable[[RankView], str]] = {
    JobColumn.RANK: lambda rank: str(rank.rank),
    JobColumn.STEP: lambda rank: str(rank.step),
    JobColumn.MS: lambda rank: _ms(_middle(rank)),
    JobColumn.BASELINE: lambda rank: _ms(rank.baseline_ns),
    JobColumn.SCORE: lambda rank: _ABSENT if rank.score is None else f"{rank.score:.1f}",
    JobColumn.LATEST: lambda _rank: "",
    JobColumn.SAMPLES: lambda rank: _rate(rank.samples_per_s),
    JobColumn.TOKENS: lambda rank: _rate(rank.tokens_per_s),
    JobColumn.MFU: lambda rank: _ABSENT if rank.mfu is None else f"{rank.mfu:.1%}",
    JobColumn.MEMORY: lambda rank: _ABSENT if rank.memory_bytes is None else f"{rank.memory_bytes / 1e9:.2f}",
    JobColumn.LOSS: lambda rank: _short(rank.loss),
    JobColumn.GRADIENTS: lambda rank: _short(rank.gradient_norm),
    JobColumn.UPDATE: lambda rank: _short(rank.update_ratio),
}
