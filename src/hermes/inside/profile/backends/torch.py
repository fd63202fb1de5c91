"""torch.profiler, for CPU and CUDA: one Chrome trace a rank, with a mark `ProfilerStep#N` for each step of the job."""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hermes.inside.monitor.surroundings import surroundings
from hermes.inside.profile.lines import own_code
from hermes.inside.standard import standard
from hermes.inside.wire.control import Request
from hermes.inside.wire.levels import TORCH, CaptureError


class TorchBackend:
    """Uses torch as the job has loaded it. Recording, ending and writing cost the stepping thread."""

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

    def start(self) -> None:
        """Raises `CaptureError` while another profiler runs: torch has only one."""
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
        # Stacks are put together in what it leaves out.
        lean = _with_collections(self._torch) if wanted.get("with_stack") else _lean(self._torch)
        self._profile = profiler.profile(activities=activities, **wanted, **lean)
        self._profile.start()
        self._running = True
        about = {
            "rank": self._rank,
            "reason": self._request.reason,
            "settings": surroundings(sys.modules),
            "before": dict(self._before),
            "own": own_code(),
        }
        self.note("hermes", about)

    def note(self, name: str, value: object) -> None:
        """Into the head of the trace; only a profile that runs takes notes."""
        self._profile.add_metadata_json(name, json.dumps(value))

    def mark(self, step: int) -> None:
        """Close the mark of the step before, and open that of `step`."""
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
        """Collect what was recorded: some milliseconds for each thousand events."""
        self._close_mark()
        self._running = False
        # Only a profile that runs takes notes.
        with contextlib.suppress(Exception):
            about = {"minor_faults": (_faults() - self._faults) // max(1, self._marks)}
            self.note("hermes_end", about)
        self._profile.stop()

    def save(self) -> Path:
        """Write the trace, under its name only when it is whole and within the bound. Raises `CaptureError`."""
        draft = self._path.with_name(f".{self._path.name}.part")
        try:
            self._profile.export_chrome_trace(str(draft))
            size = draft.stat().st_size
            if size > self._request.largest_bytes:
                raise CaptureError(f"the trace has {size} bytes, more than the {self._request.largest_bytes} allowed")
            if not _whole(draft):
                raise CaptureError("the trace could not be written whole")
            draft.replace(self._path)
            self._profile = None
        finally:
            draft.unlink(missing_ok=True)
        return self._path

    def discard(self) -> None:
        """Stop if running; nothing is written."""
        # Each of these may fail alone, after a failure that came before: the rest must still be tried.
        with contextlib.suppress(Exception):
            self._close_mark()
        if self._running:
            self._running = False
            with contextlib.suppress(Exception):
                self._profile.stop()
        self._profile = None


def _faults() -> int:
    """Page faults of this process without input, so far; 0 where the system does not tell."""
    try:
        resource: Any = standard("resource")
    except ImportError:
        return 0
    count: int = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    return count


def _asked(request: Request) -> dict[str, bool]:
    names = {"memory": "profile_memory", "stack": "with_stack", "shapes": "record_shapes"}
    return {names[name]: value == "yes" for name, value in request.options.items() if name in names}


def _with_collections(torch: Any) -> dict[str, object]:
    """Since torch 2.9 collections of Python's garbage collector can be asked for; they come with stacks."""
    try:
        return {"experimental_config": torch._C._profiler._ExperimentalConfig(record_python_gc_info=True)}
    except (TypeError, AttributeError):
        return {}


def _lean(torch: Any) -> dict[str, object]:
    """Since torch 2.13 the trace alone can be asked for, without tables that nobody here reads."""
    try:
        return {"experimental_config": torch._C._profiler._ExperimentalConfig(trace_only=True)}
    except (TypeError, AttributeError):
        return {}


def _whole(path: Path) -> bool:
    """Whether the text ends as the writer ends it: a full disk cuts it off, and torch does not say so."""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - 64, 0))
        return file.read().rstrip().endswith(b"}")
