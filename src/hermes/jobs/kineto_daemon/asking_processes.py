"""Reads rank, command, torch version and owner of the processes that ask for a configuration, from /proc."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes.base.errors import InputError, QueryError
from hermes.base.message import Message, Text
from hermes.inside.wire import process
from hermes.jobs.kineto_daemon import kineto_messages as messages
from hermes.jobs.kineto_daemon.libkineto_support import RESTRICTED, missing_words

_LIBRARY = "/lib/libtorch_cpu.so"
_VERSION = re.compile(r"^__version__ = ['\"]((\d+)\.(\d+)[^'\"]*)['\"]", re.M)
_RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
_HERE = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "WORLD_SIZE")
_WORLD = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
_LONGEST = 1 << 20
_DEEPEST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFacts:
    """The facts on one process in /proc. `rank`, `here` and `world` come from its launcher's environment.

    `here`: number of ranks of the job on this host. `torch`: the loaded version, empty if unknown. `library`: the file
    with its libkineto. `traces`: the only folder to which the process may write, if one is set.
    """

    pid: int
    started: int
    parent: int
    command: str
    torch: str
    rank: int | None = None
    here: int | None = None
    world: int | None = None
    library: Path | None = None
    traces: str = ""

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return process.alive(self.pid, self.started)

    @property
    def job(self) -> int:
        """A number that the ranks of one launcher share."""
        return self.pid if self.rank is None else self.parent


def process_facts(pid: int, proc: Path = Path("/proc")) -> ProcessFacts | None:
    """The facts on a process; None when it has ended, or may not be read."""
    folder = proc / str(pid)
    try:
        environment = _environment((folder / "environ").read_bytes()[:_LONGEST])
        command = (folder / "cmdline").read_bytes()[:_LONGEST].decode("utf-8", "replace").split("\0")
        stat = (folder / "stat").read_bytes().rpartition(b")")[2].split()
        parent, started = int(stat[1]), int(stat[19])
    except (OSError, ValueError, IndexError):
        return None
    library = _library(folder)
    return ProcessFacts(
        pid=pid, started=started, parent=parent, command=" ".join(filter(None, command)), torch=_torch(library),
        library=library, traces=environment.get(RESTRICTED, ""), rank=_first(environment, _RANK),
        here=_first(environment, _HERE), world=_first(environment, _WORLD),
    )  # fmt: skip


def parent_processes(pid: int, proc: Path = Path("/proc")) -> tuple[int, ...]:
    """The number of a process and the numbers of its ancestors."""
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


def _library(folder: Path) -> Path | None:
    """The torch library that a process has mapped."""
    with contextlib.suppress(OSError), (folder / "maps").open(encoding="utf-8", errors="replace") as file:
        for line in file:
            path = line.rstrip("\n").partition("/")
            if path[2].endswith(_LIBRARY):
                # Through the process's root: a process in a container has files of its own.
                return folder / "root" / path[2]
    return None


def _torch(library: Path | None) -> str:
    """The version of torch, from the file beside its library."""
    with contextlib.suppress(OSError):
        if library is not None:
            found = _VERSION.search((library.parents[1] / "version.py").read_text("utf-8")[:_LONGEST])
            return found[1] if found else ""
    return ""


def refusal(of: ProcessFacts, words: Sequence[str], out: Path) -> tuple[Message, Text] | None:
    """Why a process cannot be asked with these keys for traces below `out`, and what to do; None when it can be asked.

    The process has asked in the known layout. Unknown keys show in its library: a process with an unreadable library is
    asked, and its trace shows the result.
    """
    lacks = missing_words(of.library, (*words, RESTRICTED)) if of.library is not None else None
    if lacks is None:
        return None
    unknown = [word for word in words if word in lacks]
    if unknown:
        return messages.words_missing(pid=str(of.pid), torch=of.torch, words=unknown), messages.START_OTHERWISE
    allowed = of.traces or "/tmp"
    if RESTRICTED not in lacks and not out.absolute().is_relative_to(allowed):
        why = messages.writes_elsewhere(pid=str(of.pid), torch=of.torch, folder=allowed)
        return why, messages.give_that_folder(variable=RESTRICTED)
    return None


def trainings(found: Mapping[int, ProcessFacts], over: Mapping[int, Collection[int]]) -> list[ProcessFacts]:
    """The processes that may train, by rank or number: no launchers, and no workers of a rank.

    `over` holds the numbers of each process and its ancestors. A launcher has ranks below it; a worker has its rank's
    environment. Without ranks the processes cannot be told apart, and all are asked.
    """
    ranks = {pid for pid, of in found.items() if of.rank is not None}
    launchers = {pid for rank in ranks for pid in over[rank] if pid in found and pid not in ranks}
    workers = {
        pid for pid in ranks for up in over[pid] if up != pid and up in ranks and found[up].rank == found[pid].rank
    }
    left = [of for pid, of in found.items() if pid not in launchers | workers]
    return sorted(left, key=lambda of: (of.rank is None, of.rank, of.pid))


def of_job(found: Sequence[ProcessFacts], name: str, over: Mapping[int, Collection[int]]) -> list[ProcessFacts]:
    """The processes of the job that `name` identifies: a process number (own, rank's or launcher's), or text in the
    command.

    An empty name means the only job. Raises `QueryError` for no job, or for several.
    """
    meant = [of for of in found if not name or name in of.command or (name.isdecimal() and int(name) in over[of.pid])]
    jobs = {of.job: of for of in meant}
    if len(jobs) == 1:
        return meant
    listed = [f"{number}: {of.command[:60]}" for number, of in (jobs or {of.job: of for of in found}).items()]
    what = messages.not_asking(name=name) if not jobs else messages.not_one(name=name) if name else messages.SEVERAL
    raise QueryError(what, hint=messages.name_one(processes=listed))


def of_ranks(found: Sequence[ProcessFacts], wanted: Collection[int]) -> dict[int, ProcessFacts]:
    """The process of each wanted rank (empty: all). Raises `InputError` for a missing rank.

    Processes without a rank get the next free rank numbers, in the order of their process numbers.
    """
    taken = {of.rank: of for of in found if of.rank is not None}
    spare = iter(number for number in range(len(found) + len(taken)) if number not in taken)
    by_rank = {(next(spare) if of.rank is None else of.rank): of for of in found}
    absent = sorted(set(wanted) - by_rank.keys())
    if absent:
        raise InputError(messages.rank_not_asking(rank=absent[0]), hint=messages.ranks_asking(ranks=by_rank))
    return {rank: of for rank, of in sorted(by_rank.items()) if not wanted or rank in wanted}
