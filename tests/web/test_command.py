"""`hermes serve` as a process: its link works, an interrupt ends it, and what is missing is said."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

pytestmark = pytest.mark.live

RUN = "from hermes.cli import command; command()"


@pytest.mark.smoke
def test_the_link_that_is_printed_works_and_an_interrupt_ends_it(job: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, "serve", str(job)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        link = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", process.stdout.readline())
        assert link
        with urllib.request.urlopen(link[0], timeout=300) as answer:
            assert "HttpOnly" in answer.headers["set-cookie"]
        process.stdout.readline()
        assert "another browser" in process.stdout.readline()
    finally:
        process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=300)[1]
    assert said == "hermes: interrupted\n"
    assert process.returncode == 130


def test_an_interrupt_while_the_input_is_read_is_no_crash(job: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, "serve", str(job)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"HERMES_CACHE_DIR": str(tmp_path)},
    )  # fmt: skip
    assert process.stdout is not None
    assert "token" in process.stdout.readline()
    # The server has to run before it can be told to end; the reading takes longer.
    process.stdout.readline()
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=300)[1]
    assert said == "hermes: interrupted\n"
    assert process.returncode == 130


def test_a_path_that_is_not_there_is_refused_before_a_link_is_printed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN, "serve", str(tmp_path / "nothing")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert "no such file" in done.stderr


@pytest.mark.parametrize("missing", ["fastapi", "uvicorn"])
def test_without_the_extra_it_says_what_to_install(job: Path, missing: str) -> None:
    hidden = f"import sys; sys.modules[{missing!r}] = None; {RUN}"
    done = subprocess.run(
        [sys.executable, "-c", hidden, "serve", str(job)], capture_output=True, text=True, check=False,
        env={**os.environ},
    )  # fmt: skip
    assert done.returncode == 2
    assert "pip install 'hermes-perf[web,timeline]'" in done.stderr


def test_the_other_commands_do_without_the_extra(job: Path) -> None:
    hidden = f"import sys; sys.modules['fastapi'] = None; sys.modules['uvicorn'] = None; {RUN}"
    done = subprocess.run(
        [sys.executable, "-c", hidden, "analyze", str(job)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
