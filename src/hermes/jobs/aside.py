"""Analyses a capture in a process of its own, at the lowest priority, and says what was found in a line."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hermes.base.isolated import isolated
from hermes.base.message import Message, Text
from hermes.base.processes import begin
from hermes.base.say import read_told
from hermes.jobs.messages import (
    ANALYSIS_STOPPED,
    analysis_failed,
    found,
    no_rule_fired,
    report_unreadable,
    without_device,
)

LONGEST_S = 3600
"""How long an analysis may take: a raw capture is exported first, which takes minutes for each second recorded."""
_LOG_BYTES = 65536
_LOST_DEVICE = "read.lost.device"
"""What a note of a report says is lost where nothing of the device side could be read."""


def analysis(folder: Path, out: Path) -> subprocess.Popen[bytes]:
    """`hermes analyze` of that capture into that folder, begun: the job's cores are the job's. Raises `OSError`."""
    out.mkdir(parents=True, exist_ok=True)
    call = isolated("hermes", "analyze", str(folder), "-o", str(out), "--format", "json")
    # The job's environment may hold libkineto's: the analysis is no training.
    environment = {**os.environ, "HERMES_CAPTURE": "0"}
    with (out / "analysis.log").open("wb") as log:
        # What it has started ends with it, and an interrupt from the terminal is for the job.
        child = begin(call, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, env=environment)
    with contextlib.suppress(OSError):
        # At once: it has no threads yet, and those that it starts have its priority.
        os.setpriority(os.PRIO_PROCESS, child.pid, 19)
    return child


def stop(child: subprocess.Popen[bytes]) -> None:
    """End an analysis and the tools that it has started."""
    with contextlib.suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def outcome(done: subprocess.Popen[bytes], out: Path) -> Message:
    """What an analysis that has ended found, or why it failed."""
    if done.returncode == 0:
        return summary(out / "report.json")
    log = out / "analysis.log"
    if done.returncode == -signal.SIGKILL:
        return ANALYSIS_STOPPED
    return analysis_failed(log=str(log), why=_said(log))


def _said(log: Path) -> str:
    """What the command said on its standard error: for a reader to see, and not to decide by."""
    try:
        with log.open("rb") as file:
            lines = file.read(_LOG_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    what = next((line.removeprefix("hermes: ") for line in reversed(lines) if line.startswith("hermes: ")), "")
    do = next((line.partition(":")[2].strip() for line in lines if line.strip().startswith("what to do:")), "")
    return "; ".join(filter(None, (what, do)))


def summary(report: Path) -> Message:
    """The first finding of a report and what to do, or its verdict where no rule fired."""
    try:
        document = json.loads(report.read_bytes())
        without = _without_device(document)
        if not document["findings"]:
            said = no_rule_fired(verdict=_text(document["verdict"]["message"]))
        else:
            first = document["findings"][0]
            do = _text(first["actions"][0]["title"]) if first["actions"] else None
            said = found(code=first["code"], what=_text(first["message"]), do=do)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as broken:
        return report_unreadable(why=type(broken).__name__)
    return said if without is None else without_device(what=said, why=without[0], do=without[1])


def _without_device(document: Mapping[str, Any]) -> tuple[Text, Text | None] | None:
    """Why nothing of the device side could be read, and what to do; None where something could."""
    for note in document["diagnostics"]:
        if note["level"] == "degraded" and note["lost"].get("id") == _LOST_DEVICE:
            return _text(note["message"]), _text(note["hint"]) or None
    return None


def _text(told: Mapping[str, Any] | str) -> Text:
    return told if isinstance(told, str) else read_told(told)
