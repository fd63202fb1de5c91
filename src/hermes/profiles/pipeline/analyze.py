"""From loaded tables to a report: two rounds over the ranks, what they tell together, and what is made of that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import polars as pl

from hermes.base.errors import Diagnostic
from hermes.knowledge.vendors import common_traits
from hermes.model.code_measures import CodeLine
from hermes.model.job import JobMeasures, as_kind
from hermes.model.leaf_time import LeafTime
from hermes.model.measures import (
    AscendSplit,
    CommunicationTop,
    HostCallTop,
    KernelTop,
    LinkSpeed,
    OperatorTop,
    PeerWait,
    RankTotal,
    StreamBusy,
    TaskWait,
)
from hermes.model.path_measures import StepFree, StepPath
from hermes.model.report import Coverage, Report, Top, Verdict
from hermes.model.service_measures import Requests
from hermes.model.structure_measures import JobSigns
from hermes.profiles.advise.ranges import with_ranges
from hermes.profiles.engines.engine import Engine, Lost
from hermes.profiles.engines.serial import Serial
from hermes.profiles.load import Loaded, present, without
from hermes.profiles.measure import load_all
from hermes.profiles.measure.leaves.of_rank import NOBODY
from hermes.profiles.measure.path.step_path import STRETCHES
from hermes.profiles.measure.registry import RankTables
from hermes.profiles.measure.structure.roles import RoleOfRank
from hermes.profiles.pipeline import advice
from hermes.profiles.pipeline.combine import Combined, combine
from hermes.profiles.pipeline.coverage import coverage, difference
from hermes.profiles.pipeline.doubtful_steps import merged
from hermes.profiles.pipeline.gains import StepReplay
from hermes.profiles.pipeline.job_outline import JobOutline
from hermes.profiles.pipeline.lines import with_lines
from hermes.profiles.pipeline.paths import StepLoader, paths_of
from hermes.profiles.pipeline.rank_exchange import RankExchange, exchange
from hermes.profiles.pipeline.rank_measures import RankMeasures, measure
from hermes.profiles.pipeline.rank_outline import RankOutline, outline
from hermes.profiles.pipeline.report_bounds import longest, merged_top
from hermes.profiles.pipeline.stage_boxes import stage_boxes
from hermes.profiles.roles import role_times
from hermes.profiles.rules.find import find_all
from hermes.profiles.tree.attainable import Attainable
from hermes.profiles.tree.job import job_tree
from hermes.profiles.tree.kinds import Kinds
from hermes.profiles.tree.verdict import Grounds, verdict
from hermes.store.kept import Kept, code
from hermes.store.rank_data import RankData
from hermes.store.rows import dumps
from hermes.version import __version__


class _LostRanksError(Exception):
    """Ranks were lost on the way: what rests on all ranks is made again without them."""

    def __init__(self, lost: Sequence[Lost]) -> None:
        super().__init__()
        self.lost = lost


def prepare() -> None:
    """Load what every analysis needs beside its input, so that it may be done while that is read."""
    load_all()
    code()


def analyze(loaded: Loaded, *, stretches: int = STRETCHES, engine: Engine | None = None) -> Report:
    """The whole analysis; deterministic for the same input. Of each critical path it keeps the longest `stretches`.

    `engine` calls what is to be done for each rank; by default this process does it all. Ranks that it lost are named
    in the report, which is made of the others; raises `InputError` when none is left.
    """
    # A report that was kept names all kinds of rows, those that nobody has measured in this process too.
    load_all()
    said = dumps(
        (
            loaded.paths, tuple((rank.rank, rank.key, rank.place) for rank in loaded.ranks), loaded.notes, loaded.files,
            tuple((str(one.folder), rank.rank, rank.key) for one in loaded.roles for rank in one.ranks),
        )
    )  # fmt: skip
    cache = loaded.ranks[0].cache if loaded.ranks else None

    def make() -> Report:
        return _analyzed(loaded, stretches, engine or Serial())

    return Kept(cache).or_make(make, "report", str(stretches), said.decode("utf-8", "replace"))


def _analyzed(loaded: Loaded, stretches: int, engine: Engine) -> Report:
    while True:
        try:
            return _report(loaded, stretches, engine)
        except _LostRanksError as broken:
            loaded = without(loaded, {one.rank: one.error for one in broken.lost})


def outlined(loaded: Loaded, engine: Engine | None = None) -> JobOutline:
    """The first round over the ranks: steps, clocks and arrivals."""
    return JobOutline(_done((engine or Serial()).map(_outline, {rank.rank: rank for rank in loaded.ranks})))


def _outline(data: RankData) -> RankOutline:
    data = present(data)
    return Kept(data.cache).or_make(lambda: outline(data), "outline", data.key, data.place, str(data.rank))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What the second round needs of one rank: its tables, and what the others tell of its operations."""

    data: RankData
    given: pl.DataFrame
    held: pl.DataFrame
    steps: int
    alone: bool
    threads: int


def _measured(asked: _Asked) -> tuple[RankMeasures, RankExchange]:
    """Both parts of the second round, of the same tables; either is taken from the cache where it is known."""
    data = present(asked.data)
    kept = Kept(data.cache)
    rank = RankTables(data)
    own = kept.or_make(lambda: measure(rank, threads=asked.threads), "rank", data.key, str(data.rank))
    told = (
        data.key,
        str(data.rank),
        str(asked.steps),
        str(asked.alone),
        asked.given.write_csv(),
        asked.held.write_csv(),
    )
    return own, kept.or_make(
        lambda: exchange(rank, asked.given, asked.held, asked.steps, alone=asked.alone), "exchange", *told
    )


def _done(found: Mapping[int, object]) -> list:  # type: ignore[type-arg]
    lost = [one for one in found.values() if isinstance(one, Lost)]
    if lost:
        raise _LostRanksError(lost)
    return [one for _, one in sorted(found.items())]


def _second_round(loaded: Loaded, job: JobOutline, engine: Engine) -> tuple[list[RankMeasures], list[RankExchange]]:
    given, held = job.given(), job.held()
    asked = {
        rank.rank: _Asked(
            data=rank,
            given=given[rank.rank],
            held=held.get(rank.rank, NOBODY),
            steps=sum(split.step is not None for split in job.steps.of(rank.rank)),
            alone=len(loaded.ranks) == 1,
            threads=engine.threads,
        )
        for rank in loaded.ranks
    }
    made = _done(engine.map(_measured, asked))
    return [own for own, _ in made], [told for _, told in made]


def _report(loaded: Loaded, stretches: int, engine: Engine) -> Report:
    job = outlined(loaded, engine)
    rows = StepLoader(loaded, job.vendors, engine)
    with ThreadPoolExecutor(max_workers=1) as beside:
        # The critical path needs the steps of all ranks, and nothing that is measured of them.
        followed = beside.submit(paths_of, job, rows, stretches)
        measured, exchanged = _second_round(loaded, job, engine)
        told = [note for one in measured for note in one.notes]
        found = combine(job, measured, exchanged)
        passes, boxes = stage_boxes(loaded, job)
        found = replace(found, structure=replace(found.structure, passes=passes, boxes=boxes))
        paths, free = followed.result()
    notes = [*loaded.notes, *merged(job.doubts), *told]
    seen = replace(coverage(job, notes, {str(rank.root): rank.rank for rank in loaded.ranks}), files=loaded.files)
    measures = _measures(job, found, notes, seen, paths, free)
    replay = StepReplay(loaded, job, rows)
    grounds = advice.Evidence(
        splits=job.steps.every,
        paths=paths,
        inputs=job.inputs,
        coverage=seen,
        frameworks=job.frameworks,
        before=found.host.before,
        hosts=found.host.steps,
        code=found.rows(CodeLine),
        signs=found.rows(JobSigns),
        groups=found.communication.groups,
        used=found.compute.chips,
    )
    vendors = common_traits(row.vendor for row in job.inputs)
    times = found.rows(LeafTime)
    tree = job_tree(times, Attainable(found.compute.operators, vendors.aim.value))
    kinds = Kinds.of(tree)
    ranking = advice.ranked(with_lines(find_all(measures), measures), replay, grounds, kinds, measures.job)
    ascend = found.rows(AscendSplit)
    report = Report(
        version=__version__,
        title=_title(loaded),
        verdict=Verdict(bound="unknown", message="", rank=None, step=None),
        inputs=job.inputs,
        coverage=seen,
        steps=job.steps.every,
        ascend=ascend,
        ascend_notes=difference(ascend, job.steps.every),
        totals=found.rows(RankTotal),
        streams=found.rows(StreamBusy),
        clocks=job.clocks,
        paths=paths,
        free=free,
        compute=found.compute,
        rank_waits=longest(found.rank_waits, notes, "waits for the last rank"),
        waits=longest(found.rows(TaskWait), notes, "waits by peer"),
        links=found.rows(LinkSpeed),
        communication=found.communication,
        structure=found.structure,
        top=Top(
            kernels=merged_top(found.rows(KernelTop), notes, "kernels"),
            operators=merged_top(found.rows(OperatorTop), notes, "operators"),
            host_calls=merged_top(found.rows(HostCallTop), notes, "host calls"),
            communication=merged_top(found.rows(CommunicationTop), notes, "communication"),
        ),
        findings=with_ranges((*ranking.findings, *ranking.preview), ranking.known),
        diagnostics=_gravest(notes),
        host=found.host,
        more=(*found.declared_rows(), *tree, *role_times(found.rows(RoleOfRank), loaded.roles)),
    )
    plan = advice.advised(ranking, replay, grounds, report.measures)
    problems = ranking.as_planned(plan.actions)
    step_ns = plan.unprofiled.step_ns if plan.unprofiled else ranking.floor.step_ns
    judged = verdict(
        Grounds(
            steps=job.steps,
            times=times,
            kinds=kinds.counting(problems, step_ns),
            problems=problems,
            expected=seen.ranks_expected,
            noise=ranking.floor.share,
            unprofiled_ns=ranking.unprofiled.step_ns if ranking.unprofiled else None,
            requests=found.rows(Requests),
        )
    )
    return replace(report, plan=plan, verdict=judged)


def _measures(
    job: JobOutline,
    found: Combined,
    notes: Sequence[Diagnostic],
    seen: Coverage,
    paths: tuple[StepPath, ...],
    free: tuple[StepFree, ...],
) -> JobMeasures:
    """All rows by kind, with paths and reasons of free time; of waits for a peer those that count, as `PeerWait`."""
    # Who of the collected ranks arrived last is told by the starts of collectives: a wait that names its peer also runs
    # while that one is busy with another link. It counts for peers that nobody saw start.
    recorded: tuple[PeerWait, ...] = found.rows(TaskWait)
    named = {wait.rank for wait in recorded}
    timed = [wait for wait in found.rank_waits if wait.peer_collected or wait.rank not in named]
    waits = (as_kind(PeerWait, wait) for wait in (*(one for one in recorded if not one.peer_collected), *timed))
    return found.measures(job, seen, notes, (*waits, *paths, *free))


def _gravest(notes: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    return tuple(sorted(notes, key=lambda note: (note.level != "degraded",)))


def _title(loaded: Loaded) -> str:
    return ", ".join(path.name or str(path) for path in loaded.paths)
