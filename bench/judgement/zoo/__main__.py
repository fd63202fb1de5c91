"""`python -m bench.judgement.zoo`: runs the zoo's programs, and compares Hermes' answers with the planted causes."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.judgement.zoo.entry import ENTRIES, Entry
from bench.judgement.zoo.measure import measure
from bench.judgement.zoo.page import into_page, line, summary_lines
from bench.judgement.zoo.runner import Nursery
from bench.judgement.zoo.score import Result
from bench.judgement.zoo.store import save, stored
from hermes.base.errors import HermesError


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each program as it is measured, and the figures; 1 when a program failed, 2 without PyTorch."""
    given = _parser().parse_args(arguments)
    if importlib.util.find_spec("torch") is None:
        sys.stderr.write("the zoo trains: pip install --group torch\n")
        return 2
    chosen = [entry for entry in ENTRIES if _wanted(entry, given.only, given.half)]
    if not chosen:
        sys.stderr.write(f"no such entry; there are {', '.join(entry.name for entry in ENTRIES)}\n")
        return 2
    begin = time.monotonic()
    results, failed = [], 0
    with Nursery() as nursery:
        for entry in chosen:
            found = stored(entry, given.results) if given.results else None
            found = found or _measured(nursery, entry, given)
            failed += found is None
            if found is not None:
                results.append(found)
                _say(line(found))
                if given.results:
                    save(found, given.results)
    for text in summary_lines(results):
        _say(text)
    minutes = (time.monotonic() - begin) / 60
    _say(f"{len(results)} entries in {minutes:.1f} minutes")
    if given.page:
        into_page(given.page, results, given.repeats)
    return 1 if failed else 0


def _measured(nursery: Nursery, entry: Entry, given: argparse.Namespace) -> Result | None:
    try:
        if given.keep:
            return measure(
                nursery, entry, (given.keep / entry.name).absolute(), repeats=given.repeats, own=not given.plain
            )
        with tempfile.TemporaryDirectory(prefix="hermes-zoo-") as folder:
            return measure(nursery, entry, Path(folder) / entry.name, repeats=given.repeats, own=not given.plain)
    except HermesError as broken:
        sys.stderr.write(f"{entry.name}: {broken}\n")
        return None


def _wanted(entry: Entry, only: Sequence[str], half: str) -> bool:
    return (not only or entry.name in only) and half in ("both", entry.half)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.judgement.zoo",
        description="Run training programs with a planted cause and their cure; compare with what Hermes says.",
    )
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this entry; again for another")
    parser.add_argument("--half", choices=("tuned", "held-out", "both"), default="both", help="which half (both)")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="repeats of each variant (5)")
    parser.add_argument("--plain", action="store_true", help="a bare trace only, and no capture by Hermes itself")
    parser.add_argument("--results", type=Path, metavar="FOLDER", help="keep results there, and measure none twice")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep traces, logs and captures there")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table into that page")
    return parser


if __name__ == "__main__":
    sys.exit(main())
