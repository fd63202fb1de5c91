"""The guard of tiers: a core test that leaves its process or sleeps fails, also where its code catches the refusal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.live

ROOT = Path(__file__).resolve().parents[1]
HEAD = """
import contextlib, multiprocessing, os, socket, subprocess, sys, threading, time
import pytest
"""
CONFTEST = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.tiers import Tiers

def pytest_configure(config):
    for mark in ("live", "smoke", "slow"):
        config.addinivalue_line("markers", mark)
    config.pluginmanager.register(Tiers())
"""
LEAVES = {
    "starts a process": [
        "subprocess.run([sys.executable, '-c', ''])",
        "os.system('true')",
        "os.fork() or os._exit(0)",
        "multiprocessing.get_context('spawn').Process(target=print).start()",
        "with contextlib.suppress(Exception): subprocess.run(['true'])",
    ],
    "uses a socket": ["socket.socket().bind(('127.0.0.1', 0))", "socket.create_connection(('127.0.0.1', 9))"],
    "sleeps": ["time.sleep(0)"],
}


def run(folder: Path, body: str, mark: str = "") -> str:
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_one.py").write_text(f"{HEAD}\n{mark}\ndef test_one():\n    {body}\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize(("told", "body"), [(told, body) for told, bodies in LEAVES.items() for body in bodies])
def test_a_core_test_that_does_what_only_a_live_test_may_do_fails(tmp_path: Path, told: str, body: str) -> None:
    said = run(tmp_path, body)
    assert f"a core test {told}" in said
    assert "mark the test `live`" in said


@pytest.mark.parametrize("mark", ["live", "smoke", "slow"])
def test_another_test_may(tmp_path: Path, mark: str) -> None:
    assert "1 passed" in run(tmp_path, "subprocess.run(['true']); time.sleep(0)", f"@pytest.mark.{mark}")


def test_a_core_test_may_read_clocks_and_use_threads_and_pairs_of_sockets(tmp_path: Path) -> None:
    body = "time.time(); threading.Thread(target=time.monotonic).start(); socket.socketpair()"
    assert "1 passed" in run(tmp_path, body)


def test_a_thread_that_a_live_test_left_behind_breaks_no_core_test(tmp_path: Path) -> None:
    mark = """
go, done = threading.Event(), threading.Event()
def late():
    go.wait()
    socket.socket().bind(("127.0.0.1", 0))
    done.set()
@pytest.mark.live
def test_before():
    threading.Thread(target=late, daemon=True).start()
"""
    assert "2 passed" in run(tmp_path, "go.set(); assert done.wait(60)", mark)
