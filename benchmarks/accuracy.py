"""Plants each fault of the generator, and writes how exactly measures and causes find it into docs/accuracy.md.

    python benchmarks/accuracy.py [--only measures] [--only causes]

The truth comes from the generator: the same job simulated with and without the fault. No times are measured here.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cause_accuracy
from comm_accuracy import MOVES, CommRow, comm_row, measured, truth

from hermes.model.compute_measures import StepCompute
from hermes.model.host_measures import HostEvents, StepHost, SyncCall
from hermes.model.input_measures import Fetches
from hermes.model.path_measures import PathPart
from hermes.model.report import Report
from hermes.profiles.load import load
from hermes.profiles.pipeline.analyze import analyze
from hermes.store.cache import Cache
from hermes_testing import Fault, Format, Job, as_written, generate, simulate
from hermes_testing.faults import KINDS, FaultKind
from hermes_testing.markdown import replace_block, table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "accuracy.md"
FORMATS: tuple[Format, ...] = ("ascend-text", "ascend-db", "kineto")
JOB = Job(ranks=8, steps=4)
PARTS = ["measures", "causes"]
SHARE, FLOOR_NS = 0.05, 50_000

Of = Callable[[PathPart], bool]


def _component(*names: str) -> Of:
    return lambda part: part.component in names


def _reason(name: str) -> Of:
    return lambda part: part.component == "host" and part.reason == name


_DEVICE, _LINKS = _component("compute"), _component("communication", "wait", "device gap")
EXPECTED: dict[FaultKind, tuple[str, Of]] = {
    "slow_rank_compute": ("compute", _DEVICE),
    "frequency_drop": ("compute", _DEVICE),
    "ai_cpu_operators": ("compute", _DEVICE),
    "slow_link": ("communication", _LINKS),
    "small_packets": ("communication", _LINKS),
    "unaligned_sizes": ("communication", _LINKS),
    "retransmission": ("communication", _LINKS),
    "exposed_all_reduce": ("communication", _LINKS),
    "data_wait": ("host (data loading)", _reason("data loading")),
    "gc_pause": ("host (garbage collection)", _reason("garbage collection")),
    "recompilation": ("host (compilation)", _reason("compilation")),
    "synchronisation_calls": ("host and launch", _component("host", "launch", "device gap")),
    "slow_rank_host": ("host and launch", _component("host", "launch")),
    "host_bound_dispatch": ("host and launch", _component("host", "launch")),
    "pipeline_imbalance": ("compute", _DEVICE),
    "uneven_batches": ("compute", _DEVICE),
}
"""The part of the critical path that each fault should lengthen."""


Measure = Callable[[StepCompute], int | None]
MEASURES: dict[FaultKind, tuple[tuple[str, Measure], ...]] = {
    "frequency_drop": (
        ("lost by a slow clock", lambda step: step.losses.frequency_ns),
        ("beyond the median rank", lambda step: step.over_peers_ns),
    ),
    "slow_rank_compute": (("beyond the median rank", lambda step: step.over_peers_ns),),
    "ai_cpu_operators": (("on AI CPU", lambda step: step.ai_cpu_ns),),
}
"""The measures of compute that each fault should change on its ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One measure of compute under one fault: the planted value on a struck rank and step, and the measure's change."""

    kind: str
    form: str
    name: str
    planted_ns: int
    moved_ns: int | None

    @property
    def good(self) -> bool:
        """Whether the measure returns the planted time; for a format that does not record the measure, no answer is
        expected."""
        return self.moved_ns is None or abs(self.moved_ns - self.planted_ns) <= max(SHARE * self.planted_ns, FLOOR_NS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One fault in one format: its cost in a step, and the parts of the critical path."""

    kind: str
    form: str
    cost_ns: int
    expected: str
    moved_ns: int
    left_ns: int
    unexplained: float

    @property
    def good(self) -> bool:
        """Whether the path shows the cost; time that left the path for the fault reduces the cost."""
        return abs(self.moved_ns + self.left_ns - self.cost_ns) <= max(SHARE * self.cost_ns, FLOOR_NS)


def main() -> int:
    """Write the named parts into the page; 0 when every measure is within the limits."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; again for another (all)")
    parts = parser.parse_args().only or PARTS
    good = True
    with tempfile.TemporaryDirectory() as folder:
        if "measures" in parts:
            text, good = _measures(Path(folder))
            _put("measures", text)
        if "causes" in parts:
            causes = {part: list(cause_accuracy.rows(Path(folder), part)) for part in cause_accuracy.PARTS}
            _put("causes", cause_accuracy.part_text(causes))
    return 0 if good else 1


def _put(block: str, text: str) -> None:
    print(text)
    PAGE.write_text(replace_block(PAGE.read_text("utf-8"), block, text), "utf-8")


def _measures(folder: Path) -> tuple[str, bool]:
    """How many measures return the planted value, the measures that do not, and whether all do."""
    compute: list[Measured] = []
    rows: dict[str, list[Any]] = {
        "the critical path grows by what the fault costs": list(_rows(folder, compute)),
        "time lost by a slow clock, on AI CPU, and beyond the median rank": compute,
        "waits for batches, garbage collection, compilation, the host's own work, synchronizing calls": [
            *_host_rows(folder)
        ],
        "communication: waiting, transfer, fixed cost, slow links, stalls, bubbles, clocks": [*_comm_rows(folder)],
    }
    told = {what: [row for row in found if getattr(row, "moved_ns", 0) is not None] for what, found in rows.items()}
    summary = [(what, f"{sum(row.good for row in found)} of {len(found)}") for what, found in told.items()]
    missed = [f"- `{row.kind}`, {row.form}: {row}" for found in told.values() for row in found if not row.good]
    return "\n".join([table(("what", "within the limits"), summary), *(["", *missed] if missed else [])]), not missed


def _rows(folder: Path, measured: list[Measured]) -> Iterator[Row]:
    for kind in KINDS:
        if kind not in EXPECTED:
            continue
        job = _layout(kind)
        for form in FORMATS:
            well, _ = _report(folder, form, job)
            sick, truth = _report(folder, form, replace(job, faults=(Fault(kind=kind),)))
            measured += _compute_measures(kind, form, truth["faults"][0]["injected"], well, sick)
            yield _row(kind, form, truth["faults"][0]["cost_ns_per_step"], well, sick)


def _comm_rows(folder: Path) -> Iterator[CommRow]:
    for kind in KINDS:
        if kind not in MOVES:
            continue
        job = _layout(kind)
        planted = replace(job, faults=(Fault(kind=kind),))
        for form in FORMATS:
            well, sick = (truth(simulate(as_written(one, [form]))) for one in (job, planted))
            report, _ = _report(folder, form, planted)
            yield comm_row(kind, form, well, sick, measured(report, job.steps), near=_near)


def _near(value: float, true: float) -> bool:
    return abs(value - true) <= max(SHARE * abs(true), FLOOR_NS)


def _compute_measures(
    kind: FaultKind, form: str, injected: Sequence[dict[str, int]], well: Report, sick: Report
) -> Iterator[Measured]:
    """Each measure of the fault, over its ranks and steps."""
    struck = {(one["rank"], one["step"]) for one in injected}
    planted = sum(one["ns"] for one in injected) // max(len(injected), 1)
    for name, of in MEASURES.get(kind, ()):
        before, after = (
            [of(step) for step in report.rows(StepCompute) if (step.rank, step.step) in struck]
            for report in (well, sick)
        )
        moved = None
        if None not in before and None not in after:
            moved = (sum(ns or 0 for ns in after) - sum(ns or 0 for ns in before)) // max(len(after), 1)
        yield Measured(kind=kind, form=form, name=name, planted_ns=planted, moved_ns=moved)


def _layout(kind: FaultKind) -> Job:
    if KINDS[kind].needs == "several stages":
        return replace(JOB, pp=2)
    if kind == "gc_pause":
        # PyTorch records garbage collections only with stacks.
        return replace(JOB, stacks=True)
    return replace(JOB, hosts=2) if KINDS[kind].needs == "several hosts" or KINDS[kind].where == "second host" else JOB


def _report(folder: Path, form: str, job: Job) -> tuple[Report, dict[str, Any]]:
    name = f"{form}-{job.pp}-{job.hosts}-{job.stacks}-{'-'.join(fault.kind for fault in job.faults)}"
    made = folder / name
    if not made.exists():
        generate(made, job, formats=[form])  # type: ignore[list-item]
    return analyze(load([made], Cache(folder / "cache"))), json.loads((made / "truth.json").read_text("utf-8"))


def _row(kind: FaultKind, form: str, cost_ns: int, well: Report, sick: Report) -> Row:
    expected, of = EXPECTED[kind]
    before, after = _stretches(well), _stretches(sick)
    moved = sum(part.ns for part in after if of(part)) - sum(part.ns for part in before if of(part))
    rest = sum(part.ns for part in after if not of(part)) - sum(part.ns for part in before if not of(part))
    return Row(
        kind=kind,
        form=form,
        cost_ns=cost_ns,
        expected=expected,
        moved_ns=moved,
        left_ns=min(rest, 0),
        unexplained=sick.paths[0].unexplained_share,
    )


def _stretches(report: Report) -> Sequence[PathPart]:
    """The parts of the slowest rank's path."""
    return report.paths[0].parts


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRow:
    """One fault of the host in one format: the planted time, its measure's change, and the other measures' changes."""

    kind: str
    form: str
    measure: str
    planted: int
    moved: int
    others: int
    unit: str

    @property
    def good(self) -> bool:
        """Whether the measure changed by the planted time, and no other measure by more than the limits."""
        limit = max(SHARE * self.planted, FLOOR_NS) if self.unit == "ms" else 0
        return abs(self.moved - self.planted) <= limit and self.others <= max(SHARE * self.planted, FLOOR_NS)


Of_report = Callable[[Report, int], int]


def _events(what: str) -> Of_report:
    """A function that returns the host time for one kind of work on a rank, over the capture."""
    return lambda report, rank: next(
        (row.ns or 0 for row in report.rows(HostEvents) if (row.rank, row.what) == (rank, what)), 0
    )


def _waited(report: Report, rank: int) -> int:
    return next((row.wait_ns for row in report.rows(Fetches) if row.rank == rank), 0)


def _own(report: Report, rank: int) -> int:
    """The host's own time in the typical step: without its waits, with the threads of its task queue."""
    row = next(row for row in report.rows(StepHost) if row.rank == rank)
    return row.host_ns - row.of("synchronisation") + (row.queue_ns or 0)


def _sync_calls(report: Report, rank: int) -> int:
    rows = [row for row in report.rows(SyncCall) if row.rank == rank and row.operator == "aten::_local_scalar_dense"]
    return sum(row.calls for row in rows)


_GC, _COMPILED = _events("garbage collection"), _events("compilation")
_SCOPES: dict[str, Of_report] = {"data": _waited, "collections": _GC, "compilation": _COMPILED}
HOST_EXPECTED: tuple[tuple[FaultKind, str, Of_report, str], ...] = (
    ("data_wait", "wait for batches, whole capture", _waited, "data"),
    ("gc_pause", "garbage collection, whole capture", _GC, "collections"),
    ("recompilation", "compilation, whole capture", _COMPILED, "compilation"),
    ("host_bound_dispatch", "the host's own work, typical step", _own, "data"),
    ("slow_rank_host", "the host's own work, typical step", _own, "data"),
    ("synchronisation_calls", "synchronising calls, typical step", _sync_calls, ""),
)
"""Fault, measure, and the scope that is part of the measure: a slow host slows all of its work."""


def _host_rows(folder: Path) -> Iterator[HostRow]:
    for kind, words, measure, own in HOST_EXPECTED:
        job = _layout(kind)
        for form in FORMATS:
            well, _ = _report(folder, form, job)
            sick, truth = _report(folder, form, replace(job, faults=(Fault(kind=kind),)))
            fault = truth["faults"][0]
            rank = fault["ranks"][0]
            added = {row["step"]: row["ns"] for row in fault["injected"] if row["rank"] == rank}
            typical = next(row.step for row in sick.rows(StepHost) if row.rank == rank)
            calls = kind == "synchronisation_calls"
            planted = fault["amount"] if calls else added[typical] if measure is _own else sum(added.values())
            others = [
                abs(of(sick, rank) - of(well, rank)) for scope, of in _SCOPES.items() if scope != own
            ]  # fmt: skip
            yield HostRow(
                kind=kind,
                form=form,
                measure=words,
                planted=planted,
                moved=measure(sick, rank) - measure(well, rank),
                others=max(others),
                unit="calls" if calls else "ms",
            )


if __name__ == "__main__":
    sys.exit(main())
