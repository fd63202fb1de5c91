"""The step waits for its input.

## What it detects

**No workers.** The rule counts idle time of the device while the loop reads and processes the next batch itself (a
DataLoader without workers), per step, as a share of the step. On a job without a device, the time of the loop's fetches
counts. With Python frames or stacks, the finding separates reading from processing.

**Slow workers.** The rule counts idle time of the device while the loop waits for its workers, or for another pipeline
whose workers the profile does not show. The time is per step, as a share of the step. Demand is how many batches a
second the steps would take without waiting, and supply is how many arrive.

On a job without a device, the wait itself counts. The time to receive batches counts too if it is a fifth of the step
or more, and waits for a core count from a tenth on. Workers with several threads each can take all cores.

**Workers started anew.** The loop makes an iterator of the loader and thereby starts new worker processes
(`DataLoader.__iter__`). The rule counts this time and the wait for the first batch, per step, as a share of the step.
The rule needs Python frames (`with_stack`), or a capture of Hermes, which counts the starts in all earlier steps.

**One slow sample.** The loader gives batches in order. The loop waits for one late batch while later batches have
already arrived. The wait must exceed the limit, and a good part of the fetches must find such early batches. The rule
needs Python frames.

## Why it costs you

**No workers.** One thread makes the batches and feeds the device: the thread can do only one of both at a time.

**Slow workers.** A step cannot begin before its batch has arrived. The device is idle until the batch arrives.

**Workers started anew.** Each new worker imports, opens the dataset and fills its queue before the first batch comes.
The loop runs nothing else while workers start.

**One slow sample.** Workers have made enough batches, but the device waits for the next batch in order.

## When it is not a problem

**No workers.** A wait in only the first step of a capture is no problem. If the data is in memory and needs no
processing, the share is small.

**Slow workers.** The first batches of an epoch are late because workers have just started. Batches after a checkpoint
that emptied the queue are late, too. A wait for one slow sample while others are ready is a finding of its own. If the
loop waits for cores, other programs may use these cores. Only the wait for batches is then sure to be won; if that wait
is below the limit, the finding is a preview.

**Workers started anew.** If the capture holds the only start of a long epoch, the share of a whole epoch counts, and a
short capture overstates it. If only some steps of the capture start workers, and earlier steps do not confirm the
waits, the finding is a preview.

**One slow sample.** If every worker is slow, few batches arrive early, and this is no case of one slow sample. Right
after a start, late batches are usual, because all workers begin at the same time.

## What to do

**No workers.** Give the loader worker processes, or do deterministic processing once, offline. If most of the time is
reading, first copy the files to a local disk, as few large files. Workers win nothing without cores of their own.
Workers lose time if you read only a few batches from a loader, because workers start each time. Without free cores or
with few batches, make the batches themselves cheaper. On a job without a device, workers and compute share the cores:
the gain is at most what the cores can do at the same time.

**Slow workers.** If cores are free, multiply the number of workers by demand over supply. If none is free, more workers
slow the step down. Then make batches cheaper, do work offline, or decode on the device. If batches take long to
receive, send them as few tensors. Each tensor needs its own piece of shared memory, and lists of numbers are unpickled
one by one.

**Workers started anew.** Keep the workers: set `persistent_workers=True`, and create the loader once, before the loop
over epochs. Do the same for the loader of the evaluation.

**One slow sample.** Take batches in the order of arrival, make the queue longer, or give all samples similar work: sort
them by length, or split long ones.

## How to check

**No workers.** Feed one batch again and again for 50 steps: the step must shorten by the cost. Profile again with
workers: the calls take less than a millisecond.

**Slow workers.** Feed one batch again and again for 50 steps: the step must shorten by the cost. Then try 1, 2, 4, 8
workers and look where the step stops getting shorter.

**Workers started anew.** The process IDs of the workers stay the same over epochs, and the first step of an epoch is as
fast as the others.

**One slow sample.** Time `__getitem__` of each sample: its 99th percentile lies far above its median. With
`in_order=False` the wait disappears.
"""
