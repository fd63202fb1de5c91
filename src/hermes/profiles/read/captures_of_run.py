"""Finds captures that belong together: a folder often holds several runs of a job, or several captures of a process.

Ranks of one run are captured at about the same time and name the same size of the job. PyTorch names a trace
`HOST_PID.TIME`: the same process twice is one rank captured twice, and other processes at another time are another run.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence

from hermes.base.errors import Diagnostic
from hermes.profiles.read import capture_messages as captures_say
from hermes.profiles.read.reader_interface import CaptureSource

# The ranks of a run write their traces within the time that the largest takes; runs are further apart.
_APART_S = 300
_UNIX_S = (10**9, 4 * 10**9)
_STAMP = "%Y%m%d%H%M%S"


def one_run(sources: Sequence[CaptureSource], *, capture: str = "") -> tuple[list[CaptureSource], list[Diagnostic]]:
    """The captures of one run, taken at one time, and notes about the other captures.

    The run with the most ranks is taken, of equal runs the latest. Captures of only one rank or process are all kept:
    the latest is chosen among them later, as when `capture` names some.
    """
    named = [source for source in sources if capture and capture in f"{source.root} {source.capture}"]
    sources, notes = _of_one_size(named or list(sources))
    if len({_who(source) for source in sources}) < 2:
        return sources, notes
    moments = [moment_of(source) for source in sources]
    numbers = [source.rank for source in sources if source.rank is not None]
    unclear = len(numbers) < len(sources) or len(set(numbers)) < len(numbers)
    if not unclear or None in moments:
        return sources, notes
    times = _together(sources, [moment or 0.0 for moment in moments])
    if len(times) < 2:
        return sources, notes
    best = max(times, key=lambda own: (len({_who(source) for source in own}), max(source.capture for source in own)))
    others = [source for own in times if own is not best for source in own]
    kept = {_who(source) for source in best}
    again = all(_who(source) in kept for source in others)
    said = captures_say.different_times if again else captures_say.different_runs
    notes.append(
        Diagnostic(
            level="info" if again else "degraded", message=said(n=len(times), capture=best[0].capture),
            where=str(best[0].root), lost="" if again else captures_say.lost_runs(n=len(others)),
            hint=captures_say.do_choose(capture=others[0].capture),
        )
    )  # fmt: skip
    return best, notes


def moment_of(source: CaptureSource) -> float | None:
    """When a capture was written, in seconds since 1970, from its name; None if the name does not tell."""
    text = source.capture
    if not (text.isascii() and text.isdecimal()):
        return None
    for digits, scale in ((10, 1), (13, 1_000), (16, 1_000_000), (19, 1_000_000_000)):
        if len(text) == digits and _UNIX_S[0] <= int(text) / scale <= _UNIX_S[1]:
            return int(text) / scale
    if len(text) not in range(14, 18):
        return None
    try:
        moment = datetime.datetime.strptime(text[:14], _STAMP).replace(tzinfo=datetime.timezone.utc)
    except ValueError:
        return None
    return moment.timestamp()


def _who(source: CaptureSource) -> tuple[str, int | str]:
    """The rank of a source, else its process, else its file."""
    if source.rank is not None:
        return "rank", source.rank
    return ("process", source.process) if source.process else ("file", str(source.files or source.root))


def _of_one_size(sources: Sequence[CaptureSource]) -> tuple[list[CaptureSource], list[Diagnostic]]:
    """Keep the jobs of one size: jobs of different sizes are different jobs; a capture without a size may be of any."""
    sizes: dict[int, list[CaptureSource]] = {}
    for source in sources:
        if source.world is not None:
            sizes.setdefault(source.world, []).append(source)
    if len(sizes) < 2:
        return list(sources), []
    best = max(
        sizes, key=lambda size: (len({_who(one) for one in sizes[size]}), max(one.capture for one in sizes[size]))
    )
    others = [source for size, own in sizes.items() if size != best for source in own]
    told = [
        captures_say.captures_of_job(n=len(own), size=captures_say.job_size(n=size))
        for size, own in sorted(sizes.items())
    ]
    note = Diagnostic(
        level="degraded", message=captures_say.different_jobs(jobs=told, chosen=captures_say.job_size(n=best)),
        where=str(sizes[best][0].root), lost=captures_say.lost_jobs(n=len(others)),
        hint=captures_say.DO_ONE_JOB,
    )  # fmt: skip
    return [source for source in sources if source.world in (None, best)], [note]


def _together(sources: Sequence[CaptureSource], moments: Iterable[float]) -> list[list[CaptureSource]]:
    """The captures grouped by the time at which they were written."""
    ordered = sorted(zip(moments, range(len(sources)), strict=True))
    times: list[list[CaptureSource]] = []
    last = None
    for moment, place in ordered:
        if last is None or moment - last > _APART_S:
            times.append([])
        times[-1].append(sources[place])
        last = moment
    return times
