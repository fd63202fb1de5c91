"""Use case: ask a running job for a capture, follow its ranks' answers, and keep within bounds."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from hermes.base.errors import HermesError, InputError, QueryError
from hermes.base.message import Message, Text
from hermes.base.say import say
from hermes.base.write_atomic import write_atomic
from hermes.inside.wire.control import FINAL, LEVELS, Control, Request, Slot
from hermes.inside.wire.errors import LiveError
from hermes.inside.wire.long_steps import long_steps
from hermes.inside.wire.record import AT, FLAGS
from hermes.inside.wire.ring import RingReader
from hermes.inside.wire.rundir import Job, default_root, jobs, rings, running
from hermes.jobs import capture_messages, messages
from hermes.jobs.detect.messages import choices, quoted
from hermes.jobs.messages import CaptureState
from hermes.jobs.operators import jobs_of
from hermes.jobs.reasons import reason

QUOTA_BYTES = 10_000_000_000
"""What all captures of a job may take on the disk."""
MANIFEST = "capture.json"
_LEAD_NS = 500_000_000
_LEAD_STEPS = 3
_LEADS = (1, 10, 100)
"""How many times as far ahead a capture is asked for, the first time and where all ranks had passed its first step."""
_LATELY = 3
"""Steps that tell how long the next ones take: after an alarm those before it are of another length."""
_PATIENCE_NS = 20_000_000_000
"""So long a capture waits for the next of the steps that are longer at an even distance."""
_NOT_OWN = FLAGS["first"] | FLAGS["profiled"] | FLAGS["foreign_profiler"]
_SLACK = 20
_DUMP = "profiling_dump_"
_MOST_SAID = 8
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A capture as its user thinks of it."""

    steps: int
    level: str
    ranks: tuple[int, ...] = ()
    reason: Text = messages.ASKED_BY_HAND
    automatic: bool = False
    out: Path | None = None
    options: Mapping[str, str]
    largest_bytes: int = 2_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A capture that was asked for: where it goes, and under which epoch the ranks answer."""

    job: Job
    epoch: int
    request: Request
    folder: Path


def find_job(name: str, environment: Mapping[str, str], *, user: str = "", action: str = "see") -> Job:
    """The running job of that name, or of a part of it; empty means the only one.

    Of another `user` where root's policy lets this account do that `action`. Raises `HermesError`.
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
    """The error that no running job of this account is called so."""
    alive = [job for job in jobs(default_root(environment)) if running(job)]
    return _not_found(capture_messages.not_running(name=name), alive)


def _not_found(why: Message, alive: Sequence[Job]) -> QueryError:
    hint = capture_messages.running_jobs(names=[job.id for job in alive]) if alive else capture_messages.NONE_RUNNING
    return QueryError(why, hint=hint)


def progress(job: Job) -> dict[int, tuple[int, int]]:
    """Rank to its last step and the median time of the last three, of all living ranks that have ended a step."""
    found = {}
    for rank, rows in _records(job):
        walls = sorted(row[AT["wall_ns"]] for row in rows[-_LATELY:])
        found[rank] = (rows[-1][AT["step"]], walls[len(walls) // 2])
    return found


def _records(job: Job) -> Iterator[tuple[int, list[tuple[int, ...]]]]:
    """The last records of each living rank that has some."""
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


def _behind_long(job: Job, start: int) -> int:
    """The step behind the next one that is longer than others, where such come evenly and soon enough; else `start`.

    It is looked at where its lines are, for those looks begin some steps before a capture, and the capture holds steps
    like most.
    """
    for _, rows in _records(job):
        own = [row for row in rows if not row[AT["flags"]] & _NOT_OWN]
        walls = [row[AT["wall_ns"]] for row in own]
        found = long_steps([row[AT["step"]] for row in own], walls)
        if found is not None:
            chosen = found.next_after(start - 1) + 1
            near = (chosen - start) * sum(walls) // len(walls) <= _PATIENCE_NS
            return chosen if near else start
    return start


def ask(job: Job, wish: Wish, *, now_ns: int, lead: int = 1) -> Asked:
    """Ask for a capture that begins at the same step on all ranks, soon, but later than any of them can have seen it.

    `lead` is how many times as far ahead as the last steps ask for: those that come may be shorter. Raises
    `HermesError` when the job has no room, no rank, or another capture under way.
    """
    if wish.level not in LEVELS:
        raise QueryError(capture_messages.no_level(level=wish.level), hint=choices(names=LEVELS))
    at = progress(job)
    absent = [rank for rank in wish.ranks if rank not in at]
    if not at or absent:
        raise InputError(capture_messages.no_step_yet(ranks=absent), where=job.id, hint=capture_messages.ASK_LATER)
    foreign = job.user != os.geteuid()
    if foreign and wish.out is not None:
        raise InputError(capture_messages.OUT_OF_ANOTHER_USER, where=job.id)
    # An operator touches no file of the user: his ranks make the folder, and keep to the room that there is.
    used = 0 if foreign else sum(path.stat().st_size for path in job.captures.rglob("*") if path.is_file())
    if used >= QUOTA_BYTES:
        raise HermesError(
            capture_messages.captures_full(used=used), where=str(job.captures), hint=capture_messages.REMOVE_CAPTURES
        )  # fmt: skip
    slowest = max(wall for _, wall in at.values())
    fastest = min(wall for _, wall in at.values())
    start = max(step for step, _ in at.values()) + lead * (_LEAD_STEPS + _LEAD_NS // max(fastest, 1))
    if not wish.automatic:
        # After an alarm nothing waits: what it is about may pass.
        start = _behind_long(job, start)
    stamp = datetime.fromtimestamp(now_ns / 1e9, timezone.utc).strftime("%Y%m%d-%H%M%S-%f")[:-3]
    kind = "auto" if wish.automatic else "manual"
    folder = (wish.out or job.captures).absolute() / f"{kind}_{_DUMP}{stamp}"
    patience = _SLACK * (start - min(step for step, _ in at.values()) + wish.steps) * slowest + 60 * 10**9
    request = Request(
        action="profile", start_step=start, steps=wish.steps, level=wish.level, reason=say(wish.reason),
        out=str(folder), ranks=wish.ranks, deadline_ns=now_ns + patience,
        largest_bytes=wish.largest_bytes, options=dict(wish.options),
    )  # fmt: skip
    control = _control(job)
    try:
        if not foreign:
            folder.mkdir(parents=True, mode=0o700)
        epoch = control.ask(request)
    except LiveError as refused:
        if not foreign:
            folder.rmdir()
        raise HermesError(reason(refused), where=job.id, hint=capture_messages.wait_or_cancel(job=job.id)) from refused
    except OSError as refused:
        what = capture_messages.cannot_make(path=str(folder), why=refused.strerror or "")
        raise HermesError(what, where=job.id) from refused
    finally:
        control.close()
    return Asked(job=job, epoch=epoch, request=request, folder=folder)


def automatic(job: Job) -> list[int]:
    """When the automatic captures of a job were started, nanoseconds since 1970, by the names of their folders."""
    found = []
    with contextlib.suppress(OSError):
        for path in job.captures.iterdir():
            with contextlib.suppress(ValueError):
                stamp = datetime.strptime(path.name, f"auto_{_DUMP}%Y%m%d-%H%M%S-%f").replace(tzinfo=timezone.utc)
                found.append((stamp - _EPOCH) // timedelta(microseconds=1) * 1000)
    return sorted(found)


def counted(job: Job) -> dict[str, int]:
    """How many captures of a job are on the disk, by how they came about: `auto`, `manual` or `refused`."""
    found = dict.fromkeys(("auto", "manual", "refused"), 0)
    with contextlib.suppress(OSError):
        for path in job.captures.iterdir():
            how = path.name.partition(f"_{_DUMP}")[0]
            if how in found:
                found[how] += 1
    return found


def set_aside(asked: Asked) -> Asked:
    """An automatic capture that no rank took up, under a name by which `automatic` does not count it."""
    aside = asked.folder.with_name(asked.folder.name.replace("auto_", "refused_", 1))
    try:
        asked.folder.rename(aside)
    except OSError:
        return asked
    return replace(asked, folder=aside)


def cancel(job: Job) -> None:
    """End the capture that is waited for or under way; what it has is dropped."""
    control = _control(job)
    try:
        control.ask(Request(action="cancel", start_step=0, steps=0, level="light", reason="", out="", options={}))
    except LiveError as refused:
        raise HermesError(reason(refused), where=job.id) from refused
    finally:
        control.close()


def latest(job: Job) -> Asked | None:
    """The capture that was asked for last, whoever asked; None without any, or when it was cancelled."""
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
    return Asked(job=job, epoch=found[0], request=found[1], folder=Path(found[1].out))


def answers(asked: Asked) -> dict[int, Slot]:
    """What each rank that was asked has said; a rank that died says `gone`, one that has said nothing says `none`."""
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
    """What ranks say of a capture, those that say the same in one, and of many the first."""
    by_words: dict[tuple[str, str], list[int]] = {}
    for slot in slots:
        by_words.setdefault((slot.state, slot.text), []).append(slot.rank)
    return [
        messages.answer(ranks=ranks, state=CaptureState(state).message, text=quoted(text=text) if text else None)
        for (state, text), ranks in list(by_words.items())[:_MOST_SAID]
    ]


def finished(said: Mapping[int, Slot]) -> bool:
    """Whether every rank has given its last answer."""
    return all(slot.state in FINAL for slot in said.values())


def follow(asked: Asked, *, tell: Callable[[Slot], None], pause_s: float = 0.1) -> dict[int, Slot]:
    """Wait for the last answers, telling each change; then write the manifest. Ends when the deadline is over."""
    known: dict[int, str] = {}
    while True:
        said = answers(asked)
        for rank, slot in said.items():
            if slot.state not in ("none", known.get(rank)):
                known[rank] = slot.state
                tell(slot)
        if finished(said) or time.time_ns() > asked.request.deadline_ns:
            write_manifest(asked, said.values())
            return said
        time.sleep(pause_s)


def taken(
    job: Job, wish: Wish, *, asked: Callable[[Asked], None], tell: Callable[[Slot], None], pause_s: float = 0.1
) -> tuple[Asked, dict[int, Slot]]:
    """Ask and follow; anew, farther ahead, where steps became so short that all ranks had passed the first one.

    `asked` is told of each request. Raises as `ask`.
    """
    for lead in _LEADS:
        one = ask(job, wish, now_ns=time.time_ns(), lead=lead)
        asked(one)
        said = follow(one, tell=tell, pause_s=pause_s)
        late = [slot for slot in said.values() if slot.state == "late"]
        if lead == _LEADS[-1] or not said or len(late) < len(said):
            break
        with contextlib.suppress(OSError):
            (one.folder / MANIFEST).unlink(missing_ok=True)
            one.folder.rmdir()
    return one, said


def write_manifest(asked: Asked, said: Iterable[Slot]) -> None:
    """What was asked and what came of it, beside the traces; a disk that is full is no reason to fail now.

    Not of another user's job: an operator writes nothing into folders of others.
    """
    if asked.job.user != os.geteuid():
        return
    text = {
        "job": asked.job.id,
        "level": asked.request.level,
        "start_step": asked.request.start_step,
        "steps": asked.request.steps,
        "reason": asked.request.reason,
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
