"""Runs pytest, and runs the tests that failed once more, alone: `python tools/second_chance.py PYTEST-ARGUMENTS`.

For live tests only. A test that passes the second time is flaky: the run passes, and its last lines name the test.
More than three failed tests make the run fail at once, and so does a test that fails twice.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

MOST = 3
_FAILED = 1
"""What pytest ends with where tests failed; it has other numbers for other ends."""


def main(arguments: Sequence[str]) -> int:
    """The exit code of the run as a whole."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={folder}", *arguments]
        code = subprocess.run(command, check=False).returncode
        failed = failed_tests(Path(folder))
        if code != _FAILED or not 0 < len(failed) <= MOST:
            return code
        print(f"{len(failed)} failed; each runs once more, alone", flush=True)
        again = subprocess.run([*command, "--lf", "--lfnf=none", "--numprocesses=0"], check=False).returncode
        if again == 0:
            print("\n".join(f"flaky: {name}" for name in failed), flush=True)
        return again


def failed_tests(cache: Path) -> list[str]:
    """The tests that failed in the run before, as pytest keeps them."""
    kept = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(kept.read_bytes())) if kept.exists() else []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
