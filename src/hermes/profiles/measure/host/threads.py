"""Threads beside the stepping one that run Python, by the looks of a capture of Hermes at all threads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from hermes.knowledge.user_code import frame_of, is_own
from hermes.model.declare import derived, field, measure
from hermes.profiles.measure.code.samples import told_of
from hermes.profiles.measure.registry import RankTables, per_rank

_THREAD = ("thread", "name", "ran", "looks", "cpu_ns", "wall_ns")


@measure("host.threads", title="Threads beside the stepping one", zh="步进线程之外的线程")
@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadRuns:
    """What a thread beside the stepping one did, in some hundred looks a second at all threads.

    At each look it is seen again a tenth of a millisecond later: a thread that stands elsewhere then had the
    interpreter in between. `line` is the line of the user's at which it stood most.
    """

    rank: int = field("global rank", "Rank", "卡")
    name: str = field("name of the thread; empty where it had ended", "Thread", "线程")
    ran: int = field("looks behind which it went on in Python", "In Python", "执行 Python")
    looks: int = field("looks", "Looks", "采样次数")
    cpu_ns: int = field("its time on a core; 0 where the system does not tell", "CPU", "CPU")
    wall_ns: int = field("time of all looks", "Time", "时间")
    line: str = field("line of the user's, and its function; empty: none of the user's", "Line", "行")

    @property
    @derived("part of the looks in which it had the interpreter", "Interpreter", "占有解释器")
    def share(self) -> float:
        """Part of the looks in which it had the interpreter."""
        return self.ran / self.looks if self.looks else 0.0

    @property
    @derived("part of the time in which it was on a core", "On a core", "占用核")
    def on_core(self) -> float:
        """Part of the time in which it was on a core."""
        return min(1.0, self.cpu_ns / self.wall_ns) if self.wall_ns else 0.0


@per_rank(ThreadRuns, needs={"thread_run": (*_THREAD, "seen", "frames")})
def thread_runs_of(rank: RankTables) -> Iterator[ThreadRuns]:
    """One row for each thread that moved between looks, the busiest first."""
    rows = rank.table("thread_run")
    told = told_of(rank)
    each = rows.select(_THREAD).unique("thread").sort("cpu_ns", "ran", "thread", descending=[True, True, False])
    for thread, name, ran, looks, cpu_ns, wall_ns in each.iter_rows():
        seen: Counter[str] = Counter()
        for frames, many in rows.filter(pl.col("thread") == thread).select("frames", "seen").iter_rows():
            own = next((line.strip() for line in str(frames).split("\n") if is_own(line, told)), None)
            frame = frame_of(own) if own else None
            if frame is not None:
                seen[frame.said] += many
        line = min(seen, key=lambda one: (-seen[one], one), default="")
        yield ThreadRuns(
            rank=rank.rank, name=name or "", ran=ran, looks=looks, cpu_ns=cpu_ns, wall_ns=wall_ns, line=line
        )
