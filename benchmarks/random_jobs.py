"""Tests on random jobs with one to three faults whether the first cause is right, and its range holds the gain.

    python benchmarks/random_jobs.py [--jobs 200] [--healthy 50] [--first 0] [--alone] [--rows FILE]
        [--made FOLDER] [--page]

The true gain comes from the same job simulated without the fault; for uneven stages, with the same layers spread
evenly, since no fix removes layers. Every layout has some exposed communication; if the simulation without faults has
more of it than the largest fault costs, exposed communication is accepted as the first cause as well. Each job is
written, read and analysed like a user's job. Rows are kept in FILE, one a line, so an interrupted run can go on.
Captures are kept in FOLDER, if given, so the next run need not simulate them again. Jobs from another first number on
were not used while ranges were corrected; `--alone` leaves out jobs with several faults. No times are measured here.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from cause_accuracy import EXPECTED, LESS_TOLD, NOT_TOLD, ON_ONE_RANK, laid_out

from hermes.model.report import Report
from hermes.profiles.load import load
from hermes.profiles.pipeline.analyze import analyze
from hermes.store.cache import Cache
from hermes_testing import Fault, Job, as_written, generate, simulate
from hermes_testing.ascend_common import Options
from hermes_testing.faults import KINDS, FaultKind
from hermes_testing.invariants import contradictions
from hermes_testing.markdown import replace_block, table
from hermes_testing.simulate import Result
from hermes_testing.truth import step_ns, steps_of

PAGE = Path(__file__).resolve().parents[1] / "docs" / "accuracy.md"
FORMS = ("ascend-text", "ascend-db", "cuda", "rocm", "cuda", "rocm")
RANKS, WEIGHTS = (2, 4, 8, 16, 32, 64), (45, 37, 14, 2, 1, 1)
LEAST = 0.02
"""A fault that costs less of the step than this is not planted alone, and not expected among others."""
NEAR = 0.5
"""Of several faults the first finding must be one with at least this share of the largest fault's cost."""
ALIKE = 0.25
"""Exposed communication counts as right within this share of the simulated one."""
ALONE, SEVERAL, HELD, NARROW, OF_A_KIND = 0.90, 0.85, 0.85, 0.5, 0.7

Row = dict[str, Any]


def main() -> int:
    """Run the jobs that are not in the rows yet, and print or write the table; 0 when all goals are met."""
    given = _parser().parse_args()
    wanted = [f"job {at}" for at in range(given.first, given.first + given.jobs)]
    wanted = [name for name in wanted if not given.alone or _count(name) == 1]
    wanted += [f"healthy {at}" for at in range(given.first, given.first + given.healthy)]
    rows = {row["name"]: row for row in _read(given.rows)}
    with given.rows.open("a", encoding="utf-8") as out, tempfile.TemporaryDirectory() as folder:
        for at, name in enumerate(wanted):
            if name in rows or at % given.of != given.part:
                continue
            rows[name] = _row(name, Path(folder), given.made)
            out.write(json.dumps(rows[name]) + "\n")
            out.flush()
    found = [rows[name] for name in wanted if name in rows]
    text, good = _section(found)
    sys.stdout.write(text + "\n")
    if given.page:
        PAGE.write_text(replace_block(PAGE.read_text("utf-8"), "random", text), "utf-8")
    return 0 if good else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--jobs", type=int, default=200, help="jobs with faults (200)")
    parser.add_argument("--healthy", type=int, default=50, help="jobs without (50)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first job (0)")
    parser.add_argument("--alone", action="store_true", help="only those of one fault")
    parser.add_argument("--rows", type=Path, default=Path("random_jobs.jsonl"), help="where rows are kept")
    parser.add_argument("--made", type=Path, help="where captures are kept (nowhere)")
    parser.add_argument("--part", type=int, default=0, help="which part of the jobs to run (0)")
    parser.add_argument("--of", type=int, default=1, help="of so many parts (1)")
    parser.add_argument("--page", action="store_true", help="write the table into docs/accuracy.md")
    return parser


def _read(path: Path) -> Iterator[Row]:
    if path.exists():
        yield from (json.loads(line) for line in path.read_text("utf-8").splitlines() if line)


def _row(name: str, folder: Path, kept: Path | None = None) -> Row:
    """One job: its planted faults, the cost of each, and the first finding of the report."""
    about, made = _made(name, kept or folder)
    try:
        report = analyze(load([made], Cache(folder / "cache")))
    finally:
        shutil.rmtree(folder / "cache", ignore_errors=True)
        if kept is None:
            shutil.rmtree(made)
    return about | _said(report) | {"contradictions": contradictions(report)}


def _made(name: str, folder: Path) -> tuple[Row, Path]:
    """The facts on a job, and the folder of its captures, which are made if they do not exist."""
    made, known = folder / name.replace(" ", "_"), folder / f"{name.replace(' ', '_')}.json"
    if known.exists() and made.exists():
        return json.loads(known.read_text("utf-8")), made
    shutil.rmtree(made, ignore_errors=True)
    draw = random.Random(name)
    form = draw.choice(FORMS)
    job, costs, length = _healthy(draw, form) if name.startswith("healthy") else _planted(draw, form)
    options = Options(device="rocm" if form == "rocm" else "cuda", roof=False)
    generate(made, job, formats=["kineto" if form in ("cuda", "rocm") else form], options=options, truth=False)  # type: ignore[list-item]
    about = {
        "name": name,
        "form": form,
        "ranks": job.ranks,
        "noise": job.noise,
        "step_ns": length,
        "exposed_ns": _exposed(replace(job, faults=()), form),
        "faults": [
            {"kind": fault.kind, "size": fault.size, "ranks": fault.struck(ranks=job.ranks, hosts=job.hosts, pp=job.pp),
             "cost_ns": cost, "code": _code(fault.kind, form)}
            for fault, cost in zip(job.faults, costs, strict=True)
        ],
    }  # fmt: skip
    known.write_text(json.dumps(about), "utf-8")
    return about, made


def _said(report: Report) -> Row:
    by_code = {one.code: one for one in reversed(report.findings)}
    return {
        "found": [
            {"code": code, "blames": [blame.rank for blame in by_code[code].blames if blame.is_rank],
             "ranks": by_code[code].ranks, "low_ns": one.gain.low_ns, "high_ns": one.gain.high_ns,
             "cost_ns": by_code[code].cost_ns, "confidence": one.confidence, "specs": one.specs,
             "expected_ns": one.gain.expected_ns, "replayed": one.gain.replayed}
            for one in report.plan.actions for code in one.codes if code in by_code
        ],
    }  # fmt: skip


def _layout(draw: random.Random) -> Job:
    (ranks,) = draw.choices(RANKS, WEIGHTS)
    return Job(
        ranks=ranks,
        steps=4,
        layers=8,
        hosts=max(1, ranks // 8),
        seed=draw.randrange(10**6),
        noise=draw.randint(2, 6),
    )


def _healthy(draw: random.Random, form: str) -> tuple[Job, list[int], int]:
    job = _layout(draw)
    return job, [], step_ns(_run(job, form).profiles)


def _run(job: Job, form: str) -> Result:
    return simulate(as_written(job, ["kineto"] if form in ("cuda", "rocm") else ["ascend-db"]))


def _exposed(job: Job, form: str) -> int:
    """Exposed communication of the step with the median of it: the cost of the layout itself."""
    return round(median(step.exposed_ns for profile in _run(job, form).profiles for step in steps_of(profile)))


def _planted(draw: random.Random, form: str) -> tuple[Job, list[int], int]:
    """A job whose faults cost time; of several faults at least one does."""
    count = _drawn(draw)
    while True:
        job = _layout(draw)
        kinds = [kind for kind in EXPECTED if _fits(kind, job, form)]
        chosen = draw.sample(kinds, count)
        job = laid_out(job, chosen)
        job = replace(job, faults=tuple(_fault(draw, kind, job) for kind in chosen))
        costs, length = _costs(job, form)
        if max(costs) >= LEAST * length:
            return job, costs, length


def _drawn(draw: random.Random) -> int:
    """A random number of faults."""
    return draw.choices((1, 2, 3), (50, 25, 25))[0]


def _count(name: str) -> int:
    """The number of faults of a job that is not made yet."""
    draw = random.Random(name)
    draw.choice(FORMS)
    return _drawn(draw)


def _fits(kind: FaultKind, job: Job, form: str) -> bool:
    told = form in ("ascend-text", "ascend-db") or (kind, "kineto") not in NOT_TOLD
    return told and not (KINDS[kind].needs == "several hosts" and job.ranks < 4)


def _fault(draw: random.Random, kind: FaultKind, job: Job) -> Fault:
    usual = KINDS[kind].amount
    amount = max(1, round(usual * draw.uniform(0.5, 1.5))) if usual > 1 else usual
    if kind == "pipeline_imbalance":
        amount = 100
    one = kind in ON_ONE_RANK or (kind in ("gc_pause", "recompilation") and draw.random() < 0.5)
    return Fault(kind=kind, ranks=(draw.randrange(job.ranks),) if one else (), amount=amount)


def _costs(job: Job, form: str) -> tuple[list[int], int]:
    """The gain of removing each fault, and the step's length; by simulation alone."""

    whole = step_ns(_run(job, form).profiles)
    left = [
        replace(job, faults=(*job.faults[:at], *_cured(fault, job), *job.faults[at + 1 :]))
        for at, fault in enumerate(job.faults)
    ]
    return [whole - step_ns(_run(one, form).profiles) for one in left], whole


def _cured(fault: Fault, job: Job) -> tuple[Fault, ...]:
    """The rest of a fault after its fix: for uneven stages the same layers, on all stages."""
    if fault.kind != "pipeline_imbalance":
        return ()
    return (replace(fault, ranks=tuple(range(job.ranks)), amount=fault.amount // job.pp),)


def _code(kind: FaultKind, form: str) -> str:
    return LESS_TOLD.get((kind, "kineto"), EXPECTED[kind]) if form in ("cuda", "rocm") else EXPECTED[kind]


def right(row: Row) -> bool:
    """Whether the first action is about a fault among the most costly, and names its rank."""
    if not row["faults"]:
        return all(_of_layout(one, row) for one in row["found"])
    if not row["found"]:
        return False
    first, most = row["found"][0], max(fault["cost_ns"] for fault in row["faults"])
    if row["exposed_ns"] > most and _of_layout(first, row):
        return True
    return any(
        fault["code"] == first["code"] and fault["cost_ns"] >= NEAR * most and _named(first, fault)
        for fault in row["faults"]
    )


def _of_layout(found: Row, row: Row) -> bool:
    """Whether the finding only names the layout's own cost, as in the simulation without faults."""
    exposed: int = row["exposed_ns"]
    return bool(found["code"] == "COM001" and abs(found["cost_ns"] - exposed) <= ALIKE * exposed)


def _named(found: Row, fault: Row) -> bool:
    """Whether a finding names the struck rank, if the fault strikes one rank."""
    return fault["kind"] not in ON_ONE_RANK or [*found["ranks"]] == [*fault["ranks"]]


def gains(rows: Sequence[Row]) -> Iterator[tuple[str, Row, int]]:
    """Fault, finding and true gain for every reported gain of a fault planted alone."""
    for row in rows:
        if len(row["faults"]) == 1:
            fault = row["faults"][0]
            told = next((one for one in row["found"] if one["code"] == fault["code"]), None)
            if told is not None:
                yield fault["kind"], told, fault["cost_ns"]


def _section(rows: Sequence[Row]) -> tuple[str, bool]:
    """The text of the page, and whether every goal is met."""
    alone, two, three = ([row for row in rows if len(row["faults"]) == count] for count in (1, 2, 3))
    healthy = [row for row in rows if not row["faults"]]
    told = list(gains(rows))
    held = [one["low_ns"] <= truth <= one["high_ns"] for _, one, truth in told]
    narrow = [one["high_ns"] - one["low_ns"] <= (one["high_ns"] + one["low_ns"]) / 2 for _, one, _ in told]
    kinds_seen = [own for kind in EXPECTED if (own := _of_kind(kind, alone))[1]]
    least = min(kinds_seen, key=lambda own: own[0] / own[1], default=(0, 0))
    goals = [
        ("one fault: the first action is its cause", *_score(alone), ALONE),
        ("two faults: the first action is one of the large ones", *_score(two), SEVERAL),
        ("three faults: the first action is one of the large ones", *_score(three), SEVERAL),
        (
            "no fault: nothing, or communication that nothing hides and no more of it than there is",
            *_score(healthy),
            1.0,
        ),
        ("of these: nothing at all", sum(not row["found"] for row in healthy), len(healthy), 0.0),
        ("the range of the gain holds what the job without the fault gives", sum(held), len(held), HELD),
        ("the range is no wider than its middle", sum(narrow), len(narrow), NARROW),
        ("the kind of fault that is told least", *least, OF_A_KIND),
        ("reports without a contradiction", sum(not row["contradictions"] for row in rows), len(rows), 1.0),
    ]
    head = table(
        ("what", "good", "share", "goal"),
        [
            (what, f"{good} of {of}", f"{good / of:.0%}" if of else "not run", f"{goal:.0%}")
            for what, good, of, goal in goals
        ],
    )
    kinds = table(
        ("fault alone", "jobs", "first", "ranges", "hold", "told over true, median", "median width", "widest"),
        [_kind(kind, alone, told) for kind in EXPECTED],
    )
    missed = table(
        ("job", "form", "ranks", "planted", "share of the step", "first actions"),
        [_missed(row) for row in rows if not right(row)],
    )
    good = all(of and good >= goal * of for _, good, of, goal in goals)
    return f"{head}\n\n{kinds}\n\nMissed:\n\n{missed}", good


def _score(rows: Sequence[Row]) -> tuple[int, int]:
    return sum(map(right, rows)), len(rows)


def _of_kind(kind: str, alone: Sequence[Row]) -> tuple[int, int]:
    """How many jobs with only this fault are right, and how many there are."""
    return _score([row for row in alone if row["faults"][0]["kind"] == kind])


def _kind(kind: str, alone: Sequence[Row], told: Sequence[tuple[str, Row, int]]) -> tuple[str, ...]:
    right_ones, jobs = _of_kind(kind, alone)
    mine = [(one, truth) for of, one, truth in told if of == kind]
    held = sum(one["low_ns"] <= truth <= one["high_ns"] for one, truth in mine)
    ratio = f"{median(one['expected_ns'] / truth for one, truth in mine):.2f}" if mine else "-"
    widths = [one["high_ns"] / one["low_ns"] for one, _ in mine if one["low_ns"]]
    usual, widest = (f"{median(widths):.1f}", f"{max(widths):.1f}") if widths else ("-", "-")
    return f"`{kind}`", str(jobs), str(right_ones), str(len(mine)), str(held), ratio, usual, widest


def _missed(row: Row) -> tuple[str, ...]:
    planted = " and ".join(f"`{fault['kind']}`" for fault in row["faults"]) or "nothing"
    shares = ", ".join(f"{fault['cost_ns'] / row['step_ns']:.0%}" for fault in row["faults"]) or "-"
    found = ", ".join(one["code"] for one in row["found"][:3]) or "nothing"
    return row["name"], row["form"], str(row["ranks"]), planted, shares, found


if __name__ == "__main__":
    sys.exit(main())
