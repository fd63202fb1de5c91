"""Analyses a capture in a process of its own, at the lowest priority, and says what was found in a line."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path

from hermes.base.isolated import isolated

LONGEST_S = 3600
"""How long an analysis may take: a raw capture is exported first, which takes minutes for each second recorded."""
_LOG_BYTES = 65536


def analysis(folder: Path, out: Path) -> subprocess.Popen[bytes]:
    """`hermes analyze` of that capture into that folder, begun: the job's cores are the job's. Raises `OSError`."""
    out.mkdir(parents=True, exist_ok=True)
    call = isolated("hermes", "analyze", str(folder), "-o", str(out), "--format", "json")
    # The job's environment may hold libkineto's: the analysis is no training.
    environment = {**os.environ, "HERMES_CAPTURE": "0"}
    with (out / "analysis.log").open("wb") as log:
        # A session of its own: what it has started ends with it, and an interrupt from the terminal is for the job.
        child = subprocess.Popen(
            call, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, env=environment,
            start_new_session=True,
        )  # fmt: skip
    with contextlib.suppress(OSError):
        # At once: it has no threads yet, and those that it starts have its priority.
        os.setpriority(os.PRIO_PROCESS, child.pid, 19)
    return child


def stop(child: subprocess.Popen[bytes]) -> None:
    """End an analysis and the tools that it has started."""
    with contextlib.suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def outcome(done: subprocess.Popen[bytes], out: Path) -> str:
    """What an analysis that has ended found, or why it failed."""
    if done.returncode == 0:
        return summary(out / "report.json")
    log = out / "analysis.log"
    if done.returncode == -signal.SIGKILL:
        return "the analysis was stopped before its end; hermes analyze the capture when the job has ended"
    said = _said(log)
    return f"the analysis failed: {said} ({log})" if said else f"the analysis failed: {log}"


def _said(log: Path) -> str:
    """What happened and what to do, as the command said on its standard error."""
    try:
        with log.open("rb") as file:
            lines = file.read(_LOG_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    what = next((line.removeprefix("hermes: ") for line in reversed(lines) if line.startswith("hermes: ")), "")
    do = next((line.partition(":")[2].strip() for line in lines if line.strip().startswith("what to do:")), "")
    return "; ".join(filter(None, (what, do)))


def summary(report: Path) -> str:
    """The first finding of a report in a line, or where the step goes when nothing was found."""
    try:
        document = json.loads(report.read_bytes())
        if document["findings"]:
            first = document["findings"][0]
            action = first["actions"][0]["title"] if first["actions"] else ""
            return f"{first['code']} {first['title']}" + (f" To do: {action}" if action else "") + _lacks(document)
        parts = sorted(document["critical_path"], key=lambda part: -part["ms"])[:3]
        named = ", ".join(
            " ".join(filter(None, (part["component"], part.get("reason"), f"{part['share']:.0%}"))) for part in parts
        )
        return (f"no rule fired; the step is {named}" if named else "no rule fired") + _lacks(document)
    except (OSError, ValueError, KeyError, TypeError) as broken:
        return f"the report cannot be read ({type(broken).__name__})"


def _lacks(document: dict[str, list[dict[str, str]]]) -> str:
    """What the whole device side is lacking for, where nothing of it could be read, and what to do."""
    for note in document.get("diagnostics", []):
        if note["level"] == "degraded" and note.get("lost") == "the device side of every step":
            return f" Without the device: {note['message']}" + (f"; {note['hint']}" if note.get("hint") else "")
    return ""
