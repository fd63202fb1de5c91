"""Compares two recordings: every rank and step that both have, in parallel where there are several ranks."""

from __future__ import annotations

import functools
import gc
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

from hermes.base.cores import cores, processes
from hermes.base.errors import Diagnostic, InputError
from hermes.precision.judge import judge
from hermes.precision.judgement import MOST_NOTES, Before, Judgement
from hermes.precision.model import Run
from hermes.precision.read import msprobe, recording
from hermes.precision.read.tensors import Files
from hermes.precision.verdict import First, Link, chain, describe, first_of

_TIMES = 6
"""Bytes of memory that a step takes while it is compared, by those of its lines; 5.5 on one of 250,000 lines."""
P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What a comparison found. `verdict` is agree or differ."""

    golden: Run
    target: Run
    verdict: str
    first: First | None
    chain: tuple[Link, ...]
    judgements: tuple[Judgement, ...]
    diagnostics: tuple[Diagnostic, ...]
    others: tuple[First, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def sentence(self) -> str:
        """What to read first."""
        if self.first is not None:
            return self.first.sentence
        many = len({one.step for one in self.judgements})
        steps = "1 step" if many == 1 else f"{many} steps"
        ranks = len({one.rank for one in self.judgements})
        values = sum(len(one.rows) for one in self.judgements)
        exact = all(row.outputs is None or row.outputs.equal for one in self.judgements for row in one.rows)
        how = "in every bit that was recorded" if exact else "within what rounding explains"
        where = "1 rank" if ranks == 1 else f"{ranks} ranks"
        return f"The runs agree {how}: {values:,} operators of {steps} on {where}."


def read(path: Path) -> Run:
    """A recording of Hermes or a dump of msProbe."""
    if not path.exists():
        raise InputError("there is no such folder", where=str(path), hint="give a folder that was recorded")
    if path.is_dir() and recording.is_recording(path):
        return recording.read(path)
    if msprobe.is_dump(path):
        return msprobe.read(path)
    raise InputError(
        "this is neither a recording of Hermes nor a dump of msProbe", where=str(path),
        hint="`hermes precision record` writes one; of msProbe give dump_path, a step folder or dump.json",
    )  # fmt: skip


def _without_collector(function: Callable[P, R]) -> Callable[P, R]:
    """Millions of small things that are all kept: to look through them for rubbish takes longer than to make them."""

    @functools.wraps(function)
    def quiet(*args: P.args, **given: P.kwargs) -> R:
        collecting = gc.isenabled()
        gc.disable()
        try:
            return function(*args, **given)
        finally:
            if collecting:
                gc.enable()

    return quiet


@_without_collector
def compare(
    golden: Path, target: Path, *, noise: Path | None = None, jobs: int | None = None, memory_bytes: int | None = None
) -> Comparison:
    """Compare two recordings; `noise` is a repeated golden run, which shows what differs without a reason.

    As many ranks are compared at once as `jobs` and `memory_bytes` allow, but always one.
    """
    runs = read(golden), read(target)
    repeat = read(noise) if noise is not None else None
    common = [one for one in runs[0].steps if one in set(runs[1].steps)]
    diagnostics = [*runs[0].diagnostics, *runs[1].diagnostics]
    if not common:
        steps = [sorted({step for _, step in run.steps}) for run in runs]
        raise InputError(
            "the recordings have no step in common", where=f"{golden} has {steps[0][:8]}, {target} has {steps[1][:8]}",
            hint="record the same steps and ranks on both sides",
        )  # fmt: skip
    missing = sorted(set(runs[0].steps) ^ set(runs[1].steps))
    if missing:
        text = ", ".join(f"rank {rank} step {step}" for rank, step in missing[:6])
        diagnostics.append(Diagnostic(level="degraded", message=f"only one side has {text}", lost="their comparison"))
    ranks = sorted({rank for rank, _ in common})
    most = jobs or cores()
    workers = min(most, len(ranks), _fitting(runs, memory_bytes))
    tasks = [
        _Task(*runs, repeat, rank, [step for one, step in common if one == rank], max(most // workers, 1))
        for rank in ranks
    ]
    if workers > 1:
        with processes(workers) as pool:
            parts = list(pool.map(_rank, tasks))
    else:
        parts = [_rank(task) for task in tasks]
    found = [one for judgements, _ in parts for one in judgements]
    for _, said in parts:
        diagnostics += [one for one in said if one not in diagnostics]
    guilty = first_of(found)
    first = describe(*guilty) if guilty else None
    way = tuple(chain(*guilty)) if guilty else ()
    others = tuple(describe(one, suspect) for one in found for suspect in one.suspects if (one, suspect) != guilty)
    return Comparison(
        golden=runs[0], target=runs[1], verdict="differ" if guilty else "agree", first=first, chain=way,
        judgements=tuple(found), diagnostics=tuple(diagnostics), others=others[:50],
        notes=() if guilty else tuple(dict.fromkeys(note for one in found for note in one.notes))[:MOST_NOTES],
    )  # fmt: skip


class _Task(NamedTuple):
    golden: Run
    target: Run
    repeat: Run | None
    rank: int
    steps: list[int]
    jobs: int


@_without_collector
def _rank(task: _Task) -> tuple[list[Judgement], list[Diagnostic]]:
    """What was found on one rank, and what could not be read of it, perhaps in a process of its own."""
    rank = task.rank
    said: list[Diagnostic] = []
    found: list[Judgement] = []
    updates: dict[str, float] | None = None
    for at, step in enumerate(task.steps):
        files = Files()  # what was mapped for a step is let go with it
        golden, target = _load(task.golden, rank, step), _load(task.target, rank, step)
        before = Before(updates, first=at == 0 or task.steps[at - 1] != step - 1, begins=step == 0)
        repeated = None
        if task.repeat is not None and (rank, step) in task.repeat.steps:
            repeated = _repeated(golden, _load(task.repeat, rank, step), files, before)
        one = judge(golden, target, files, before=before, repeated=repeated, jobs=task.jobs)
        updates = one.updates or {}
        found.append(one)
        said += _unread(files, step)
    return found, [*task.golden.diagnostics, *task.target.diagnostics, *said]


def _unread(files: Files, step: int) -> list[Diagnostic]:
    """A line for each folder with files that should hold a tensor each and do not."""
    folders = Counter(path.parent for path in files.unread)
    return [
        Diagnostic(
            level="degraded", lost="their elements", where=str(folder),
            message=f"{_many(many)} of step {step} cannot be read: missing, damaged or no plain tensor",
        )
        for folder, many in sorted(folders.items())
    ]  # fmt: skip


def _many(files: int) -> str:
    return "1 tensor's file" if files == 1 else f"{files} tensors' files"


def _fitting(runs: tuple[Run, Run], memory_bytes: int | None) -> int:
    """How many ranks' steps fit into so much memory at once; those of dumps of msProbe are in memory already."""
    largest = [int(getattr(run.loader, "largest", int)()) for run in runs]
    return max((memory_bytes or sys.maxsize) // max(_TIMES * sum(largest), 1), 1)


def _load(run: Run, rank: int, step: int) -> Any:
    return run.loader.load(rank, step)  # type: ignore[attr-defined]


def _repeated(golden: Any, repeat: Any, files: Files, before: Before) -> dict[int, float]:
    shown = judge(golden, repeat, files, before=before)
    return {
        row.golden: row.outputs.relative for row in shown.rows if row.golden is not None and row.outputs is not None
    }
