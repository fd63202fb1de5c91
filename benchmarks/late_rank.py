"""How well the path of waits finds one late rank: random modelled jobs of 4 to 16 ranks, and even ones of 8.

The planted time is what the late rank spends more: a share of the compute of every other rank. `python -m
benchmarks.late_rank` prints a row for each job, and how many are right.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from dataclasses import replace
from pathlib import Path

from hermes.model.leaf import Leaf
from hermes.model.leaf_time import JobLeaf, LeafTime
from hermes.model.report import Report
from hermes.profiles.load import load
from hermes.profiles.pipeline.analyze import analyze
from hermes.store.cache import Cache
from hermes_testing import Fault, Format, Job, generate

FORMS: tuple[Format, ...] = ("kineto", "ascend-db")
CLOSE = 0.1
"""The share of the planted time by which the excess may differ from it."""


def report_of(job: Job, form: Format) -> Report:
    """The report of a modelled job."""
    with tempfile.TemporaryDirectory(prefix="hermes-late-") as folder:
        generate(Path(folder) / "job", job, formats=[form])
        return analyze(load([Path(folder) / "job"], Cache(Path(folder) / "cache")))


def late_job(dice: random.Random, seed: int) -> tuple[Job, int, int]:
    """A job, its late rank, and how many percent longer its kernels take."""
    ranks, more = dice.choice((4, 6, 8, 12, 16)), dice.randint(15, 60)
    late = dice.randrange(ranks)
    fault = Fault(kind="slow_rank_compute", ranks=(late,), amount=more)
    return replace(even_job(dice, seed, ranks), faults=(fault,)), late, more


def even_job(dice: random.Random, seed: int, ranks: int) -> Job:
    """A job of which no rank is late."""
    return Job(
        ranks=ranks, steps=dice.randint(2, 5), layers=dice.choice((4, 8)), seed=seed, noise=dice.choice((0, 1, 2))
    )


def excess_and_planted(report: Report, late: int, more: int) -> tuple[float, float]:
    """The compute that the tree lays on the late rank, and the planted part of the rank's own, in ms a step."""
    steps = max(report.measures.job.steps.marked, 1)
    excess = sum(row.total_ns for row in report.rows(JobLeaf) if row.rank == late and row.leaf.part == "compute")
    own = sum(row.total_ns for row in report.rows(LeafTime) if row.rank == late and row.leaf.part == "compute")
    return excess / steps / 1e6, own * more / (100 + more) / steps / 1e6


def main() -> None:
    """Print what the tree says of late ranks, and of none."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.late_rank", description=__doc__)
    parser.add_argument("--late", type=int, default=30, metavar="N", help="jobs with one late rank")
    parser.add_argument("--even", type=int, default=50, metavar="N", help="jobs without one, of 8 ranks")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed")
    given = parser.parse_args()
    close = named = silent = 0
    for seed in range(given.first, given.first + given.late):
        dice = random.Random(seed)
        job, late, more = late_job(dice, seed)
        report = report_of(job, dice.choice(FORMS))
        excess, planted = excess_and_planted(report, late, more)
        close += abs(excess - planted) <= CLOSE * planted
        named += report.verdict.awaited == late
        print(
            f"seed {seed}: {job.ranks} ranks, rank {late} takes {more}% longer: {planted:.2f} ms planted, "
            f"{excess:.2f} on the path; the headline names {report.verdict.awaited}",
            flush=True,
        )
    for seed in range(given.first, given.first + given.even):
        dice = random.Random(seed)
        report = report_of(even_job(dice, seed, 8), dice.choice(FORMS))
        ranks = {row.rank for row in report.rows(JobLeaf) if row.leaf is not Leaf.WAIT} - {None}
        ranks |= {report.verdict.awaited} - {None}
        silent += not ranks
        if ranks:
            print(f"seed {seed}: an even job, and the tree or the headline names ranks {ranks}", flush=True)
    print(f"within {CLOSE:.0%}: {close} of {given.late}; named: {named} of {given.late}")
    print(f"even jobs of which no rank is named: {silent} of {given.even}")


if __name__ == "__main__":
    main()
