"""Reads `truths.toml`: the causes planted in each training program."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PATH = Path(__file__).with_name("truths.toml")
Row = TypeVar("Row")


def rows(section: str, row: Callable[..., Row]) -> tuple[Row, ...]:
    """The rows of one section of `truths.toml`, made by `row` of their fields; lists become tuples."""
    truths: Mapping[str, Mapping[str, Any]] = tomllib.loads(PATH.read_text("utf-8"))[section]
    return tuple(
        row(name=name, **{key: _frozen(value) for key, value in fields.items()}) for name, fields in truths.items()
    )


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
