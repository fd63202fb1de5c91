"""Copies between host and device run while nothing is computed.

## What it detects

**Of any kind.** The rule counts the time in which a copy or a fill of memory runs, but neither compute nor
communication, as a share of the window. Each rank is measured on its typical step.

**Of batches.** The rule counts the time in which a copy from the host runs and the device neither computes nor
communicates, as a share of the step, over the whole capture. The finding says how much came from pageable memory, if
the profiler records it (CUDA, ROCm).

## Why it costs you

**Of any kind.** Copy engines can work while the compute units work. An exposed copy delays the step by its whole
length.

**Of batches.** A copy from pageable memory goes through a buffer of the driver and blocks the host. If the loop waits
for a copy from pinned memory, the copy delays the step instead of running beside the previous step.

## When it is not a problem

**Of any kind.** An exposed copy of the first batch of a capture is no problem.

**Of batches.** Copies that are no input are no problem: offloaded states and weights are read back by design. The part
*of any kind* counts all copies.

## What to do

**Of any kind.** Use pinned memory and non-blocking copies, and fetch the next batch while this one computes.

**Of batches.** Pin the batches and copy them without blocking, one batch ahead, on a stream of their own. Make one
large copy instead of many small ones. Copy data in its own type, not in a wider one.

## How to check

**Of any kind.** Profile again: exposed copies per step must fall.

**Of batches.** Profile again: copies from the host run beside kernels, and the profile calls their memory pinned.
"""
