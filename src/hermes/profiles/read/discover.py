"""Finds the captures in a tree of files, and their ranks; ranks come from files, never from the order of folders."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from hermes.base.errors import Diagnostic, InputError
from hermes.base.message import Message
from hermes.knowledge.input_files import INPUT_FILES
from hermes.profiles.read import capture_messages as captures_say
from hermes.profiles.read import messages, unsupported_profiles
from hermes.profiles.read import refusal_messages as refusals
from hermes.profiles.read.ascend.capture_folders import TIMELINES
from hermes.profiles.read.ascend.memscope import MemscopeReader
from hermes.profiles.read.ascend.reader import AscendReader
from hermes.profiles.read.captures_of_run import one_run
from hermes.profiles.read.kineto.reader import KinetoReader
from hermes.profiles.read.nsys import NsysReader
from hermes.profiles.read.reader_interface import CaptureSource, Reader
from hermes.profiles.read.rocpd import RocpdReader
from hermes.profiles.read.service_profiler import ServiceReader
from hermes.profiles.read.snapshot.reader import SnapshotReader

READERS: tuple[Reader, ...] = (
    ServiceReader(), AscendReader(), KinetoReader(), SnapshotReader(), MemscopeReader(), NsysReader(),
    RocpdReader(),
)  # fmt: skip
"""All readers in the order in which they are asked; a file belongs to the first reader that claims it."""
_OF_THE_SYSTEM = (NsysReader.name, RocpdReader.name)
"""Readers of profilers that record runtime and device, but no framework."""
_CAPTURES = ("_ascend_pt", "_ascend_ms")
"""Endings of names of folders that hold one capture of one rank."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FoundCapture:
    """One capture with the rank that is used for it."""

    source: CaptureSource
    rank: int
    assumed: bool = False
    """Whether the rank is assumed, since no file names it."""
    steps: frozenset[int] = frozenset()
    """The steps to keep; empty for all steps."""
    service: tuple[Path, ...] = ()
    """Files of a service's own profiler about the same job: their requests and batches go with this rank."""

    @property
    def files(self) -> tuple[Path, ...]:
        """All files from which the tables are made."""
        return (*self.source.files, *self.service)


def reader_of(source: CaptureSource) -> Reader:
    """The reader that claimed a source."""
    return next(reader for reader in READERS if reader.name == source.reader)


def prepare_capture(one: FoundCapture, cache: Path, tell: Callable[[str], None]) -> FoundCapture:
    """The capture, or the result of exporting it if its profiler left raw data."""
    return dataclasses.replace(one, source=reader_of(one.source).prepare(one.source, cache, tell))


def discover(files: Sequence[Path], *, capture: str = "") -> tuple[list[FoundCapture], list[Diagnostic]]:
    """The captures to analyse, one for each rank, in rank order, and the notes about the choice.

    Of several captures of one rank the latest is taken, or the capture whose name contains `capture`. Raises
    `InputError` if there is no capture.
    """
    return chosen(claimed(files), files, capture=capture)


def claimed(files: Sequence[Path]) -> list[CaptureSource]:
    """The captures among the files, each claimed by the first reader that knows it."""
    sources: list[CaptureSource] = []
    left = list(files)
    for reader in READERS:
        of_framework = any(source.reader not in (ServiceReader.name, *_OF_THE_SYSTEM) for source in sources)
        if reader.name in _OF_THE_SYSTEM and of_framework:
            # The framework's own profiler recorded more about the job.
            continue
        own = reader.claim(left)
        sources.extend(own)
        taken = {path for source in own for path in source.files}
        left = [path for path in left if path not in taken]
    return sources


def unit_of(name: str) -> str:
    """The unit of files that belong together, by a path below a folder: the capture's folder, else the file itself."""
    parts = name.split("/")
    for place, part in enumerate(parts[:-1]):
        if part.endswith(_CAPTURES):
            return "/".join(parts[: place + 1])
    return name


def capture_root(path: Path) -> Path:
    """The capture's folder of a file: the profiler's folder, else the parent folder."""
    for folder in path.parents:
        if folder.name.endswith(_CAPTURES):
            return folder
    return path.parent.parent if path.parent.name == "ASCEND_PROFILER_OUTPUT" else path.parent


def chosen(
    sources: Sequence[CaptureSource], files: Sequence[Path], *, capture: str = ""
) -> tuple[list[FoundCapture], list[Diagnostic]]:
    """Choose one capture for each rank, as `discover` describes; `files` are all files of the input."""
    if not sources:
        raise _nothing(files)
    services = [source for source in sources if source.reader == ServiceReader.name]
    captures = [source for source in sources if source not in services]
    _refuse_several_jobs(captures)
    read = {path for source in sources for path in (*source.files, *source.aside)}
    repeated = {path.parent for path in read if path.parent.name == TIMELINES}
    notes = [note for source in sources for note in source.notes]
    notes += unsupported_profiles.notes(
        [path for path in files if path not in read and not _of_capture(path, repeated)]
    )
    of_run, which = one_run(captures or services, capture=capture)
    notes += which
    chosen, most = _one_each(named := _with_ranks(of_run), capture)
    if captures and services:
        chosen[0] = dataclasses.replace(chosen[0], service=services[0].files)
        most += _other_services(services[1:])
    return chosen, [*notes, *rank_notes(named), *most]


def _other_services(services: Sequence[CaptureSource]) -> list[Diagnostic]:
    return [
        Diagnostic(
            level="degraded", message=captures_say.several_services(n=len(services) + 1), where=str(source.root),
            lost=captures_say.LOST_REQUESTS, hint=captures_say.DO_ONE_SERVICE,
        )
        for source in services
    ]  # fmt: skip


def _refuse_several_jobs(sources: Sequence[CaptureSource]) -> None:
    """Refuse profiles of different programs, which cannot be of one job: joint numbers would be invented."""
    kinds: dict[str, list[CaptureSource]] = {}
    for source in sources:
        kinds.setdefault(source.reader, []).append(source)
    if len(kinds) > 1:
        found = [refusals.of_reader(count=len(own), reader=reader) for reader, own in sorted(kinds.items())]
        raise InputError(
            refusals.several_kinds(found=found),
            where=", ".join(str(own[0].root) for _, own in sorted(kinds.items())),
            lost=refusals.LOST_JOINT_REPORT,
            hint=refusals.DO_FOLDER_OF_JOB,
        )


def _nothing(files: Sequence[Path]) -> InputError:
    where = os.path.commonpath(files) if files else ""
    for form, paths in unsupported_profiles.unsupported_files(files).items():
        return InputError(
            messages.is_foreign(file=paths[0].name, form=form.name), where=where, lost=messages.LOST_FOREIGN,
            hint=form.instead,
        )  # fmt: skip
    names = ", ".join([*(path.name for path in files[:3]), *(["…"] if len(files) > 3 else [])])
    return InputError(
        refusals.no_profile(count=str(len(files)), names=names) if files else refusals.EMPTY_FOLDER,
        where=where,
        lost=refusals.LOST_EVERYTHING,
        hint=_readable(),
    )


def _readable() -> Message:
    """The hint that names all files that Hermes reads."""
    kinds = [refusals.files_of(program=one.program, files=", ".join(one.names)) for one in INPUT_FILES]
    return refusals.do_give_files(kinds=kinds)


def _of_capture(path: Path, repeated: Collection[Path]) -> bool:
    """Whether a file lies in a capture, whose profiler knows the file, or in a folder of such captures."""
    return path.parent in repeated or any(
        part.endswith(_CAPTURES) or part == "ASCEND_PROFILER_OUTPUT" for part in path.parts[:-1]
    )


def _with_ranks(sources: Sequence[CaptureSource]) -> list[FoundCapture]:
    used = {source.rank for source in sources if source.rank is not None}
    found: list[FoundCapture] = []
    free = (number for number in range(len(sources) + len(used)) if number not in used)
    # A process that was captured twice is one rank.
    processes: dict[str, int] = {}
    for source in sources:
        rank = source.rank if source.rank is not None else processes.get(source.process)
        if rank is None:
            rank = next(free)
            if source.process:
                processes[source.process] = rank
        found.append(FoundCapture(source=source, rank=rank, assumed=source.rank is None))
    return found


def rank_notes(found: Sequence[FoundCapture]) -> list[Diagnostic]:
    """The warning about captures without a recorded rank; a service has none."""
    assumed = {one.rank: one for one in reversed(found) if one.assumed and one.source.reader != ServiceReader.name}
    doubtful = len(assumed) > 1 or len(assumed) < len({one.rank for one in found})
    return [
        Diagnostic(
            level="degraded" if doubtful else "info",
            where=str(one.source.root),
            message=captures_say.rank_assumed(rank=rank),
            lost=captures_say.LOST_RANK if doubtful else "",
            hint=captures_say.DO_KEEP_INFO,
        )
        for rank, one in sorted(assumed.items())
    ]


def _one_each(found: Sequence[FoundCapture], capture: str) -> tuple[list[FoundCapture], list[Diagnostic]]:
    by_rank: dict[int, list[FoundCapture]] = {}
    for one in found:
        if not capture or capture in one.source.capture or capture in str(one.source.root):
            by_rank.setdefault(one.rank, []).append(one)
    if not by_rank:
        known = ", ".join(sorted({one.source.capture for one in found})[:5])
        raise InputError(refusals.no_capture(capture=repr(capture)), hint=refusals.do_captures(known=known))
    chosen: list[FoundCapture] = []
    notes: list[Diagnostic] = []
    for rank in sorted(by_rank):
        several = sorted(by_rank[rank], key=lambda one: (one.source.capture, str(one.source.root)))
        chosen.append(several[-1])
        if len(several) > 1:
            notes.append(_several(rank, several))
    return chosen, notes


def _several(rank: int, several: Sequence[FoundCapture]) -> Diagnostic:
    stamps = [one.source.capture for one in several]
    if len(set(stamps)) == len(stamps):
        return Diagnostic(
            level="info",
            where=str(several[-1].source.root),
            message=captures_say.captured_again(n=len(several), rank=rank, latest=stamps[-1]),
            hint=captures_say.do_choose(capture=stamps[0]),
        )
    return Diagnostic(
        level="degraded",
        where=", ".join(str(one.source.root) for one in several),
        message=captures_say.same_rank(n=len(several), rank=rank),
        lost=captures_say.LOST_ALL_BUT_LAST,
        hint=captures_say.DO_CHOOSE_BY_PATH,
    )
