"""Use case: the current state of all running jobs, through one watcher for each job."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from hermes.base.message import Text
from hermes.inside.wire.recovery import clean
from hermes.inside.wire.rundir import Job, default_root, memory_folders, running
from hermes.jobs.captures_on_disk import count_captures
from hermes.jobs.current_jobs import CurrentJobs, ReplacedFiles
from hermes.jobs.detect.alarm import Alarm
from hermes.jobs.detect.causes import Cause, split
from hermes.jobs.detect.job_alarms import KEPT
from hermes.jobs.detect.read_step_logs import Steps
from hermes.jobs.detect.replay_detector import detector_of
from hermes.jobs.detect.straggler import own_time
from hermes.jobs.job_view import Bandwidth, JobView, RankView
from hermes.jobs.messages import of_job, removed
from hermes.jobs.operator_policy import following
from hermes.jobs.prune import prune
from hermes.jobs.run_directory_files import PinnedJob
from hermes.jobs.stall_limits import LATEST
from hermes.jobs.watch_job import Watcher
from hermes.knowledge.identify_chip import chip_of

_SHOWN = 120
_MOST_KINDS = 64
_TIDY_NS = 300 * 10**9
_PRUNE_NS = 3600 * 10**9
_SAID = 6
_MOST_FLOPS = 10**30
_MOST_RANKS = _MOST_JOBS = 4096


class Overview:
    """The watchers of all running jobs of this user, or of the jobs whose name contains a text."""

    def __init__(
        self, environment: Mapping[str, str], *, name: str, preset: str, capture: bool, peak_flops: float | None,
        say: Callable[[Text], None], acts: bool = True,
        noted: Callable[[str, Mapping[str, object]], None] | None = None, users: Sequence[str] = (),
        kept: int = KEPT, most_ranks: int = _MOST_RANKS, most_jobs: int = _MOST_JOBS,
    ) -> None:  # fmt: skip
        """`peak_flops`: FLOP/s of one device, for MFU; by default the known peak of the chip.

        `acts` False only watches. `noted` gets each event of a job, with the job's name. `users` are other users whose
        jobs are watched too, as root's policy allows: these jobs are named `USER:JOB`. Raises `HermesError` where the
        policy refuses, and for an unknown preset. `kept` and `most_ranks` bound the memory of a job, as in `Watcher`,
        `most_jobs` the number of watched jobs of a user, the oldest first.
        """
        detector_of(preset, 0, environment)
        self._environment, self._name, self._preset, self._capture = environment, name, preset, capture
        self._peak = peak_flops
        self._say = say
        self._acts = acts
        self._noted = noted
        self._kept, self._most_ranks, self._most_jobs = kept, most_ranks, most_jobs
        self._others = {user: following(user, environment) for user in users}
        self._pinned: dict[str, PinnedJob] = {}
        self._watchers: dict[str, Watcher] = {}
        self._said: dict[str, deque[Text]] = {}
        self._files = ReplacedFiles()
        self._current = CurrentJobs()
        self._tidied_ns: int | None = None
        self._pruned_ns: int | None = None

    def look(self) -> tuple[JobView, ...]:
        """Look at every job; ended jobs leave the view, and their shared memory is removed."""
        root = default_root(self._environment)
        self._tidy()
        own = [job for job in self._current.jobs(root) if self._name in job.id and running(job)]
        alive = {job.id: job for job in own[: self._most_jobs]}
        for user, jobs in self._others.items():
            # No job of this account has a colon in its name.
            alive |= {f"{user}:{job.id}": job for job in jobs()[: self._most_jobs] if self._name in job.id}
        for gone in self._watchers.keys() - alive.keys():
            self._end(gone)
        for name, job in alive.items():
            watcher = self._watchers.get(name) or self._begin(name, job)
            if watcher is not None:
                watcher.look_safely()
        return tuple(self._view(name) for name in alive if name in self._watchers)

    def _end(self, name: str) -> None:
        self._watchers.pop(name).close(patience_s=5)
        self._tidied_ns = None
        if name in self._pinned:
            self._pinned.pop(name).close()

    def _tidy(self) -> None:
        """Remove the shared memory of killed jobs, and old run directories; both take a while."""
        now = time.monotonic_ns()
        if self._tidied_ns is None or now - self._tidied_ns > _TIDY_NS:
            self._tidied_ns = now
            clean(*memory_folders(self._environment))
        if self._acts and (self._pruned_ns is None or now - self._pruned_ns > _PRUNE_NS):
            self._pruned_ns = now
            for gone in prune(self._environment, time.time_ns()):
                self._say(removed(job=gone))

    def job(self, job_id: str) -> Job | None:
        """A job that was running at the last look."""
        watcher = self._watchers.get(job_id)
        return watcher.job if watcher else None

    def alarms(self, job_id: str) -> list[tuple[Alarm, Cause | None]]:
        """The alarms that this view noticed in a running job, with their causes, oldest first."""
        watcher = self._watchers.get(job_id)
        return list(watcher.alarms) if watcher else []

    def _begin(self, name: str, job: Job) -> Watcher | None:
        """A watcher of the job; None where the job's folder does not belong to the job's user."""
        if name != job.id:
            try:
                self._pinned[name] = PinnedJob(job)
            except OSError:
                return None
            job = self._pinned[name].job
        lines = self._said.setdefault(name, deque(maxlen=_SAID))

        def say(text: Text) -> None:
            lines.append(text)
            self._say(of_job(job=name, said=text))

        noted = None if self._noted is None else partial(self._noted, name)
        made = Watcher(
            job, preset=self._preset, environment=self._environment, capture=self._capture, say=say, acts=self._acts,
            noted=noted, kept=self._kept, most_ranks=self._most_ranks,
        )  # fmt: skip

        self._watchers[name] = made
        return made

    def _view(self, job_id: str) -> JobView:
        watcher = self._watchers[job_id]
        scores = watcher.scores()
        known = watcher.steps()
        ranks = [
            _with_look(
                replace(self._rank(steps, watcher.job), score=scores.get(steps.rank), alive=watcher.lives(steps.rank)),
                watcher,
            )
            for steps in known
        ]
        stalled = watcher.stall.message if watcher.stall else None
        return JobView(
            id=job_id, ranks=tuple(ranks), said=tuple(self._said[job_id]), state=watcher.state, stalled=stalled,
            alarms=len(watcher.alarms), slow=watcher.slow, captures=tuple(count_captures(watcher.job).items()),
            launch=next((str(steps.about.get("launch") or "") for steps in known), ""),
            command=watcher.job.command,
        )  # fmt: skip

    def _rank(self, steps: Steps, job: Job) -> RankView:
        last = steps.part(max(len(steps) - _SHOWN, 0), len(steps))
        walls = last.columns["wall_ns"]
        seconds = float(walls.sum()) / 1e9
        flops, peak = (
            steps.about.get("flops") or self._read(job, f"rank{steps.rank}.json").get("flops"),
            self._peak or _peak(steps.about.get("device")),
        )
        known = isinstance(flops, int) and 0 < flops < _MOST_FLOPS and peak and seconds > 0
        memory = last.of("rss_bytes")
        memory = memory[~np.isnan(memory)]
        return RankView(
            rank=steps.rank,
            step=int(last.columns["step"][-1]),
            walls_ns=tuple(walls.tolist()),
            baseline_ns=_baseline(steps),
            samples_per_s=_per_second(last, "samples", seconds),
            tokens_per_s=_per_second(last, "tokens", seconds),
            mfu=flops * len(last) / seconds / peak if known else None,  # type: ignore[operator]
            split=tuple((split(last) or {}).items()),
            memory_bytes=int(memory[-1]) if len(memory) else None,
            bandwidth=bandwidth_of(self._read(job, f"comm-rank{steps.rank}.json")),
            end_ns=int(last.columns["end_ns"][-1]),
            own_ns=own_time(last),
            collective_ns=_mean(last, "comm_ns"),
            device_ns=_mean(last, "device_ns"),
            longest_ns=int(steps.columns["wall_ns"][-LATEST:].max()),
        )

    def _read(self, job: Job, name: str) -> Mapping[str, object]:
        """A JSON object that a rank writes now and then; empty where there is none."""
        return self._files.read(job.folder / name)

    def close(self) -> None:
        """Close the watchers of all jobs in the overview."""
        for watcher in self._watchers.values():
            watcher.close(patience_s=1)
        for pinned in self._pinned.values():
            pinned.close()


def _with_look(rank: RankView, watcher: Watcher) -> RankView:
    look = watcher.numerics.last(rank.rank)
    if look is None:
        return rank
    return replace(rank, loss=look.loss, gradient_norm=look.norm, update_ratio=look.update)


def bandwidth_of(found: Mapping[str, object]) -> tuple[Bandwidth, ...]:
    """The bandwidths in a rank's file of collectives; invalid entries are left out."""
    made = []
    rows = found.get("collectives")
    for row in rows[:_MOST_KINDS] if isinstance(rows, list) else ():
        if isinstance(row, dict) and all(
            type(row.get(name)) is int and row[name] >= 0 for name in ("calls", "bytes", "ns")
        ):
            made.append(Bandwidth(kind=str(row.get("kind"))[:60], group=str(row.get("group"))[:60],
                                  calls=row["calls"], size_bytes=row["bytes"], ns=row["ns"]))  # fmt: skip
    return tuple(made)


def _peak(device: object) -> float | None:
    """FLOP/s of the device's matrix units in 16-bit floats, dense, as MFU is defined; None when not known."""
    chip = chip_of(device) if isinstance(device, str) else None
    return (chip.matrix.get("bf16") or chip.matrix.get("fp16")) if chip else None


def _baseline(steps: Steps) -> int | None:
    """Typical step time in the first half of the kept steps, for comparison with the second half."""
    walls = steps.columns["wall_ns"][: max(len(steps) // 2, 1)]
    return int(np.median(walls)) if len(walls) >= 20 else None


def _mean(steps: Steps, name: str) -> float | None:
    """The mean of a value over the steps in which it was measured."""
    found = steps.of(name)
    found = found[~np.isnan(found)]
    return float(found.mean()) if len(found) else None


def _per_second(steps: Steps, name: str, seconds: float) -> float | None:
    amounts = steps.of(name)
    return None if np.isnan(amounts).any() or seconds <= 0 else float(amounts.sum()) / seconds
