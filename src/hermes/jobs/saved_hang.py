"""Keeps on disk where the ranks of a stuck job stood, to be read once the job has ended.

A collective library gives up after its timeout, and ends all ranks. The library's error names no link, and then no
process is left to ask. So the watcher keeps the output of `hermes stacks` once no step ends any more, and drops it when
steps go on.
"""

from __future__ import annotations

import contextlib
import json
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hermes.base.write_atomic import write_atomic
from hermes.inside.wire.errors import LiveError
from hermes.inside.wire.rundir import Job, read, running
from hermes.jobs.rank_positions import SCHEMA, document, positions_of_ranks
from hermes.jobs.run_directory_files import content

FILE = "standing.json"
_LARGEST = 16 << 20
_MOST_JOBS = 512


def save_hang(job: Job, now_ns: int) -> None:
    """Write where each rank stands; on a full disk nothing is kept."""
    ranks = positions_of_ranks(job, now_ns)
    launch = next((str(one.progress.about.get("launch") or "") for one in ranks), "")
    made = {**document(job, ranks, now_ns), "launch": launch, "host": platform.node(), "kept_ns": now_ns}
    with contextlib.suppress(OSError), write_atomic(job.folder / FILE) as file:
        file.write(json.dumps(made).encode())


def drop_hang(job: Job) -> None:
    """Remove the kept positions of a job that goes on."""
    with contextlib.suppress(OSError):
        (job.folder / FILE).unlink(missing_ok=True)


def latest_hang(root: Path, name: str, now_ns: int) -> dict[str, Any]:
    """The ranks of this host in the latest job, with `name` in its name, that ended while it stood still.

    A launcher may start one watched job for each rank: jobs of one launch count as one. `ended_ns` is how long ago the
    ranks were examined; without any job there are no ranks.
    """
    found = sorted(_kept(root, name), key=lambda one: -int(one["kept_ns"]))
    if not found:
        return {"schema": SCHEMA, "job": "", "launch": "", "ranks": []}
    last = found[0]
    same = [one for one in found if one is last or (last["launch"] and one["launch"] == last["launch"])]
    ranks = {row["rank"]: row for one in reversed(same) for row in one["ranks"]}
    return {**last, "ended_ns": max(now_ns - int(last["kept_ns"]), 0), "ranks": [ranks[rank] for rank in sorted(ranks)]}


def _kept(root: Path, name: str) -> Iterator[Mapping[str, Any]]:
    paths = sorted(root.glob(f"*/{FILE}"), key=lambda path: -path.lstat().st_mtime_ns)[:_MOST_JOBS]
    for path in paths:
        # Hosts may share the folder of run directories.
        with contextlib.suppress(LiveError, OSError, ValueError, LookupError, TypeError):
            one = json.loads(content(path, _LARGEST) or b"")
            mine = one["host"] == platform.node() and (name in one["job"] or name in one["launch"])
            known = all(isinstance(row["rank"], int) for row in one["ranks"]) and int(one["kept_ns"]) > 0
            if mine and known and not running(read(path.parent)):
                yield one
