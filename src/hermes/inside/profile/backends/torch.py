"""Captures with torch.profiler, for CPU and CUDA: one Chrome trace a rank, with a mark `ProfilerStep#N` a step."""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from hermes.inside.monitor.process_settings import surroundings
from hermes.inside.profile.memory import resident_bytes
from hermes.inside.profile.sample_lines import own_code
from hermes.inside.standard_library import standard
from hermes.inside.wire.capture_levels import TORCH, CaptureError
from hermes.inside.wire.control import Request

_BLOCK = 1 << 20
_CALL_BYTES, _CALL_HELD, _CALLS_A_SECOND = 1_600, 24, 5_000_000
"""Memory that a Python call takes in `stop`: 24 bytes while it is recorded, 1,530 to 1,550 bytes afterwards. There are
up to 4.6 million calls a second. All numbers were measured with torch 2.13.0."""
_FILE_BYTES = 366
"""Bytes that a recorded call takes in the trace, as in one of 29,000 calls with torch 2.13.0."""
_OPERATOR_TIMES, _OPERATORS_A_SECOND = 9, 1_000_000_000
"""How many times larger operators with shapes get in `stop` than while recorded (8.7 times), and the most bytes a
second that such operators take."""
_HEAP_FREE = 32_000_000
"""Bytes that may be recorded before the process takes more memory: its heap has some free bytes."""


class TorchBackend:
    """A capture of one rank with the torch that the job has loaded. Recording, ending and writing cost the stepping
    thread."""

    def __init__(self, request: Request, rank: int, before: Mapping[str, int], *, stacks: bool = True) -> None:
        self._torch: Any = sys.modules["torch"]
        self._path = Path(request.out) / f"rank{rank}.pt.trace.json"
        self._request = request
        self._before = before
        self._stacks = stacks
        self._rank = rank
        self._profile: Any = None
        self._running = False
        self._mark: Any = None
        self._marks = 0
        self._faults = 0
        self._resident = self._cpu_ns = 0

    def start(self) -> None:
        """Start torch's profiler. Raises `CaptureError` while another profiler runs: torch has only one."""
        if self._torch._C._autograd._profiler_enabled():
            raise CaptureError("another profiler is running in the job")
        profiler: Any = importlib.import_module("torch.profiler")
        wanted = {name: True for name in TORCH[self._request.level]}
        if not self._stacks:
            wanted.pop("with_stack", None)
        wanted.update(_asked(self._request))
        activities = [profiler.ProfilerActivity.CPU]
        if self._torch.cuda.is_available() and self._torch.cuda.is_initialized():
            activities.append(profiler.ProfilerActivity.CUDA)
        # Python stacks are put together from the events that this option would leave out.
        lean = _with_collections(self._torch) if wanted.get("with_stack") else _lean(self._torch)
        about = {
            "rank": self._rank,
            "reason": self._request.reason,
            "settings": surroundings(sys.modules),
            "before": dict(self._before),
            "own": own_code(),
        }
        # Kineto mixes up the names of calls, and writes illegal JSON, if code is imported and dropped meanwhile.
        _faults()
        self._profile = profiler.profile(activities=activities, **wanted, **lean)
        self._profile.start()
        self._running = True
        self._resident, self._cpu_ns = resident_bytes(), time.thread_time_ns()
        self.note("hermes", about)

    def note(self, name: str, value: object) -> None:
        """Write a note into the head of the trace; only a running profile takes notes."""
        self._profile.add_metadata_json(name, json.dumps(value))

    def mark(self, step: int) -> None:
        """Close the mark of the step before, and open the mark of step `step`."""
        self._close_mark()
        self._faults = self._faults if self._marks else _faults()
        self._marks += 1
        self._mark = self._torch.autograd.profiler.record_function(f"ProfilerStep#{step}")
        self._mark.__enter__()

    def _close_mark(self) -> None:
        if self._mark is not None:
            self._mark.__exit__(None, None, None)
            self._mark = None

    def stop(self) -> None:
        """End recording and collect the events: some milliseconds for each thousand events."""
        self._close_mark()
        self._running = False
        # Only a running profile takes notes.
        with contextlib.suppress(Exception):
            about = {"minor_faults": (_faults() - self._faults) // max(1, self._marks)}
            self.note("hermes_end", about)
        self._profile.stop()

    @property
    def _with_stacks(self) -> bool:
        asked = _asked(self._request).get("with_stack")
        return self._stacks and "with_stack" in TORCH[self._request.level] if asked is None else asked

    def needed_bytes(self, calls: int = 0) -> int:
        """Memory in bytes that `stop` takes, estimated from Python's calls if they are recorded. While the profiler
        records, the growth of the process limits the estimate."""
        if not self._running:
            return _CALL_BYTES * calls if self._with_stacks else 0
        recorded = max(0, resident_bytes() - self._resident) + _HEAP_FREE
        seconds = (time.thread_time_ns() - self._cpu_ns) / 1e9
        calls = int(min(recorded / _CALL_HELD, seconds * _CALLS_A_SECOND)) if self._with_stacks else 0
        return max(_CALL_BYTES * calls, int(_OPERATOR_TIMES * min(recorded, seconds * _OPERATORS_A_SECOND)))

    def file_bytes(self) -> int:
        """Size in bytes that Python's calls give the trace of the steps so far; 0 without stacks.

        The growth of the process limits the number of calls, and so does the time of the thread: both must be large.
        """
        if not self._running or not self._with_stacks:
            return 0
        grown = resident_bytes() - self._resident
        ran = (time.thread_time_ns() - self._cpu_ns) / 1e9 * _CALLS_A_SECOND
        # A smaller growth says nothing of the calls: the heap may have had that much room, or the job took it.
        return int(_FILE_BYTES * min(grown / _CALL_HELD, ran)) if grown > _HEAP_FREE else 0

    def save(self) -> Path:
        """Write the trace, under its final name only when it is complete and within the size bound. Raises
        `CaptureError`.

        A trace above the bound is compressed, to a twentieth or so, and is dropped only if the result is too large as
        well.
        """
        draft = self._path.with_name(f".{self._path.name}.part")
        packed = draft.with_name(f".{self._path.name}.gz.part")
        try:
            self._profile.export_chrome_trace(str(draft))
            if not _whole(draft):
                raise CaptureError("the trace could not be written whole")
            self._profile = None
            most, size = self._request.largest_bytes, draft.stat().st_size
            if size <= most:
                draft.replace(self._path)
                return self._path
            if not pack(draft, packed, most):
                raise CaptureError(f"the trace has {size} bytes, and more than the {most} allowed when compressed")
            target = self._path.with_name(f"{self._path.name}.gz")
            packed.replace(target)
            return target
        finally:
            draft.unlink(missing_ok=True)
            packed.unlink(missing_ok=True)

    def discard(self) -> None:
        """Stop the profiler if it runs; nothing is written."""
        # Each of these calls may fail alone, after an earlier failure: the other calls must still be tried.
        with contextlib.suppress(Exception):
            self._close_mark()
        if self._running:
            self._running = False
            with contextlib.suppress(Exception):
                self._profile.stop()
        self._profile = None


def pack(source: Path, target: Path, most: int) -> bool:
    """Compress `source` into `target`; False, with an incomplete target, where the result would be larger than `most`
    bytes."""
    gzip: Any = standard("gzip")
    with source.open("rb") as plain, target.open("wb") as raw:
        with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=1) as packed:
            while block := plain.read(_BLOCK):
                packed.write(block)
                if raw.tell() > most:
                    return False
        return raw.tell() <= most


def _faults() -> int:
    """Page faults of this process without input, so far; 0 where the system does not count them."""
    resource = _resource()
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_minflt) if resource else 0


@lru_cache(maxsize=1)
def _resource() -> Any:
    try:
        return standard("resource")
    except ImportError:
        return None


def _asked(request: Request) -> dict[str, bool]:
    names = {"memory": "profile_memory", "stack": "with_stack", "shapes": "record_shapes"}
    return {names[name]: value == "yes" for name, value in request.options.items() if name in names}


def _with_collections(torch: Any) -> dict[str, object]:
    """The option that records collections of Python's garbage collector, since torch 2.9; collections come with
    stacks."""
    try:
        return {"experimental_config": torch._C._profiler._ExperimentalConfig(record_python_gc_info=True)}
    except (TypeError, AttributeError):
        return {}


def _lean(torch: Any) -> dict[str, object]:
    """The option for the trace alone, without tables that Hermes does not read, since torch 2.13."""
    try:
        return {"experimental_config": torch._C._profiler._ExperimentalConfig(trace_only=True)}
    except (TypeError, AttributeError):
        return {}


def _whole(path: Path) -> bool:
    """Whether the file ends as the trace writer ends it: a full disk cuts a trace off, and torch does not say so."""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - 64, 0))
        return file.read().rstrip().endswith(b"}")
