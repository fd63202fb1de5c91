"""Sends rows between machines that do not trust each other: JSON alone, and each field is checked against its type.

Frames are sent as columns of JSON and not as Arrow, whose compression would hide their real size. Nothing is unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import polars as pl

from hermes.model.finding import Blame
from hermes.store import serialize_rows

T = TypeVar("T")
_PLAIN = (str, int, float, bool, type(None))
_KINDS: Mapping[str, Any] = {
    str(one): one
    for one in (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.Float32,
                pl.Float64, pl.Boolean, pl.String, pl.Null, pl.List(pl.Int64), pl.List(pl.String))
}  # fmt: skip
"""The Polars column types that may be sent between machines."""


def value_as_json(value: object) -> str:
    """A value as JSON text; raises `TypeError` for a value that `value_from_json` could not restore exactly."""
    return json.dumps(serialize_rows.row_as_json(value, _columns), ensure_ascii=False, separators=(",", ":"))


def value_from_json(text: str, kind: Any) -> Any:
    """The value from the JSON text of `told`, if each field has its declared type. Raises `ValueError` otherwise.

    If `kind` is None, any value of Hermes is accepted: only for text from a trusted process.
    """
    try:
        found = serialize_rows.row_from_json(json.loads(text), _frame)
    except (*serialize_rows.WRONG, RecursionError, OverflowError) as wrong:
        raise ValueError(f"this is no row: {wrong}") from wrong
    if kind is not None and not fits(found, kind):
        raise ValueError(f"this is no {getattr(kind, '__name__', kind)}")
    return found


def fits(value: object, hint: Any) -> bool:
    """Whether a value has a type, as annotations of dataclasses write it, down to the last field."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any or hint is object:
        return type(value) in _PLAIN or (is_dataclass(value) and fits(value, type(value)))
    if origin is Union or origin is UnionType:
        return any(fits(value, one) for one in arguments)
    if origin is Literal:
        return type(value) in _PLAIN and value in arguments
    if origin is not None:
        return _fits_inside(value, origin, arguments)
    if is_dataclass(hint):
        return type(value) is hint and all(fits(getattr(value, name), one) for name, one in _hints(hint).items())
    if hint is float:
        return type(value) in (float, int)
    return type(value) is hint or (issubclass(hint, (Enum, Path, Blame)) and isinstance(value, hint))


def _fits_inside(value: object, origin: Any, arguments: tuple[Any, ...]) -> bool:
    if isinstance(value, tuple) and issubclass(tuple, origin):
        if arguments[-1] is Ellipsis or origin is not tuple:
            return all(fits(one, arguments[0]) for one in value)
        return len(value) == len(arguments) and all(map(fits, value, arguments))
    if isinstance(value, frozenset) and issubclass(frozenset, origin):
        return all(fits(one, arguments[0]) for one in value)
    if isinstance(value, dict) and issubclass(dict, origin):
        return all(fits(key, arguments[0]) and fits(one, arguments[1]) for key, one in value.items())
    return False


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    hints = get_type_hints(kind)
    return {name: hints[name] for name in serialize_rows.field_names(kind)}


def _columns(frame: pl.DataFrame) -> object:
    for kind in frame.dtypes:
        if str(kind) not in _KINDS:
            raise TypeError(f"a column of {kind} is no part of a row")
    return {"t": [[one.name, str(one.dtype), one.to_list()] for one in frame.get_columns()]}


def _frame(told: Mapping[str, Any]) -> pl.DataFrame:
    return pl.DataFrame([pl.Series(name, values, dtype=_KINDS[kind], strict=True) for name, kind, values in told["t"]])
