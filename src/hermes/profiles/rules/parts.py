"""What is part of what: which findings say more about the time that a broader finding counts, declared in one place.

A part comes before the finding that it is a part of, and that one keeps only the gain that its parts leave.
"""

from __future__ import annotations

from collections.abc import Mapping

from hermes.model.fault import Fault

PARTS: Mapping[str, tuple[str, ...]] = {
    # Exposed communication: what makes collectives slow, or is waited for in them.
    "COM001": ("COM003", "COM004", "COM005", "COM007", "COM008", "COM009", "COM010", "PAR002", "PAR005"),
    # A straggler: why it is late.
    "COM002": ("CMP011", "PAR003", "PAR004"),
    # A starved device: what the host does meanwhile.
    "CPU001": (
        "CPU002", "CPU003", "CPU004", "CPU005", "CPU006", "CPU007", "CPU008", "CPU012", "CPU014", "IO001",
        "IO002", "IO006", "MEM002", "ENV005",
    ),
    "CMP001": ("CMP007",),
    "CMP002": ("CMP013", "CMP030", "CMP031"),
    "CMP011": ("CMP008",),
    "IO002": ("IO004",),
    "MEM001": ("IO005",),
    "MEM002": ("MEM003",),
    "PAR002": ("PAR001",),
}  # fmt: skip
"""By the code of a rule, the rules whose findings are parts of its own."""

OF_FAULTS: Mapping[Fault, str] = {
    Fault.LAUNCH_BLOCKING: "CPU004",
    Fault.TASK_QUEUE_OFF: "CPU004",
    Fault.CACHING_ALLOCATOR_OFF: "MEM002",
}
"""Of a rule with several faults: the rule that each of them is a part of."""

PLACES = ("HOT001", "HOT005")
"""Rules that say where time goes: what another rule says of the same function, or of the same cause, is why."""

_BROADER = {part: whole for whole, parts in PARTS.items() for part in parts}


def above(code: str) -> tuple[str, ...]:
    """A code and those of all rules that hold its time, the narrowest first: a part of a part is one of the whole."""
    found: list[str] = []
    while code and code not in found:
        found.append(code)
        code = _BROADER.get(code, "")
    return tuple(found)


def broader(code: str, fault: Fault) -> str:
    """The code of the rule whose findings hold the time of this one; empty where none does."""
    return OF_FAULTS.get(fault) or _BROADER.get(code, "")
