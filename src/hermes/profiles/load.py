"""From paths to cached tables, one folder of Parquet per rank."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb

from hermes.base.errors import Diagnostic, HermesError, InputError, TraceFormatError
from hermes.base.message import renamed
from hermes.base.say import say
from hermes.model.files_seen import FilesSeen
from hermes.model.tables import TABLES, schema_of
from hermes.profiles import messages
from hermes.profiles.at_once import apart
from hermes.profiles.engines.engine import Engine, Given, Lost, Made, called
from hermes.profiles.only_steps import keep_steps
from hermes.profiles.opened import Opened, opened
from hermes.profiles.read.by_role import RoleFolder, by_role
from hermes.profiles.read.discover import Found, chosen, claimed, prepared, rank_notes, reader_of, unit_of
from hermes.profiles.read.files_seen import files_seen
from hermes.profiles.read.service import write_service
from hermes.profiles.read.sink import Sink
from hermes.profiles.read.source import Source
from hermes.profiles.roles import RoleCapture, bounding, said_of
from hermes.store.cache import Cache, Entry, unwritable
from hermes.store.files import Digests, Fingerprint, fingerprint, look, refuse_changed
from hermes.store.index import State
from hermes.store.rank_data import RankData as RankData
from hermes.store.remote import Mirror, is_url, mirror
from hermes.store.unpacked import Unpacked, is_archive
from hermes.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """All ranks that could be read, in rank order, and everything that must be said of the input."""

    paths: tuple[Path, ...]
    ranks: tuple[RankData, ...]
    notes: tuple[Diagnostic, ...]
    files: tuple[FilesSeen, ...] = ()
    """All files of the input, by what became of them."""
    roles: tuple[RoleCapture, ...] = ()
    """Captures of all roles of a job of reinforcement learning; `ranks` are those of the one that takes longest."""


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
    """Read what is not in the cache yet; `digests` may have begun on the files. Raises `InputError` when no rank can be
    read.

    A path may be a URL that fsspec knows: its files are fetched by whoever reads them; archives are unpacked into the
    cache. `engine` reads ranks that are not in the cache; `tell` is told when a capture must be exported by another
    tool first. `ranks` are those to read, `steps` those to keep of each.
    """
    if digests is None:
        with Digests() as own:
            return load(paths, cache, capture=capture, digests=own, engine=engine, tell=tell, ranks=ranks, steps=steps)
    urls = [path for path in paths if isinstance(path, str) and is_url(path)]
    local = [Path(path) for path in paths if path not in urls]
    mirrors = [mirror(url, cache.root) for url in urls]
    here = opened(look(local), cache, _archives(mirrors), given=local)
    files = here.files
    if not files and not mirrors and not here.failed:
        raise InputError(
            "there is no file in the folder",
            where=", ".join(map(str, paths)),
            lost="everything",
            hint="give the folder that the profiler wrote",
        )
    sources, away, unfetched = _remote(mirrors, engine)
    sources = [*claimed(files), *sources]
    if not sources and (lost := [*here.failed, *unfetched]):
        raise _nothing_left(lost) from lost[0]

    def ready(some: Sequence[Found]) -> list[Found]:
        return [prepared(one, cache.root, tell) for one in some]

    def reading(some: Sequence[Found]) -> tuple[RankData, ...]:
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
    other_times, told = apart(read, {one.rank for one in found if one.assumed})
    if other_times:
        notes = [*(note for note in notes if note not in rank_notes(found)), *told]
        found = _renumbered([one for one in found if one.rank not in other_times])
        notes += rank_notes(found)
        read, failed = _all(found, mirrors, cache, digests, engine, here)
    failed = [*here.failed, *unfetched, *failed]
    if not read:
        raise _nothing_left(failed) from failed[0]
    notes += [
        *here.passed,
        *(note for one in here.folders for note in one.notes),
        *(_lost(error) for error in failed),
    ]
    notes = [_told(here.note(note), mirrors) for note in notes]
    # The same note about every rank is one note.
    said = dict.fromkeys([*notes, *(note for rank in read for note in rank.notes)])
    return Loaded(
        paths=(*local, *(one.root for one in mirrors)), ranks=tuple(read), notes=tuple(said), files=seen, roles=of_roles
    )


def _roles(
    folders: Mapping[RoleFolder, Sequence[Source]], read: Callable[[Sequence[Found]], tuple[RankData, ...]]
) -> tuple[tuple[RoleCapture, ...], Sequence[Source], list[Found]]:
    """The captures of all roles, those of the role that takes longest, and what is read of all of them."""
    found = {folder: chosen(own, [])[0] for folder, own in folders.items()}
    of_roles = tuple(RoleCapture(folder=folder, ranks=read(own)) for folder, own in found.items())
    main = folders[bounding(of_roles)] if of_roles else ()
    return of_roles, main, [one for own in found.values() for one in own]


def _of_ranks(
    found: list[Found], notes: list[Diagnostic], ranks: Collection[int] | None
) -> tuple[list[Found], list[Diagnostic]]:
    """Those of the ranks asked for, all without any; and the notes, with the ranks that were not collected."""
    if ranks is None:
        return found, notes
    own = [one for one in found if one.rank in ranks]
    if not own:
        there = ", ".join(str(one.rank) for one in found[:20])
        raise InputError("none of these ranks was collected", where="--ranks", hint=f"there are: {there}")
    gone = set(ranks) - {one.rank for one in own}
    note = Diagnostic(
        level="degraded", message=messages.ranks_not_there(ranks=gone), where="--ranks", lost=messages.LOST_ASKED_RANKS
    )
    return own, [*notes, note] if gone else notes


def _renumbered(found: Sequence[Found]) -> list[Found]:
    """The captures, those of which nobody says the rank numbered from the lowest that is free."""
    used = {one.rank for one in found if not one.assumed}
    free = (number for number in range(len(found) + len(used)) if number not in used)
    return [replace(one, rank=next(free)) if one.assumed else one for one in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How to read one capture: its files, the key of its tables, and what it is fetched or was unpacked into."""

    one: Found
    key: str
    cache: Path
    states: tuple[tuple[Path, State], ...] = ()
    mirror: Mirror | None = None
    unpacked: Unpacked | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unit:
    """Files at a URL that must be looked at together."""

    mirror: Mirror
    names: tuple[str, ...]


def _remote(mirrors: Sequence[Mirror], engine: Engine | None) -> tuple[list[Source], list[Path], list[HermesError]]:
    """The captures at the URLs, looked for where they are read; all files there, and what could not be fetched."""
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
    sources = [source for own in found.values() if not isinstance(own, Lost) for source in own]
    lost = [own.error for own in found.values() if isinstance(own, Lost)]
    return sources, [one.local(name) for one in mirrors for name in one.states], lost


def _archives(mirrors: Sequence[Mirror]) -> dict[Path, str]:
    """The archives that the URLs name themselves, fetched whole, and what to call each."""
    found = {}
    for one in mirrors:
        for path in one.fetch(name for name in one.states if not name and is_archive(one.root)):
            found[path] = one.told(str(path))
    return found


def _captures(unit: _Unit) -> list[Source]:
    return claimed(unit.mirror.fetch(unit.names))


def _mapped(
    engine: Engine | None, function: Callable[[Given], Made], given: Mapping[int, Given]
) -> dict[int, Made | Lost]:
    return (
        engine.map(function, given) if engine else {place: called(function, place, one) for place, one in given.items()}
    )


def _all(
    found: Sequence[Found],
    mirrors: Sequence[Mirror],
    cache: Cache,
    digests: Digests,
    engine: Engine | None,
    here: Opened,
) -> tuple[list[RankData], list[HermesError]]:
    """The tables of all ranks, read where they are not in the cache; and what hindered it, by rank."""
    failed: dict[int, HermesError] = {}
    readings: dict[int, Reading] = {}
    for one in found:
        try:
            readings[one.rank] = _reading(one, mirrors, cache, digests, here)
        except HermesError as broken:
            failed[one.rank] = broken
    ranks = {rank: data for rank, reading in readings.items() if (data := _known(reading)) is not None}
    made = _mapped(engine, read_rank, {rank: reading for rank, reading in readings.items() if rank not in ranks})
    failed |= {rank: one.error for rank, one in made.items() if isinstance(one, Lost)}
    ranks |= {rank: one for rank, one in made.items() if not isinstance(one, Lost)}
    return [data for _, data in sorted(ranks.items())], [error for _, error in sorted(failed.items())]


def _reading(one: Found, mirrors: Sequence[Mirror], cache: Cache, digests: Digests, here: Opened) -> Reading:
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
    """The tables of one capture, read unless they are in the cache; its files are fetched unless they lie here."""
    known = _known(reading)
    if known is not None:
        return known
    one, cache, there = reading.one, Cache(reading.cache), reading.mirror
    if there is not None:
        there.fetch(map(there.name_of, one.files))
    with cache.making() as folder:
        sink = Sink(folder, one.rank)
        _read(one, sink, cache)
        _refuse_empty(one, sink)
        if one.steps:
            keep_steps(sink, one.steps)
        refuse_changed(Fingerprint(digest=reading.key, states=reading.states))
        cache.keep(reading.key, folder, _manifest(one, sink))
    made = _known(reading)
    if made is None:
        raise unwritable(cache.root, "what was written is not there")
    return made


def present(data: RankData) -> RankData:
    """The tables of a rank on this machine: read again where another one had read them."""
    return read_rank(data.reading) if isinstance(data.reading, Reading) and not data.folder.exists() else data


def _named(text: str, mirrors: Sequence[Mirror]) -> str:
    for there in mirrors:
        text = there.told(text)
    return text


def _told(note: Diagnostic, mirrors: Sequence[Mirror | Unpacked]) -> Diagnostic:
    for there in mirrors:
        note = replace(note, message=renamed(note.message, there.told), where=there.told(note.where))
    return note


def _read(one: Found, sink: Sink, cache: Cache) -> None:
    try:
        reader_of(one.source).read(one.source, one.rank, sink)
        _read_service(one, sink)
        sink.fill()
    except (duckdb.IOException, duckdb.OutOfMemoryException) as refused:
        # DuckDB writes to the cache alone, and spills there what memory does not hold.
        raise unwritable(cache.root, str(refused).splitlines()[0][:160]) from refused


def _read_service(one: Found, sink: Sink) -> None:
    """What a service's profiler wrote beside a capture; that none of it can be read takes nothing from the capture."""
    if not one.service:
        return
    try:
        write_service(one.service, sink, sink.read("rank")["epoch_ns"][0])
    except TraceFormatError as broken:
        sink.note("degraded", broken.what, where=broken.where, lost=broken.lost, hint=broken.hint)


def _refuse_empty(one: Found, sink: Sink) -> None:
    """A capture whose files could be opened but hold no row says nothing: that is no report."""
    if not any(sink.rows(name) for name in TABLES if name not in ("rank", "setting", "group", "stack")):
        said = "; ".join(dict.fromkeys(say(note.message) for note in sink.notes if note.level == "degraded"))
        raise InputError(
            f"there is nothing in the capture{f' ({said})' if said else ''}",
            where=", ".join(map(str, one.source.files[:4])),
            lost="this capture",
            hint="was the job killed while the profiler was writing? Profile again, or copy the whole folder again",
        )


def _manifest(one: Found, sink: Sink) -> Mapping[str, object]:
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
    """The same without ranks that were lost later on, each named; raises `InputError` when none is left."""
    ranks = tuple(rank for rank in loaded.ranks if rank.rank not in lost)
    if not ranks:
        raise _nothing_left(list(lost.values()))
    return replace(loaded, ranks=ranks, notes=(*loaded.notes, *(_lost(one) for one in lost.values())))


def _nothing_left(failed: Sequence[HermesError]) -> InputError:
    first = failed[0]
    more = f" (and {len(failed) - 1} more like it)" if len(failed) > 1 else ""
    return InputError(f"{first.what}{more}", where=first.where, lost=first.lost, hint=first.hint)


def _lost(error: HermesError) -> Diagnostic:
    return Diagnostic(
        level="degraded",
        message=error.what,
        where=error.where,
        lost=error.lost or messages.LOST_THIS_RANK,
        hint=error.hint,
    )
