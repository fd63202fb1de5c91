"""Turns the end of a step into a record, which reaches the ring within 10 ms and the log once a second.

Between two steps, data that the step itself does not use has left the caches. A system call or a checksum then costs
several times what it costs in a loop. So a step only notes its numbers. Every 10 ms the notes are packed and written
with the counters; a step longer than that is written at once.
"""

from __future__ import annotations

import struct
import sys
import time
import zlib
from threading import get_ident
from typing import Any, Callable

from hermes.inside.error_guard import warnings_let_pass
from hermes.inside.monitor.bandwidth import Bandwidth
from hermes.inside.monitor.device import DeviceClock
from hermes.inside.monitor.flops import FlopCount
from hermes.inside.monitor.numerics import Numerics
from hermes.inside.monitor.step_meter import StepMeter
from hermes.inside.monitor.steps_before_capture import RECORDS
from hermes.inside.monitor.system_counters import NOTHING, READ_NS, SystemCounters
from hermes.inside.monitor.write_step_log import StepLogWriter
from hermes.inside.profile.captures import Captures
from hermes.inside.wire.ring import CHECK_AT, LATE_NS, RingWriter
from hermes.inside.wire.step_record import AT, FIELDS, FLAGS, NULL, SIZE
from hermes.inside.wire.steplog import LogWriter

_FLUSH_NS = 1_000_000_000
_FLUSH_RECORDS = 512
_STEPS_READ, _PAUSE_NS = 4, 50_000_000
"""Counters are read every fourth step; with short steps every 10 ms, and with long steps every 50 ms."""
_TOGETHER = 32
"""Largest number of records that one system call writes."""
_CLOSE_S = 2.0
"""Longest time in s that the end of the job waits for the job's disk."""
_FOREIGN, _PROFILED = FLAGS["foreign_profiler"], FLAGS["profiled"]
_now, _time_ns = time.perf_counter_ns, time.time_ns

_FIRST, _LAST = AT["cpu_ns"], AT["overhead_ns"]
_OFTEN = struct.Struct(f"<{_FIRST}q{8 * (_LAST - _FIRST)}sq")
"""A record without its checksum; the rarely read fields, `cpu_ns` to `transfer_ns`, are bytes."""
_SELDOM = struct.Struct(f"<{_LAST - _FIRST}q")
_NOT_READ = _SELDOM.pack(*[NULL] * (_LAST - _FIRST))
_CHECK = struct.Struct("<Q")
assert _OFTEN.size == CHECK_AT == 8 * (len(FIELDS) - 1)

Stepped = Callable[..., None]
LOOP = object()
"""Stands for the optimizer where the training loop itself marks the end of a step."""


class Monitor:
    """A monitor that counts steps and writes a record for each step. Only one thread of the process may end steps."""

    def __init__(
        self, ring: RingWriter, log: LogWriter, meter: StepMeter, say: Callable[[str], None],
        each_second: Callable[[], None],
    ) -> None:  # fmt: skip
        self._ring = ring
        self._each_second = each_second
        self._log = StepLogWriter(log, say)
        self._meter = meter
        self._probes = SystemCounters()
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
        """Begin after a step that started before the monitor and so has no record. `step` is that step's number."""
        meter, now = self._meter, _now()
        self._probes.read(now)
        meter.moved_ns = 0
        meter.next_step = step + 1
        meter.begin(now)
        meter.flags, meter.long = FLAGS["first"], False

    def set_step(self, step: int) -> None:
        """Set the number of the step that ends next; a jump in the numbers marks the step as resumed."""
        if step != self._meter.next_step:
            self._meter.next_step = step
            self._meter.flags |= FLAGS["resumed"]

    def stepped(self, captures: Captures) -> Stepped:
        """The hook that torch calls after each optimizer step; steps of the anchor optimizer end a step of the job.

        One function does everything that every step needs: each further function costs half a microsecond between
        steps.
        """
        meter, note, seldom, later = self._meter, self._noted.append, self._seldom, self._later
        put, torch = self._write, _profiler_flag()
        meter.busy = False

        def after_step(optimizer: object, _args: object = None, _kwargs: object = None) -> None:
            now, m = _now(), meter
            # An optimizer step of another training thread does not end this thread's step.
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
            # Does what `StepMeter.begin` does, but makes fewer calls.
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
        """The hook that torch calls before each optimizer step."""
        meter, numerics = self._meter, self.numerics

        def before_step(optimizer: object, _args: object = None, _kwargs: object = None) -> None:
            meter.optimizer_from = _now()
            if meter.look and numerics is not None:
                numerics.before(optimizer)
                meter.optimizer_from = _now()

        return before_step

    def _seldom(self, now: int) -> bytes:
        """The rarely set fields of the step that ends now, as bytes; also sets when these fields are read next."""
        meter, probes, device = self._meter, self._probes, self.device
        # Between steps, calls cost most: the time of day is asked for here, and not in each step.
        meter.epoch_ns = _time_ns() - now
        counted = probes.read(now) if now - probes.read_ns >= READ_NS else NOTHING
        if self.numerics is not None:
            self.numerics.step_ended(now, meter.next_step - 1)
        wide, moved, waited = meter.uses_collectives, meter.transfer_ns, 0
        if self.bandwidth is not None:
            self.bandwidth.step_ended(now)
            if self.bandwidth.waits.any:
                wide, waited = True, self.bandwidth.waits.wait_ns(now)
        if moved == NULL and meter.uses_transfers:
            moved, meter.moved_ns = meter.moved_ns, 0
        fields = _SELDOM.pack(
            *counted,
            meter.comm_ns + waited if wide else NULL,
            meter.comm_bytes if wide else NULL,
            NULL if device is None else device.step_ended(),
            moved,
        )
        often = wide or device is not None or self.bandwidth is not None or meter.look
        # Not every long step is worth the system calls, but sixty steps get at least a dozen readings.
        pause = min(max(READ_NS, _STEPS_READ * (now - meter.last_end)), _PAUSE_NS)
        meter.due_ns = 0 if often else probes.read_ns + pause
        return fields

    def _later(self, now: int) -> None:
        """Work that may wait until after the step is noted."""
        meter, count = self._meter, self.count_flops
        self._write()
        if count is not None and not count.over:
            with warnings_let_pass():
                meter.flags |= _PROFILED if count.step_ended() else 0
            # The monitor counts a step to the step's end.
            meter.due_ns = 0
        if now - self._last_flush >= _FLUSH_NS or meter.count >= meter.full_at:
            self.flush()
            self._each_second()

    def _write(self) -> None:
        """Write the noted steps into the ring."""
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
        """Pass the records that are only in the ring to the log, which another thread writes."""
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
        """Wait at most `patience_s` seconds until the whole log is written."""
        self._log.settled(patience_s)

    def last(self) -> bytes:
        """The records of the last steps, from which a capture learns the usual step: see `capture.before`."""
        self._write()
        records, _ = self._ring.since(max(self._ring.count - RECORDS, 0))
        return records

    def close(self) -> bool:
        """Write the remaining records and close the files; False when the log could not be written completely."""
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
    """A replacement for `torch.autograd.profiler` where torch's module is missing or has no such flag."""

    _is_profiler_enabled = False


def _profiler_flag() -> Any:
    """The object whose flag says whether the job runs its own profiler, which slows steps. Reading the flag is cheap.

    torch sets the flag for every profiler of its own since 2.1; asking its C++ side costs a microsecond.
    """
    module = sys.modules.get("torch.autograd.profiler")
    return module if hasattr(module, "_is_profiler_enabled") else _NoProfiler
