"""Ends a command at once when SIGINT, SIGTERM or SIGHUP arrives: one line is printed, no process or folder is left.

Python calls a signal handler only in the main thread and only between two bytecodes, so a query of a minute would
delay the end. The handler here only stops the main thread. Another thread learns of the signal by a pipe and ends
the process; it needs only the interpreter lock, which libraries release while they compute.
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
"""Seconds for clearing away folders and processes after a signal; then the process ends, cleared or not."""
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SHOW_CURSOR = b"\x1b[?25h"

_left_behind: list[Callable[[], None]] = []
_ending = _thread.allocate_lock()
_ended_by = 0
"""The thread that ends the process."""


def end_process_on_signal() -> None:
    """Make SIGINT, SIGTERM and SIGHUP end this process from now on, unless it was started to ignore the signal.

    Call `end_process_on_signal` in the main thread. A process that is forked from this one ignores SIGINT, because a
    terminal sends SIGINT to all its processes: the parent ends the forked process.
    """
    told, telling = os.pipe()
    os.set_blocking(telling, False)
    signal.set_wakeup_fd(telling, warn_on_full_buffer=False)
    for number in _ENDS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stand_still)
    os.register_at_fork(after_in_child=_forked)
    # `threading` does not know this thread, which holds no lock and has nothing to finish: forking beside it is safe.
    _thread.start_new_thread(_listen, (told,))


def interrupted() -> NoReturn:
    """End the process after a `KeyboardInterrupt`: one before `end_process_on_signal`, or one that a library raised."""
    _end(signal.SIGINT)


@contextlib.contextmanager
def call_on_signal(do: Callable[[], None]) -> Iterator[None]:
    """Call `do` if a signal ends the process inside this block: in another thread, after the child processes ended."""
    _left_behind.append(do)
    try:
        yield
    finally:
        _left_behind.remove(do)


@contextlib.contextmanager
def clear_at_end(clear: Callable[[], None]) -> Iterator[None]:
    """Call `clear` at the end of this block, and also if a signal ends the process before."""
    try:
        with call_on_signal(clear):
            yield
    finally:
        clear()


@contextlib.contextmanager
def folder_aside(prefix: str = "hermes-") -> Iterator[Path]:
    """A new temporary folder for this process alone; it is deleted afterwards, however the command ends."""
    import secrets
    import shutil
    import tempfile
    from pathlib import Path

    folder = Path(tempfile.gettempdir(), f"{prefix}{secrets.token_hex(8)}")
    # What clears the folder stands ready before the folder exists: no moment leaves a folder behind.
    with clear_at_end(lambda: shutil.rmtree(folder, ignore_errors=True)):
        folder.mkdir(mode=0o700)
        yield folder


def hold_while_ending() -> None:
    """Hold this thread for good if another thread is ending the process, and has cleared away what there was."""
    while _ending.locked() and _ended_by != _thread.get_ident():
        time.sleep(PATIENCE_S)


def clear_on_signal(clear: Callable[[], None]) -> None:
    """Call `clear` when a signal ends the process, whatever the process does at that time."""
    _left_behind.append(clear)


@contextlib.contextmanager
def pass_signals_to(handler: Callable[[int], None]) -> Iterator[None]:
    """Send signals to `handler` inside this block, which may pass them on to a program of the user's."""
    before = {number: signal.getsignal(number) for number in _ENDS}
    for number, was in before.items():
        if was is not signal.SIG_IGN:
            signal.signal(number, lambda number, _frame: handler(number))
    try:
        yield
    finally:
        for number, was in before.items():
            signal.signal(number, was)


def end_with_parent(channel: int) -> None:
    """End this process as soon as the other end of a socket or pipe is closed, however the parent process ended."""

    def look() -> None:
        asked = select.poll()
        asked.register(channel, 0)
        while not any(state & (select.POLLHUP | select.POLLERR) for _, state in asked.poll()):
            time.sleep(PATIENCE_S)
        os._exit(1)

    _thread.start_new_thread(look, ())


def _stand_still(number: int, _frame: FrameType | None) -> NoReturn:
    """Hold the main thread while another thread ends the process; end the process itself if clearing takes too long."""
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
    global _ended_by
    _ended_by = _thread.get_ident()
    _thread.start_new_thread(_stand_still, (number, None))
    with contextlib.suppress(OSError):
        if os.isatty(1):
            os.write(1, _SHOW_CURSOR)
        said = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
        # A terminal prints ^C at the cursor.
        os.write(2, f"{chr(10) if os.isatty(2) else ''}hermes: {said}\n".encode())
    with contextlib.suppress(Exception):
        _end_children()
    for clear in reversed(_left_behind):
        with contextlib.suppress(Exception):
            clear()
    os._exit(128 + number)


def _end_children() -> None:
    """End the children in this session, those that `begin` started, and all below both. A browser goes on."""
    from hermes.base.processes import (  # Imported here, so `end_process_on_signal` is ready early.
        lives,
        processes_below,
    )

    ended = processes_below(os.getpid())
    for pid in ended:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + PATIENCE_S / 2
    while time.monotonic() < until and any(map(lives, ended)):
        time.sleep(0.005)
