"""Converts rows of declared measures into JSON values: exact milliseconds, finite numbers, and valid UTF-8 text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from hermes.model.declare import Column, Kind, columns_of


def ms(ns: int | None) -> float | None:
    """Nanoseconds as milliseconds; `round(ms * 1e6)` gives back the nanoseconds."""
    # The division is rounded once, so the shortest text of the result still gives the exact nanosecond.
    return None if ns is None else ns / 1_000_000


def us(ns: int | None) -> float | None:
    """Nanoseconds as microseconds; `round(us * 1e3)` gives back the nanoseconds."""
    return None if ns is None else ns / 1_000


def finite(value: float | None) -> float | None:
    """The value if it is finite, else None."""
    return value if value is not None and math.isfinite(value) else None


def maybe(text: str | None) -> str | None:
    """The text without lone surrogates, or None."""
    return None if text is None else text_of(text)


def texts(many: Iterable[str]) -> list[str]:
    """Each text without lone surrogates."""
    return [text_of(text) for text in many]


def text_of(text: str) -> str:
    """The text without lone surrogates, which UTF-8 cannot encode."""
    # A path or a name with broken bytes holds lone surrogates, which UTF-8 cannot encode.
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace") if not text.isprintable() else text


def plain_value(value: Any) -> Any:
    """A plain value for JSON: text, number, flag, None, or a tuple of such values."""
    if isinstance(value, str):
        return text_of(value)
    if isinstance(value, float):
        return finite(value)
    return [plain_value(item) for item in value] if isinstance(value, tuple) else value


def clear_json_values(value: Any) -> Any:
    """JSON values with every text free of lone surrogates."""
    if isinstance(value, str):
        return text_of(value)
    if isinstance(value, dict):
        return {name: clear_json_values(one) for name, one in value.items()}
    return [clear_json_values(one) for one in value] if isinstance(value, list) else value


_WRITERS: dict[Kind, Callable[[Any], Any]] = {"ns": ms, "us": us}


def row_document(row: Any) -> dict[str, object]:
    """A declared row as JSON values, by the JSON keys of its columns."""
    made: dict[str, object] = {}
    for name, write in _writers(row.__class__):
        write(made, getattr(row, name))
    return made


@cache
def _writers(kind: type) -> tuple[tuple[str, Callable[[dict[str, object], Any], None]], ...]:
    return tuple((column.name, _writer(column)) for column in columns_of(kind))


def _writer(column: Column) -> Callable[[dict[str, object], Any], None]:
    key, prefix = column.key, column.prefix
    if prefix is not None:

        def beside(made: dict[str, object], value: Any) -> None:
            made.update({f"{prefix}{name}": one for name, one in row_document(value).items()})

        return beside
    turned = _turned(column)

    def alone(made: dict[str, object], value: Any) -> None:
        made[key] = None if value is None else turned(value)

    return alone


def _turned(column: Column) -> Callable[[Any], Any]:
    """The function that converts a value of this column, other than None, into a JSON value."""
    if column.keys:
        # A part named `ns` is a duration.
        parts = [("ms", ms) if name == "ns" else (name, plain_value) for name in column.keys]

        def tuples(value: Any) -> Any:
            return [{name: write(one) for (name, write), one in zip(parts, row, strict=True)} for row in value]

        return tuples
    if column.row is not None:
        return _nested
    raw = column.kind == "ns" and column.key == column.name
    return plain_value if raw else _WRITERS.get(column.kind, plain_value)


def _nested(value: Any) -> Any:
    return [row_document(one) for one in value] if isinstance(value, tuple) else row_document(value)
