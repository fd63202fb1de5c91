"""What other rooms call: scan a tree, convert it, write it, verify it, show it; and plan the cores of ranks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hermes.base.errors import InputError
from hermes.migrate import tree, write
from hermes.migrate import verify as verification
from hermes.migrate.affinity import bind, machine
from hermes.migrate.affinity.bind import Bound
from hermes.migrate.affinity.plan import Plan, plan
from hermes.migrate.faces import affinity as affinity_text
from hermes.migrate.faces import documents, text
from hermes.migrate.faces import html as page
from hermes.migrate.faces import verify as verify_text
from hermes.migrate.model import Style, Sure, Target, TreeChange, TreeScan
from hermes.migrate.summary import is_clean
from hermes.migrate.verify import Verdict

__all__ = [
    "Bound",
    "Plan",
    "Style",
    "Sure",
    "Target",
    "TreeChange",
    "TreeScan",
    "Verdict",
    "affinity_state",
    "apply_affinity",
    "bound_text",
    "convert",
    "convert_document",
    "convert_text",
    "diff",
    "dumps",
    "file_view",
    "is_converted",
    "overview",
    "page_of_change",
    "page_of_scan",
    "plan_affinity",
    "plan_document",
    "plan_text",
    "restore_affinity",
    "sarif",
    "scan",
    "scan_document",
    "scan_text",
    "verify",
    "verify_document",
    "verify_text_of",
    "write_beside",
    "write_in_place",
]  # fmt: skip


def scan(root: Path, target: Target, workers: int | None = None) -> TreeScan:
    """What stands between a source tree and an Ascend chip."""
    return tree.scan_tree(root, target, workers)


def convert(
    root: Path, target: Target, style: Style, least: Sure = Sure.LIKELY, workers: int | None = None
) -> TreeChange:
    """A source tree as it is after conversion; nothing is written."""
    return tree.convert_tree(root, target, style, least, workers)


def write_beside(change: TreeChange, out: Path) -> None:
    """Copy the tree to a new folder, with the converted files in it."""
    write.beside(change, out)


def write_in_place(change: TreeChange, *, force: bool) -> None:
    """Replace the changed files; refuses a tree with uncommitted changes unless forced."""
    write.in_place(change, force=force)


def diff(change: TreeChange) -> Iterator[str]:
    """The unified diff of a conversion."""
    return write.diff(change)


def is_converted(change: TreeChange) -> bool:
    """Whether convert has nothing to change and nothing is left that stops on an NPU (`--check`)."""
    stops = any(
        place.effect.value == "stops" and place.sure is not Sure.GUESS for file in change.files for place in file.left
    )
    return not change.changed and not stops


def verify(
    converted: Path, original: Path | None, command: Sequence[str], *, steps: int, devices: int, timeout_s: float,
    original_command: Sequence[str] | None = None, as_is: bool = False,
) -> Verdict:  # fmt: skip
    """Run a converted program on an NPU or the stand-in for one, and compare its losses with the original's.

    With `as_is` both run on what this machine has.
    """
    return verification.verify(
        converted,
        original,
        command,
        steps=steps,
        devices=devices,
        timeout_s=timeout_s,
        original_command=original_command,
        as_is=as_is,
    )


def scan_text(found: TreeScan, *, all_places: bool) -> Iterator[str]:
    """The lines of a scan."""
    return text.scan(found, all_places=all_places)


def convert_text(change: TreeChange, *, all_places: bool) -> Iterator[str]:
    """The lines of a conversion."""
    return text.convert(change, all_places=all_places)


def verify_text_of(verdict: Verdict) -> Iterator[str]:
    """The lines of a verification."""
    return verify_text.text(verdict)


def scan_document(found: TreeScan) -> dict[str, Any]:
    """A scan as `hermes.migrate/1`."""
    return documents.scan(found)


def convert_document(change: TreeChange) -> dict[str, Any]:
    """A conversion as `hermes.migrate/1`."""
    return documents.convert(change)


def verify_document(verdict: Verdict) -> dict[str, Any]:
    """A verification as `hermes.migrate/1`."""
    return verify_text.document(verdict)


def overview(found: TreeScan, change: TreeChange) -> dict[str, Any]:
    """The answer of a scan, and how much there is to say of each file; for a page that asks for files one by one."""
    return documents.overview(found, change)


def file_view(found: TreeScan, change: TreeChange, path: str) -> dict[str, Any]:
    """The places and the diff of one file; raises `InputError` for a file that was not scanned."""
    return documents.file_view(found, change, path)


def sarif(found: TreeScan) -> dict[str, Any]:
    """A scan as SARIF 2.1.0."""
    return documents.sarif(found)


def dumps(document: dict[str, Any]) -> str:
    """A document as JSON text."""
    return documents.dumps(document)


def page_of_scan(found: TreeScan, change: TreeChange | None) -> str:
    """One HTML file: the answer, the places by file, and beside them the diff of a conversion."""
    return page.page(found, change)


def page_of_change(found: TreeScan, change: TreeChange) -> str:
    """The same page for a conversion."""
    return page.page(found, change)


def clean(found: TreeScan) -> bool:
    """Whether a scan found nothing that stops on an NPU."""
    return is_clean(found)


def plan_affinity(root: Path = Path("/"), tools: Mapping[str, str] | None = None) -> Plan:
    """Which cores each rank of this machine should run on."""
    here = tools is None
    allowed = frozenset(os.sched_getaffinity(0)) if here else None
    found = machine.read_machine(root, machine.ask_tools() if tools is None else tools, allowed)
    if not found.devices:
        raise InputError("neither npu-smi nor nvidia-smi names a device", hint="run it on the machine with the devices")
    return plan(found)


def apply_affinity(wanted: Plan, pids: Mapping[int, Sequence[int]], state: Path) -> list[Bound]:
    """Move every thread of the ranks to their cores; `pids` adds processes by device to those that the tools named."""
    processes = {
        pid: seat.cpus for seat in wanted.seats for pid in (*seat.device.pids, *pids.get(seat.device.index, ()))
    }
    if not processes:
        raise InputError("no process uses a device", hint="name one: --pid 0=12345")
    return bind.apply(processes, state)


def restore_affinity(state: Path) -> list[Bound]:
    """Give every thread the cores that it had before."""
    return bind.restore(state)


def affinity_state(environment: Mapping[str, str], home: Path) -> Path:
    """Where the cores that threads had before are kept."""
    return bind.state_file(environment, home)


def plan_text(found: Plan) -> Iterator[str]:
    """The lines of a plan."""
    return affinity_text.text(found)


def plan_document(found: Plan) -> dict[str, Any]:
    """A plan as `hermes.affinity/1`."""
    return affinity_text.document(found)


def bound_text(done: Sequence[Bound]) -> Iterator[str]:
    """What was moved, and what was not."""
    return affinity_text.bound(done)
