"""`python -m bench.judgement FOLDER`: analyses recorded profiles, and compares the first answer with an expert's."""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.judgement.judge import Judgement, judge
from bench.judgement.opinion import Opinion
from bench.judgement.opinions import OPINIONS
from bench.judgement.page import answer, into_page, line, summary
from hermes.base.errors import HermesError
from hermes.profiles.load import load
from hermes.profiles.pipeline.analyze import analyze
from hermes.store.cache import Cache, default_root

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data"
"""The folder of the recorded profiles."""
STRICT = 0.9
"""The share of the profiles whose first leaf must be right."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each profile and the figures; 1 when too few answers are right, 2 without profiles."""
    given = _parser().parse_args(arguments)
    chosen = [one for one in OPINIONS if not given.only or one.name in given.only]
    if not given.folder.is_dir() or not chosen:
        sys.stderr.write(f"no such profiles: {given.folder} {' '.join(given.only)}\n")
        return 2
    judged: list[Judgement] = []
    cache = Cache(default_root(os.environ, Path.home()))
    with TemporaryDirectory(prefix="hermes-judgement-") as unpacked:
        for opinion in chosen:
            try:
                found = load(paths(given.folder, opinion, Path(unpacked)), cache=cache)
                judged.append(judge(analyze(found), opinion))
            except HermesError as broken:
                sys.stdout.write(f"{opinion.name}: not read: {broken}\n")
                continue
            sys.stdout.write(line(judged[-1]) + "\n")
            sys.stdout.flush()
    sys.stdout.write(summary([answer(one) for one in judged], len(chosen)) + "\n")
    if given.page:
        into_page(given.page, chosen, judged)
    return 0 if sum(not one.wrong for one in judged) >= STRICT * len(chosen) else 1


def paths(folder: Path, opinion: Opinion, unpacked: Path) -> list[Path]:
    """The input of one opinion: a file or a folder, or all files that match its pattern.

    Reports of Nsight Systems are kept packed. Hermes reads them as `nsys export` writes them, below `unpacked`.
    """
    found = sorted(folder.glob(opinion.path)) if "*" in opinion.path else [folder / opinion.path]
    packed = [path for path in found if path.name.endswith(".sqlite.gz")]
    for path in packed:
        with gzip.open(path) as source, (unpacked / path.stem).open("wb") as target:
            shutil.copyfileobj(source, target)
    return [path for path in found if path not in packed] + [unpacked / path.stem for path in packed]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.judgement", description="Compare the first answer about profiles with that of an expert."
    )
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, help=f"the folder of profiles ({FOLDER})")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this profile; again for another")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table into that page")
    return parser


if __name__ == "__main__":
    sys.exit(main())
