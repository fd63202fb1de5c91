"""Declares the readings of stages, balance and the spread over ranks that symptoms of cases compare."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.model.job import JobMeasures
from hermes.model.structure_measures import Balance, Pipeline, RankMatrix
from hermes.model.symptom import Value, ratio, reading

METRICS = (
    "window", "compute", "exposed communication", "exposed copy", "free", "wait in communication", "transfer",
    "idle in communication", "transfer beside compute", "link speed", "tokens", "expert tokens",
)  # fmt: skip
"""Metrics of the rank matrix."""

ratio(
    Balance,
    "balance.imbalance",
    "largest rank over the mean, less one",
    "imbalance",
    by="what",
    of=("tokens", "expert tokens"),
)
ratio(
    Balance,
    "balance.correlation",
    "of that load with compute time",
    "correlation",
    unit="ratio",
    by="what",
    of=("tokens", "expert tokens"),
)


def _pipeline(name: str, meaning: str, field: str) -> None:
    """Declare a reading of a field of the pipeline; zero for a job that has no pipeline."""

    @reading(name, meaning, f"pipeline.{field}")
    def read(measures: JobMeasures, of: str) -> Iterator[Value]:
        line = measures.rows(Pipeline).only
        value = getattr(line, field) if line else 0.0
        if value is not None and measures.job.steps.ranks:
            yield value


_pipeline("pipeline.bubble", "waiting for another stage with nothing computed", "bubble_share")
_pipeline("pipeline.structural", "bubble that the schedule costs in any case", "structural_share")
_pipeline("pipeline.imbalance", "compute of the slowest stage over the mean, less one", "imbalance")


@reading(
    "ranks.spread", "largest less smallest rank over the median, of a metric",
    "rank_matrix.metrics[].most rank_matrix.metrics[].least rank_matrix.metrics[].median", unit="ratio", of=METRICS,
)  # fmt: skip
def _spread(measures: JobMeasures, of: str) -> Iterator[Value]:
    matrix = measures.rows(RankMatrix).only
    for metric in matrix.metrics if matrix else ():
        own = metric.spread
        if metric.name == of and own.median and own.ranks > 1:
            yield (own.most - own.least) / own.median
