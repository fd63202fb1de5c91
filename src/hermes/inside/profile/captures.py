"""Carries out requests for captures, step by step, and answers each in the rank's slot; never raises."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from hermes.inside.border import warnings_let_pass
from hermes.inside.monitor.before import before, long_of, spans_of
from hermes.inside.monitor.loaders import Loaders
from hermes.inside.profile.backends import Backend, choose
from hermes.inside.profile.lines import Lines, calls_expected
from hermes.inside.wire.beside import Beside
from hermes.inside.wire.control import FINAL, LONGEST_NS, Control, Request, Slot
from hermes.inside.wire.errors import LiveError
from hermes.inside.wire.levels import CaptureError, room
from hermes.inside.wire.long_steps import LongSteps
from hermes.inside.wire.process import me

_PATIENCE = 100
_READY_S = 0.25
"""So long the first step of a capture waits for the disk, which has had half a second or more to answer."""
_SOON = 4
"""So many steps ahead of a capture it is worked out what steps were like without it."""
_MOST_CALLS = 1_000_000
"""Of more calls of Python no profile is made by itself: it would hold the job for many seconds, and fill its memory."""
_CLOSE_S = 10.0
"""So long the end of the job waits for a trace that is being written."""


class Captures:
    """The rank's side of the control segment. `poll` is called after each step while a capture is `busy`.

    The disk is asked and written beside the training thread; only what belongs to the profiler's thread is done on it.
    """

    def __init__(
        self, control: Control, number: int, rank: int, say: Callable[[str], None],
        last: Callable[[], bytes] = bytes, loaders: Loaders | None = None,
    ) -> None:  # fmt: skip
        """`last` gives the records of the last steps, and `loaders` what they say: a capture tells it."""
        self.control = control
        self._last = last
        self._loaders = loaders
        self._off = False
        self._number = number
        self._rank = rank
        self._pid, self._started = me()
        self._say = say
        self._seen = control.epoch
        self._torn = 0
        self._epoch = 0
        self._state = "none"
        self._request: Request | None = None
        self._backend: Backend | None = None
        self._ready: Beside[None] | None = None
        self._before: Beside[tuple[dict[str, int], LongSteps | None]] | None = None
        self._long: LongSteps | None = None
        self._lines: Lines | None = None
        self._left_out = ""
        self._saving: Beside[Path] | None = None
        self._saved = ""
        self._began_ns = 0
        self._usual_ns = self._spent_ns = 0
        self._longer = False
        self._walls: list[int] = []

    @property
    def busy(self) -> bool:
        """Whether each step matters: a capture is waited for, recorded or written, or a request cannot be read yet."""
        return self._request is not None or self._saving is not None or self._torn > 0

    def asked(self) -> bool:
        """Whether there is a request that was not seen yet."""
        if self._off:
            return False
        try:
            return self.control.epoch != self._seen
        except (LiveError, OSError) as cut:
            self._say(f"captures are off: {cut}")
            self._give_up()
            return False

    def poll(self, step: int, wall_ns: int) -> bool:
        """Step `step` has ended, which took so long. Whether the next one is longer for what a capture does."""
        if self._longer:
            self._walls.append(wall_ns)
        heard = self.asked()
        if heard:
            self._hear(self.control, step)
        if self._off:
            return heard
        if self._saving is not None:
            self._collect(self._saving)
            self._longer = True
        else:
            self._longer = (self._request is not None and self._go_on(self._request, step)) or heard or self._beside
        return self._longer

    @property
    def _beside(self) -> bool:
        """Whether something is done beside the steps for a capture that has not begun: it takes the interpreter."""
        working = [one for one in (self._ready, self._before) if one is not None and not one.done()]
        return bool(working) or self._lines is not None

    def _held(self) -> str:
        """How long the capture held the job: what the steps took that it made longer, beyond what they usually take."""
        lost_ns = sum(self._walls) - len(self._walls) * self._usual_ns if self._usual_ns else self._spent_ns
        return f"held the job for {max(lost_ns, 0) / 1e6:.0f} ms"

    def _hear(self, control: Control, step: int) -> None:
        """Take up what was asked, if it can be read."""
        try:
            found = control.request()
        except (LiveError, OSError) as damaged:
            self._seen = self._epoch_now()
            self._torn += 1
            if self._torn >= 3:
                self._say(f"captures are off: {damaged}")
                self._give_up()
            return
        if found is None:
            # Being written; a writer that died in the middle leaves it so.
            self._torn += 1
            if self._torn >= _PATIENCE:
                self._seen, self._torn = self._epoch_now(), 0
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
            self._answer("late", f"at step {step}")
            return
        self._request = request
        self._walls, self._usual_ns, self._spent_ns = [], 0, 0
        self._answer("accepted", f"at step {step}")
        out, needed = Path(request.out), request.largest_bytes
        self._ready = Beside(lambda: room(out, needed))

    def _epoch_now(self) -> int:
        with contextlib.suppress(LiveError, OSError):
            return self.control.epoch
        return self._seen

    def _go_on(self, request: Request, step: int) -> bool:
        """Start, mark or end the capture, as the step that begins now demands."""
        if self._backend is None:
            if step + 1 < request.start_step:
                if time.time_ns() > request.deadline_ns:
                    self._end("refused", f"its time was over at step {step}")
                elif self._before is None and request.start_step - step <= _SOON:
                    records = self._last()
                    self._before = Beside(lambda: (before(records), long_of(records)))
                    self._look()
                return False
            if step + 1 > request.start_step:
                self._end("refused", f"the count of steps jumped over {request.start_step}, to {step}")
                return False
            self._start(request)
            return True
        late = time.monotonic_ns() - self._began_ns > LONGEST_NS
        if step + 1 >= request.start_step + request.steps or late or step + 1 < request.start_step:
            self._finish(self._backend, request, step)
        else:
            self._contained(lambda: self._mark(step + 1))
        return True

    def _start(self, request: Request) -> None:
        def begin() -> None:
            ready, self._ready = self._ready, None
            if ready is None or not ready.done(_READY_S):
                raise CaptureError(f"the disk of {request.out} did not answer in time")
            ready.result()
            told: dict[str, int] = {}
            if self._before is not None and self._before.done(_READY_S):
                with contextlib.suppress(Exception):
                    told, self._long = self._before.result()
                    told = {**told, **(self._long.told() if told and self._long else {})}
            if self._lines is None:
                self._look()
            if self._loaders is not None:
                with contextlib.suppress(Exception):
                    told = {**told, **self._loaders.told(told.get("steps", 0))}
            python = self._lines.python if self._lines is not None else None
            ns = min(told.get("cpu_ns") or told.get("step_ns", 0), told.get("step_ns", 0))
            calls = calls_expected(python, ns, request.steps)
            stacks = request.level == "full" or calls <= _MOST_CALLS
            self._left_out = "" if stacks else f", without Python stacks, which would hold about {calls} calls"
            self._backend = choose(request, self._rank, sys.modules, told, stacks=stacks)
            self._usual_ns = told.get("middle_ns", 0)
            self._began_ns = time.monotonic_ns()
            # A profiler may take long to start: who watches must know that no step ends meanwhile.
            self._answer("started", f"step {request.start_step}")
            self._backend.start()
            self._backend.mark(request.start_step)
            self._spent_ns += time.monotonic_ns() - self._began_ns

        self._contained(begin, state="refused")

    def _look(self) -> None:
        """Begin to see at which lines the steps are, some steps ahead of the profiler, which lengthens them."""
        with contextlib.suppress(Exception):
            lines = Lines(threading.get_ident())
            lines.start()
            self._lines = lines
            if self._loaders is not None:
                self._loaders.begin()

    def _mark(self, step: int) -> None:
        if self._backend is not None:
            self._backend.mark(step)

    def _finish(self, backend: Backend, request: Request, step: int) -> None:
        def end() -> None:
            start = time.monotonic_ns()
            if self._lines is not None:
                self._lines.end()
                with contextlib.suppress(Exception):
                    long = spans_of(self._last(), self._long) if self._long else []
                    backend.note("hermes_lines", {**self._lines.told(), "long": long})
            backend.stop()
            self._spent_ns += time.monotonic_ns() - start
            self._saved = f"steps {request.start_step}-{step}"
            self._saving = Beside(lambda: _save(backend))

        self._contained(end)

    def _collect(self, saving: Beside[Path], patience_s: float = 0.0) -> None:
        """The trace is written beside the steps: see whether it is."""
        if not saving.done(patience_s):
            return

        def end() -> None:
            path = saving.result()
            self._backend = None
            self._end("finished", f"{self._saved}, {self._held()}{self._left_out}: {path.name}")

        self._contained(end)

    def _contained(self, call: Callable[[], None], state: str = "failed") -> None:
        """Whatever a profiler raises ends the capture, not the step."""
        try:
            with warnings_let_pass():
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
        saving, self._saving = self._saving, None
        self._ready = self._before = self._long = None
        lines, self._lines = self._lines, None
        if self._loaders is not None:
            self._loaders.end()
        if lines is not None:
            lines.end()
        # What is being written is written to its end; its profiler has stopped.
        if backend is not None and (saving is None or saving.done()):
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
            with contextlib.suppress(OSError):
                self.control.say(self._number, slot)

    def _give_up(self) -> None:
        """Listen no more."""
        self._drop()
        self._off = True

    def close(self) -> None:
        """The job ends: say so to who waits, and let go of the segment."""
        if self._saving is not None:
            self._collect(self._saving, _CLOSE_S)
        unfinished = self._request is not None and self._state not in FINAL
        self._drop()
        if unfinished:
            self._answer("gone", "the job ended")
        self._give_up()
        self.control.close()


def _save(backend: Backend) -> Path:
    """Write the trace; where a warning is an error, once more without: filters are the whole process's, steps go on."""
    try:
        return backend.save()
    except Warning:
        with warnings_let_pass():
            return backend.save()
