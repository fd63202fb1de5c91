"""Stages of a pipeline wait for each other.

## What it detects

**What is measured.** First, the rule measures how much longer the slowest stage computes than the mean of all stages,
per step. Second, it measures the share of the step in which stages wait for each other. A schedule of p stages and m
micro-batches cannot avoid (p - 1) / (m + p - 1) of the step. Only waits beyond this share and beyond the effect of the
slowest stage count.

**What the schedule makes.** The schedule itself has a bubble of (p - 1) / (m + p - 1) of the step for p stages and m
micro-batches. The rule reports this bubble if the capture also shows such waits.

## Why it costs you

**What is measured.** A pipeline is as fast as its slowest stage; all others wait in their receives. If neither the
schedule nor uneven stages explain the waits, sends and receives are slow, or a host is late.

**What the schedule makes.** While the pipeline fills and drains, some stages are idle. With as many micro-batches as
stages, this is nearly half of the step.

## When it is not a problem

**What is measured.** Waits are no problem if the slow stage holds a part that cannot be split (embedding, logits), and
the difference is below noise. If Hermes cannot count the micro-batches, it compares only the stages. Interleaved
schedules have smaller bubbles than the formula says, and the rule understates their loss.

**What the schedule makes.** You cannot avoid the bubble if memory or the global batch allows no more micro-batches, and
you have tried virtual stages.

## What to do

**What is measured.** Give the slow stage fewer layers, and count embedding and loss as layers. If the stages are equal,
see whether one rank is slow (CMP011, COM002), and how long sends and receives take.

**What the schedule makes.** Use more micro-batches, fewer stages, or virtual stages.

## How to check

**What is measured.** Profile the same step again: all stages compute equally long, and the bubble is close to that of
the schedule.

**What the schedule makes.** Profile the same step again: the bubble is as small as the formula says for the new p and
m.
"""
