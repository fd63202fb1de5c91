"""Analyzes a capture in a separate process at the lowest priority, and sums the result up in one line."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hermes.base.isolated_python import isolated
from hermes.base.message import Message, Text
from hermes.base.processes import start_session
from hermes.base.say import read_told
from hermes.jobs.detect.causes import Spent
from hermes.jobs.detect.changed_step_parts import LEAVES, ChangedSteps, sentence
from hermes.jobs.detect.job_alarms import Notice
from hermes.jobs.detect.messages import mostly
from hermes.jobs.messages import (
    ANALYSIS_KILLED,
    ANALYSIS_STOPPED,
    analysis_failed,
    analysis_signal,
    changed_then,
    found,
    no_rule_fired,
    report_unreadable,
    without_device,
)
from hermes.jobs.notice_findings import finding_of

LONGEST_S = 3600
"""Longest time in s of an analysis: a raw capture is exported first, which takes minutes for each recorded second."""
_LOG_BYTES = 65536
_HALF = 0.5
_LOST_DEVICE = "read.lost.device"
"""Identifier in a report's note that says that the device side could not be read."""


def analysis(folder: Path, out: Path) -> subprocess.Popen[bytes]:
    """Start `hermes analyze` of a capture, at the lowest priority: the cores belong to the job. Raises `OSError`."""
    out.mkdir(parents=True, exist_ok=True)
    call = isolated("hermes", "analyze", str(folder), "-o", str(out), "--format", "json")
    # The job's environment may hold settings of libkineto: the analysis is no training.
    environment = {**os.environ, "HERMES_CAPTURE": "0"}
    with (out / "analysis.log").open("wb") as log:
        # The tools that the analysis starts end with it, and an interrupt from the terminal is for the job alone.
        child = start_session(call, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, env=environment)
    with contextlib.suppress(OSError):
        # Set the priority at once: the child has no threads yet, and later threads inherit the priority.
        os.setpriority(os.PRIO_PROCESS, child.pid, 19)
    return child


def stop(child: subprocess.Popen[bytes]) -> None:
    """Stop an analysis and all tools that it started."""
    with contextlib.suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def outcome(done: subprocess.Popen[bytes], out: Path, about: Notice | None = None, *, stopped: bool = False) -> Message:
    """The result of an ended analysis, or why it failed; after an alarm, the change comes first.

    `stopped`: the waiting process has stopped the analysis.
    """
    if stopped:
        said: Message = ANALYSIS_STOPPED
    else:
        said = _outcome(done, out, about.changed.part if about is not None and about.changed else None)
    if about is None:
        return said
    if about.changed is None:
        return changed_then(changed=finding_of(about).message, found=said)
    leaf = leaf_of(out / "report.json", about.changed) if done.returncode == 0 else None
    return changed_then(changed=sentence(about.changed, about.cause, leaf), found=said)


def _outcome(done: subprocess.Popen[bytes], out: Path, part: Spent | None) -> Message:
    if done.returncode == 0:
        return summary(out / "report.json", part)
    log = out / "analysis.log"
    return analysis_failed(log=str(log), why=_said(log) or _last(log), how=_how(done.returncode))


def _how(code: int) -> Message | None:
    """The signal that ended a command, as a message; the system kills the process that takes the last memory."""
    if code == -signal.SIGKILL:
        return ANALYSIS_KILLED
    with contextlib.suppress(ValueError):
        return analysis_signal(signal=signal.Signals(-code).name) if code < 0 else None
    return None


def _last(log: Path) -> str:
    """The last line of a failed command's output; for a traceback, the error."""
    try:
        with log.open("rb") as file:
            file.seek(max(log.stat().st_size - _LOG_BYTES, 0))
            lines = file.read(_LOG_BYTES).decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")


def _said(log: Path) -> str:
    """The command's standard error: text for a reader, never the basis of a decision."""
    try:
        with log.open("rb") as file:
            lines = file.read(_LOG_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    what = next((line.removeprefix("hermes: ") for line in reversed(lines) if line.startswith("hermes: ")), "")
    do = next((line.partition(":")[2].strip() for line in lines if line.strip().startswith("what to do:")), "")
    return "; ".join(filter(None, (what, do)))


def summary(report: Path, part: Spent | None = None) -> Message:
    """The first finding of a report and what to do, or the report's verdict where no rule fired.

    After an alarm about a `part` of the steps, the first finding about leaves of that part is chosen. A preview finding
    is chosen only if it is about these leaves.
    """
    try:
        document = json.loads(report.read_bytes())
        without = _without_device(document)
        first = _first(document["findings"], part)
        if first is None:
            said = no_rule_fired(verdict=_text(document["verdict"]["message"]))
        else:
            do = _text(first["actions"][0]["title"]) if first["actions"] else None
            said = found(code=first["code"], what=_text(first["message"]), do=do)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as broken:
        return report_unreadable(why=type(broken).__name__)
    return said if without is None else without_device(what=said, why=without[0], do=without[1])


def _first(findings: Sequence[Mapping[str, Any]], part: Spent | None) -> Mapping[str, Any] | None:
    leaves = {leaf.value for leaf in LEAVES.get(part, ())} if part is not None else set()
    about = [one for one in findings if one.get("leaf") in leaves]
    stable = [one for one in findings if one.get("state") != "preview"]
    return next(iter(about or stable), None)


def leaf_of(report: Path, changed: ChangedSteps) -> Message | None:
    """The largest leaf of the part that grew, in the capture's report, if the leaf holds half of the growth."""
    if changed.part not in (Spent.HOST_COMPUTE, Spent.BLOCKED):
        return None
    leaves = {leaf.value: leaf for leaf in LEAVES[changed.part]}
    try:
        rows = json.loads(report.read_bytes())["tree"]
        shares: dict[str, float] = {}
        for row in rows:
            if row["leaf"] in leaves:
                shares[row["leaf"]] = shares.get(row["leaf"], 0.0) + float(row["share"])
        most = max(shares, key=lambda name: shares[name], default="")
        if not most or shares[most] < _HALF * (1 - changed.before_ns / max(changed.after_ns, 1)):
            return None
        place = max((row for row in rows if row["leaf"] == most), key=lambda row: float(row["share"]))
        name = str(place["place"] or place["what"] or "") or None
        return mostly(leaf=leaves[most].message, share=shares[most], place=name)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _without_device(document: Mapping[str, Any]) -> tuple[Text, Text | None] | None:
    """Why the device side could not be read at all, and what to do; None where a part could be read."""
    for note in document["diagnostics"]:
        if note["level"] == "degraded" and note["lost"].get("id") == _LOST_DEVICE:
            return _text(note["message"]), _text(note["hint"]) or None
    return None


def _text(told: Mapping[str, Any] | str) -> Text:
    return told if isinstance(told, str) else read_told(told)
