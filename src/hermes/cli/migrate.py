"""`hermes migrate`: from CUDA code to a program that runs on Ascend."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hermes.cli import options
from hermes.cli.show import show_data, show_line

if TYPE_CHECKING:
    from hermes.migrate.api import Target

_PATH = click.Path(path_type=Path)


def _target_options(command: Callable[..., None]) -> Callable[..., None]:
    command = click.option(
        "--torch",
        "version",
        default="2.13.0",
        help="Torch version to hold APIs against: 2.7.1, 2.11.0, 2.12.0, 2.13.0.",
    )(command)
    return click.option("--chip", default="A2", help="Family of chips: A2, A3, 950.")(command)


def _target(version: str, chip: str) -> Target:
    from hermes.migrate.api import Target

    full = {"2.11": "2.11.0", "2.12": "2.12.0", "2.13": "2.13.0", "2.7": "2.7.1"}.get(version, version)
    return Target(torch=full, chip={"950DT": "950"}.get(chip.upper(), chip.upper()))


def _print(lines: Iterable[str], lang: str | None = None) -> None:
    for line in lines:
        show_line(options.lines_told(line.rstrip("\n").replace("\t", "    "), lang))


def _put(text: str, out: Path | None) -> None:
    if out is None:
        show_data(text)
    else:
        out.write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")


@click.group("migrate", no_args_is_help=True)
def run() -> None:
    """Take a CUDA program to Ascend: scan what it needs, convert it, verify it without an NPU."""


@run.command("scan")
@click.argument("path", metavar="PATH", type=_PATH)
@_target_options
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "sarif", "html"]), default="text", help="What to print."
)
@click.option("-o", "out", type=_PATH, help="Write it to this file.")
@click.option("--all", "everything", is_flag=True, help="Print every place.")
@options.lang
def scan(path: Path, version: str, chip: str, form: str, out: Path | None, everything: bool, lang: str | None) -> None:
    """Say whether the program in PATH can move to Ascend, how much work it is, and what stands in the way.

    Reads Python, notebooks, shell, containers, YAML, TOML, JSON, requirements, C++ and CUDA; runs and changes nothing.
    """
    from hermes.migrate import api

    found = api.scan(path, _target(version, chip))
    texts: dict[str, Callable[[], str]] = {
        "text": lambda: "\n".join(api.scan_text(found, all_places=everything)),
        "json": lambda: api.dumps(api.scan_document(found)),
        "sarif": lambda: api.dumps(api.sarif(found)),
        "html": lambda: api.page_of_scan(found, api.convert(path, found.target, api.Style.NATIVE)),
    }
    if form == "text" and out is None:
        _print(api.scan_text(found, all_places=everything), lang)
    else:
        _put(texts[form](), out)


@run.command("convert")
@click.argument("path", metavar="PATH", type=_PATH)
@click.option("-o", "out", type=_PATH, help="Write the converted tree to this new folder.")
@click.option(
    "--diff", "as_diff", is_flag=True, help="Print the diff and write nothing; so without -o and --in-place too."
)
@click.option("--in-place", is_flag=True, help="Change the files themselves; the tree must be committed to git.")
@click.option("--force", is_flag=True, help="With --in-place: change a tree that is not committed too.")
@click.option(
    "--style",
    type=click.Choice(["native", "shim"]),
    default="native",
    help="native: device-agnostic code, still runs on CUDA and CPU. shim: transfer_to_npu and little else.",
)
@click.option("--only-proven", is_flag=True, help="Leave edits that rest on a habit of naming to you.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if CUDA-only code is left.")
@click.option("--json", "as_json", is_flag=True, help="Print edits and what is left as JSON.")
@click.option("--html", "page", type=_PATH, help="Write a page with the diff beside the places to this file.")
@click.option("--all", "everything", is_flag=True, help="Print every place that is left.")
@_target_options
def convert(path: Path, version: str, chip: str, style: str, **wanted: Any) -> None:
    """Write the program in PATH for Ascend; what is not certain is left alone and listed.

    Paths, labels, comments and free text stay as they are; scripts and configuration change together with the Python.
    """
    from hermes.migrate import api

    if wanted["out"] and wanted["in_place"]:
        raise click.UsageError("-o and --in-place exclude each other")
    target = _target(version, chip)
    least = api.Sure.PROVEN if wanted["only_proven"] else api.Sure.LIKELY
    change = api.convert(path, target, api.Style(style), least)
    if wanted["page"]:
        _put(api.page_of_change(api.scan(path, target), change), wanted["page"])
    if wanted["check"]:
        _print(api.convert_text(change, all_places=wanted["everything"]))
        sys.exit(0 if api.is_converted(change) else 1)
    if wanted["out"]:
        api.write_beside(change, wanted["out"])
    elif wanted["in_place"]:
        api.write_in_place(change, force=wanted["force"])
    if wanted["as_json"]:
        show_data(api.dumps(api.convert_document(change)))
    elif wanted["as_diff"] or not (wanted["out"] or wanted["in_place"] or wanted["page"]):
        show_data("".join(api.diff(change)), end="")
        with contextlib.redirect_stdout(sys.stderr):
            _print(api.convert_text(change, all_places=wanted["everything"]))
    else:
        _print(api.convert_text(change, all_places=wanted["everything"]))


@run.command("verify", context_settings={"ignore_unknown_options": True})
@click.argument("path", metavar="PATH", type=_PATH)
@click.argument("command", metavar="-- COMMAND…", nargs=-1, type=click.UNPROCESSED, required=True)
@click.option("--original", type=_PATH, help="The tree before conversion, whose losses are compared.")
@click.option("--original-command", help="How the original is run on the CPU; it then runs as it is.")
@click.option(
    "--as-is",
    is_flag=True,
    help="Run both on what this machine has, without the stand-in: native code still runs on CUDA and on the CPU.",
)
@click.option("--steps", default=5, help="How many steps to run.")
@click.option("--devices", default=1, help="How many NPUs the stand-in has.")
@click.option("--timeout", "timeout_s", default=600.0, help="Seconds until a run is ended.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify(
    path: Path,
    command: tuple[str, ...],
    original: Path | None,
    original_command: str | None,
    as_is: bool,
    steps: int,
    devices: int,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Run a converted program for a few steps and compare its losses with those of the original.

    On a machine without an NPU it runs on a stand-in for torch_npu, in which a call fails that torch_npu does not have.
    COMMAND is what you would type in PATH, such as `python train.py --device npu`.
    """
    from hermes.migrate import api

    told = api.verify(
        path,
        original,
        command,
        steps=steps,
        devices=devices,
        timeout_s=timeout_s,
        original_command=shlex.split(original_command) if original_command else None,
        as_is=as_is,
    )
    if as_json:
        show_data(api.dumps(api.verify_document(told)))
    else:
        _print(api.verify_text_of(told))
    sys.exit(0 if told.passed else 1)
