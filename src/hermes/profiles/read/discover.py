"""Which captures of which ranks are in a tree of files; ranks come from the files, never from the order of folders."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from hermes.base.errors import Diagnostic, InputError
from hermes.profiles.read import capture_messages as captures_say
from hermes.profiles.read import foreign, messages
from hermes.profiles.read.ascend.memscope import MemscopeReader
from hermes.profiles.read.ascend.reader import AscendReader
from hermes.profiles.read.kineto.reader import KinetoReader
from hermes.profiles.read.nsys import NsysReader
from hermes.profiles.read.runs import one_run
from hermes.profiles.read.service import ServiceReader
from hermes.profiles.read.snapshot.reader import SnapshotReader
from hermes.profiles.read.source import Reader, Source

READERS: tuple[Reader, ...] = (
    ServiceReader(), AscendReader(), KinetoReader(), SnapshotReader(), MemscopeReader(), NsysReader(),
)  # fmt: skip
"""Asked in this order; a file belongs to the first reader that claims it."""
_CAPTURES = ("_ascend_pt", "_ascend_ms")
"""How the names of folders end that hold one capture of one rank."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One capture with the rank it goes by."""

    source: Source
    rank: int
    assumed: bool = False
    """Whether no file says that rank."""
    steps: frozenset[int] = frozenset()
    """The steps to keep; all where there are none."""
    service: tuple[Path, ...] = ()
    """What a service's own profiler wrote of the same job: its requests and batches go with this rank."""

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that the tables come from."""
        return (*self.source.files, *self.service)


def reader_of(source: Source) -> Reader:
    """The reader that claimed a source."""
    return next(reader for reader in READERS if reader.name == source.reader)


def prepared(one: Found, cache: Path, tell: Callable[[str], None]) -> Found:
    """The capture, or what was made of it where its profiler left it raw."""
    return dataclasses.replace(one, source=reader_of(one.source).prepare(one.source, cache, tell))


def discover(files: Sequence[Path], *, capture: str = "") -> tuple[list[Found], list[Diagnostic]]:
    """The captures to analyse, one for each rank, in rank order, and what must be said of the choice.

    Of several captures of one rank the latest is taken, or the one whose name contains `capture`. Raises
    `InputError` when there is none.
    """
    return chosen(claimed(files), files, capture=capture)


def claimed(files: Sequence[Path]) -> list[Source]:
    """The captures among the files, each claimed by the first reader that knows it."""
    sources: list[Source] = []
    left = list(files)
    for reader in READERS:
        if reader.name == NsysReader.name and any(source.reader != ServiceReader.name for source in sources):
            # What the framework's own profiler recorded of the job says more.
            continue
        own = reader.claim(left)
        sources.extend(own)
        taken = {path for source in own for path in source.files}
        left = [path for path in left if path not in taken]
    return sources


def unit_of(name: str) -> str:
    """What must be looked at together with a file, by its path below a folder: its capture's folder, else itself."""
    parts = name.split("/")
    for place, part in enumerate(parts[:-1]):
        if part.endswith(_CAPTURES):
            return "/".join(parts[: place + 1])
    return name


def capture_root(path: Path) -> Path:
    """The folder of the capture that a file belongs to: that of its profiler, else the one that it lies in."""
    for folder in path.parents:
        if folder.name.endswith(_CAPTURES):
            return folder
    return path.parent.parent if path.parent.name == "ASCEND_PROFILER_OUTPUT" else path.parent


def chosen(
    sources: Sequence[Source], files: Sequence[Path], *, capture: str = ""
) -> tuple[list[Found], list[Diagnostic]]:
    """Of all captures one for each rank, as `discover` has it; `files` are all that were looked at."""
    if not sources:
        raise _nothing(files)
    services = [source for source in sources if source.reader == ServiceReader.name]
    captures = [source for source in sources if source not in services]
    _refuse_several_jobs(captures)
    read = {path for source in sources for path in (*source.files, *source.aside)}
    notes = [note for source in sources for note in source.notes]
    notes += foreign.notes([path for path in files if path not in read and not _of_capture(path)])
    of_run, which = one_run(captures or services, capture=capture)
    notes += which
    chosen, most = _one_each(named := _with_ranks(of_run), capture)
    if captures and services:
        chosen[0] = dataclasses.replace(chosen[0], service=services[0].files)
        most += _other_services(services[1:])
    return chosen, [*notes, *rank_notes(named), *most]


def _other_services(services: Sequence[Source]) -> list[Diagnostic]:
    return [
        Diagnostic(
            level="degraded", message=captures_say.several_services(n=len(services) + 1), where=str(source.root),
            lost=captures_say.LOST_REQUESTS, hint=captures_say.DO_ONE_SERVICE,
        )
        for source in services
    ]  # fmt: skip


def _refuse_several_jobs(sources: Sequence[Source]) -> None:
    """Ascend profiles and CUDA traces cannot be of one job: what they say of each other would be made up."""
    kinds: dict[str, list[Source]] = {}
    for source in sources:
        kinds.setdefault(source.reader, []).append(source)
    if len(kinds) > 1:
        found = " and ".join(f"{len(own)} of {reader}" for reader, own in sorted(kinds.items()))
        raise InputError(
            f"the folder holds profiles of several jobs: {found}",
            where=", ".join(str(own[0].root) for _, own in sorted(kinds.items())),
            lost="a report: ranks of different jobs do not belong together",
            hint="give the folder of one job",
        )


def _nothing(files: Sequence[Path]) -> InputError:
    where = os.path.commonpath(files) if files else ""
    for form, paths in foreign.named(files).items():
        return InputError(
            messages.is_foreign(file=paths[0].name, form=form.name), where=where, lost=messages.LOST_FOREIGN,
            hint=form.instead,
        )  # fmt: skip
    names = ", ".join(path.name for path in files[:3])
    many = f"no profile among {len(files)} files ({names}{', …' if len(files) > 3 else ''})"
    return InputError(
        many if files else "the folder is empty",
        where=where,
        lost="everything",
        hint="give a folder with *_ascend_pt or *_ascend_ms folders, an ascend_*_profiler.db, or Kineto *.json[.gz] "
        "traces; or an archive of them",
    )


def _of_capture(path: Path) -> bool:
    """Whether a file lies in a capture of its own profiler, which knows what is in there."""
    return any(part.endswith(_CAPTURES) or part == "ASCEND_PROFILER_OUTPUT" for part in path.parts[:-1])


def _with_ranks(sources: Sequence[Source]) -> list[Found]:
    used = {source.rank for source in sources if source.rank is not None}
    found: list[Found] = []
    free = (number for number in range(len(sources) + len(used)) if number not in used)
    # A process that was captured twice is one rank.
    processes: dict[str, int] = {}
    for source in sources:
        rank = source.rank if source.rank is not None else processes.get(source.process)
        if rank is None:
            rank = next(free)
            if source.process:
                processes[source.process] = rank
        found.append(Found(source=source, rank=rank, assumed=source.rank is None))
    return found


def rank_notes(found: Sequence[Found]) -> list[Diagnostic]:
    """What must be said of captures of which no file says the rank; a service has none."""
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


def _one_each(found: Sequence[Found], capture: str) -> tuple[list[Found], list[Diagnostic]]:
    by_rank: dict[int, list[Found]] = {}
    for one in found:
        if not capture or capture in one.source.capture or capture in str(one.source.root):
            by_rank.setdefault(one.rank, []).append(one)
    if not by_rank:
        known = ", ".join(sorted({one.source.capture for one in found})[:5])
        raise InputError(f"no capture is called {capture!r}", hint=f"there are: {known}")
    chosen: list[Found] = []
    notes: list[Diagnostic] = []
    for rank in sorted(by_rank):
        several = sorted(by_rank[rank], key=lambda one: (one.source.capture, str(one.source.root)))
        chosen.append(several[-1])
        if len(several) > 1:
            notes.append(_several(rank, several))
    return chosen, notes


def _several(rank: int, several: Sequence[Found]) -> Diagnostic:
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
