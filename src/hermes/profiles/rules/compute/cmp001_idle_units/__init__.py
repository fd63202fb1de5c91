"""Kernels leave units of the chip without work.

## What it detects

**Products.** Products, convolutions and attention run on the matrix units. The rule counts the time that they take
beyond 80 % of their roof, per step. If the capture has pipe counters, these decide: a pipe that is busy for 80 % of the
time bounds its kernel. Otherwise the roofline decides, from shapes, types and the chip's peak. Operators without a
formula are left out.

**Other kernels.** For all other kernels, the rule counts the time in which cores had no block to work on. The rule adds
the time of kernels in which no pipe was busy for 80 % of the time. Both times are per step, and are compared with the
window and with the time of all kernels. Pipes need counters (Ascend from Level1 with aic_metrics).

**The wrong core.** Some devices have vector cores beside their matrix cores. On such devices, kernels of elementwise
operators, reductions and norms should not run on a matrix core (`AI_CORE`, or a mixed kernel that the matrix core
leads). The rule counts the time of such kernels per step. Mixed kernels that vector cores lead (`MIX_AIV`) do not
count.

## Why it costs you

**Products.** Matrix units make up nearly all of a chip's speed. At half of the roof, half of the time goes to waiting
for data, to tiles that are not full, or to starting and ending.

**Other kernels.** A kernel of 8 blocks uses 8 of 48 vector cores and takes six times as long as it could. A core whose
pipes all wait for each other does nothing in that time.

**The wrong core.** The matrix cores have half as many vector units as the device has vector cores. While a matrix core
works on vectors, no product can run on that core.

## When it is not a problem

**Products.** Small products cannot reach the roof: a step of a small model is bound by something else. On some chips no
library reaches the peak of the data sheet. For AMD, Hermes takes what a library was measured to reach.

**Other kernels.** Tiny kernels cannot fill a chip. The cure for tiny kernels is fewer and larger kernels, not faster
ones.

**The wrong core.** A device with only one kind of core has no wrong core. A kernel may need both kinds of cores, such
as a product with a fused activation.

## What to do

**Products.** Give a product more rows: fold batch and sequence into rows, or use larger micro-batches. Make inner axes
fit the tiles (CMP007). Batch small products of equal shape. Let the library search for an algorithm or tiles.

**Other kernels.** Fuse small operators into one (foreach, fused or compiled), use larger batches, and tune the tiles of
the longest kernels.

**The wrong core.** Find out why the operator's kernel was compiled for that core. Usual causes are an older library, a
type that the vector kernel does not take, or a dynamic shape. Change the cause, or write the operator for the vector
core.

## How to check

**Products.** Profile the same step again: the operators' share of their roof rises, and their time per step falls.

**Other kernels.** Profile the same step again: blocks reach the number of cores, and the kernels' time falls.

**The wrong core.** Profile again at Level1: the core of these operators is `AI_VECTOR_CORE`.
"""
