"""The kind of value that an expression has, such as tensor, module or device."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.migrate.scan_model import Sure


@dataclass(frozen=True, slots=True)
class ValueKind:
    """The kind of a value.

    `name` is tensor, module, device, loader, optimizer, parser, options, stream, int, float, text or none.
    """

    name: str
    dtype: str = ""
    sure: Sure = Sure.PROVEN
