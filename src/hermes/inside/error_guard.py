"""Guards every call that the job, its framework or Python makes into Hermes: no exception of Hermes reaches the job.

An exception in Hermes turns a part of Hermes off. An exception of the job's own code goes through, and the job's own
call is made once. The functions in this file must not fail: tests make all other functions raise, one after the other.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any


class Border:
    """The guard of one part of Hermes: `give_up` gets the exception, and may itself raise."""

    __slots__ = ("_give_up",)

    def __init__(self, give_up: Callable[[Exception], object]) -> None:
        self._give_up = give_up

    def broke(self, broken: Exception) -> None:
        """Handle an exception inside Hermes. An exception of the job, from a signal handler that ran meanwhile, is
        raised again."""
        if _of_a_signal(broken):
            raise broken
        # Nobody is left to tell of an exception in `give_up`.
        with contextlib.suppress(Exception):
            self._give_up(broken)

    def call(self, ours: Callable[..., Any], *args: Any) -> Any:
        """The result of `ours`; None where `ours` raised."""
        try:
            return ours(*args)
        except Exception as broken:  # noqa: BLE001 - the job must not see it
            self.broke(broken)
            return None

    def entry(self, ours: Callable[..., Any]) -> Callable[..., Any]:
        """A guarded version of `ours` to give to the job as a hook, a callback or the function of a thread."""
        broke = self.broke

        def entered(*args: Any, **kwargs: Any) -> Any:
            try:
                return ours(*args, **kwargs)
            except Exception as broken:  # noqa: BLE001 - the job must not see it
                broke(broken)
                return None

        return entered

    def tap(self, ours: Callable[[Any], object]) -> Callable[[Any], Any]:
        """A guarded version of a hook `ours` that must return its own argument."""

        def tapped(value: Any) -> Any:
            self.call(ours, value)
            return value

        return tapped

    def around(
        self, original: Callable[..., Any], before: Callable[..., Any], after: Callable[..., object] | None = None
    ) -> Callable[..., Any]:
        """A function that replaces `original`, calls it unchanged, and calls `before` and `after` around it.

        When `before(args, kwargs)` returns a value other than None, `after(given, args, kwargs, result, ended)` is
        called with that value as `given`; `ended` is whether the original has not raised.
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
        """The result of `ours(call)`, where `call()` runs the original; where `ours` raises, the result of the
        original.

        The original runs once, however often `call` is called and wherever `ours` raises.
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
        """A handler for a mode of torch's dispatcher that calls `ours(call, func, types, args, kwargs)`, guarded as in
        `through`."""

        def dispatch(_mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = kwargs or {}
            return self.through(lambda call: ours(call, func, types, args, given), lambda: func(*args, **given))

        return dispatch


class _Once:
    """A call that runs once and keeps its result. Only the identity of an exception is kept, because the exception
    holds this frame."""

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
    """Whether a signal handler raised this exception: Python runs handlers wherever the main thread stands, also in
    Hermes."""
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
    """Ignore warnings that Hermes causes in a framework, where the job turns warnings into errors."""
    import warnings

    if any(one[0] == "error" for one in warnings.filters):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    else:
        yield


def silent(_broken: Exception) -> None:
    """Ignore an exception in work whose result nobody waits for."""
