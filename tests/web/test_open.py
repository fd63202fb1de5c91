"""`hermes serve --open`: no other user learns the token, and no browser holds the server up."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.live

RUN = "from hermes.cli import command; command()"
NOBODY = 65534
BROWSER = """#!/bin/sh
echo "$@" >{told}
sleep 60
exit
"""
# What any user can do: read all command lines, and every file that they name.
OTHER_USER = r"""
import glob, re, urllib.parse
for line in glob.glob("/proc/[0-9]*/cmdline"):
    try:
        words = open(line, "rb").read().decode("utf-8", "replace")
    except OSError:
        continue
    for token in re.findall(r"token=([\w-]{20,})", words):
        print("in argv:", token)
    for address in re.findall(r"file://([^\0]*hermes-open[^\0]*)", words):
        print("page:", address)
        try:
            print("read:", open(urllib.parse.unquote(address)).read())
        except OSError as refused:
            print("refused:", type(refused).__name__)
"""


class Opened:
    """A server whose browser never returns."""

    def __init__(self, job: Path, folder: Path) -> None:
        self.told = folder / "told"
        browser = folder / "browser"
        browser.write_text(BROWSER.format(told=self.told))
        browser.chmod(0o755)
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUN, "serve", str(job), "--open"], stdout=subprocess.PIPE, text=True,
            env={**os.environ, "BROWSER": f"{browser} %s"}, start_new_session=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=(\S+)", self.process.stdout.readline())
        assert found
        self.link, self.port, self.token = found[0], found[1], found[2]

    def address(self) -> str:
        """What the browser was given."""
        for _ in range(600):
            if self.told.exists() and (said := self.told.read_text().strip()):
                return said
            time.sleep(0.05)
        raise AssertionError("no browser was started")

    def end(self) -> None:
        # What it has started is in its session, also where it has ended itself.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def opened(job: Path, tmp_path: Path) -> Iterator[Opened]:
    made = Opened(job, tmp_path)
    yield made
    made.end()


@pytest.mark.smoke
@pytest.mark.skipif(os.getuid() != 0, reason="only root can be two users")
def test_another_user_finds_no_token_and_cannot_read_the_page_that_has_it(opened: Opened) -> None:
    address = opened.address()
    found = subprocess.run(
        ["/usr/bin/python3", "-I", "-"], input=OTHER_USER, user=NOBODY, group=NOBODY, extra_groups=[],
        capture_output=True, text=True, check=True, cwd="/",
    ).stdout  # fmt: skip
    assert f"page: {address.removeprefix('file://')}" in found
    assert "refused: PermissionError" in found
    assert opened.token not in found


def test_the_page_is_for_this_user_alone_and_is_gone_once_its_link_was_used(opened: Opened) -> None:
    page = Path(opened.address().removeprefix("file://"))
    assert page.stat().st_mode & 0o777 == 0o600
    assert page.parent.stat().st_mode & 0o777 == 0o700
    assert f'url={opened.link}"' in page.read_text()
    # The browser still runs: the server answers all the same.
    with urllib.request.urlopen(opened.link, timeout=60) as answer:
        assert "HttpOnly" in answer.headers["set-cookie"]
    assert not page.parent.exists()


def test_an_interrupt_ends_the_server_while_its_browser_runs(opened: Opened) -> None:
    page = Path(opened.address().removeprefix("file://"))
    opened.process.send_signal(signal.SIGINT)
    assert opened.process.wait(60) == 130
    assert not page.parent.exists()


@pytest.mark.smoke
def test_a_browser_that_is_given_the_page_shows_the_app(chromium: Any, opened: Opened) -> None:
    context = chromium.new_context()
    page = context.new_page()
    page.goto(opened.address())
    page.wait_for_selector(".verdict h1, .failure", timeout=60_000)
    assert "token" not in page.url
    assert page.url.startswith(f"http://127.0.0.1:{opened.port}/")
    assert page.locator(".failure").count() == 0
    context.close()


def test_without_a_browser_it_says_to_open_the_link_yourself(job: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, "serve", str(job), "--open"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env={**os.environ, "BROWSER": "/nothing/here", "PATH": "/nothing"},
    )  # fmt: skip
    assert process.stderr is not None
    try:
        assert process.stderr.readline() == "no browser could be started here: open the link yourself\n"
    finally:
        process.kill()
        process.communicate()
