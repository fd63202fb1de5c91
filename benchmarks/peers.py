"""The peers of Hermes in benchmarks: their packages, their environments, and their commands."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.inputs import MissingError
from benchmarks.measure import Sample

_SCRIPT = Path(__file__).with_name("hta_breakdown.py")
RESULT = "RESULT "


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A package on PyPI, and its command: `command(bin, input, out)`."""

    name: str
    version: str
    shown: str
    command: Callable[[Path, Path, Path], Sequence[str]]

    @property
    def title(self) -> str:
        """Name and version."""
        return f"{self.name} {self.version}"


def _advisor(programs: Path, path: Path, out: Path) -> Sequence[str]:
    return (str(programs / "msprof-analyze"), "advisor", "all", "-d", str(path), "-o", str(out))


def _hta(programs: Path, path: Path, out: Path) -> Sequence[str]:
    return (str(programs / "python"), str(_SCRIPT), str(path))


MSPROF = Peer(name="msprof-analyze", version="26.2.0", shown="advisor all", command=_advisor)
# HTA was renamed: the last release under the old name and the newest of all are both measured.
HTA = Peer(name="HolisticTraceAnalysis", version="0.5.0", shown="load + temporal breakdown", command=_hta)
HTA_RENAMED = Peer(name="traceinsight", version="0.6.1", shown="load + temporal breakdown", command=_hta)


def install(peer: Peer, folder: Path, say: Callable[[str], None]) -> Path:
    """The folder of programs in the peer's environment, which is made if it does not exist.

    Raises `MissingError` when it cannot be installed.
    """
    home = folder / f"{peer.name}-{peer.version}"
    frozen = home / "frozen.txt"
    if not frozen.exists():
        say(f"installing {peer.title}")
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
            pip = [str(home / "bin/python"), "-m", "pip", "--disable-pip-version-check"]
            wanted = f"{peer.name}=={peer.version}"
            subprocess.run([*pip, "install", "--quiet", wanted], check=True, stderr=subprocess.PIPE)
            listed = subprocess.run([*pip, "freeze"], check=True, capture_output=True, text=True)
        except subprocess.CalledProcessError as broken:
            raise MissingError(f"{peer.title} could not be installed (exit {broken.returncode})") from broken
        # This file is written last: it shows that the environment is complete, and lists its packages.
        frozen.write_text(listed.stdout, "utf-8")
    return home / "bin"


def remark(sample: Sample) -> str:
    """The remark of a peer's run, if Hermes' own script runs the peer; else why the run failed; else an empty text."""
    line = next((line for line in sample.tail.splitlines() if line.startswith(RESULT)), "")
    if not line:
        return f"failed, exit {sample.exit_code}" if sample.failed else ""
    told = json.loads(line.removeprefix(RESULT))
    loading = f"{told['load_s']:.1f} s of it loading"
    return f"{loading}; the breakdown then fails: {told['failed']}" if told["failed"] else loading
