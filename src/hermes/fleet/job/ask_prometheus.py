"""A client of Prometheus' HTTP interface: plain GET requests; answers are bounded and checked."""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

from hermes.base.errors import HermesError, InputError
from hermes.fleet.job import messages

T = TypeVar("T")
_LARGEST = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """The labels of a series that Prometheus keeps of an exporter."""

    labels: Mapping[str, str]

    @property
    def host(self) -> str:
        """The name of the exporter in Prometheus: its host."""
        return self.labels.get("instance", "")[:120]

    @property
    def job(self) -> str:
        """The job's name on its host."""
        return self.labels.get("job_name", "")[:120]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(Labelled):
    """A number of an exporter, and the time of the query by the clock of Prometheus."""

    moment: float
    value: float

    @property
    def metric(self) -> str:
        """The name of the sample's metric family."""
        return self.labels.get("__name__", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Series(Labelled):
    """Numbers of an exporter over time: times in seconds since 1970, and values."""

    points: list[tuple[float, float]]


def query(address: str, what: str, within_s: float, at_s: float | None = None) -> list[Sample]:
    """The samples of a query, now or at a given time: labels, time and value. Raises `HermesError`."""
    asked = {"query": what} | ({} if at_s is None else {"time": f"{at_s:.0f}"})
    return _answered(address, "query", asked, within_s, _sample)


def query_range(
    address: str, what: str, within_s: float, *, since_s: float, until_s: float, every_s: int
) -> list[Series]:  # fmt: skip
    """Labels and points of each series, a point every `every_s` seconds. Raises `HermesError`."""
    asked = {"query": what, "start": f"{since_s:.0f}", "end": f"{until_s:.0f}", "step": str(every_s)}
    return _answered(address, "query_range", asked, within_s, _series)


def _answered(
    address: str, kind: str, asked: Mapping[str, str], within_s: float, made: Callable[[Any], T | None]
) -> list[T]:  # fmt: skip
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError as broken:
        raise InputError(messages.no_prometheus(why=str(broken)), where="--prometheus") from broken
    if parts.scheme not in ("http", "https") or not host or parts.username is not None:
        raise InputError(messages.no_prometheus(why=address[:100]), where="--prometheus", hint=messages.DO_PROMETHEUS)
    path = f"{parts.path.rstrip('/')}/api/v1/{kind}?{urlencode(asked)}"
    try:
        found = json.loads(_get(parts.scheme, host, port, path, within_s))["data"]["result"]
        return [row for one in found if (row := made(one)) is not None]
    except (OSError, http.client.HTTPException) as refused:
        raise HermesError(messages.no_prometheus(why=str(refused)[:100]), where=address[:100]) from refused
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as garbled:
        why = type(garbled).__name__
        raise HermesError(messages.no_prometheus(why=why), where=address[:100]) from garbled


def _get(scheme: str, host: str, port: int | None, path: str, within_s: float) -> bytes:
    connection: http.client.HTTPConnection
    if scheme == "https":
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(host, port, timeout=within_s, context=context)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=within_s)
    with contextlib.closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read(_LARGEST + 1)
        if answer.status != 200 or len(text) > _LARGEST:
            raise OSError(f"HTTP {answer.status}, {len(text)} bytes")
        return text


def _sample(one: Any) -> Sample | None:
    labels, (moment, value) = _labels(one), map(float, one["value"])
    return Sample(labels=labels, moment=moment, value=value) if math.isfinite(value) and math.isfinite(moment) else None


def _series(one: Any) -> Series:
    points = [(float(moment), float(value)) for moment, value in one["values"]]
    return Series(labels=_labels(one), points=[pair for pair in points if all(map(math.isfinite, pair))])


def _labels(one: Any) -> dict[str, str]:
    return {str(key): str(value) for key, value in one["metric"].items()}
