"""`hermes whatif`: predicts what a step would take after a change."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hermes.base.sanitize_text import shell_command
from hermes.cli import shared_options
from hermes.cli.print_output import show_data, show_line

if TYPE_CHECKING:
    from hermes.profiles.api import Loaded, Prediction


_SCHEMA = "hermes.whatif/1"


class Format(str, enum.Enum):
    """The output formats of `hermes whatif`."""

    TEXT = "text"
    JSON = "json"


@click.command("whatif")
@shared_options.profiles
@click.option("--set", "specs", multiple=True, metavar="CHANGE",
              help="A change, such as op:MatMul*=0.5, host:data-loading=0, comm:overlap, rank:5=median, sync:none or "
              "launch:graph; several are replayed together. Without it, every change worth a look.")  # fmt: skip
@click.option(
    "--search",
    type=click.Choice(["communication"]),
    default=None,
    help="Search for the best way to send gradients or sharded parameters, and print the settings to copy.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(Format, case_sensitive=False),
    default=Format.TEXT,
    help="Format of the output.",
)
@shared_options.capture
@shared_options.lang
def run(
    paths: tuple[Path, ...], specs: tuple[str, ...], search: str | None, form: Format, capture: str, lang: str | None
) -> None:
    """Replay the slowest rank's typical step with something changed, and print the gain.

    With --search communication, try other sizes of gradient buckets, and print the best size as settings: how much
    shorter the step gets, as a range, and why. If parameters are sharded, try all-gathers that are launched earlier,
    and larger units. If no change gains more than two runs differ, no setting is printed.
    """
    if search is not None:
        if specs:
            raise click.UsageError("--search and --set exclude each other")
        _search(paths, form, capture, lang)
        return
    from hermes.profiles.api import parse

    # A change without effect is reported before any file is read.
    for spec in specs:
        parse(spec)
    from hermes.cli.print_output import load_profiles

    loaded = load_profiles(paths, capture)
    from hermes.profiles.api import changes_of, outlined, predict, predictions, step_of

    step = step_of(loaded, outlined(loaded))
    found = [predict(step, changes_of(step, specs))] if specs else predictions(step)
    if form is Format.JSON:
        _print_json(loaded, paths, found, step.end_ns - step.begin_ns)
    else:
        _print(found, step.end_ns - step.begin_ns)


def _search(paths: tuple[Path, ...], form: Format, capture: str, lang: str | None) -> None:
    from hermes.cli.print_output import load_profiles, show_document
    from hermes.profiles.api import communication_plan, outlined, plan_document

    loaded = load_profiles(paths, capture)
    outline = outlined(loaded)
    framework = outline.frameworks[0] if len(outline.frameworks) == 1 else None
    document = plan_document(
        communication_plan(loaded, outline), paths, loaded.notes,
        framework=framework, vendors=outline.vendors.values(),
    )  # fmt: skip
    show_document(document, form.value, lang, whole=True)


def _print_json(loaded: Loaded, paths: tuple[Path, ...], found: list[Prediction], step_ns: int) -> None:
    from hermes.report.document_json import coverage_of, envelope
    from hermes.report.json_lines import dumps
    from hermes.report.json_values import text_of

    inputs: list[dict[str, object]] = [{"path": text_of(str(path)), "role": "profile"} for path in paths]
    head = envelope(_SCHEMA, inputs=inputs, coverage=coverage_of(loaded.notes), findings=())
    show_data(dumps({**head, "step_ms": step_ns / 1e6, "changes": [_row(one) for one in found]}), end="")


def _row(one: Prediction) -> dict[str, object]:
    return {
        "set": list(one.specs),
        "title": one.title,
        "gain_ms": {"low": one.low_ns / 1e6, "high": one.high_ns / 1e6},
        "step_ms": (one.step_ns - one.low_ns) / 1e6,
        "share": round(one.share, 6),
    }


def _print(found: list[Prediction], step_ns: int) -> None:
    from hermes.report.format import duration

    show_line(f"The step takes {duration(step_ns)}, to the end of the last task of the last rank.")
    if not found:
        show_line("No change gives anything: nothing is on the critical path that could be changed here.")
    for one in found:
        high = f" to {duration(one.high_ns)}" if one.high_ns > one.low_ns else ""
        show_line(f"{one.share:7.1%}  {duration(one.low_ns)}{high}  {one.title}")
        show_line(f"         {' '.join(f'--set {shell_command(spec)}' for spec in one.specs)}")
