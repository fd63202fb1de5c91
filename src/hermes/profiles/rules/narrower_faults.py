"""Declares which faults are parts of broader faults, so that time is counted once.

A part is listed before the finding that it belongs to, and that finding keeps only the gain that its parts leave.
"""

from __future__ import annotations

from collections.abc import Mapping

from hermes.model.fault import Fault

PARTS: Mapping[Fault, tuple[Fault, ...]] = {
    # Faults that make collectives slow, or that collectives wait for.
    Fault.EXPOSED_COMMUNICATION: (
        Fault.SMALL_COLLECTIVES,
        Fault.UNALIGNED_SIZES,
        Fault.STALLED_TRANSFERS,
        Fault.SLOW_COLLECTIVES,
        Fault.SLOW_LINK,
        Fault.WRONG_TRANSPORT,
        Fault.REDUCTION_PER_MICRO_BATCH,
        Fault.PIPELINE_BUBBLE,
        Fault.UNEVEN_STAGES,
        Fault.TOO_FEW_MICRO_BATCHES,
    ),
    # Faults that make a rank late.
    Fault.STRAGGLER: (Fault.SLOW_DEVICE, Fault.UNEVEN_BATCHES, Fault.UNEVEN_EXPERTS),
    Fault.SLOW_DEVICE: (Fault.LOW_CLOCK,),
    # Faults that make launches slow.
    Fault.DISPATCH: (Fault.FIRST_CALLS, Fault.LAUNCH_BLOCKING, Fault.TASK_QUEUE_OFF),
    Fault.SHORT_KERNELS: (Fault.FIRST_CALLS, Fault.LAUNCH_BLOCKING, Fault.TASK_QUEUE_OFF),
    Fault.ALLOCATOR_CALLS: (Fault.CACHING_ALLOCATOR_OFF,),
    Fault.FRAGMENTATION: (Fault.CACHING_ALLOCATOR_OFF,),
    Fault.MATRIX_UNITS_UNDERUSED: (Fault.UNALIGNED_SHAPES,),
    Fault.MEMORY_BOUND_KERNELS: (Fault.UNFUSED_LAYERS,),
    Fault.TOO_FEW_WORKERS: (Fault.SLOW_SAMPLE,),
    Fault.NO_CORE_FOR_WORKERS: (Fault.SLOW_SAMPLE,),
    Fault.BATCHES_OF_MANY_TENSORS: (Fault.SLOW_SAMPLE,),
    Fault.EXPOSED_COPIES: (Fault.EXPOSED_INPUT_COPIES,),
}
"""For a fault, the faults whose findings are parts of its findings."""

PLACES = ("HOT001", "HOT005")
"""Rules that say where time goes: a finding of another rule about the same function, or the same cause, says why."""


def holds(broad: Fault, part: Fault) -> bool:
    """Whether findings of a broad fault include the time of a part; a part of a part counts too."""
    own = PARTS.get(broad, ())
    return part in own or any(holds(one, part) for one in own)
