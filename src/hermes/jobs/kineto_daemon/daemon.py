"""Use case: profile a job that was started without Hermes, through the daemon protocol of its own libkineto.

With KINETO_USE_DAEMON set in its environment, torch asks a daemon every few seconds whether there is something to
record. Hermes is that daemon for as long as one capture takes: it hears which processes ask, hands each a
configuration, and waits for the traces, which libkineto collects and writes in a thread of its own.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from hermes.base.errors import HermesError, InputError, QueryError
from hermes.base.message import Message
from hermes.base.say import say
from hermes.base.write_atomic import write_atomic
from hermes.inside.wire.control import FINAL
from hermes.inside.wire.levels import TORCH, CaptureError, room
from hermes.jobs.capture_messages import no_level
from hermes.jobs.captures import MANIFEST
from hermes.jobs.detect.messages import choices
from hermes.jobs.kineto_daemon import kineto_messages as messages
from hermes.jobs.kineto_daemon.ipc import NAME, Endpoint, Question, Sender, SocketError
from hermes.jobs.kineto_daemon.processes import Facts, above, facts, of_job, of_ranks, refusal, trainings
from hermes.jobs.kineto_daemon.trace import Marked, finish, whole
from hermes.jobs.messages import ASKED_BY_HAND, ASKED_OF_LIBKINETO, CaptureState, answer
from hermes.jobs.reasons import reason

POLL_S = 5.0
"""How often libkineto asks, unless its KINETO_CONFIG says otherwise."""
EVERY = 20
"""Several ranks begin at a step that is a multiple of this."""
_TIMES_APART = 10
"""Ranks that heard of it so far apart begin at the same step nine times out of ten at a multiple ten times as long."""
_LONGEST_WAIT_NS = 120 * 10**9
_FIND_S = 1.5 * POLL_S
_HAND_OUT_S = 12 * POLL_S
_PATIENCE_S = 1800.0
_SILENT_S = 30.0
_MOST_CLIENTS = 1024
# Allocations are in no trace that torch 2.13 writes on demand, whatever it is asked for.
_WORDS = {"record_shapes": "PROFILE_REPORT_INPUT_SHAPES", "with_stack": "PROFILE_WITH_STACK"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What is asked of libkineto: `steps` of them, of these ranks (none named: all), into a folder below `out`.

    `start_step`: so many steps of an optimizer come before the first, as the job has counted them since it began; None
    means the next step that is a multiple of `every`, and so does a step that is past; without it 20 where several
    ranks are asked, so that all begin at the same step though they hear of it at different times. `stack` adds stacks
    to a level or leaves them out; None: as the level has it.
    """

    steps: int
    level: str
    out: Path
    stack: bool | None = None
    ranks: tuple[int, ...] = ()
    start_step: int | None = None
    every: int | None = None
    largest_bytes: int = 2_000_000_000


def configuration(ask: Ask, file: Path, *, several: bool) -> str:
    """The text that libkineto reads; `several` ranks are asked.

    Raises `QueryError` for a level that is none, or a path that it would misread.
    """
    if ask.level not in TORCH:
        raise QueryError(no_level(level=ask.level), hint=choices(names=TORCH))
    if not str(file).isprintable() or any(mark in str(file) for mark in "#=,"):
        raise QueryError(messages.cannot_write_to(path=str(file)[:200]), hint=messages.PLAIN_PATH)
    wanted = {*TORCH[ask.level]} - {"with_stack"}
    if ask.stack or (ask.stack is None and "with_stack" in TORCH[ask.level]):
        wanted.add("with_stack")
    lines = {
        "ACTIVITIES_LOG_FILE": str(file),
        "PROFILE_START_ITERATION": str(ask.start_step or 0),
        "PROFILE_START_ITERATION_ROUNDUP": str(ask.every or (EVERY if several else 1)),
        "ACTIVITIES_ITERATIONS": str(ask.steps),
        "ACTIVITIES_WARMUP_ITERATIONS": "0",
        **{word: str(name in wanted).lower() for name, word in _WORDS.items()},
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())


@dataclass(slots=True, kw_only=True)
class _Client:
    """A process that asks, and what it is handed when it asks next."""

    facts: Facts
    over: tuple[int, ...]
    asked_s: float = 0.0
    busy: bool = False
    waiting: str = ""
    handed: bool = False


class Daemon:
    """Answers the processes of this user, and knows which there are."""

    def __init__(self, endpoint: Endpoint, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self.clients: dict[int, _Client] = {}

    def serve(self, patience_s: float) -> int | None:
        """Answer one message, if one comes in that time; the number of the process that asked."""
        got = self._endpoint.receive(patience_s)
        if got is None:
            return None
        sender, message = got
        if not isinstance(message, Question):
            self._endpoint.answer(sender, message)
            return None
        client = self._client(sender)
        text = client.waiting if client is not None and not message.busy else ""
        sent = self._endpoint.answer(sender, message, text)
        if client is None:
            return None
        client.asked_s, client.busy = self._clock(), message.busy
        if text and sent:
            client.waiting, client.handed = "", True
        return sender.pid

    def _client(self, sender: Sender) -> _Client | None:
        known = self.clients.get(sender.pid)
        if known is None and len(self.clients) < _MOST_CLIENTS:
            # 0: a process that this one cannot see, of another container.
            found = facts(sender.pid) if sender.pid else None
            if found is not None:
                known = self.clients[sender.pid] = _Client(facts=found, over=above(sender.pid))
        return known

    def find(self, patience_s: float = _FIND_S) -> None:
        """Hear who is there: for that time, or until all ranks of a launcher have asked."""
        end = self._clock() + patience_s
        while (left := end - self._clock()) > 0 and not self._complete():
            self.serve(left)

    def _complete(self) -> bool:
        ranked = [client.facts for client in self.clients.values() if client.facts.rank is not None]
        jobs = {of.job for of in ranked}
        return len(jobs) == 1 and len({of.rank for of in ranked}) == (ranked[0].here or 0)

    def choose(self, name: str, ranks: tuple[int, ...]) -> dict[int, Facts]:
        """Rank to process of what is to be recorded. Raises `HermesError` when nobody asks, or several jobs do."""
        living = {pid: client for pid, client in self.clients.items() if client.facts.alive}
        if not living:
            raise InputError(messages.NOBODY_ASKS, hint=messages.start_with(ignored=self._endpoint.ignored))
        over = {pid: client.over for pid, client in living.items()}
        training = trainings({pid: client.facts for pid, client in living.items()}, over)
        return of_ranks(of_job(training, name, over), ranks)

    def hand_out(self, texts: Mapping[int, str], patience_s: float = _HAND_OUT_S) -> None:
        """Hand each process its text when it asks next, and all within as short a time as their rhythms allow.

        Ends when all have theirs, are gone, or the time is over.
        """
        last = self._last_before_the_longest_pause(set(texts))
        end = self._clock() + patience_s
        while self._clock() < end and self.clients[last].facts.alive and self.serve(0.2) != last:
            continue
        for pid, text in texts.items():
            self.clients[pid].waiting, self.clients[pid].handed = text, False
        while self._clock() < end and any(self._waits(pid) for pid in texts):
            self.serve(0.2)
        for pid in texts:
            self.clients[pid].waiting = ""

    def _waits(self, pid: int) -> bool:
        return bool(self.clients[pid].waiting) and self.clients[pid].facts.alive

    def _last_before_the_longest_pause(self, pids: set[int]) -> int:
        """Who asks last before nobody asks for a while: all ask at the same interval, each at its own time of it."""
        phases = sorted((self.clients[pid].asked_s % POLL_S, pid) for pid in pids)
        following = [*phases[1:], (phases[0][0] + POLL_S, phases[0][1])]
        pauses = [after - at for (at, _), (after, _) in zip(phases, following, strict=True)]
        return phases[pauses.index(max(pauses))][1]


@dataclass(slots=True, kw_only=True)
class Part:
    """How far one rank is; `state` is one of those of a capture."""

    rank: int
    facts: Facts
    state: str = "none"
    text: Message | None = None
    marked: Marked | None = None
    size: int = -1
    idle_s: float | None = None


class Capture:
    """One capture: from the hand-out of configurations to traces with marks. Made by `begin`."""

    def __init__(self, daemon: Daemon, ask: Ask, folder: Path, chosen: Mapping[int, Facts]) -> None:
        self._daemon, self._ask = daemon, ask
        self.folder = folder
        self.parts = {rank: Part(rank=rank, facts=of) for rank, of in chosen.items()}

    def hand_out(self) -> None:
        """Hand out the configurations; who is of a version that is not known gets none."""
        texts = {}
        for part in self.parts.values():
            why = refusal(part.facts)
            if why:
                part.state, part.text = "refused", why
            else:
                texts[part.facts.pid] = configuration(self._ask, self._file(part.rank), several=len(self.parts) > 1)
        if texts:
            self._daemon.hand_out(texts)
        for part in self.parts.values():
            if part.state == "none":
                handed = self._daemon.clients[part.facts.pid].handed
                part.state = "accepted" if handed else "gone" if not part.facts.alive else "failed"
                part.text = None if handed else messages.ASKED_NO_MORE

    def _file(self, rank: int) -> Path:
        return self.folder / f"rank{rank}.json"

    def follow(self, tell: Callable[[Part], None], *, patience_s: float = _PATIENCE_S) -> None:
        """Wait for the traces, and mark the steps in each; tells each change."""
        end = time.monotonic() + patience_s
        told: dict[int, str] = {}
        while True:
            for part in self.parts.values():
                if part.state not in FINAL:
                    self._look(part)
                if part.state != told.get(part.rank):
                    told[part.rank] = part.state
                    tell(part)
            if all(part.state in FINAL for part in self.parts.values()):
                return
            if time.monotonic() > end:
                self._give_up(patience_s)
            self._daemon.serve(0.2)

    def _give_up(self, patience_s: float) -> None:
        for part in self.parts.values():
            if part.state not in FINAL:
                part.state, part.text = "failed", messages.nothing_written(n=round(patience_s / 60))

    def _look(self, part: Part) -> None:
        found = self._written(part)
        client = self._daemon.clients[part.facts.pid]
        if found is not None:
            self._finish(part, found)
        elif not part.facts.alive:
            part.state, part.text = "gone", None
        elif client.busy:
            part.state, part.idle_s = "started", None
        elif part.state == "started":
            part.idle_s = part.idle_s or time.monotonic()
            if time.monotonic() - part.idle_s > _SILENT_S:
                part.state, part.text = "failed", messages.NO_TRACE

    def _written(self, part: Part) -> Path | None:
        """The trace of a rank once it is whole and grows no more."""
        found = next(iter(sorted(self.folder.glob(f"rank{part.rank}_*.json"))), None)
        if found is None:
            return None
        size, before = found.stat().st_size, part.size
        part.size = size
        return found if size == before and whole(found) else None

    def _finish(self, part: Part, found: Path) -> None:
        target = self.folder / f"rank{part.rank}.pt.trace.json"
        if part.size > self._ask.largest_bytes:
            found.unlink(missing_ok=True)
            part.state = "failed"
            part.text = messages.too_large(size=part.size, most=self._ask.largest_bytes)
            return
        about = {"reason": say(ASKED_BY_HAND), "rank": part.rank, "daemon": True}
        try:
            part.marked = finish(found, target, first=self._ask.start_step or 0, about=about, world=part.facts.world)
        except (OSError, ValueError) as broken:
            part.state, part.text = "failed", messages.unreadable(why=str(broken))
            return
        part.state, part.text = "finished", _what(part.marked, target)

    def drop_bystanders(self) -> None:
        """Remove the traces without a step where others have steps: of launchers and workers, who train nothing."""
        steps = {part.rank for part in self.parts.values() if part.marked is not None and part.marked.starts_ns}
        for part in list(self.parts.values()):
            if steps and part.rank not in steps and part.state == "finished":
                (self.folder / f"rank{part.rank}.pt.trace.json").unlink(missing_ok=True)
                del self.parts[part.rank]

    def write_manifest(self) -> None:
        """What was asked and what came of it, beside the traces; a disk that is full is no reason to fail now."""
        text = {
            "job": f"{next((part.facts.job for part in self.parts.values()), 0)}",
            "level": self._ask.level,
            "start_step": self._ask.start_step,
            "steps": self._ask.steps,
            "reason": say(ASKED_OF_LIBKINETO),
            "ranks": {
                str(part.rank): {"state": part.state, "text": say(part.text or "")} for part in self.parts.values()
            },
        }
        with contextlib.suppress(OSError), write_atomic(self.folder / MANIFEST, mode=0o644) as file:
            file.write(json.dumps(text, indent=1).encode())

    def better(self) -> Ask | None:
        """How to ask again where ranks heard of it too far apart to begin at the same step; None where they did.

        Never twice, and not where the user said at which step.
        """
        apart, step = self._apart()
        if not apart or self._ask.every is not None or self._ask.start_step is not None:
            return None
        every = max(_TIMES_APART * apart // step, EVERY)
        return replace(self._ask, every=every) if every * step < _LONGEST_WAIT_NS else None

    def again(self, ask: Ask) -> Capture:
        """The same ranks and folder, asked like that."""
        return Capture(self._daemon, ask, self.folder, {rank: part.facts for rank, part in self.parts.items()})

    def remove(self) -> None:
        """Remove the traces, as those of a better capture follow."""
        for part in self.parts.values():
            (self.folder / f"rank{part.rank}.pt.trace.json").unlink(missing_ok=True)

    def _apart(self) -> tuple[int, int]:
        """Nanoseconds between the first and the last rank's begin, and of a step; zeros where they began as one."""
        done = [part.marked for part in self.parts.values() if part.marked is not None and part.marked.starts_ns]
        begun = [marked.starts_ns[0] for marked in done]
        step = max((marked.step_ns for marked in done), default=0)
        apart = max(begun, default=0) - min(begun, default=0)
        return (apart, step) if step and apart > step / 2 else (0, 0)

    def doubts(self) -> Iterator[Message]:
        """What the user must know of the traces."""
        if any(part.marked is not None and not part.marked.starts_ns for part in self.parts.values()):
            yield messages.NO_OPTIMIZER_STEP
        apart, step = self._apart()
        if apart:
            yield messages.apart(apart=apart, step=step)


def _what(marked: Marked, target: Path) -> Message:
    steps = len(marked.starts_ns)
    return messages.steps(n=steps, file=target.name) if steps else messages.no_steps(file=target.name)


def answer_of(part: Part) -> Message:
    """What a rank says of its capture."""
    state = CaptureState(part.state).message
    return answer(ranks=[part.rank], state=state, text=part.text)


def begin(daemon: Daemon, ask: Ask, name: str, *, now_ns: int) -> Capture:
    """Find the job and make the folder of the capture. Raises `HermesError`; nothing is handed out yet."""
    daemon.find()
    chosen = daemon.choose(name, ask.ranks)
    for of in chosen.values():
        if why := refusal(of):
            raise InputError(why, hint=messages.START_OTHERWISE)
    stamp = datetime.fromtimestamp(now_ns / 1e9, timezone.utc).strftime("%Y%m%d-%H%M%S-%f")[:-3]
    folder = ask.out.absolute() / f"manual_profiling_dump_{stamp}"
    configuration(ask, folder / "rank0.json", several=False)
    try:
        room(folder, ask.largest_bytes * len(chosen))
    except CaptureError as refused:
        raise HermesError(reason(refused), where=str(folder)) from refused
    return Capture(daemon, ask, folder, chosen)


def endpoint(folder: Path | None) -> Endpoint:
    """The daemon's socket. Raises `InputError` with what to do when another daemon is there."""
    try:
        return Endpoint(folder.absolute() if folder is not None else None)
    except SocketError as refused:
        where = str(folder or f"@{NAME}")
        raise InputError(refused.what, where=where, hint=messages.STOP_THE_OTHER) from refused
