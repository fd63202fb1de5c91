"""Turns the end of a step into a record: ring first, log in batches, twenty microseconds at most."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from hermes.capture.before import RECORDS, before
from hermes.capture.meter import Meter
from hermes.capture.probes import NOTHING, READ_NS, Probes
from hermes.live.record import BODY, FLAGS, NULL
from hermes.live.ring import RingWriter
from hermes.live.steplog import LogWriter

_FLUSH_NS = 1_000_000_000
_FLUSH_RECORDS = 512
_SLOW_FLUSH_NS = 5_000_000
_LONGEST_FLUSH_NS = 60_000_000_000
_FOREIGN = FLAGS["foreign_profiler"]
_now, _time_ns = time.perf_counter_ns, time.time_ns
_write = BODY.pack_into


class Monitor:
    """Counts steps and writes a record for each. One thread steps; the clock is an argument for tests only."""

    def __init__(self, ring: RingWriter, log: LogWriter, meter: Meter, say: Callable[[str], None]) -> None:
        self._ring = ring
        self._log: LogWriter | None = log
        self._meter = meter
        self._say = say
        self._probes = Probes()
        self._flushed = ring.count
        self._flush_ns = _FLUSH_NS
        self._last_flush = self._last_end = _now()
        self._overhead_ns = 0
        self._torch = _profiler_flag()
        self.next_step = 0
        self.flags = FLAGS["first"]

    def begin(self, step: int) -> None:
        """A step ended that began before the monitor did: it has no record. `step` is its number."""
        self.next_step = step + 1
        self._last_end = _now()
        self._probes.read(self._last_end)
        self._meter.reset(self._last_end)

    def set_step(self, step: int) -> None:
        """The step that ends next is that one; a jump marks it as resumed."""
        if step != self.next_step:
            self.next_step = step
            self.flags |= FLAGS["resumed"]

    def end(self, samples: int, tokens: int, transfer_ns: int) -> int:
        """A step ended now; returns its number. What the job does not say is `NULL`, and what the loaders say holds."""
        now, meter, ring, probes = _now(), self._meter, self._ring, self._probes
        step = self.next_step
        self.next_step = step + 1
        flags = self.flags | meter.flags | meter.evaluated()
        if self._torch._is_profiler_enabled:
            flags |= _FOREIGN
        loader, backward, wide = meter.uses_loader, meter.uses_backward, meter.uses_collectives
        counted = probes.read(now) if now - probes.read_ns >= READ_NS else NOTHING
        cpu, delay, slices, whole, voluntary, involuntary, minor, major, resident, device = counted
        count, at = ring.count + 1, ring.place()
        # Field by field into the ring: each copy of the row costs half a microsecond between steps.
        _write(
            ring.view, at,
            count, step, _time_ns(), now - self._last_end, flags,
            meter.batches if loader else NULL,
            meter.samples if samples == NULL else samples,
            meter.tokens if tokens == NULL else tokens,
            meter.data_ns if loader else NULL,
            meter.data_cpu_ns if loader and meter.split else NULL,
            meter.forward_ns if loader and backward else NULL,
            meter.backward_ns if backward else NULL,
            meter.optimizer_ns or NULL,
            meter.save_ns, meter.gc_ns, meter.gc_count,
            cpu, delay, slices, whole, voluntary, involuntary, minor, major, resident, device,
            meter.comm_ns if wide else NULL,
            meter.comm_bytes if wide else NULL,
            NULL, transfer_ns, self._overhead_ns,
        )  # fmt: skip
        ring.seal(at)
        self.flags = 0
        self._last_end = now
        meter.reset(now)
        if now - self._last_flush >= self._flush_ns or count - self._flushed >= _FLUSH_RECORDS:
            self.flush()
        self._overhead_ns = _now() - now
        return step

    def flush(self) -> None:
        """Append to the log what is in the ring only. A slow disk is asked less often; a full one not again."""
        if self._log is None:
            return
        start = _now()
        records, lost = self._ring.since(self._flushed)
        try:
            if records:
                self._log.append(records)
        except OSError as refused:
            self._log.close()
            self._log = None
            self._say(f"the step log ends here ({refused.strerror}); the monitor goes on without it")
            return
        if lost:
            self.flags |= FLAGS["lost_before"]
        self._flushed = self._ring.count
        self._last_flush = end = _now()
        slow = end - start > _SLOW_FLUSH_NS
        self._flush_ns = min(2 * self._flush_ns, _LONGEST_FLUSH_NS) if slow else _FLUSH_NS

    def before(self) -> dict[str, int]:
        """What the last steps were like, for a capture that begins now: see `capture.before`."""
        records, _ = self._ring.since(max(self._ring.count - RECORDS, 0))
        return before(records)

    def close(self) -> None:
        """Write what is left, and let go of the files."""
        self.flush()
        if self._log is not None:
            self._log.close()
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
