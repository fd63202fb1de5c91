"""Kernels only change the form of tensors.

## What it detects

**Formats.** The rule counts the time of kernels that only change the memory format of a tensor: TransData between ND,
NZ and NC1HWC0 on Ascend, NCHW to NHWC inside cuDNN. The time is per step, and is compared with the window and with the
time of all kernels.

**Casts.** The rule counts the time of casts (Cast on Ascend, copies between types on CUDA) per step, against the window
and against the time of all kernels. Weights that are kept in 8 bits are unpacked: a cast from int8 to floating point,
then a multiplication by scales. Multiplications by scales count too, if they have the same shape and as many calls. If
most casts narrow float64, and no other operator works on float64 of that shape, then the batches or a table of the
model are float64.

**Copies in another order.** The rule counts the time of kernels that only change the order of elements: Transpose,
AsStrided, ViewCopy on Ascend, copies within one type on CUDA. The time is per step, and is compared with the window and
with the time of all kernels.

On a processor, elementwise operators are slow if their inputs lie in different orders, such as a permuted view and a
contiguous tensor. If the profiler records strides, the rule counts their extra time. The comparison is the same
operator, or one with as many inputs, on tensors of similar size in one order. Inputs that all share an order, such as
channels last, and expanded inputs do not count.

## Why it costs you

**Formats.** Each conversion reads and writes a whole tensor and computes nothing. Operators that need different formats
force such conversions again and again.

**Casts.** A cast reads and writes a whole tensor and computes nothing. Mixed precision needs some casts; operators that
fall back to float32 between others in bfloat16 add pairs of casts.

**Copies in another order.** A copy into another order reads with strides, far below the bandwidth of memory, writes a
whole tensor and computes nothing. An operator whose inputs have different orders reads one input with strides, without
vector instructions.

## When it is not a problem

**Formats.** Convolutions may gain more from their format than the conversions cost. Only a run with the other setting
shows which costs less.

**Casts.** Casts of weights once a step are part of mixed precision with float32 master weights. If memory has no room
for unpacked weights, unpacking is the price.

**Copies in another order.** A copy may save more time in later operators than it costs, such as one transposition
before several products.

## What to do

**Formats.** On Ascend, switch internal formats off, or convert frozen weights once; on CUDA, keep model and input in
channels last.

**Casts.** Keep one type within a module, use fused operators that convert inside, and keep buffers and constants in the
type they are used in. Let workers hand over the type that the step computes in, or bytes. Unpack weights that do not
learn once, before training.

**Copies in another order.** Choose a layout that needs no transposition (attention with BSND or BNSD input as it
comes). Call contiguous once at the entrance, and fuse permute with view.

## How to check

**Formats.** Profile the same step again: TransData (or nchwToNhwc) is gone from the table of kernels, and the step is
shorter.

**Casts.** Profile the same step again: time of casts per step falls; the loss stays the same.

**Copies in another order.** Profile the same step again: time of transpositions and strided copies per step falls, and
operators on views take as long as on contiguous tensors.
"""
