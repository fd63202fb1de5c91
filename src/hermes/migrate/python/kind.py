"""What is known of the value of an expression."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.migrate.model import Sure


@dataclass(frozen=True, slots=True)
class Kind:
    """`name` is tensor, module, device, loader, optimizer, parser, options, stream, int, float, text or none."""

    name: str
    dtype: str = ""
    sure: Sure = Sure.PROVEN
