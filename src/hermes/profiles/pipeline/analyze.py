"""Runs the analysis: two rounds over the ranks, then measures of the job, findings, tree and report."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain

import polars as pl

from hermes.base.errors import Diagnostic
from hermes.knowledge.vendor_traits import common_traits
from hermes.model.comm_measures import CommunicationNote
from hermes.model.compute_measures import ChipUsed, OperatorCost
from hermes.model.leaf_time import LeafTime
from hermes.model.report import Report, Verdict
from hermes.model.service_measures import Requests
from hermes.model.step_measures import AscendSplit
from hermes.model.sum_measures import RecordedSum
from hermes.profiles.advise.bound_gains import with_ranges
from hermes.profiles.engines.engine import Engine, LostRanksError, results_in_rank_order
from hermes.profiles.engines.serial import Serial
from hermes.profiles.load import Loaded, present, without
from hermes.profiles.measure import load_all
from hermes.profiles.measure.path.step_path import STRETCHES
from hermes.profiles.measure.registry import RankTables
from hermes.profiles.measure.structure.roles import RoleOfRank
from hermes.profiles.pipeline import advice
from hermes.profiles.pipeline.check_step_marks import merge_notes
from hermes.profiles.pipeline.combine_ranks import combine
from hermes.profiles.pipeline.coverage import certainty, coverage, difference
from hermes.profiles.pipeline.critical_paths import StepLoader, paths_of
from hermes.profiles.pipeline.gains import StepReplay
from hermes.profiles.pipeline.job_leaves import job_path, path_rows
from hermes.profiles.pipeline.job_outline import JobOutline
from hermes.profiles.pipeline.lines_of_findings import with_lines
from hermes.profiles.pipeline.rank_exchange import RankExchange, exchange
from hermes.profiles.pipeline.rank_measures import RankMeasures, measure
from hermes.profiles.pipeline.rank_outline import RankOutline, outline
from hermes.profiles.pipeline.report_bounds import bounded
from hermes.profiles.pipeline.stage_boxes import stage_boxes
from hermes.profiles.role_captures import role_times
from hermes.profiles.rules.run_rules import find_all
from hermes.profiles.tree.attainable_gain import AttainableGain
from hermes.profiles.tree.leaf_kinds import LeafKinds
from hermes.profiles.tree.leaves_of_job import job_tree
from hermes.profiles.tree.verdict import VerdictGrounds, verdict
from hermes.profiles.tree.what_limits import WhatLimits
from hermes.store.derived_results import DerivedResults, code
from hermes.store.rank_data import RankData
from hermes.store.serialize_rows import dumps
from hermes.version import __version__


def prepare() -> None:
    """Import the modules that every analysis needs; other threads may read the input meanwhile."""
    load_all()
    code()


def analyze(loaded: Loaded, *, stretches: int = STRETCHES, engine: Engine | None = None, lab: bool = False) -> Report:
    """The report of an input; deterministic for the same input. Each critical path keeps its longest `stretches`.

    `engine` runs the work of each rank; by default this process does it all. The report names ranks that the engine
    lost, and is made of the other ranks. `lab`: rules that no public capture shows right run, too. Raises `InputError`
    if no rank is left.
    """
    # A stored report names all kinds of rows, also kinds that this process has not measured.
    load_all()
    said = dumps(
        (
            loaded.paths, tuple((rank.rank, rank.key, rank.place) for rank in loaded.ranks), loaded.notes, loaded.files,
            tuple((str(one.folder), rank.rank, rank.key) for one in loaded.roles for rank in one.ranks),
        )
    )  # fmt: skip
    cache = loaded.ranks[0].cache if loaded.ranks else None

    def make() -> Report:
        return _analyzed(loaded, stretches, engine or Serial(), lab=lab)

    return DerivedResults(cache).or_make(make, "report", str(stretches), said.decode("utf-8", "replace"))


def _analyzed(loaded: Loaded, stretches: int, engine: Engine, *, lab: bool) -> Report:
    while True:
        try:
            return _report(loaded, stretches, engine, lab=lab)
        except LostRanksError as broken:
            loaded = without(loaded, {one.rank: one.error for one in broken.lost})


def outlined(loaded: Loaded, engine: Engine | None = None) -> JobOutline:
    """The first round over the ranks: their steps, clocks and arrivals at collectives."""
    return JobOutline(
        results_in_rank_order((engine or Serial()).map(outline_of, {rank.rank: rank for rank in loaded.ranks}))
    )


def outline_of(data: RankData) -> RankOutline:
    """The first round for one rank: its outline, from the cache if it is there."""
    data = present(data)
    return DerivedResults(data.cache).or_make(lambda: outline(data), "outline", data.key, data.place, str(data.rank))


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureAsked:
    """The input of the second round for one rank: its tables, and what other ranks tell about its operations."""

    data: RankData
    given: pl.DataFrame
    steps: int
    alone: bool
    threads: int


def measured_of(asked: MeasureAsked) -> tuple[RankMeasures, RankExchange]:
    """The second round for one rank: its measures and its exchange, each from the cache if it is there."""
    data = present(asked.data)
    kept = DerivedResults(data.cache)
    rank = RankTables(data)
    own = kept.or_make(lambda: measure(rank, threads=asked.threads), "rank", data.key, str(data.rank))
    rank.let_go()
    told = (
        data.key,
        str(data.rank),
        str(asked.steps),
        str(asked.alone),
        asked.given.write_csv(),
    )
    return own, kept.or_make(lambda: exchange(rank, asked.given, asked.steps, alone=asked.alone), "exchange", *told)


def _second_round(loaded: Loaded, job: JobOutline, engine: Engine) -> tuple[list[RankMeasures], list[RankExchange]]:
    given = job.given()
    asked = {
        rank.rank: MeasureAsked(
            data=rank,
            given=given[rank.rank],
            steps=sum(split.step is not None for split in job.steps.of(rank.rank)),
            alone=len(loaded.ranks) == 1,
            threads=engine.threads,
        )
        for rank in loaded.ranks
    }
    made = results_in_rank_order(engine.map(measured_of, asked))
    return [own for own, _ in made], [told for _, told in made]


def _report(loaded: Loaded, stretches: int, engine: Engine, *, lab: bool) -> Report:
    job = outlined(loaded, engine)
    rows = StepLoader(loaded, job.vendors, engine)
    with ThreadPoolExecutor(max_workers=1) as beside:
        # The critical path needs the steps of all ranks, but none of their measures.
        followed = beside.submit(paths_of, job, rows, stretches)
        measured, exchanged = _second_round(loaded, job, engine)
        notes = [*loaded.notes, *merge_notes(job.doubts), *(note for one in measured for note in one.notes)]
        seen = replace(coverage(job, notes, {str(rank.root): rank.rank for rank in loaded.ranks}), files=loaded.files)
        path = job_path(job, exchanged)
        found = combine(job, measured, exchanged, certainty(seen, notes))
        found = found.with_rows(chain(*stage_boxes(loaded, job, engine=engine)))
        paths = followed.result()
    measures = found.with_rows((*job.steps.every, *paths))
    replay = StepReplay(loaded, job, rows)
    grounds = advice.Evidence(
        measures=measures, inputs=job.inputs, coverage=seen, frameworks=job.frameworks, recorder=job.recorder,
        host=job.host,
    )  # fmt: skip
    vendors = common_traits(row.vendor for row in job.inputs)
    times = found.rows(LeafTime)
    tree = job_tree(path, AttainableGain(found.rows(OperatorCost), vendors.aim.value, found.rows(ChipUsed)))
    step = advice.without_profiler_on_host(measures)
    kinds = LeafKinds.of(tree, path.steps).without_profiler(step)
    ranking = advice.ranked(with_lines(find_all(measures, lab=lab), measures), replay, grounds, kinds, step)
    report = Report(
        version=__version__,
        title=_title(loaded),
        verdict=Verdict(bound="unknown", message="", rank=None, step=None),
        inputs=job.inputs,
        coverage=seen,
        steps=job.steps.every,
        ascend_notes=difference(found.rows(AscendSplit), job.steps.every),
        paths=paths,
        findings=with_ranges((*ranking.findings, *ranking.preview), ranking.known),
        measured=(
            *bounded(found, notes),
            *found.rows(CommunicationNote),
            *tree,
            *path_rows(path),
            *role_times(found.rows(RoleOfRank), loaded.roles),
        ),
        diagnostics=_gravest(notes),
    )
    plan = advice.advised(ranking, replay, grounds, report.measures, kinds)
    problems = ranking.as_planned(plan.actions)
    judged = verdict(
        VerdictGrounds(
            steps=job.steps,
            times=times,
            kinds=kinds.counting(with_ranges(problems, ranking.known), ranking.floor.step_ns),
            problems=problems,
            expected=seen.ranks_expected,
            noise=ranking.floor.share,
            unprofiled_ns=ranking.unprofiled.step_ns if ranking.unprofiled else None,
            requests=found.rows(Requests),
            path=path,
            limits=WhatLimits(found.rows(OperatorCost), found.rows(ChipUsed)),
            sums=found.rows(RecordedSum),
            recorder=job.recorder,
            host=job.host,
        )
    )
    return replace(report, plan=plan, verdict=judged)


def _gravest(notes: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    return tuple(sorted(notes, key=lambda note: (note.level != "degraded",)))


def _title(loaded: Loaded) -> str:
    return ", ".join(path.name or str(path) for path in loaded.paths)
