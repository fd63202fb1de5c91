"""`hermes migrate`: moves CUDA code to Ascend."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hermes.cli import shared_options
from hermes.cli.exit_codes import Exit, ends, leave
from hermes.cli.print_output import show_data, show_document

if TYPE_CHECKING:
    from hermes.migrate.api import Target
    from hermes.model.document import Document

_PATH = click.Path(path_type=Path)


def _target_options(command: Callable[..., None]) -> Callable[..., None]:
    command = click.option(
        "--torch",
        "version",
        default="2.13.0",
        help="Torch version to compare APIs with: 2.7.1, 2.11.0, 2.12.0, 2.13.0.",
    )(command)
    return click.option("--chip", default="A2", help="Family of chips: A2, A3, 950.")(command)


def _target(version: str, chip: str) -> Target:
    from hermes.migrate.api import Target

    full = {"2.11": "2.11.0", "2.12": "2.12.0", "2.13": "2.13.0", "2.7": "2.7.1"}.get(version, version)
    return Target(torch=full, chip={"950DT": "950"}.get(chip.upper(), chip.upper()))


@click.group("migrate", no_args_is_help=True)
def run() -> None:
    """Move a CUDA program to Ascend: scan its needs, convert the code, verify it without an NPU."""


@ends(
    {
        Exit.DONE: "every file was checked, and convert does all the work",
        Exit.NO: "work is left, or a file was not checked",
        Exit.UNUSABLE: "there is no torch program",
    }
)
@run.command("scan")
@click.argument("path", metavar="PATH", type=_PATH)
@_target_options
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "html", "xlsx", "sarif"]), default="text",
    help="Format of the output.",
)  # fmt: skip
@click.option("-o", "out", type=_PATH, help="Write the output to this file.")
@click.option("--all", "everything", is_flag=True, help="Print every finding.")
@shared_options.lang
def scan(path: Path, version: str, chip: str, form: str, out: Path | None, everything: bool, lang: str | None) -> None:
    """Say whether the program in PATH can move to Ascend, how much work the move is, and what stands in the way.

    Reads Python, notebooks, shell, containers, YAML, TOML, JSON, requirements, C++ and CUDA; runs and changes nothing.
    """
    from hermes.migrate import api

    found = api.scan(path, _target(version, chip))
    # An HTML page shows the diffs too.
    change = api.convert(path, found.target, api.Style.NATIVE) if form == "html" else None
    document = api.scan_document(found, change)
    if form == "sarif":
        _sarif(document, out)
    else:
        show_document(document, form, lang, out, whole=everything)
    leave(Exit.DONE if api.is_clean(found) else Exit.NO)


def _sarif(document: Document, out: Path | None) -> None:
    from hermes.migrate import api
    from hermes.report.sarif import sarif

    text = json.dumps(sarif(document, "hermes migrate", api.rules()), indent=1)
    if out is None:
        show_data(text)
    else:
        out.write_text(f"{text}\n", encoding="utf-8")


@ends(
    {
        Exit.DONE: "every file was read",
        Exit.NO: "a file was not read; with --check also: CUDA-only code is left",
        Exit.UNUSABLE: "there is no torch program, or the output cannot be written",
    }
)
@run.command("convert")
@click.argument("path", metavar="PATH", type=_PATH)
@click.option("-o", "out", type=_PATH, help="Write the converted tree to this new folder.")
@click.option(
    "--diff", "as_diff", is_flag=True, help="Print the diff and write nothing; the default without -o and --in-place."
)
@click.option("--in-place", is_flag=True, help="Change the files themselves; the tree must be committed to git.")
@click.option("--force", is_flag=True, help="With --in-place: also change a tree that is not committed.")
@click.option(
    "--style",
    type=click.Choice(["native", "shim"]),
    default="native",
    help="native: device-agnostic code, still runs on CUDA and CPU. shim: transfer_to_npu and little else.",
)
@click.option("--only-proven", is_flag=True, help="Leave out edits that only rest on how a variable is named.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if CUDA-only code is left.")
@click.option("--json", "as_json", is_flag=True, help="Print edits and remaining work as JSON.")
@click.option("--html", "page", type=_PATH, help="Write an HTML page with the diff and the places to this file.")
@click.option("--all", "everything", is_flag=True, help="Print all remaining work.")
@_target_options
@shared_options.lang
def convert(path: Path, version: str, chip: str, style: str, **wanted: Any) -> None:
    """Write the program in PATH for Ascend; uncertain places are left unchanged and listed.

    Paths, labels, comments and free text stay as they are; scripts and configuration change together with the Python.
    """
    from hermes.migrate import api

    if wanted["out"] and wanted["in_place"]:
        raise click.UsageError("-o and --in-place exclude each other")
    target = _target(version, chip)
    least = api.Sure.PROVEN if wanted["only_proven"] else api.Sure.LIKELY
    change = api.convert(path, target, api.Style(style), least)
    document = api.convert_document(change)
    lang, whole = wanted["lang"], wanted["everything"]
    if wanted["page"]:
        show_document(api.scan_document(api.scan(path, target), change), "html", lang, wanted["page"])
    writes = not wanted["check"] and (wanted["out"] or wanted["in_place"])
    if writes and wanted["out"]:
        api.write_beside(change, wanted["out"])
    elif writes:
        api.write_in_place(change, force=wanted["force"])
    if wanted["as_json"]:
        show_document(document, "json", lang)
    elif wanted["as_diff"] or not (writes or wanted["page"] or wanted["check"]):
        show_data("".join(api.diff(change)), end="")
        with contextlib.redirect_stdout(sys.stderr):
            show_document(_without_diffs(document), "text", lang, whole=whole)
    else:
        show_document(_without_diffs(document), "text", lang, whole=whole)
    holds = api.is_converted(change) if wanted["check"] else api.is_complete(change)
    leave(Exit.DONE if holds else Exit.NO)


def _without_diffs(document: Document) -> Document:
    """The document without the diffs that `--diff` prints."""
    from dataclasses import replace

    from hermes.model.document import CodeText

    return replace(document, parts=tuple(part for part in document.parts if not isinstance(part, CodeText)))


@ends(
    {
        Exit.DONE: "losses and weights are the original's, bit by bit",
        Exit.NO: "losses or weights differ, the program fails, or not all could be compared",
        Exit.UNUSABLE: "there is no program to run",
    }
)
@run.command("verify", context_settings={"ignore_unknown_options": True})
@click.argument("path", metavar="PATH", type=_PATH)
@click.argument("command", metavar="-- COMMAND…", nargs=-1, type=click.UNPROCESSED, required=True)
@click.option("--original", type=_PATH, help="The source tree before conversion, whose losses are compared.")
@click.option("--original-command", help="Command that runs the original on the CPU, without the stand-in.")
@click.option(
    "--as-is",
    is_flag=True,
    help="Run both programs without the stand-in, on this machine: native code still runs on CUDA and the CPU.",
)
@click.option("--steps", default=5, help="Number of steps to run.")
@click.option("--devices", default=1, help="Number of NPUs of the stand-in.")
@click.option("--timeout", "timeout_s", default=600.0, help="Seconds after which a run is ended.")
@_target_options
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "html", "xlsx"]),
    default="text",
    help="Format of the output.",
)
@click.option("-o", "out", type=_PATH, help="Write the output to this file.")
@shared_options.lang
def verify(path: Path, command: tuple[str, ...], version: str, chip: str, **wanted: Any) -> None:
    """Run a converted program for a few steps and compare its losses with the original program's.

    On a machine without an NPU the program runs on a stand-in for torch_npu, which refuses calls that torch_npu lacks
    or that the support table forbids. COMMAND is what you would type in PATH, such as `python train.py --device npu`.
    """
    from hermes.migrate import api

    original, by = wanted["original"], wanted["original_command"]
    told = api.verify(
        path, original, command, steps=wanted["steps"], devices=wanted["devices"], timeout_s=wanted["timeout_s"],
        original_command=shlex.split(by) if by else None, as_is=wanted["as_is"], target=_target(version, chip),
    )  # fmt: skip
    document = api.verify_document(told, str(path), str(original) if original else None)
    show_document(document, wanted["form"], wanted["lang"], wanted["out"], whole=True)
    leave(Exit.DONE if told.holds else Exit.NO)
