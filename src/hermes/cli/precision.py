"""`hermes precision`: compares two runs that should compute the same, and finds the first difference."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hermes.base.errors import InputError
from hermes.base.sanitize_text import shell_command
from hermes.cli import shared_options
from hermes.cli.exit_codes import Exit, ends, hand_on, leave
from hermes.cli.print_output import show_document, show_line

if TYPE_CHECKING:
    from hermes.base.message import Message
    from hermes.precision.api import Comparison

_path = click.Path(path_type=Path)
_command = click.argument("command", nargs=-1, required=True, metavar="-- COMMAND…", type=click.UNPROCESSED)
_form = click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="Format of the output."
)  # fmt: skip
_launcher = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@click.group("precision")
def run() -> None:
    """Compare two runs that should compute the same: their setup, their operators, and which run is right.

    `snapshot` writes the setup of a run, and `check` compares two setups. `record` records the results of a run.
    `compare` names the first operator where two recordings differ, and `replay` computes this operator again in
    float64. `golden` compares a training with itself under another arithmetic, if there is no second machine.
    """


@ends({}, passes="the command's own")
@run.command("record", context_settings=_launcher)
@_command
@click.option("-o", "--out", type=_path, help="Folder for the recording; it must be empty or new.")
@click.option("--steps", default="", help='Steps to record, such as "10|20" or 0-3, counted from 0; by default 0-1.')
@click.option("--level", default="", help="Calls to record: operators (default), modules or both.")
@click.option("--what", default="", help="Data to keep of each tensor: statistics (default), fingerprint or tensors.")
@click.option("--scope", multiple=True, help="Only modules of this path or glob, such as blocks.2; may be repeated.")
@click.option("--operator", "operators", multiple=True, help="Only operators of this name or glob; may be repeated.")
@click.option(
    "--phase", "phases", multiple=True, help="Only this phase: forward, backward, gradient, optimizer or update."
)
@click.option("--ranks", default="", help="Only these ranks, such as 0,4-7.")
@click.option(
    "--sample", type=click.IntRange(0), help="Largest number of elements kept of a tensor, roughly; 0 keeps all."
)
@click.option("--limit", type=click.FloatRange(0.001), help="Gigabytes that one rank may write; by default 50.")
@click.option(
    "--ring", type=click.IntRange(1), help="Number of last steps to keep, and to write when the training goes wrong."
)
@click.option(
    "--keep-compiled", is_flag=True, help="Let compiled code run compiled; its operators are then not recorded."
)
@click.option("--config", type=_path, help="Options from the tutorial's msprobe.json or msProbe's config.json.")
def record(command: tuple[str, ...], out: Path | None, limit: float | None, config: Path | None, *,
           keep_compiled: bool, **asked: Any) -> None:  # fmt: skip
    """Run a training and record its tensors' statistics or values, with no change to its code.

    Without --what, whole tensors are not kept: statistics and signed sums also name the first culprit, and take a
    thousandth of the room.

    With --ring you choose no steps: the recorder checks all of them. The recorder writes the last steps when the loss
    or a gradient is NaN or infinite, when the loss jumps, or when gradients explode or vanish.
    """
    from hermes.precision.api import launch_recording

    asked = {name: list(value) if isinstance(value, tuple) else value for name, value in asked.items() if value}
    if out is not None:
        asked["out"] = str(out)
    if limit:
        asked["limit_bytes"] = int(limit * 1e9)
    if keep_compiled:
        asked["compiled"] = "keep"
    options = launch_recording.options(asked, config)
    folder = Path(options["out"])
    if warning := launch_recording.prepare(folder, options.get("limit_bytes", 50_000_000_000)):
        _say(warning)
    code = launch_recording.run(command, launch_recording.environment(os.environ, record=options, snapshot=None))
    _say_recorded(folder)
    hand_on(code)


@ends({}, passes="the command's own")
@run.command("snapshot", context_settings=_launcher)
@_command
@click.option("-o", "--out", type=_path, required=True, help="The file to write, such as gpu.zip.")
def snapshot(command: tuple[str, ...], out: Path) -> None:
    """Run a training and write its setup: environment, packages, seeds, data, optimizers, parameters.

    The file is complete after two batches; the training goes on to its own end.
    """
    from hermes.precision.api import launch_recording, recording_notes

    if out.exists():
        raise InputError(recording_notes.FILE_EXISTS, where=str(out), hint=recording_notes.NEW_NAME)
    code = launch_recording.run(command, launch_recording.environment(os.environ, record=None, snapshot=out))
    if not out.exists():
        _say(recording_notes.NO_SNAPSHOT)
    hand_on(code)


@ends(
    {
        Exit.DONE: "all of the golden setup was compared, and no difference is an error",
        Exit.NO: "a difference is an error, or a part of the golden setup was not compared",
        Exit.UNUSABLE: "a file cannot be read",
    }
)
@run.command("check")
@click.argument("golden", type=_path)
@click.argument("target", type=_path)
@_form
@shared_options.lang
def check(golden: Path, target: Path, form: str, lang: str | None) -> None:
    """Compare the setups of two runs: snapshots of Hermes, or packs of msProbe."""
    from hermes.precision import api

    found = api.check(golden, target)
    show_document(found.document, form, lang)
    leave(Exit.DONE if found.verdict == "agree" else Exit.NO)


@ends(
    {
        Exit.DONE: "all of the golden run was compared, and the target agrees",
        Exit.NO: "the runs differ, or a part of the golden run was not compared",
        Exit.UNUSABLE: "a recording cannot be read",
    }
)
@run.command("compare")
@click.argument("paths", nargs=-1, metavar="GOLDEN TARGET", type=_path)
@click.option("-b", "golden", type=_path, help="The golden run, by the option name of the tutorial.")
@click.option("-c", "target", type=_path, help="The run to compare, by the option name of the tutorial.")
@click.option(
    "-l", "level", default="", hidden=True, help="Accepted without effect, because the tutorial uses this option."
)
@click.option("-o", "--out", type=_path, help="Folder for result.html, result.json, result.csv and result.xlsx.")
@_form
@click.option(
    "--noise", type=_path, help="A repeated golden run: differences between the two golden runs count as noise."
)
@click.option("--whole", is_flag=True, help="Print all rows, findings and modules.")
@click.option(
    "--columns",
    type=_path,
    help="For dumps of msProbe: write a table with msProbe's own columns to this .csv or .xlsx.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    help="Processes that compare ranks, and the tensors of large ranks; by default one a core.",
)
@click.option(
    "--memory",
    type=click.FloatRange(0.001),
    help="Memory limit in gigabytes: fewer ranks are then compared at once, down to one.",
)
@shared_options.lang
def compare(paths: tuple[Path, ...], golden: Path | None, target: Path | None, level: str, out: Path | None,
            form: str, noise: Path | None, columns: Path | None, jobs: int | None,
            memory: float | None, lang: str | None, *, whole: bool) -> None:  # fmt: skip
    """Say where two recordings first differ, the kind of the difference, and how sure this verdict is.

    The command takes recordings of Hermes and dumps of msProbe.
    """
    from hermes.precision import api

    sides = [*filter(None, (golden, target)), *paths]
    if len(sides) != 2:
        raise InputError(
            api.recording_notes.TWO_RECORDINGS, where="hermes precision compare", hint=api.recording_notes.NAME_BOTH
        )
    bound = int(memory * 1e9) if memory else None
    gc.disable()  # all allocated objects are kept until the process ends
    found = api.compare(sides[0], sides[1], noise=noise, jobs=jobs, memory_bytes=bound)
    if columns is not None:
        if (found.golden.kind, found.target.kind) != ("msprobe", "msprobe"):
            raise InputError(api.recording_notes.ONLY_DUMPS, where="--columns", hint=api.recording_notes.USE_OUT)
        many = api.write_columns(sides[0], sides[1], columns)
        _say(api.recording_notes.written_rows(path=str(columns), n=many))
    if out is not None:
        _write(found, out, lang)
    show_document(api.document(found), form, lang, whole=whole)
    leave(Exit.DONE if found.verdict == "agree" else Exit.NO)


@ends(
    {
        Exit.DONE: "both sides are as near to float64 as rounding allows",
        Exit.NO: "one or both sides are off, or only one side runs the operator",
        Exit.UNUSABLE: "the operator cannot be computed again",
    }
)
@run.command("replay")
@click.argument("golden", type=_path)
@click.argument("target", type=_path)
@click.option(
    "--operator", default="", help="Part of an operator's name or of its module; by default the first culprit."
)
@click.option(
    "--python", default=sys.executable, show_default="this Python", help="A Python with torch, if this Python has none."
)
@_form
@shared_options.lang
def replay(golden: Path, target: Path, operator: str, python: str, form: str, lang: str | None) -> None:
    """Say which run is right: compute an operator of two recordings again in float64, from each recording's own inputs.

    The recordings must be made with --what tensors.
    """
    from hermes.precision import api

    found = api.replay(api.compare(golden, target), operator, python=python)
    show_document(found.document, form, lang)
    leave(Exit.DONE if found.verdict == "agree" else Exit.NO)


@ends({Exit.DONE: "all runs agree", Exit.NO: "a run differs"})
@run.command("golden", context_settings=_launcher)
@_command
@click.option("-o", "--out", type=_path, required=True, help="Folder for the recordings; it must be empty or new.")
@click.option(
    "--against",
    multiple=True,
    help="Other arithmetic: perturbed (default), float32, float64 or compiled; may be repeated.",
)
@click.option("--steps", default="0-1", help="Steps to record, counted from 0; by default 0-1.")
@click.option("--seed", default=1, help="Seed of the perturbation.")
@_form
@shared_options.lang
def golden(command: tuple[str, ...], out: Path, against: tuple[str, ...], steps: str, seed: int, form: str,
           lang: str | None) -> None:  # fmt: skip
    """Compare a training with itself under another arithmetic: no second machine is needed.

    The command runs once unchanged and once for each --against. One kind moves every result by a unit in its last place
    and shows the operators that enlarge rounding. Other kinds compute operators in a wider type, or compare compiled
    with eager execution. The training must end by itself, and draw the same random numbers each time.
    """
    from hermes.precision.api import golden as own

    found = own.run(command, out, against or ("perturbed",), steps=steps, seed=seed)
    show_document(own.document(found, out), form, lang)
    leave(Exit.DONE if all(one.comparison.verdict == "agree" for one in found) else Exit.NO)


def _write(found: Comparison, folder: Path, lang: str | None) -> None:
    """Write the comparison into a folder; raises `InputError` for a folder inside one of the recordings."""
    from hermes.precision import api

    for run in (found.golden, found.target):
        inside = run.path.resolve()
        if folder.resolve() == inside or inside in folder.resolve().parents:
            raise InputError(
                api.recording_notes.INSIDE_RECORDING, where=str(folder), hint=api.recording_notes.ANOTHER_FOLDER
            )
    folder.mkdir(parents=True, exist_ok=True)
    whole = api.document(found)
    for form in ("html", "json", "xlsx"):
        path = folder / f"result.{form}"
        show_document(whole, form, lang, path)
        _say(api.recording_notes.written(path=str(path)))
    path = folder / "result.csv"
    path.write_bytes(api.csv_of(api.operators_table(found)))
    _say(api.recording_notes.written(path=str(path)))


def _say(text: Message) -> None:
    from hermes.base.say import say

    show_line(f"hermes: {say(text)}", to=sys.stderr)


def _say_recorded(folder: Path) -> None:
    from hermes.base.errors import HermesError
    from hermes.precision import api

    try:
        steps = api.steps(folder)
    except HermesError:
        _say(api.recording_notes.NOTHING_RECORDED)
        return
    numbers = {step for _, step in steps}
    ranks = api.messages.ranks(n=len({rank for rank, _ in steps}))
    _say(api.recording_notes.recorded(path=str(folder), steps=numbers, ranks=ranks))
    if numbers:
        _say(api.recording_notes.compare_next(path=shell_command(str(folder))))
