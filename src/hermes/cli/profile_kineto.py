"""The part of `hermes profile` that plays torch's daemon: finds the job, follows the capture, has it analysed."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes.base.foreign_text import shell_command
from hermes.cli.show import show_line

if TYPE_CHECKING:
    from hermes.jobs.api import Capture, Part


def record(socket_dir: Path | None, job: str, **asked: Any) -> int:
    """Record steps of that job; the exit code: 0 when every rank has finished, else 3. Raises `HermesError`."""
    from hermes.jobs.api import daemon as kineto

    endpoint = kineto.endpoint(socket_dir)
    try:
        daemon = kineto.Daemon(endpoint)
        show_line(f"listening for jobs that ask, which they do each {kineto.POLL_S:.0f} seconds")
        capture = kineto.begin(daemon, kineto.Ask(**asked), job, now_ns=time.time_ns())
        for part in capture.parts.values():
            _print(f"rank {part.rank}: process {part.facts.pid}, torch {part.facts.torch}: {part.facts.command[:80]}")
        try:
            _follow(capture)
            if (better := capture.better()) is not None:
                _print("the ranks did not begin at the same step: asking once more")
                capture.remove()
                capture = capture.again(better)
                _follow(capture)
        except KeyboardInterrupt:
            _print(f"what was handed out cannot be taken back: traces may still come, in {capture.folder}")
            return 130
        return _end(capture)
    finally:
        for why in endpoint.ignored:
            _print(f"ignored: {why}", file=sys.stderr)
        endpoint.close()


def _follow(capture: Capture) -> None:
    capture.hand_out()
    capture.follow(_tell)
    capture.drop_bystanders()


def _end(capture: Capture) -> int:
    from hermes.jobs.api import aside

    capture.write_manifest()
    for doubt in capture.doubts():
        _print(f"note: {doubt}")
    states = [part.state for part in capture.parts.values()]
    _print(f"capture: {capture.folder}")
    if "finished" in states:
        out = Path(f"{capture.folder}-report")
        child = aside.analysis(capture.folder, out)
        child.wait()
        _print(f"finding: {aside.outcome(child, out)}")
        _print(f"report:  {out / 'report.html'}")
        _print(f"next:    {shell_command('hermes', 'analyze', str(capture.folder))}")
    return 0 if states and all(state == "finished" for state in states) else 3


def _tell(part: Part) -> None:
    _print(f"rank {part.rank}: {part.state}{', ' if part.text else ''}{part.text}")


def _print(text: str, **where: Any) -> None:

    show_line(text, **where)
