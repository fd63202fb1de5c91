"""Use case: profile a job that was started without Hermes, through the daemon protocol of its own libkineto.

With KINETO_USE_DAEMON set in its environment, torch asks a daemon every few seconds whether to record. Hermes is this
daemon for the length of one capture. Hermes hears which processes ask, sends each a configuration, and waits for the
traces. libkineto collects and writes the traces in a thread of its own.
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
from hermes.base.message import Message, Text
from hermes.base.say import say
from hermes.base.write_atomic import write_atomic
from hermes.inside.wire.capture_levels import TORCH, CaptureError, make_folder_with_room
from hermes.inside.wire.control import FINAL
from hermes.jobs.capture_messages import no_level
from hermes.jobs.detect.messages import choices
from hermes.jobs.failure_reasons import reason
from hermes.jobs.kineto_daemon import kineto_messages as messages
from hermes.jobs.kineto_daemon.asking_processes import (
    ProcessFacts,
    of_job,
    of_ranks,
    parent_processes,
    process_facts,
    refusal,
    trainings,
)
from hermes.jobs.kineto_daemon.complete_trace import MarkedTrace, is_complete, write_completed
from hermes.jobs.kineto_daemon.ipc import NAME, Endpoint, Question, Sender, SocketError
from hermes.jobs.messages import ASKED_BY_HAND, ASKED_OF_LIBKINETO, CaptureState, answer
from hermes.jobs.request_capture import MANIFEST

POLL_S = 5.0
"""Seconds between two questions of libkineto, unless its KINETO_CONFIG sets another interval."""
EVERY = 20
"""Several ranks begin at a step that is a multiple of this number."""
_TIMES_APART = 10
"""Ranks that hear of the capture N steps apart begin at a multiple of 10 N steps: at one step, nine times of ten."""
_LONGEST_WAIT_NS = 120 * 10**9
_FIND_S = 1.5 * POLL_S
_HAND_OUT_S = 12 * POLL_S
_PATIENCE_S = 1800.0
_SILENT_S = 30.0
_MOST_CLIENTS = 1024
# A trace that torch 2.13 writes on demand contains no allocations, whatever the configuration requests.
_WORDS = {"record_shapes": "PROFILE_REPORT_INPUT_SHAPES", "with_stack": "PROFILE_WITH_STACK"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRequest:
    """A capture request to libkineto: `steps` steps, of these ranks (empty: all), into a folder below `out`.

    `start_step`: the number of optimizer steps before the first captured one, counted since the job began. None, or a
    past step, means the next multiple of `every`. `every` defaults to 20 with several ranks: all begin at the same
    step, although they hear of the capture at different times. `stack` adds stacks to a level or leaves them out; None
    keeps the level's own choice.
    """

    steps: int
    level: str
    out: Path
    stack: bool | None = None
    ranks: tuple[int, ...] = ()
    start_step: int | None = None
    every: int | None = None
    largest_bytes: int = 2_000_000_000


def configuration(ask: TraceRequest, file: Path, *, several: bool) -> str:
    """The configuration text that libkineto reads; `several` says whether more than one rank is asked.

    Raises `QueryError` for an unknown level, or for a path that libkineto would misread.
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
    """A process that asks the daemon, and the text that it gets at its next question."""

    facts: ProcessFacts
    over: tuple[int, ...]
    asked_s: float = 0.0
    busy: bool = False
    waiting: str = ""
    handed: bool = False


class Daemon:
    """The daemon that answers the processes of this user, and keeps a list of them."""

    def __init__(self, endpoint: Endpoint, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self.clients: dict[int, _Client] = {}

    def serve(self, patience_s: float) -> int | None:
        """Answer one message, if one comes within `patience_s` seconds; returns the process that asked."""
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
            # 0 is a process of another container, which this process cannot see.
            found = process_facts(sender.pid) if sender.pid else None
            if found is not None:
                known = self.clients[sender.pid] = _Client(facts=found, over=parent_processes(sender.pid))
        return known

    def find(self, patience_s: float = _FIND_S) -> None:
        """Listen for processes, for `patience_s` seconds or until all ranks of a launcher have asked."""
        end = self._clock() + patience_s
        while (left := end - self._clock()) > 0 and not self._complete():
            self.serve(left)

    def _complete(self) -> bool:
        ranked = [client.facts for client in self.clients.values() if client.facts.rank is not None]
        jobs = {of.job for of in ranked}
        return len(jobs) == 1 and len({of.rank for of in ranked}) == (ranked[0].here or 0)

    def choose(self, name: str, ranks: tuple[int, ...]) -> dict[int, ProcessFacts]:
        """The process to record for each rank. Raises `HermesError` when no process asks, or processes of several jobs
        do."""
        living = {pid: client for pid, client in self.clients.items() if client.facts.alive}
        if not living:
            raise InputError(messages.NOBODY_ASKS, hint=messages.start_with(ignored=self._endpoint.ignored))
        over = {pid: client.over for pid, client in living.items()}
        training = trainings({pid: client.facts for pid, client in living.items()}, over)
        return of_ranks(of_job(training, name, over), ranks)

    def hand_out(self, texts: Mapping[int, str], patience_s: float = _HAND_OUT_S) -> None:
        """Give each process its text at its next question, all texts within as short a time as the questions allow.

        Ends when all processes have their text or are gone, or when the time is over.
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
        """The process that asks last before the longest pause: all ask at the same interval, each at its own time."""
        phases = sorted((self.clients[pid].asked_s % POLL_S, pid) for pid in pids)
        following = [*phases[1:], (phases[0][0] + POLL_S, phases[0][1])]
        pauses = [after - at for (at, _), (after, _) in zip(phases, following, strict=True)]
        return phases[pauses.index(max(pauses))][1]


@dataclass(slots=True, kw_only=True)
class RankProgress:
    """The progress of one rank in a capture; `state` is one of the states of a capture."""

    rank: int
    facts: ProcessFacts
    state: str = "none"
    text: Message | None = None
    marked: MarkedTrace | None = None
    size: int = -1
    idle_s: float | None = None


class Capture:
    """A capture through libkineto, from sending configurations to traces with step marks. Made by `begin`."""

    def __init__(self, daemon: Daemon, ask: TraceRequest, folder: Path, chosen: Mapping[int, ProcessFacts]) -> None:
        self._daemon, self._ask = daemon, ask
        self.folder = folder
        self.parts = {rank: RankProgress(rank=rank, facts=of) for rank, of in chosen.items()}

    def hand_out(self) -> None:
        """Send the configurations; a process that would not understand its configuration gets none."""
        texts = {}
        for part in self.parts.values():
            why = _refusal(part.facts, self._ask)
            if why:
                part.state, part.text = "refused", why[0]
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

    def follow(self, tell: Callable[[RankProgress], None], *, patience_s: float = _PATIENCE_S) -> None:
        """Wait for the traces, and mark the steps in each trace; `tell` gets each change."""
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

    def _look(self, part: RankProgress) -> None:
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

    def _written(self, part: RankProgress) -> Path | None:
        """The trace of a rank once it is complete and no longer grows."""
        found = next(iter(sorted(self.folder.glob(f"rank{part.rank}_*.json"))), None)
        if found is None:
            return None
        size, before = found.stat().st_size, part.size
        part.size = size
        return found if size == before and is_complete(found) else None

    def _finish(self, part: RankProgress, found: Path) -> None:
        target = self.folder / f"rank{part.rank}.pt.trace.json"
        if part.size > self._ask.largest_bytes:
            found.unlink(missing_ok=True)
            part.state = "failed"
            part.text = messages.too_large(size=part.size, most=self._ask.largest_bytes)
            return
        about = {"reason": say(ASKED_BY_HAND), "rank": part.rank, "daemon": True}
        try:
            part.marked = write_completed(
                found, target, first=self._ask.start_step or 0, about=about, world=part.facts.world
            )
        except (OSError, ValueError) as broken:
            part.state, part.text = "failed", messages.unreadable(why=str(broken))
            return
        part.state, part.text = "finished", _what(part.marked, target)

    def drop_bystanders(self) -> None:
        """Remove traces without steps where others have steps: launchers and workers do not train."""
        steps = {part.rank for part in self.parts.values() if part.marked is not None and part.marked.starts_ns}
        for part in list(self.parts.values()):
            if steps and part.rank not in steps and part.state == "finished":
                (self.folder / f"rank{part.rank}.pt.trace.json").unlink(missing_ok=True)
                del self.parts[part.rank]

    def write_manifest(self) -> None:
        """Write the request and the ranks' answers beside the traces; a full disk does not fail the capture."""
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

    def better(self) -> TraceRequest | None:
        """How to request the capture again if ranks heard of it too far apart to begin at the same step; else None.

        A capture is repeated only once, and not if the user set the first step.
        """
        apart, step = self._apart()
        if not apart or self._ask.every is not None or self._ask.start_step is not None:
            return None
        every = max(_TIMES_APART * apart // step, EVERY)
        return replace(self._ask, every=every) if every * step < _LONGEST_WAIT_NS else None

    def again(self, ask: TraceRequest) -> Capture:
        """A new capture with the same ranks and folder, by another request."""
        return Capture(self._daemon, ask, self.folder, {rank: part.facts for rank, part in self.parts.items()})

    def remove(self) -> None:
        """Remove the traces, because traces of a better capture follow."""
        for part in self.parts.values():
            (self.folder / f"rank{part.rank}.pt.trace.json").unlink(missing_ok=True)

    def _apart(self) -> tuple[int, int]:
        """Nanoseconds between the first and the last rank's begin, and of a step; zeros where all began together."""
        done = [part.marked for part in self.parts.values() if part.marked is not None and part.marked.starts_ns]
        begun = [marked.starts_ns[0] for marked in done]
        step = max((marked.step_ns for marked in done), default=0)
        apart = max(begun, default=0) - min(begun, default=0)
        return (apart, step) if step and apart > step / 2 else (0, 0)

    def doubts(self) -> Iterator[Message]:
        """Warnings about the traces for the user."""
        if any(part.marked is not None and not part.marked.starts_ns for part in self.parts.values()):
            yield messages.NO_OPTIMIZER_STEP
        apart, step = self._apart()
        if apart:
            yield messages.apart(apart=apart, step=step)


def _what(marked: MarkedTrace, target: Path) -> Message:
    steps = len(marked.starts_ns)
    return messages.steps(n=steps, file=target.name) if steps else messages.no_steps(file=target.name)


def answer_of(part: RankProgress) -> Message:
    """The answer of a rank to its capture."""
    state = CaptureState(part.state).message
    return answer(ranks=[part.rank], state=state, text=part.text)


def begin(daemon: Daemon, ask: TraceRequest, name: str, *, now_ns: int) -> Capture:
    """Find the job and make the folder of the capture. Raises `HermesError`; no configuration is sent yet."""
    daemon.find()
    chosen = daemon.choose(name, ask.ranks)
    for of in chosen.values():
        if why := _refusal(of, ask):
            raise InputError(why[0], hint=why[1])
    stamp = datetime.fromtimestamp(now_ns / 1e9, timezone.utc).strftime("%Y%m%d-%H%M%S-%f")[:-3]
    folder = ask.out.absolute() / f"manual_profiling_dump_{stamp}"
    configuration(ask, folder / "rank0.json", several=False)
    try:
        make_folder_with_room(folder, ask.largest_bytes * len(chosen))
    except CaptureError as refused:
        raise HermesError(reason(refused), where=str(folder)) from refused
    return Capture(daemon, ask, folder, chosen)


def _refusal(of: ProcessFacts, ask: TraceRequest) -> tuple[Message, Text] | None:
    """Why a process cannot make the requested capture, and what to do."""
    text = configuration(ask, Path("/rank0.json"), several=False)
    return refusal(of, [line.partition("=")[0] for line in text.splitlines()], ask.out)


def endpoint(folder: Path | None) -> Endpoint:
    """The daemon's socket. Raises `InputError` with what to do when another daemon holds it."""
    try:
        return Endpoint(folder.absolute() if folder is not None else None)
    except SocketError as refused:
        where = str(folder or f"@{NAME}")
        raise InputError(refused.what, where=where, hint=messages.STOP_THE_OTHER) from refused
