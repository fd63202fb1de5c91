"""`python -m bench.live`: watches, captures and analyses 24 programs, and says whether their headlines are right."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.live.entries import ENTRIES, FIRST_CONTACT, Entry
from bench.live.watched import Answer, ask


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each program, and the figures; 1 when a program could not be captured, 2 without PyTorch."""
    parser = argparse.ArgumentParser(prog="python -m bench.live", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this program; again for another")
    parser.add_argument(
        "--contact", action="store_true", help="run the twelve programs of the last first contact instead"
    )
    parser.add_argument("--no-gain", action="store_true", help="leave the cures out: half the time")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep captures and reports in this folder")
    given = parser.parse_args(arguments)
    if importlib.util.find_spec("torch") is None:
        sys.stderr.write("the programs train: pip install --group torch\n")
        return 2
    entries = FIRST_CONTACT if given.contact else ENTRIES
    chosen = [entry for entry in entries if not given.only or entry.name in given.only]
    found: list[tuple[Entry, Answer]] = []
    for entry in chosen:
        with tempfile.TemporaryDirectory(prefix="hermes-live-") as temporary:
            folder = (given.keep or Path(temporary)).absolute() / entry.name
            try:
                answer = ask(entry, folder, gain=not given.no_gain)
            except (OSError, RuntimeError, ValueError) as failed:
                print(f"{entry.name}: {failed}", file=sys.stderr, flush=True)
                continue
        found.append((entry, answer))
        print(row(entry, answer), flush=True)
    print(figures(found))
    return 0 if len(found) == len(chosen) else 1


def row(entry: Entry, answer: Answer) -> str:
    """The answer about a program, in four lines."""
    if entry.healthy:
        right = "accuses" if answer.codes or answer.leaf else "silent, right"
    else:
        right = f"leaf {_right(answer.leaf_is_right(entry))}, line {_right(answer.line_is_right(entry))}"
    headline = f"{answer.share:.0%} {answer.leaf} in {answer.place or 'no line'}" if answer.leaf else answer.said
    action = f"{'/'.join(answer.codes)} {answer.action} at {', '.join(answer.lines[:1]) or 'no line'}"
    gain = "" if answer.gain_ms is None else f"; the cure gives {answer.gain_ms:.1f} of {answer.cost_ms:.1f} ms"
    predicted = f"{answer.low_ms:.1f} to {answer.high_ms:.1f} ms predicted" if answer.codes else "nothing predicted"
    return (
        f"{entry.name}: {right}\n    headline: {headline}\n"
        f"    first action: {action if answer.codes else 'none'}\n    {predicted}{gain}"
    )


def _right(is_right: bool) -> str:
    return "right" if is_right else "WRONG"


def figures(found: Sequence[tuple[Entry, Answer]]) -> str:
    """How many headlines are right."""
    planted = [(entry, answer) for entry, answer in found if not entry.healthy]
    healthy = [answer for entry, answer in found if entry.healthy]
    return (
        f"headline leaf right on {sum(answer.leaf_is_right(entry) for entry, answer in planted)} of {len(planted)}, "
        f"line on {sum(answer.line_is_right(entry) for entry, answer in planted)}; "
        f"healthy: headline silent on {sum(not one.leaf for one in healthy)} of {len(healthy)}, "
        f"no action on {sum(not one.codes for one in healthy)}"
    )


if __name__ == "__main__":
    sys.exit(main())
