"""Checks what a test run prints about skipped tests, and which skips a run with `--whole` accepts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.skips import NO_PROFILES, bound_by_modes

pytestmark = pytest.mark.live

_ROOT = Path(__file__).resolve().parents[1]
_CONFTEST = """
from tests.skips import Skips
def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Skips(whole={whole}))
"""
_OF_PROFILES = "import pytest\ndef test_real():\n    pytest.skip({reason!r})\ndef test_other():\n    pass\n"
_OF_MODULES = "import pytest\npytest.importorskip('no_such_library')\ndef test_it():\n    pass\n"


def _run(folder: Path, *, whole: bool, workers: int) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(_CONFTEST.format(whole=whole))
    own = os.environ | {"PYTHONPATH": str(_ROOT), "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "-p", "no:cacheprovider", "."]
    return subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("whole", [False, True])
def test_only_a_whole_run_fails_for_what_is_not_installed(tmp_path: Path, workers: int, whole: bool) -> None:
    (tmp_path / "test_real.py").write_text(_OF_PROFILES.format(reason=NO_PROFILES))
    done = _run(tmp_path, whole=whole, workers=workers)
    assert done.returncode == 0, done.stdout
    assert f"not run: 1 tests ({NO_PROFILES})" in done.stdout.splitlines()
    (tmp_path / "test_modules.py").write_text(_OF_MODULES)
    done = _run(tmp_path, whole=whole, workers=workers)
    assert done.returncode == int(whole), done.stdout
    assert ("this run must be whole, and was not: could not import 'no_such_library'" in done.stdout) is whole


def test_modes_bind_root_and_what_it_starts_and_then_no_more(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    listed = [sys.executable, "-c", "import os, sys; os.listdir(sys.argv[1])", str(closed)]
    with bound_by_modes():
        assert not os.access(closed, os.R_OK)
        with pytest.raises(PermissionError):
            list(closed.iterdir())
        assert b"PermissionError" in subprocess.run(listed, capture_output=True, check=False).stderr
    if os.geteuid() == 0:
        assert list(closed.iterdir()) == []
        assert subprocess.run(listed, check=False).returncode == 0
    closed.chmod(0o700)
