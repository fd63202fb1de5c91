"""`python -m bench.real FOLDER`: analyses real profiles, and says how far Hermes agrees with an expert."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.real.judge import Judgement, judge
from bench.real.opinions import OPINIONS
from bench.real.page import into_page, line, summary
from hermes.base.errors import HermesError
from hermes.profiles.load import load
from hermes.profiles.pipeline.analyze import analyze
from hermes.store.cache import Cache, default_root

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data"
"""Where the profiles are looked for."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each profile and the figures; 1 when a profile could not be read, 2 without any."""
    given = _parser().parse_args(arguments)
    chosen = [one for one in OPINIONS if not given.only or one.name in given.only]
    if not given.folder.is_dir() or not chosen:
        sys.stderr.write(f"no such profiles: {given.folder} {' '.join(given.only)}\n")
        return 2
    judged: list[Judgement] = []
    for opinion in chosen:
        try:
            report = analyze(
                load([str(given.folder / opinion.path)], cache=Cache(default_root(os.environ, Path.home())))
            )
        except HermesError as broken:
            sys.stdout.write(f"{opinion.name}: not read: {broken}\n")
            continue
        judged.append(judge(report, opinion))
        sys.stdout.write(line(judged[-1]) + "\n")
        sys.stdout.flush()
    sys.stdout.write(summary(judged, len(chosen)) + "\n")
    if given.page:
        into_page(given.page, judged, len(chosen))
    return 0 if len(judged) == len(chosen) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.real", description="Compare what Hermes says of real profiles with what an expert says."
    )
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, help=f"the folder of profiles ({FOLDER})")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this profile; again for another")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table into that page")
    return parser


if __name__ == "__main__":
    sys.exit(main())
