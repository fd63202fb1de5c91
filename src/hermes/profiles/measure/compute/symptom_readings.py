"""Declares the readings of compute that symptoms of cases compare."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.model.compute_measures import KindCost, OperatorCost, StepCompute
from hermes.model.job import JobMeasures
from hermes.model.symptom import Value, ratio, reading, text

CLASSES = (
    "matmul", "batched matmul", "convolution", "attention", "attention backward", "normalisation", "softmax",
    "elementwise", "reduction", "pooling", "optimizer", "embedding", "indexing", "copy", "cast", "transpose",
    "format conversion", "other",
)  # fmt: skip
"""Classes of operators."""

ratio(
    KindCost,
    "compute.class_share",
    "a class of operators in the time of all kernels",
    "share",
    by="kind",
    of=CLASSES,
    absent=0.0,
)
ratio(
    KindCost,
    "compute.roof_share",
    "least time at the roof over time taken, of a class",
    "roof_share",
    by="kind",
    of=CLASSES,
)
text(
    OperatorCost, "compute.limit", "the lower roof of the longest operator: `compute` or `memory`", "limit", first=True
)
text(
    OperatorCost,
    "compute.precision",
    "type whose rate counts for the longest product, such as `fp32`",
    "precision",
    first=True,
)
ratio(StepCompute, "compute.ai_cpu_share", "kernels on AI CPU, of all kernels", "ai_cpu_ns", "kernel_ns")
ratio(StepCompute, "compute.cast_share", "conversions between types", "cast_ns", "kernel_ns")
ratio(StepCompute, "compute.transpose_share", "copies that change the order of elements", "transpose_ns", "kernel_ns")
ratio(StepCompute, "compute.conversion_share", "conversions between storage formats", "conversion_ns", "kernel_ns")
ratio(
    StepCompute,
    "compute.frequency_share",
    "lost because the clock was below its rated one",
    "losses.frequency_ns",
    "kernel_ns",
)
ratio(
    StepCompute, "compute.blocks_share", "lost because cores had no block to work on", "losses.blocks_ns", "kernel_ns"
)
ratio(
    StepCompute,
    "compute.pipe_share",
    "lost because no pipe of the core was busy for 80 % of the time",
    "losses.pipe_ns",
    "kernel_ns",
)
ratio(
    StepCompute,
    "compute.unaligned_share",
    "products with an axis that is no multiple of the chip's tile",
    "unaligned_ns",
    "kernel_ns",
)
ratio(
    StepCompute,
    "compute.recompute_share",
    "work done a second time by activation checkpoints",
    "recompute_ns",
    "kernel_ns",
)
ratio(
    StepCompute,
    "compute.over_peers_share",
    "what equal operators took beyond the median rank",
    "over_peers_ns",
    "kernel_ns",
)


@reading("compute.mfu", "model FLOPs utilisation", "steps[].mfu")
def _mfu(measures: JobMeasures, of: str) -> Iterator[Value]:
    """The model FLOPs utilisation of each rank's typical step."""
    known = {(row.rank, row.step): row.mfu for row in measures.rows(StepCompute)}
    for split in measures.job.steps.typical_of_each:
        mfu = known.get((split.rank, split.step))
        if mfu is not None:
            yield mfu
