"""Analyses a capture in a process of its own, at the lowest priority, and says what was found in a line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

_SCRIPT = "import os; os.nice(19); from hermes.cli import command; command()"


def analysis(folder: Path, out: Path) -> subprocess.Popen[bytes]:
    """`hermes analyze` of that capture into that folder, begun: the job's cores are the job's. Raises `OSError`."""
    out.mkdir(parents=True, exist_ok=True)
    call = [sys.executable, "-c", _SCRIPT, "analyze", str(folder), "-o", str(out), "--format", "json"]
    # The job's own PYTHONPATH may hold the boot, and its environment libkineto's: the analysis is no training.
    environment = {**os.environ, "HERMES_CAPTURE": "0"}
    with (out / "analysis.log").open("wb") as log:
        return subprocess.Popen(call, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, env=environment)


def outcome(done: subprocess.Popen[bytes], out: Path) -> str:
    """What an analysis that has ended found, or where it says why it failed."""
    return summary(out / "report.json") if done.returncode == 0 else f"the analysis failed: {out}/analysis.log"


def summary(report: Path) -> str:
    """The first finding of a report in a line, or where the step goes when nothing was found."""
    try:
        document = json.loads(report.read_bytes())
        if document["findings"]:
            first = document["findings"][0]
            action = first["actions"][0]["title"] if first["actions"] else ""
            return f"{first['code']} {first['title']}" + (f" To do: {action}" if action else "")
        parts = sorted(document["critical_path"], key=lambda part: -part["ms"])[:3]
        named = ", ".join(
            " ".join(filter(None, (part["component"], part.get("reason"), f"{part['share']:.0%}"))) for part in parts
        )
        return f"no rule fired; the step is {named}" if named else "no rule fired"
    except (OSError, ValueError, KeyError, TypeError) as broken:
        return f"the report cannot be read ({type(broken).__name__})"
