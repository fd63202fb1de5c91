"""The border between the job and Hermes: whatever the job, its framework or Python calls of ours is made here.

What ours raises turns a part of Hermes off, and never reaches the job. What the job's own code raises goes through, and
the job's own call is made once. Nothing here is to fail: tests make all other functions raise, one after the other.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any


class Border:
    """That of one part of Hermes: `give_up` is told what was raised, and may itself raise."""

    __slots__ = ("_give_up",)

    def __init__(self, give_up: Callable[[Exception], object]) -> None:
        self._give_up = give_up

    def broke(self, broken: Exception) -> None:
        """Ours has raised. Raises it again where it is the job's: out of a handler of a signal that came meanwhile."""
        if _of_a_signal(broken):
            raise broken
        # There is nobody left to tell of what fails now.
        with contextlib.suppress(Exception):
            self._give_up(broken)

    def call(self, ours: Callable[..., Any], *args: Any) -> Any:
        """What `ours` returns; None where it raised."""
        try:
            return ours(*args)
        except Exception as broken:  # noqa: BLE001 - the job must not see it
            self.broke(broken)
            return None

    def entry(self, ours: Callable[..., Any]) -> Callable[..., Any]:
        """A function to hand out in the place of `ours`: a hook, a callback, what a thread runs."""
        broke = self.broke

        def entered(*args: Any, **kwargs: Any) -> Any:
            try:
                return ours(*args, **kwargs)
            except Exception as broken:  # noqa: BLE001 - the job must not see it
                broke(broken)
                return None

        return entered

    def tap(self, ours: Callable[[Any], object]) -> Callable[[Any], Any]:
        """The same of a hook that has to give back what it is given."""

        def tapped(value: Any) -> Any:
            self.call(ours, value)
            return value

        return tapped

    def around(
        self, original: Callable[..., Any], before: Callable[..., Any], after: Callable[..., object] | None = None
    ) -> Callable[..., Any]:
        """A function to stand in the place of `original`, which is called as ever.

        `before(args, kwargs)` says with anything but None that `after(given, args, kwargs, result, ended)` is to be
        called too, with what it said; `ended` is whether the original has not raised.
        """
        broke = self.broke

        def called(*args: Any, **kwargs: Any) -> Any:
            try:
                given = before(args, kwargs)
            except Exception as broken:  # noqa: BLE001 - the job must not see it
                given = None
                broke(broken)
            if given is None or after is None:
                return original(*args, **kwargs)
            result, ended = None, False
            try:
                result = original(*args, **kwargs)
                ended = True
                return result
            finally:
                try:
                    after(given, args, kwargs, result, ended)
                except Exception as broken:  # noqa: BLE001 - the job must not see it
                    broke(broken)

        return called

    def through(self, ours: Callable[[Callable[[], Any]], Any], original: Callable[[], Any]) -> Any:
        """What `ours(call)` returns, where `call()` is the original; where ours raises, what the original gives.

        However often it is called, and wherever ours raises, the original runs once.
        """
        once = _Once(original)
        try:
            return ours(once)
        except Exception as broken:
            if once.raised == id(broken):
                raise
            self.broke(broken)
        return once()

    def dispatcher(self, ours: Callable[..., Any]) -> Callable[..., Any]:
        """What a mode of torch's dispatcher calls: `ours(call, func, types, args, kwargs)`, as `through` does."""

        def dispatch(_mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = kwargs or {}
            return self.through(lambda call: ours(call, func, types, args, given), lambda: func(*args, **given))

        return dispatch


class _Once:
    """A call that is made once: its result is kept. Of what it raised only the identity, since it holds this frame."""

    __slots__ = ("_call", "_done", "_result", "raised")

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._done = False
        self._result: Any = None
        self.raised = 0

    def __call__(self) -> Any:
        if not self._done:
            try:
                self._result = self._call()
            except BaseException as own:
                self.raised = id(own)
                raise
            self._done = True
        return self._result


def _of_a_signal(broken: BaseException) -> bool:
    """Whether a handler of a signal raised it: Python runs these wherever the main thread stands, in ours too."""
    signal = sys.modules.get("signal")
    codes, at = set(), broken.__traceback__
    for number in signal.valid_signals() if signal is not None else ():
        handler = signal.getsignal(number)  # type: ignore[union-attr]
        codes.add(getattr(getattr(handler, "__func__", handler), "__code__", None))
    while at is not None:
        if at.tb_frame.f_code in codes:
            return True
        at = at.tb_next
    return False


@contextlib.contextmanager
def warnings_let_pass() -> Iterator[None]:
    """Where the job makes warnings errors, those that ours calls forth in a framework are none."""
    import warnings

    if any(one[0] == "error" for one in warnings.filters):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    else:
        yield


def silent(_broken: Exception) -> None:
    """Gives up what nobody waits for."""
