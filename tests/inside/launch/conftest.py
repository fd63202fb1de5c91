"""Runs `hermes run` as a user starts it: by the script that an installation puts on the PATH."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.inside.conftest import Place
from tests.inside.conftest import place as place
from tests.patience import PATIENCE_S, until

SOURCE = Path(__file__).resolve().parents[3] / "src"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """A launcher of commands with and without Hermes."""

    place: Place
    script: Path

    @property
    def run(self) -> list[str]:
        return [sys.executable, str(self.script), "run"]

    def begin(
        self, *words: str, options: tuple[str, ...] = (), bare: bool = False, **how: Any
    ) -> subprocess.Popen[str]:
        command = [*words] if bare else [*self.run, *options, "--", *words]
        given = {"env": self.place.environment, "cwd": self.place.folder, "stderr": subprocess.PIPE, **how}
        return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, **given)

    def shell(self, text: str, *, bare: bool = False, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a line of a shell in which RUN stands for `hermes run --`, or for an empty text."""
        run = "" if bare else " ".join([*self.run, "--"])
        return subprocess.run(
            ["/bin/sh", "-c", text.replace("RUN", run)], env=self.place.environment | environment, text=True,
            cwd=self.place.folder, capture_output=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip


@pytest.fixture
def launcher(place: Place) -> Launcher:
    script = place.folder / "bin" / "hermes"
    script.parent.mkdir()
    # The script that pip writes: its folder is first on the path, followed by PYTHONPATH.
    script.write_text("import sys\nfrom _hermes_command import main\nsys.exit(main())\n")
    return Launcher(place=place, script=script)


def children(pid: int) -> list[int]:
    """The process numbers of a process's children."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def watching(folder: Path) -> int:
    """The watcher of the job in a folder, once it has loaded its modules: it ignores SIGTERM from then on."""
    (pid,) = until(lambda: beside("hermes.jobs.watcher_process", folder), PATIENCE_S)
    until(lambda: _ignores(pid, signal.SIGTERM), PATIENCE_S)
    return int(pid)


def _ignores(pid: int, number: int) -> bool:
    with contextlib.suppress(OSError):
        (mask,) = re.findall(r"SigIgn:\s+(\w+)", Path(f"/proc/{pid}/status").read_text())
        return bool(int(mask, 16) >> (number - 1) & 1)
    return False


def beside(word: str, folder: Path) -> list[int]:
    """The processes with that word and that folder on their command lines."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if word.encode() in line and os.fsencode(folder) in line:
            found.append(int(path.parent.name))
    return found
