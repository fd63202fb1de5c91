"""Makes the run directory of a job in a separate process: a disk that hangs blocks only this process."""

from __future__ import annotations

import contextlib
import json
import os
import select
import time
from collections.abc import Mapping, Sequence
from typing import Any

from hermes.inside.launch.detached_process import start_detached


def made(
    command: Sequence[str], name: str, environment: Mapping[str, str], owner: tuple[int, int], patience_s: float
) -> dict[str, str]:
    """Description of the new job: `folder`, `segment`, `job`, and `said`, the text to print.

    Only `refused` is returned when no run directory can be made, or not within `patience_s` seconds.
    """
    here, there = os.pipe()
    try:
        start_detached(lambda: _make(there, command, name, environment, owner), keep=(there,))
    except OSError as refused:
        os.close(there)
        return {"refused": f"no process can be started ({refused.strerror})"}
    else:
        os.close(there)
        answer = _answer(here, patience_s)
    finally:
        os.close(here)
    return answer or {"refused": "the disk does not answer"}


def _answer(descriptor: int, patience_s: float) -> dict[str, str] | None:
    end, raw = time.monotonic() + patience_s, b""
    while not raw.endswith(b"\n"):
        if not select.select([descriptor], [], [], max(end - time.monotonic(), 0))[0]:
            return None
        more = os.read(descriptor, 65536)
        if not more:
            return None
        raw += more
    found: dict[str, str] = json.loads(raw)
    return found


def _make(
    descriptor: int, command: Sequence[str], name: str, environment: Mapping[str, str], owner: tuple[int, int]
) -> None:
    from hermes.inside.wire.errors import LiveError
    from hermes.inside.wire.recovery import clean, save_and_remove
    from hermes.inside.wire.rundir import default_root, enter, memory_folders, moved, new_id

    job: Any = None
    try:
        root = default_root(environment)
        job_id = new_id(name or name_of(command), pid=owner[0], started=owner[1])
        job = enter(root, job_id, command=tuple(command), owner=owner, environment=environment)
        answer = {
            "folder": str(job.folder), "segment": str(job.segment), "job": job.id, "said": moved(job, environment)
        }  # fmt: skip
    except LiveError as refused:
        answer = {"refused": str(refused)}
    except Exception as broken:  # noqa: BLE001 - the job is not ours to end
        answer = {"refused": f"{type(broken).__name__}: {broken}"}
    try:
        os.write(descriptor, json.dumps(answer).encode() + b"\n")
    except OSError:
        # The job was started without a run directory.
        if job is not None:
            save_and_remove(job)
    os.close(descriptor)
    # The remains of crashed jobs are not worth a delay of this job.
    os.nice(10)
    with contextlib.suppress(LiveError, OSError):
        clean(*memory_folders(environment))


def name_of(command: Sequence[str]) -> str:
    """The name of a job: the script or module that its command trains with, without folder and ending."""
    words: list[str] = list(command)
    script = next((_stem(word) for word in words[1:] if word.endswith(".py")), "")
    after = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "-m"]
    return script or (after[-1].rpartition(".")[2] if after else _stem(words[0]))


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]  # noqa: PTH119, PTH122 - pathlib is not loaded yet
