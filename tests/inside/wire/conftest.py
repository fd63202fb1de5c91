"""Segments in a folder of the test, and records to write into them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.inside.wire import process
from hermes.inside.wire.rundir import Job, enter
from hermes.inside.wire.step_record import FIELDS, NULL, pack


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    memory = tmp_path / "shm"
    memory.mkdir()
    return {"HERMES_SHM_DIR": str(memory), "HERMES_RUN_DIR": str(tmp_path / "jobs")}


@pytest.fixture
def make_job(environment: dict[str, str]) -> Callable[..., Job]:
    """A job below the test's folder; its owner is this process unless another is named."""

    def make(job_id: str = "train-1-2", owner: tuple[int, int] | None = None) -> Job:
        root = Path(environment["HERMES_RUN_DIR"])
        return enter(
            root, job_id, command=("python", "train.py"), owner=owner or process.own_identity(), environment=environment
        )

    return make


@pytest.fixture
def record() -> Callable[[int], bytes]:
    """A packed record with the given index; its step is the same number."""

    def make(index: int) -> bytes:
        values = dict.fromkeys(FIELDS, NULL) | {"index": index, "step": index, "wall_ns": 1000 + index}
        return pack(*[values[name] for name in FIELDS if name != "check"])

    return make
