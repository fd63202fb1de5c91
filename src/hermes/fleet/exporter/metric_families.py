"""Declares the metric families of a host, its devices and the exporter; `jobs` declares the families of jobs."""

from __future__ import annotations

from hermes.base.message import Word
from hermes.jobs.api import metrics
from hermes.model.metric import MetricFamily


class HostMetric(Word):
    """The metric families of a host: their names without `hermes_`."""

    PRESSURE = "host_pressure_seconds"
    MEMORY = "host_memory_bytes"
    OOM_KILLS = "host_oom_kills"
    NETWORK_BYTES = "network_bytes"
    NETWORK_PACKETS = "network_packets"
    NETWORK_ERRORS = "network_errors"
    NETWORK_DROPS = "network_drops"
    CARRIER_CHANGES = "network_carrier_changes"
    NETWORK_UP = "network_up"
    NETWORK_SPEED = "network_speed_bytes_per_second"
    SENT_SEGMENTS = "tcp_sent_segments"
    RETRANSMITTED = "tcp_retransmitted_segments"
    RDMA_BYTES = "rdma_bytes"
    RDMA_EVENTS = "rdma_events"
    RDMA_UP = "rdma_up"
    RDMA_SPEED = "rdma_speed_bytes_per_second"


class DeviceMetric(Word):
    """The metric families of a device, as its vendor's tool reports the values."""

    DEVICE = "device"
    BUSY = "device_busy_ratio"
    MEMORY = "device_memory_bytes"
    POWER = "device_power_watts"
    TEMPERATURE = "device_temperature_celsius"
    CLOCK = "device_clock_hertz"
    HEALTHY = "device_healthy"
    ECC_ERRORS = "device_ecc_errors"
    LINK_ERRORS = "device_link_errors"


class ExporterMetric(Word):
    """The metric families of the exporter itself."""

    EXPORTER = "exporter"
    SOURCE_UP = "exporter_source_up"
    LEFT_OUT = "exporter_left_out_rows"
    JOB_COMMAND = "job_command"


_INTERFACE, _DIRECTION = ("interface",), ("interface", "direction")
_PORT, _DEVICE = ("device", "port"), ("maker", "device")

PRESSURE = MetricFamily(word=HostMetric.PRESSURE, kind="counter", labels=("resource", "share"))
MEMORY = MetricFamily(word=HostMetric.MEMORY, labels=("kind",))
OOM_KILLS = MetricFamily(word=HostMetric.OOM_KILLS, kind="counter", labels=())
NETWORK_BYTES = MetricFamily(word=HostMetric.NETWORK_BYTES, kind="counter", labels=_DIRECTION)
NETWORK_PACKETS = MetricFamily(word=HostMetric.NETWORK_PACKETS, kind="counter", labels=_DIRECTION)
NETWORK_ERRORS = MetricFamily(word=HostMetric.NETWORK_ERRORS, kind="counter", labels=_DIRECTION)
NETWORK_DROPS = MetricFamily(word=HostMetric.NETWORK_DROPS, kind="counter", labels=_DIRECTION)
CARRIER_CHANGES = MetricFamily(word=HostMetric.CARRIER_CHANGES, kind="counter", labels=_INTERFACE)
NETWORK_UP = MetricFamily(word=HostMetric.NETWORK_UP, labels=_INTERFACE)
NETWORK_SPEED = MetricFamily(word=HostMetric.NETWORK_SPEED, labels=_INTERFACE)
SENT_SEGMENTS = MetricFamily(word=HostMetric.SENT_SEGMENTS, kind="counter", labels=())
RETRANSMITTED = MetricFamily(word=HostMetric.RETRANSMITTED, kind="counter", labels=())
RDMA_BYTES = MetricFamily(word=HostMetric.RDMA_BYTES, kind="counter", labels=(*_PORT, "direction"))
RDMA_EVENTS = MetricFamily(word=HostMetric.RDMA_EVENTS, kind="counter", labels=(*_PORT, "event"))
RDMA_UP = MetricFamily(word=HostMetric.RDMA_UP, labels=_PORT)
RDMA_SPEED = MetricFamily(word=HostMetric.RDMA_SPEED, labels=_PORT)
OF_HOST = (
    PRESSURE, MEMORY, OOM_KILLS, NETWORK_BYTES, NETWORK_PACKETS, NETWORK_ERRORS, NETWORK_DROPS, CARRIER_CHANGES,
    NETWORK_UP, NETWORK_SPEED, SENT_SEGMENTS, RETRANSMITTED, RDMA_BYTES, RDMA_EVENTS, RDMA_UP, RDMA_SPEED,
)  # fmt: skip

DEVICE = MetricFamily(word=DeviceMetric.DEVICE, kind="info", labels=(*_DEVICE, "model"))
BUSY = MetricFamily(word=DeviceMetric.BUSY, labels=_DEVICE)
DEVICE_MEMORY = MetricFamily(word=DeviceMetric.MEMORY, labels=(*_DEVICE, "kind"))
POWER = MetricFamily(word=DeviceMetric.POWER, labels=_DEVICE)
TEMPERATURE = MetricFamily(word=DeviceMetric.TEMPERATURE, labels=_DEVICE)
CLOCK = MetricFamily(word=DeviceMetric.CLOCK, labels=_DEVICE)
HEALTHY = MetricFamily(word=DeviceMetric.HEALTHY, labels=_DEVICE)
ECC_ERRORS = MetricFamily(word=DeviceMetric.ECC_ERRORS, kind="counter", labels=(*_DEVICE, "kind"))
LINK_ERRORS = MetricFamily(word=DeviceMetric.LINK_ERRORS, kind="counter", labels=(*_DEVICE, "kind"))
OF_DEVICE = (DEVICE, BUSY, DEVICE_MEMORY, POWER, TEMPERATURE, CLOCK, HEALTHY, ECC_ERRORS, LINK_ERRORS)

EXPORTER = MetricFamily(word=ExporterMetric.EXPORTER, kind="info", labels=("version",))
SOURCE_UP = MetricFamily(word=ExporterMetric.SOURCE_UP, labels=("source",))
LEFT_OUT = MetricFamily(word=ExporterMetric.LEFT_OUT, labels=())
JOB_COMMAND = MetricFamily(word=ExporterMetric.JOB_COMMAND, kind="info", labels=("job_name", "command"))
OF_EXPORTER = (EXPORTER, SOURCE_UP, LEFT_OUT, JOB_COMMAND)


def groups() -> tuple[tuple[MetricFamily, ...], ...]:
    """Every metric family that the exporter may serve: of jobs, of the host, of devices, of the exporter itself."""
    return metrics.FAMILIES, OF_HOST, OF_DEVICE, OF_EXPORTER
