"""Many small collectives pay a fixed cost each.

## What it detects

**Of any kind.** The time of a collective has a fixed part and a part that grows with its size. The rule estimates the
fixed part from calls of different sizes among the same ranks. The rule sums the fixed parts per step, if they take more
than a fifth of the time. The sum is at most the exposed time of the collectives. If sizes of 64 KB and less are too
similar to separate the parts, all calls but one count whole, from eight a step on.

On a job without a device, the rule counts the host's time in all calls but one, less the delay of late ranks. The
host's time needs Python frames.

**Of batch norm.** The rule counts the exposed time of the collectives that SyncBatchNorm layers launch in the typical
step, forward and backward.

## Why it costs you

**Of any kind.** Each collective costs a start on every rank and a round of notifications, however few bytes it moves.
Thirty-two small collectives pay this fixed cost 32 times.

**Of batch norm.** Each SyncBatchNorm layer waits for all ranks twice: for mean and variance, and for their gradients.
Such a collective moves a few kilobytes; nearly all of its time is start and end, and the next layer must wait. All
ranks wait for a straggler in each layer instead of once a step.

## When it is not a problem

**Of any kind.** A loss or a counter that is reduced once a step is no problem. Small operations that compute hides cost
nothing.

**Of batch norm.** A norm over all ranks is needed if the batch of one rank is too small for statistics. Detection and
segmentation often have one or two pictures a rank. Such models do not train without a norm over all ranks.

## What to do

**Of any kind.** Combine small operations: use larger gradient buckets, accumulate gradients, stack counters and reduce
them once, wrap larger modules with FSDP.

**Of batch norm.** Keep plain batch norm if the batch of one rank is large. Convert only the layers that need it, or use
a norm without batch statistics (group norm, layer norm). If you fine-tune with frozen statistics, you need no
SyncBatchNorm.

## How to check

**Of any kind.** Profile the same step again: fewer operations move the same bytes, and exposed communication falls.

**Of batch norm.** Profile again: a step has fewer collectives, and exposed communication is shorter. Compare the
validation results of both.
"""
