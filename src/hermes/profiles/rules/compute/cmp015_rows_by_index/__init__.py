"""Rows of a table or of a graph are moved needlessly.

## What it detects

**Rows by index.** One group of operators reads rows by index (gather, index, index_select, embedding). Another group
adds rows by index (scatter_add, index_add, index_put, the backward of an embedding). Together both groups take more
than a tenth of the step, and the group that adds takes a fifth of that.

**Gradients of tables.** The rule counts operators on tensors of exactly the size of an embedding's table, except the
lookups. These operators fill the gradient with zeros, add gradients up, measure their norm and apply them. Together
these operators take more than a twentieth of the step, and the gradient is dense.

The table must be so large that a sparse gradient surely costs less. Such a table has over 262,144 numbers, and well
over 32 rows for each index of a lookup. If a processor runs the optimizer as single operators, over 8 rows suffice. A
call with a list of tensors counts by its share of elements of such tables. The rule needs shapes. PyTorch records no
shapes for lists of more than 30 tensors; the real cost is higher then.

## Why it costs you

**Rows by index.** A message for each edge of a graph, or a row for each token, is written to memory and read again
before the sum. The sums go to addresses in no order, and equal indices wait for each other.

**Gradients of tables.** A batch changes only the rows of its lookups. A dense gradient has all rows of the table. Each
step fills the gradient with zeros, reads the gradient again, and adds it to the table and to the optimizer's moments,
which hardly change.

## When it is not a problem

**Rows by index.** Moving each row once, as in the dispatch of tokens to experts, is no problem.

**Gradients of tables.** A dense gradient is right if other gradients reach all rows anyway, for example because the
table is also the output layer. The rule leaves out tables of a size that a product reads. A dense gradient is needed if
moments must decay, or weights must shrink, in rows that no batch reads.

## What to do

**Rows by index.** On a graph, sum by a product with the sparse matrix of the edges: the product reads each row in place
and writes the sum once. Sort indices before you scatter. If a batch reads few rows of a large table, look at the
gradient first: it costs more than the sums.

**Gradients of tables.** Give the embedding sparse gradients, and the table an optimizer that takes sparse gradients. If
tables are split over ranks, use a library that updates rows where it reads them: TorchRec, on Ascend the Rec SDK.

## How to check

**Rows by index.** Profile the same step again: a sparse product takes the place of gathering and scattering, and memory
falls by the messages.

**Gradients of tables.** Profile the same step again: `embedding_sparse_backward` takes the place of
`embedding_dense_backward`, and no operator on the size of the table is among the longest.
"""
