"""`python -m bench.paper`: reproduces published figures, predicts their fix, and compares with the figures after it."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.judgement.programs.__main__ import measure
from bench.judgement.programs.truth import Program
from bench.paper.cases import CASES, Case
from bench.paper.outcome import Outcome, outcome, row, text
from hermes_testing import generate, simulate
from hermes_testing.markdown import replace_block
from hermes_testing.truth import step_ns

PROGRAMS = Path(__file__).resolve().parent / "programs"
_HERMES = str(Path(sys.executable).parent / "hermes")
_PATIENCE_S = 900.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 when a case could not be measured, 2 without PyTorch. A wrong prediction is no failure."""
    parser = argparse.ArgumentParser(prog="python -m bench.paper", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this case; again for another")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table into that page")
    given = parser.parse_args(arguments)
    chosen = [case for case in CASES if not given.only or case.name in given.only]
    if not chosen:
        sys.stderr.write(f"no such case; there are {', '.join(case.name for case in CASES)}\n")
        return 2
    if any(case.program for case in chosen) and importlib.util.find_spec("torch") is None:
        sys.stderr.write("two cases train: pip install --group torch\n")
        return 2
    found: list[Outcome] = []
    for case in chosen:
        with TemporaryDirectory(prefix="hermes-paper-") as folder:
            document = _captured(case, Path(folder)) if case.program else modelled(case, Path(folder))
            plan = planned(Path(folder)) if case.search else None
        if document is None:
            sys.stderr.write(f"{case.name}: not captured\n")
            continue
        found.append(outcome(case, document, _after_ms(case), plan))
        print(*row(found[-1]), sep=" | ", flush=True)
    if not found:
        return 1
    said = text(found, cores=len(os.sched_getaffinity(0)), load=os.getloadavg()[0])
    print("", said, sep="\n")
    if given.page:
        given.page.write_text(replace_block(given.page.read_text("utf-8"), "paper", said), "utf-8")
    return 0 if len(found) == len(chosen) else 1


def _captured(case: Case, folder: Path) -> Any:
    """The report about a program, captured by `hermes run` and `hermes profile`; None without a report."""
    entry = Program(name=case.program, mistake=case.published)
    if not measure(entry, folder, scripts=PROGRAMS).said:
        return None
    return json.loads((folder / f"{case.program}.json").read_text("utf-8"))


def modelled(case: Case, folder: Path) -> Any:
    """The report about a modelled job, as files of torch_npu's profiler."""
    assert case.job is not None
    generate(folder / "job", case.job, formats=["ascend-text"], truth=False)
    command = [_HERMES, "analyze", str(folder / "job"), "--format", "json"]
    return json.loads(subprocess.run(command, capture_output=True, check=True, timeout=_PATIENCE_S).stdout)


def planned(folder: Path) -> Any:
    """The communication plan of the modelled job in a folder."""
    command = [_HERMES, "whatif", str(folder / "job"), "--search", "communication", "--format", "json"]
    return json.loads(subprocess.run(command, capture_output=True, check=True, timeout=_PATIENCE_S).stdout)


def _after_ms(case: Case) -> float:
    """The measured step after the fix: of the program without Hermes, or of the modelled job."""
    if case.cured is not None:
        return step_ns(simulate(case.cured).profiles) / 1e6
    command = [sys.executable, str(PROGRAMS / f"{case.program}.py"), "--after"]
    return float(subprocess.run(command, capture_output=True, check=True, timeout=_PATIENCE_S).stdout)


if __name__ == "__main__":
    sys.exit(main())
