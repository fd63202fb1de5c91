"""Ranks wait for one rank.

## What it detects

**In collectives.** Ascend records each wait inside a collective, with the rank that is awaited. On other platforms the
start times of a collective tell which rank arrived last, as exactly as the clocks allow. The rule compares the time in
which a rank waits for one peer, per step, with the window, and names the peer. Ascend's waits run at the same time, and
the longest one counts; otherwise their sum counts. On Ascend the peer need not have been captured.
If the members of all groups of the two ranks are inferred from the operations, the confidence is lower.

**In fused kernels.** Some kernels compute and communicate: a product with its all-reduce, or the dispatch of tokens to
experts. Fused kernels count as compute, and no collective shows their waiting. All ranks leave such a kernel together,
and the rank that came last has the shortest call. The rule counts how much longer the calls of a rank are than the
shortest, per step. The rule names the rank that came last most often, and needs several ranks of a group.

## Why it costs you

**In collectives.** A collective ends only after its last member has arrived. Each of the other ranks loses the time of
its wait.

**In fused kernels.** The kernel runs on every other rank until the last rank has arrived. The cores of the waiting
ranks are busy with waiting.

## When it is not a problem

**In collectives.** Around checkpoints and evaluation, and in the first steps after a start, ranks arrive unevenly
without a lasting cause. A chain of waits can pass a delay on: the awaited rank may itself have waited for another.

Even among equal ranks, one rank always arrives last by chance. With two captured steps or more, a rank is blamed only
if it is late by more than steps differ anyway, or if it is last more often than chance. Otherwise the waiting counts as
noise, and no rank is blamed. A rank that computes on a processor shares its cores with other programs. On a processor a
rank is blamed only if it is last more often than chance, or if one function explains half of the wait and slowed down
more than the rest.

In a pipeline, stages wait for each other by design. The PAR rules judge waits for ranks of another stage.

**In fused kernels.** Around checkpoints and in the first steps, ranks enter a fused kernel unevenly without a lasting
cause. A rank that comes last in only a few calls is no straggler: other ranks come last as often.

## What to do

**In collectives.** Read what the finding says about the awaited rank. If the rank computes longer than its peers, see
CMP011 and PAR003. If its device waits for its host, look at that host. On a processor, the finding says whether the
rank has more operations to compute. If the awaited rank was not captured, profile it on the same step.

**In fused kernels.** Look at the clock, the tokens and the host of the named rank. Other findings that blame this rank
say why it is late.

## How to check

**In collectives.** Profile the awaited rank together with a waiting rank: the awaited rank must no longer arrive last.

**In fused kernels.** Profile the same ranks again: the same call takes equally long on all ranks.
"""
