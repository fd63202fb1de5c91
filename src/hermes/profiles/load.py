"""Loads an input: reads each capture, or finds it in the cache, as one folder of Parquet tables per rank."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb

from hermes.base.errors import Diagnostic, HermesError, InputError, TraceFormatError
from hermes.base.message import with_texts_turned
from hermes.model.files_seen import FilesSeen
from hermes.model.tables import TABLES, schema_of
from hermes.profiles import messages
from hermes.profiles.captures_overlap import ranks_apart_in_time
from hermes.profiles.engines.engine import Engine, Given, LostRank, Made, call_of_rank
from hermes.profiles.read import refusal_messages as refusals
from hermes.profiles.read.captures_by_role import RoleFolder, by_role
from hermes.profiles.read.discover import FoundCapture, chosen, claimed, prepare_capture, rank_notes, reader_of, unit_of
from hermes.profiles.read.files_seen import files_seen
from hermes.profiles.read.reader_interface import CaptureSource
from hermes.profiles.read.service_profiler import write_service
from hermes.profiles.read.table_sink import Sink, is_small
from hermes.profiles.refuse_empty_input import nothing_left, refuse_empty
from hermes.profiles.role_captures import RoleCapture, bounding, said_of
from hermes.profiles.select_steps import keep_steps
from hermes.profiles.unpack_profiles import UnpackedProfiles, unpack_profiles
from hermes.store.cache import Cache, Entry, unwritable
from hermes.store.file_index import State
from hermes.store.input_files import Digests, Fingerprint, fingerprint, refuse_changed, regular_files
from hermes.store.rank_data import RankData as RankData
from hermes.store.remote import RemoteMirror, is_url, mirror
from hermes.store.unpacked_archives import UnpackedArchive, is_archive
from hermes.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The loaded input: all ranks that could be read, in rank order, and the notes about the input."""

    paths: tuple[Path, ...]
    ranks: tuple[RankData, ...]
    notes: tuple[Diagnostic, ...]
    files: tuple[FilesSeen, ...] = ()
    """All files of the input, by what Hermes did with each file."""
    roles: tuple[RoleCapture, ...] = ()
    """Captures of all roles of a reinforcement-learning job; `ranks` are the ranks of the role that takes longest."""


def load(
    paths: Sequence[Path | str],
    cache: Cache,
    *,
    capture: str = "",
    digests: Digests | None = None,
    engine: Engine | None = None,
    tell: Callable[[str], None] = lambda _: None,
    ranks: Collection[int] | None = None,
    steps: Collection[int] | None = None,
) -> Loaded:
    """Load the input: read captures that are not in the cache. Raises `InputError` if no rank could be read.

    A path may be a URL that fsspec knows: the process that reads a capture fetches its files. Archives are unpacked
    into the cache. `digests` may have begun on the files. `engine` reads ranks that are not in the cache. `tell` is
    called when another tool must export a capture first. `ranks` are the ranks to read; `steps` are the steps to keep
    of each rank.
    """
    if digests is None:
        with Digests() as own:
            return load(paths, cache, capture=capture, digests=own, engine=engine, tell=tell, ranks=ranks, steps=steps)
    urls = [path for path in paths if isinstance(path, str) and is_url(path)]
    local = [Path(path) for path in paths if path not in urls]
    mirrors = [mirror(url, cache.root) for url in urls]
    here = unpack_profiles(regular_files(local), cache, _archives(mirrors), given=local)
    files = here.files
    if not files and not mirrors and not here.failed:
        raise InputError(
            messages.NO_FILE,
            where=", ".join(map(str, paths)),
            lost=refusals.LOST_EVERYTHING,
            hint=messages.DO_GIVE_WRITTEN,
        )
    sources, away, unfetched = _remote(mirrors, engine)
    sources = [*claimed(files), *sources]
    if not sources and (lost := [*here.failed, *unfetched]):
        raise nothing_left(lost) from lost[0]

    def ready(some: Sequence[FoundCapture]) -> list[FoundCapture]:
        return [prepare_capture(one, cache.root, tell) for one in some]

    def reading(some: Sequence[FoundCapture]) -> tuple[RankData, ...]:
        return tuple(_all(ready(some), mirrors, cache, digests, engine, here)[0])

    try:
        of_roles, of_main, beside = _roles({} if capture else by_role(sources), reading)
        found, notes = chosen(of_main or sources, [*files, *away], capture=capture)
        notes += [said_of(of_roles)] if of_roles else []
    except InputError as refused:
        raise here.error(refused) from refused
    found, notes = _of_ranks(found, notes, ranks)
    seen = files_seen([*files, *away], sources, [*found, *beside])
    seen = tuple(replace(one, example=_named(here.told(one.example), mirrors)) for one in seen)
    found = [replace(one, steps=frozenset(steps or ())) for one in ready(found)]
    notes += [note for one in found for note in one.source.notes if note not in notes]
    read, failed = _all(found, mirrors, cache, digests, engine, here)
    other_times, told = ranks_apart_in_time(read, {one.rank for one in found if one.assumed})
    if other_times:
        notes = [*(note for note in notes if note not in rank_notes(found)), *told]
        found = _renumbered([one for one in found if one.rank not in other_times])
        notes += rank_notes(found)
        read, failed = _all(found, mirrors, cache, digests, engine, here)
    failed = [*here.failed, *unfetched, *failed]
    if not read:
        raise nothing_left(failed) from failed[0]
    notes += [
        *here.passed,
        *(note for one in here.folders for note in one.notes),
        *(_lost(error) for error in failed),
    ]
    notes = [_told(here.note(note), mirrors) for note in notes]
    # The same note about every rank becomes one note.
    said = dict.fromkeys([*notes, *(note for rank in read for note in rank.notes)])
    return Loaded(
        paths=(*local, *(one.root for one in mirrors)), ranks=tuple(read), notes=tuple(said), files=seen, roles=of_roles
    )


def _roles(
    folders: Mapping[RoleFolder, Sequence[CaptureSource]],
    read: Callable[[Sequence[FoundCapture]], tuple[RankData, ...]],
) -> tuple[tuple[RoleCapture, ...], Sequence[CaptureSource], list[FoundCapture]]:
    """Return the captures of all roles, the sources of the role that takes longest, and every capture found in them."""
    found = {folder: chosen(own, [])[0] for folder, own in folders.items()}
    of_roles = tuple(RoleCapture(folder=folder, ranks=read(own)) for folder, own in found.items())
    main = folders[bounding(of_roles)] if of_roles else ()
    return of_roles, main, [one for own in found.values() for one in own]


def _of_ranks(
    found: list[FoundCapture], notes: list[Diagnostic], ranks: Collection[int] | None
) -> tuple[list[FoundCapture], list[Diagnostic]]:
    """Return the captures of the wanted ranks (None: all), and the notes, which name missing ranks."""
    if ranks is None:
        return found, notes
    own = [one for one in found if one.rank in ranks]
    if not own:
        there = ", ".join(str(one.rank) for one in found[:20])
        raise InputError(messages.NONE_OF_RANKS, where="--ranks", hint=messages.do_ranks(ranks=there))
    gone = set(ranks) - {one.rank for one in own}
    note = Diagnostic(
        level="degraded", message=messages.ranks_not_there(ranks=gone), where="--ranks", lost=messages.LOST_ASKED_RANKS
    )
    return own, [*notes, note] if gone else notes


def _renumbered(found: Sequence[FoundCapture]) -> list[FoundCapture]:
    """The captures, with the lowest free rank numbers given to captures without a recorded rank."""
    used = {one.rank for one in found if not one.assumed}
    free = (number for number in range(len(found) + len(used)) if number not in used)
    return [replace(one, rank=next(free)) if one.assumed else one for one in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How to read one capture: its files, the cache key of its tables, and where its files are fetched or unpacked."""

    one: FoundCapture
    key: str
    cache: Path
    states: tuple[tuple[Path, State], ...] = ()
    mirror: RemoteMirror | None = None
    unpacked: UnpackedArchive | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unit:
    """Files at one URL that must be searched for captures together."""

    mirror: RemoteMirror
    names: tuple[str, ...]


def _remote(
    mirrors: Sequence[RemoteMirror], engine: Engine | None
) -> tuple[list[CaptureSource], list[Path], list[HermesError]]:
    """Return the captures found at the URLs, all files there, and the errors of files that could not be fetched."""
    units: dict[tuple[str, str], list[str]] = {}
    by_url = {one.url: one for one in mirrors}
    for one in mirrors:
        for name in one.states:
            if not is_archive(one.local(name)):
                units.setdefault((one.url, unit_of(name)), []).append(name)
    asked = {
        place: _Unit(
            mirror=replace(by_url[url], states={name: by_url[url].states[name] for name in names}), names=tuple(names)
        )
        for place, ((url, _), names) in enumerate(sorted(units.items()))
    }
    found = _mapped(engine, _captures, asked)
    sources = [source for own in found.values() if not isinstance(own, LostRank) for source in own]
    lost = [own.error for own in found.values() if isinstance(own, LostRank)]
    return sources, [one.local(name) for one in mirrors for name in one.states], lost


def _archives(mirrors: Sequence[RemoteMirror]) -> dict[Path, str]:
    """Archives that the URLs name directly, fetched whole, with the name to show for each archive."""
    found = {}
    for one in mirrors:
        for path in one.fetch(name for name in one.states if not name and is_archive(one.root)):
            found[path] = one.told(str(path))
    return found


def _captures(unit: _Unit) -> list[CaptureSource]:
    return claimed(unit.mirror.fetch(unit.names))


def _mapped(
    engine: Engine | None, function: Callable[[Given], Made], given: Mapping[int, Given]
) -> dict[int, Made | LostRank]:
    return (
        engine.map(function, given)
        if engine
        else {place: call_of_rank(function, place, one) for place, one in given.items()}
    )


def _all(
    found: Sequence[FoundCapture],
    mirrors: Sequence[RemoteMirror],
    cache: Cache,
    digests: Digests,
    engine: Engine | None,
    here: UnpackedProfiles,
) -> tuple[list[RankData], list[HermesError]]:
    """Return the tables of all ranks, from the cache or read, and the errors of ranks that failed, by rank."""
    failed: dict[int, HermesError] = {}
    readings: dict[int, Reading] = {}
    for one in found:
        try:
            readings[one.rank] = _reading(one, mirrors, cache, digests, here)
        except HermesError as broken:
            failed[one.rank] = broken
    ranks = {rank: data for rank, reading in readings.items() if (data := _known(reading)) is not None}
    made = _mapped(engine, read_rank, {rank: reading for rank, reading in readings.items() if rank not in ranks})
    failed |= {rank: one.error for rank, one in made.items() if isinstance(one, LostRank)}
    ranks |= {rank: one for rank, one in made.items() if not isinstance(one, LostRank)}
    return [data for _, data in sorted(ranks.items())], [error for _, error in sorted(failed.items())]


def _reading(
    one: FoundCapture, mirrors: Sequence[RemoteMirror], cache: Cache, digests: Digests, here: UnpackedProfiles
) -> Reading:
    reader = reader_of(one.source)
    only = str(sorted(one.steps)) if one.steps else ""
    salt = (reader.name, str(reader.version), _SCHEMA, __version__, str(one.rank), one.source.capture, only)
    for there in mirrors:
        if one.source.files and one.source.files[0].is_relative_to(there.root):
            own = {name: there.states[name] for name in map(there.name_of, one.files)}
            said = [f"{name} {state}" for name, state in own.items()]
            key = hashlib.sha256("\0".join((*salt, there.url, *said)).encode("utf-8", "surrogatepass")).hexdigest()
            return Reading(one=one, key=key, cache=cache.root, mirror=replace(there, states=own))
    print_ = fingerprint(one.files, *salt, digests=digests)
    unpacked = here.of(one.source.root)
    return Reading(one=one, key=print_.digest, cache=cache.root, states=print_.states, unpacked=unpacked)


def _known(reading: Reading) -> RankData | None:
    entry = Cache(reading.cache).find(reading.key)
    if entry is None:
        return None
    one, there = reading.one, reading.mirror or reading.unpacked
    data = RankData(
        rank=one.rank,
        root=one.source.root,
        format=one.source.format,
        folder=entry.folder,
        notes=_notes(entry),
        files=one.files,
        cache=reading.cache,
        reading=reading,
    )
    if there is None:
        return data
    return replace(data, url=there.told(data.place), notes=tuple(_told(note, (there,)) for note in data.notes))


def read_rank(reading: Reading) -> RankData:
    """The tables of one capture: from the cache, or read from its files, which are fetched first if they are remote."""
    known = _known(reading)
    if known is not None:
        return known
    one, cache, there = reading.one, Cache(reading.cache), reading.mirror
    if there is not None:
        there.fetch(map(there.name_of, one.files))
    with cache.making() as folder:
        sink = Sink(folder, one.rank, small=is_small(one.files))
        _read(one, sink, cache)
        refuse_empty(one, sink)
        if one.steps:
            keep_steps(sink, one.steps)
        refuse_changed(Fingerprint(digest=reading.key, states=reading.states))
        cache.keep(reading.key, folder, _manifest(one, sink))
    made = _known(reading)
    if made is None:
        raise unwritable(cache.root, "what was written is not there")
    return made


def present(data: RankData) -> RankData:
    """The tables of a rank on this machine; a rank that another machine had read is read again here."""
    return read_rank(data.reading) if isinstance(data.reading, Reading) and not data.folder.exists() else data


def _named(text: str, mirrors: Sequence[RemoteMirror]) -> str:
    for there in mirrors:
        text = there.told(text)
    return text


def _told(note: Diagnostic, mirrors: Sequence[RemoteMirror | UnpackedArchive]) -> Diagnostic:
    for there in mirrors:
        note = replace(note, message=with_texts_turned(note.message, there.told), where=there.told(note.where))
    return note


def _read(one: FoundCapture, sink: Sink, cache: Cache) -> None:
    try:
        reader_of(one.source).read(one.source, one.rank, sink)
        _read_service(one, sink)
        sink.fill()
    except duckdb.OutOfMemoryException as refused:
        where, lost, hint = str(one.source.files[0]), messages.LOST_THIS_RANK, messages.DO_FEWER_STEPS
        raise InputError(messages.MEMORY_SHORT, where=where, lost=lost, hint=hint) from refused
    except duckdb.IOException as refused:
        # DuckDB writes only to the cache folder, and spills data to it that do not fit in memory.
        raise unwritable(cache.root, str(refused).splitlines()[0][:160]) from refused


def _read_service(one: FoundCapture, sink: Sink) -> None:
    """Read the files that a service's profiler wrote beside a capture; an unreadable file gives a note."""
    if not one.service:
        return
    try:
        write_service(one.service, sink, sink.read("rank")["epoch_ns"][0])
    except TraceFormatError as broken:
        sink.note("degraded", broken.what, where=broken.where, lost=broken.lost, hint=broken.hint)


def _manifest(one: FoundCapture, sink: Sink) -> Mapping[str, object]:
    return {
        "root": str(one.source.root),
        "format": one.source.format,
        "rank": one.rank,
        "capture": one.source.capture,
        "notes": [note.document() for note in sink.notes],
    }


def _notes(entry: Entry) -> tuple[Diagnostic, ...]:
    listed = entry.manifest.get("notes")
    return tuple(Diagnostic.of_document(note) for note in listed) if isinstance(listed, list) else ()


def _schema_digest() -> str:
    text = "\n".join(f"{table.name} {schema_of(table)}" for table in TABLES.values())
    return hashlib.sha256(text.encode()).hexdigest()


_SCHEMA = _schema_digest()


def without(loaded: Loaded, lost: Mapping[int, HermesError]) -> Loaded:
    """The loaded input without ranks that were lost later, each noted; raises `InputError` if none is left."""
    ranks = tuple(rank for rank in loaded.ranks if rank.rank not in lost)
    if not ranks:
        raise nothing_left(list(lost.values()))
    return replace(loaded, ranks=ranks, notes=(*loaded.notes, *(_lost(one) for one in lost.values())))


def _lost(error: HermesError) -> Diagnostic:
    return Diagnostic(
        level="degraded",
        message=error.what,
        where=error.where,
        lost=error.lost or messages.LOST_THIS_RANK,
        hint=error.hint,
    )
