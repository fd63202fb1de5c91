"""Lets a watcher ask a stuck process which collectives it has entered, by torch's flight recorder, as JSON.

A thread opens a pipe for reading, which blocks until a watcher opens the pipe for writing. Until then the thread holds
no file that the job could close, and takes no time.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Callable

from hermes.inside.error_guard import Border, silent

_RECORDERS = (
    ("torch._C._distributed_c10d", "_dump_fr_trace_json"),
    ("torch._C._distributed_c10d", "_dump_nccl_trace_json"),
    ("torch_npu._C._distributed_c10d", "_dump_hccl_trace_json"),
)
"""Flight recorders of PyTorch, of PyTorch before 2.9, and of torch_npu, as module and function. Functions that return
pickles are left out."""
_DUMPS = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TORCH_HCCL_DEBUG_INFO_TEMP_FILE")
"""Environment variables that hold the beginning of a dump's path; the rank is the path's end."""
_LARGEST = 16 << 20
_LONGEST_PATH = 300
_PAUSE_S = 1.0


class FlightRecorderPipe:
    """A pipe in `folder`, and the file that is written when a watcher opens the pipe; `told` is what a watcher must
    know.

    No pipe is made where the job has no process group: such a process has no other thread, and Hermes adds none.
    """

    def __init__(
        self, folder: Path, rank: int, modules: Mapping[str, Any], environment: Mapping[str, str]
    ) -> None:  # fmt: skip
        self.told: dict[str, object] = {}
        self._ended = False
        self._pipe = folder / f".collectives-rank{rank}"
        self._file = folder / f"collectives-rank{rank}.json"
        distributed = getattr(modules.get("torch"), "distributed", None)
        if distributed is None or not distributed.is_available() or not distributed.is_initialized():
            return
        self.told = {"dumps": _dumps(rank, environment)}
        self._recorders = _recorders(modules)
        if not self._recorders:
            return
        with contextlib.suppress(OSError):
            self._pipe.unlink()
        try:
            os.mkfifo(str(self._pipe), 0o600)
            _thread.start_new_thread(Border(silent).entry(self._serve), ())
        except (OSError, RuntimeError, AttributeError):
            return
        self.told["collectives"] = {"pipe": self._pipe.name, "file": self._file.name}

    def _serve(self) -> None:
        """Serve watchers until the pipe is removed."""
        while not self._ended:
            try:
                os.close(os.open(str(self._pipe), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW))
            except OSError:
                return
            if not self._ended:
                self._write()
                time.sleep(_PAUSE_S)

    def _write(self) -> None:
        """Write the dump of the first recorder that knows a collective; a reader sees the whole file or nothing."""
        text = b""
        for call in self._recorders:
            found = _text(call(True, False))
            # With only the collectives under way: a job may keep any number of finished ones.
            found = found if len(found) <= _LARGEST else _text(call(True, True))
            if len(found) <= _LARGEST and (not text or b'"entries"' in found):
                text = found
                if b'"entries"' in found:
                    break
        beside = self._file.with_suffix(".new")
        number = os.open(str(beside), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(number, "wb") as file:
            file.write(text)
        beside.replace(self._file)

    def close(self) -> None:
        """Stop serving at the end of the process: no watcher is to ask any more."""
        if "collectives" not in self.told or self._ended:
            return
        self._ended = True
        # If the thread does not wait at the pipe at this moment, it finds no pipe the next time.
        with contextlib.suppress(OSError):
            os.close(os.open(str(self._pipe), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW))
        with contextlib.suppress(OSError):
            self._pipe.unlink()


def _recorders(modules: Mapping[str, Any]) -> list[Callable[[bool, bool], Any]]:
    found = (getattr(modules.get(module), name, None) for module, name in _RECORDERS)
    return [one for one in found if callable(one)]


def _text(found: Any) -> bytes:
    return found if isinstance(found, bytes) else str(found).encode("utf-8", "replace")


def _dumps(rank: int, environment: Mapping[str, str]) -> list[str]:
    """The paths where the process writes its dump when a collective times out: from the environment, else the usual
    paths."""
    told = [environment[name] for name in _DUMPS if environment.get(name)]
    cache = environment.get("XDG_CACHE_HOME") or f"{environment.get('HOME') or '/tmp'}/.cache"
    usual = [f"{cache}/torch/comm_lib_trace_rank_", "/tmp/nccl_trace_rank_", "/tmp/hccl_trace_rank_"]
    paths = [f"{one}{rank}" for one in (told or usual)[:3]]
    # The text of a rank's slot is short.
    return [one for one in paths if len(one) < _LONGEST_PATH]
