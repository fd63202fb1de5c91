"""Runs pytest, and runs the tests that failed once more, alone: `python tools/second_chance.py PYTEST-ARGUMENTS`.

For live tests only. A test that passes the second time is flaky: the run passes, and its last lines name the test and
say why it had failed.
More than three failed tests make the run fail at once, and so does a test that fails twice.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

MOST = 3
_LONGEST = 300
_FAILED = 1
"""What pytest ends with where tests failed; it has other numbers for other ends."""


def main(arguments: Sequence[str]) -> int:
    """The exit code of the run as a whole."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={folder}", *arguments]
        first = Path(folder) / "first.xml"
        code = subprocess.run([*command, f"--junitxml={first}"], check=False).returncode
        failed = failed_tests(Path(folder))
        if code != _FAILED or not 0 < len(failed) <= MOST:
            return code
        print(f"{len(failed)} failed; each runs once more, alone", flush=True)
        again = subprocess.run([*command, "--lf", "--lfnf=none", "--numprocesses=0"], check=False).returncode
        if again == 0:
            why = reasons(first)
            print("\n".join(f"flaky: {name}: {why.get(_said(name), 'not told')}" for name in failed), flush=True)
        return again


def reasons(report: Path) -> dict[tuple[str, str], str]:
    """What failed in each test of a JUnit report, by the module and the name of the test.

    These are the first line of the failure and, where a message stands before it, the line of the assertion.
    """
    cases = ElementTree.parse(report).iter("testcase") if report.exists() else ()
    found = {}
    for case in cases:
        failure = next((case.find(kind) for kind in ("failure", "error") if case.find(kind) is not None), None)
        if failure is not None:
            lines = failure.get("message", "").splitlines()
            told = [*lines[:1], *(line for line in lines[1:] if line.startswith("assert "))][:2]
            found[case.get("classname", ""), case.get("name", "")] = "; ".join(line[:_LONGEST] for line in told)
    return found


def _said(name: str) -> tuple[str, str]:
    """How a JUnit report calls a test."""
    whole, bracket, values = name.partition("[")
    place, *classes, test = whole.split("::")
    return ".".join([place.removesuffix(".py").replace("/", "."), *classes]), f"{test}{bracket}{values}"


def failed_tests(cache: Path) -> list[str]:
    """The tests that failed in the run before, as pytest keeps them."""
    kept = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(kept.read_bytes())) if kept.exists() else []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
