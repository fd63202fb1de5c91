"""Carries out requests for captures, step by step, and answers each in the rank's slot; never raises."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.capture.backends import Backend, CaptureError, choose
from hermes.capture.before import before, renewed
from hermes.live.control import FINAL, Control, Request, Slot
from hermes.live.errors import LiveError
from hermes.live.process import me

if TYPE_CHECKING:
    from hermes.capture.headroom import Headroom

_SPARE_BYTES = 1_000_000_000
_PATIENCE = 100
_LONGEST_NS = 600_000_000_000


class Captures:
    """The rank's side of the control segment. `poll` is called after each step."""

    def __init__(
        self, control: Control, number: int, rank: int, say: Callable[[str], None],
        last: Callable[[], bytes] = bytes,
    ) -> None:  # fmt: skip
        """`last` gives the records of the last steps: a capture says what they were like."""
        self.control = control
        self._last = last
        self._off = False
        self._number = number
        self._rank = rank
        self._pid, self._started = me()
        self._say = say
        self._seen = self.idle_at = control.epoch
        self._torn = 0
        self._epoch = 0
        self._state = "none"
        self._request: Request | None = None
        self._backend: Backend | None = None
        self._told: dict[str, int] = {}
        self._accepted_at = 0
        self._began_ns = 0
        self._headroom: Headroom | None = None
        self._slowed = False

    def poll(self, step: int) -> bool:
        """Step `step` has ended. Whether the next one is slowed by a capture.

        While the epoch is `idle_at` there is nothing to do, and this need not be called.
        """
        if self._off:
            return False
        if self.control.epoch != self._seen:
            self._hear(self.control, step)
        busy = self._request is not None and self._go_on(self._request, step)
        if self._slowed:
            busy, self._slowed = True, False
        self.idle_at = self._seen if self._request is None else -1
        return busy

    def _hear(self, control: Control, step: int) -> None:
        """Take up what was asked, if it can be read."""
        try:
            found = control.request()
        except LiveError as damaged:
            self._seen = control.epoch
            self._torn += 1
            if self._torn >= 3:
                self._say(f"captures are off: {damaged}")
                self._give_up()
            return
        if found is None:
            # Being written; a writer that died in the middle leaves it so.
            self._torn += 1
            if self._torn >= _PATIENCE:
                self._seen, self._torn = control.epoch, 0
            return
        self._torn = 0
        self._seen, request = found
        if request.action == "cancel":
            self._cancel()
        elif request.for_rank(self._rank):
            self._take(request, step)

    def _take(self, request: Request, step: int) -> None:
        self._drop()
        self._epoch = self._seen
        if request.start_step <= step:
            self._answer("refused", f"step {request.start_step} has begun before the request was seen, at {step}")
            return
        self._request = request
        self._answer("accepted", f"at step {step}")
        # With room in the heap steps may be quicker than they are without.
        self._told, self._accepted_at = {}, step
        with contextlib.suppress(Exception):
            self._told = before(self._last())
        self._make_room()

    def _make_room(self) -> None:
        """For the records, steps before the first that is recorded: ranks wait for each other until all have it."""
        with contextlib.suppress(Exception):
            from hermes.capture.device import initialised

            if "torch" in sys.modules and "torch_npu" not in sys.modules and not any(initialised(sys.modules)):
                from hermes.capture.headroom import Headroom

                self._headroom = Headroom()
                self._slowed = self._headroom.take() > 0

    def _go_on(self, request: Request, step: int) -> bool:
        """Start, mark or end the capture, as the step that begins now demands."""
        if self._backend is None:
            if step + 1 < request.start_step:
                if time.time_ns() > request.deadline_ns:
                    self._end("refused", f"its time was over at step {step}")
                return False
            if step + 1 > request.start_step:
                self._end("refused", f"the count of steps jumped over {request.start_step}, to {step}")
                return False
            self._start(request)
            return True
        late = time.monotonic_ns() - self._began_ns > _LONGEST_NS
        if step + 1 >= request.start_step + request.steps or late or step + 1 < request.start_step:
            self._finish(self._backend, request, step)
        else:
            self._contained(lambda: self._mark(step + 1))
        return True

    def _start(self, request: Request) -> None:
        def begin() -> None:
            room(Path(request.out), request.largest_bytes)
            with contextlib.suppress(Exception):
                self._told = renewed(self._told, self._last(), self._accepted_at)
            self._backend = choose(request, self._rank, sys.modules, self._told)
            self._began_ns = time.monotonic_ns()
            self._backend.start()
            self._backend.mark(request.start_step)
            self._answer("started", f"step {request.start_step}")

        self._contained(begin, state="refused")

    def _mark(self, step: int) -> None:
        if self._backend is not None:
            self._backend.mark(step)

    def _finish(self, backend: Backend, request: Request, step: int) -> None:
        def end() -> None:
            start = time.perf_counter_ns()
            backend.stop()
            path = backend.save()
            held = (time.perf_counter_ns() - start) / 1e6
            self._backend = None
            self._end("finished", f"steps {request.start_step}-{step}, held the job for {held:.0f} ms: {path.name}")

        self._contained(end)

    def _contained(self, call: Callable[[], None], state: str = "failed") -> None:
        """Whatever a profiler raises ends the capture, not the step."""
        try:
            call()
        except CaptureError as refused:
            self._end(state, str(refused))
        except Exception as broken:  # noqa: BLE001 - a profiler's failure must not become the user's
            self._end("failed", f"{type(broken).__name__}: {broken}")

    def _cancel(self) -> None:
        if self._request is not None:
            self._end("cancelled", "")

    def _end(self, state: str, text: str) -> None:
        self._drop()
        self._answer(state, text)
        if state == "failed":
            self._say(f"a capture failed and the job goes on: {text}")

    def _drop(self) -> None:
        """Let go of the capture, if there is one."""
        backend, self._backend, self._request = self._backend, None, None
        headroom, self._headroom = self._headroom, None
        if headroom is not None:
            with contextlib.suppress(Exception):
                headroom.give_back()
        if backend is not None:
            try:
                backend.discard()
            except Exception as broken:  # noqa: BLE001 - as above
                self._say(f"a profiler could not be stopped ({type(broken).__name__}: {broken})")

    def _answer(self, state: str, text: str) -> None:
        self._state = state
        if not self._off:
            slot = Slot(
                rank=self._rank, pid=self._pid, started=self._started, epoch=self._epoch, state=state, text=text
            )
            self.control.say(self._number, slot)

    def _give_up(self) -> None:
        """Listen no more; the segment stays mapped, since its epoch is still looked at."""
        self._drop()
        self._off = True

    def close(self) -> None:
        """The job ends: say so to who waits, and let go of the segment."""
        unfinished = self._request is not None and self._state not in FINAL
        self._drop()
        if unfinished:
            self._answer("gone", "the job ended")
        self._give_up()
        self.control.close()


def room(folder: Path, needed: int) -> None:
    """Make the folder, and see that its disk has room for that many bytes and a gigabyte to spare.

    Raises `CaptureError`. A quota shows only when bytes are written, so some are.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        disk = os.statvfs(folder)
        free = disk.f_bavail * disk.f_frsize
        if free < needed + _SPARE_BYTES:
            raise CaptureError(f"the disk has {free / 1e9:.1f} GB free, {(needed + _SPARE_BYTES) / 1e9:.1f} are wanted")
        probe = folder / f".room-{os.getpid()}"
        try:
            probe.write_bytes(bytes(65536))
        finally:
            probe.unlink(missing_ok=True)
    except OSError as refused:
        raise CaptureError(f"{folder} cannot be written ({refused.strerror})") from refused
