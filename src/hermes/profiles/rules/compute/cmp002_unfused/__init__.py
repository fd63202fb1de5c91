"""Kernels run one after the other where a single kernel could do their work.

## What it detects

**Elementwise kernels.** The rule counts the time of elementwise operators and reductions per step. A norm, softmax,
attention or optimizer that a library has fused does not count. The parts of an unfused layer count.

The *rows of kernels* below do not count as elementwise kernels, and neither do kernels that CMP001 finds on the wrong
core.

**Layers.** The rule finds RMSNorm, rotary embedding, SwiGLU and attention that are made of elementwise operators,
reductions and softmax. Names, shapes and equal numbers of calls tell such layers. The rule counts the time of all parts
but the longest, per step. Of attention it counts everything that works on the matrix of scores, forward and backward.
The backward pass of other layers is not recognized, and the real cost is higher.

**Rows of kernels.** The rule finds named rows of kernels on a stream. Such rows are convolution, batch norm and
activation; a product, the sum with its bias and an activation; casts around a norm; transpositions in a row. A bias is
told from a residual by its shape. The finding names casts, changes of layout and dropout between the parts, because
these keep a compiler from fusing. The rule counts the time of all kernels of a row but the longest, per step.

## Why it costs you

**Elementwise kernels.** An elementwise kernel reads a tensor, computes very little and writes a tensor: at best it is
as fast as memory. Five elementwise kernels in a row read and write the same tensor five times. One fused kernel reads
and writes the tensor once.

**Layers.** Every part reads its input from memory and writes its output back. One fused kernel keeps intermediate
results in the core.

**Rows of kernels.** Each kernel writes its result to memory and the next one reads it back, and each is launched by
itself.

## When it is not a problem

**Elementwise kernels.** A few kernels that do not follow each other are no problem. A small model may be bound by
something else.

On a job without a device, the rule needs three such calls for each product, and leaves out the framework's recurrent
layers. On a job without a device, the finding is a preview if such operators take less than half of the step. On a
processor a compiler may win two fifths of the step or lose a tenth.

**Layers.** Unfused layers are no problem if something else bounds the step. The parts may differ from the layer's
definition on purpose. Attention is left out if the program already calls the fused operator and the framework takes it
apart. The framework does so for dropout on a processor, or for a mask that no kernel takes.

**Rows of kernels.** If the host or communication bounds the step, fusing only leaves more free time. The rule is silent
if the vendor has no library of fused operators; then use a compiler. In training, a batch norm first needs the
statistics of the whole batch, and only compiled graphs fuse it.

## What to do

**Elementwise kernels.** Fuse elementwise kernels: compile the model, use the library's fused operators, write in place
where autograd keeps no copy, and use a narrower type.

**Layers.** Use the fused operator of the library, or compile the layer.

**Rows of kernels.** Use the fused operator that the finding names, or compile the graph. Move casts, changes of layout
and dropout out of the row.

## How to check

**Elementwise kernels.** Profile the same step again: there are fewer such kernels, and their time per step falls.

**Layers.** Profile the same step again: the parts of the layer are gone, and the fused kernel takes about as long as
the longest part took.

**Rows of kernels.** Profile the same step again: the row of kernels is gone, and the fused kernel takes about as long
as the longest kernel took.
"""
