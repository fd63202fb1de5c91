"""Run directories: where a job's logs and captures are, how its ranks find each other, and what a crash left behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hermes.live import process
from hermes.live.control import Control
from hermes.live.errors import LiveError
from hermes.live.record import pack
from hermes.live.ring import RingReader, RingWriter
from hermes.live.steplog import LogWriter, last_index

JOB_FILE = "job.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")
_SEGMENT = re.compile(r"hermes-(\d{1,10})-.+-(\d{1,10})-(\d{1,19})-[0-9a-f]{12}")
"""User, process and start time of who made a segment, from its name; rings have more behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job that is or was watched: its directory and the segment that its ranks share.

    `owner` is the process, with its start time, that brings new ranks: while it lives the memory is kept.
    """

    id: str
    folder: Path
    segment: Path
    created_ns: int
    command: tuple[str, ...]
    owner: tuple[int, int]

    def ring_path(self, rank: int, pid: int) -> Path:
        """The step ring of one process of one rank."""
        return Path(f"{self.segment}.{rank}.{pid}")

    def log_path(self, rank: int) -> Path:
        """The step log of a rank."""
        return self.folder / f"steps-rank{rank}.log"

    @property
    def captures(self) -> Path:
        """Where captures go."""
        return self.folder / "captures"


def default_root(environment: Mapping[str, str]) -> Path:
    """Where run directories are: HERMES_RUN_DIR, else XDG_STATE_HOME, else the home, else the temporary folder."""
    if environment.get("HERMES_RUN_DIR"):
        return Path(environment["HERMES_RUN_DIR"]).absolute()
    if environment.get("XDG_STATE_HOME"):
        return Path(environment["XDG_STATE_HOME"]) / "hermes" / "jobs"
    home = environment.get("HOME", "")
    if home and os.access(home, os.W_OK):
        return Path(home) / ".local" / "state" / "hermes" / "jobs"
    return Path("/tmp") / f"hermes-{os.geteuid()}"


def shared_memory(environment: Mapping[str, str]) -> Path | None:
    """The folder for segments: HERMES_SHM_DIR, else /dev/shm; None where there is none that can be written."""
    folder = Path(environment.get("HERMES_SHM_DIR") or "/dev/shm")
    return folder if folder.is_dir() and os.access(folder, os.W_OK) else None


def make_root(root: Path) -> None:
    """Make the folder of run directories, for this user alone. Raises `LiveError` when it is another's."""
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        facts = root.stat()
    except OSError as refused:
        raise LiveError(f"{root} cannot be made ({refused.strerror})") from refused
    if facts.st_uid != os.geteuid() or (stat.S_IMODE(facts.st_mode) & 0o022 and not facts.st_mode & stat.S_ISVTX):
        raise LiveError(f"{root} can be written by other users")


def new_id(name: str, *, pid: int, started: int) -> str:
    """A job id that no other job of this boot has: a name, a process and when it started."""
    clean = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-_")[:40] or "job"
    return f"{clean}-{pid}-{started}"


def enter(
    root: Path, job_id: str, *, command: tuple[str, ...], owner: tuple[int, int], environment: Mapping[str, str]
) -> Job:
    """The job of that id, made if it is not there; of many processes that come at once, one makes it.

    The segment is made whole under a name of its own; then a hard link puts `job.json` in place, which only one can
    win. Who loses removes its segment and takes the winner's. Raises `LiveError`.
    """
    if not _NAME.fullmatch(job_id):
        raise LiveError(f"{job_id[:60]!r} is no job id")
    make_root(root)
    folder = root / job_id
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as refused:
        raise LiveError(f"{folder} cannot be made ({refused.strerror})") from refused
    if not (folder / JOB_FILE).exists():
        facts = {"job": job_id, "created_ns": time.time_ns(), "command": list(command)[:200], "owner": list(owner)}
        _propose(folder, facts, environment)
    return read(folder)


def _propose(folder: Path, facts: Mapping[str, object], environment: Mapping[str, str]) -> None:
    nonce, job_id = os.urandom(6).hex(), folder.name
    place = shared_memory(environment) or folder
    pid, started = process.me()
    path = place / f"hermes-{os.geteuid()}-{job_id[:80]}-{pid}-{started}-{nonce}"
    about = {"job": job_id, "nonce": nonce, "uid": os.geteuid(), "folder": str(folder)}
    Control.create(path, about).close()
    text = {**facts, "segment": str(path)}
    draft = folder / f".{JOB_FILE}.{nonce}"
    try:
        draft.write_text(json.dumps(text), "utf-8")
        draft.chmod(0o600)
        os.link(draft, folder / JOB_FILE)
    except FileExistsError:
        path.unlink(missing_ok=True)
    except OSError as refused:
        path.unlink(missing_ok=True)
        raise LiveError(f"{folder} cannot be written ({refused.strerror})") from refused
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def read(folder: Path) -> Job:
    """The job of a run directory. Raises `LiveError` when it is none, or another user's."""
    file = folder / JOB_FILE
    try:
        if file.stat().st_uid != os.geteuid():
            raise LiveError(f"{file} belongs to another user")
        raw = json.loads(file.read_bytes())
        job = Job(
            id=str(raw["job"]),
            folder=folder,
            segment=Path(raw["segment"]),
            created_ns=int(raw["created_ns"]),
            command=tuple(map(str, raw["command"])),
            owner=(int(raw["owner"][0]), int(raw["owner"][1])),
        )
    except OSError as refused:
        raise LiveError(f"{file} cannot be read ({refused.strerror})") from refused
    except (ValueError, LookupError, TypeError) as broken:
        raise LiveError(f"{file} is damaged") from broken
    if job.id != folder.name or not job.segment.name.startswith(f"hermes-{os.geteuid()}-"):
        raise LiveError(f"{file} is of another job")
    return job


def jobs(root: Path) -> Iterator[Job]:
    """All jobs below that folder, oldest first; what is no run directory is passed over."""
    found = []
    with contextlib.suppress(OSError):
        for folder in root.iterdir():
            with contextlib.suppress(LiveError, OSError):
                found.append(read(folder))
    yield from sorted(found, key=lambda job: (job.created_ns, job.id))


def running(job: Job) -> bool:
    """Whether a rank of the job lives."""
    try:
        control = Control.attach(job.segment, job=job.id)
    except LiveError:
        return False
    try:
        return any(slot.alive for slot in control.slots())
    finally:
        control.close()


def clean(root: Path, memory: Path | None = None) -> list[str]:
    """Remove the shared memory of jobs whose processes are all gone; returns their ids. Logs and captures stay.

    What a killed rank had in its ring and not yet in its log is written into the log first. In the folder `memory`
    also segments go that belong to no run directory: of a process killed on its way into a job, or whose folder was
    removed.
    """
    cleaned = []
    for job in jobs(root):
        if not job.segment.exists() or process.alive(*job.owner) or running(job):
            continue
        recover(job)
        remove_memory(job)
        cleaned.append(job.id)
    if memory is not None:
        for path in memory.glob(f"hermes-{os.geteuid()}-*"):
            with contextlib.suppress(OSError, LiveError):
                _remove_stray(path)
    return cleaned


def _remove_stray(segment: Path) -> None:
    """Remove a segment that no run directory names, and its rings, once neither its maker nor a rank lives."""
    name = _SEGMENT.fullmatch(segment.name)
    if name is None or process.alive(int(name[2]), int(name[3])):
        return
    with segment.open("rb") as file:
        begun = any(file.read(8))
    if begun:
        control = Control.attach(segment)
        folder, alive = str(control.about.get("folder", "")), any(slot.alive for slot in control.slots())
        control.close()
        if alive or not folder or _named(Path(folder), segment):
            return
    for _, _, path in _rings(segment):
        path.unlink(missing_ok=True)
    segment.unlink(missing_ok=True)


def _named(folder: Path, segment: Path) -> bool:
    """Whether the run directory is there and names that segment. Raises `LiveError` when it cannot be read."""
    return (folder / JOB_FILE).exists() and read(folder).segment == segment


def rings(job: Job) -> list[tuple[int, int, Path]]:
    """Rank, process and path of every ring that lies beside the segment of the job."""
    return _rings(job.segment)


def _rings(segment: Path) -> list[tuple[int, int, Path]]:
    found = []
    prefix = segment.name + "."
    with contextlib.suppress(OSError):
        for path in segment.parent.iterdir():
            rank, _, pid = path.name.removeprefix(prefix).partition(".")
            if path.name.startswith(prefix) and rank.isdecimal() and pid.isdecimal():
                found.append((int(rank), int(pid), path))
    return sorted(found)


def recover(job: Job, *, of: int | None = None) -> int:
    """Write what dead ranks (or that one) left in their rings and not in their logs into these; how many records."""
    saved = 0
    for rank, pid, path in rings(job):
        if of is not None and rank != of:
            continue
        try:
            reader = RingReader(path)
        except LiveError:
            continue
        started = reader.about.get("started")
        if isinstance(started, int) and process.alive(pid, started):
            reader.close()
            continue
        with contextlib.suppress(LiveError, OSError):
            saved += _recover_ring(job.log_path(rank), reader)
        reader.close()
    return saved


def _recover_ring(log: Path, reader: RingReader) -> int:
    known = last_index(log)
    rows = [row for row in reader.new() if row[0] > known]
    if rows:
        # Who follows the rank writes the log too: only one of us gets it.
        writer = LogWriter(log, reader.about)
        try:
            writer.append(b"".join(pack(*row[:-1]) for row in rows if row[0] > last_index(log)))
        finally:
            writer.close()
    return len(rows)


def remove_memory(job: Job) -> None:
    """Remove the segment and the rings of a job; who has them mapped keeps them until it ends."""
    for _, _, path in rings(job):
        path.unlink(missing_ok=True)
    job.segment.unlink(missing_ok=True)


def open_ring(job: Job, rank: int, about: Mapping[str, object]) -> RingWriter:
    """The ring of this process for that rank, numbered on from the rank's log. Raises `LiveError`.

    Rings that earlier processes of the rank left are written into its log and removed first.
    """
    recover(job, of=rank)
    for number, pid, path in rings(job):
        if number == rank and process.start_time(pid) is None:
            path.unlink(missing_ok=True)
    pid, started = process.me()
    about = {**about, "job": job.id, "rank": rank, "pid": pid, "started": started}
    return RingWriter(job.ring_path(rank, pid), about, base=last_index(job.log_path(rank)))
