"""The leaves of the time tree: the closed list of where a step's time goes, and the list of risks.

Rules, replay, alarms, JSON and comparison name time by these leaves alone. The sentences of each leaf stand in the
catalogue as `leaf.NAME`. The definitions are those of top-down analysis for training steps: `docs/tree.md`.
"""

from __future__ import annotations

from typing import Literal

from hermes.base.message import Word

Part = Literal["compute", "communication", "copy", "idle", "outside"]
"""The part of a rank's time that a leaf belongs to: compute, communication, copy, idle device, or outside steps."""


class Leaf(Word):
    """The kind of work or wait that a step's time goes to.

    Leaves do not overlap; their sum is the time of all steps.
    """

    MATRIX_PRODUCT = "matrix_product"
    ATTENTION = "attention"
    CONVOLUTION = "convolution"
    NORM = "norm"
    ELEMENTWISE = "elementwise"
    REDUCTION = "reduction"
    EMBEDDING = "embedding"
    OPTIMIZER = "optimizer"
    LAYOUT = "layout"
    RANDOM = "random"
    SORT = "sort"
    RECURRENT = "recurrent"
    AI_CPU = "ai_cpu"
    OTHER_COMPUTE = "other_compute"

    TRANSFER = "transfer"
    WAIT = "wait"
    COMMUNICATION = "communication"
    PIPELINE_BUBBLE = "pipeline_bubble"
    CONTENTION = "contention"

    EXPOSED_COPY = "exposed_copy"

    SYNCHRONISATION = "synchronisation"
    BLOCKING_COPY = "blocking_copy"
    ALLOCATOR = "allocator"
    INPUT_HERE = "input_here"
    INPUT_WORKERS = "input_workers"
    INPUT_READ = "input_read"
    COMPILING = "compiling"
    FIRST_CALL = "first_call"
    GARBAGE_COLLECTION = "garbage_collection"
    HOST_OPERATOR = "host_operator"
    DISPATCH = "dispatch"
    LONG_LAUNCH = "long_launch"
    PYTHON = "python"
    INTERPRETER_LOCK = "interpreter_lock"
    FILE_OR_NETWORK = "file_or_network"
    OTHER_WORK_ON_CORES = "other_work_on_cores"
    QUEUED = "queued"
    SILENT = "silent"
    PROFILER = "profiler"
    NOT_RECORDED = "not_recorded"

    START = "start"
    END = "end"

    @property
    def part(self) -> Part:
        """The part of a rank's time that this leaf belongs to."""
        return _PARTS[self]


_ORDER = tuple(Leaf)
_LAST: tuple[tuple[Part, Leaf], ...] = (
    ("compute", Leaf.OTHER_COMPUTE), ("communication", Leaf.CONTENTION), ("copy", Leaf.EXPOSED_COPY),
    ("idle", Leaf.NOT_RECORDED), ("outside", Leaf.END),
)  # fmt: skip
_PARTS: dict[Leaf, Part] = {
    leaf: next(part for part, last in _LAST if at <= _ORDER.index(last)) for at, leaf in enumerate(_ORDER)
}


IDLE = frozenset(leaf for leaf in Leaf if leaf.part == "idle")
"""The leaves of a device that has nothing to do."""
LAUNCHES = frozenset({Leaf.DISPATCH, Leaf.LONG_LAUNCH})
"""The leaves of a device that waits for launches."""
HOST_WAITS = frozenset({Leaf.SYNCHRONISATION, Leaf.BLOCKING_COPY})
"""The leaves of a device that is idle while the host waits for it, and later until the host is ahead again."""


class Risk(Word):
    """A risk that a finding is about, if the finding is not about time of a step."""

    OUT_OF_MEMORY = "out_of_memory"
    GROWING_MEMORY = "growing_memory"
    LATENCY = "latency"
    LOW_CLOCK = "low_clock"
    SETTING = "setting"
    WRONG_NUMBERS = "wrong_numbers"
    SETUP_DIFFERS = "setup_differs"
    STOPS = "stops"
    DIFFERS = "differs"
    SLOW = "slow"
    NOTE = "note"
    STALL = "stall"
    SLOWER = "slower"
