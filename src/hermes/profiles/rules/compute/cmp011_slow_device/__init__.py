"""A device computes more slowly than the other devices of the job.

## What it detects

**The same operators.** One rank needs longer than the median rank for operators with the same shapes and types. The
extra time is per step, and is compared with the window and with the time of the rank's kernels. Only operators that
several ranks have count; two ranks are compared with each other. Jobs that compute on processors are left out: other
work shares their cores, and another rank may be slow in the next step.

**Its clock.** The rule counts the time that kernels lost because the AI Core clock was too low while they ran, per step
and rank. The reference is the chip's rated clock, or the highest clock of any rank on the same chip.

## Why it costs you

**The same operators.** Every collective ends when its last member arrives. A rank that computes slower makes all others
wait as long.

**Its clock.** A kernel that computes needs a fixed number of cycles. One rank with a lower clock delays all other
ranks.

## When it is not a problem

**The same operators.** A slow rank costs nothing if another rank is slower still, and the other ranks wait for that
one.

**Its clock.** The clock falls by design while nothing runs; only time inside kernels counts here. A power cap may be
set on purpose.

## What to do

**The same operators.** Look for a difference of the slow rank: a low clock, heat, another process on the device,
another software version. Move the rank to another device to see whether the slowness stays with the device.

**Its clock.** Check whether the device is hot, capped or broken. Repair cooling or power, and leave the node out until
the repair.

## How to check

**The same operators.** Profile all ranks on the same step again: equal operators take equally long, and no rank waits
for the formerly slow rank.

**Its clock.** Profile the same step again: the clock stays at its rated value, and equal operators take as long as on
other ranks.
"""
