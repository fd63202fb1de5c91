"""Plants each fault of the generator, and writes how far the measures give it back into docs/accuracy.md.

    python benchmarks/accuracy.py [measures] [causes]

The truth is the generator's: the same job simulated with and without the fault. Nothing here is timed.
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
from hermes.model.path_measures import PathPart, StepPath
from hermes.model.report import Report
from hermes.profiles.load import load
from hermes.profiles.pipeline.analyze import analyze
from hermes.store.cache import Cache
from hermes_testing import Fault, Format, Job, as_written, generate, simulate
from hermes_testing.faults import KINDS, FaultKind

PAGE = Path(__file__).resolve().parents[1] / "docs" / "accuracy.md"
FORMATS: tuple[Format, ...] = ("ascend-text", "ascend-db", "kineto")
JOB = Job(ranks=8, steps=4)
PARTS = ["measures", "causes"]
_CAUSES, _BEHIND = "## Causes", "## Detection on step times"
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
"""What a fault should lengthen on the path."""


Measure = Callable[[StepCompute], int | None]
MEASURES: dict[FaultKind, tuple[tuple[str, Measure], ...]] = {
    "frequency_drop": (
        ("lost by a slow clock", lambda step: step.losses.frequency_ns),
        ("beyond the median rank", lambda step: step.over_peers_ns),
    ),
    "slow_rank_compute": (("beyond the median rank", lambda step: step.over_peers_ns),),
    "ai_cpu_operators": (("on AI CPU", lambda step: step.ai_cpu_ns),),
}
"""What a fault should move among the measures of compute, on the ranks that it strikes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One measure of compute under one fault: what was planted on a struck rank and step, and how far it moved."""

    kind: str
    form: str
    name: str
    planted_ns: int
    moved_ns: int | None

    @property
    def good(self) -> bool:
        """Whether the measure gives the planted time back; one that the format does not record cannot."""
        return self.moved_ns is None or abs(self.moved_ns - self.planted_ns) <= max(SHARE * self.planted_ns, FLOOR_NS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One fault in one format: what it costs a step, and what the path says."""

    kind: str
    form: str
    cost_ns: int
    expected: str
    moved_ns: int
    left_ns: int
    unexplained: float

    @property
    def good(self) -> bool:
        """Whether the path gives the cost back; what left the path for it is the cost's other side."""
        return abs(self.moved_ns + self.left_ns - self.cost_ns) <= max(SHARE * self.cost_ns, FLOOR_NS)


def main() -> int:
    """Write the page, or the parts of it that are named; 0 when every measure is within the limits."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("parts", nargs="*", choices=PARTS, default=PARTS, help=f"{', '.join(PARTS)} (all)")
    parts = parser.parse_args().parts
    with tempfile.TemporaryDirectory() as folder:
        good = _measures(Path(folder)) if "measures" in parts else True
        if "causes" in parts:
            causes = {part: list(cause_accuracy.rows(Path(folder), part)) for part in cause_accuracy.PARTS}
            _put("\n".join(cause_accuracy.part_lines(causes)), _CAUSES, _BEHIND)
    print(PAGE)
    return 0 if good else 1


def _measures(folder: Path) -> bool:
    moved: list[Measured] = []
    rows = list(_rows(folder, moved))
    host, talk = list(_host_rows(folder)), list(_comm_rows(folder))
    _put(_page(rows, moved, host, talk) + "\n", "", _CAUSES)
    every = [*rows, *moved, *host, *talk]
    good = sum(row.good for row in every)
    print(f"{good} of {len(every)} measures within {SHARE:.0%} or {FLOOR_NS // 1000} us")
    return bool(good == len(every))


def _put(text: str, head: str, behind: str) -> None:
    """Write a part of the page: from the line `head` (the beginning without one) to the line `behind`.

    Other measurements write theirs before and behind.
    """
    page = PAGE.read_text("utf-8")
    first, last = page.index(f"\n{head}") + 1 if head else 0, page.index(f"\n{behind}") + 1
    PAGE.write_text(page[:first] + text.rstrip("\n") + "\n\n" + page[last:], "utf-8")


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
    """Each measure of the fault, over the ranks and steps that it strikes."""
    struck = {(one["rank"], one["step"]) for one in injected}
    planted = sum(one["ns"] for one in injected) // max(len(injected), 1)
    for name, of in MEASURES.get(kind, ()):
        before, after = (
            [of(step) for step in report.compute.steps if (step.rank, step.step) in struck] for report in (well, sick)
        )
        moved = None
        if None not in before and None not in after:
            moved = (sum(ns or 0 for ns in after) - sum(ns or 0 for ns in before)) // max(len(after), 1)
        yield Measured(kind=kind, form=form, name=name, planted_ns=planted, moved_ns=moved)


def _layout(kind: FaultKind) -> Job:
    if KINDS[kind].needs == "several stages":
        return replace(JOB, pp=2)
    if kind == "gc_pause":
        # PyTorch records collections where it records stacks.
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
    """The parts of the slowest rank's path, with those of the time before its window."""
    paths: list[StepPath] = [report.paths[0], *(path for path in report.paths[1:2] if path.stretch == "preparing")]
    return [part for path in paths for part in path.parts]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRow:
    """One fault of the host in one format: what was planted, by how much its measure moved, and the others."""

    kind: str
    form: str
    measure: str
    planted: int
    moved: int
    others: int
    unit: str

    @property
    def good(self) -> bool:
        """Whether the measure moved by what was planted, and no other by more than the limits."""
        limit = max(SHARE * self.planted, FLOOR_NS) if self.unit == "ms" else 0
        return abs(self.moved - self.planted) <= limit and self.others <= max(SHARE * self.planted, FLOOR_NS)


Of_report = Callable[[Report, int], int]


def _events(what: str) -> Of_report:
    """Host time for one kind of work on a rank, over the capture."""
    return lambda report, rank: next(
        (row.ns or 0 for row in report.host.events if (row.rank, row.what) == (rank, what)), 0
    )


def _waited(report: Report, rank: int) -> int:
    return next((row.wait_ns for row in report.host.fetches if row.rank == rank), 0)


def _own(report: Report, rank: int) -> int:
    """What the host itself did in the typical step: all but its waits, with the threads of its task queue."""
    row = next(row for row in report.host.steps if row.rank == rank)
    return row.host_ns - row.of("synchronisation") + (row.queue_ns or 0)


def _sync_calls(report: Report, rank: int) -> int:
    rows = [row for row in report.host.syncs if row.rank == rank and row.operator == "aten::_local_scalar_dense"]
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
"""Fault, measure, and the scope that is no other of it: all that the host does is slow when the host is."""


def _host_rows(folder: Path) -> Iterator[HostRow]:
    for kind, words, measure, own in HOST_EXPECTED:
        job = _layout(kind)
        for form in FORMATS:
            well, _ = _report(folder, form, job)
            sick, truth = _report(folder, form, replace(job, faults=(Fault(kind=kind),)))
            fault = truth["faults"][0]
            rank = fault["ranks"][0]
            added = {row["step"]: row["ns"] for row in fault["injected"] if row["rank"] == rank}
            typical = next(row.step for row in sick.host.steps if row.rank == rank)
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


def _host_lines(rows: Sequence[HostRow]) -> Iterator[str]:
    for row in rows:
        scale = 1e6 if row.unit == "ms" else 1
        digits = 3 if row.unit == "ms" else 0
        good = "yes" if row.good else "**no**"
        yield (
            f"| `{row.kind}` | {row.form} | {row.measure} | {row.planted / scale:.{digits}f} {row.unit} "
            f"| {row.moved / scale:.{digits}f} {row.unit} | {row.others / 1e6:.3f} ms | {good} |"
        )


def _page(rows: Sequence[Row], moved: Sequence[Measured], host: Sequence[HostRow], talk: Sequence[CommRow]) -> str:
    lines = [_HEAD]
    lines += [
        f"| `{row.kind}` | {row.form} | {row.cost_ns / 1e6:.3f} | {row.expected} | {row.moved_ns / 1e6:.3f} "
        f"| {row.left_ns / 1e6:.3f} | {row.unexplained:.1%} | {'yes' if row.good else '**no**'} |"
        for row in rows
    ]
    good = sum(row.good for row in rows)
    lines += ["", f"{good} of {len(rows)} rows are good.", "", _MEASURES_HEAD]
    lines += [
        f"| `{row.kind}` | {row.form} | {row.name} | {row.planted_ns / 1e6:.3f} "
        f"| {'not recorded' if row.moved_ns is None else f'{row.moved_ns / 1e6:.3f}'} "
        f"| {'-' if row.moved_ns is None else 'yes' if row.good else '**no**'} |"
        for row in moved
    ]
    lines += ["", _HOST_HEAD, *_host_lines(host), ""]
    well = sum(row.good for row in host)
    lines += [f"{well} of {len(host)} rows are good.", "", _COMM_HEAD]
    lines += [
        f"| `{row.kind}` | {row.form} | {row.name} | {row.before_ns / 1e6:.3f} | {row.after_ns / 1e6:.3f} "
        f"| {'not recorded' if row.said_ns is None else f'{row.said_ns / 1e6:.3f}'} "
        f"| {row.other}: {row.other_ns / 1e6:+.3f} | {'yes' if row.good else '**no**'} |"
        for row in talk
    ]
    good = sum(row.good for row in talk)
    return "\n".join([*lines, "", f"{good} of {len(talk)} rows are good.", "", _COMM_NOTES])


_HEAD = f"""# Accuracy

`make accuracy` writes this page. Each fault of `hermes_testing` is planted by itself in a modelled job of 8 ranks, 4
steps and 8 layers. The *cost* is what the generator says a step would gain without the fault. *Moved* is how much
longer the part of the slowest rank's critical path is that the fault should lengthen, the time before the window
included; *left* is what is no longer on the path because the fault is longer than it. A row is good when both together
give the cost within {SHARE:.0%} or {FLOOR_NS // 1_000} us.

| fault | format | cost, ms | should lengthen | moved, ms | left, ms | unexplained | good |
|---|---|---|---|---|---|---|---|"""
_HOST_HEAD = f"""## Host and input

The same faults by the measures of the host, on the first rank that is struck. *Planted* is what the generator added
there: time in the call, or calls. *Others* is by how much the most moved of the wait for batches, collections and
compilation that should not have. A slow host is slow in all it does, its calls for batches too. Good is a measure that
moved by what was planted, and others that stayed, within {SHARE:.0%} or {FLOOR_NS // 1_000} us.

| fault | format | measure | planted | moved | others | good |
|---|---|---|---|---|---|---|"""
_COMM_HEAD = f"""## Communication

The same faults, and what the measures of communication say. *Without* and *with* are the truth in milliseconds a step,
counted from the simulated events (`benchmarks/comm_accuracy.py`); *measured* is what the report of the written files
says with the fault. The measures are waiting and transfer (mean over ranks), exposed transfer, the fixed cost of
operations, the excess of the slowest link over its peers, the time of unaligned operations, stalls, the time in which
the others waited for one rank alone, the bubble of the first stage, and the offset of the clocks. A row is good when
each of them that the format allows is within {SHARE:.0%} or {FLOOR_NS // 1_000} us of the truth: so the one that should
move does, and the others do not for no reason. The next column is the other measure that errs most.

| fault | format | should move | without, ms | with, ms | measured, ms | largest other error, ms | good |
|---|---|---|---|---|---|---|---|"""
_COMM_NOTES = """Kineto records no single transfers: a slow link shows as slow collectives there. Nor do these files
name hosts, so that the clocks have an error of up to 2 us; leads within it are no waits, and the sum of the waits may
be short by as much for each operation.
"""
_MEASURES_HEAD = """## Measures of compute

What a step of a struck rank was given, *planted*, and how far the measure that should tell it *moved*, both as means.

| fault | format | measure | planted, ms | moved, ms | good |
|---|---|---|---|---|---|"""


if __name__ == "__main__":
    sys.exit(main())
