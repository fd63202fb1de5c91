"""Use case: request a capture of a running job, follow its ranks' answers, and keep captures within limits."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from hermes.base.errors import HermesError, InputError, QueryError
from hermes.base.message import Message, Text
from hermes.base.say import say
from hermes.base.write_atomic import write_atomic
from hermes.inside.wire.control import FINAL, LEVELS, Control, Request, Slot
from hermes.inside.wire.errors import LiveError
from hermes.inside.wire.long_steps import LongSteps, long_steps
from hermes.inside.wire.ring import RingReader
from hermes.inside.wire.rundir import Job, default_root, jobs, rings, running
from hermes.inside.wire.step_record import AT, FLAGS
from hermes.jobs import capture_messages, messages
from hermes.jobs.capture_policy import Trouble
from hermes.jobs.detect.messages import choices, quoted
from hermes.jobs.failure_reasons import reason
from hermes.jobs.messages import CaptureState
from hermes.jobs.operator_policy import jobs_of

QUOTA_BYTES = 10_000_000_000
"""Largest number of bytes that all captures of a job take on the disk."""
MANIFEST = "capture.json"
_LEAD_NS = 500_000_000
_LEAD_STEPS = 3
_LEADS = (1, 10, 100)
"""Factors for the steps between request and capture: for the first try, and after tries that all ranks answered
late."""
_LATELY = 3
"""Number of last steps that predict the length of the next ones: after an alarm, earlier steps have another length."""
_PATIENCE_NS = 20_000_000_000
"""Time in ns that a capture waits for the next step of an evenly spaced pattern of long steps."""
_MOST_GROWN = 10
"""The largest number of steps that a capture takes unasked."""
_ENOUGH_NS = 100_000_000
"""Time in ns of the steps that a capture takes unasked: one stall of a busy machine is a small share."""
_NOT_OWN = FLAGS["first"] | FLAGS["profiled"] | FLAGS["foreign_profiler"]
_SLACK = 20
_LOOKED_AT, _MOST_STEPS = 400, 60
DUMP = "profiling_dump_"
_MOST_SAID = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureWish:
    """The settings of a capture that a user or an alarm wants."""

    steps: int
    level: str
    ranks: tuple[int, ...] = ()
    reason: Text = messages.ASKED_BY_HAND
    automatic: bool = False
    out: Path | None = None
    options: Mapping[str, str]
    largest_bytes: int = 2_000_000_000
    long: bool = False
    """Whether the capture is about long steps: it begins with the next long step, if these come evenly."""
    grows: bool = False
    """Whether the capture takes more steps, up to ten: if steps are short, or as many as hold an evenly long one."""
    start_step: int | None = None
    """The first step of the capture, if another host or program sets it, as for a capture over several hosts; None
    means soon."""
    deadline_ns: int | None = None
    """Longest wait in ns for the first step; the default follows from the last steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedCapture:
    """A requested capture: its folder, and the epoch under which the ranks answer."""

    job: Job
    epoch: int
    request: Request
    folder: Path


def find_job(name: str, environment: Mapping[str, str], *, user: str = "", action: str = "see") -> Job:
    """The running job with that name, or with a name that contains it; an empty name means the only job.

    With `user`, a job of that user, if root's policy allows this account the `action`. Raises `HermesError`.
    """
    if user:
        alive = jobs_of(user, environment, action=action)
    else:
        alive = [job for job in jobs(default_root(environment)) if running(job)]
    exact = [job for job in alive if job.id == name or str(job.folder) == name]
    found = exact or [job for job in alive if name in job.id]
    if len(found) == 1:
        return found[0]
    raise _not_found(capture_messages.not_one(name=name) if found else capture_messages.not_running(name=name), alive)


def none_called(name: str, environment: Mapping[str, str]) -> QueryError:
    """The error that no running job of this account has that name."""
    alive = [job for job in jobs(default_root(environment)) if running(job)]
    return _not_found(capture_messages.not_running(name=name), alive)


def _not_found(why: Message, alive: Sequence[Job]) -> QueryError:
    hint = capture_messages.running_jobs(names=[job.id for job in alive]) if alive else capture_messages.NONE_RUNNING
    return QueryError(why, hint=hint)


def progress_of_ranks(job: Job) -> dict[int, tuple[int, int]]:
    """Last step and median time in ns of the last three steps, by rank, for all living ranks that have ended a step."""
    found = {}
    for rank, rows in _records(job):
        walls = sorted(row[AT["wall_ns"]] for row in rows[-_LATELY:])
        found[rank] = (rows[-1][AT["step"]], walls[len(walls) // 2])
    return found


def _records(job: Job) -> Iterator[tuple[int, list[tuple[int, ...]]]]:
    """The last records of each living rank that has records."""
    control = _control(job)
    owners = {(slot.rank, slot.pid) for slot in control.slots() if slot.alive}
    control.close()
    for rank, pid, path in rings(job):
        if (rank, pid) not in owners:
            continue
        try:
            reader = RingReader(path)
        except LiveError:
            continue
        rows = reader.new()
        reader.close()
        if rows:
            yield rank, rows


def _near_long(job: Job, start: int, behind: int) -> int:
    """The next long step plus `behind`, if long steps come evenly and soon enough; else `start`.

    With `behind`, the capture holds ordinary steps, and the line samples, which begin some steps earlier, hold the long
    step.
    """
    if (found := _long_of(job)) is None:
        return start
    chosen = found.next_after(start - behind) + behind
    mean_ns = found.usual_ns + found.extra_ns * found.count // found.steps
    return chosen if (chosen - start) * mean_ns <= _PATIENCE_NS else start


def _long_of(job: Job) -> LongSteps | None:
    """The evenly spaced long steps of the first rank that has some."""
    for _, rows in _records(job):
        own = [row for row in rows if not row[AT["flags"]] & _NOT_OWN]
        if found := long_steps([row[AT["step"]] for row in own], [row[AT["wall_ns"]] for row in own]):
            return found
    return None


def _grown(job: Job, wish: CaptureWish, step_ns: int) -> CaptureWish:
    """The wish with more steps, if it may grow: to outweigh a stall, and to hold an evenly long step if one is near."""
    if not wish.grows:
        return wish
    enough = min(-(-_ENOUGH_NS // max(step_ns, 1)), _MOST_GROWN)
    period = found.period if (found := _long_of(job)) is not None else 0
    return replace(wish, steps=max(wish.steps, enough, period if period <= _MOST_GROWN else 0))


def steps_to_hold_a_long_one(rows: Iterable[tuple[int, ...]]) -> int:
    """Number of steps that contain a step half as long again as most, nineteen times out of twenty; 60 at most."""
    walls = [row[AT["wall_ns"]] for row in rows if not row[AT["flags"]] & _NOT_OWN][-_LOOKED_AT:]
    usual = sorted(walls)[len(walls) // 2] if walls else 0
    many = sum(wall > 1.5 * usual for wall in walls)
    return min(3 * len(walls) // many, _MOST_STEPS) if many else 1


def request_capture_of_job(job: Job, wish: CaptureWish, *, now_ns: int, lead: int = 1) -> RequestedCapture:
    """Request a capture that begins at the same step on all ranks, soon, but later than any rank can have passed.

    `lead` is how many times as far ahead as the last steps suggest: the next steps may be shorter. Raises `HermesError`
    when the job has no room, no rank, or another capture under way.
    """
    if wish.level not in LEVELS:
        raise QueryError(capture_messages.no_level(level=wish.level), hint=choices(names=LEVELS))
    at = progress_of_ranks(job)
    absent = [rank for rank in wish.ranks if rank not in at]
    if not at or absent:
        raise InputError(capture_messages.no_step_yet(ranks=absent), where=job.id, hint=capture_messages.ASK_LATER)
    foreign = job.user != os.geteuid()
    if foreign and wish.out is not None:
        raise InputError(capture_messages.OUT_OF_ANOTHER_USER, where=job.id)
    # An operator touches no file of the user: the user's ranks make the folder, and keep to the free room.
    used = 0 if foreign else sum(path.stat().st_size for path in job.captures.rglob("*") if path.is_file())
    if used >= QUOTA_BYTES:
        raise HermesError(
            capture_messages.captures_full(used=used), where=str(job.captures), hint=capture_messages.REMOVE_CAPTURES
        )  # fmt: skip
    slowest = max(wall for _, wall in at.values())
    wish = _grown(job, wish, slowest)
    start = _first_step(job, wish, at, lead)
    stamp = datetime.fromtimestamp(now_ns / 1e9, timezone.utc).strftime("%Y%m%d-%H%M%S-%f")[:-3]
    kind = "auto" if wish.automatic else "manual"
    folder = (wish.out or job.captures).absolute() / f"{kind}_{DUMP}{stamp}"
    patience = wish.deadline_ns or (
        _SLACK * (start - min(step for step, _ in at.values()) + wish.steps) * slowest + 60 * 10**9
    )
    request = Request(
        action="profile", start_step=start, steps=wish.steps, level=wish.level, reason=say(wish.reason),
        out=str(folder), ranks=wish.ranks, deadline_ns=now_ns + patience,
        largest_bytes=wish.largest_bytes, options=dict(wish.options),
    )  # fmt: skip
    return RequestedCapture(
        job=job, epoch=_put(job, request, None if foreign else folder), request=request, folder=folder
    )


def _first_step(job: Job, wish: CaptureWish, at: Mapping[int, tuple[int, int]], lead: int) -> int:
    """The first step of a capture: the wished one, which late ranks refuse, or a step soon that no rank can have
    passed."""
    if wish.start_step is not None:
        return wish.start_step
    last = max(step for step, _ in at.values())
    fastest = min(wall for _, wall in at.values())
    start = last + lead * (_LEAD_STEPS + _LEAD_NS // max(fastest, 1))
    # A capture after another kind of alarm does not wait: the trouble may pass.
    return _near_long(job, start, 0 if wish.long else 1) if wish.long or not wish.automatic else start


def _put(job: Job, request: Request, folder: Path | None) -> int:
    """Make the folder, unless the ranks make it, and write the request; returns its epoch. Raises `HermesError`."""
    control = _control(job)
    try:
        if folder is not None:
            folder.mkdir(parents=True, mode=0o700)
        return control.ask(request)
    except LiveError as refused:
        if folder is not None:
            folder.rmdir()
        raise HermesError(reason(refused), where=job.id, hint=_under_way(job)) from refused
    except OSError as refused:
        what = capture_messages.cannot_make(path=request.out, why=refused.strerror or "")
        raise HermesError(what, where=job.id) from refused
    finally:
        control.close()


def _under_way(job: Job) -> Message:
    """What to do about the capture that is under way, and where its files will be."""
    there = latest_capture(job)
    if there is None:
        return capture_messages.wait_or_cancel(job=job.id)
    made = there.folder.name.startswith(f"auto_{DUMP}")
    report = str(job.folder / "reports" / there.folder.name / "report.html") if made else None
    return capture_messages.wait_or_cancel(job=job.id, folder=str(there.folder), report=report)


def cancel(job: Job, *, start_step: int | None = None) -> bool:
    """End the waiting or running capture and drop its data; returns whether there was a capture to end.

    With `start_step`, only a capture that begins at that step: another capture may have been requested since.
    """
    if start_step is not None and ((there := latest_capture(job)) is None or there.request.start_step != start_step):
        return False
    control = _control(job)
    try:
        control.ask(Request(action="cancel", start_step=0, steps=0, level="light", reason="", out="", options={}))
        return True
    except LiveError as refused:
        raise HermesError(reason(refused), where=job.id) from refused
    finally:
        control.close()


def latest_capture(job: Job) -> RequestedCapture | None:
    """The last requested capture, by any program; None without a capture, or when it was cancelled."""
    try:
        control = Control.attach(job.segment, job=job.id)
    except LiveError:
        return None
    try:
        found = control.request()
    except LiveError:
        return None
    finally:
        control.close()
    if found is None or found[1].action != "profile":
        return None
    return RequestedCapture(job=job, epoch=found[0], request=found[1], folder=Path(found[1].out))


def answers_of_ranks(asked: RequestedCapture) -> dict[int, Slot]:
    """The answer of each requested rank; `gone` for a rank that died, `none` for a rank without an answer."""
    try:
        control = Control.attach(asked.job.segment, job=asked.job.id)
    except LiveError:
        return {}
    try:
        found = {}
        for slot in control.slots():
            if not asked.request.for_rank(slot.rank):
                continue
            told = slot.epoch == asked.epoch
            state, text = (slot.state, slot.text) if told else ("none", "")
            if state not in FINAL and not slot.alive:
                state, text = "gone", ""
            found[slot.rank] = replace(slot, state=state, text=text)
        return found
    finally:
        control.close()


def said_by(slots: Iterable[Slot]) -> list[Message]:
    """The ranks' answers to a capture, equal answers merged; of many answers only the first."""
    by_words: dict[tuple[str, str], list[int]] = {}
    for slot in slots:
        by_words.setdefault((slot.state, slot.text), []).append(slot.rank)
    return [
        messages.answer(ranks=ranks, state=CaptureState(state).message, text=quoted(text=text) if text else None)
        for (state, text), ranks in list(by_words.items())[:_MOST_SAID]
    ]


def is_finished(said: Mapping[int, Slot]) -> bool:
    """Whether every rank has given its last answer."""
    return all(slot.state in FINAL for slot in said.values())


def follow(asked: RequestedCapture, *, tell: Callable[[Slot], None], pause_s: float = 0.1) -> dict[int, Slot]:
    """Wait for the ranks' last answers, reporting each change; then write the manifest. Ends at the deadline."""
    known: dict[int, str] = {}
    while True:
        said = answers_of_ranks(asked)
        for rank, slot in said.items():
            if slot.state not in ("none", known.get(rank)):
                known[rank] = slot.state
                tell(slot)
        if is_finished(said) or time.time_ns() > asked.request.deadline_ns:
            write_manifest(asked, said.values())
            return said
        time.sleep(pause_s)


def ask_until_taken(
    job: Job,
    wish: CaptureWish,
    *,
    asked: Callable[[RequestedCapture], None],
    tell: Callable[[Slot], None],
    pause_s: float = 0.1,
) -> tuple[RequestedCapture, dict[int, Slot]]:
    """Request a capture and follow it; repeat farther ahead if steps became so short that all ranks had passed the
    first step.

    `asked` gets each request. Raises the same errors as `ask`.
    """
    for lead in _LEADS:
        one = request_capture_of_job(job, wish, now_ns=time.time_ns(), lead=lead)
        asked(one)
        said = follow(one, tell=tell, pause_s=pause_s)
        late = [slot for slot in said.values() if slot.state == "late"]
        if lead == _LEADS[-1] or not said or len(late) < len(said):
            break
        with contextlib.suppress(OSError):
            (one.folder / MANIFEST).unlink(missing_ok=True)
            one.folder.rmdir()
    return one, said


def write_manifest(asked: RequestedCapture, said: Iterable[Slot], about: Trouble | None = None) -> None:
    """Write the request and the ranks' answers beside the traces; a full disk is no reason to fail at this point.

    No manifest is written for another user's job: an operator writes nothing into other users' folders.
    """
    if asked.job.user != os.geteuid():
        return
    text = {
        "job": asked.job.id,
        "level": asked.request.level,
        "start_step": asked.request.start_step,
        "steps": asked.request.steps,
        "reason": asked.request.reason,
        "about": {"cause": about.cause, "more": about.more} if about is not None else None,
        "ranks": {str(slot.rank): {"state": slot.state, "text": slot.text} for slot in said},
    }
    try:
        asked.folder.mkdir(parents=True, exist_ok=True)
        with write_atomic(asked.folder / MANIFEST) as file:
            file.write(json.dumps(text, indent=1).encode())
    except OSError:
        return


def _control(job: Job) -> Control:
    try:
        return Control.attach(job.segment, job=job.id)
    except LiveError as gone:
        raise HermesError(reason(gone), where=job.id, hint=capture_messages.HAS_IT_ENDED) from gone
