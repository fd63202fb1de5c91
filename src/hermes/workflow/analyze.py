"""From loaded tables to a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

import polars as pl

from hermes.analyze import breakdown, comm, held, top
from hermes.analyze.arrivals import rank_waits
from hermes.analyze.compute import KERNEL_COLUMNS, RankCompute
from hermes.analyze.measures import (
    AscendSplit,
    Held,
    LinkSpeed,
    PeerWait,
    RankTotal,
    StepSplit,
    StreamBusy,
    TopRow,
)
from hermes.analyze.roofline import compute_of
from hermes.analyze.step_path import STRETCHES
from hermes.base.errors import Diagnostic
from hermes.diagnose.judge import Grounds, find_all, judge
from hermes.diagnose.rule import Measures
from hermes.knowledge.blocking import causes_of
from hermes.report.document import document
from hermes.report.model import Coverage, Input, Report, Top, Verdict
from hermes.version import __version__
from hermes.workflow import advice, host
from hermes.workflow.communication import Exchange
from hermes.workflow.compute import gather_compute
from hermes.workflow.doubts import merged, step_doubts
from hermes.workflow.gains import StepReplay
from hermes.workflow.load import Loaded, RankData
from hermes.workflow.paths import arrivals_of, paths_of, rows_of

# What the analyses look at; the rest of these wide tables stays on disk.
_KERNEL = tuple(dict.fromkeys(("rank", "stream", *KERNEL_COLUMNS, *host.KERNEL)))
_HOST_OP = ("rank", "kind", "name", "start_ns", "dur_ns", "self_ns", *host.HOST_OP)
_COMM_TASK = ("rank", "comm_id", "task", "peer_rank", "start_ns", "dur_ns", "bytes", "transport", "link")
_TOP_ROWS = 500
# Pairs of ranks grow with their square: beyond so many only the longest waits are kept.
_MOST_PAIRS = 1_024
_T = TypeVar("_T")
_EXACT_NS = 10
"""Ascend's own file keeps picoseconds of double noise and Stage in quarters of a microsecond."""


class Gathered:
    """What one pass over the ranks collects; each rank's tables are let go before the next is loaded."""

    def __init__(self, loaded: Loaded) -> None:
        self.exchange = exchange = Exchange(loaded)
        self.collected = tuple(rank.rank for rank in loaded.ranks)
        self.comm_op = exchange.comm_op
        self.clocks = exchange.clocks
        self.arrivals = arrivals_of(exchange.comm_op, exchange.peers, exchange.clocks)
        self.inputs: list[Input] = []
        self.splits: list[StepSplit] = []
        self.ascend: list[AscendSplit] = []
        self.totals: list[RankTotal] = []
        self.streams: list[StreamBusy] = []
        self.tasks: list[pl.DataFrame] = []
        self.traffic: list[pl.DataFrame] = []
        self.waits: list[PeerWait] = []
        self.links: list[LinkSpeed] = []
        self.vendors: dict[int, str] = {}
        self.rows = rows_of(loaded, self.vendors)
        self.tops: dict[str, list[TopRow]] = {"kernels": [], "operators": [], "host_calls": [], "communication": []}
        self.held: list[Held] = []
        self.exposed: dict[int, Mapping[str, int]] = {}
        self.compute: list[RankCompute] = []
        self.worlds: Counter[int] = Counter()
        self.groups: Counter[int] = Counter()
        self.doubts: list[Diagnostic] = []
        self.host = host.Gathered()

    def size_of(self, world_size: int | None, group: pl.DataFrame) -> None:
        """Note what one rank says of the job's size: a group may name its members or only be known by its size."""
        if world_size:
            self.worlds[world_size] += 1
        highest = (group["global_rank"].max(), group["member"].max())
        members = [int(value) for value in highest if isinstance(value, int)]
        if members:
            self.groups[max(members) + 1] += 1


def analyze(loaded: Loaded, *, stretches: int = STRETCHES) -> Report:
    """The whole analysis; deterministic for the same input. Of each critical path it keeps the longest `stretches`."""
    seen, (paths, free) = gathered(loaded, lambda seen: paths_of(seen, stretches))
    collected, clocks = seen.collected, seen.clocks
    notes = [*loaded.notes, *merged(seen.doubts)]
    coverage = _coverage(seen, collected, any(rows.height for rows in seen.comm_op.values()), notes)
    waited = rank_waits(seen.comm_op, seen.arrivals, collected)
    talk = seen.exchange.communication()
    structure, compute, side = (
        seen.exchange.structure(seen.splits, talk),
        compute_of(seen.compute, seen.splits),
        seen.host.side(),
    )
    measures = replace(
        _measures(seen, notes, coverage, waited),
        host=side,
        compute=compute,
        communication=talk,
        structure=structure,
        paths=paths,
        free=free,
    )
    replay = StepReplay(loaded, seen)
    grounds = advice.Seen(
        splits=tuple(seen.splits), paths=paths, inputs=tuple(seen.inputs), coverage=coverage, before=side.before
    )
    ranking = advice.ranked(find_all(measures), replay, grounds)
    judged = judge(
        Grounds(
            splits=tuple(seen.splits),
            path=paths[0] if paths else None,
            problems=ranking.problems,
            expected=coverage.ranks_expected,
            noise_ns=ranking.floor.ns,
            bare_ns=ranking.bare.step_ns if ranking.bare else None,
        )
    )
    report = Report(
        version=__version__,
        title=_title(loaded),
        verdict=Verdict(bound=judged.bound, sentence=judged.sentence, rank=judged.rank, step=judged.step),
        inputs=tuple(seen.inputs),
        coverage=coverage,
        steps=tuple(seen.splits),
        ascend=tuple(seen.ascend),
        ascend_note=_difference(seen.ascend, seen.splits),
        totals=tuple(seen.totals),
        streams=tuple(seen.streams),
        clocks=clocks,
        paths=paths,
        free=free,
        compute=compute,
        rank_waits=_longest(waited, notes, "waits for the last rank"),
        waits=_longest(seen.waits, notes, "waits by peer"),
        links=tuple(seen.links),
        communication=talk,
        structure=structure,
        top=Top(**{name: _merged(rows, notes, name) for name, rows in seen.tops.items()}),
        findings=ranking.findings,
        diagnostics=tuple(sorted(notes, key=lambda note: (note.level != "degraded",))),
        host=side,
    )
    return replace(report, plan=advice.advised(ranking, replay, grounds, loaded, document(report)))


def gathered(loaded: Loaded, then: Callable[[Gathered], _T]) -> tuple[Gathered, _T]:
    """What the ranks hold, with clocks and arrivals; and what `then` makes of it, as soon as all steps are known.

    Parts that do not need each other run side by side: polars and NumPy let go of the interpreter while they work.
    """
    seen = Gathered(loaded)
    with ThreadPoolExecutor(max_workers=2) as beside:
        rests = None
        for rank in loaded.ranks:
            if rests:
                rests()
            rests = _gather(rank, seen, beside)
        made = beside.submit(then, seen)
        if rests:
            rests()
        return seen, made.result()


def _gather(rank: RankData, into: Gathered, beside: Executor) -> Callable[[], None]:
    """One rank, up to its steps; what is returned waits for the rest."""
    collected = into.collected
    row = rank.table("rank").row(0, named=True)
    step, kernel, comm_op = rank.table("step"), rank.table("kernel", *_KERNEL), rank.table("comm_op")
    host_op = rank.table("host_op", *_HOST_OP)
    breaks = beside.submit(held.breaks, host_op, rank.table("gc"))
    computed = beside.submit(gather_compute, rank, row, kernel, host_op)
    doubts = step_doubts(str(rank.place), step, kernel)
    into.doubts.extend(doubts)
    into.inputs.append(
        Input(
            path=str(rank.place),
            format=row["format"],
            rank=rank.rank,
            capture=row["capture"],
            level=row["level"],
            chip=row["chip"],
            vendor=row["vendor"],
            degraded=tuple(note.message for note in (*rank.notes, *doubts) if note.level == "degraded"),
            host=row["host"],
            tp=row["tp"],
            pp=row["pp"],
            dp=row["dp"],
            cp=row["cp"],
            ep=row["ep"],
        )
    )
    splits = breakdown.step_splits(row["vendor"], step, kernel, comm_op)
    into.splits.extend(splits)
    into.vendors[rank.rank] = row["vendor"]
    tables = host.Tables(data=rank, vendor=row["vendor"], splits=splits, step=step, kernel=kernel, comm_op=comm_op,
                         host_op=host_op)  # fmt: skip
    of_host = beside.submit(host.gather, tables, into.host)
    causes = causes_of(host_op["name"].unique().sort())
    of_calls = beside.submit(lambda: held.held(splits, host_op, kernel, comm_op, causes, breaks.result()))
    tops = beside.submit(_tops, kernel, comm_op, host_op, rank.table("group"))

    def rest() -> None:
        if row["vendor"] == "ascend":
            into.ascend.extend(breakdown.ascend_splits(step, kernel, comm_op))
            into.ascend.extend(breakdown.reported_splits(rank.table("step_reported")))
        total = breakdown.rank_total(kernel, comm_op)
        into.totals.extend([total] if total else [])
        into.streams.extend(breakdown.stream_busy(kernel))
        task = rank.table("comm_task", *_COMM_TASK)
        into.waits.extend(comm.peer_waits(task, collected))
        into.links.extend(comm.link_speeds(task, rank.table("comm_traffic")))
        into.exposed[rank.rank] = breakdown.exposed_by_op(kernel, comm_op)
        into.exchange.add(rank, kernel, task, splits)
        into.size_of(row["world_size"], rank.table("group"))
        into.held.extend(of_calls.result())
        for name, rows in tops.result().items():
            into.tops[name].extend(rows)
        work = computed.result()
        into.compute.extend([work] if work else [])
        of_host.result()

    return rest


def _tops(
    kernel: pl.DataFrame, comm_op: pl.DataFrame, host_op: pl.DataFrame, group: pl.DataFrame
) -> Mapping[str, Sequence[TopRow]]:
    """The four "top" tables of one rank."""
    return {
        "kernels": top.top_kernels(kernel),
        "operators": top.top_operators(host_op),
        "host_calls": top.top_calls(host_op),
        "communication": top.top_communication(comm_op, group),
    }


def _coverage(gathered: Gathered, collected: tuple[int, ...], communicates: bool, notes: list[Diagnostic]) -> Coverage:
    candidates = {
        "world size recorded by the job": max(gathered.worlds, default=0),
        "members of its process groups": max(gathered.groups, default=0),
    }
    source, expected = max(candidates.items(), key=lambda pair: pair[1])
    missing: list[str] = []
    if expected > len(collected):
        missing.append(f"only {_ranks(collected)} of {expected} {'was' if len(collected) == 1 else 'were'} collected")
    elif not expected and communicates:
        count = "1 rank was" if len(collected) == 1 else f"{len(collected)} ranks were"
        missing.append(f"{count} read; how many the job has is not recorded")
    measured = {split.rank for split in gathered.splits if split.compute_ns is not None}
    blind = [rank for rank in collected if rank not in measured]
    if blind:
        missing.append(f"no device task was recorded on {_ranks(blind)}")
    if (
        any(split.step is not None for split in gathered.splits)
        and len({frozenset(split.step for split in gathered.splits if split.rank == rank) for rank in collected}) > 1
    ):
        missing.append("the ranks were not captured on the same steps")
    missing.extend(f"{note.message}: lost {note.lost}" for note in notes if note.level == "degraded" and note.lost)
    return Coverage(
        ranks_seen=collected,
        ranks_expected=expected if expected >= len(collected) and expected else None,
        ranks_expected_source=source if expected >= len(collected) and expected else "not recorded",
        steps=tuple(sorted({split.step for split in gathered.splits if split.step is not None})),
        missing=tuple(missing),
    )


def _ranks(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 4 and list(ranks) == list(range(ranks[0], ranks[-1] + 1)):
        return f"ranks {ranks[0]} to {ranks[-1]}"
    shown = ", ".join(map(str, ranks[:-1][:8]))
    return f"ranks {shown} and {ranks[-1]}" if len(ranks) < 10 else f"{len(ranks)} ranks ({shown}, …)"


def _measures(
    gathered: Gathered, notes: Sequence[Diagnostic], coverage: Coverage, waited: Sequence[PeerWait]
) -> Measures:
    degraded = any(note.level == "degraded" for note in notes)
    partial = bool(coverage.ranks_expected and coverage.ranks_expected > len(coverage.ranks_seen))
    steps = Counter(split.rank for split in gathered.splits)
    # Who of the collected ranks arrived last is told by the starts of collectives: a wait that names its peer also runs
    # while that one is busy with another link. It counts for peers that nobody saw start.
    recorded = {wait.rank for wait in gathered.waits}
    timed = [wait for wait in waited if wait.peer_collected or wait.rank not in recorded]
    return Measures(
        splits=tuple(gathered.splits),
        waits=(*(wait for wait in gathered.waits if not wait.peer_collected), *timed),
        steps_of_rank=dict(steps),
        exposed_by_op=gathered.exposed,
        held=tuple(gathered.held),
        inputs={one.rank: one.path for one in gathered.inputs},
        vendors=gathered.vendors,
        certainty=(0.7 if degraded else 1.0) * (0.9 if partial else 1.0),
    )


def _longest(waits: Sequence[PeerWait], notes: list[Diagnostic], name: str) -> tuple[PeerWait, ...]:
    ordered = sorted(waits, key=lambda wait: (-wait.total_ns, wait.rank, wait.peer))
    if len(ordered) > _MOST_PAIRS:
        notes.append(
            Diagnostic(
                level="info",
                message=f"the table of {name} shows the longest {_MOST_PAIRS} of {len(ordered)} pairs of ranks",
                hint="the rank matrix has every rank; `hermes sql` reaches all rows",
            )
        )
    return tuple(ordered[:_MOST_PAIRS])


def _summed(rows: Sequence[TopRow]) -> tuple[TopRow, ...]:
    """Rows of single ranks with the same name added up; the median is the median of the ranks' medians."""
    parts: dict[tuple[str, str], list[TopRow]] = {}
    for row in rows:
        parts.setdefault((row.name, row.detail), []).append(row)
    total = sum(row.total_ns for row in rows) or 1
    summed = [
        TopRow(
            name=name,
            detail=detail,
            ranks=tuple(sorted({rank for row in own for rank in row.ranks})),
            count=sum(row.count for row in own),
            total_ns=(ns := sum(row.total_ns for row in own)),
            share=ns / total,
            min_ns=min(row.min_ns for row in own),
            median_ns=breakdown.spread([row.median_ns for row in own])[1],
            max_ns=max(row.max_ns for row in own),
        )
        for (name, detail), own in parts.items()
    ]
    return tuple(sorted(summed, key=lambda row: (-row.total_ns, row.name, row.detail)))


def _merged(rows: Sequence[TopRow], notes: list[Diagnostic], name: str) -> tuple[TopRow, ...]:
    summed = _summed(rows)
    if len(summed) > _TOP_ROWS:
        notes.append(
            Diagnostic(
                level="info",
                message=f"the table of {name.replace('_', ' ')} shows the first {_TOP_ROWS} of {len(summed)} names",
                hint="`hermes sql` reaches all rows",
            )
        )
    return summed[:_TOP_ROWS]


def _difference(rows: Sequence[AscendSplit], splits: Sequence[StepSplit]) -> str:
    """Says how Ascend's definition differs from ours, and where the reported numbers differ from the computed ones."""
    if not rows:
        return ""
    said = [
        "Ascend's step_trace_time counts copies as free time, and the time before the first device task "
        "apart, as preparing; "
        "Hermes splits copies off free time."
    ]
    copies = [split.copy_exposed_ns for split in splits if split.copy_exposed_ns]
    if copies:
        said.append(f"Exposed copies here: at most {max(copies) / 1e6:.3f} ms per step.")
    reported = {(row.rank, row.step): row for row in rows if row.source == "reported"}
    parts: tuple[tuple[str, Callable[[AscendSplit], int]], ...] = (
        ("compute", lambda row: row.compute_ns),
        ("exposed communication", lambda row: row.exposed_comm_ns),
        ("overlapped", lambda row: row.overlapped_ns),
        ("free", lambda row: row.free_ns),
        ("stage", lambda row: row.stage_ns),
        ("preparing", lambda row: row.preparing_ns or 0),
    )
    pairs = [(row, other) for row in rows if row.source == "computed" and (other := reported.get((row.rank, row.step)))]
    worst = {name: max((abs(value(row) - value(other)) for row, other in pairs), default=0) for name, value in parts}
    for name, gap in worst.items():
        if gap > 250:
            said.append(f"Reported and computed {name} differ by up to {gap / 1e3:.3f} us.")
        elif gap > _EXACT_NS:
            said.append(
                f"Reported {name} is off by up to {gap / 1e3:.3f} us: the profiler rounds times of the "
                f"epoch to quarters of a microsecond."
            )
    return " ".join(said)


def _title(loaded: Loaded) -> str:
    return ", ".join(path.name or str(path) for path in loaded.paths)
