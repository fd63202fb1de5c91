"""Training loops in separate processes, with run directories of the test."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.patience import PATIENCE_S

from hermes.inside.wire.recovery import save_and_remove
from hermes.inside.wire.rundir import Job, jobs, shared_memory
from hermes.inside.wire.step_record import AT, NULL
from hermes.inside.wire.steplog import read_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place where the processes of a test keep their run directories."""

    folder: Path
    environment: dict[str, str]

    @property
    def root(self) -> Path:
        return Path(self.environment["HERMES_RUN_DIR"])

    @property
    def memory(self) -> Path:
        return shared_memory(self.environment)

    def jobs(self) -> list[Job]:
        return list(jobs(self.root))

    def python(
        self, script: str, *, seconds: float = PATIENCE_S, warnings: str = "error", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run the script to its end."""
        return subprocess.run(
            [sys.executable, "-W", warnings, "-c", textwrap.dedent(script)],
            env=self.environment | environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def begin(self, script: str, **environment: str) -> subprocess.Popen[str]:
        """Run the script beside the test."""
        return subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script)],
            env=self.environment | environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    (tmp_path / "shm").mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HERMES_", "RANK", "WORLD"))}
    added = {
        "HERMES_RUN_DIR": str(tmp_path / "jobs"),
        "HERMES_SHM_DIR": str(tmp_path / "shm"),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src"),
    }
    made = Place(folder=tmp_path, environment=kept | added)
    yield made
    for job in made.jobs():
        save_and_remove(job)


@pytest.fixture
def with_torch() -> None:
    """Skip the test if PyTorch is not installed."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed: pip install --group torch")


Column = Callable[[Path, str], list[int | None]]


@pytest.fixture
def column() -> Column:
    """One field of all records of a log; None where it was not measured."""

    def read(log: Path, name: str) -> list[int | None]:
        rows = list(read_rows(log))
        assert all(rows)
        return [None if row[AT[name]] == NULL else row[AT[name]] for row in rows if row]

    return read
