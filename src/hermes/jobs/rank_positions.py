"""Use case: where each rank of a job stands now: its stacks, its collectives, and its connections."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

from hermes.inside.wire.errors import LiveError
from hermes.inside.wire.ring import RingReader
from hermes.inside.wire.rundir import Job, rings
from hermes.inside.wire.step_record import AT
from hermes.jobs.connections import Connection, connections
from hermes.jobs.find_stall import RankPlace, RankProgress, place_of, seen_ns, stacks
from hermes.jobs.pending_collectives import GroupProgress, groups
from hermes.jobs.stall_limits import LATEST

SCHEMA = "hermes.stacks/1"
_AT_ONCE = 8
_MOST_RANKS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPosition:
    """The position of one rank: its progress, its stacks, and the place in them; no place where it could not be asked.

    `groups`: its progress in each process group, if a flight recorder tells. `links`: its connections.
    """

    rank: int
    progress: RankProgress
    place: RankPlace | None
    stack: str
    groups: tuple[GroupProgress, ...] = ()
    links: tuple[Connection, ...] = ()

    @property
    def collective(self) -> str:
        """The collective that the rank waits in, by its stacks, else by its recorder: a backward pass waits outside
        Python."""
        if self.place is not None and self.place.collective:
            return self.place.collective
        return next((one.waiting.name for one in self.groups if one.waiting is not None), "")


def positions_of_ranks(job: Job, now_ns: int) -> list[RankPosition]:
    """The positions of all ranks that have a ring, the latest process of each rank."""
    known: dict[int, RankProgress] = {}
    for rank, pid, path in rings(job)[:_MOST_RANKS]:
        with contextlib.suppress(LiveError, OSError):
            one = _progress(RingReader(path), pid, now_ns)
            if rank not in known or one.alive or one.seen_ns > known[rank].seen_ns:
                known[rank] = one

    def stand(rank: int) -> RankPosition:
        one = known[rank]
        text = stacks(job, rank, one) if one.alive else ""
        return RankPosition(
            rank=rank, progress=one, place=place_of(text), stack=text,
            groups=tuple(groups(job, one.about, one.seen_ns, alive=one.alive)),
            links=tuple(connections(one.pid)) if one.reachable else (),
        )  # fmt: skip

    with ThreadPoolExecutor(max_workers=_AT_ONCE) as beside:
        return list(beside.map(stand, sorted(known)))


def _progress(reader: RingReader, pid: int, now_ns: int) -> RankProgress:
    try:
        rows = reader.new()[-LATEST:]
        walls = sorted(row[AT["wall_ns"]] for row in rows)
        return RankProgress(
            pid=pid, alive=reader.alive, step=rows[-1][AT["step"]] if rows else 0,
            seen_ns=seen_ns(rows[-1][AT["end_ns"]], now_ns) if rows else now_ns,
            usual_ns=walls[len(walls) // 2] if walls else 0, longest_ns=walls[-1] if walls else 0, about=reader.about,
        )  # fmt: skip
    finally:
        reader.close()


def document(job: Job, ranks: list[RankPosition], now_ns: int) -> dict[str, object]:
    """The positions of all ranks as a JSON object."""
    rows = [
        {"rank": one.rank, "pid": one.progress.pid, "alive": one.progress.alive, "step": one.progress.step,
         "age_ns": max(now_ns - one.progress.seen_ns, 0),
         "usual_ns": one.progress.usual_ns, "longest_ns": one.progress.longest_ns,
         "collective": one.collective if one.place or one.groups else None,
         "line": one.place.line if one.place else None, "stack": one.stack,
         "groups": [asdict(group) for group in one.groups], "links": [asdict(link) for link in one.links]}
        for one in ranks
    ]  # fmt: skip
    return {"schema": SCHEMA, "job": job.id, "ranks": rows}
