"""Random harm to what ranks and watchers share: segments, rings, logs and names. Only `LiveError` may come out.

    python fuzz/fuzz_shared.py [--minutes 10] [--seed 1]

Each round makes a job with a rank, harms one of its files or puts something under a name of ours beside them, and then
does what every watcher and every next rank does: list, attach, read, ask, recover, clean. Ends with 1 at the first
other error, record that was never written, or call that takes longer than two seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from hermes.inside.wire import process
from hermes.inside.wire.control import Control, Request
from hermes.inside.wire.errors import LiveError
from hermes.inside.wire.recovery import clean, open_ring, recover
from hermes.inside.wire.ring import RingReader
from hermes.inside.wire.rundir import enter, jobs, live_jobs, read, rings, running, shared_memory
from hermes.inside.wire.step_record import FIELDS, NULL, pack
from hermes.inside.wire.steplog import LogWriter, last_index, read_rows

_LONGEST_S = 2.0
_REQUEST = Request(
    action="profile", start_step=10, steps=2, level="light", reason="fuzz", out="/tmp/out", deadline_ns=1, options={}
)


def record(index: int) -> bytes:
    """A record of that number."""
    values = dict.fromkeys(FIELDS, NULL) | {"index": index, "step": index, "wall_ns": 1000, "flags": 0}
    return pack(*[values[name] for name in FIELDS if name != "check"])


class Round:
    """One job in a folder of its own, harmed once or a few times."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self.dice = dice
        self.root = folder / "jobs"
        environment = {"HERMES_SHM_DIR": str(folder)}
        self.memory = shared_memory(environment)
        self.job = enter(self.root, "train-1-2", command=("a",), owner=process.own_identity(), environment=environment)
        self.control = Control.attach(self.job.segment, job=self.job.id)
        self.control.claim(0)
        self.ring = open_ring(self.job, 0, {})
        self.log = LogWriter(self.job.log_path(0), {})
        self.written = dice.randrange(1, 1500)
        for index in range(1, self.written + 1):
            self.ring.add(record(index))
        self.log.append(b"".join(record(index) for index in range(1, dice.randrange(2, 20))))

    def harm(self) -> None:
        """Do something to one file, or put something beside them."""
        dice = self.dice
        every = [*self.memory.iterdir(), *self.job.folder.iterdir()]
        files = [path for path in every if path.is_file() and not path.is_symlink()]
        if dice.random() < 0.3 or not files:
            return self._plant(dice.choice([self.memory, self.job.folder, self.root]))
        path = dice.choice(files)
        kind = dice.randrange(6)
        if kind == 0:
            os.truncate(path, dice.randrange(0, max(path.stat().st_size, 1) + 5000))
        elif kind == 1:
            path.unlink()
        elif kind == 2:
            path.chmod(dice.choice([0o600, 0o644, 0o400, 0o666]))
        elif kind == 3:
            other = dice.choice(files)
            content = other.read_bytes() if other.exists() else b""
            path.write_bytes(content)
        else:
            self._scribble(path)
        return None

    def _scribble(self, path: Path) -> None:
        dice = self.dice
        with path.open("r+b") as file:
            size = path.stat().st_size
            for _ in range(dice.randrange(1, 10)):
                file.seek(dice.choice([dice.randrange(0, size + 1), dice.randrange(0, 300), 4096]))
                at = dice.randrange(1, 1 << 40)
                file.write(dice.choice([dice.randbytes(dice.randrange(1, 600)), record(at), bytes(64), b"\xff" * 16]))

    def _plant(self, folder: Path) -> None:
        dice = self.dice
        name = dice.choice([
            f"{self.job.segment.name}.0.9999999", f"{self.job.segment.name}.{dice.randrange(99)}.1", "x-0123456789ab",
            "job.json", "steps-rank1.log", "other-1-1", "a" * 200, ".", "\udcff-0123456789ab.0.1", "rank0.json",
        ])  # fmt: skip
        path = folder / name
        with contextlib.suppress(OSError):
            kind = dice.randrange(5)
            if kind == 0:
                os.mkfifo(path)
            elif kind == 1:
                path.mkdir()
            elif kind == 2:
                path.symlink_to(dice.choice(["/etc/passwd", "/dev/zero", str(self.job.segment), "nowhere"]))
            else:
                # What was planted before may be a pipe that nobody reads, or a link to a file of the system.
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
                with os.fdopen(os.open(path, flags, 0o666), "wb") as file:
                    file.write(dice.randbytes(dice.randrange(0, 9000)))

    def use(self) -> None:
        """What watchers and ranks do."""
        job = self.job
        self._try(lambda: list(jobs(self.root)))
        self._try(lambda: live_jobs(self.memory))
        self._try(lambda: read(job.folder))
        self._try(lambda: running(job))
        self._try(self._attach)
        for _, _, path in rings(job):
            self._try(lambda path=path: self._read(path))
        self._try(lambda: self.ring.add(record(self.written + 1)))
        self._try(lambda: self.ring.since(self.written))
        self._try(lambda: self.control.epoch)
        self._try(self.control.request)
        self._try(lambda: recover(job))
        self._try(lambda: last_index(job.log_path(0)))
        self._try(lambda: sum(row is not None for row in read_rows(job.log_path(0))))
        self._try(lambda: clean(self.root, self.memory))

    def _attach(self) -> None:
        control = Control.attach(self.job.segment)
        try:
            control.slots()
            control.request()
            control.ask(_REQUEST)
        finally:
            control.close()

    def _read(self, path: Path) -> None:
        reader = RingReader(path)
        try:
            rows = reader.new()
        finally:
            reader.close()
        if len(rows) > 2 * reader.capacity + 128:
            raise AssertionError(f"{len(rows)} records of a ring with {reader.capacity}")

    def _try(self, call: Callable[[], object]) -> None:
        start = time.monotonic()
        with contextlib.suppress(LiveError, OSError):
            call()
        if time.monotonic() - start > _LONGEST_S + 3 * _busy():
            raise AssertionError("a call was waited for")

    def close(self) -> None:
        """Let go."""
        self.control.close()
        self.ring.close()
        self.log.close()


def _busy() -> float:
    """How many processes want each core: a machine with other work is given more time."""
    return os.getloadavg()[0] / (os.cpu_count() or 1)


def main(arguments: Iterable[str] | None = None) -> int:
    """Rounds until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(None if arguments is None else list(arguments))
    faulthandler.dump_traceback_later(60 * given.minutes + 20, exit=True)
    end, rounds, seed = time.monotonic() + 60 * given.minutes, 0, given.seed
    while time.monotonic() < end:
        folder = Path(tempfile.mkdtemp(prefix="hermes-fuzz-", dir="/dev/shm"))
        try:
            made = Round(folder, random.Random(seed))
            for _ in range(made.dice.randrange(1, 4)):
                made.harm()
            made.use()
            made.close()
        except Exception:
            sys.stdout.write(f"round {rounds}, seed {seed}\n")
            raise
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        rounds, seed = rounds + 1, seed + 1
    sys.stdout.write(f"{rounds} rounds, nothing found\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
