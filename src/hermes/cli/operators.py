"""`hermes operators`: lists operators worth tuning, with the largest possible saving first."""

from __future__ import annotations

import enum
import json
import sys
from pathlib import Path

import click

from hermes.base.errors import InputError
from hermes.cli import messages, shared_options
from hermes.cli.print_output import show_data

_MOST_BYTES = 64 << 20


class Format(str, enum.Enum):
    """The output formats of `hermes operators`."""

    TEXT = "text"
    JSON = "json"
    SCRIPT = "script"
    TUNING = "tuning"


@click.command("operators")
@shared_options.profiles
@shared_options.capture
@click.option(
    "--format",
    "form",
    type=click.Choice(Format, case_sensitive=False),
    default=Format.TEXT,
    help="text; json; script: a program that runs each operator alone; tuning: a list for the vendor's tuner.",
)
@click.option("--most", type=click.IntRange(min=1), default=20, show_default=True, help="Number of operators to list.")
@click.option(
    "--alone",
    type=click.Path(path_type=Path, exists=True),
    help="Output of the script, or a folder of msprof op (OPPROF_…): shown beside the operators' times in the step.",
)
@shared_options.lang
def run(
    paths: tuple[Path | str, ...], capture: str, form: Format, most: int, alone: Path | None, lang: str | None
) -> None:
    """List the operators with the largest possible saving, what limits each, and what to try.

    To run the operators alone with their shapes: hermes operators PATH --format script > run_operators.py
    """
    from hermes.cli.print_output import load_profiles
    from hermes.model.compute_measures import OperatorCost
    from hermes.profiles.api import analyze, kernels_alone, work_list
    from hermes.report.operator_work import as_json, as_script, as_tuning_file, render_alone, render_work

    kernels = kernels_alone(alone) if alone and alone.is_dir() else ()
    loaded = load_profiles(paths, capture)
    report = analyze(loaded)
    measured = _measured(alone) if alone and not kernels else None
    works = work_list(report.rows(OperatorCost), measured)
    if not works:
        raise InputError("no kernel of the device was recorded", lost="the list", hint="record device activities")
    if measured is not None and not any(one.alone_ns for one in works):
        raise InputError(
            messages.NO_TIMES_OF_THESE, where=str(alone), lost=messages.LOST_ALONE, hint=messages.DO_RUN_SCRIPT
        )
    works = works[:most]
    if form is Format.TEXT:
        render_work(works, sys.stdout, shared_options.teller(lang))
        if kernels:
            render_alone(kernels, works, sys.stdout, shared_options.teller(lang))
    elif form is Format.JSON:
        show_data(as_json(works, kernels, [*map(str, paths)], loaded.notes), end="")
    else:
        show_data((as_script if form is Format.SCRIPT else as_tuning_file)(works), end="")


def _measured(path: Path) -> dict[tuple[str, str, str], int]:
    """Median times of operators that were run alone; raises `InputError` for a file that is no output of the script."""
    if path.stat().st_size > _MOST_BYTES:
        raise InputError("this is too large to be the script's output", where=str(path))
    found: dict[tuple[str, str, str], int] = {}
    for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
        try:
            said = json.loads(line)
            if not isinstance(said, dict):
                raise TypeError
            if "median_us" in said:
                found[(said["operator"], said["shapes"], said["dtypes"])] = round(float(said["median_us"]) * 1_000)
        except (ValueError, KeyError, TypeError, OverflowError) as wrong:
            raise InputError(
                "this is no line of the script's output", where=f"{path}:{number}", hint="give what the script printed"
            ) from wrong
    return found
