"""Metrics as OpenMetrics knows them: a family is declared once, and then served, written to files and documented."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hermes.base.foreign_text import clean
from hermes.base.message import Word
from hermes.base.say import say

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Kind = Literal["gauge", "counter", "stateset", "info"]
_UNITS = ("bytes", "celsius", "hertz", "ratio", "seconds", "watts")
_LONGEST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What is measured, and by which labels. `word` says what it is; its value is the name without `hermes_`.

    A counter counts from any begin on and is served with `_total` behind its name, an info with `_info`. The states of
    a stateset are the values of a label that has the name of the family.
    """

    word: Word
    labels: tuple[str, ...]
    kind: Kind = "gauge"

    @property
    def name(self) -> str:
        """Its whole name."""
        return f"hermes_{self.word.value}"

    @property
    def served(self) -> str:
        """The name of its samples, as a query spells it."""
        return self.name + {"counter": "_total", "info": "_info"}.get(self.kind, "")

    @property
    def unit(self) -> str:
        """What its numbers are in; empty for a plain number."""
        last = self.word.value.rpartition("_")[2]
        return last if last in _UNITS and "_per_" not in self.word.value else ""

    @property
    def help(self) -> str:
        """What it is. Prometheus keeps one text for all readers: it is English."""
        return say(self.word.message)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all labels of a sample."""
        return (*self.labels, self.name) if self.kind == "stateset" else self.labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The numbers of a family: the values of its labels, in their order, and the number."""

    family: Family
    rows: Sequence[tuple[tuple[str, ...], float]]


def openmetrics(measured: Iterable[Measured]) -> str:
    """The text format of OpenMetrics 1.0, ended by its `# EOF`."""
    return _written(measured, "application/openmetrics-text; version=1.0.0")


def prometheus_text(measured: Iterable[Measured]) -> str:
    """Prometheus' own text format, which the collector `textfile` of the node exporter reads."""
    return _written(measured, "text/plain; version=0.0.4")


def _written(measured: Iterable[Measured], accepted: str) -> str:
    from prometheus_client.exposition import choose_encoder

    encode, _ = choose_encoder(accepted)
    return encode(_Given(measured)).decode()


def collected(measured: Iterable[Measured]) -> Iterator[Metric]:
    """The families that have numbers, as prometheus_client takes them."""
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
    """The value of a label: whoever names a job, a group or an interface may have named it anything."""
    return clean(value[:_LONGEST])


class _Given:
    """A registry of what was measured already."""

    def __init__(self, measured: Iterable[Measured]) -> None:
        self._measured = measured

    def collect(self) -> Iterator[Metric]:
        """All families."""
        return collected(self._measured)
