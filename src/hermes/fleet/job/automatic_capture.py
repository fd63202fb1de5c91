"""Use case: capture a job on many hosts when something is wrong with it. Captures count over the whole job.

The limits are the same as for a watcher on one host. The limits hold for as long as one `Automatic` lives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from hermes.base.errors import QueryError
from hermes.base.message import Text
from hermes.fleet.hosts.transport import Transport
from hermes.fleet.job import capture_report
from hermes.fleet.job.capture_on_hosts import Capturing, HostsCaptureWish
from hermes.fleet.job.find_slow_jobs import by_job, stall
from hermes.fleet.job.parse_host_answers import RankRow
from hermes.fleet.job.status import JobsPicture, stragglers_of
from hermes.jobs.api import CapturePolicy, Spent, Trouble
from hermes.model.document import Document


class Automatic:
    """The automatic captures of one watcher of many hosts, each of the same steps on all hosts of a job."""

    def __init__(
        self, transport: Transport, hermes: Sequence[str], wish: HostsCaptureWish, within_s: float,
        say: Callable[[Text], None],
        clock: Callable[[], int],
    ) -> None:  # fmt: skip
        self._transport, self._hermes, self._wish, self._within_s = transport, tuple(hermes), wish, within_s
        self._say, self._clock = say, clock
        self._policies: dict[str, CapturePolicy] = {}

    async def look(self, picture: JobsPicture) -> list[Document]:
        """Capture each job of the picture that has trouble and may be captured; returns the documents of these
        captures."""
        made: list[Document] = []
        for name, trouble in troubles(picture):
            policy = self._policies.setdefault(name, CapturePolicy())
            now = self._clock()
            if policy.refusal(now, trouble) is not None:
                continue
            policy.started(now, trouble)
            own = of_job(picture, name)
            try:
                captured = await Capturing(
                    self._transport, self._hermes, self._wish, self._within_s, self._say
                ).run(own)  # fmt: skip
            except QueryError as refused:
                # A requested rank may be gone: the watcher goes on, and requests a capture again later.
                self._say(refused.what)
                policy.refused(self._clock())
                continue
            if not any(one.state == "finished" for one in captured.said.values()):
                policy.refused(self._clock())
            made.append(capture_report.document(captured, own))
        return made


def troubles(picture: JobsPicture) -> Iterator[tuple[str, Trouble]]:
    """The jobs with a straggler, or whose hosts report slow steps; jobs without progress are left out."""
    late = {one.row.name: one for one, _ in stragglers_of(picture)}
    for name, rows in by_job(picture.ranks):
        if stall(name, rows):
            continue
        if (one := late.get(name)) is not None:
            more = (one.own_ns - one.others_ns) / max(one.others_ns, 1)
            yield name, Trouble(cause=Spent.STRAGGLER.value, more=more)
        elif any(job.slow for job in picture.jobs if job.name == name):
            yield name, Trouble(cause="", more=_longer(rows))


def of_job(picture: JobsPicture, name: str) -> JobsPicture:
    """A copy of the picture with only one job."""
    return replace(picture, jobs=[job for job in picture.jobs if job.name == name])


def _longer(rows: Sequence[RankRow]) -> float | None:
    """By what share the slowest rank's step is longer than usual; None if no rank has a usual step."""
    known = [row.step_ns / row.baseline_ns - 1 for row in rows if row.step_ns and row.baseline_ns]
    return max(0.0, *known) if known else None
