"""Carries out requests for captures, step by step, and answers each request in the rank's slot; never raises."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hermes.inside.error_guard import warnings_let_pass
from hermes.inside.monitor.garbage_collections import Collections
from hermes.inside.monitor.loaders import Loaders
from hermes.inside.monitor.steps_before_capture import long_of, means_before_capture, spans_of
from hermes.inside.profile.backends import Backend, choose, saved
from hermes.inside.profile.memory import fits_still, free_bytes, suffices
from hermes.inside.profile.sample_lines import Lines, calls_expected
from hermes.inside.wire.background_calls import BackgroundCall
from hermes.inside.wire.capture_levels import CaptureError, make_folder_with_room
from hermes.inside.wire.control import FINAL, LONGEST_NS, Control, Request, Slot
from hermes.inside.wire.errors import LiveError
from hermes.inside.wire.long_steps import LongSteps
from hermes.inside.wire.process import own_identity

_PATIENCE = 100
_READY_S = 0.25
"""Seconds that the first step of a capture waits for the disk, which has already had half a second or more to
answer."""
_SOON = 4
"""Number of steps before a capture at which Hermes computes what steps are like without the profiler."""
_MOST_CALLS = 1_000_000
"""Most calls of Python that Hermes records unasked: more would hold the job for many seconds, and fill its memory."""
_CLOSE_S = 30.0
"""Seconds that the end of the job waits for a trace that is being written."""


class Captures:
    """The rank's side of the control segment. Call `poll` after each step while a capture is `busy`.

    Disk access happens beside the training thread; only the work that belongs to the profiler's thread is done on it.
    """

    def __init__(
        self, control: Control, number: int, rank: int, say: Callable[[str], None],
        last: Callable[[], bytes] = bytes, loaders: Loaders | None = None, collections: Collections | None = None,
    ) -> None:  # fmt: skip
        """`last` returns the records of the last steps, and `loaders` measures batches: both go into a capture. While a
        capture records, `collections` times no garbage collections."""
        self.control = control
        self._last = last
        self._loaders = loaders
        self._collections = collections
        self._paused = False
        self._off = False
        self._number = number
        self._rank = rank
        self._pid, self._started = own_identity()
        self._say = say
        self._seen = control.epoch
        self._torn = 0
        self._epoch = 0
        self._told: dict[str, int] = {}
        self._state = "none"
        self._request: Request | None = None
        self._backend: Backend | None = None
        self._ready: BackgroundCall[None] | None = None
        self._before: BackgroundCall[tuple[dict[str, int], LongSteps | None]] | None = None
        self._long: LongSteps | None = None
        self._lines: Lines | None = None
        self._left_out = ""
        self._saving: BackgroundCall[Path] | None = None
        self._saved = ""
        self._free: int | None = None
        self._began_ns = 0
        self._usual_ns = self._spent_ns = 0
        self._longer = False
        self._walls: list[int] = []
        self._step = 0

    @property
    def busy(self) -> bool:
        """Whether `poll` must be called after each step: a capture is under way, or a request is unreadable."""
        return self._request is not None or self._saving is not None or self._torn > 0

    def asked(self) -> bool:
        """Whether there is a request that this rank has not seen yet."""
        if self._off:
            return False
        try:
            return self.control.epoch != self._seen
        except (LiveError, OSError) as cut:
            self._say(f"captures are off: {cut}")
            self._give_up()
            return False

    def poll(self, step: int, wall_ns: int) -> bool:
        """Go on after step `step`, which took `wall_ns`; returns whether a capture lengthens the next step."""
        self._step = step
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
        """Whether a thread prepares a capture that has not begun: the thread takes the interpreter from the step."""
        working = [one for one in (self._ready, self._before) if one is not None and not one.done()]
        return bool(working) or self._lines is not None

    def _held(self) -> str:
        """The words on how long the capture delayed the job: the lengthened steps' time beyond their usual time."""
        lost_ns = sum(self._walls) - len(self._walls) * self._usual_ns if self._usual_ns else self._spent_ns
        return f"held the job for {max(lost_ns, 0) / 1e6:.0f} ms"

    def _hear(self, control: Control, step: int) -> None:
        """Read a new request, and accept it for this rank if it is readable."""
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
            # The request is being written; a writer that died in the middle leaves it in this state.
            self._torn += 1
            if self._torn >= _PATIENCE:
                self._seen, self._torn = self._epoch_now(), 0
            return
        self._torn = 0
        self._seen, request = found
        if request.action == "cancel":
            if self._request is not None:
                self._end("cancelled", "")
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
        self._ready = BackgroundCall(lambda: make_folder_with_room(out, needed))

    def _epoch_now(self) -> int:
        with contextlib.suppress(LiveError, OSError):
            return self.control.epoch
        return self._seen

    def _go_on(self, request: Request, step: int) -> bool:
        """Start, mark or end the capture before step `step + 1`; returns whether it did."""
        backend = self._backend
        if backend is None:
            if step + 1 < request.start_step:
                if time.time_ns() > request.deadline_ns:
                    self._end("refused", f"its time was over at step {step}")
                elif self._before is None and request.start_step - step <= _SOON:
                    records = self._last()
                    self._before = BackgroundCall(lambda: (means_before_capture(records), long_of(records)))
                    self._look()
                return False
            if step + 1 > request.start_step:
                self._end("refused", f"the count of steps jumped over {request.start_step}, to {step}")
                return False
            self._start(request)
            return True
        late = time.monotonic_ns() - self._began_ns > LONGEST_NS
        if step + 1 >= request.start_step + request.steps or late or step + 1 < request.start_step:
            self._finish(backend, request, step)
        elif self._outgrows(backend, request, step):
            self._without_stacks(backend, request, step)
        elif self._full(backend, request, step):
            self._finish(backend, request, step, "since more would not fit in memory")
        else:
            self._contained(lambda: backend.mark(step + 1))
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
            # A step that compiles runs Python throughout, and may occur again.
            longest = calls_expected(1.0, told.get("longest_ns"), 1)
            self._told = told
            self._backend = self._chosen(request, told, calls, max(calls, longest))
            self._usual_ns = told.get("middle_ns", 0)
            self._began_ns = time.monotonic_ns()
            # A profiler may take long to start: watchers must know that no step ends meanwhile.
            self._answer("started", f"step {request.start_step}")
            # The job may have paused the timing of collections already, for a profiler of its own.
            self._paused = self._collections is not None and self._collections.pause()
            self._backend.start()
            self._backend.mark(request.start_step)
            self._spent_ns += time.monotonic_ns() - self._began_ns

        self._contained(begin, state="refused")

    def _chosen(self, request: Request, told: dict[str, int], calls: int, most: int) -> Backend:
        """The profiler for a request, without Python stacks if `calls` are too many or `most` calls would fill the
        memory.

        Raises `CaptureError` where the request asks for stacks by name and there is no memory for them.
        """

        def choice(*, stacks: bool) -> tuple[Backend, int]:
            backend = choose(request, self._rank, sys.modules, told, stacks=stacks)
            return backend, backend.needed_bytes(most)

        self._free = free = free_bytes()
        stacks = request.level == "full" or calls <= _MOST_CALLS
        backend, needed = choice(stacks=stacks)
        if stacks and not suffices(needed, free):
            stacks = False
            backend, needed = choice(stacks=stacks)
        if not suffices(needed, free):
            needed_gb, free_gb = needed / 1e9, (free or 0) / 1e9
            raise CaptureError(
                f"Python stacks would take about {needed_gb:.1f} GB of memory, and {free_gb:.1f} GB are free; "
                "--no-stack or fewer steps take less"
            )
        self._left_out = "" if stacks else f", without Python stacks, which would hold about {most} calls"
        return backend

    def _full(self, backend: Backend, request: Request, step: int) -> bool:
        """Whether one more step like the recorded steps would take more memory than there is."""
        recorded = step + 1 - request.start_step
        needed = backend.needed_bytes() * (recorded + 1) // max(1, recorded)
        return not fits_still(needed, self._free, free_bytes)

    def _outgrows(self, backend: Backend, request: Request, step: int) -> bool:
        """Whether, after the first captured step, all steps like it would make a larger trace than a rank may write.

        Steps before the capture do not tell: a model may be compiled again in the first captured step. Stacks that the
        request asks for by name stay.
        """
        first = step == request.start_step and request.options.get("stack") != "yes"
        return first and backend.file_bytes() * request.steps > request.largest_bytes

    def _without_stacks(self, backend: Backend, request: Request, step: int) -> None:
        """Drop the recorded step, and begin again with the next one, without Python stacks."""

        def again() -> None:
            start = time.monotonic_ns()
            backend.discard()
            self._request = later = replace(request, start_step=step + 1)
            self._backend = choose(later, self._rank, sys.modules, self._told, stacks=False)
            self._left_out = f", without Python stacks, which would take more than {request.largest_bytes // 10**6} MB"
            self._began_ns = time.monotonic_ns()
            self._backend.start()
            self._backend.mark(later.start_step)
            self._spent_ns += time.monotonic_ns() - start

        self._contained(again)

    def _look(self) -> None:
        """Start sampling the code lines of steps, some steps before the profiler, which lengthens steps."""
        with contextlib.suppress(Exception):
            lines = Lines(threading.get_ident())
            lines.start()
            self._lines = lines
            if self._loaders is not None:
                self._loaders.begin()

    def _finish(self, backend: Backend, request: Request, step: int, early: str = "") -> None:
        """End the recording; `early` says why the capture has fewer steps than the request."""

        def end() -> None:
            start = time.monotonic_ns()
            if self._lines is not None:
                self._lines.end()
                with contextlib.suppress(Exception):
                    long = spans_of(self._last(), self._long) if self._long else []
                    backend.note("hermes_lines", {**self._lines.told(), "long": long})
            backend.stop()
            self._listen()
            self._spent_ns += time.monotonic_ns() - start
            self._saved = f"steps {request.start_step}-{step}"
            if early:
                self._saved += f", {step - request.start_step + 1} of {request.steps}, {early}"
            self._saving = BackgroundCall(lambda: saved(backend))

        self._contained(end)

    def _collect(self, saving: BackgroundCall[Path], patience_s: float = 0.0) -> None:
        """Report the capture as finished once its trace is written, by a thread beside the steps."""
        if not saving.done(patience_s):
            return

        def end() -> None:
            path = saving.result()
            self._backend = None
            self._end("finished", f"{self._saved}, {self._held()}{self._left_out}: {path.name}")

        self._contained(end)

    def _contained(self, call: Callable[[], None], state: str = "failed") -> None:
        """Run `call`: an exception of the profiler ends the capture, not the step."""
        try:
            with warnings_let_pass():
                call()
        except CaptureError as refused:
            self._end(state, str(refused))
        except Exception as broken:  # noqa: BLE001 - a profiler's failure must not become the user's
            self._end("failed", f"{type(broken).__name__}: {broken}")

    def _end(self, state: str, text: str) -> None:
        self._drop()
        self._answer(state, text)
        if state == "failed":
            self._say(f"a capture failed and the job goes on: {text}")

    def _drop(self) -> None:
        """Discard the capture, if there is one."""
        backend, self._backend, self._request = self._backend, None, None
        saving, self._saving = self._saving, None
        self._ready = self._before = self._long = None
        lines, self._lines = self._lines, None
        if self._loaders is not None:
            self._loaders.end()
        if lines is not None:
            lines.end()
        # A trace that is being written is written to its end; its profiler has stopped.
        if backend is not None and (saving is None or saving.done()):
            try:
                backend.discard()
            except Exception as broken:  # noqa: BLE001 - as above
                self._say(f"a profiler could not be stopped ({type(broken).__name__}: {broken})")
        self._listen()

    def _listen(self) -> None:
        """Time garbage collections again: no profiler of Hermes records."""
        paused, self._paused = self._paused, False
        if paused and self._collections is not None:
            self._collections.listen()

    def _answer(self, state: str, text: str) -> None:
        self._state = state
        if not self._off:
            slot = Slot(
                rank=self._rank, pid=self._pid, started=self._started, epoch=self._epoch, state=state, text=text
            )
            with contextlib.suppress(OSError):
                self.control.say(self._number, slot)

    def _give_up(self) -> None:
        """Stop accepting capture requests in this process."""
        self._drop()
        self._off = True

    def close(self) -> None:
        """Finish at the job's end: write the recorded steps of a capture, answer the request, and close the segment."""
        if self._saving is None and self._backend is not None and self._request is not None:
            recorded = self._step - self._request.start_step + 1
            if recorded > 0:
                self._finish(self._backend, self._request, self._step, "since the job ended")
        if self._saving is not None:
            self._collect(self._saving, _CLOSE_S)
            if self._saving is not None:
                self._end("failed", "the job ended before the trace was written")
        unfinished = self._request is not None and self._state not in FINAL
        self._drop()
        if unfinished:
            self._answer("gone", "the job ended")
        self._give_up()
        self.control.close()
