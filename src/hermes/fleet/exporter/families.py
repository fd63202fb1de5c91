"""The families of metrics of a host, of its devices and of the exporter itself; those of jobs stand with the jobs."""

from __future__ import annotations

from hermes.base.message import Word
from hermes.jobs.api import metrics
from hermes.model.metric import Family


class HostMetric(Word):
    """Families of a host: their names without `hermes_`."""

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
    """Families of a device, as its maker's tool tells them."""

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
    """Families of the exporter itself."""

    EXPORTER = "exporter"
    SOURCE_UP = "exporter_source_up"
    LEFT_OUT = "exporter_left_out_rows"
    JOB_COMMAND = "job_command"


_INTERFACE, _DIRECTION = ("interface",), ("interface", "direction")
_PORT, _DEVICE = ("device", "port"), ("maker", "device")

PRESSURE = Family(word=HostMetric.PRESSURE, kind="counter", labels=("resource", "share"))
MEMORY = Family(word=HostMetric.MEMORY, labels=("kind",))
OOM_KILLS = Family(word=HostMetric.OOM_KILLS, kind="counter", labels=())
NETWORK_BYTES = Family(word=HostMetric.NETWORK_BYTES, kind="counter", labels=_DIRECTION)
NETWORK_PACKETS = Family(word=HostMetric.NETWORK_PACKETS, kind="counter", labels=_DIRECTION)
NETWORK_ERRORS = Family(word=HostMetric.NETWORK_ERRORS, kind="counter", labels=_DIRECTION)
NETWORK_DROPS = Family(word=HostMetric.NETWORK_DROPS, kind="counter", labels=_DIRECTION)
CARRIER_CHANGES = Family(word=HostMetric.CARRIER_CHANGES, kind="counter", labels=_INTERFACE)
NETWORK_UP = Family(word=HostMetric.NETWORK_UP, labels=_INTERFACE)
NETWORK_SPEED = Family(word=HostMetric.NETWORK_SPEED, labels=_INTERFACE)
SENT_SEGMENTS = Family(word=HostMetric.SENT_SEGMENTS, kind="counter", labels=())
RETRANSMITTED = Family(word=HostMetric.RETRANSMITTED, kind="counter", labels=())
RDMA_BYTES = Family(word=HostMetric.RDMA_BYTES, kind="counter", labels=(*_PORT, "direction"))
RDMA_EVENTS = Family(word=HostMetric.RDMA_EVENTS, kind="counter", labels=(*_PORT, "event"))
RDMA_UP = Family(word=HostMetric.RDMA_UP, labels=_PORT)
RDMA_SPEED = Family(word=HostMetric.RDMA_SPEED, labels=_PORT)
OF_HOST = (
    PRESSURE, MEMORY, OOM_KILLS, NETWORK_BYTES, NETWORK_PACKETS, NETWORK_ERRORS, NETWORK_DROPS, CARRIER_CHANGES,
    NETWORK_UP, NETWORK_SPEED, SENT_SEGMENTS, RETRANSMITTED, RDMA_BYTES, RDMA_EVENTS, RDMA_UP, RDMA_SPEED,
)  # fmt: skip

DEVICE = Family(word=DeviceMetric.DEVICE, kind="info", labels=(*_DEVICE, "model"))
BUSY = Family(word=DeviceMetric.BUSY, labels=_DEVICE)
DEVICE_MEMORY = Family(word=DeviceMetric.MEMORY, labels=(*_DEVICE, "kind"))
POWER = Family(word=DeviceMetric.POWER, labels=_DEVICE)
TEMPERATURE = Family(word=DeviceMetric.TEMPERATURE, labels=_DEVICE)
CLOCK = Family(word=DeviceMetric.CLOCK, labels=_DEVICE)
HEALTHY = Family(word=DeviceMetric.HEALTHY, labels=_DEVICE)
ECC_ERRORS = Family(word=DeviceMetric.ECC_ERRORS, kind="counter", labels=(*_DEVICE, "kind"))
LINK_ERRORS = Family(word=DeviceMetric.LINK_ERRORS, kind="counter", labels=(*_DEVICE, "kind"))
OF_DEVICE = (DEVICE, BUSY, DEVICE_MEMORY, POWER, TEMPERATURE, CLOCK, HEALTHY, ECC_ERRORS, LINK_ERRORS)

EXPORTER = Family(word=ExporterMetric.EXPORTER, kind="info", labels=("version",))
SOURCE_UP = Family(word=ExporterMetric.SOURCE_UP, labels=("source",))
LEFT_OUT = Family(word=ExporterMetric.LEFT_OUT, labels=())
JOB_COMMAND = Family(word=ExporterMetric.JOB_COMMAND, kind="info", labels=("job_name", "command"))
OF_EXPORTER = (EXPORTER, SOURCE_UP, LEFT_OUT, JOB_COMMAND)


def groups() -> tuple[tuple[Family, ...], ...]:
    """Every family that the exporter may serve: of jobs, of the host, of devices, of the exporter itself."""
    return metrics.FAMILIES, OF_HOST, OF_DEVICE, OF_EXPORTER
