"""Rows as bytes and back: dataclasses of Hermes with numbers, texts, tuples and frames. Nothing is ever unpickled."""

from __future__ import annotations

import base64
import importlib
import io
import json
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from hermes.model.finding import Blame

_PLAIN = (str, int, float, bool, type(None))
_NAMES: dict[type, tuple[str, ...]] = {}
# The rooms whose classes may stand in what was kept.
_ROOMS = ("hermes.model.", "hermes.knowledge.", "hermes.profiles.", "hermes.base.")


def dumps(value: object) -> bytes:
    """A value as bytes; raises `TypeError` for one that `loads` could not give back as it was."""
    return json.dumps(_told(value), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def loads(raw: bytes) -> Any:
    """What `dumps` was given; raises `ValueError` for anything else."""
    try:
        return _made(json.loads(raw.decode("utf-8", "surrogatepass")))
    except (
        LookupError,
        TypeError,
        AttributeError,
        ImportError,
        UnicodeError,
        OSError,
        pl.exceptions.PolarsError,
    ) as wrong:
        raise ValueError(f"these bytes are no rows: {wrong}") from wrong


def _told(value: object) -> object:
    if type(value) in _PLAIN:
        return value
    if type(value) is tuple:
        return [_told(one) for one in value]
    if isinstance(value, Blame):
        return {"b": [str(value), value.kind, value.rank]}
    if isinstance(value, Enum) and type(value).__module__.startswith(_ROOMS):
        return {"e": f"{type(value).__module__}:{type(value).__qualname__}", "v": value.name}
    if isinstance(value, Mapping):
        return {"m": [[_told(key), _told(one)] for key, one in value.items()]}
    if isinstance(value, frozenset):
        return {"s": [_told(one) for one in sorted(value)]}
    if isinstance(value, Path):
        return {"p": str(value)}
    if isinstance(value, pl.DataFrame):
        whole = io.BytesIO()
        value.rechunk().write_ipc(whole, compression="zstd")
        return {"f": base64.b64encode(whole.getvalue()).decode("ascii")}
    kind = type(value)
    if is_dataclass(value) and kind.__module__.startswith(_ROOMS):
        return {
            "c": f"{kind.__module__}:{kind.__qualname__}",
            "v": [_told(getattr(value, name)) for name in _names(kind)],
        }
    raise TypeError(f"{kind.__qualname__} is no part of a row")


def _made(told: Any) -> Any:
    if type(told) is str:
        # Thousands of ranks name the same operators: each name is held once.
        return sys.intern(told)
    if type(told) in _PLAIN:
        return told
    if type(told) is list:
        return tuple(map(_made, told))
    if "b" in told:
        return Blame(*told["b"])
    if "e" in told:
        return _class(told["e"], Enum)[told["v"]]
    if "c" in told:
        kind = _class(told["c"])
        return kind(**dict(zip(_names(kind), map(_made, told["v"]), strict=True)))
    if "m" in told:
        return {_made(key): _made(one) for key, one in told["m"]}
    if "f" in told:
        return pl.read_ipc(io.BytesIO(base64.b64decode(told["f"])))
    return frozenset(map(_made, told["s"])) if "s" in told else Path(told["p"])


def _names(kind: Any) -> tuple[str, ...]:
    if kind not in _NAMES:
        _NAMES[kind] = tuple(one.name for one in fields(kind))
    return _NAMES[kind]


@cache
def _class(name: str, base: type = object) -> Any:
    """A dataclass, or an enumeration, of the rooms that may be kept."""
    module, _, kind = name.partition(":")
    if not module.startswith(_ROOMS):
        raise KeyError(name)
    found = getattr(importlib.import_module(module), kind)
    if not (isinstance(found, type) and (issubclass(found, Enum) if base is Enum else is_dataclass(found))):
        raise KeyError(name)
    return found
