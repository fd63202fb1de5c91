"""Compares two recordings: every rank and step that both have, several ranks in parallel."""

from __future__ import annotations

import functools
import gc
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar

from hermes.base.errors import Diagnostic, InputError
from hermes.base.message import Message
from hermes.base.usable_cores import cores, processes
from hermes.precision import messages as say
from hermes.precision import recording_notes
from hermes.precision.first_divergence import DivergenceLink, FirstDivergence, chain, describe, first_of
from hermes.precision.first_wrong_operator import compare_step
from hermes.precision.judgement_rows import MOST_NOTES, Judgement, StepBefore
from hermes.precision.messages import Side
from hermes.precision.read import msprobe, recording
from hermes.precision.read.tensors import Files
from hermes.precision.recorded_step import Recording

_TIMES = 6
"""Memory that comparing a step takes, as a multiple of the bytes of its lines; 5.5 on a step of 250,000 lines."""
Verdict = Literal["agree", "differ", "incomplete"]
P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The result of comparing two recordings.

    `verdict` is `agree`, `differ` or `incomplete`: if incomplete, the compared part agrees, and `gaps` lists the
    missing parts.
    """

    golden: Recording
    target: Recording
    verdict: Verdict
    first: FirstDivergence | None
    chain: tuple[DivergenceLink, ...]
    judgements: tuple[Judgement, ...]
    diagnostics: tuple[Diagnostic, ...]
    others: tuple[FirstDivergence, ...] = ()
    notes: tuple[Message, ...] = ()
    gaps: tuple[Message, ...] = ()

    @property
    def answer(self) -> Message:
        """The first sentence to read of the comparison."""
        if self.first is not None:
            return self.first.message
        if self.gaps:
            compared = any(one.missing is None or one.missing.compared for one in self.judgements)
            return (say.incomplete if compared else say.nothing_compared)(gaps=self.gaps)
        exact = all(row.outputs is None or row.outputs.equal for one in self.judgements for row in one.rows)
        return (say.agree_exactly if exact else say.agree_but_for_rounding)(
            operators=say.operators(n=sum(len(one.golden.ops) for one in self.judgements)),
            steps=say.steps(n=len({one.step for one in self.judgements})),
            ranks=say.ranks(n=len({one.rank for one in self.judgements})),
        )


def read(path: Path, place: tuple[int, int] | None = None) -> Recording:
    """A recording of Hermes or a dump of msProbe; `place` gives the rank and step of a lone dump.json."""
    if not path.exists():
        raise InputError(recording_notes.NO_FOLDER, where=str(path), hint=recording_notes.GIVE_A_RECORDING)
    if path.is_dir() and recording.is_recording(path):
        return recording.read(path)
    if msprobe.is_dump(path):
        return msprobe.read(path, place)
    raise InputError(recording_notes.NO_RECORDING, where=str(path), hint=recording_notes.HOW_TO_RECORD)


def _without_collector(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function without Python's garbage collector, whose scans of millions of live objects take too long."""

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
    """Compare two recordings; `noise` is a repeated golden run, which shows the differences that occur without a cause.

    As many ranks are compared at once as `jobs` and `memory_bytes` allow, and at least one.
    """
    first = read(golden)
    # Two files that the user names are compared, whatever folders they are in.
    place = first.steps[0] if golden.is_file() and target.is_file() else None
    runs = first, read(target, place)
    repeat = read(noise, place) if noise is not None else None
    common = [one for one in runs[0].steps if one in set(runs[1].steps)]
    diagnostics = [*runs[0].diagnostics, *runs[1].diagnostics]
    if not common:
        numbers = [sorted({step for _, step in run.steps}) for run in runs]
        raise InputError(
            recording_notes.no_common_step(golden=numbers[0], target=numbers[1]), where=f"{golden}, {target}",
            hint=recording_notes.RECORD_THE_SAME,
        )  # fmt: skip
    for side, run, other in ((Side.GOLDEN, *runs), (Side.TARGET, *runs[::-1])):
        alone = [one for one in run.steps if one not in set(other.steps)]
        if alone:
            text = recording_notes.only_one_side(
                side=side.message, ranks=[rank for rank, _ in alone], steps=[step for _, step in alone]
            )
            diagnostics.append(Diagnostic(level="degraded", message=text, lost=recording_notes.THEIR_COMPARISON))
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
    gaps = () if guilty else tuple(_gaps(runs, found))
    others = tuple(describe(one, suspect) for one in found for suspect in one.suspects if (one, suspect) != guilty)
    return Comparison(
        golden=runs[0], target=runs[1], verdict="differ" if guilty else "incomplete" if gaps else "agree",
        first=describe(*guilty) if guilty else None, chain=tuple(chain(*guilty)) if guilty else (),
        judgements=tuple(found), diagnostics=tuple(diagnostics), others=others[:50], gaps=gaps,
        notes=() if guilty else tuple(dict.fromkeys(note for one in found for note in one.notes))[:MOST_NOTES],
    )  # fmt: skip


def _gaps(runs: tuple[Recording, Recording], found: list[Judgement]) -> Iterator[Message]:
    """The parts of the golden run that were not compared; with such a part the verdict is never `agree`."""
    lost = sorted(set(runs[0].steps) - set(runs[1].steps), key=lambda one: one[::-1])
    if lost:
        yield say.missing_steps(n=len(lost), rank=lost[0][0], step=lost[0][1])
    # The last step of a program that ended by itself may lack an end, on both sides alike.
    for side, cut in (
        (Side.GOLDEN, [one for one in found if one.target.complete and not one.golden.complete]),
        (Side.TARGET, [one for one in found if one.golden.complete and not one.target.complete]),
    ):
        if cut:
            yield say.no_end(side=side.message, rank=cut[0].rank, step=cut[0].step)
    harmed = [one for one in found if one.golden.damaged]
    if harmed:
        many = sum(one.golden.damaged for one in harmed)
        yield say.damaged(n=many, rank=harmed[0].rank, step=harmed[0].step)
    for places, tell in (("alone", say.missing_operators), ("unknown", say.missing_values)):
        lacking = [(one, at) for one in found if one.missing for at in getattr(one.missing, places)]
        if lacking:
            op = lacking[0][0].golden.ops[lacking[0][1]]
            yield tell(
                n=len(lacking), operator=op.parameter or op.name, module=op.module or None, line=op.line or None
            )  # fmt: skip
    for one in found:
        if one.unread:
            yield recording_notes.unread(n=one.unread, step=one.step)
    if all(one.missing is not None and not one.missing.compared for one in found):
        yield say.NO_VALUE


class _Task(NamedTuple):
    golden: Recording
    target: Recording
    repeat: Recording | None
    rank: int
    steps: list[int]
    jobs: int


@_without_collector
def _rank(task: _Task) -> tuple[list[Judgement], list[Diagnostic]]:
    """The judgements of one rank, and notes about unreadable parts; may run in its own process."""
    rank = task.rank
    said: list[Diagnostic] = []
    found: list[Judgement] = []
    updates: dict[str, float] | None = None
    for at, step in enumerate(task.steps):
        files = Files()  # releases the files mapped for a step
        golden, target = _load(task.golden, rank, step), _load(task.target, rank, step)
        before = StepBefore(updates, first=at == 0 or task.steps[at - 1] != step - 1, begins=step == 0)
        repeated = None
        if task.repeat is not None and (rank, step) in task.repeat.steps:
            repeated = _repeated(golden, _load(task.repeat, rank, step), files, before)
        one = compare_step(golden, target, files, before=before, repeated=repeated, jobs=task.jobs)
        updates = one.updates or {}
        one.unread = len(files.unread)
        found.append(one)
        said += _unread(files, step)
    return found, [*task.golden.diagnostics, *task.target.diagnostics, *said]


def _unread(files: Files, step: int) -> list[Diagnostic]:
    """A note for each folder with files that should hold a tensor each and do not."""
    folders = Counter(path.parent for path in files.unread)
    return [
        Diagnostic(
            level="degraded",
            lost=recording_notes.THEIR_ELEMENTS,
            where=str(folder),
            message=recording_notes.unread(n=many, step=step),
        )
        for folder, many in sorted(folders.items())
    ]


def _fitting(runs: tuple[Recording, Recording], memory_bytes: int | None) -> int:
    """How many ranks' steps fit into the memory at once; steps of msProbe's dumps are in memory already."""
    largest = [int(getattr(run.loader, "largest", int)()) for run in runs]
    return max((memory_bytes or sys.maxsize) // max(_TIMES * sum(largest), 1), 1)


def _load(run: Recording, rank: int, step: int) -> Any:
    return run.loader.load(rank, step)  # type: ignore[attr-defined]


def _repeated(golden: Any, repeat: Any, files: Files, before: StepBefore) -> dict[int, float]:
    shown = compare_step(golden, repeat, files, before=before)
    return {
        row.golden: row.outputs.relative for row in shown.rows if row.golden is not None and row.outputs is not None
    }
