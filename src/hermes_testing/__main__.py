"""`python -m hermes_testing FOLDER`: writes a modelled job with planted faults, as real profilers would."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from hermes.base.errors import HermesError, InputError
from hermes_testing import KINDS, Fault, Format, Job, generate

_FORMATS: tuple[Format, ...] = get_args(Format)


def main(arguments: Sequence[str] | None = None) -> int:
    """Generate, and say what was planted; returns 2 for a job that cannot be, and says why on stderr."""
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        job = Job(
            ranks=given.ranks, tp=given.tp, steps=given.steps, seed=given.seed, faults=tuple(map(_fault, given.fault))
        )
        if given.folder.exists() and any(given.folder.iterdir()):
            raise InputError(
                "the folder is not empty", where=str(given.folder), hint="name another, or remove it first"
            )
        generate(given.folder, job, formats=given.format or ["ascend-text"])
    except HermesError as wrong:
        sys.stderr.write(f"{parser.prog}: {wrong}\n")
        return 2
    sys.stdout.write(_summary(given.folder, job))
    return 0


def _parser() -> argparse.ArgumentParser:
    kinds = "\n".join(f"  {name:<22}{kind.amount} {kind.unit}" for name, kind in KINDS.items())
    parser = argparse.ArgumentParser(
        prog="python -m hermes_testing",
        description="Write the profiles of a modelled training job with planted faults, and truth.json.",
        epilog=f"faults and their usual amount:\n{kinds}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="where to write; must be new or empty")
    parser.add_argument("--ranks", type=int, default=8, metavar="N", help="ranks of the job (8)")
    parser.add_argument("--tp", type=int, default=1, metavar="N", help="ranks of a tensor-parallel group (1)")
    parser.add_argument("--steps", type=int, default=4, metavar="N", help="steps of the capture (4)")
    parser.add_argument(
        "--format", action="append", choices=_FORMATS, help="format to write; again for another (ascend-text)"
    )
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="KIND[:RANK[,RANK]]",
        help="a fault to plant, on these ranks or on those usual for its kind; again for another",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the small variations in all times (0)")
    return parser


def _fault(text: str) -> Fault:
    name, _, ranks = text.partition(":")
    kind = next((known for known in KINDS if known == name), None)
    if kind is None:
        raise InputError(f"there is no fault {name!r}", hint=f"faults: {', '.join(KINDS)}")
    try:
        return Fault(kind=kind, ranks=tuple(int(rank) for rank in ranks.split(",") if rank))
    except ValueError:
        raise InputError(f"{ranks!r} names no ranks", hint=f"write {name}:3, or {name}:2,3") from None


def _summary(folder: Path, job: Job) -> str:
    lines = [f"{job.ranks} ranks, {job.steps} steps, seed {job.seed}: {folder}"]
    for fault in job.faults:
        kind = KINDS[fault.kind]
        ranks = ", ".join(map(str, fault.struck(ranks=job.ranks, hosts=job.hosts, pp=job.pp)))
        lines.append(f"planted {fault.kind} on rank {ranks}: {fault.size} {kind.unit}")
    lines.append(f"{'no fault was planted; ' if not job.faults else ''}what is true of it: {folder / 'truth.json'}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
