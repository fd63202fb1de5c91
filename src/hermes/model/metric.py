"""Families of OpenMetrics metrics: each is declared once, then served, written to files and documented."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hermes.base.message import Word
from hermes.base.sanitize_text import harmless_line
from hermes.base.say import say

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Kind = Literal["gauge", "counter", "stateset", "info"]
_UNITS = ("bytes", "celsius", "hertz", "ratio", "seconds", "watts")
_LONGEST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFamily:
    """A metric family: what is measured, and by which labels. `word` names the metric without the prefix `hermes_`.

    A counter counts from any begin on and is served with `_total` behind its name, an info with `_info`. The states of
    a stateset are the values of a label that has the name of the family.
    """

    word: Word
    labels: tuple[str, ...]
    kind: Kind = "gauge"

    @property
    def name(self) -> str:
        """The whole name of the metric family, with `hermes_`."""
        return f"hermes_{self.word.value}"

    @property
    def served(self) -> str:
        """The name of the family's samples, as a Prometheus query spells it."""
        return self.name + {"counter": "_total", "info": "_info"}.get(self.kind, "")

    @property
    def unit(self) -> str:
        """The unit of the family's numbers; empty for a plain number."""
        last = self.word.value.rpartition("_")[2]
        return last if last in _UNITS and "_per_" not in self.word.value else ""

    @property
    def help(self) -> str:
        """The help text, in English: Prometheus keeps one text for all readers."""
        return say(self.word.message)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all labels of a sample."""
        return (*self.labels, self.name) if self.kind == "stateset" else self.labels


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSample:
    """A sample of a metric family: the values of its labels, in their order, and the number."""

    family: MetricFamily
    rows: Sequence[tuple[tuple[str, ...], float]]


def openmetrics(measured: Iterable[MetricSample]) -> str:
    """The samples in the text format of OpenMetrics 1.0, ended by `# EOF`."""
    return _written(measured, "application/openmetrics-text; version=1.0.0")


def prometheus_text(measured: Iterable[MetricSample]) -> str:
    """The samples in Prometheus' own text format, which the collector `textfile` of the node exporter reads."""
    return _written(measured, "text/plain; version=0.0.4")


def _written(measured: Iterable[MetricSample], accepted: str) -> str:
    from prometheus_client.exposition import choose_encoder

    encode, _ = choose_encoder(accepted)
    return encode(_Given(measured)).decode()


def collected(measured: Iterable[MetricSample]) -> Iterator[Metric]:
    """The families that have samples, as prometheus_client takes them."""
    from prometheus_client.core import Metric

    for one in measured:
        family = one.family
        if not one.rows:
            continue
        made = Metric(family.name, family.help, family.kind, family.unit)
        for values, number in one.rows:
            labels = {name: harmless(value) for name, value in zip(family.names, values, strict=True)}
            made.add_sample(family.served, labels, number)
        yield made


def harmless(value: str) -> str:
    """A label's value without control characters: names of jobs, groups and interfaces are untrusted."""
    return harmless_line(value[:_LONGEST])


class _Given:
    """A prometheus_client registry of samples that are already measured."""

    def __init__(self, measured: Iterable[MetricSample]) -> None:
        self._measured = measured

    def collect(self) -> Iterator[Metric]:
        """Collect all metric families that have samples."""
        return collected(self._measured)
