"""What other rooms call: scan a tree, convert it, write it, verify it; plan the cores of ranks; all as documents."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hermes.base.errors import InputError
from hermes.base.message import Message
from hermes.base.units import whole
from hermes.migrate import documents, tree, write
from hermes.migrate import verify as verification
from hermes.migrate.affinity import bind, machine
from hermes.migrate.affinity import documents as affinity
from hermes.migrate.affinity import messages as say
from hermes.migrate.affinity.bind import Bound
from hermes.migrate.affinity.plan import Plan, plan
from hermes.migrate.model import Style, Sure, Target, TreeChange, TreeScan
from hermes.migrate.rules import RULES
from hermes.migrate.summary import is_clean, is_converted, not_checked
from hermes.migrate.verify import Verdict
from hermes.migrate.verify_document import verify_document
from hermes.model.document import Code, Document
from hermes.model.finding import Finding

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
    "bound_document",
    "convert",
    "convert_document",
    "diff",
    "file_view",
    "is_clean",
    "is_complete",
    "is_converted",
    "pids",
    "plan_affinity",
    "plan_document",
    "restore_affinity",
    "rules",
    "scan",
    "scan_document",
    "verify",
    "verify_document",
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


def is_complete(found: TreeScan | TreeChange) -> bool:
    """Whether every file was read and understood."""
    return not not_checked(found)


def scan_document(found: TreeScan, change: TreeChange | None = None) -> Document:
    """A scan as `hermes.migrate/1`; with a conversion also its diffs."""
    return documents.scan_document(found, change)


def convert_document(change: TreeChange) -> Document:
    """A conversion as `hermes.migrate/1`."""
    return documents.convert_document(change)


def file_view(found: TreeScan, change: TreeChange, path: str) -> tuple[tuple[Finding, ...], Code | None]:
    """The findings and the diff of one file; raises `InputError` for a file that was not scanned."""
    return documents.file_view(found, change, path)


def rules() -> Mapping[str, Sequence[Message]]:
    """Title, reason and advice of each code of a finding."""
    return {code: rule.messages for code, rule in RULES.items()}


def verify(
    converted: Path, original: Path | None, command: Sequence[str], *, steps: int, devices: int, timeout_s: float,
    original_command: Sequence[str] | None = None, as_is: bool = False, target: Target | None = None,
) -> Verdict:  # fmt: skip
    """Run a converted program on an NPU or the stand-in for one, and compare its losses with the original's.

    With `as_is` both run on what this machine has. `target` says whose support table the stand-in refuses by.
    """
    return verification.verify(
        converted, original, command, steps=steps, devices=devices, timeout_s=timeout_s,
        original_command=original_command, as_is=as_is, target=target,
    )  # fmt: skip


def plan_affinity(root: Path = Path("/"), tools: Mapping[str, str] | None = None) -> Plan:
    """Which cores each rank of this machine should run on."""
    here = tools is None
    allowed = frozenset(os.sched_getaffinity(0)) if here else None
    found = machine.read_machine(root, machine.ask_tools() if tools is None else tools, allowed)
    if not found.devices:
        raise InputError(say.NO_DEVICE, hint=say.WHERE_TO_RUN)
    return plan(found)


def apply_affinity(wanted: Plan, pids: Mapping[int, Sequence[int]], state: Path) -> list[Bound]:
    """Move every thread of the ranks to their cores; `pids` adds processes by device to those that the tools named."""
    processes = {
        pid: seat.cpus for seat in wanted.seats for pid in (*seat.device.pids, *pids.get(seat.device.index, ()))
    }
    if not processes:
        raise InputError(say.NO_PROCESS, hint=say.NAME_PROCESS)
    return bind.apply(processes, state)


def restore_affinity(state: Path) -> list[Bound]:
    """Give every thread the cores that it had before."""
    return bind.restore(state)


def pids(given: Sequence[str]) -> dict[int, list[int]]:
    """Processes by device, of words such as `0=12345`."""
    found: dict[int, list[int]] = {}
    for one in given:
        device, pid = (whole(text) for text in one.partition("=")[::2])
        if device is None or pid is None:
            raise InputError(say.no_pair(text=one), hint=say.HOW_PAIR)
        found.setdefault(device, []).append(pid)
    return found


def affinity_state(environment: Mapping[str, str], home: Path) -> Path:
    """Where the cores that threads had before are kept."""
    return bind.state_file(environment, home)


def plan_document(found: Plan) -> Document:
    """A plan as `hermes.affinity/1`."""
    return affinity.plan_document(found)


def bound_document(done: Sequence[Bound]) -> Document:
    """What was moved, and what was not, as `hermes.affinity/1`."""
    return affinity.bound_document(done)
