"""Declares the readings of memory that symptoms of cases compare."""

from __future__ import annotations

from hermes.model.host_measures import AllocatorCalls
from hermes.model.memory_measures import Holder, MemoryGrowth, MemoryPeak, Recompute
from hermes.model.symptom import ANY, WINDOW, ratio

ratio(MemoryPeak, "memory.fragmentation", "1 - allocated/reserved when most was reserved", "fragmentation")
ratio(MemoryPeak, "memory.reserved", "most that an allocator took from the device", "reserved_bytes", unit="bytes")
ratio(AllocatorCalls, "memory.allocator_share", "calls of the device's allocator", "ns", "steps", WINDOW)
ratio(MemoryGrowth, "memory.growth", "growth from step to step", "bytes_per_step", unit="bytes")
ratio(MemoryGrowth, "memory.growth_fit", "how well a line fits that growth", "r2")
ratio(
    Recompute,
    "memory.recompute_share",
    "forward kernels run again in backward, of all compute",
    "device_ns",
    "compute_ns",
)
ratio(Holder, "memory.holder_share", "what an operator held when most was held", "share", by="operator", of=ANY)
