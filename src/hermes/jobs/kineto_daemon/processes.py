"""What the system says of the processes that ask for a configuration: rank, command, version of torch, and whose."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes.base.errors import InputError, QueryError
from hermes.base.message import Message
from hermes.inside.wire import process
from hermes.jobs.kineto_daemon import kineto_messages as messages

KNOWN = ((2, 13),)
"""Versions of torch whose protocol was seen to work, by `tests/jobs/test_kineto.py`."""
_LIBRARY = "/lib/libtorch_cpu.so"
_VERSION = re.compile(r"^__version__ = ['\"]((\d+)\.(\d+)[^'\"]*)['\"]", re.M)
_RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
_HERE = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "WORLD_SIZE")
_WORLD = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
_LONGEST = 1 << 20
_DEEPEST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One process as /proc has it. `rank`, `here` and `world` are those of its launcher's environment.

    `here`: ranks of the job on this host. `torch`: the version that it has loaded; empty when that is not known.
    """

    pid: int
    started: int
    parent: int
    command: str
    torch: str
    rank: int | None = None
    here: int | None = None
    world: int | None = None

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return process.alive(self.pid, self.started)

    @property
    def job(self) -> int:
        """A number that the ranks of one launcher share."""
        return self.pid if self.rank is None else self.parent


def facts(pid: int, proc: Path = Path("/proc")) -> Facts | None:
    """What is known of a process; None when it is gone, or not to be looked into."""
    folder = proc / str(pid)
    try:
        environment = _environment((folder / "environ").read_bytes()[:_LONGEST])
        command = (folder / "cmdline").read_bytes()[:_LONGEST].decode("utf-8", "replace").split("\0")
        stat = (folder / "stat").read_bytes().rpartition(b")")[2].split()
        parent, started = int(stat[1]), int(stat[19])
    except (OSError, ValueError, IndexError):
        return None
    return Facts(
        pid=pid, started=started, parent=parent, command=" ".join(filter(None, command)), torch=_torch(folder),
        rank=_first(environment, _RANK), here=_first(environment, _HERE), world=_first(environment, _WORLD),
    )  # fmt: skip


def above(pid: int, proc: Path = Path("/proc")) -> tuple[int, ...]:
    """The number of a process and those of the processes above it."""
    found = [pid]
    with contextlib.suppress(OSError, ValueError, IndexError):
        while pid > 1 and len(found) < _DEEPEST:
            pid = int((proc / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[1])
            found.append(pid)
    return tuple(found)


def _environment(raw: bytes) -> dict[str, str]:
    pairs = (entry.partition(b"=") for entry in raw.split(b"\0"))
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def _first(environment: Mapping[str, str], names: Sequence[str]) -> int | None:
    return next(
        (int(text) for name in names if (text := environment.get(name, "")).isdecimal() and len(text) < 8), None
    )


def _torch(folder: Path) -> str:
    """The version of torch that a process has mapped, from the file beside the library."""
    with contextlib.suppress(OSError), (folder / "maps").open(encoding="utf-8", errors="replace") as file:
        for line in file:
            path = line.rstrip("\n").partition("/")
            if path[2].endswith(_LIBRARY):
                home = path[2].removesuffix(_LIBRARY)
                # Through its root: a process in a container has files of its own.
                found = _VERSION.search((folder / "root" / home / "version.py").read_text("utf-8")[:_LONGEST])
                return found[1] if found else ""
    return ""


def refusal(of: Facts) -> Message | None:
    """Why that process is not asked; None when its protocol is known."""
    found = re.match(r"(\d+)\.(\d+)", of.torch)
    names = [f"{major}.{minor}" for major, minor in KNOWN]
    if found is None:
        return messages.torch_unknown(pid=str(of.pid), known=names)
    if (int(found[1]), int(found[2])) not in KNOWN:
        return messages.torch_other(pid=str(of.pid), torch=of.torch, known=names)
    return None


def trainings(found: Mapping[int, Facts], over: Mapping[int, Collection[int]]) -> list[Facts]:
    """Those of the processes that may train, by rank or number: no launchers, no workers of a rank.

    `over` holds the numbers of the processes above each, and its own. A launcher has ranks below it and is none; a
    worker has its rank's environment. Without ranks nobody can tell, and all are asked.
    """
    ranks = {pid for pid, of in found.items() if of.rank is not None}
    launchers = {pid for rank in ranks for pid in over[rank] if pid in found and pid not in ranks}
    workers = {
        pid for pid in ranks for up in over[pid] if up != pid and up in ranks and found[up].rank == found[pid].rank
    }
    left = [of for pid, of in found.items() if pid not in launchers | workers]
    return sorted(left, key=lambda of: (of.rank is None, of.rank, of.pid))


def of_job(found: Sequence[Facts], name: str, over: Mapping[int, Collection[int]]) -> list[Facts]:
    """The processes of the job with that number (its own, a rank's or a launcher's) or text in the command.

    An empty name means the only one. Raises `QueryError` when it is none, or not one.
    """
    meant = [of for of in found if not name or name in of.command or (name.isdecimal() and int(name) in over[of.pid])]
    jobs = {of.job: of for of in meant}
    if len(jobs) == 1:
        return meant
    listed = [f"{number}: {of.command[:60]}" for number, of in (jobs or {of.job: of for of in found}).items()]
    what = messages.not_asking(name=name) if not jobs else messages.not_one(name=name) if name else messages.SEVERAL
    raise QueryError(what, hint=messages.name_one(processes=listed))


def of_ranks(found: Sequence[Facts], wanted: Collection[int]) -> dict[int, Facts]:
    """Rank to process, of the ranks wanted (none named: all). Raises `InputError` for a rank that is not there.

    Processes without a rank are numbered on, in the order of their numbers.
    """
    taken = {of.rank: of for of in found if of.rank is not None}
    spare = iter(number for number in range(len(found) + len(taken)) if number not in taken)
    by_rank = {(next(spare) if of.rank is None else of.rank): of for of in found}
    absent = sorted(set(wanted) - by_rank.keys())
    if absent:
        raise InputError(messages.rank_not_asking(rank=absent[0]), hint=messages.ranks_asking(ranks=by_rank))
    return {rank: of for rank, of in sorted(by_rank.items()) if not wanted or rank in wanted}
