"""Writes msProbe's own comparison table from msProbe's dumps, by msProbe's formulas, for scripts that read that table.

Rows are paired by name, as msProbe does. Elements are compared in float64. If the golden element is 0, the smallest
step of float32 is added to both elements before the relative error is computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hermes.base.errors import InputError
from hermes.precision import recording_notes
from hermes.precision.read import msprobe
from hermes.precision.read.tensors import Files, numbers
from hermes.precision.recorded_step import RecordedValue

_TINY = 2.220446049250313e-16
_EPS = float(np.finfo(np.float32).eps)
TENSOR = ("Cosine", "EucDist", "MaxAbsErr", "MaxRelativeErr", "One Thousandth Err Ratio", "Five Thousandths Err Ratio")
STATISTICS = (
    "Max diff", "Min diff", "Mean diff", "L2norm diff", "MaxRelativeErr", "MinRelativeErr", "MeanRelativeErr",
    "NormRelativeErr",
)  # fmt: skip
Row = dict[str, str | float]
_PLAIN = ("Dtype", "Tensor Shape", "Requires_grad")
_FOUND = ("max", "min", "mean", "l2norm")


def table(golden: Path, target: Path) -> list[list[str | float]]:
    """The rows as a table with msProbe's headings, in msProbe's order of columns.

    msProbe's columns `Result`, `Err_message` and `NPU_Stack_Info` are left out: Hermes reports the same in its own
    words.
    """
    found = list(rows(golden, target))
    kinds = [names for names in (TENSOR, STATISTICS) if any(names[0] in row for row in found)]
    marks = ["NPU MD5", "BENCH MD5"] if any("NPU MD5" in row for row in found) else []
    head = [
        "NPU Name", "Bench Name", *(f"{side} {name}" for name in _PLAIN for side in ("NPU", "Bench")),
        *(name for names in kinds for name in names), *marks,
        *([] if marks else [f"{side} {name}" for side in ("NPU", "Bench") for name in _FOUND]),
        "Requires_grad Consistent",
    ]  # fmt: skip
    return [list(head), *([row.get(name, "") for name in head] for row in found)]


def rows(golden: Path, target: Path) -> Iterator[Row]:
    """A row for each tensor that both folders of one rank and step have, with the columns of its kind of dump."""
    sides = [_tensors(path) for path in (golden, target)]
    files = Files()
    for name, one in sides[1].items():
        other = sides[0].get(name)
        if other is None:
            continue
        row: Row = {"NPU Name": name, "Bench Name": name, **_facts(one[0], other[0])}
        elements = [files.bits(value) for _, value in (one, other)]
        if elements[0] is not None and elements[1] is not None and one[1].shape == other[1].shape:
            found = columns_of_elements(
                numbers(elements[0], one[1].dtype), numbers(elements[1], other[1].dtype), scalar=len(one[1].shape) == 0
            )  # fmt: skip
            row.update(zip(TENSOR, found, strict=True))
        elif "NPU MD5" not in row and elements[0] is None and elements[1] is None:
            row.update(zip(STATISTICS, _of_statistics(one[0], other[0]), strict=True))
        yield row


def _facts(target: dict[str, Any], golden: dict[str, Any]) -> Row:
    """The values that the dumps themselves record of a tensor on both sides."""
    row: Row = {}
    for side, one in (("NPU", target), ("Bench", golden)):
        row[f"{side} Dtype"] = str(one.get("dtype", ""))
        row[f"{side} Tensor Shape"] = str(one.get("shape", ""))
        row[f"{side} Requires_grad"] = str(one.get("requires_grad", "N/A"))
        for name in ("Max", "Min", "Mean", "Norm"):
            value = one.get(name)
            number = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
            key = f"{side} {'l2norm' if name == 'Norm' else name.lower()}"
            row[key] = str(value) if number is None or not math.isfinite(number) else number
        if one.get("md5"):
            row["NPU MD5" if side == "NPU" else "BENCH MD5"] = str(one["md5"])[:64]
    row["Requires_grad Consistent"] = str(target.get("requires_grad") == golden.get("requires_grad"))
    return row


def _tensors(path: Path) -> dict[str, tuple[dict[str, Any], RecordedValue]]:
    files = [file for _, _, file in msprobe.folders(path)]
    if len(files) != 1:
        raise InputError(recording_notes.NOT_ONE_DUMP, where=str(path), hint=recording_notes.GIVE_ONE_DUMP)
    folder = files[0].parent / msprobe.TENSORS
    document = msprobe.document(files[0])
    found: dict[str, tuple[dict[str, Any], RecordedValue]] = {}
    for name, entry in document["data"].items():
        if not isinstance(entry, dict):
            continue
        for place, tensor in _parts(entry):
            found[f"{name}{place}"] = (tensor, msprobe.value(tensor, 0, None, folder))
    return found


def _parts(entry: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The tensors of an entry, with the ends of their names. Entries of gradients hold a list for each parameter."""
    for part, side in (("input_args", "input"), ("input", "input"), ("output", "output")):
        for place, tensor in _named(entry.get(part), ""):
            yield f".{side}{place}", tensor
    parameters = entry.get("parameters")
    for name, tensor in parameters.items() if isinstance(parameters, dict) else ():
        for place, one in _named(tensor, ""):
            yield f".parameters.{name}{place}", one
    if not {"input_args", "input", "output", "parameters"} & set(entry):
        for name, tensors in entry.items():
            for one in tensors if isinstance(tensors, list) else ():
                for _, tensor in _named(one, ""):
                    yield f".{name}", tensor


def _named(found: Any, place: str, depth: int = 0) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(found, dict) and "shape" in found and "Tensor" in str(found.get("type")):
        yield place, found
    elif isinstance(found, list) and depth < 8:
        for at, part in enumerate(found):
            yield from _named(part, f"{place}.{at}", depth + 1)


def columns_of_elements(
    target: npt.NDArray[np.float64], golden: npt.NDArray[np.float64], *, scalar: bool = False
) -> tuple[str | float, ...]:
    """Cosine, Euclidean distance, largest absolute and relative error, shares of errors below 0.001 and 0.005."""
    fine = [np.isfinite(one) for one in (target, golden)]
    if not (fine[0].all() and fine[1].all()):
        same = np.array_equal(np.isnan(target), np.isnan(golden)) and np.array_equal(fine[0], fine[1])
        if not same:
            return ("N/A",) * 6
        target, golden = np.where(fine[0], target, 0.0), np.where(fine[1], golden, 0.0)
    difference = np.abs(target - golden)
    relative = difference / np.abs(np.where(golden == 0, _EPS, golden))
    if not len(target):
        return ("N/A",) * 6
    if scalar:
        return ("unsupported", "unsupported", float(difference.max()), float(relative.max()), *["unsupported"] * 2)
    cosine: str | float = "unsupported" if len(target) == 1 else _cosine(target, golden)
    return (
        cosine, float(np.sqrt(np.dot(difference, difference))), float(difference.max()), float(relative.max()),
        float((relative < 0.001).mean()), float((relative < 0.005).mean()),
    )  # fmt: skip


def _cosine(target: npt.NDArray[np.float64], golden: npt.NDArray[np.float64]) -> str | float:
    sizes = float(np.linalg.norm(target)), float(np.linalg.norm(golden))
    if max(sizes) <= _TINY:
        return 1.0
    if min(sizes) <= _TINY:
        return "Nan"
    cosine = float(np.dot(target / sizes[0], golden / sizes[1]))
    return round(cosine, 6) if cosine > 0.9999 else cosine


def _of_statistics(target: dict[str, Any], golden: dict[str, Any]) -> list[str | float]:
    differences: list[str | float] = []
    relative: list[str | float] = []
    for name in ("Max", "Min", "Mean", "Norm"):
        one, two = target.get(name), golden.get(name)
        if one is None and two is None:
            differences.append(0.0)
            relative.append("0")
            continue
        if not isinstance(one, (int, float)) or not isinstance(two, (int, float)):
            differences.append("unsupported")
            relative.append("unsupported")
            continue
        gap = 0.0 if one == two else float(one) - float(two)
        differences.append("Nan" if math.isnan(gap) else gap)
        if gap == 0:
            relative.append("0.0%")
        elif math.isnan(gap):
            relative.append("Nan")
        else:
            relative.append(f"{abs(gap / two) * 100}%" if two else "inf")
    return differences + relative
