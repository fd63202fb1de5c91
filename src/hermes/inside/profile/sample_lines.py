"""Samples the stepping thread's stack some hundred times a second: profilers do not record lines of code."""

from __future__ import annotations

import contextlib
import os
import site
import sys
import threading
import time
from pathlib import Path
from types import CodeType, FrameType

from hermes.inside.error_guard import Border, silent
from hermes.inside.standard_library import standard
from hermes.inside.wire.open_files import OpenFile

EVERY_S = 0.004
_MOST = 4_000
"""Largest number of samples; sampling ends after a minute at most, since steps longer than that have been seen
enough."""
_LONGEST_NS = 60_000_000_000
_DEEPEST = 60
_MOST_STACKS = 600
_MOST_THREADS, _MOST_OF_THREAD = 32, 50
"""Largest number of other threads that are sampled, and of stacks kept for each thread."""
_MOST_NAMES = 200
_LONGEST_NAME = 100
_CALLS_A_SECOND = 1_000_000
"""Approximate calls and returns a second of a thread that runs nothing but Python while a profiler records the
thread."""
_AGAIN_S = 0.0001
"""Seconds until the second look: a thread at the same place in both looks is inside one call, and not in Python."""
_LATE_NS = 2_000_000
"""A sample that comes this many ns late was waiting for the interpreter."""


class Lines(threading.Thread):
    """A daemon thread that samples the stack of one other thread; it never raises, and ends by itself."""

    def __init__(self, thread: int, every_s: float = EVERY_S) -> None:
        super().__init__(name="hermes-lines", daemon=True, target=Border(silent).entry(self._watch))
        self._thread = thread
        self._every_s = every_s
        self._ended = threading.Event()
        self._stacks: dict[tuple[tuple[CodeType, int], ...], int] = {}
        self._samples: list[tuple[int, int]] = []
        self._moved = self._looks = 0
        self._others: dict[int, _Other] = {}
        self._gone: list[_Other] = []
        self._began_ns = self._looked_ns = time.monotonic_ns()

    def _watch(self) -> None:
        """Sample until `end` is called, or until there are enough samples."""
        try:
            self._look()
        finally:
            # Only this thread closes the files: after a close, their numbers may belong to other files.
            for other in self._all():
                other.close()

    def _look(self) -> None:
        until = time.monotonic_ns() + _LONGEST_NS
        while len(self._samples) < _MOST and time.monotonic_ns() < until and not self._ended.wait(self._every_s):
            frames = sys._current_frames()
            frame = frames.get(self._thread)
            if frame is None:
                return
            self._beside(frames)
            at, now = (id(frame), frame.f_lasti), time.time_ns()
            self._take(now, frame)
            # A kept frame would keep all of its objects alive.
            frames.clear()
            del frame
            time.sleep(_AGAIN_S)
            frame = sys._current_frames().get(self._thread)
            self._moved += frame is not None and at != (id(frame), frame.f_lasti)
            if frame is not None and time.time_ns() - now > _LATE_NS:
                # A call that kept the interpreter to itself has just ended: the sample belongs to that call.
                self._take(time.time_ns(), frame)
            del frame

    def _beside(self, frames: dict[int, FrameType]) -> None:
        """Sample the other threads that were on a core since the last look."""
        self._looks, self._looked_ns = self._looks + 1, time.monotonic_ns()
        for thread, frame in frames.items():
            if thread in (self._thread, self.ident):
                continue
            other = self._others.get(thread)
            if other is not None and other.ended:
                # A new thread may get the number of an ended thread.
                other.close()
                self._gone += [other] if other.seen else []
                other = None
            if other is None:
                if len(self._others) + len(self._gone) < _MOST_THREADS or thread in self._others:
                    self._others[thread] = _Other(thread)
            elif other.ran():
                key = _stack(frame)
                if key in other.seen or len(other.seen) < _MOST_OF_THREAD:
                    other.seen[key] = other.seen.get(key, 0) + 1

    def _all(self) -> list[_Other]:
        return [*self._gone, *list(self._others.values())]

    def _take(self, now_ns: int, frame: FrameType) -> None:
        key = _stack(frame)
        number = self._stacks.get(key, -1)
        if number < 0:
            if len(self._stacks) >= _MOST_STACKS:
                return
            number = self._stacks[key] = len(self._stacks)
        self._samples.append((now_ns, number))

    def end(self) -> None:
        """Stop sampling the stepping thread."""
        self._ended.set()

    @property
    def python(self) -> float | None:
        """The share of samples after which the thread went on in Python at once; None without samples."""
        return self._moved / len(self._samples) if self._samples else None

    def told(self) -> dict[str, object]:
        """The sampled stacks, innermost frame first, and the sample times with the number of a stack."""
        samples = list(self._samples)
        roots = _roots()
        stacks = [_texts(stack, roots) for stack in list(self._stacks)]
        others = [
            {
                "name": one.name[:_LONGEST_NAME], "cpu_ns": one.cpu_ns,
                "seen": [[_texts(stack, roots), many] for stack, many in list(one.seen.items())],
            }
            for one in self._all()
            if one.seen and not one.name.startswith("hermes-")
        ]  # fmt: skip
        return {
            "every_ns": round(self._every_s * 1e9), "stacks": stacks, "samples": samples,
            "looks": self._looks, "wall_ns": self._looked_ns - self._began_ns, "threads": others,
        }  # fmt: skip


class _Other:
    """A thread beside the stepping thread: its time on a core since it was first seen, and its sampled stacks."""

    __slots__ = ("_file", "_first_ns", "_last_ns", "ended", "name", "seen")

    def __init__(self, thread: int) -> None:
        found = next((one for one in threading.enumerate() if one.ident == thread), None)
        self.name = "" if found is None else found.name
        self.ended = False
        self._file: OpenFile | None = None
        if found is not None:
            with contextlib.suppress(OSError):
                self._file = OpenFile(
                    os.open(f"/proc/self/task/{found.native_id}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
                )
        first_ns = self._read()
        if first_ns is None:
            self.close()
        self._first_ns = self._last_ns = first_ns or 0
        self.seen: dict[tuple[tuple[CodeType, int], ...], int] = {}

    def _read(self) -> int | None:
        """The thread's time on a core in ns; None once the thread has ended, and where the system does not tell
        (proc(5))."""
        if self._file is None:
            return None
        try:
            return int(os.pread(self._file.number, 80, 0).split()[0])
        except (OSError, ValueError, IndexError):
            return None

    def ran(self) -> bool:
        """Whether the thread was on a core since the last call of `ran`."""
        before, now_ns = self._last_ns, self._read()
        self.ended = self._file is not None and now_ns is None
        self._last_ns = before if now_ns is None else now_ns
        return self._last_ns > before

    @property
    def cpu_ns(self) -> int:
        """The thread's time on a core in ns, as far as it was sampled."""
        return self._last_ns - self._first_ns

    def close(self) -> None:
        """Close the file in /proc of this thread."""
        if self._file is not None:
            self._file.close()
            self._file = None


def calls_expected(python: float | None, step_ns: int | None, steps: int) -> int:
    """The most calls that a profiler of Python would record in `steps` steps, roughly; 0 without data."""
    if not step_ns:
        return 0
    return round((1.0 if python is None else python) * step_ns / 1e9 * steps * _CALLS_A_SECOND)


def own_code() -> list[str]:
    """The user's packages and modules in this process: all that neither Python nor an installer brought."""
    roots, found, ours = _roots(), dict[str, None](), f"{Path(__file__).parents[2]}/"
    brought = tuple(f"{path}/" for path in {*standard("sysconfig").get_paths().values()} if path and path != "/")
    for module in list(sys.modules.values()):
        file = module.__dict__.get("__file__") if isinstance(getattr(module, "__dict__", None), dict) else None
        if not isinstance(file, str) or file.startswith(ours) or "-packages/" in file:
            continue
        if file.startswith(brought) and _is_library(file):
            continue
        name = _short(file, roots).split("/", 1)[0]
        name = name[: -len(".py")] if name.endswith(".py") else name
        if name and len(name) <= _LONGEST_NAME and "," not in name:
            found[name] = None
    return list(found)[:_MOST_NAMES]


def _is_library(file: str) -> bool:
    # The paths of an installation scheme hold its data folder, which may hold everything.
    return f"/python{sys.version_info[0]}." in file or "-packages/" in file or file.endswith((".so", ".pyd"))


def _roots() -> list[str]:
    """Folders that are cut off from file names, as torch cuts them off, longest first."""
    paths = [*sys.path]
    with contextlib.suppress(Exception):
        paths += [*site.getsitepackages(), site.getusersitepackages()]
    absolute = {str(Path(path or ".").absolute()) for path in paths}
    return sorted((f"{path}/" for path in absolute if path != "/"), key=len, reverse=True)


def _short(file: str, roots: list[str]) -> str:
    return next((file[len(root) :] for root in roots if file.startswith(root)), file)


def _stack(frame: FrameType | None) -> tuple[tuple[CodeType, int], ...]:
    """The code and line of a frame, and of each frame that called it."""
    stack: list[tuple[CodeType, int]] = []
    while frame is not None and len(stack) < _DEEPEST:
        stack.append((frame.f_code, frame.f_lineno or 0))
        frame = frame.f_back
    return tuple(stack)


def _texts(stack: tuple[tuple[CodeType, int], ...], roots: list[str]) -> list[str]:
    return [_text(code, line, roots) for code, line in stack]


def _text(code: CodeType, line: int, roots: list[str]) -> str:
    return f"{_short(code.co_filename, roots)}({line}): {code.co_name}"[:300]
