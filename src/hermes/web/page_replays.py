"""What-if for the pages: the replayed step, promising changes, and the gain of some changes together."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hermes.base.errors import HermesError, InputError
from hermes.base.say import say
from hermes.profiles.api import (
    KINDS,
    JobStep,
    Loaded,
    Prediction,
    StepChange,
    Timings,
    candidates,
    changes_of,
    in_order,
    outlined,
    predict,
    replay,
    restored,
    save,
    step_of,
    timings,
)
from hermes.web import messages
from hermes.web.analysis_session import AnalysisSession
from hermes.web.cached_columns import ResultCache

MOST_CHANGES = 32
"""Largest number of changes that are replayed together."""
LONGEST_CHANGE = 400
"""Largest number of characters of one change."""
_PIECES = 400
_KEPT = 64
_KEPT_CHANGES = 12
_NAME = "whatif"
_STEP = "step.npz"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """The replayed step, its number, the measured time of its ranks, and the promising changes."""

    job: JobStep
    number: int | None
    today: Timings
    candidates: tuple[StepChange, ...]


class Replays:
    """The replays of one study. The step is read in the background at the first request, and kept, like the last
    answers. Then each promising change is replayed, one by one. A replay that a page waits for comes first. The cache
    keeps the step and the gains of its changes. The next server then has the list at once, and replays other changes
    without reading the ranks."""

    def __init__(self, study: AnalysisSession) -> None:
        self._study = study
        self._step: _Step | None = None
        self._failed: HermesError | None = None
        self._found: list[Prediction] = []
        self._began = 0.0
        self._thread: threading.Thread | None = None
        self._read = threading.Event()
        self._once = threading.Lock()
        self._turn = threading.Condition()
        self._asked = 0
        self._answers = ResultCache(_KEPT)
        self._before: Mapping[str, Any] | None = None

    def changes(self) -> dict[str, object]:
        """The progress, without waiting: `reading` the step, `replaying` its changes, or `ready`.

        The answer has the step and the changes replayed so far, the largest gain first; without a step `none` says why.
        """
        self._begin()
        if self._before:
            listed: dict[str, object] = self._before["changes"]
            return listed
        failed, step, found = self._failed, self._step, list(self._found)
        if isinstance(failed, InputError):
            return {"none": {"what": say(failed.what), "hint": say(failed.hint)}}
        if failed:
            raise failed
        if step is None:
            return {"phase": "reading", "seconds": round(time.monotonic() - self._began, 3)}
        return {
            "phase": "ready" if len(found) == len(step.candidates) else "replaying",
            "done": len(found),
            "of": len(step.candidates),
            "step": step.number,
            "step_ns": step.job.end_ns - step.job.begin_ns,
            "ranks": list(step.today.ranks),
            "kinds": [*KINDS, "free"],
            "changes": [_gain(one) for one in in_order(found)],
        }

    def replayed(self, specs: Sequence[str], rank: int | None) -> dict[str, object]:
        """The gain of some changes together, and one rank's time in the step, as measured and as replayed.

        The default rank is the one that works longest. Raises `InputError` for an unknown change or rank.
        """
        if len(specs) > MOST_CHANGES or any(len(spec) > LONGEST_CHANGE for spec in specs):
            raise InputError(messages.most_changes(most=str(MOST_CHANGES), longest=str(LONGEST_CHANGE)), where="set")
        chosen = tuple(dict.fromkeys(spec.strip() for spec in specs))
        self._begin()
        if self._before and rank is None and len(chosen) < 2:
            known: dict[str, object] | None = self._before["replayed"].get("".join(chosen))
            if known:
                return known
        with self._first():
            answer: dict[str, object] = self._answers.of((chosen, rank), lambda: self._replayed(chosen, rank))
        return answer

    @contextlib.contextmanager
    def _first(self) -> Iterator[None]:
        """Pause replays in the background while a request waits for an answer."""
        with self._turn:
            self._asked += 1
        try:
            yield
        finally:
            with self._turn:
                self._asked -= 1
                self._turn.notify_all()

    def _let_by(self) -> None:
        with self._turn:
            self._turn.wait_for(lambda: not self._asked)

    def _replayed(self, specs: Sequence[str], rank: int | None) -> dict[str, object]:
        step = self._kept()
        made = replay(step.job, changes_of(step.job, specs))
        then = timings(step.job, made.start, made.dur)
        place = _place(step.today, rank)
        return {
            "gain": _gain(made.prediction),
            "rank": step.today.ranks[place],
            "today": _shown(step.today, place),
            "then": _shown(then, place),
        }

    def _kept(self) -> _Step:
        """The step, as soon as it is read; raises the reason if there is none."""
        self._begin()
        self._read.wait()
        if self._failed:
            raise self._failed
        assert self._step is not None
        return self._step

    def _begin(self) -> None:
        loaded = self._study.loaded
        with self._once:
            if self._thread is None:
                self._began = time.monotonic()
                self._before = self._study.kept(_NAME)
                self._thread = threading.Thread(target=self._run, args=(loaded,), name="hermes-whatif", daemon=True)
                self._thread.start()

    def _run(self, loaded: Loaded) -> None:
        try:
            step = self._step = self._restored() or _step(loaded)
            self._read.set()
            if not self._before:
                for change in step.candidates:
                    self._let_by()
                    self._found.append(predict(step.job, [change]))
                self._keep(step)
        except HermesError as missing:
            self._failed = missing
        except Exception as defect:  # noqa: BLE001 - whatever it is, the page must say that nothing more will come
            self._failed = HermesError(messages.defect(error=repr(defect)), lost=messages.LOST_REPLAY)
        self._read.set()

    def _keep(self, step: _Step) -> None:
        """Keep the step, the list of changes, and the results without a change and with each of the first changes."""
        first = [one.specs[0] for one in in_order(self._found)[:_KEPT_CHANGES] if len(one.specs) == 1]
        replayed = {}
        for specs in ((), *((spec,) for spec in first)):
            self._let_by()
            replayed["".join(specs)] = self._replayed(specs, None)

        kept = {"changes": self.changes(), "replayed": replayed}
        self._study.keep(_NAME, kept, lambda folder: save(step.job, folder / _STEP))

    def _restored(self) -> _Step | None:
        """The step from the cache; None where it is not complete there."""
        folder = self._study.kept_in(_NAME) if self._before else None
        job = restored(folder / _STEP) if folder else None
        return _of(job, self._before["changes"]["step"]) if job and self._before else None


def _step(loaded: Loaded) -> _Step:
    job = outlined(loaded)
    slowest = job.steps.slowest
    return _of(step_of(loaded, job), slowest.step if slowest else None)


def _of(job: JobStep, number: int | None) -> _Step:
    today = timings(job, job.graph.start, job.graph.dur)
    return _Step(job=job, number=number, today=today, candidates=tuple(candidates(job)))


def _gain(one: Prediction) -> dict[str, object]:
    return {
        "set": list(one.specs),
        "title": one.title,
        "low_ns": one.low_ns,
        "high_ns": one.high_ns,
        "share": one.share,
        "step_ns": one.step_ns - one.low_ns,
    }


def _place(today: Timings, rank: int | None) -> int:
    if not today.ranks:
        raise InputError(messages.NO_TASKS, where="rank")
    if rank is None:
        return today.busiest()
    if rank not in today.ranks:
        raise InputError(messages.not_in_step(rank=rank), where="rank")
    return today.ranks.index(rank)


def _shown(ranks: Timings, place: int) -> dict[str, object]:
    return {
        "step_ns": ranks.step_ns,
        "mean": ranks.mean(),
        "split": ranks.split(place),
        "pieces": ranks.pieces(place, _PIECES),
    }
