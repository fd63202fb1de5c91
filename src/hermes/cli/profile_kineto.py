"""The part of `hermes profile` that acts as torch's daemon: finds the job, follows the capture, and has it analysed."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from hermes.base.end_on_signal import call_on_signal
from hermes.base.sanitize_text import shell_command
from hermes.cli.exit_codes import Exit
from hermes.cli.print_output import show_line

if TYPE_CHECKING:
    from hermes.base.message import Text
    from hermes.jobs.api import Capture, RankProgress


def record(socket_dir: Path | None, job: str, **asked: Any) -> Exit:
    """Record steps of a job; the exit code says whether every rank has finished. Raises `HermesError`."""
    from hermes.jobs.api import daemon as kineto
    from hermes.jobs.api import kineto_messages as messages

    endpoint = kineto.endpoint(socket_dir)
    try:
        daemon = kineto.Daemon(endpoint)
        _print(messages.listening(n=round(kineto.POLL_S)))
        capture = kineto.begin(daemon, kineto.TraceRequest(**asked), job, now_ns=time.time_ns())
        for part in capture.parts.values():
            facts = part.facts
            _print(
                messages.asks(rank=part.rank, pid=str(facts.pid), torch=facts.torch, command=facts.command[:80])
            )  # fmt: skip
        with call_on_signal(lambda: _print(messages.cannot_take_back(folder=str(capture.folder)))):
            _follow(capture)
            if (better := capture.better()) is not None:
                _print(messages.AGAIN)
                capture.remove()
                capture = capture.again(better)
                _follow(capture)
        return _end(capture)
    finally:
        for why in endpoint.ignored:
            _print(messages.ignored(why=why), to=sys.stderr)
        endpoint.close()


def _follow(capture: Capture) -> None:
    capture.hand_out()
    capture.follow(_tell)
    capture.drop_bystanders()


def _end(capture: Capture) -> Exit:
    from hermes.jobs.api import analyze_capture, capture_messages, kineto_messages, messages

    capture.write_manifest()
    for doubt in capture.doubts():
        _print(kineto_messages.doubt(what=doubt))
    states = [part.state for part in capture.parts.values()]
    _print(capture_messages.capture_is(folder=str(capture.folder)))
    if "finished" in states:
        out = Path(f"{capture.folder}-report")
        child = analyze_capture.analysis(capture.folder, out)
        child.wait()
        _print(messages.finding(found=analyze_capture.outcome(child, out)))
        _print(messages.report(path=str(out / "report.html")))
        _print(capture_messages.next_is(command=shell_command("hermes", "analyze", str(capture.folder))))
    return Exit.DONE if states and all(state == "finished" for state in states) else Exit.PARTLY


def _tell(part: RankProgress) -> None:
    from hermes.jobs.api import daemon as kineto

    _print(kineto.answer_of(part))


def _print(text: Text, *, to: TextIO | None = None) -> None:
    from hermes.cli.shared_options import teller

    show_line(teller(None)(text), to=to)
