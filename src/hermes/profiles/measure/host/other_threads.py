"""Measures other Python threads beside the stepping thread, from the samples of Hermes' own capture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from hermes.knowledge.user_code import frame_of, is_own
from hermes.model.declare import derived, field, measure
from hermes.profiles.measure.code.line_samples import told_of
from hermes.profiles.measure.registry import RankTables, per_rank

_WAITS = r"(^|/)(threading|queue|selectors|multiprocessing/\w+|concurrent/futures/\w+|asyncio/\w+)\.py\(\d+\): "


@measure("host.threads", title="Threads beside the stepping one", zh="步进线程之外的线程")
@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadRuns:
    """The work of a thread beside the stepping thread, sampled with all threads some hundred times a second.

    `line` is the line of the user's code at which the thread stood most, among samples with time on a core since the
    sample before. `waits` is the share of samples at which the stepping thread waited for another thread or process.
    """

    rank: int = field("global rank", "Rank", "卡")
    name: str = field("name of the thread; empty where it had ended", "Thread", "线程")
    cpu_ns: int = field("its time on a core", "CPU", "CPU")
    wall_ns: int = field("time of all looks", "Time", "时间")
    line: str = field("line of the user's, and its function; empty: none of the user's", "Line", "行")
    waits: float = field(
        "part of the looks in which the stepping thread waits for another", "Step waits", "步在等待", kind="share"
    )

    @property
    @derived("part of the time in which it was on a core", "On a core", "占用核")
    def on_core(self) -> float:
        """The share of the time in which the thread was on a core."""
        return min(1.0, self.cpu_ns / self.wall_ns) if self.wall_ns else 0.0


@per_rank(
    ThreadRuns,
    needs={"thread_run": ("thread", "name", "cpu_ns", "wall_ns", "seen", "frames")},
    beside=("thread_run",),
)
def thread_runs_of(rank: RankTables) -> Iterator[ThreadRuns]:
    """One row for each thread that was on a core, the busiest first."""
    rows = rank.table("thread_run")
    if not rows.height:
        return
    told, waits = told_of(rank), _waits(rank)
    each = rows.select("thread", "name", "cpu_ns", "wall_ns").unique("thread")
    for thread, name, cpu_ns, wall_ns in each.sort("cpu_ns", "thread", descending=[True, False]).iter_rows():
        seen: Counter[str] = Counter()
        for frames, many in rows.filter(pl.col("thread") == thread).select("frames", "seen").iter_rows():
            own = next((line.strip() for line in str(frames).split("\n") if is_own(line, told)), None)
            frame = frame_of(own) if own else None
            if frame is not None:
                seen[frame.said] += many
        line = min(seen, key=lambda one: (-seen[one], one), default="")
        yield ThreadRuns(rank=rank.rank, name=name or "", cpu_ns=cpu_ns, wall_ns=wall_ns, line=line, waits=waits)


def _waits(rank: RankTables) -> float:
    innermost = rank.data.table("sample", "frames")["frames"].str.split("\n").list.first()
    return int(innermost.str.contains(_WAITS).sum()) / max(1, len(innermost))
