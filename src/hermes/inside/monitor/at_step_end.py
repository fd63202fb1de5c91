"""Turns the end of a step into a record: into the ring within 10 ms, into the log once a second.

Between two steps everything that the step does not use itself has left the caches: a system call or a checksum costs
several times what it does in a loop. So a step only notes its numbers, and what was noted is packed and written with
the counters that are read each 10 ms: at once where steps take longer than that.
"""

from __future__ import annotations

import struct
import sys
import time
import zlib
from threading import get_ident
from typing import Any, Callable

from hermes.inside.border import warnings_let_pass
from hermes.inside.monitor.bandwidth import Bandwidth
from hermes.inside.monitor.before import RECORDS
from hermes.inside.monitor.device import DeviceClock
from hermes.inside.monitor.flops import FlopCount
from hermes.inside.monitor.meter import Meter
from hermes.inside.monitor.numerics import Numerics
from hermes.inside.monitor.probes import NOTHING, READ_NS, Probes
from hermes.inside.monitor.written import Written
from hermes.inside.profile.captures import Captures
from hermes.inside.wire.record import AT, FIELDS, FLAGS, NULL, SIZE
from hermes.inside.wire.ring import CHECK_AT, LATE_NS, RingWriter
from hermes.inside.wire.steplog import LogWriter

_FLUSH_NS = 1_000_000_000
_FLUSH_RECORDS = 512
_STEPS_READ, _PAUSE_NS = 4, 50_000_000
"""Counters are read each so many steps, but for short ones each 10 ms, and for long ones each 50 ms."""
_TOGETHER = 32
"""Records that are written with one system call."""
_CLOSE_S = 2.0
"""So long the end of the job waits for its disk."""
_FOREIGN, _PROFILED = FLAGS["foreign_profiler"], FLAGS["profiled"]
_now, _time_ns = time.perf_counter_ns, time.time_ns

_FIRST, _LAST = AT["cpu_ns"], AT["overhead_ns"]
_OFTEN = struct.Struct(f"<{_FIRST}q{8 * (_LAST - _FIRST)}sq")
"""A record without its checksum; what is read seldom, `cpu_ns` to `transfer_ns`, as bytes."""
_SELDOM = struct.Struct(f"<{_LAST - _FIRST}q")
_NOT_READ = _SELDOM.pack(*[NULL] * (_LAST - _FIRST))
_CHECK = struct.Struct("<Q")
assert _OFTEN.size == CHECK_AT == 8 * (len(FIELDS) - 1)

Stepped = Callable[..., None]
LOOP = object()
"""Stands for the optimizer where the loop itself says that a step has ended."""


class Monitor:
    """Counts steps and writes a record for each. One thread steps."""

    def __init__(
        self, ring: RingWriter, log: LogWriter, meter: Meter, say: Callable[[str], None],
        each_second: Callable[[], None],
    ) -> None:  # fmt: skip
        self._ring = ring
        self._each_second = each_second
        self._log = Written(log, say)
        self._meter = meter
        self._probes = Probes()
        self._flushed = meter.count = ring.count
        self._noted: list[tuple[Any, ...]] = []
        self._rows = memoryview(bytearray(_TOGETHER * SIZE))
        self._bodies = [self._rows[at : at + CHECK_AT] for at in range(0, _TOGETHER * SIZE, SIZE)]
        self._last_flush = _now()
        meter.full_at = meter.count + _FLUSH_RECORDS
        self.count_flops: FlopCount | None = None
        self.device: DeviceClock | None = None
        self.bandwidth: Bandwidth | None = None
        self.numerics: Numerics | None = None

    def begin(self, step: int) -> None:
        """A step ended that began before the monitor did: it has no record. `step` is its number."""
        meter, now = self._meter, _now()
        self._probes.read(now)
        meter.moved_ns = 0
        meter.next_step = step + 1
        meter.begin(now)
        meter.flags, meter.long = FLAGS["first"], False

    def set_step(self, step: int) -> None:
        """The step that ends next is that one; a jump marks it as resumed."""
        if step != self._meter.next_step:
            self._meter.next_step = step
            self._meter.flags |= FLAGS["resumed"]

    def stepped(self, captures: Captures) -> Stepped:
        """What torch calls after each step of an optimizer, with it; those of the anchor end a step of the job.

        One function that does all that every step needs: each further one costs half a microsecond between steps.
        """
        meter, note, seldom, later = self._meter, self._noted.append, self._seldom, self._later
        put, torch = self._write, _profiler_flag()
        meter.busy = False

        def after_step(optimizer: object, _args: object = None, _kwargs: object = None) -> None:
            now, m = _now(), meter
            # Another thread that trains does not end this one's step.
            if get_ident() != m.thread and optimizer is not LOOP:
                return
            if m.optimizer_from:
                m.optimizer_ns += now - m.optimizer_from
                m.optimizer_from = 0
            if id(optimizer) != m.anchor and not m.anchored(optimizer):
                return
            step, count, wall = m.next_step, m.count, now - m.last_end
            m.next_step = step + 1
            flags = m.flags if m.unused == m.ahead else m.flags | m.evaluated()
            flags = flags | _FOREIGN if torch._is_profiler_enabled else flags
            rest = _NOT_READ if now < m.due_ns else seldom(now)
            loader = m.uses_loader
            note(
                (
                    count + 1, step, now + m.epoch_ns, wall, flags,
                    m.batches if loader else NULL, m.samples, m.tokens, m.data_ns if loader else NULL,
                    m.data_cpu_ns if loader and m.split else NULL,
                    m.forward_ns if loader and m.uses_backward else NULL,
                    m.backward_ns if m.uses_backward else NULL, m.optimizer_ns or NULL,
                    m.save_ns, m.gc_ns, m.gc_count, rest, m.overhead_ns,
                )
            )  # fmt: skip
            m.count = count + 1
            # As `Meter.begin`, and as seldom as it can be.
            m.last_end = now
            m.data_ns = m.data_cpu_ns = m.forward_ns = m.forward_from = m.backward_ns = 0
            m.batches = m.optimizer_ns = m.flags = 0
            m.samples = m.tokens = NULL
            if m.rare or m.split or (m.long and now >= m.split_at):
                m.seldom(now)
            if now >= m.write_ns:
                put()
            if rest is not _NOT_READ or count >= m.full_at:
                later(now)
                m.busy = m.busy or captures.asked()
            if m.busy:
                m.flags |= _PROFILED if captures.poll(step, wall) else 0
                m.busy = captures.busy
            m.overhead_ns = _now() - now

        return after_step

    def before_step(self) -> Stepped:
        """What torch calls before each step of an optimizer."""
        meter, numerics = self._meter, self.numerics

        def before_step(optimizer: object, _args: object = None, _kwargs: object = None) -> None:
            meter.optimizer_from = _now()
            if meter.look and numerics is not None:
                numerics.before(optimizer)
                meter.optimizer_from = _now()

        return before_step

    def _seldom(self, now: int) -> bytes:
        """The fields that few steps have, of the one that ends now; and when they are looked at next."""
        meter, probes, device = self._meter, self._probes, self.device
        # What a step costs between others is what it calls: the time of day is asked for here, and not in each.
        meter.epoch_ns = _time_ns() - now
        counted = probes.read(now) if now - probes.read_ns >= READ_NS else NOTHING
        if self.bandwidth is not None:
            self.bandwidth.step_ended(now)
        if self.numerics is not None:
            self.numerics.step_ended(now, meter.next_step - 1)
        wide, moved = meter.uses_collectives, meter.transfer_ns
        if moved == NULL and meter.uses_transfers:
            moved, meter.moved_ns = meter.moved_ns, 0
        fields = _SELDOM.pack(
            *counted,
            meter.comm_ns if wide else NULL,
            meter.comm_bytes if wide else NULL,
            NULL if device is None else device.step_ended(),
            moved,
        )
        often = wide or device is not None or self.bandwidth is not None or meter.look
        # Of long steps not each one is worth the system calls, but never fewer than a dozen readings in sixty steps.
        pause = min(max(READ_NS, _STEPS_READ * (now - meter.last_end)), _PAUSE_NS)
        meter.due_ns = 0 if often else probes.read_ns + pause
        return fields

    def _later(self, now: int) -> None:
        """What need not be done after each step, once it is noted."""
        meter, count = self._meter, self.count_flops
        self._write()
        if count is not None and not count.over:
            with warnings_let_pass():
                meter.flags |= _PROFILED if count.step_ended() else 0
            # A step is counted to its end.
            meter.due_ns = 0
        if now - self._last_flush >= _FLUSH_NS or meter.count >= meter.full_at:
            self.flush()
            self._each_second()

    def _write(self) -> None:
        """Put what was noted into the ring."""
        rows, bodies, at = self._rows, self._bodies, 0
        for fields in self._noted:
            if at == _TOGETHER * SIZE:
                self._ring.add(rows)
                at = 0
            _OFTEN.pack_into(rows, at, *fields)
            _CHECK.pack_into(rows, at + CHECK_AT, zlib.crc32(bodies[at // SIZE]))
            at += SIZE
        if at:
            self._ring.add(rows[:at])
        self._noted.clear()
        self._meter.write_ns = self._meter.last_end + LATE_NS

    def flush(self) -> None:
        """Hand what is in the ring only to the log, which is written beside this thread."""
        meter = self._meter
        meter.full_at = meter.count + _FLUSH_RECORDS
        self._last_flush = _now()
        self._write()
        records, lost = self._ring.since(self._flushed)
        if records and not self._log.put(records):
            lost += 1
        if lost:
            meter.flags |= FLAGS["lost_before"]
        self._flushed = meter.count

    def settle(self, patience_s: float) -> None:
        """Let the log be written to its end, as far as that time suffices."""
        self._log.settled(patience_s)

    def last(self) -> bytes:
        """The records of the last steps, for a capture that says what they were like: see `capture.before`."""
        self._write()
        records, _ = self._ring.since(max(self._ring.count - RECORDS, 0))
        return records

    def close(self) -> bool:
        """Write what is left, and let go of the files; False when the log could not be written whole."""
        if self.count_flops is not None:
            self.count_flops.close()
        if self.bandwidth is not None:
            self.bandwidth.write()
        if self.numerics is not None:
            self.numerics.close()
        try:
            self.flush()
            return self._log.close(_CLOSE_S)
        finally:
            self._probes.close()
            self._ring.close()


class _NoProfiler:
    """Stands for `torch.autograd.profiler` where that has no such flag, or is not there."""

    _is_profiler_enabled = False


def _profiler_flag() -> Any:
    """What says whether the job runs a profiler of its own, which slows its steps, at the cost of a look.

    torch sets the flag for every profiler of its own since 2.1; asking its C++ side costs a microsecond.
    """
    module = sys.modules.get("torch.autograd.profiler")
    return module if hasattr(module, "_is_profiler_enabled") else _NoProfiler
