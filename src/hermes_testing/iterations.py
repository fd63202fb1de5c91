"""Writes what msprof exported before CANN 7.0: a timeline for each iteration, and the files that repeat it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from hermes_testing.ascend_common import epoch
from hermes_testing.collective import NONE
from hermes_testing.job import EPOCH_NS, Job
from hermes_testing.profile import CommOp, Profile, Task
from hermes_testing.simulate import simulate
from hermes_testing.truth import comm_spans, compute_spans, without

BOOT_NS = EPOCH_NS - 56_579_931_060_630
"""When the host started, from which the times count."""
_MODEL = 2
_HARDWARE, _CANN, _HCCL, _OVERLAP = 3, 1_003_602, 1_003_611, 1_003_612
_STEP_TID, _COLLECTIVES_TID = 10_036, 70_000
_BEFORE_NS, _MARGIN_NS = 200_000, 3_000
_OLD = {"Notify_Wait": "NOTIFY_WAIT", "Notify_Record": "NOTIFY_RECORD"}
Event = dict[str, Any]


def write_iterations(folder: Path, job: Job, *, ranked: bool = True) -> Path:
    """Write a folder `PROF_*` for each rank of the job; without `ranked` no file says a rank. Returns `folder`.

    There is one graph, so every collective lies on one lane. A call of before the first iteration is in each timeline.
    """
    for profile in simulate(replace(job, task_queue=False)).profiles:
        root = folder / f"PROF_000001_2023081814270{profile.rank % 10}322_ABCDEFGHIJKLMNO{chr(65 + profile.rank % 26)}"
        device = root / f"device_{profile.device}"
        (device / "timeline").mkdir(parents=True)
        _write_about(device, profile, ranked=ranked)
        steps = sorted({task.launch.step for task in profile.tasks})
        for number, step in enumerate(steps, start=1):
            _write_iteration(device / "timeline", profile, step, number)
    return folder


def _write_about(device: Path, profile: Profile, *, ranked: bool) -> None:
    number = profile.device
    chip = {"id": number, "ai_core_num": 32, "aiv_num": 0, "aic_frequency": "1000"}
    about: Event = {"hostname": "host-a", "devices": str(number), "DeviceInfo": [chip]}
    if ranked:
        about["rank_id"] = profile.rank
    start = {"collectionTimeBegin": str(EPOCH_NS // 1_000), "clockMonotonicRaw": str(EPOCH_NS - BOOT_NS)}
    for name, content in (("info.json", about), ("start_info", start), ("end_info", {})):
        (device / f"{name}.{number}").write_text(json.dumps(content), encoding="utf-8")
        (device / f"{name}.{number}.done").write_text("filesize:1", encoding="utf-8")


def _write_iteration(folder: Path, profile: Profile, step: int, number: int) -> None:
    made = _Iteration(profile, step, number)
    files = {
        "msprof": [*made.names(), *made.step(), *made.hardware(), *made.planes(), *made.calls(), *made.overlap()],
        "hccl": [*made.names(), *made.planes()], "task_time": [*made.names(), *made.hardware()],
        "step_trace": [*made.names(), *made.step()],
    }  # fmt: skip
    for name, events in files.items():
        (folder / f"{name}_{profile.device}_{_MODEL}_{number}.json").write_text(json.dumps(events), encoding="utf-8")


class _Iteration:
    """The events of one iteration of one rank."""

    def __init__(self, profile: Profile, step: int, number: int) -> None:
        self._profile = profile
        self._number = number
        self._tasks = [task for task in profile.tasks if task.launch.step == step]
        self._comms = [comm for comm in profile.comms if comm.launch.step == step]
        self._spans = (compute_spans(profile, step), comm_spans(profile, step))
        self._rows: list[Task | CommOp] = [*self._tasks, *self._comms]
        self.start_ns = min(row.start_ns for row in self._rows) - _MARGIN_NS
        self.end_ns = max(row.end_ns for row in self._rows) + _MARGIN_NS

    def _event(self, name: str, pid: int, tid: int, start: int, end: int, **more: object) -> Event:
        moment = epoch(self._profile, start) - BOOT_NS
        return {
            "name": name, "pid": pid, "tid": tid, "ts": moment / 1_000, "dur": (end - start) / 1_000, **more, "ph": "X",
        }  # fmt: skip

    def names(self) -> Iterator[Event]:
        """Processes and lanes; a collective's planes come before it."""
        streams = sorted({row.stream for row in self._rows})
        lanes = {
            (_HARDWARE, "Ascend Hardware", "NPU"): [
                (_STEP_TID, f"Step Trace(Model ID:{_MODEL})"),
                *((stream, f"Stream {stream}") for stream in streams),
            ],
            (_CANN, "CANN", "CPU"): [(16_027, "Thread 16027")],
            (_HCCL, "HCCL", "NPU"): [
                *((plane, f"Plane {plane}") for plane in range(8)), (_COLLECTIVES_TID, "Communication Kernel"),
            ],
            (_OVERLAP, "Overlap Analysis", "NPU"): [
                (0, "Computing"), (1, "Communication"), (2, "Communication(Not Overlapped)"),
            ],
        }  # fmt: skip
        for (pid, process, label), threads in lanes.items():
            yield {"name": "process_name", "pid": pid, "tid": 0, "args": {"name": process}, "ph": "M"}
            yield {"name": "process_labels", "pid": pid, "tid": 0, "args": {"labels": label}, "ph": "M"}
            for tid, thread in threads:
                yield {"name": "thread_name", "pid": pid, "tid": tid, "args": {"name": thread}, "ph": "M"}

    def step(self) -> Iterator[Event]:
        """The iteration on its lane of the hardware, with its parts."""
        number = self._number
        middle = (self.start_ns + self.end_ns) // 2
        for name, cat, start, end in (
            (f"Iteration {number}", "Iteration Time", self.start_ns, self.end_ns),
            (f"FP_BP Time {number}", "FP_BP Time", self.start_ns, middle),
            (f"Iteration Refresh {number}", "Iteration Refresh", middle, self.end_ns),
        ):
            yield self._event(name, _HARDWARE, _STEP_TID, start, end, cat=cat, args={"Iteration ID": number})

    def hardware(self) -> Iterator[Event]:
        """Tasks on their streams, those of collectives among them."""
        for task in self._tasks:
            yield self._on_stream(task.name, task.task_type, task, task.start_ns, task.end_ns)
        for comm in self._comms:
            for part in comm.transfers:
                kind = _OLD.get(part.name, "MEMCPY_ASYNC")
                yield self._on_stream(kind, kind, comm, part.start_ns, part.end_ns)

    def _on_stream(self, name: str, kind: str, row: Task | CommOp, start: int, end: int) -> Event:
        args = {"Task Type": kind, "Stream Id": row.stream, "Task Id": row.task_id, "Batch Id": 0, "Total Cycle": "N/A"}
        return self._event(name, _HARDWARE, row.stream, start, end, args=args)

    def planes(self) -> Iterator[Event]:
        """Collectives, and what each plane does for them."""
        for number, comm in enumerate(self._comms):
            name = f"Default/{comm.hccl[:1].upper()}{comm.hccl[1:]}-op{500 + number}_0"
            yield self._event(name, _HCCL, _COLLECTIVES_TID, comm.start_ns, comm.end_ns)
            for part in comm.transfers:
                args = {
                    "notify_id": part.notify, "stream id": comm.stream, "task id": comm.task_id, "task type": part.name,
                    "src rank": part.src, "dst rank": part.dst if part.dst != part.src else NONE,
                    "transport type": part.transport, "size(Byte)": part.bytes, "link type": part.link,
                }  # fmt: skip
                yield self._event(part.name, _HCCL, part.plane, part.start_ns, part.end_ns, args=args)

    def calls(self) -> Iterator[Event]:
        """The call that runs the iteration, and one that all timelines have."""
        args = {"Model Name": None, "Model Id": _MODEL}
        yield self._event("Model@ModelExecute", _CANN, 16_027, self.start_ns - _BEFORE_NS, self.end_ns, args=args)
        yield self._event("Runtime@SetDevice", _CANN, 16_027, 0, 1_000)
        yield self._event("GE@Infer", _CANN, 16_027, self.start_ns - _BEFORE_NS, self.end_ns, args=args)

    def overlap(self) -> Iterator[Event]:
        """What the tool made of them."""
        compute, comm = self._spans
        names = ("Computing", "Communication", "Communication(Not Overlapped)")
        for tid, spans in enumerate((compute, comm, without(comm, compute))):
            for start, end in spans:
                yield self._event(names[tid], _OVERLAP, tid, start, end)
