"""Pushes the metrics to an OpenTelemetry collector with OpenTelemetry's own libraries, over HTTP or gRPC."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.util import find_spec
from ipaddress import ip_address
from typing import Any
from urllib.parse import SplitResult, urlsplit

from hermes.base.errors import HermesError, InputError
from hermes.fleet.exporter import messages
from hermes.fleet.exporter.exporter import Exporter
from hermes.fleet.exporter.metric_families import groups
from hermes.model.metric import MetricFamily, harmless

_SCHEMES = ("http", "https", "grpc", "grpcs")
_UNITS = {"bytes": "By", "celsius": "Cel", "hertz": "Hz", "ratio": "1", "seconds": "s", "watts": "W"}
"""Units in the spelling of UCUM, which OpenTelemetry asks for."""


class Push:
    """A pusher that sends an exporter's samples every `period_s` seconds, until it is closed. Undelivered samples are
    dropped."""

    def __init__(self, exporter: Exporter, address: str, *, plain: bool, period_s: float) -> None:
        """`plain` allows unencrypted addresses of other hosts. Raises `HermesError`."""
        where = parsed(address, plain=plain)
        for needed in ("opentelemetry.sdk", "opentelemetry.exporter.otlp"):
            if not _installed(needed):
                raise HermesError(messages.no_otlp(missing=needed), hint=messages.DO_INSTALL_OTLP)
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource

        reader = PeriodicExportingMetricReader(
            _sender(where), export_interval_millis=period_s * 1e3, export_timeout_millis=10_000
        )
        self._provider = MeterProvider([reader], resource=Resource.create({"service.name": "hermes-exporter"}),
                                       shutdown_on_exit=False)  # fmt: skip
        meter = self._provider.get_meter("hermes")
        for family in (one for group in groups() for one in group):
            make = meter.create_observable_counter if family.kind == "counter" else meter.create_observable_gauge
            make(family.served.removesuffix("_total"), [_reader(exporter, family)], _UNITS.get(family.unit, ""),
                 family.help)  # fmt: skip

    def close(self) -> None:
        """Push a last time, and stop the pusher."""
        self._provider.shutdown(timeout_millis=2_000)


def parsed(address: str, *, plain: bool) -> SplitResult:
    """Parses `http(s)://HOST:PORT[/PATH]` or `grpc(s)://…`; `plain` allows remote clear text. Raises `InputError`."""
    try:
        where = urlsplit(address)
        sound = where.scheme in _SCHEMES and bool(where.hostname) and where.port != 0 and not where.username
    except ValueError:
        sound = False
    if not sound:
        raise InputError(messages.otlp_address(text=address[:60]), where="--otlp")
    if where.scheme in ("http", "grpc") and not plain and not _here(where.hostname or ""):
        raise InputError(messages.OTLP_IN_THE_CLEAR, where="--otlp", hint=messages.DO_ENCRYPT_OTLP)
    return where


def _here(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _sender(where: SplitResult) -> Any:
    if where.scheme in ("grpc", "grpcs"):
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as ByGrpc

        return ByGrpc(endpoint=where.netloc, insecure=where.scheme == "grpc")
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as ByHttp

    path = where.path if where.path not in ("", "/") else "/v1/metrics"
    return ByHttp(endpoint=f"{where.scheme}://{where.netloc}{path}")


def _reader(exporter: Exporter, family: MetricFamily) -> Callable[[Any], Iterable[Any]]:
    """A callback that returns the samples of a metric family to OpenTelemetry."""

    def read(_options: object) -> Iterable[Any]:
        from opentelemetry.metrics import Observation

        for one in exporter.measured():
            if one.family == family:
                for values, number in one.rows:
                    labels = zip(family.names, map(harmless, values), strict=True)
                    yield Observation(number, dict(labels))

    return read
