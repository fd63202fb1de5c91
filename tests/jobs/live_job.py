"""A job whose one rank is the test itself: its segment, its ring, and steps that the test defines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hermes.base.message import Text
from hermes.base.say import say
from hermes.inside.wire import process
from hermes.inside.wire.control import Control
from hermes.inside.wire.recovery import open_ring, save_and_remove
from hermes.inside.wire.ring import RingWriter
from hermes.inside.wire.rundir import Job, enter
from hermes.inside.wire.step_record import FIELDS, NULL, pack

MS = 10**6


@dataclass(slots=True, kw_only=True)
class LiveJob:
    """The job, and the messages of its watcher."""

    job: Job
    environment: dict[str, str]
    ring: RingWriter
    control: Control
    said: list[Text] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        """The watcher's messages, in English."""
        return [say(one) for one in self.said]

    def steps(self, walls_ms: Iterable[float], **columns: int) -> None:
        """End a step of each of these lengths; all records have these values."""
        for wall in walls_ms:
            number = self.ring.count + 1
            self.ring.add(record(number, step=number, wall_ns=int(wall * MS), end_ns=number, **columns))


def record(index: int, **columns: int) -> bytes:
    """A packed record with these values, no flags, and nothing else measured."""
    values = dict.fromkeys(FIELDS, NULL) | {"index": index, "flags": 0} | columns
    return pack(*[values[name] for name in FIELDS if name != "check"])


@contextmanager
def a_job(folder: Path, rank: int = 0, **about: object) -> Iterator[LiveJob]:
    """A running job below a folder, whose one rank describes itself by `about`."""
    (folder / "shm").mkdir(parents=True)
    environment = {"HERMES_SHM_DIR": str(folder / "shm"), "HERMES_RUN_DIR": str(folder / "jobs")}
    root = Path(environment["HERMES_RUN_DIR"])
    job = enter(
        root, "train-1-2", command=("python", "train.py"), owner=process.own_identity(), environment=environment
    )
    control = Control.attach(job.segment, job=job.id)
    control.claim(rank)
    ring = open_ring(job, rank, {"flops": 2_000_000_000, **about})
    yield LiveJob(job=job, environment=environment, ring=ring, control=control)
    ring.close()
    control.close()
    save_and_remove(job)


@pytest.fixture
def live_job(tmp_path: Path) -> Iterator[LiveJob]:
    """A running job below the test's folder."""
    with a_job(tmp_path) as made:
        yield made
