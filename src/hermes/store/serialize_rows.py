"""Converts rows to bytes and back: dataclasses with numbers, texts, tuples and frames. Nothing is ever unpickled."""

from __future__ import annotations

import base64
import importlib
import io
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from hermes.model.finding import Blame

_PLAIN = (str, int, float, bool, type(None))
_NAMES: dict[type, tuple[str, ...]] = {}
# The packages of Hermes whose classes may be restored from stored bytes.
_ROOMS = ("hermes.model.", "hermes.knowledge.", "hermes.profiles.", "hermes.base.")


WRONG = (
    LookupError, TypeError, AttributeError, ImportError, UnicodeError, OSError, ValueError, pl.exceptions.PolarsError,
)  # fmt: skip
"""The exceptions that restoring anything but rows may raise."""


def dumps(value: object) -> bytes:
    """A value as bytes; raises `TypeError` for a value that `loads` could not restore exactly."""
    whole = row_as_json(value, _arrow)
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def loads(raw: bytes) -> Any:
    """The value that `dumps` converted; raises `ValueError` for any other bytes."""
    try:
        return row_from_json(json.loads(raw.decode("utf-8", "surrogatepass")), _of_arrow)
    except WRONG as wrong:
        raise ValueError(f"these bytes are no rows: {wrong}") from wrong


def row_as_json(value: object, frame: Callable[[pl.DataFrame], object]) -> object:
    """A value as plain JSON values; `frame` converts the frames in it."""
    if type(value) in _PLAIN:
        return value
    if type(value) is tuple:
        return [row_as_json(one, frame) for one in value]
    if isinstance(value, Blame):
        return {"b": [str(value), value.kind, value.rank]}
    if isinstance(value, Enum) and type(value).__module__.startswith(_ROOMS):
        return {"e": f"{type(value).__module__}:{type(value).__qualname__}", "v": value.name}
    if isinstance(value, Mapping):
        return {"m": [[row_as_json(key, frame), row_as_json(one, frame)] for key, one in value.items()]}
    if isinstance(value, frozenset):
        return {"s": [row_as_json(one, frame) for one in sorted(value)]}
    if isinstance(value, Path):
        return {"p": str(value)}
    if isinstance(value, pl.DataFrame):
        return frame(value)
    kind = type(value)
    if is_dataclass(value) and kind.__module__.startswith(_ROOMS):
        return {
            "c": f"{kind.__module__}:{kind.__qualname__}",
            "v": [row_as_json(getattr(value, name), frame) for name in field_names(kind)],
        }
    raise TypeError(f"{kind.__qualname__} is no part of a row")


def row_from_json(whole: Any, frame: Callable[[Mapping[str, Any]], pl.DataFrame]) -> Any:
    """The value that `row_as_json` describes; `frame` makes frames. Raises an error of `WRONG` for anything else."""
    if type(whole) is str:
        # Thousands of ranks name the same operators: each name is held in memory once.
        return sys.intern(whole)
    if type(whole) in _PLAIN:
        return whole
    if type(whole) is list:
        return tuple([row_from_json(one, frame) for one in whole])
    if "b" in whole:
        return Blame(*whole["b"])
    if "e" in whole:
        return _class(whole["e"], Enum)[whole["v"]]
    if "c" in whole:
        kind = _class(whole["c"])
        return kind(**dict(zip(field_names(kind), (row_from_json(one, frame) for one in whole["v"]), strict=True)))
    if "m" in whole:
        return {row_from_json(key, frame): row_from_json(one, frame) for key, one in whole["m"]}
    if "f" in whole or "t" in whole:
        return frame(whole)
    return frozenset(row_from_json(one, frame) for one in whole["s"]) if "s" in whole else Path(whole["p"])


def _arrow(value: pl.DataFrame) -> object:
    whole = io.BytesIO()
    value.rechunk().write_ipc(whole, compression="zstd")
    return {"f": base64.b64encode(whole.getvalue()).decode("ascii")}


def _of_arrow(whole: Mapping[str, Any]) -> pl.DataFrame:
    return pl.read_ipc(io.BytesIO(base64.b64decode(whole["f"])))


def field_names(kind: Any) -> tuple[str, ...]:
    """The fields of a dataclass, in order."""
    if kind not in _NAMES:
        _NAMES[kind] = tuple(one.name for one in fields(kind))
    return _NAMES[kind]


@cache
def _class(name: str, base: type = object) -> Any:
    """A dataclass or an enumeration with this name, from the packages that may be restored."""
    module, _, kind = name.partition(":")
    if not module.startswith(_ROOMS):
        raise KeyError(name)
    found = getattr(importlib.import_module(module), kind)
    if not (isinstance(found, type) and (issubclass(found, Enum) if base is Enum else is_dataclass(found))):
        raise KeyError(name)
    return found
