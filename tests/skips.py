"""Lists the allowed reasons to skip a test; with `--whole` a run fails that skips a test for another reason.

`make test-all` installs everything that tests need. So only real profiles, kubectl and a Python that is too old for
Hermes can be missing. A user who is not root also skips tests for root.
"""

from __future__ import annotations

import ctypes
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NO_PROFILES = "the real profiles are not beside the repository"
NO_KUBECTL = "kubectl is not here, and Debian has none that is new enough"
NOT_ROOT = "only root may do this"
NO_OLD_PYTHON = "there is no Python here that is too old"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason=NOT_ROOT)
_SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def profiles() -> Path:
    """The folder of real profiles beside the repository; skips where it does not exist."""
    if not _SHARED.is_dir():
        pytest.skip(NO_PROFILES)
    return _SHARED


class Skips:
    """A pytest plugin that counts the skipped tests of a run by their reasons."""

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole
        self._reasons: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count one test, in whatever process it ran."""
        if report.skipped and not hasattr(report, "wasxfail"):
            self._count(report.longrepr)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Count a file that is skipped as a whole."""
        if report.skipped:
            self._count(report.longrepr)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run with `--whole` that skipped a test for another reason."""
        if self._whole and self._wrong() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print one line: which tests were not run, and why."""
        told = "; ".join(f"{count} tests ({reason})" for reason, count in self._reasons.most_common())
        wrong = self._whole and self._wrong()
        terminalreporter.write_line(f"not run: {told or 'nothing'}", red=bool(wrong))
        if wrong:
            terminalreporter.write_line(f"this run must be whole, and was not: {'; '.join(wrong)}", red=True)

    def _count(self, why: object) -> None:
        text = why[2] if isinstance(why, tuple) else str(why)
        self._reasons[text.removeprefix("Skipped: ").splitlines()[0]] += 1

    def _wrong(self) -> list[str]:
        allowed = {NO_PROFILES, NO_OLD_PYTHON, NO_KUBECTL} | ({NOT_ROOT} if os.geteuid() != 0 else set())
        return sorted(set(self._reasons) - allowed)


@contextmanager
def bound_by_modes() -> Iterator[None]:
    """Apply permission bits to this thread and its child processes, even if it is root's.

    Root without two capabilities is a user like others. Linux keeps capabilities for each thread; a process that root
    starts would get them back, unless a bit prevents this.
    """
    if os.geteuid() != 0:
        yield
        return
    system = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_V3, 0)
    sets = (ctypes.c_uint32 * 6)()

    def call(name: str, *arguments: object) -> None:
        if getattr(system, name)(*arguments):
            raise OSError(ctypes.get_errno(), f"{name} is refused")

    call("capget", header, sets)
    kept = list(sets)
    before = system.prctl(_GET_SECUREBITS, 0, 0, 0, 0)
    call("prctl", _SET_SECUREBITS, before | _NO_ROOT, 0, 0, 0)
    sets[0] &= ~_READ_AND_WRITE_ANYTHING
    call("capset", header, sets)
    try:
        yield
    finally:
        sets[:] = kept
        call("capset", header, sets)
        call("prctl", _SET_SECUREBITS, before, 0, 0, 0)


_CAPABILITIES_V3 = 0x20080522
_READ_AND_WRITE_ANYTHING = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
_GET_SECUREBITS, _SET_SECUREBITS = 27, 28
_NO_ROOT = 1 << 0 | 1 << 2  # SECBIT_NOROOT, and SECBIT_NO_SETUID_FIXUP for access(2)
