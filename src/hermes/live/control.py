"""The control segment of a job: one request at a time goes in, each rank's answer comes out."""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
import struct
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final

from hermes.live import process, segment
from hermes.live.errors import LiveError

MAGIC = b"HERMCTRL"
RANKS = 256
"""Ranks of one host that a segment has room for."""
_REQUEST_AT = segment.HEADER
_REQUEST_SIZE = 8192
_SLOTS_AT = _REQUEST_AT + _REQUEST_SIZE
_SLOT_SIZE = 256
SIZE = _SLOTS_AT + RANKS * _SLOT_SIZE

_REQUEST = struct.Struct("<QII")
"""Epoch, length and checksum; the epoch is odd while the request is being written."""
_LONGEST = _REQUEST_SIZE - _REQUEST.size
_EPOCH_WORD = _REQUEST_AT // 8
_SLOT = struct.Struct("<qqqQqI")
"""Rank, process, its start time, epoch answered, state, length of the text; then the text; the checksum ends it."""
_TEXT = _SLOT_SIZE - _SLOT.size - 4
_CHECK = struct.Struct("<I")

STATES: Final = ("none", "accepted", "started", "finished", "refused", "failed", "cancelled", "gone")
"""What a rank says to a request; the last five are final. `gone`: the rank ended with its job."""
FINAL: Final = frozenset({"finished", "refused", "failed", "cancelled", "gone"})
LEVELS: Final = ("light", "standard", "full")
_MOST_STEPS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One capture asked for: steps `start_step` up to, not including, `start_step + steps`, of the ranks named.

    `ranks` empty means all. `deadline_ns` (since 1970) ends what never began. `largest_bytes` bounds what one rank
    writes. `options` are those of a back end: `memory`, `stack`, `mstx`, `aic_metrics`.
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
        """Whether that rank is asked."""
        return not self.ranks or rank in self.ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """What a rank says of itself: its process, and how far it is with the request of that epoch."""

    rank: int
    pid: int
    started: int
    epoch: int
    state: str
    text: str

    @property
    def alive(self) -> bool:
        """Whether the process that wrote the slot still runs."""
        return process.alive(self.pid, self.started)


def encode(request: Request) -> bytes:
    """The request as JSON; raises `LiveError` when it is too long or says what `decode` would refuse."""
    text = json.dumps({**asdict(request), "ranks": list(request.ranks), "options": dict(request.options)}).encode()
    if len(text) > _LONGEST:
        raise LiveError(f"the request has {len(text)} bytes, and at most {_LONGEST} fit")
    decode(text)
    return text


def decode(text: bytes) -> Request:
    """The request of that JSON; every value is checked, since the writer may be anything. Raises `LiveError`."""
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
    """Either side's view of the segment; a rank writes its own slot, whoever holds the lock writes the request."""

    def __init__(self, path: Path, mapped: mmap.mmap, about: Mapping[str, object]) -> None:
        self.path = path
        self.about = about
        self._map = mapped
        self._words = memoryview(mapped).cast("Q")
        # Read after each step of each rank, so it is a view of its own: an index and nothing else.
        self.epoch_word = self._words[_EPOCH_WORD : _EPOCH_WORD + 1]

    @classmethod
    def create(cls, path: Path, about: Mapping[str, object]) -> Control:
        """A new segment; raises `LiveError` when it cannot be made whole."""
        return cls(path, segment.create(path, MAGIC, SIZE, about), about)

    @classmethod
    def attach(cls, path: Path, *, job: str | None = None) -> Control:
        """The segment that is there. Raises `LiveError` unless it is one, of this user, and of that job."""
        mapped, about = segment.attach(path, MAGIC, writable=True)
        if len(mapped) != SIZE or (job is not None and about.get("job") != job):
            mapped.close()
            raise LiveError(f"{path} is of another job, or of another size")
        return cls(path, mapped, about)

    @property
    def epoch(self) -> int:
        """Grows by 2 with each request; odd while one is being written. Reading it costs nanoseconds."""
        return self._words[_EPOCH_WORD]

    def request(self) -> tuple[int, Request] | None:
        """The current request and its epoch; None when there is none, or when it is being written right now.

        Raises `LiveError` when what stands there is no request: by its checksum, or by what it says.
        """
        epoch, length, check = _REQUEST.unpack_from(self._map, _REQUEST_AT)
        if epoch == 0 or epoch % 2:
            return None
        if length > _LONGEST:
            raise LiveError("the control segment is damaged")
        at = _REQUEST_AT + _REQUEST.size
        text = self._map[at : at + length]
        if self.epoch != epoch:
            return None
        if zlib.crc32(text, epoch & 0xFFFFFFFF) != check:
            raise LiveError("the control segment is damaged")
        return epoch, decode(text)

    def ask(self, request: Request) -> int:
        """Put a request in; returns its epoch. Raises `LiveError` while another is under way, unless it cancels it."""
        text = encode(request)
        with self.locked():
            busy = [slot.rank for slot in self.slots() if slot.alive and self._under_way(slot)]
            if busy and request.action != "cancel":
                raise LiveError(f"a capture is under way on rank {', '.join(map(str, busy))}")
            # A watcher that was killed while it wrote left it odd.
            writing = self.epoch + (2 if self.epoch % 2 else 1)
            self._words[_EPOCH_WORD] = writing
            at = _REQUEST_AT + _REQUEST.size
            self._map[at : at + len(text)] = text
            epoch = writing + 1
            head = _REQUEST.pack(epoch, len(text), zlib.crc32(text, epoch & 0xFFFFFFFF))
            self._map[_REQUEST_AT + 8 : _REQUEST_AT + _REQUEST.size] = head[8:]
            self._words[_EPOCH_WORD] = epoch
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

    def claim(self, rank: int) -> int:
        """The number of the slot that this process has for that rank from now on.

        Raises `LiveError` when another living process has it, or when all are taken.
        """
        pid, started = process.me()
        with self.locked():
            free = None
            for number in range(RANKS):
                slot = self.slot(number)
                if slot is None:
                    free = number if free is None else free
                elif slot.rank == rank:
                    if slot.alive and slot.pid != pid:
                        raise LiveError(f"rank {rank} of this job is process {slot.pid}")
                    free = number
                    break
            if free is None:
                raise LiveError(f"the control segment has room for {RANKS} ranks")
            self.say(free, Slot(rank=rank, pid=pid, started=started, epoch=0, state="none", text=""))
            return free

    def say(self, number: int, slot: Slot) -> None:
        """Write a slot; only its owner may."""
        text = slot.text.encode("utf-8", "replace")[:_TEXT]
        words = (slot.rank, slot.pid, slot.started, slot.epoch, STATES.index(slot.state), len(text))
        body = (_SLOT.pack(*words) + text).ljust(_SLOT_SIZE - 4, b"\0")
        at = _SLOTS_AT + number * _SLOT_SIZE
        self._map[at : at + _SLOT_SIZE] = body + _CHECK.pack(zlib.crc32(body))

    def slot(self, number: int) -> Slot | None:
        """What stands in a slot; None when it is empty, damaged, or being written."""
        at = _SLOTS_AT + number * _SLOT_SIZE
        raw = self._map[at : at + _SLOT_SIZE]
        if zlib.crc32(raw[:-4]) != _CHECK.unpack(raw[-4:])[0]:
            return None
        rank, pid, started, epoch, state, length = _SLOT.unpack_from(raw)
        if not (0 <= state < len(STATES) and length <= _TEXT and pid > 0):
            return None
        text = raw[_SLOT.size : _SLOT.size + length].decode("utf-8", "replace")
        return Slot(rank=rank, pid=pid, started=started, epoch=epoch, state=STATES[state], text=text)

    def slots(self) -> list[Slot]:
        """All slots in use, by rank."""
        found = [slot for number in range(RANKS) if (slot := self.slot(number))]
        return sorted(found, key=lambda slot: slot.rank)

    @contextlib.contextmanager
    def locked(self, patience_s: float = 2.0) -> Iterator[None]:
        """Hold the lock of the segment, which dies with its holder; `LiveError` after that patience.

        Ranks take it once, when they claim their slot, and never while they step.
        """
        descriptor = os.open(self.path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            give_up = time.monotonic() + patience_s
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError as held:
                    if time.monotonic() > give_up:
                        raise LiveError(f"{self.path} is locked by another process") from held
                    time.sleep(0.005)
            yield
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Unmap; the file stays."""
        self.epoch_word.release()
        self._words.release()
        self._map.close()
