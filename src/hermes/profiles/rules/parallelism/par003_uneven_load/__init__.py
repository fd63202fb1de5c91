"""Ranks have unequal work.

## What it detects

**Tokens.** Ranks of a data-parallel group get unequal numbers of tokens, as the shapes of their embeddings show. The
rank with the most tokens computes longer than its peers, in proportion. The loss is its compute beyond their median,
per step.

With samples of varying length, a different rank has the most tokens in every step. The loss is then the compute of the
slowest rank beyond the mean of all ranks, averaged over steps. The loss is at most the time in which ranks wait for
each other. If tokens are unknown and the job has no experts, the operations of products, convolutions and attention
count instead.

**Experts.** The ranks of an expert-parallel group get unequal numbers of rows in the grouped products of their experts,
by more than a fifth of the mean. The loss is the compute of the rank with the most rows beyond the median of its peers,
per step.

## Why it costs you

**Tokens.** All ranks wait for the rank with the most work before they reduce gradients.

**Experts.** The all-to-all that returns tokens ends only when the busiest expert is done.

## When it is not a problem

**Tokens.** Unequal numbers of tokens are no problem if the work per token balances them, such as images beside text.
The correlation of tokens with compute shows whether it does.

**Experts.** Uneven experts are usual in the first steps, before the router has learned, and in a group with very few
tokens.

## What to do

**Tokens.** Distribute samples over ranks by their cost, pack sequences to equal length, or sort across ranks.

**Experts.** Balance the router with a loss, replicate hot experts, or move experts between ranks.

## How to check

**Tokens.** Profile the same steps again: ranks have similar numbers of tokens, and no longer wait.

**Experts.** Profile the same step again: ranks have similar numbers of tokens, and wait less in all-to-all.
"""
