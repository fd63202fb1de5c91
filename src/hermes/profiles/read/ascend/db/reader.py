"""Finds Ascend databases among files and reads the tables of one capture from them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from hermes.base.errors import Diagnostic, TraceFormatError
from hermes.profiles.read import messages
from hermes.profiles.read import refusal_messages as refusals
from hermes.profiles.read.ascend.capture_folders import load_json, rank_in_info, rank_number
from hermes.profiles.read.ascend.db import profiler_sums
from hermes.profiles.read.ascend.db.capture_databases import Profile, Tables
from hermes.profiles.read.ascend.db.comm import communicators, read_comm, write_comm
from hermes.profiles.read.ascend.db.database_info import capture_of, mapped_rank, root_of, write_about
from hermes.profiles.read.ascend.db.device import read_tasks, write_kernels
from hermes.profiles.read.ascend.db.host import write_host
from hermes.profiles.read.ascend.db.sampled_counters import write_samples
from hermes.profiles.read.ascend.db.sqlite_database import Database, glanced, opened, unmerged
from hermes.profiles.read.ascend.db.task_launches import Launches
from hermes.profiles.read.reader_interface import CaptureSource
from hermes.profiles.read.table_sink import Sink

_FORMAT, _OF_MSPROF = "ascend-db", "msprof-db"
_SUFFIXES = frozenset({".db", ".sqlite", ".sqlite3"})
_FRAMEWORK = re.compile(r"^ascend_(?:pytorch|mindspore)_profiler(?:_(\d{1,16}))?\.db$")
_MSPROF = re.compile(r"^msprof_\d+\.db$")
_COMPANIONS = frozenset({"analysis.db", "communication_analyzer.db"})
_INFO = re.compile(r"^profiler_info(?:_(\d{1,8}))?\.json$")
_METADATA = "profiler_metadata.json"
# A folder with one of these files is the text reader's, even if the profiler put an `analysis.db` beside them.
_TEXTS = ("trace_view.json", "kernel_details.csv", "step_trace_time.csv")
_ROWS = frozenset(
    {
        "TASK",
        "PYTORCH_API",
        "CANN_API",
        "COMMUNICATION_OP",
        "STEP_TIME",
        "MEMORY_RECORD",
        "OP_MEMORY",
        "NPU_MEM",
    }
)


def claim_databases(files: Sequence[Path]) -> list[CaptureSource]:
    """The captures whose databases are among these files.

    A file with a profiler's name is claimed whatever its content: a damaged file is then reported. A file with another
    name is claimed only if its tables are a profiler's.
    """
    roots: dict[Path, _Root] = {}
    for file in sorted(files):
        root = roots.setdefault(root_of(file), _Root())
        if file.suffix in _SUFFIXES:
            root.add_database(file)
        elif _INFO.match(file.name) or file.name == _METADATA:
            root.sidecars.append(file)
        elif file.name in _TEXTS:
            root.has_text = True
    return [source for path, root in sorted(roots.items()) for source in _sources(path, root)]


def read_database(paths: Sequence[Path], rank: int, sink: Sink) -> None:
    """Write every table that the databases of one capture give; the database files stay unchanged.

    `paths` may include the capture's `profiler_info` and `profiler_metadata.json`: settings and groups come from them.
    Raises `TraceFormatError` if no database can be read; a broken database among several becomes a note.
    """
    sidecars = [path for path in paths if path.suffix == ".json"]
    databases = [path for path in paths if path.suffix in _SUFFIXES]
    with ExitStack() as stack:
        read_tables(_open_all(sorted(databases, key=_trust), sink, stack), sidecars, rank, sink)


def read_tables(databases: Sequence[Tables], sidecars: Sequence[Path], rank: int, sink: Sink) -> None:
    """Write every table from open databases, or from tables that are held in memory."""
    profile = Profile(databases, sink)
    _refuse_foreign(profile)
    about = write_about(profile, rank, sidecars, communicators(profile))
    host = write_host(profile)
    launches = Launches(profile, host)
    tasks = read_tasks(profile)
    comm = read_comm(profile, tasks)
    write_kernels(profile, host, launches, tasks, comm.claimed)
    write_comm(profile, host, launches, comm, about)
    write_samples(profile)
    profiler_sums.write_summary(profile)


@dataclass(slots=True)
class _Root:
    """The files of one folder, sorted by kind."""

    framework: dict[str, list[Path]] = field(default_factory=dict)
    msprof: list[Path] = field(default_factory=list)
    companions: list[Path] = field(default_factory=list)
    sidecars: list[Path] = field(default_factory=list)
    has_text: bool = False

    def add_database(self, file: Path) -> None:
        """Add a database as the kind that its name, or else its tables, tell."""
        named = _FRAMEWORK.match(file.name)
        if named:
            self.framework.setdefault(named.group(1) or "", []).append(file)
        elif _MSPROF.match(file.name):
            self.msprof.append(file)
        elif file.name in _COMPANIONS:
            self.companions.append(file)
        else:
            tables = _tables(file)
            if {"STRING_IDS", "PYTORCH_API"} <= tables:
                self.framework.setdefault(file.stem, []).append(file)
            elif {"STRING_IDS", "TASK"} <= tables:
                self.msprof.append(file)
            elif tables & profiler_sums.TABLES:
                self.companions.append(file)


def _sources(path: Path, root: _Root) -> list[CaptureSource]:
    if root.framework:
        mains = root.framework
    elif root.msprof:
        # One process may have driven several devices, each with a folder of its own. In a folder that no profiler made,
        # each file is a process.
        together = path.name.endswith(("_ascend_pt", "_ascend_ms")) or path.name.startswith("PROF_")
        mains = {"": root.msprof} if together else {file.stem: [file] for file in root.msprof}
    elif root.companions and not root.has_text:
        own = [file for file in root.companions if _tables(file) & profiler_sums.TABLES]
        return [_source(path, "", own, root.sidecars)] if own else []
    else:
        return []
    companions = root.companions if len(mains) == 1 else []
    sources = []
    for key, files in mains.items():
        sidecars = [file for file in root.sidecars if len(mains) == 1 or _belongs(file, key)]
        sources.append(_source(path, key, [*files, *companions], sidecars))
    return sources


def _source(root: Path, key: str, databases: list[Path], sidecars: list[Path]) -> CaptureSource:
    rank, notes = _rank(key, databases, sidecars)
    beside = [file for database in databases for file in unmerged(database)]
    files = tuple(sorted([*databases, *beside, *sidecars]))
    return CaptureSource(
        reader=_FORMAT,
        format=_OF_MSPROF if all(_MSPROF.match(one.name) for one in databases) else _FORMAT,
        root=root,
        files=files,
        rank=rank,
        capture=capture_of(root),
        notes=notes,
    )


def _belongs(sidecar: Path, key: str) -> bool:
    named = _INFO.match(sidecar.name)
    return bool(named and named.group(1) == key)


def _rank(key: str, databases: list[Path], sidecars: list[Path]) -> tuple[int | None, tuple[Diagnostic, ...]]:
    """The rank from the most trusted file that names one, and a note if the files contradict each other."""
    said: list[tuple[str, int]] = []
    for sidecar in sidecars:
        said += _ranks_in(sidecar)
    numbered = rank_number(key) if any(_FRAMEWORK.match(file.name) for file in databases) else None
    if numbered is not None:
        said.append(("the database's name", numbered))
    said.sort(key=lambda one: _TRUST.index(one[0]))
    if not said:
        mapped = (_mapped(file) for file in databases)
        return next((rank for rank in mapped if rank is not None), None), ()
    rank = said[0][1]
    if all(other == rank for _, other in said):
        return rank, ()
    return rank, (
        Diagnostic(
            level="degraded",
            message=messages.ranks_disagree(files=[f"{who}={number}" for who, number in said], rank=rank),
            where=str(databases[0]),
            hint=messages.DO_ONE_RANK_A_FOLDER,
        ),
    )


_TRUST = ("the name of profiler_info", "rank_id of profiler_info", "the database's name", "distributed_args")


def _ranks_in(sidecar: Path) -> list[tuple[str, int]]:
    said: list[tuple[str, int | None]] = []
    named = _INFO.match(sidecar.name)
    try:
        content = load_json(sidecar)
    except (OSError, ValueError):
        content = {}
    if named:
        said.append((_TRUST[0], rank_number(named.group(1))))
        said.append((_TRUST[1], rank_in_info(content)))
    else:
        job = content.get("distributed_args")
        said.append((_TRUST[3], rank_number(job.get("rank")) if isinstance(job, dict) else None))
    return [(who, number) for who, number in said if number is not None]


def _mapped(file: Path) -> int | None:
    try:
        with glanced(file) as database:
            return mapped_rank(database)
    except TraceFormatError:
        return None


def _tables(file: Path) -> frozenset[str]:
    try:
        with glanced(file) as database:
            return database.tables
    except TraceFormatError:
        return frozenset()


def _trust(path: Path) -> tuple[bool, str]:
    """Sort key that puts databases of rows before databases of sums: the first database names the capture."""
    return path.name in _COMPANIONS, str(path)


def _open_all(paths: Sequence[Path], sink: Sink, stack: ExitStack) -> list[Database]:
    databases: list[Database] = []
    broken: list[TraceFormatError] = []
    for path in paths:
        try:
            databases.append(stack.enter_context(opened(path, sink)))
        except TraceFormatError as error:
            broken.append(error)
    if not databases:
        raise broken[0] if broken else ValueError("no database to read")
    for fault in broken:
        sink.note("degraded", fault.what, where=fault.where, lost=messages.LOST_DATABASE, hint=fault.hint)
    return databases


def _refuse_foreign(profile: Profile) -> None:
    first = profile.databases[0].path
    if profile.tables & profiler_sums.TABLES:
        return
    if not profile.tables & _ROWS:
        raise TraceFormatError(first, refusals.NO_PROFILERS_TABLE, hint=refusals.DO_OTHER_PROGRAM)
    if not profile.has_names:
        raise TraceFormatError(
            first,
            refusals.NO_NAMES,
            hint=refusals.DO_EXPORT_AGAIN,
        )
