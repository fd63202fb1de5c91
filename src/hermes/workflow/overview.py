"""Use case: all running jobs at a glance, through one watcher each."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from hermes.diagnose.live import Cause, split
from hermes.fleet.alarm import Alarm
from hermes.fleet.detect import detector_of
from hermes.fleet.steps import Steps
from hermes.knowledge.chips import chip_of
from hermes.live.rundir import Job, clean, default_root, jobs, running, shared_memory
from hermes.report.live import JobView, RankView
from hermes.workflow.watch import Watcher

_SHOWN = 120
_SAID = 6


class Overview:
    """The watchers of all running jobs of this user, or of those whose name holds a text."""

    def __init__(
        self, environment: Mapping[str, str], *, name: str, preset: str, capture: bool, peak_flops: float | None,
        say: Callable[[str], None], acts: bool = True,
    ) -> None:  # fmt: skip
        """`peak_flops`: of one device, per second, for MFU; without it that of the chip, where it is known.

        `acts` False only looks on. Raises `HermesError` for a preset that is none.
        """
        detector_of(preset, 0, environment)
        self._environment, self._name, self._preset, self._capture = environment, name, preset, capture
        self._peak = peak_flops
        self._say = say
        self._acts = acts
        self._watchers: dict[str, Watcher] = {}
        self._said: dict[str, deque[str]] = {}
        self._counted: dict[Path, tuple[tuple[int, int], object]] = {}

    def look(self) -> tuple[JobView, ...]:
        """Look at every job; jobs that have ended leave the picture, and their memory is removed."""
        root = default_root(self._environment)
        clean(root, shared_memory(self._environment))
        alive = [job for job in jobs(root) if self._name in job.id and running(job)]
        for gone in self._watchers.keys() - {job.id for job in alive}:
            watcher = self._watchers.pop(gone)
            watcher.close(patience_s=5)
            self._forget(watcher.job)
        for job in alive:
            watcher = self._watchers.get(job.id) or self._begin(job)
            watcher.look_safely()
        return tuple(self._view(job.id) for job in alive)

    def alarms(self, job_id: str) -> list[tuple[Alarm, Cause | None]]:
        """What was noticed here in a job that runs, with its causes, oldest first."""
        watcher = self._watchers.get(job_id)
        return list(watcher.alarms) if watcher else []

    def _begin(self, job: Job) -> Watcher:
        lines = self._said.setdefault(job.id, deque(maxlen=_SAID))

        def say(text: str) -> None:
            lines.append(text)
            self._say(f"{job.id}: {text}")

        made = Watcher(
            job, preset=self._preset, environment=self._environment, capture=self._capture, say=say, acts=self._acts
        )
        self._watchers[job.id] = made
        return made

    def _view(self, job_id: str) -> JobView:
        watcher = self._watchers[job_id]
        scores = watcher.scores()
        ranks = [replace(self._rank(steps, watcher.job), score=scores.get(steps.rank)) for steps in watcher.steps()]
        return JobView(id=job_id, ranks=tuple(ranks), said=tuple(self._said[job_id]), state=watcher.state)

    def _rank(self, steps: Steps, job: Job) -> RankView:
        last = steps.part(max(len(steps) - _SHOWN, 0), len(steps))
        walls = last.columns["wall_ns"]
        seconds = float(walls.sum()) / 1e9
        flops, peak = (
            steps.about.get("flops") or self._flops(job, steps.rank),
            self._peak or _peak(steps.about.get("device")),
        )
        known = isinstance(flops, int) and peak and seconds > 0
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
        )

    def _flops(self, job: Job, rank: int) -> object:
        """FLOPs of a step that the rank counted after its log had begun; None when it did not.

        At each look only the state of the file is asked for: it changes once, if ever.
        """
        path = job.folder / f"rank{rank}.json"
        try:
            facts = path.stat()
        except OSError:
            return None
        state = (facts.st_mtime_ns, facts.st_size)
        if self._counted.get(path, (None, None))[0] != state:
            self._counted[path] = (state, _counted(path))
        return self._counted[path][1]

    def _forget(self, job: Job) -> None:
        for path in [path for path in self._counted if path.parent == job.folder]:
            del self._counted[path]

    def close(self) -> None:
        """Let go of all jobs."""
        for watcher in self._watchers.values():
            watcher.close(patience_s=1)


def _counted(path: Path) -> object:
    try:
        about = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return about.get("flops") if isinstance(about, dict) else None


def _peak(device: object) -> float | None:
    """FLOP/s of the device's matrix units in 16-bit floats, dense, which MFU is quoted against; None when not known."""
    chip = chip_of(device) if isinstance(device, str) else None
    return (chip.matrix.get("bf16") or chip.matrix.get("fp16")) if chip else None


def _baseline(steps: Steps) -> int | None:
    """Typical time in the first half of what is kept; the second half is what it is held against."""
    walls = steps.columns["wall_ns"][: max(len(steps) // 2, 1)]
    return int(np.median(walls)) if len(walls) >= 20 else None


def _per_second(steps: Steps, name: str, seconds: float) -> float | None:
    amounts = steps.of(name)
    return None if np.isnan(amounts).any() or seconds <= 0 else float(amounts.sum()) / seconds
