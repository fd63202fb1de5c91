"""Use case: make the report of a week, from run directories or from a Prometheus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hermes.fleet.report import messages as messages
from hermes.fleet.report import past_from_prometheus as of_prometheus
from hermes.fleet.report.document import document
from hermes.fleet.report.jobs_of_week import week_of
from hermes.inside.wire.rundir import default_root
from hermes.jobs.api import past_jobs
from hermes.model.document import Document, DocumentInput


def by_folders(
    folders: Sequence[Path], environment: Mapping[str, str], since_ns: int, until_ns: int
) -> Document:  # fmt: skip
    """The report from run directories, or from folders of run directories; by default this account's. Raises
    `InputError`."""
    places = list(folders) or [default_root(environment)]
    week = week_of(past_jobs(places, environment, since_ns, until_ns), since_ns, until_ns)
    inputs = [DocumentInput(path=str(place), role="run directories", facts={}) for place in places]
    return document(week, inputs, sampled=False)


def by_prometheus(address: str, since_ns: int, until_ns: int, within_s: float) -> Document:
    """The report from a Prometheus that scrapes the exporters. Raises `HermesError`."""
    found = of_prometheus.past_jobs(address, since_ns, until_ns, within_s)
    inputs = [DocumentInput(path=address[:200], role="Prometheus", facts={})]
    return document(week_of(found, since_ns, until_ns), inputs, sampled=True)
