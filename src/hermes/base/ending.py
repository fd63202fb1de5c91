"""Ends a command when it is told to: at once, with one line, and with neither processes nor folders left behind.

Python calls a handler of signals only in the main thread, and only between two steps of its own: a query that takes a
minute would be waited for. So the handler only stops the main thread there, and a thread that is told of the signal by
a pipe ends the process. What that thread needs is the interpreter, which libraries let go of while they compute.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE_S = 1.0
"""So long may what is left behind be cleared away; then the process ends without that."""
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SHOW_CURSOR = b"\x1b[?25h"

_left_behind: list[Callable[[], None]] = []
_ending = _thread.allocate_lock()


def arm() -> None:
    """From now on SIGINT, SIGTERM and SIGHUP end this process, unless it was started to ignore them.

    Call it in the main thread. A process that is forked from this one ignores SIGINT, which is told to all of a
    terminal's processes: its parent ends it.
    """
    told, telling = os.pipe()
    os.set_blocking(telling, False)
    signal.set_wakeup_fd(telling, warn_on_full_buffer=False)
    for number in _ENDS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stand_still)
    os.register_at_fork(after_in_child=_forked)
    # `threading` does not know this thread: it holds no lock and has nothing to finish, so a fork beside it is safe.
    _thread.start_new_thread(_listen, (told,))


def interrupted() -> NoReturn:
    """End after a `KeyboardInterrupt`: one that came before `arm`, or that a library has made of Ctrl-C."""
    _end(signal.SIGINT)


@contextlib.contextmanager
def when_told(do: Callable[[], None]) -> Iterator[None]:
    """Call `do` if the process is told to end meanwhile: in another thread, after its children are gone."""
    _left_behind.append(do)
    try:
        yield
    finally:
        _left_behind.remove(do)


@contextlib.contextmanager
def cleared(clear: Callable[[], None]) -> Iterator[None]:
    """Call `clear` at the end, and also if the process is told to end before."""
    try:
        with when_told(clear):
            yield
    finally:
        clear()


@contextlib.contextmanager
def folder_aside(prefix: str = "hermes-") -> Iterator[Path]:
    """A new folder that is only yours, and gone afterwards, however the command ends."""
    import shutil
    import tempfile
    from pathlib import Path

    folder = Path(tempfile.mkdtemp(prefix=prefix))
    with cleared(lambda: shutil.rmtree(folder, ignore_errors=True)):
        yield folder


def at_end(clear: Callable[[], None]) -> None:
    """Call `clear` when the process is told to end, whatever it does then."""
    _left_behind.append(clear)


@contextlib.contextmanager
def told_to(handler: Callable[[int], None]) -> Iterator[None]:
    """Have the signals go to a function: who runs a program of yours passes them on to it."""
    before = {number: signal.getsignal(number) for number in _ENDS}
    for number, was in before.items():
        if was is not signal.SIG_IGN:
            signal.signal(number, lambda number, _frame: handler(number))
    try:
        yield
    finally:
        for number, was in before.items():
            signal.signal(number, was)


def with_parent(channel: int) -> None:
    """End this process as soon as whoever has the other end of a socket or pipe is gone, however that ended."""

    def look() -> None:
        asked = select.poll()
        asked.register(channel, 0)
        while not any(state & (select.POLLHUP | select.POLLERR) for _, state in asked.poll()):
            time.sleep(PATIENCE_S)
        os._exit(1)

    _thread.start_new_thread(look, ())


def _stand_still(number: int, _frame: FrameType | None) -> NoReturn:
    """What the main thread does meanwhile; it also ends the process where what is cleared away takes too long."""
    time.sleep(PATIENCE_S)
    os._exit(128 + number)


def _listen(told: int) -> None:
    while True:
        for number in os.read(told, 64):
            if signal.getsignal(number) is _stand_still:
                _end(number)


def _forked() -> None:
    signal.set_wakeup_fd(-1)
    for number in _ENDS:
        if signal.getsignal(number) is _stand_still:
            signal.signal(number, signal.SIG_IGN if number == signal.SIGINT else signal.SIG_DFL)


def _end(number: int) -> NoReturn:
    if not _ending.acquire(blocking=False):
        _stand_still(number, None)
    _thread.start_new_thread(_stand_still, (number, None))
    with contextlib.suppress(OSError):
        if os.isatty(1):
            os.write(1, _SHOW_CURSOR)
        said = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
        # A terminal shows ^C where the cursor is.
        os.write(2, f"{chr(10) if os.isatty(2) else ''}hermes: {said}\n".encode())
    with contextlib.suppress(Exception):
        _end_children()
    for clear in reversed(_left_behind):
        with contextlib.suppress(Exception):
            clear()
    os._exit(128 + number)


def _end_children() -> None:
    """End what this process has started: what is of its session, what it owns, and all below. A browser goes on."""
    from hermes.base.processes import lives, under  # It imports more than a command needs before it can be ended.

    ended = under(os.getpid())
    for pid in ended:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + PATIENCE_S / 2
    while time.monotonic() < until and any(map(lives, ended)):
        time.sleep(0.005)
