"""The public names of `fleet` for commands and web pages; each name is imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.base.lazy_imports import lazy_names

if TYPE_CHECKING:
    from hermes.fleet.check import check_node as check_node
    from hermes.fleet.exporter import address as address
    from hermes.fleet.exporter import messages as messages
    from hermes.fleet.exporter import metric_families as metric_families
    from hermes.fleet.exporter.exporter import DEVICES_S as DEVICES_S
    from hermes.fleet.exporter.exporter import LOOK_S as LOOK_S
    from hermes.fleet.exporter.exporter import Exporter as Exporter
    from hermes.fleet.exporter.otlp import Push as Push
    from hermes.fleet.exporter.serve import Server as Server
    from hermes.fleet.exporter.serve import served as served
    from hermes.fleet.hosts.choose_transport import HostChoice as HostChoice
    from hermes.fleet.hosts.choose_transport import refuse_places as refuse_places
    from hermes.fleet.hosts.choose_transport import transport_of as transport_of
    from hermes.fleet.hosts.transport import Transport as Transport
    from hermes.fleet.job import automatic_capture as automatic_capture
    from hermes.fleet.job import capture_on_hosts as capture_on_hosts
    from hermes.fleet.job import capture_report as capture_report
    from hermes.fleet.job import host_activity as host_activity
    from hermes.fleet.job import stacks as stacks
    from hermes.fleet.job import status as status
    from hermes.fleet.job import status_from_prometheus as status_from_prometheus
    from hermes.fleet.job import straggler_host as straggler_host
    from hermes.fleet.job.status import JobsPicture as JobsPicture
    from hermes.fleet.probe import host_pairs as host_pairs
    from hermes.fleet.probe import probe as probe
    from hermes.fleet.report import report as report

_HOMES = {
    "DEVICES_S": "hermes.fleet.exporter.exporter",
    "LOOK_S": "hermes.fleet.exporter.exporter",
    "Exporter": "hermes.fleet.exporter.exporter",
    "JobsPicture": "hermes.fleet.job.status",
    "HostChoice": "hermes.fleet.hosts.choose_transport",
    "Push": "hermes.fleet.exporter.otlp",
    "Server": "hermes.fleet.exporter.serve",
    "Transport": "hermes.fleet.hosts.transport",
    "automatic_capture": "hermes.fleet.job.automatic_capture",
    "capture_on_hosts": "hermes.fleet.job.capture_on_hosts",
    "capture_report": "hermes.fleet.job.capture_report",
    "check_node": "hermes.fleet.check.check_node",
    "address": "hermes.fleet.exporter.address",
    "metric_families": "hermes.fleet.exporter.metric_families",
    "messages": "hermes.fleet.exporter.messages",
    "host_activity": "hermes.fleet.job.host_activity",
    "straggler_host": "hermes.fleet.job.straggler_host",
    "host_pairs": "hermes.fleet.probe.host_pairs",
    "probe": "hermes.fleet.probe.probe",
    "status_from_prometheus": "hermes.fleet.job.status_from_prometheus",
    "report": "hermes.fleet.report.report",
    "stacks": "hermes.fleet.job.stacks",
    "status": "hermes.fleet.job.status",
    "transport_of": "hermes.fleet.hosts.choose_transport",
    "refuse_places": "hermes.fleet.hosts.choose_transport",
    "served": "hermes.fleet.exporter.serve",
}

__getattr__ = lazy_names(__name__, _HOMES)
