"""Defines the values of one device, as its vendor's tool reports them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Device:
    """The values that a tool reports for one device; None or an absent key means not reported. Errors are counts by
    kind."""

    maker: str
    index: str
    model: str = ""
    busy: float | None = None
    used_bytes: float | None = None
    total_bytes: float | None = None
    watts: float | None = None
    celsius: float | None = None
    hertz: float | None = None
    healthy: bool | None = None
    ecc: Mapping[str, int] = field(default_factory=dict)
    links: Mapping[str, int] = field(default_factory=dict)
