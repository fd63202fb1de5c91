"""The control segment of a job: a watcher writes one capture request at a time, and each rank writes its answer."""

from __future__ import annotations

import contextlib
import json
import os
import struct
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Final

from hermes.inside.wire import process, shared_memory_file
from hermes.inside.wire.errors import LiveError
from hermes.inside.wire.open_files import OpenFile, is_locked

MAGIC = b"HERMCTRL"
RANKS = 256
"""Number of ranks of one host that a segment has room for."""
_REQUEST_AT = shared_memory_file.HEADER
_REQUEST_SIZE = 8192
_SLOTS_AT = _REQUEST_AT + _REQUEST_SIZE
_SLOT_SIZE = 256
SIZE = _SLOTS_AT + RANKS * _SLOT_SIZE

_REQUEST = struct.Struct("<QII")
"""Epoch, length and checksum of a request; the epoch is odd while the request is being written."""
_LONGEST = _REQUEST_SIZE - _REQUEST.size
_EPOCH = struct.Struct("<Q")
_MUTEX, _KEEPERS = RANKS, RANKS + 1
"""Bytes that are locked: the byte of each slot by its rank, one while the request is written, one by the job's
keeper."""
_SLOT = struct.Struct("<qqqQqI")
"""Rank, process, its start time, epoch answered, state, length of the text; then the text; the checksum ends the
slot."""
_TEXT = _SLOT_SIZE - _SLOT.size - 4
_CHECK = struct.Struct("<I")

STATES: Final = ("none", "accepted", "started", "finished", "refused", "failed", "cancelled", "gone", "late")
"""States of a rank's answer to a request; the last six are final.

`gone`: the rank ended with its job. `late`: the rank had passed the capture's first step when it read the request.
"""
FINAL: Final = frozenset({"finished", "refused", "late", "failed", "cancelled", "gone"})
LEVELS: Final = ("light", "standard", "full")
_MOST_STEPS = 1000
LONGEST_NS: Final = 600_000_000_000
"""A capture that has been recorded for this many ns ends with the step under way; no capture holds up a step for
longer."""
NO_STEP = (
    "no step was found: a step ends when an optimizer of torch steps; a loop of another kind says so itself, "
    "with hermes.inside.step() after each of its steps"
)
"""The line that is printed once for a job in which no rank has taken a slot."""


@dataclass(frozen=True)
class Request:
    """A request for a capture: steps `start_step` up to, not including, `start_step + steps`, of the ranks in `ranks`.

    Empty `ranks` means all. A capture that has not begun by `deadline_ns` (since 1970) is dropped. `largest_bytes`
    bounds the bytes that one rank writes. `options` are options of a back end: `memory`, `stack`, `mstx`,
    `aic_metrics`, and `capture_levels.NPU_OPTIONS`.
    """

    action: str
    start_step: int
    steps: int
    level: str
    reason: str
    out: str
    ranks: tuple[int, ...] = ()
    deadline_ns: int = 0
    largest_bytes: int = 2_000_000_000
    options: Mapping[str, str] = ()  # type: ignore[assignment]

    def for_rank(self, rank: int) -> bool:
        """Whether the request is for this rank."""
        return not self.ranks or rank in self.ranks


@dataclass(frozen=True)
class Slot:
    """A rank's slot in the segment: its process, and its state in the request with that epoch."""

    rank: int
    pid: int
    started: int
    epoch: int
    state: str
    text: str
    alive: bool = True
    """Whether the process that has the slot lives: it holds its lock. The number may be of another pid namespace."""


def encode(request: Request) -> bytes:
    """The request as JSON; raises `LiveError` when the JSON is too long or `decode` would refuse it."""
    text = json.dumps({**asdict(request), "ranks": list(request.ranks), "options": dict(request.options)}).encode()
    if len(text) > _LONGEST:
        raise LiveError(f"the request has {len(text)} bytes, and at most {_LONGEST} fit")
    decode(text)
    return text


def decode(text: bytes) -> Request:
    """The request in this JSON; every value is checked, since any process may have written it. Raises `LiveError`."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as broken:
        raise LiveError("the request is no JSON") from broken
    if not isinstance(raw, dict) or raw.keys() != {field.name for field in fields(Request)}:
        raise LiveError("the request has other fields than it should")
    whole = ("start_step", "steps", "deadline_ns", "largest_bytes")
    if not all(type(raw[name]) is int and 0 <= raw[name] < 1 << 62 for name in whole):
        raise LiveError("the request has a number that is none")
    if not all(isinstance(raw[name], str) and "\0" not in raw[name] for name in ("action", "level", "reason", "out")):
        raise LiveError("the request has a text that is none")
    ranks, options = raw["ranks"], raw["options"]
    if not isinstance(ranks, list) or not all(type(rank) is int and rank >= 0 for rank in ranks):
        raise LiveError("the request names ranks that are none")
    if not isinstance(options, dict) or not all(isinstance(value, str) for value in options.values()):
        raise LiveError("the request has options that are none")
    if raw["action"] not in ("profile", "cancel") or raw["level"] not in LEVELS:
        raise LiveError("the request asks for what there is not")
    if raw["action"] == "profile" and not (1 <= raw["steps"] <= _MOST_STEPS and os.path.isabs(raw["out"])):  # noqa: PTH117
        raise LiveError(f"the request asks for {raw['steps']} steps into {raw['out']!r}")
    return Request(**{**raw, "ranks": tuple(ranks)})


class Control:
    """The view of the segment for ranks and watchers; a rank writes its own slot, and the holder of the lock the
    request.

    A process that has claimed a slot or keeps the job holds a lock until `close`, or until the process ends.
    """

    def __init__(self, path: Path, descriptor: int, about: Mapping[str, object]) -> None:
        self.path = path
        self.about = about
        self._file = OpenFile(descriptor, lambda: shared_memory_file.reopen(path))
        self._mine: int | None = None

    @classmethod
    def create(cls, path: Path, about: Mapping[str, object]) -> Control:
        """Create a new segment; raises `LiveError` when it cannot be made completely."""
        return cls(path, shared_memory_file.create(path, MAGIC, SIZE, about), about)

    @classmethod
    def attach(cls, path: Path, *, job: str | None = None) -> Control:
        """Open an existing segment. Raises `LiveError` unless the file is a segment of this user and of job `job`."""
        descriptor, size, about = shared_memory_file.attach(path, MAGIC, writable=True)
        if size != SIZE or (job is not None and about.get("job") != job):
            os.close(descriptor)
            raise LiveError(f"{path} is of another job, or of another size")
        return cls(path, descriptor, about)

    @property
    def descriptor(self) -> int:
        """The descriptor where the segment is open at this moment. Raises `OSError` where the job has closed it for
        good."""
        return self._file.number

    @property
    def epoch(self) -> int:
        """The epoch, which grows by 2 with each request; odd while a request is being written. Raises `LiveError` for a
        truncated segment."""
        return int(_EPOCH.unpack(self._read(_REQUEST_AT, _EPOCH.size))[0])

    def _read(self, at: int, size: int) -> bytes:
        raw = os.pread(self.descriptor, size, at)
        if len(raw) != size:
            raise LiveError("the control segment was cut off")
        return raw

    def _write_epoch(self, epoch: int) -> None:
        os.pwrite(self.descriptor, _EPOCH.pack(epoch), _REQUEST_AT)

    def keep(self) -> None:
        """Keep the job's memory as long as this object is open, as the process does that brings the job's ranks."""
        self._file.lock(_KEEPERS, shared=True)

    def in_use(self) -> bool:
        """Whether a rank or a keeper of the job lives, other than this process."""
        return is_locked(self.descriptor, 0, _MUTEX) or is_locked(self.descriptor, _KEEPERS)

    def request(self) -> tuple[int, Request] | None:
        """The current request and its epoch; None without a request, or while one is being written.

        Raises `LiveError` for an invalid request: by its checksum, or by its values.
        """
        epoch, length, check = _REQUEST.unpack(self._read(_REQUEST_AT, _REQUEST.size))
        if epoch == 0 or epoch % 2:
            return None
        if length > _LONGEST:
            raise LiveError("the control segment is damaged")
        text = self._read(_REQUEST_AT + _REQUEST.size, length)
        if self.epoch != epoch:
            return None
        if zlib.crc32(text, epoch & 0xFFFFFFFF) != check:
            raise LiveError("the control segment is damaged")
        return epoch, decode(text)

    def ask(self, request: Request) -> int:
        """Write a request; returns its epoch. Raises `LiveError` while another request is under way, unless this one
        cancels it."""
        text = encode(request)
        with self.locked():
            busy = [slot.rank for slot in self.slots() if slot.alive and self._under_way(slot)]
            if busy and request.action != "cancel":
                raise LiveError(f"a capture is under way on rank {', '.join(map(str, busy))}")
            # A watcher that was killed while it wrote left the epoch odd.
            epoch = self.epoch % (1 << 60)
            writing = epoch + (2 if epoch % 2 else 1)
            self._write_epoch(writing)
            epoch = writing + 1
            head = _REQUEST.pack(epoch, len(text), zlib.crc32(text, epoch & 0xFFFFFFFF))
            os.pwrite(self.descriptor, head[_EPOCH.size :] + text, _REQUEST_AT + _EPOCH.size)
            self._write_epoch(epoch)
            return epoch

    def _under_way(self, slot: Slot) -> bool:
        if slot.state in ("accepted", "started"):
            return True
        current = None
        with contextlib.suppress(LiveError):
            current = self.request()
        if current is None or current[1].action != "profile" or not current[1].for_rank(slot.rank):
            return False
        epoch, request = current
        return slot.epoch != epoch and time.time_ns() < request.deadline_ns

    def claim(self, rank: int, text: str = "") -> int:
        """Claim a slot for a rank with a first text; returns the slot's number, which this process keeps.

        Raises `LiveError` when another living process has the rank's slot, or when all slots are taken.
        """
        pid, started = process.own_identity()
        with self.locked():
            if os.fstat(self.descriptor).st_nlink == 0:
                raise LiveError(f"{self.path} was removed")
            free = None
            for number in range(RANKS):
                slot = self.slot(number)
                if slot is None:
                    free = number if free is None else free
                elif slot.rank == rank:
                    if slot.alive and number != self._mine:
                        raise LiveError(f"rank {rank} of this job is process {slot.pid}")
                    free = number
                    break
            if free is None:
                raise LiveError(f"the control segment has room for {RANKS} ranks")
            self._file.lock(free)
            self._mine = free
            self.say(free, Slot(rank=rank, pid=pid, started=started, epoch=0, state="none", text=text))
            return free

    def say(self, number: int, slot: Slot) -> None:
        """Write a slot; only the slot's owner may do so."""
        text = slot.text.encode("utf-8", "replace")[:_TEXT]
        words = (slot.rank, slot.pid, slot.started, slot.epoch, STATES.index(slot.state), len(text))
        body = (_SLOT.pack(*words) + text).ljust(_SLOT_SIZE - 4, b"\0")
        at = _SLOTS_AT + number * _SLOT_SIZE
        os.pwrite(self.descriptor, body + _CHECK.pack(zlib.crc32(body)), at)

    def count_no_more(self) -> None:
        """Take back this process's description of its steps. An answer to a request stays."""
        slot = None if self._mine is None else self.slot(self._mine)
        if self._mine is not None and slot is not None and slot.state == "none":
            self.say(self._mine, replace(slot, text=""))

    def slot(self, number: int) -> Slot | None:
        """The content of a slot; None for a slot that is empty, damaged, or being written."""
        raw = os.pread(self.descriptor, _SLOT_SIZE, _SLOTS_AT + number * _SLOT_SIZE)
        return self._slot_of(number, raw)

    def _slot_of(self, number: int, raw: bytes) -> Slot | None:
        if len(raw) != _SLOT_SIZE or zlib.crc32(raw[:-4]) != _CHECK.unpack(raw[-4:])[0]:
            return None
        rank, pid, started, epoch, state, length = _SLOT.unpack_from(raw)
        if not (0 <= state < len(STATES) and length <= _TEXT and pid > 0):
            return None
        text = raw[_SLOT.size : _SLOT.size + length].decode("utf-8", "replace")
        alive = number == self._mine or is_locked(self.descriptor, number)
        return Slot(rank=rank, pid=pid, started=started, epoch=epoch, state=STATES[state], text=text, alive=alive)

    def slots(self) -> list[Slot]:
        """All slots of ranks in the segment that are in use, by rank."""
        raw = os.pread(self.descriptor, RANKS * _SLOT_SIZE, _SLOTS_AT)
        parts = (raw[number * _SLOT_SIZE : (number + 1) * _SLOT_SIZE] for number in range(RANKS))
        found = [slot for number, part in enumerate(parts) if (slot := self._slot_of(number, part))]
        return sorted(found, key=lambda slot: slot.rank)

    @contextlib.contextmanager
    def locked(self, patience_s: float = 2.0) -> Iterator[None]:
        """Hold the lock of the segment, which dies with its holder; raises `LiveError` after `patience_s` seconds.

        A rank takes the lock once, when it claims its slot, and never while it steps.
        """
        give_up = time.monotonic() + patience_s
        while not self._file.lock(_MUTEX):
            if time.monotonic() > give_up:
                raise LiveError(f"{self.path} is locked by another process")
            time.sleep(0.005)
        try:
            yield
        finally:
            self._file.unlock(_MUTEX)

    def remove(self) -> bool:
        """Remove the segment's file unless another process is in the job; returns whether it was removed."""
        with self.locked():
            if self.in_use():
                return False
            self.path.unlink(missing_ok=True)
            return True

    def close(self) -> None:
        """Close the file and release the locks; the file stays. In a forked child only the child's copy is closed."""
        self._file.close()
