"""The migration functions that other packages call: scan, convert, write and verify a tree; plan cores of ranks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hermes.base.errors import InputError
from hermes.base.message import Message
from hermes.base.units import whole_number
from hermes.migrate import documents, scan_source_tree, write
from hermes.migrate import verify as verification
from hermes.migrate.affinity import bind_threads, machine_topology
from hermes.migrate.affinity import documents as affinity
from hermes.migrate.affinity import messages as say
from hermes.migrate.affinity.bind_threads import BoundProcess
from hermes.migrate.affinity.plan import Plan, plan
from hermes.migrate.rules import RULES
from hermes.migrate.scan_model import Style, Sure, Target, TreeChange, TreeScan
from hermes.migrate.summary import is_clean, is_converted, not_checked
from hermes.migrate.verify import Verdict
from hermes.migrate.verify_document import verify_document
from hermes.model.document import CodeText, Document
from hermes.model.finding import Finding

__all__ = [
    "BoundProcess",
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
    """Scan a source tree for all that keeps it from running on an Ascend chip."""
    return scan_source_tree.scan_tree(root, target, workers)


def convert(
    root: Path, target: Target, style: Style, least: Sure = Sure.LIKELY, workers: int | None = None
) -> TreeChange:
    """Convert a source tree in memory; nothing is written."""
    return scan_source_tree.convert_tree(root, target, style, least, workers)


def write_beside(change: TreeChange, out: Path) -> None:
    """Copy the tree to a new folder, with its converted files in place of the original ones."""
    write.write_beside_tree(change, out)


def write_in_place(change: TreeChange, *, force: bool) -> None:
    """Replace the changed files in the tree; refuses a tree with uncommitted changes unless forced."""
    write.write_in_place_of_tree(change, force=force)


def diff(change: TreeChange) -> Iterator[str]:
    """The unified diff of a conversion."""
    return write.diff(change)


def is_complete(found: TreeScan | TreeChange) -> bool:
    """Whether every file of the tree was read and understood."""
    return not not_checked(found)


def scan_document(found: TreeScan, change: TreeChange | None = None) -> Document:
    """A scan as a document `hermes.migrate/1`; with a conversion also the conversion's diffs."""
    return documents.scan_document(found, change)


def convert_document(change: TreeChange) -> Document:
    """A conversion as a document `hermes.migrate/1`."""
    return documents.convert_document(change)


def file_view(found: TreeScan, change: TreeChange, path: str) -> tuple[tuple[Finding, ...], CodeText | None]:
    """The findings and the diff of one file; raises `InputError` for a file that was not scanned."""
    return documents.file_view(found, change, path)


def rules() -> Mapping[str, Sequence[Message]]:
    """The title, reason and advice of each code of a finding."""
    return {code: rule.messages for code, rule in RULES.items()}


def verify(
    converted: Path, original: Path | None, command: Sequence[str], *, steps: int, devices: int, timeout_s: float,
    original_command: Sequence[str] | None = None, as_is: bool = False, target: Target | None = None,
) -> Verdict:  # fmt: skip
    """Run a converted program on an NPU or its stand-in, and compare the program's losses with the original's.

    With `as_is` both programs run on this machine's own device. The stand-in refuses calls by `target`'s support table.
    """
    return verification.verify(
        converted, original, command, steps=steps, devices=devices, timeout_s=timeout_s,
        original_command=original_command, as_is=as_is, target=target,
    )  # fmt: skip


def plan_affinity(root: Path = Path("/"), tools: Mapping[str, str] | None = None) -> Plan:
    """Plan the cores of each rank of this machine."""
    here = tools is None
    allowed = frozenset(os.sched_getaffinity(0)) if here else None
    found = machine_topology.read_machine(root, machine_topology.ask_tools() if tools is None else tools, allowed)
    if not found.devices:
        raise InputError(say.NO_DEVICE, hint=say.WHERE_TO_RUN)
    return plan(found)


def apply_affinity(wanted: Plan, pids: Mapping[int, Sequence[int]], state: Path) -> list[BoundProcess]:
    """Move every thread of the ranks to its planned cores; `pids` adds processes by device to those of the tools."""
    processes = {
        pid: seat.cpus for seat in wanted.seats for pid in (*seat.device.pids, *pids.get(seat.device.index, ()))
    }
    if not processes:
        raise InputError(say.NO_PROCESS, hint=say.NAME_PROCESS)
    return bind_threads.apply(processes, state)


def restore_affinity(state: Path) -> list[BoundProcess]:
    """Give every thread its former cores."""
    return bind_threads.restore(state)


def pids(given: Sequence[str]) -> dict[int, list[int]]:
    """Processes by device, from words such as `0=12345`."""
    found: dict[int, list[int]] = {}
    for one in given:
        device, pid = (whole_number(text) for text in one.partition("=")[::2])
        if device is None or pid is None:
            raise InputError(say.no_pair(text=one), hint=say.HOW_PAIR)
        found.setdefault(device, []).append(pid)
    return found


def affinity_state(environment: Mapping[str, str], home: Path) -> Path:
    """The path of the file that stores the former cores of threads."""
    return bind_threads.state_file(environment, home)


def plan_document(found: Plan) -> Document:
    """A plan of cores as a document `hermes.affinity/1`."""
    return affinity.plan_document(found)


def bound_document(done: Sequence[BoundProcess]) -> Document:
    """The threads that were moved, and those that were not, as a document `hermes.affinity/1`."""
    return affinity.bound_document(done)
