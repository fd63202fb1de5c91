"""Run directories: where a job's logs and captures are stored, and how the job's ranks find each other."""

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

from hermes.inside.wire import process, shared_memory_file
from hermes.inside.wire.control import Control
from hermes.inside.wire.errors import LiveError

JOB_FILE = "job.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")
_RING = re.compile(r"(.+)\.(\d{1,9})\.(\d{1,9})")
"""The pattern of a ring's file name: segment, rank and process."""
_SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,90}-[0-9a-f]{12}")
_LARGEST_JOB_FILE = 1 << 20
_GRACE_S = 60.0
"""Seconds that a segment without a holder stays when its maker cannot be checked: the maker is in another container."""


@dataclass(frozen=True)
class Job:
    """A job that is or was watched: its directory and the segment that its ranks share.

    `owner` is the process that starts new ranks, as its number in pid namespace `space` and its start time: while the
    owner lives, the memory is kept.
    """

    id: str
    folder: Path
    segment: Path
    created_ns: int
    command: tuple[str, ...]
    owner: tuple[int, int]
    space: int = 0

    def ring_path(self, rank: int, pid: int) -> Path:
        """The path of the step ring of one process of one rank."""
        return Path(f"{self.segment}.{rank}.{pid}")

    def log_path(self, rank: int) -> Path:
        """The path of a rank's step log."""
        return self.folder / f"steps-rank{rank}.log"

    @property
    def user(self) -> int:
        """The user id of the job's owner."""
        return int(self.segment.parent.name.partition("-")[2])

    @property
    def captures(self) -> Path:
        """The folder for the job's captures."""
        return self.folder / "captures"


def default_root(environment: Mapping[str, str]) -> Path:
    """The folder of run directories: HERMES_RUN_DIR, else XDG_STATE_HOME, else the home, else the temporary folder."""
    if environment.get("HERMES_RUN_DIR"):
        return Path(environment["HERMES_RUN_DIR"]).absolute()
    if environment.get("XDG_STATE_HOME"):
        return Path(environment["XDG_STATE_HOME"]) / "hermes" / "jobs"
    home = environment.get("HOME", "")
    if home and os.access(home, os.W_OK):
        return Path(home) / ".local" / "state" / "hermes" / "jobs"
    return Path("/tmp") / f"hermes-{os.geteuid()}"


def shared_memory(environment: Mapping[str, str]) -> Path:
    """The folder for segments of this user: in HERMES_SHM_DIR, else in /dev/shm."""
    return memory_folders(environment)[0]


def memory_folders(
    environment: Mapping[str, str], *, root: Path | None = None, user: int | None = None
) -> tuple[Path, ...]:
    """Folders where segments of `user` may be, by default of this user; the usual place first.

    Any account can create the folder in the usual place first. So two more places follow that only the user can write:
    XDG_RUNTIME_DIR, and the folder of run directories (`root`, unless it is the default one).
    """
    number = os.geteuid() if user is None else user
    places = [Path(environment.get("HERMES_SHM_DIR") or "/dev/shm")]
    if number == os.geteuid():
        places += [Path(folder) for folder in [environment.get("XDG_RUNTIME_DIR", "")] if folder.startswith("/")]
        places.append(root or default_root(environment))
    else:
        places.append(Path(f"/run/user/{number}"))
    return tuple(place / f"hermes-{number}" for place in places)


def moved(job: Job, environment: Mapping[str, str]) -> str:
    """One line on why the memory of a job is not in its usual place; empty when it is there."""
    usual, place = shared_memory(environment), job.segment.parent
    if place == usual:
        return ""
    try:
        os.close(shared_memory_file.open_folder(usual))
    except LiveError as refused:
        return f"{refused}: this job shares its memory in {place} instead"
    return ""


def _memory(environment: Mapping[str, str], root: Path) -> Path:
    """The first usable folder for segments, made if it does not exist. Raises `LiveError` for the usual folder."""
    first: LiveError | None = None
    for place in memory_folders(environment, root=root):
        try:
            if first is not None:
                _check_own(place.parent)
            os.close(shared_memory_file.open_folder(place, make=True))
            return place
        except LiveError as refused:
            first = first or refused
    raise first or LiveError("there is no folder for shared memory")


def make_root(root: Path) -> None:
    """Make the folder of run directories, for this user alone. Raises `LiveError` when it belongs to another user."""
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as refused:
        raise LiveError(f"{root} cannot be made ({refused.strerror})") from refused
    _check_own(root)


def _check_own(root: Path) -> None:
    """Raise `LiveError` unless the folder is this user's, and other users cannot replace its content."""
    try:
        facts, link = root.stat(), root.lstat()
    except OSError as refused:
        raise LiveError(f"{root} cannot be had ({refused.strerror})") from refused
    # A link that this user made is followed; a link that another user made is not.
    if facts.st_uid != os.geteuid() or link.st_uid != os.geteuid():
        raise LiveError(f"{root} belongs to user {link.st_uid}")
    if stat.S_IMODE(facts.st_mode) & 0o022 and not facts.st_mode & stat.S_ISVTX:
        raise LiveError(f"{root} can be written by other users")


def new_id(name: str, *, pid: int, started: int) -> str:
    """A job id that no other job of this boot has: a name, a process and the process's start time."""
    clean = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-_")[:40] or "job"
    return f"{clean}-{pid}-{started}"


def enter(
    root: Path, job_id: str, *, command: tuple[str, ...], owner: tuple[int, int], environment: Mapping[str, str]
) -> Job:
    """The job with id `job_id`, made if it does not exist; of many processes that come at once, one makes it.

    The segment is made completely under a name of its own; then a hard link puts `job.json` in place, which only one
    process can win. A process that loses removes its segment and takes the winner's. Raises `LiveError`.
    """
    if not _NAME.fullmatch(job_id):
        raise LiveError(f"{job_id[:60]!r} is no job id")
    make_root(root)
    folder = root / job_id
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        facts = folder.lstat()
    except OSError as refused:
        raise LiveError(f"{folder} cannot be made ({refused.strerror})") from refused
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
        raise LiveError(f"{folder} is no folder of this user")
    if not (folder / JOB_FILE).exists():
        text = {
            "job": job_id, "created_ns": time.time_ns(), "command": list(command)[:200], "owner": list(owner),
            "space": process.pid_namespace(),
        }  # fmt: skip
        _propose(folder, text, environment)
    return read(folder)


def _propose(folder: Path, facts: Mapping[str, object], environment: Mapping[str, str]) -> None:
    nonce, job_id = os.urandom(6).hex(), folder.name
    memory = _memory(environment, folder.parent)
    path = memory / f"{job_id[:80]}-{nonce}"
    pid, started = process.own_identity()
    about = {
        "job": job_id,
        "nonce": nonce,
        "folder": str(folder),
        "maker": [pid, started],
        "space": process.pid_namespace(),
    }
    control = Control.create(path, about)
    control.keep()
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
        control.close()
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def read(folder: Path) -> Job:
    """The job of a run directory. Raises `LiveError` for another kind of folder, or another user's."""
    file = folder / JOB_FILE
    try:
        raw = json.loads(_content(folder))
        job = Job(
            id=str(raw["job"]),
            folder=folder,
            segment=Path(raw["segment"]),
            created_ns=int(raw["created_ns"]),
            command=tuple(map(str, raw["command"])),
            owner=(int(raw["owner"][0]), int(raw["owner"][1])),
            space=int(raw["space"]),
        )
    except OSError as refused:
        raise LiveError(f"{file} cannot be read ({refused.strerror})") from refused
    except (ValueError, LookupError, TypeError, RecursionError) as broken:
        raise LiveError(f"{file} is damaged") from broken
    if job.id != folder.name or not re.fullmatch(r"hermes-\d+", job.segment.parent.name):
        raise LiveError(f"{file} is of another job")
    return job


def _content(folder: Path) -> bytes:
    """The job file in a folder of this user, opened by descriptor: links and pipes of other users are refused."""
    above = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        descriptor = os.open(JOB_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=above)
    finally:
        os.close(above)
    try:
        facts = os.fstat(descriptor)
        if facts.st_uid != os.geteuid():
            raise LiveError(f"{folder / JOB_FILE} belongs to another user")
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _LARGEST_JOB_FILE:
            raise LiveError(f"{folder / JOB_FILE} is damaged")
        return os.read(descriptor, _LARGEST_JOB_FILE)
    finally:
        os.close(descriptor)


def jobs(root: Path) -> Iterator[Job]:
    """All jobs below `root`, oldest first; a folder that is no run directory is skipped."""
    found = []
    with contextlib.suppress(OSError):
        for folder in root.iterdir():
            with contextlib.suppress(LiveError, OSError):
                found.append(read(folder))
    yield from sorted(found, key=lambda job: (job.created_ns, job.id))


def live_jobs(*memory: Path) -> list[Job]:
    """The jobs with a living rank in these folders of segments, according to the segments; no run directory is read."""
    found = []
    for path in (place / name for place in memory for name in _names(place) if _SEGMENT.fullmatch(name)):
        with contextlib.suppress(LiveError, OSError, LookupError, TypeError, ValueError):
            control = Control.attach(path)
            try:
                about, alive = control.about, any(slot.alive for slot in control.slots())
            finally:
                control.close()
            if alive and _NAME.fullmatch(str(about["job"])):
                folder = Path(str(about["folder"]))
                found.append(
                    Job(
                        id=str(about["job"]), folder=folder, segment=path, created_ns=0, command=(),
                        owner=(int(about["maker"][0]), int(about["maker"][1])),  # type: ignore[index]
                        space=int(about["space"]),  # type: ignore[call-overload]
                    )
                )  # fmt: skip
    return sorted(found, key=lambda job: job.id)


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


def rings(job: Job) -> list[tuple[int, int, Path]]:
    """Rank, process and path of every ring beside the segment of the job."""
    return _rings(job.segment)


def _rings(path: Path) -> list[tuple[int, int, Path]]:
    found = []
    for name in _names(path.parent):
        parts = _RING.fullmatch(name)
        if parts and parts[1] == path.name:
            found.append((int(parts[2]), int(parts[3]), path.parent / name))
    return sorted(found)


def _names(memory: Path) -> list[str]:
    """The file names in the folder of segments; empty when the folder is not this user's."""
    try:
        descriptor = shared_memory_file.open_folder(memory)
    except LiveError:
        return []
    try:
        return os.listdir(descriptor)  # noqa: PTH208 - by descriptor
    finally:
        os.close(descriptor)
