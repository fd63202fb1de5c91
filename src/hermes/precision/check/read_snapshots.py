"""Reads setup snapshots of Hermes and packs of msProbe; such files are not trusted, and nothing is unpacked to disk."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

from hermes.base.errors import InputError
from hermes.inside.record.layout import SNAPSHOT
from hermes.precision.check import messages as say

_LARGEST = 256 << 20
_DATASET = re.compile(r"dataset/step(\d+)/rank(\d+)/dataset\.json")
_WEIGHTS = re.compile(r"weights/step(\d+)/rank(\d+)/weight\.json")


def read(path: Path) -> dict[str, Any]:
    """The content of a snapshot or pack; raises `InputError` if the file is neither."""
    try:
        with zipfile.ZipFile(path) as file:
            names = {one.filename: one for one in file.infolist()}
            if "snapshot.json" in names:
                return _own(_json(file, names["snapshot.json"]), path)
            if "env" in names or "pip" in names or any(_WEIGHTS.fullmatch(name) for name in names):
                return _pack(file, names)
    except (OSError, zipfile.BadZipFile, ValueError, RecursionError, NotImplementedError, RuntimeError) as broken:
        raise InputError(say.unreadable(reason=str(broken)[:200]), where=str(path)) from broken
    raise InputError(say.NO_SNAPSHOT, where=str(path), hint=say.WRITE_ONE)


def _own(found: Any, path: Path) -> dict[str, Any]:
    if not isinstance(found, dict) or found.get("format") != SNAPSHOT:
        raise InputError(say.OTHER_FORMAT, where=str(path))
    kinds = {
        "environment": dict,
        "packages": dict,
        "parameters": dict,
        "batches": list,
        "loaders": list,
        "optimizers": list,
    }
    for name, kind in kinds.items():
        if not isinstance(found.setdefault(name, kind()), kind):
            raise InputError(say.wrong_part(part=name), where=str(path))
    return found


def _bytes(file: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    if info.file_size > _LARGEST:
        raise ValueError(f"{info.filename} is larger than 256 MB")
    with file.open(info) as part:
        text = part.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise ValueError(f"{info.filename} is larger than it says")
    return text


def _json(file: zipfile.ZipFile, info: zipfile.ZipInfo) -> Any:
    return json.loads(_bytes(file, info))


def _pack(file: zipfile.ZipFile, names: dict[str, zipfile.ZipInfo]) -> dict[str, Any]:
    """A pack of msProbe, with its entries named as in a snapshot."""
    found: dict[str, Any] = {"format": "msprobe", "parameters": {}, "batches": [], "loaders": [], "optimizers": []}
    found["environment"] = _strings(_json(file, names["env"])) if "env" in names else {}
    lines = _bytes(file, names["pip"]).decode("utf-8", "replace").splitlines() if "pip" in names else []
    pairs = [line.partition("=") for line in lines]
    found["packages"] = {
        name.strip().lower().replace("_", "-"): version.strip("= ") for name, _, version in pairs if name
    }
    hyper = {}
    for name, info in sorted(names.items()):
        if name.startswith("hyperparameters/") and name.endswith(".json"):
            hyper.update(_flat(_json(file, info)))
        elif _WEIGHTS.fullmatch(name) and not found["parameters"]:
            found["parameters"] = {
                key: {"statistics": value} for key, value in _flat_tensors(_json(file, info)).items()
            }
        elif _DATASET.fullmatch(name):
            entries = [{"statistics": value} for value in _flat_tensors(_json(file, info)).values()]
            found["batches"].append({"model": "", "tensors": entries})
    found["hyperparameters"] = hyper
    if "random/rank0.json" in names:
        found["draws"] = _flat(_json(file, names["random/rank0.json"]))
    return found


def _strings(found: Any) -> dict[str, str]:
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def _flat(found: Any, before: str = "", depth: int = 0) -> dict[str, Any]:
    if not isinstance(found, dict) or depth > 12:
        return {before: found}
    flat: dict[str, Any] = {}
    for name, part in found.items():
        flat.update(_flat(part, f"{before}.{name}" if before else str(name), depth + 1))
    return flat


_STATISTICS = {"max", "min", "mean", "norm"}


def _flat_tensors(found: Any, before: str = "", depth: int = 0) -> dict[str, Any]:
    if not isinstance(found, dict) or depth > 12:
        return {}
    if set(found) >= _STATISTICS:
        return {before: {name: found[name] for name in sorted(_STATISTICS)}}
    flat: dict[str, Any] = {}
    for name, part in found.items():
        flat.update(_flat_tensors(part, f"{before}.{name}" if before else str(name), depth + 1))
    return flat
