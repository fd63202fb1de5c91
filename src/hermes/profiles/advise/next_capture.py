"""Suggests the next capture: which ranks, profiler level and options would answer an open question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hermes.base.message import Message
from hermes.knowledge.recorders import Recorder
from hermes.knowledge.vendor_traits import traits
from hermes.model.finding import Loss
from hermes.model.limit import Limit
from hermes.model.plan import Capture
from hermes.profiles.advise import messages
from hermes.profiles.advise.rank_findings import Ranking, awaited

UNRECORDED = Limit(value=0.2, unit="of the step is in no recorded call", source="docs/evidence/host-limits.md")
_MOST_RANKS = 4
_STEPS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureContents:
    """What a capture holds: its ranks, the job's number of ranks, levels, Python stacks, vendors, steps per rank.

    `unrecorded` is the share of the step in which the host recorded nothing, if it is large, else 0. `idle`: a device
    is idle for a notable part of the step. `started` is the share of the capture that is the start of the job, if that
    is most of it, else 0. `recorder` is the program that recorded the capture, if known; `host`: calls of the host were
    recorded.
    """

    ranks: tuple[int, ...]
    expected: int | None
    levels: tuple[str, ...]
    stacks: bool | None
    vendors: tuple[str, ...]
    steps: int
    unrecorded: float = 0.0
    idle: bool = False
    started: float = 0.0
    recorder: Recorder | None = None
    host: bool = True


def next_captures(ranking: Ranking, recorded: CaptureContents) -> tuple[Capture, ...]:
    """The captures to make next, most useful first; empty if no open question needs a capture."""
    found = [_later(recorded), _awaited(ranking, recorded), _unseen(ranking, recorded), _stacks(ranking, recorded)]
    found += [_level(ranking, recorded)]
    ranks: set[int] = set()
    kept = []
    for one in found:
        if one is not None and not (one.ranks and {*one.ranks} <= ranks):
            kept.append(one)
            ranks |= {*one.ranks}
    return tuple(kept)


def _later(recorded: CaptureContents) -> Capture | None:
    """A capture of steady steps, if the capture holds mostly the start of the job."""
    if not recorded.started:
        return None
    return _capture(
        recorded, (), level="", stacks=False, findings=(),
        why=messages.start_up(share=recorded.started),
    )  # fmt: skip


def _awaited(ranking: Ranking, recorded: CaptureContents) -> Capture | None:
    """A capture of ranks that others wait for and that were not recorded."""
    late = {rank: one for one in ranking.problems if (rank := awaited(one)) is not None and rank not in recorded.ranks}
    if not late:
        return None
    ranks = tuple(late)[:_MOST_RANKS]
    return _capture(
        recorded,
        ranks,
        why=messages.waited_for(n=len(ranks), ranks=ranks),
        level="Level1",
        stacks=True,
        findings=tuple(late.values()),
    )


def _unseen(ranking: Ranking, recorded: CaptureContents) -> Capture | None:
    """A capture of some missing ranks, if communication costs time and no rank is known to be late."""
    exposed = [one for one in ranking.problems if one.layer in ("communication", "parallelism")]
    if recorded.expected is None or not exposed or any(awaited(one) is not None for one in ranking.problems):
        return None
    missing = [rank for rank in range(recorded.expected) if rank not in recorded.ranks]
    if not missing:
        return None
    # Spread the ranks over the job: ranks of one host, or of one stage, are alike.
    ranks = tuple(dict.fromkeys(missing[place * len(missing) // _MOST_RANKS] for place in range(_MOST_RANKS)))
    return _capture(
        recorded,
        ranks,
        why=messages.unseen(missing=len(missing), every=recorded.expected),
        level="Level1",
        stacks=False,
        findings=exposed,
    )


def _stacks(ranking: Ranking, recorded: CaptureContents) -> Capture | None:
    """A capture with Python stacks, if the host is to blame and no stack names the line of code."""
    host = [one for one in ranking.problems if one.layer in ("cpu", "io")]
    if not recorded.unrecorded and (recorded.stacks is not False or not (host or recorded.idle)):
        return None
    if recorded.unrecorded:
        why = messages.unrecorded(share=recorded.unrecorded)
    elif recorded.host:
        why = messages.NO_STACKS
    else:
        why = messages.NO_CALLS
    return _capture(
        recorded,
        (),
        why=why,
        level="",
        stacks=True,
        findings=host,
    )


def _level(ranking: Ranking, recorded: CaptureContents) -> Capture | None:
    """A capture with shapes and counters, if the device is to blame and the profiler level recorded none."""
    device = [one for one in ranking.problems if one.layer in ("compute", "memory", "communication")]
    if not device or "Level0" not in recorded.levels:
        return None
    return _capture(
        recorded,
        (),
        why=messages.NO_SHAPES,
        level="Level1",
        stacks=False,
        findings=device,
    )


def _capture(
    recorded: CaptureContents,
    ranks: tuple[int, ...],
    *,
    why: Message,
    level: str,
    stacks: bool,
    findings: Sequence[Loss],
) -> Capture:
    levels = any(traits(vendor).levels for vendor in recorded.vendors)
    command = ["hermes profile", f"--steps {_STEPS}"]
    command += [f"--ranks {','.join(map(str, ranks))}"] if ranks else []
    command += ["--stack"] if stacks else []
    own = [f"profiler_level=ProfilerLevel.{level}"] if level and levels else []
    own += ["record_shapes=True"] if level and not levels else []
    own += ["with_stack=True"] if stacks else []
    program = recorded.recorder
    if program is not None and not recorded.host:
        # What Hermes or another profiler could add is moot, as long as this program recorded no call at all.
        command, own = ([program.host], []) if program.starts else (command, [program.host])
    return Capture(
        why=why,
        ranks=ranks,
        level=level if levels else "",
        options=tuple([*(["record_shapes"] if level else []), *(["with_stack"] if stacks else [])]),
        command=" ".join(command),
        profiler=", ".join(own),
        codes=tuple(dict.fromkeys(one.code for one in findings)),
    )
