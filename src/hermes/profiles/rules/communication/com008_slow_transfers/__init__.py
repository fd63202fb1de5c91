"""Transfers take longer than their links need.

## What it detects

**Slow links.** The rule counts exposed transfers that take longer than they need, per step. The rule looks for three
things:

- One link is slower than other links of the same kind. Transfers of the same size in the same step are compared. The
  link must be slower more often than chance explains, or take 1.5 times as long each time. Waiting and stalls are left
  out.
- Ranks of one host use RDMA, RoCE or PCIe, although other pairs of the host use direct links. A finding about indirect
  links is a preview.
- Operations of at least a megabyte reach less than 80 % of the rated speed of their links, after the last arrival. This
  comparison applies only to chips with known links, and to groups without a slow link.

**Stalls.** The rule finds transfers that take at least ten times their usual time, and a millisecond more. The rule
counts the extra time per step. If the capture does not record single transfers, whole operations are compared.

## Why it costs you

**Slow links.** A collective over several links ends with its slowest link, on all ranks. Half of a link's speed doubles
the transfer. Direct links are several times as fast as a network card or the PCIe bus.

**Stalls.** A lost packet is sent again only after a timeout. Every rank of the collective waits during the timeout.

## When it is not a problem

**Slow links.** Slow transfers are no problem if compute hides them. Links may differ by design, as two hops instead of
one, or boards without direct links. Protocols take a part of the speed, and few algorithms use all links at once.

**Stalls.** A stall may happen once in a long capture, such as when a connection is opened, or in the first step after a
start.

## What to do

**Slow links.** Measure a slow pair of devices alone, look at the port's error counters, and repair cable, port or
switch. Unset the switches that turn direct links off, and give each container all devices of a group. Otherwise let the
library choose its algorithm, and give the communicator buffers as large as the messages. Look at the findings for small
operations (COM004), unaligned sizes (COM005) and contention (COM006).

**Stalls.** Look at the error and pause counters of the stalled network port. Repair link, optics, flow control or
congestion; a shorter timeout only hides the fault.

## How to check

**Slow links.** Profile the same step again: the link is as fast as the others. Run HCCL test or nccl-tests with the
same ranks and sizes: if the test is fast, the job is the cause, else the machine.

**Stalls.** Profile the same step again: no transfer stalls, and the counters stand still.
"""
