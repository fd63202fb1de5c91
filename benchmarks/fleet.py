"""Measures status and reports with a thousand simulated hosts, 5% of them dead or slow, and ten thousand ranks.

`python benchmarks/fleet.py`: each host is a process that answers as `hermes watch --once` does, 64 at a time.
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.fleet.hosts.test_scale import answer, picture, said

from hermes.fleet.hosts.command_transport import Commands
from hermes.fleet.job.status import document, look
from hermes.report.document_text import render_document

HOSTS = 1000
WITHIN_S = 9.0


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "said.json"
        path.write_text(json.dumps(said(0)))
        hosts = tuple(f"n{number:04}" for number in range(HOSTS))
        bad = set(hosts[7::20])
        ended: list[float] = []

        def argv(host: str, _: Sequence[str]) -> Sequence[str]:
            ended.append(time.monotonic())
            return ("sleep", "600") if host in bad else ("cat", str(path))

        begin = time.monotonic()
        transport = Commands(hosts=hosts, argv=argv, at_once=128)
        made = asyncio.run(look(transport, where="x", hermes=("hermes",), name="", within_s=WITHIN_S))
        print(f"{len(made.jobs)} of {HOSTS} hosts answered; the last was begun after {ended[-1] - begin:.1f} s, "
              f"and {len(made.silent)} were named after {time.monotonic() - begin:.1f} s")  # fmt: skip
    whole = picture(*(answer(f"n{first // 8:04}", said(first)) for first in range(0, 10_000, 8)))
    begin = time.monotonic()
    render_document(document(whole), Console(file=io.StringIO(), width=160))
    print(f"10,000 ranks are drawn in {time.monotonic() - begin:.2f} s")


if __name__ == "__main__":
    main()
